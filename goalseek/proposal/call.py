"""Calls to a provider: the briefing of an iteration, the ``Call`` with prompt, brief and nonce, and its recording."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from msgspec import Struct, structs

from goalseek.errors import Rejected
from goalseek.files import write_atomic
from goalseek.ledger.artifacts import write_prompt
from goalseek.ledger.checkpoints import CheckpointName
from goalseek.ledger.standing import PROVIDER_FAILED, Standing
from goalseek.manifest.tables import Manifest
from goalseek.phase_values import Context, Edit, PastIteration, Rejection
from goalseek.project.config import Config
from goalseek.project.limits import dollars_left, seconds_left
from goalseek.project.project import Project
from goalseek.proposal.brief import make_brief
from goalseek.proposal.launch import AgentLaunch
from goalseek.proposal.past_tries import read_history
from goalseek.proposal.prompt import Request, go_on_prompt, make_prompts
from goalseek.proposal.usage import UsageLog
from goalseek.proposal.watch import wait
from goalseek.providers.provider import Call, Reply
from goalseek.providers.replay import Recording, file_name
from goalseek.sandbox.environment import credentials_in_manifest
from goalseek.sandbox.redaction import Redactor
from goalseek.values import Usage


class Briefing(Struct, frozen=True):
    """What all calls of one iteration are made from: its context, the past tries, and the brief of both.

    A program is written to ``usage_log`` before it starts, a prompt to ``run_folder``. ``standing`` is that at which
    the workspace stands.
    """

    project: Project
    config: Config
    context: Context
    history: tuple[PastIteration, ...]
    brief: dict[str, Any]
    usage_log: UsageLog
    run_folder: Path
    standing: Standing

    def at(self, standing: Standing) -> Briefing:
        """The same for a workspace that stands at a later incumbent: another change was kept meanwhile."""
        assert standing.incumbent and standing.best
        incumbent, best = standing.incumbent, standing.best.value
        context = structs.replace(
            self.context, incumbent_commit=incumbent.commit, incumbent_value=incumbent.value, best_value=best
        )
        brief = {**self.brief, "incumbent": incumbent.value, "best": best}
        return structs.replace(self, context=context, brief=brief, standing=standing)


def brief_iteration(
    project: Project, config: Config, context: Context, standing: Standing, usage_log: UsageLog
) -> Briefing:
    """The briefing of an iteration, with the past tries under this ruler."""
    history = read_history(project, context.best_iteration, config.manifest, config.scope)
    brief = make_brief(context, history, config.manifest, standing.for_run(project.run_id), config.scope)
    folder = project.run_folder(context.iteration)
    return Briefing(project, config, context, history, brief, usage_log, folder, standing)


class CallEdits(Protocol):
    """The edits of one call in the workspace."""

    def save(self, secrets: Redactor) -> tuple[Edit, ...] | None:
        """Store them; None where they cannot be kept: then they were undone, as where one holds a credential."""

    def undo(self) -> None:
        """Bring the workspace back to where the call began."""


class _PlanEdits(NamedTuple):
    """Files that were written while planning: they are part of no change."""

    undo: Callable[[], None]

    def save(self, secrets: Redactor) -> None:
        return None


def build_call(briefing: Briefing, request: Request, edits: CallEdits | None = None) -> Call:
    """The call of a provider in the workspace, with its prompt. A reviewer has another HOME, and begins anew always."""
    project, config, context = briefing.project, briefing.config, briefing.context
    manifest, usage_log = config.manifest, briefing.usage_log
    brief = {**briefing.brief, "minutes": _minutes(briefing, request.phase)}
    if request.review:
        brief["review"] = request.review.brief
    name = str(CheckpointName(request.phase, request.number))
    nonce = project.ledger.seal.digest("nonce", project.run_id, str(context.iteration), name)[:6].upper()
    secrets = credentials_of(manifest)
    prompt, resumed_prompt, file_list = map(
        secrets.redact_text, make_prompts(config.templates, manifest, briefing.context, brief, request, nonce)
    )
    sent_prompt = [prompt]

    def note_prompt(text: str) -> None:
        sent_prompt[0] = text
        write_prompt(briefing.run_folder, name, text)

    note_prompt(prompt)
    workspace = project.workspace(config, briefing.standing)
    label = f"{project.run_id} {context.iteration}{' review' if request.review else ''}"

    kept = edits or _PlanEdits(workspace.clean)

    def undo() -> None:
        usage_log.drop_session()
        kept.undo()

    def note_failed_call(why: str, usage: Usage, is_told: bool = False) -> None:
        if not is_told:
            project.watch.on_note(why)
        usage_log.note_failure(project.activity.last_phase, why, usage)
        if usage_log.cut_off and not request.review:
            usage_log.set_edits(kept.save(secrets))
        else:
            undo()

    def begin(name: str, model: str) -> None:
        if usage_log.cut_off and not launch.session(name, model):
            undo()

    def go_on() -> str:
        cut_off = usage_log.cut_off
        return go_on_prompt(request, nonce, cut_off.edits) if cut_off else ""

    launch = AgentLaunch(
        project=project,
        manifest=manifest,
        tree=workspace.root,
        label=label,
        prompt=prompt,
        brief=brief,
        context=context,
        phase=request.phase,
        nonce=nonce,
        usage_log=usage_log,
        secrets=secrets,
        again=note_failed_call,
        note_prompt=note_prompt,
    )
    return launch.call(
        history=briefing.history,
        writable=workspace.cached("writable", lambda: _writable_paths(briefing, workspace.tree.entries)),
        wait=lambda seconds, why: wait(project, manifest.limits, seconds, why),
        went=usage_log.set_session,
        name=name,
        keep=recorder(project, context.iteration, name, lambda: sent_prompt[0], secrets),
        baseline_file=lambda path: _baseline_file(project, path),
        dollars_left=lambda: dollars_left(manifest.limits, usage_log.spending.standing()),
        resumed_prompt=resumed_prompt,
        file_list=file_list,
        answered=frozenset(
            (record.provider, record.model)
            for record in project.ledger.recent
            if record.run_id == project.run_id and record.reason not in PROVIDER_FAILED
        ),
        begin=begin,
        go_on=go_on,
    )


def credentials_of(manifest: Manifest) -> Redactor:
    """Finds the credentials that the manifest passes on: the output of a crash may hold one, and so may a change."""
    secrets = Redactor()
    for table in (manifest.env.verify, manifest.env.agent):
        secrets.add_variables(credentials_in_manifest(table))
    return secrets


def _minutes(briefing: Briefing, phase: str) -> float | None:
    """How long the call may take: the provider's limit, or what is left of run or invocation where that is less."""
    project, limits = briefing.project, briefing.config.manifest.limits
    bounds = [
        project.provider().in_turn(briefing.context.turn).timeout(phase),
        seconds_left(limits, briefing.usage_log.spending.standing(), project.activity.clock.now()),
        None if project.ends_at is None else project.ends_at - time.monotonic(),
    ]
    seconds = min((max(bound, 0.0) for bound in bounds if bound is not None), default=None)
    return None if seconds is None else round(seconds / 60, 1 if seconds < _WHOLE_MINUTES else None)


def ask(question: Callable[[], Reply], usage_log: UsageLog) -> tuple[Reply, Rejected | None]:
    """The reply to a call; where it failed, what was printed until then, what it is charged, and the failure."""
    try:
        return question(), None
    except Rejected as rejected:
        rejected.usage = usage_log.charge(rejected.usage)
        return Reply("", output=rejected.output, usage=rejected.usage), rejected


def _writable_paths(briefing: Briefing, paths: Iterable[str]) -> tuple[str, ...]:
    """The existing files that the provider may edit, as it names them."""
    prefix_length, kind = len(briefing.project.places.prefix), briefing.config.scope.kind
    return tuple(path[prefix_length:] for path in paths if kind(path) == "writable")


def _baseline_file(project: Project, path: str) -> bytes | None:
    """What a writable file below the manifest's folder held at the baseline; None where there was no such file."""
    baseline, objects = project.standing.baseline, project.repository.objects
    entry = objects.entry(baseline.tree, project.places.prefix + path) if baseline else None
    return objects.read(entry.blob) if entry and entry.mode.startswith("100") else None


def recorder(
    project: Project, iteration: int, name: str, sent_prompt: Callable[[], str], secrets: Redactor
) -> Callable[[Reply, Rejected | None, bytes], None]:
    """Writes the recording of a call when it has ended; does nothing where the manifest records none.

    A call repeated after a kill replaces its recording. ``sent_prompt`` gives what was asked last in this call.
    """
    record_table = project.provider_table().record
    if record_table is None:
        return lambda reply, rejected, patch: None
    folder = project.folder / record_table

    def record(reply: Reply, rejected: Rejected | None, patch: bytes) -> None:
        if rejected is None and not (reply.title or reply.output or patch):
            return  # nobody was asked: a command without ask_plan
        rejection = None
        if rejected:
            edits = None if rejected.edits is None else ()
            rejection = Rejection(rejected.outcome, rejected.reason, rejected.why, rejected.usage, edits)
        recording = Recording(
            iteration, name, sent_prompt(), reply, patch.decode("utf-8", "surrogateescape"), rejection
        )
        text = json.dumps(recording.as_plain(secrets.redact_text), indent=1) + "\n"
        write_atomic(folder / file_name(iteration, name), text, durable=True)

    return record


_WHOLE_MINUTES = 600.0
