"""Calls to a provider: the briefing of an iteration, the ``Call`` with prompt, brief and nonce, and its recording."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, structs

from goalseek.errors import Rejected
from goalseek.files import write_atomic
from goalseek.git.trees import TreeReader
from goalseek.ledger.artifacts import write_prompt
from goalseek.ledger.checkpoints import CheckpointName
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Manifest
from goalseek.phase_values import Context, Edit, PastIteration, Rejection, Session
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
from goalseek.records import PROVIDER_FAILED
from goalseek.sandbox.environment import credentials_in_manifest
from goalseek.sandbox.redaction import Redactor
from goalseek.values import Usage, to_plain
from goalseek.workspace.workspace import Workspace


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


class _IterationCall(AgentLaunch, kw_only=True):
    """The host of a call of an iteration. ``sent_prompt`` is what was asked last, ``edits`` are None for a plan's."""

    briefing: Briefing
    request: Request
    name: str
    workspace: Workspace
    edits: CallEdits | None = None
    sent_prompt: str = ""

    def note_prompt(self, prompt: str) -> None:
        self.sent_prompt = prompt
        write_prompt(self.briefing.run_folder, self.name, prompt)

    def wait(self, seconds: float, why: str) -> bool:
        return wait(self.project, self.manifest.limits, seconds, why)

    def begin(self, name: str, model: str) -> None:
        if self.briefing.usage_log.cut_off and not self.session(name, model):
            self._undo()

    def on_retry(self, why: str, usage: Usage, is_told: bool = False) -> None:
        usage_log = self.briefing.usage_log
        if not is_told:
            self.project.watch.on_note(why)
        usage_log.note_failure(self.project.activity.last_phase, why, usage)
        if usage_log.cut_off and not self.request.review:
            usage_log.set_edits(self.edits.save(self.secrets) if self.edits else None)
        else:
            self._undo()

    def save_session(self, session: Session) -> None:
        self.briefing.usage_log.set_session(session)

    def go_on_prompt(self) -> str:
        cut_off = self.briefing.usage_log.cut_off
        return go_on_prompt(self.request, self.nonce, cut_off.edits) if cut_off else ""

    def baseline_file(self, path: str) -> bytes | None:
        baseline, objects = self.project.standing.baseline, self.project.repository.objects
        entry = TreeReader(objects, baseline.tree).entry(self.project.places.prefix + path) if baseline else None
        return objects.read(entry.blob) if entry and entry.mode.startswith("100") else None

    def dollars_left(self) -> float | None:
        return dollars_left(self.manifest.limits, self.briefing.usage_log.standing())

    def record(self, reply: Reply, rejected: Rejected | None, patch: bytes) -> None:
        record_table = self.project.provider_table().record
        if record_table is None or (rejected is None and not (reply.title or reply.output or patch)):
            return  # the latter is a command without ask_plan, which was not asked
        rejection = None
        if rejected:
            edits = None if rejected.edits is None else ()
            rejection = Rejection(rejected.outcome, rejected.reason, rejected.why, rejected.usage, edits)
        number, text = self.context.iteration, patch.decode("utf-8", "surrogateescape")
        recording = Recording(number, self.name, self.sent_prompt, reply, text, rejection)
        line = self.secrets.redact_text(json.dumps(to_plain(recording), indent=1)) + "\n"
        write_atomic(self.project.folder / record_table / file_name(number, self.name), line, durable=True)

    def _undo(self) -> None:
        self.briefing.usage_log.drop_session()
        if self.edits:
            self.edits.undo()
        else:
            self.workspace.clean()


def build_call(briefing: Briefing, request: Request, edits: CallEdits | None = None) -> Call:
    """The call of a provider in the workspace, with its prompt. A reviewer has another HOME, and begins anew always."""
    project, config, context = briefing.project, briefing.config, briefing.context
    brief = {**briefing.brief, "minutes": _minutes(briefing, request.phase)}
    if request.review:
        brief["review"] = request.review.brief
    name = str(CheckpointName(request.phase, request.number))
    nonce = project.ledger.seal.digest("nonce", project.run_id, str(context.iteration), name)[:6].upper()
    secrets = credentials_of(config.manifest)
    prompt, resumed_prompt, file_list = map(
        secrets.redact_text, make_prompts(config.templates, config.manifest, context, brief, request, nonce)
    )
    workspace = project.workspace(config, briefing.standing)
    prefix_length, kind, paths = len(project.places.prefix), config.scope.kind, workspace.tree.entries
    host = _IterationCall(
        project=project,
        manifest=config.manifest,
        tree=workspace.root,
        label=f"{project.run_id} {context.iteration}{' review' if request.review else ''}",
        prompt=prompt,
        brief=brief,
        context=context,
        phase=request.phase,
        nonce=nonce,
        usage_log=briefing.usage_log,
        secrets=secrets,
        briefing=briefing,
        request=request,
        name=name,
        workspace=workspace,
        edits=edits,
    )
    host.note_prompt(prompt)
    return host.call(
        history=briefing.history,
        writable=workspace.cached(
            "writable", lambda: tuple(path[prefix_length:] for path in paths if kind(path) == "writable")
        ),
        name=name,
        resumed_prompt=resumed_prompt,
        file_list=file_list,
        answered=frozenset(
            (record.provider, record.model)
            for record in project.ledger.recent
            if record.run_id == project.run_id and record.reason not in PROVIDER_FAILED
        ),
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
        seconds_left(limits, briefing.usage_log.standing(), project.activity.clock.now()),
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


_WHOLE_MINUTES = 600.0
