"""Calls to a provider: the ``Call`` with its prompt, its watch and its recording."""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, structs

from goalseek.disk import write_atomic
from goalseek.errors import LimitReached, Rejected
from goalseek.git.objects import TreeReader
from goalseek.humanize import format_duration, format_moment
from goalseek.ledger.artifacts import write_prompt
from goalseek.ledger.checkpoints import CheckpointName
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import FRESH, Limits, Manifest
from goalseek.phase_values import Context, Edit, PastIteration, Rejection, Session
from goalseek.process import seconds_with_sleep
from goalseek.project.config import Config
from goalseek.project.limits import dollars_left, find_limit, has_spending_limit, seconds_left, seconds_to_deadline
from goalseek.project.picture import SILENT_SECONDS
from goalseek.project.project import PAUSE_SECONDS, Project
from goalseek.project.stop import GO_ON, STOPPABLE_SECONDS, take_stop_request
from goalseek.proposal.brief import make_brief
from goalseek.proposal.launch import AgentLaunch
from goalseek.proposal.past_tries import Archive, read_history
from goalseek.proposal.prompt import Request, make_prompts, resume_prompt
from goalseek.proposal.usage import UsageLog
from goalseek.providers.answer import read_usage
from goalseek.providers.preset import Printed
from goalseek.providers.provider import Call, LaunchSpec, Prompts, Reply
from goalseek.providers.replay import Recording, file_name
from goalseek.records import PROVIDER_FAILED
from goalseek.sandbox.environment import Redactor, credentials_in_manifest
from goalseek.sandbox.supervisor import HeadAndTail, ProgramResult, was_killed
from goalseek.sandbox.view import Launch
from goalseek.values import Phase, Stop, StopReason, Usage, to_indented
from goalseek.workspace.workspace import Workspace

_WHOLE_MINUTES = 600.0  # seconds, above which minutes are told as whole ones
LOOK_SECONDS = 3.0
_LOOKS_SHARE = 0.02  # of the time, at most, is spent on reading the program's usage


class Briefing(Struct, frozen=True):
    """The common input of all calls of one iteration."""

    project: Project
    config: Config
    context: Context
    history: tuple[PastIteration, ...]
    brief: dict[str, Any]
    usage_log: UsageLog  # a program is written there before it starts
    standing: Standing  # the one at which the workspace stands

    def at(self, standing: Standing) -> Briefing:
        """For a workspace that stands at a later incumbent, as another change was kept meanwhile."""
        assert standing.incumbent and standing.best
        incumbent, best = standing.incumbent, standing.best.value
        context = structs.replace(
            self.context, incumbent_commit=incumbent.commit, incumbent_value=incumbent.value, best_value=best
        )
        brief = {**self.brief, "incumbent": incumbent.value, "best": best}
        return structs.replace(self, context=context, brief=brief, standing=standing)


def archive_of(project: Project) -> Archive:
    ledger = project.ledger
    return Archive(ledger.standing, ledger.recent, ledger.history, ledger.repository, project.loaded.runs, ledger.seal)


def brief_iteration(
    project: Project, config: Config, context: Context, standing: Standing, usage_log: UsageLog
) -> Briefing:
    history = read_history(archive_of(project), context.best_iteration, config.manifest, config.scope)
    brief = make_brief(context, history, config.manifest, standing.for_run(project.run_id), config.scope)
    return Briefing(project, config, context, history, brief, usage_log, standing)


class CallEdits(Protocol):
    def save(self, secrets: Redactor) -> tuple[Edit, ...] | None:
        """Store them; None if that fails, or one holds a credential: then they are undone."""

    def undo(self) -> None:
        """Bring the workspace back to the call's start."""


class IterationCall(AgentLaunch, kw_only=True):
    briefing: Briefing
    request: Request
    name: str
    nonce: str
    workspace: Workspace
    brief: dict[str, Any]
    made_prompts: Prompts | None = None
    edits: CallEdits | None = None  # None for a plan
    recordings: Path | None = None
    sent_prompt: str = ""  # the last one

    def note_prompt(self, prompt: str) -> None:
        self.sent_prompt = prompt
        write_prompt(self.project.run_folder(self.briefing.context.iteration), self.name, prompt)

    def prompts(self) -> Prompts:
        if not self.made_prompts:
            config, context, redact = self.briefing.config, self.briefing.context, self.secrets.redact_text
            made = make_prompts(config.templates, self.manifest, context, self.brief, self.request, self.nonce)
            self.made_prompts = Prompts(redact(made.fresh), lambda: redact(made.resumed()), redact(made.file_list))
        return self.made_prompts

    def run(
        self, call: Call, spec: LaunchSpec, launch: Launch, stdin: bytes, on_output: Callable[[bytes], object]
    ) -> ProgramResult:
        project, usage_log, label = self.project, self.briefing.usage_log, self.home_label(spec.home)
        session, asked = usage_log.last_session(label), (spec.provider, spec.model)
        self.note_prompt(call.prompt)

        def read_usage_so_far(stdout: bytes) -> Usage:
            printed = Printed(0, stdout.decode("utf-8", "replace"), "", lambda path: self.read_home(spec.home, path))
            return project.provider().partial_usage(asked, printed, read_usage(call.usage_file), session)

        watch = CallWatch(project, self.manifest.limits, usage_log, read_usage_so_far, spec.waits)

        def note_output(chunk: bytes) -> None:
            watch.note_output(chunk)
            on_output(chunk)

        usage_log.add(project.activity.last_phase, label, asked)
        with contextlib.closing(watch):
            result = project.programs.run(
                launch, note_output, spec.timeout, stdin, spec.kept_bytes, must_end=watch.must_end
            )
        killed = 0 if watch.stop or watch.is_waiting else result.killed
        is_cut_short = not watch.is_waiting and (result.timed_out or bool(watch.stop) or was_killed(result))
        if killed or is_cut_short:
            usage_log.note(killed=killed, cut_short=is_cut_short)
        if watch.stop:
            why = f"{spec.provider or 'the provider'} was ended: {watch.stop.why}"
            project.watch.on_note(why)
            usage_log.note_failure(project.activity.last_phase, why, read_usage_so_far(result.stdout))
            raise LimitReached(watch.stop)
        return result

    def wait(self, seconds: float, why: str) -> bool:
        """Waits, as ``CallHost`` says. Raises LimitReached where a person asks to stop."""
        project = self.project
        ends = [seconds_to_deadline(self.manifest.limits, project.activity.clock.now())]
        ends.append(None if project.ends_at is None else project.ends_at - time.monotonic())
        if any(remaining is not None and seconds > remaining for remaining in ends):
            return False
        end, duration = seconds_with_sleep() + seconds, format_duration(seconds)
        # It is no active time, which ``limits.time`` would bound.
        with project.activity.waiting(f"{why}; next try at {format_moment(seconds)}, after {duration}"):
            while (remaining := end - seconds_with_sleep()) > 0:
                if stop := take_stop_request(project.repository.own):
                    raise LimitReached(stop)
                project.pause(min(PAUSE_SECONDS, remaining))
        project.activity.note_wait(why, seconds)
        return True

    def prepare(self, name: str, model: str) -> None:
        if self.briefing.usage_log.resumable and not self.session(name, model):
            self._undo()

    def on_retry(self, why: str, usage: Usage, is_told: bool = False) -> None:
        usage_log = self.briefing.usage_log
        if not is_told:
            self.project.watch.on_note(why)
        usage_log.note_failure(self.project.activity.last_phase, why, usage)
        if usage_log.resumable and not self.is_reviewer:
            usage_log.note(edits=self.edits.save(self.secrets) if self.edits else None)
        else:
            self._undo()

    def session(self, name: str, model: str) -> Session | None:
        usage_log, label = self.briefing.usage_log, self.home_label(name)
        is_fresh = any(turn.endswith(f" {FRESH}") for turn in self.briefing.context.turn[:1])
        if is_fresh and not self.is_reviewer and not usage_log.resumable:
            return None  # in such a turn only a reviewer has a session, and a call that was cut off
        session = usage_log.session(label) if self.home.is_of(label) else None
        return session if session and session.model == model else None

    def save_session(self, session: Session) -> None:
        self.briefing.usage_log.note(session=session)

    def resume_prompt(self) -> str:
        resumable = self.briefing.usage_log.resumable
        return resume_prompt(self.request, self.nonce, resumable.edits) if resumable else ""

    def baseline_file(self, path: str) -> bytes | None:
        baseline, objects = self.project.standing.baseline, self.project.repository.objects
        entry = TreeReader(objects, baseline.tree).entry(self.project.places.prefix + path) if baseline else None
        return objects.read(entry.blob) if entry and entry.mode.startswith("100") else None

    def dollars_left(self) -> float | None:
        return dollars_left(self.manifest.limits, self.briefing.usage_log.standing())

    def record(self, reply: Reply, rejected: Rejected | None, patch: bytes) -> None:
        if rejected is None and not (reply.title or reply.output or patch):
            return  # the provider plans while it edits, and was not asked
        if not self.sent_prompt:  # no program was
            self.note_prompt(self.prompts().fresh)
        if self.recordings is None:
            return
        rejection = None
        if rejected:
            edits = None if rejected.edits is None else ()
            rejection = Rejection(rejected.outcome, rejected.reason, rejected.why, rejected.usage, edits)
        number, text = self.briefing.context.iteration, patch.decode("utf-8", "surrogateescape")
        recording = Recording(number, self.name, self.sent_prompt, reply, text, rejection)
        line = self.secrets.redact_text(to_indented(recording)) + "\n"
        write_atomic(self.recordings / file_name(number, self.name), line, durable=True)

    def _undo(self) -> None:
        self.briefing.usage_log.drop_session()
        if self.edits:
            self.edits.undo()
        else:
            self.workspace.clean()


def build_call(briefing: Briefing, request: Request, edits: CallEdits | None = None) -> Call:
    """The call of a provider in the workspace. A reviewer has another HOME, and always a new session."""
    project, config, context = briefing.project, briefing.config, briefing.context
    limits = config.manifest.limits
    bounds = [  # the least of the limits of provider, run and invocation
        project.provider().in_turn(context.turn).timeout(request.phase),
        None if project.ends_at is None else project.ends_at - time.monotonic(),
    ]
    if limits.time or limits.total.time or limits.deadline:
        bounds.append(seconds_left(limits, briefing.usage_log.standing(), project.activity.clock.now()))
    seconds = min((max(bound, 0.0) for bound in bounds if bound is not None), default=None)
    minutes = None if seconds is None else round(seconds / 60, 1 if seconds < _WHOLE_MINUTES else None)
    brief = {**briefing.brief, "minutes": minutes}
    if (review := request.review) and (plan := request.plan):
        told = {"criteria": list(review.criteria), "title": plan.title, "text": plan.text, "value": review.value}
        brief["review"] = told
    name = str(CheckpointName(request.phase, request.number))
    nonce = project.ledger.seal.digest("nonce", project.run_id, str(context.iteration), name)[:6].upper()
    table, workspace = project.provider_table(), project.workspace(config, briefing.standing)
    start, kind, paths = len(project.places.prefix), config.scope.kind, workspace.tree.entries
    writable = workspace.cached("writable", lambda: tuple(path[start:] for path in paths if kind(path) == "writable"))
    host = IterationCall(
        project=project,
        manifest=config.manifest,
        tree=workspace.root,
        label=f"{project.run_id} {context.iteration}{' review' if request.review else ''}",
        is_reviewer=request.review is not None,
        secrets=credentials_of(config.manifest),
        briefing=briefing,
        request=request,
        name=name,
        nonce=nonce,
        workspace=workspace,
        brief=brief,
        edits=edits,
        recordings=None if table.record is None or table.name == "replay" else project.folder / table.record,
    )
    return host.call(
        phase=request.phase,
        context=context,
        history=briefing.history,
        writable=writable,
        prompts=host.prompts,
        brief=brief,
        nonce=nonce,
        name=name,
        answered=frozenset(
            (record.provider, record.model)
            for record in project.ledger.recent
            if record.run_id == project.run_id and record.reason not in PROVIDER_FAILED
        ),
    )


def credentials_of(manifest: Manifest) -> Redactor:
    """The credentials that the manifest passes on: the output of a crash may hold one, and so may a change."""
    secrets = Redactor()
    for table in (manifest.env.verify, manifest.env.agent):
        secrets.add(credentials_in_manifest(table).values())
    return secrets


def ask(question: Callable[[], Reply], usage_log: UsageLog) -> tuple[Reply, Rejected | None]:
    """The reply, or after a failure its output and charged usage, and the failure."""
    try:
        return question(), None
    except Rejected as rejected:
        rejected.usage = usage_log.charge(rejected.usage)
        return Reply("", output=rejected.output, usage=rejected.usage), rejected


class CallWatch:
    """Watches one program from now on; ``stop`` is the reason why it was ended, or None.

    It ends with ``--for``, the deadline or a budget, by ``goalseek stop`` after STOPPABLE_SECONDS of silence, and once
    it ``is_waiting``: no row of JSON for SILENT_SECONDS after the pattern ``waits``.
    """

    def __init__(
        self, project: Project, limits: Limits, usage_log: UsageLog, read_usage: Callable[[bytes], Usage], waits: str
    ) -> None:
        self.stop: Stop | None = None
        self.is_waiting = False
        self._waits = re.compile(waits.encode()) if waits else None
        self._waits_since = math.inf
        self._project, self._limits = project, limits
        self._usage_log, self._read_usage = usage_log, read_usage  # by its output, if spend is limited
        self._standing = usage_log.standing()
        self._looked_at = self._printed_at = time.monotonic()
        self._next_look = self._looked_at + LOOK_SECONDS if has_spending_limit(limits) else math.inf

    def note_output(self, chunk: bytes) -> None:
        self._printed_at = time.monotonic()
        if self._waits and self._waits.search(chunk, chunk.rfind(b"\n{") + 1):
            self._waits_since = self._printed_at
        elif chunk.startswith(b"{") or b"\n{" in chunk:
            self._waits_since = math.inf

    def must_end(self, stdout: HeadAndTail) -> bool:
        now = time.monotonic()
        if now >= self._next_look:
            self._usage_log.running = self._read_usage(stdout.content())
            self._standing, self._looked_at = self._usage_log.standing(), now
            seconds = time.monotonic() - now
            self._next_look = now + max(LOOK_SECONDS, seconds / _LOOKS_SHARE)
        silence = now - self._printed_at
        self._project.activity.show_silence(format_moment(-silence) if silence >= SILENT_SECONDS else "")
        ends_at = self._project.ends_at
        if ends_at is not None and now >= ends_at:
            self.stop = Stop(StopReason.FOR, "the time of --for is over", GO_ON)
        else:  # any call may spend as much as a review
            spent, moment = self._standing.spending(now - self._looked_at, Usage()), self._project.activity.clock.now()
            self.stop = find_limit(Phase.REVIEW, self._limits, spent, moment)
        if self.stop is None and silence >= STOPPABLE_SECONDS:
            self.stop = take_stop_request(self._project.repository.own)
        self.is_waiting = self.stop is None and now - self._waits_since >= SILENT_SECONDS
        return self.is_waiting or self.stop is not None

    def close(self) -> None:
        self._usage_log.running = Usage()
        self._project.activity.show_silence("")
