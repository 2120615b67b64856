"""The overview of ``status``: standing, ``state.json``, differences from the ruler, and the next command."""

from __future__ import annotations

import contextlib
import typing
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, structs

from goalseek.git.location import Location, locate
from goalseek.humanize import format_duration, pluralize
from goalseek.ledger import checkpoints, results_file
from goalseek.ledger.standing import Standing
from goalseek.locks import Holder, lock_holder
from goalseek.manifest.exposure import exposures, may_show_answers
from goalseek.manifest.loading import ManifestFile, base_of, with_manifest_option
from goalseek.manifest.tables import Manifest
from goalseek.measurement.ruler import differences_of_head
from goalseek.project import limits, paths, progress, stop
from goalseek.project.picture import STALE_SECONDS, Picture, read_picture, seconds_since
from goalseek.statistics.noise import cost_of_deciding, drift_warning
from goalseek.statistics.rotation import Turn
from goalseek.values import StopReason, Usage, to_plain
from goalseek.workspace.shared_folders import SharedFolders

if typing.TYPE_CHECKING:
    from goalseek.project.approval import Approval, Question

UNSENT = "unsent.txt"
_JSON_KEYS = """project status metric direction unit run_id iteration phase phase_started_at heartbeat_at silent
    stop_reason first baseline best last stagnation outcomes spend limits differs warnings readable unsent settled
    holdout cost waits word next folder turn proposers under_way balance workers questions""".split()
_LEFT_OUT_WHERE_EMPTY = ("unit", "under_way", "balance", "workers", "questions")


class Overview(Struct, frozen=True):
    project: str
    picture: Picture
    standing: Standing  # of the run, with spend that is not recorded yet
    run_id: str
    silent: str
    limits: tuple[str, ...]
    differs: tuple[str, ...]
    warnings: tuple[str, ...]
    readable: tuple[str, ...]  # notes on answers that candidate code can read
    unsent: str  # on notifications that failed
    cost: str
    waits: Question | None  # the oldest that waits for a person
    word: Approval | None  # the answer to it
    questions: tuple[Question, ...]
    next: str
    folder: str
    turn: Turn

    def plain(self) -> dict[str, Any]:
        """The JSON of ``status``; ``first`` is the first baseline if the gain is counted from another."""
        standing, last = self.standing, self.standing.last
        values = {
            **structs.asdict(self.picture),
            **structs.asdict(standing),
            **structs.asdict(self),
            "iteration": standing.last_iteration,
            "first": standing.first if standing.first != standing.origin else None,
            "baseline": standing.origin,
            "last": last and {name: getattr(last, name) for name in ("iteration", "outcome", "reason", "why")},
            "proposers": standing.proposers,
            "questions": self.questions if len(self.questions) > 1 else (),
        }
        return {
            name: to_plain(values[name]) for name in _JSON_KEYS if values[name] or name not in _LEFT_OUT_WHERE_EMPTY
        }


def read_overview(
    loaded: ManifestFile, location: Location | None = None, readable: tuple[str, ...] | None = None
) -> Overview:
    """The overview, without a lock, so also while a climb is at work. Raises GoalseekError outside a repository.

    ``readable`` are those notes of an earlier overview, as shared files are read for them.
    """
    manifest = loaded.manifest
    location = location or locate(loaded.folder / manifest.project.repo)
    own = location.own(manifest.project.name)
    standing = results_file.load_standing(loaded, own)
    holder = lock_holder(own)
    picture = read_picture(loaded.state, is_held=holder is not None)
    run_id = stop.read_pending_run(own) or standing.run_id
    questions: list[Question] = []
    answers: dict[int, Approval | None] = {}
    if manifest.approve.before != "never":
        from goalseek.project.approval import commands_for, open_questions, read_approval

        questions = open_questions(loaded, standing, run_id)
        answers = {question.iteration: read_approval(loaded.logs, question) for question in questions}
    question = next((one for one in questions if not answers[one.iteration]), questions[0] if questions else None)
    approval = answers[question.iteration] if question else None
    unrecorded = checkpoints.total_unrecorded_seconds(loaded.runs, own, standing, run_id)
    run_standing = standing.for_run(run_id).spending(unrecorded, Usage())
    spent = run_standing.spending(0.0, *checkpoints.unrecorded_usage(loaded.runs, standing, run_id))
    limit_text = "" if picture.is_at_work else _limit_text(loaded, run_standing, picture)
    go_on = "goalseek iterate goes on" if manifest.provider else "goalseek try measures your edits"
    next_step = _next_step(picture, standing, limit_text, go_on, _promote_hint(manifest, standing))
    if question and approval:
        next_step = f"iteration {question.iteration} is answered, {approval}: {holder or 'goalseek iterate'} goes on"
    elif question:
        next_step = commands_for(question) + ("" if holder else "; then goalseek iterate")
    baseline, direction = standing.baseline, standing.direction or manifest.metric.direction
    differences = differences_of_head(loaded, location, baseline.commit if baseline else "")
    shares = SharedFolders(own, base_of(loaded, location.top), manifest.scope.share)
    if readable is None and may_show_answers(manifest):
        from goalseek.workspace.answers import answer_notes_at_head  # it takes long to import

        readable = tuple(map(str, answer_notes_at_head(loaded, location)))
    texts = (
        *map(str, exposures(manifest)),
        progress.guard_notice(manifest, standing),
        drift_warning(direction, standing.noise),
        progress.small_set_warning(manifest.metric, standing),
        *progress.fruitless_warnings(standing),
        progress.direction_warning(manifest.metric, standing),
        progress.open_warning(standing),
        differences.code,
    )
    unsent = ""
    with contextlib.suppress(OSError):
        if failures := (loaded.logs / UNSENT).read_text(encoding="utf-8", errors="replace").splitlines():
            unsent = f"{pluralize(len(failures), 'notification')} failed since one was sent, the last: {failures[-1]}"
    cost = cost_of_deciding(manifest, standing.noise.differed, sum(baseline.seconds.values())) if baseline else ""
    return Overview(
        project=manifest.project.name,
        picture=picture,
        standing=structs.replace(spent, metric=standing.metric or manifest.metric.name, direction=direction),
        run_id=run_id,
        silent=_silence_text(picture, holder) if picture.is_at_work and holder else "",
        limits=limits.limit_texts(manifest.limits, spent),
        differs=(*differences.ruler, *shares.notes(standing.epoch)),
        warnings=tuple(with_manifest_option(text, loaded.path) for text in texts if text),
        readable=readable or (),
        unsent=unsent if manifest.notify.command else "",
        cost=cost,
        waits=question,
        word=approval,
        questions=tuple(questions),
        next=with_manifest_option(paths.fetch_hint(loaded, location) or next_step, loaded.path),
        folder=str(loaded.folder),
        turn=run_standing.rotation.next_turn(manifest.search, progress.own_label(manifest, standing)),
    )


def _limit_text(loaded: ManifestFile, standing: Standing, picture: Picture) -> str:
    """The limit at which ``iterate`` would stop at once, with a remedy; "" for none.

    No record has the spend of unfinished calls, or of another iteration: only the ``picture`` says that the last
    invocation ended at such a limit, which holds while the limits are the same.
    """
    manifest = loaded.manifest
    failures = standing.provider_failures
    now = datetime.now(UTC)
    if reached := limits.why_stop(manifest.limits, manifest.metric, standing, now, failures_before=failures):
        return f"{reached.why}; {reached.next}"
    reason = picture.stop_reason
    units: dict[str, str] = dict.fromkeys((StopReason.TOKENS, StopReason.COST), "call")
    units |= dict.fromkeys((StopReason.TIME, StopReason.DEADLINE), "iteration")
    if reason not in units or picture.limits != to_plain(manifest.limits):
        return ""
    return f"the limit of {reason} is reached, or the next {units[reason]} could exceed it; {picture.next}"


def _next_step(picture: Picture, standing: Standing, limit_text: str, go_on: str, promote_hint: str) -> str:
    if picture.waits:
        return picture.waits
    if picture.is_at_work:
        return "watch it: goalseek log --last 5"
    if standing.baseline is None:
        return "goalseek doctor, then goalseek iterate"
    warning = standing.worse_than_baseline or (standing.settled and standing.settled.result.no_gain)
    if picture.status in ("failed", "blocked") and picture.next:
        return f"{picture.next}; {warning}" if warning else picture.next
    if limit_text:
        is_new = bool(promote_hint) and (bool(warning) or "goalseek promote" not in limit_text)
        return f"{limit_text}; {promote_hint}" if is_new else limit_text
    return f"{go_on}; {promote_hint or 'nothing is kept yet'}"


def _promote_hint(manifest: Manifest, standing: Standing) -> str:
    """A sentence on ``goalseek promote``, even if HEAD has it all, as only merges tell that; "" if nothing was kept."""
    promote = "goalseek promote applies the"
    if warning := standing.worse_than_baseline:
        return warning
    if standing.keeps:
        is_due = progress.pairs_to_settle(manifest.metric, standing) > 0
        before = "goalseek settle measures the gain afresh; " if is_due else ""
        before = f"{no_gain}; " if (no_gain := standing.settled.result.no_gain if standing.settled else "") else before
        return f"{before}{promote} kept changes missing from HEAD"
    if standing.taken_back:
        return f"every change kept since the baseline was taken back; {promote} reverts missing from HEAD"
    return f"{promote} changes kept before the last baseline" if standing.has_kept else ""


def _silence_text(picture: Picture, holder: Holder) -> str:
    age = seconds_since(picture.heartbeat_at)
    if age >= STALE_SECONDS:
        return f"no heartbeat for {format_duration(age)}: {holder}; it may be stopped, asleep or stuck"
    if not picture.silent_since:
        return ""
    silence = seconds_since(picture.silent_since)
    remedy = "; goalseek stop ends its call" if silence >= stop.STOPPABLE_SECONDS else ""
    return f"the provider's program has printed nothing for {format_duration(silence)}{remedy}"
