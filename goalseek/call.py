"""How a provider is asked: prompt, brief and nonce in files of this call, and a way to start its program."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from goalseek.brief import NOTHING_MORE, make_brief, prompt, what_is_left
from goalseek.calls import Calls
from goalseek.manifest import Manifest
from goalseek.patience import wait
from goalseek.providers.provider import Call
from goalseek.run import Run, Setting
from goalseek.seat import Seat
from goalseek.told import past_try
from goalseek.values import Context, PastTry, Plan, Usage
from goalseek.workspace import Workspace


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
    history = tuple(past_try(record, verify) for record in run.recent if record.epoch == epoch)
    left = what_is_left(setting.manifest.limits, run.standing.of_run(run.run_id))
    return Briefing(context, history, make_brief(context, history, setting.manifest, left))


def call_for(
    run: Run,
    setting: Setting,
    briefing: Briefing,
    phase: str,
    plan: Plan | None,
    calls: Calls,
    more: Mapping[str, str] = NOTHING_MORE,
    label: str = "",
) -> Call:
    """One question to the provider, in the workspace. A program that it starts is among ``calls`` before it starts.

    ``more`` is what only this phase's prompt speaks of. Questions with another ``label`` have another nonce and HOME.
    """
    manifest, context, brief = setting.manifest, briefing.context, briefing.brief
    nonce = run.seal.digest("nonce", run.run_id, str(context.iteration), phase, *filter(None, (label,)))[:6].upper()
    text = prompt(phase, context, manifest, brief, nonce, plan, more)
    workspace = run.workspace(setting)
    folder = workspace.root / run.places.prefix
    seat = Seat(
        run,
        manifest,
        workspace.root,
        folder,
        label=f"{run.run_id} {context.iteration} {label}".rstrip(),
        prompt=text,
        brief=json.dumps(brief, indent=1) + "\n",
        given=given_for(manifest, context, phase, nonce),
        phase=run.last_phase,
        calls=calls,
    )

    def again(why: str, usage: Usage) -> None:
        run.watch.note(why)
        calls.failed(why, usage)
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
        is_same_home=seat.is_same_home,
        read_home=seat.read_home,
        secrets=seat.secrets,
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
