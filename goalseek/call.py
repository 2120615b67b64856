"""How a provider is asked: prompt, brief and nonce in files of this call, and a way to start its program."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalseek.brief import make_brief, what_is_left
from goalseek.calls import Calls
from goalseek.ledger.artifacts import write_prompt
from goalseek.ledger.checkpoints import named
from goalseek.manifest.tables import Manifest
from goalseek.patience import wait
from goalseek.phase_values import Context, PastTry, Plan
from goalseek.project.project import Run
from goalseek.project.setting import Setting
from goalseek.prompt import Judged, Problem, make_prompt
from goalseek.providers.provider import Call
from goalseek.recording import recorder
from goalseek.sandbox.environment import passed_credentials
from goalseek.sandbox.redaction import Secrets
from goalseek.seat import Seat
from goalseek.told import past_try
from goalseek.values import Usage
from goalseek.workspace.workspace import Workspace


@dataclass(frozen=True)
class Briefing:
    """What the proposals of one iteration are made from, gathered once."""

    context: Context
    history: tuple[PastTry, ...]
    brief: dict[str, Any]


def briefing_for(run: Run, setting: Setting, context: Context) -> Briefing:
    """The briefing of an iteration: its context, what was tried under this ruler, and the brief of both."""
    epoch = run.standing.epoch
    verify = setting.manifest.verify
    records = [record for record in run.recent if record.epoch == epoch]
    if context.best_iteration not in [record.iteration for record in records]:
        best = run.ledger.history.iteration(context.best_iteration)
        records += [best] if best else []
    history = tuple(past_try(record, verify) for record in records)
    left = what_is_left(setting.manifest.limits, run.standing.of_run(run.run_id))
    return Briefing(context, history, make_brief(context, history, setting.manifest, left))


def call_for(
    run: Run,
    setting: Setting,
    briefing: Briefing,
    phase: str,
    plan: Plan | None,
    calls: Calls,
    run_folder: Path,
    number: int = 1,
    problem: Problem | None = None,
    judged: Judged | None = None,
) -> Call:
    """One question to the provider, in the workspace. A program that it starts is among ``calls`` before it starts.

    It is the ``number``-th of its phase in the iteration; ``problem`` is what was wrong with the answer before,
    ``judged`` what a review is about. Its prompt is written to the run folder. A reviewer has another HOME.
    """
    manifest, context, brief = setting.manifest, briefing.context, briefing.brief
    name = named(phase, number)
    nonce = run.seal.digest("nonce", run.run_id, str(context.iteration), name)[:6].upper()
    secrets = Secrets()
    for table in (manifest.env.verify, manifest.env.agent):  # what a crash printed may hold one
        secrets.add_variables(passed_credentials(table))
    made = make_prompt(setting.templates, phase, context, manifest, brief, nonce, plan, problem, judged)
    text = secrets.hidden_text(made)
    write_prompt(run_folder, name, text)
    workspace = run.workspace(setting)
    folder = workspace.root / run.places.prefix
    seat = Seat(
        run,
        manifest,
        workspace.root,
        folder,
        label=f"{run.run_id} {context.iteration}{' review' if judged else ''}",
        prompt=text,
        brief=brief,
        given=given_for(manifest, context, phase, nonce),
        is_review=judged is not None,
        phase=run.last_phase,
        calls=calls,
        secrets=secrets,
    )

    def again(why: str, usage: Usage) -> None:
        run.watch.note(why)
        calls.failed(run.last_phase, why, usage)
        workspace.clean()

    return Call(
        phase=phase,
        context=context,
        history=briefing.history,
        folder=folder,
        writable=workspace.remembered("writable", lambda: _writable(run, setting, workspace)),
        prompt=text,
        brief=brief,
        nonce=nonce,
        metric=manifest.metric.name,
        direction=manifest.metric.direction,
        start=seat.start,
        usage_file=seat.files / "usage.json",
        prompt_file=seat.files / "prompt.md",
        home_at=run.confines.home_at(seat.home.path),
        confined=run.confines.level.name != "none",
        wait=lambda seconds, why: wait(run, manifest.limits, seconds, why),
        again=again,
        session=seat.session,
        went=calls.went,
        read_home=seat.read_home,
        secrets=seat.secrets,
        name=name,
        keep=recorder(run, context.iteration, name, text, seat.secrets),
    )


def given_for(manifest: Manifest, context: Context, phase: str, nonce: str) -> dict[str, str]:
    """The contract's variables for a provider, but those that name files."""
    return {
        "GOALSEEK_ITERATION": str(context.iteration),
        "GOALSEEK_PHASE": phase,
        "GOALSEEK_NONCE": nonce,
        "GOALSEEK_METRIC": manifest.metric.name,
        "GOALSEEK_DIRECTION": manifest.metric.direction,
        "GOALSEEK_INCUMBENT": repr(context.incumbent_value),
    }


def _writable(run: Run, setting: Setting, workspace: Workspace) -> tuple[str, ...]:
    """The existing files that the provider may edit, as it names them."""
    cut, kind = len(run.places.prefix), setting.scope.kind
    return tuple(path[cut:] for path in workspace.tree.entries if kind(path) == "writable")
