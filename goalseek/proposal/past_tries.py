"""Past tries as the agent may know them: output of a command that sees hidden files never gets there.

Data that no record has comes from the sealed checkpoints of the run folders, as far as they exist.
"""

import contextlib
import functools
import re
from collections.abc import Hashable, Sequence
from itertools import accumulate, islice, takewhile
from json.encoder import encode_basestring_ascii
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from goalseek.git.objects import MissingObject, ObjectsFailed
from goalseek.git.repository import Repository
from goalseek.humanize import pluralize
from goalseek.ledger.checkpoints import CheckpointName, Seal, read_sealed
from goalseek.ledger.results_file import History
from goalseek.ledger.standing import CRASHED, Standing
from goalseek.manifest.tables import Manifest, Reading, VerifyCommand
from goalseek.phase_values import Ahead, PastIteration
from goalseek.records import PROVIDER_FAILED, IterationRecord
from goalseek.statistics.stacking import ELIGIBLE
from goalseek.values import Outcome, Reason
from goalseek.workspace.scope import Scope

_SENTENCES = {
    "verify_failed": "the verifier failed",
    "verify_timeout": "the verifier ran past its timeout",
    "no_metric": "the measurement gave no metric",
    "not_finite": "the metric is not a finite number",
    "unmeasurable": "this candidate cannot be judged",
}
_IDEAS_READ = 10
IDEAS_LIMIT = 20
_CRASH_AGE = 5
_DIFFS_READ = 8
_DIFFS_BYTES = 4 * 1024
_SMALLEST_DIFF = 256
_PATCH_BYTES = 64 * 1024


class Archive(Struct, frozen=True):
    """What past tries are read from, newest first. Without ``seal``, for readers, seals are believed."""

    standing: Standing
    recent: Sequence[IterationRecord]
    history: History
    repository: Repository
    runs: Path
    seal: Seal | None = None


def read_history(archive: Archive, best_iteration: int, manifest: Manifest, scope: Scope) -> tuple[PastIteration, ...]:
    """The recent tries under the present ruler, newest first, always with the best one; a failed provider is no try.

    The newest have their plans' ideas, the nearest misses their diffs, except stacks; hidden files are in none.
    """
    standing = archive.standing
    recent = (record for record in archive.recent if record.epoch == standing.epoch)
    records = [record for record in recent if record.reason not in PROVIDER_FAILED]
    if best_iteration not in [record.iteration for record in records]:
        best = archive.history.iteration(best_iteration)
        records += [best] if best else []
    readings, incumbent = (manifest.metric, *manifest.guard), standing.incumbent
    known = _known_tries(archive.seal, str(archive.runs), manifest.commands, readings, scope)
    tries = []
    for index, record in enumerate(records):
        base = record.base_commit_hash
        of_incumbent = base == incumbent.commit if incumbent and base else None
        key = record.iteration, record.seal, of_incumbent, index < _IDEAS_READ
        if not (past := known.get(key)):
            if len(known) > 4 * len(records):  # mostly of tries that are too old
                known.clear()
            idea = _stored_idea(archive, record) if index < _IDEAS_READ else ""
            past = past_try(record, manifest.commands, readings, idea)
            files = tuple(filter(scope.seen_by("agent"), past.changed_files))
            past = known[key] = structs.replace(past, of_incumbent=of_incumbent, changed_files=files)
        by = standing.taken_back.get(past.iteration)
        if by is not None and (revert := archive.history.iteration(by)):
            why = f"{past.why}; iteration {by} took it back: {revert.why}"
            past = structs.replace(past, why=why, is_taken_back=True)
        tries.append(past)
    by_iteration = {record.iteration: record for record in records}
    nearest = [past for past, _ in rank_rejected(tries) if not by_iteration[past.iteration].stacked][:_DIFFS_READ]
    patches = {past: _read_patch(archive, by_iteration[past.iteration]) for past in nearest}
    shown = share_room({past.iteration: visible_patch(patch, past.changed_files) for past, patch in patches.items()})
    return tuple(structs.replace(past, diff=shown.get(past.iteration, "")) for past in tries)


@functools.lru_cache(maxsize=2)
def _known_tries(*told_by: Hashable) -> dict[tuple[int, str, bool | None, bool], PastIteration]:
    """Tries of earlier proposals: neither a record nor the checkpoints of its iteration change."""
    return {}


def rank_rejected(tries: Sequence[PastIteration]) -> list[tuple[PastIteration, bool]]:
    """The reverted ones of ``tries`` (newest first), and whether each is a change of the present incumbent.

    Changes of the incumbent that the number alone rejected, the nearest miss first; then its others; then those of
    earlier incumbents, each newest first.
    """
    last_keep = next((past.iteration for past in tries if past.outcome in (Outcome.KEPT, Outcome.BASELINE)), -1)

    def rank(row: tuple[PastIteration, bool]) -> tuple[bool, bool, float]:
        past, of_incumbent = row
        if of_incumbent and past.reason in ELIGIBLE and past.gain is not None:
            return False, False, -past.gain
        return not of_incumbent, True, -past.iteration

    rows = []
    for past in tries:
        if past.outcome == Outcome.REVERTED:
            rows.append((past, past.iteration > last_keep if past.of_incumbent is None else past.of_incumbent))
    return sorted(rows, key=rank)


def _read_patch(archive: Archive, record: IterationRecord) -> bytes:
    """From git, or else from its run folder; b"" if both are gone."""
    base, tree = record.base_commit_hash or record.parent_commit_hash, record.tree_hash
    if base and tree:
        with contextlib.suppress(MissingObject, ObjectsFailed):
            return _git_patch(archive.repository, base, tree)
    with contextlib.suppress(OSError):
        return _beginning((archive.runs / f"{record.iteration:04d}" / "changes.diff").read_bytes())
    return b""


@functools.lru_cache(maxsize=4 * _DIFFS_READ)  # the next iteration has nearly the same nearest misses
def _git_patch(repository: Repository, base: str, tree: str) -> bytes:
    return _beginning(repository.objects.diff(repository.tree_of(base), tree).patch)  # the same as in changes.diff


def _beginning(patch: bytes) -> bytes:
    return patch if len(patch) <= _PATCH_BYTES else patch[:_PATCH_BYTES].rpartition(b"\n")[0] + b"\n(cut: more lines)"


@functools.lru_cache(maxsize=4 * _DIFFS_READ)
def visible_patch(patch: bytes, files: Sequence[str]) -> str:
    """The parts of a patch that change one of these files, without hashes and binary content."""
    # A file whose name git quotes is left out: nobody asked the scope about its real name.
    headers = {f"a/{path} b/{path}".encode() for path in files if not path.startswith('"')}
    lines: list[bytes] = []
    is_shown = False
    for line in patch.split(b"\n"):
        if line.startswith(b"diff --git "):
            is_shown = line.removeprefix(b"diff --git ") in headers
        elif line == b"GIT binary patch" and is_shown:
            lines.append(b"(a binary file)")
            is_shown = False
        if is_shown and not line.startswith(b"index "):
            lines.append(line)
    return b"\n".join(lines).decode("utf-8", "replace").rstrip("\n")


def share_room(diffs: dict[int, str]) -> dict[int, str]:
    """The diffs cut to 4 KiB of JSON in all: each gets its size, or half of the rest, the nearest miss first."""
    shown: dict[int, str] = {}
    room = _DIFFS_BYTES
    rest = sum(map(count_json_bytes, diffs.values()))
    for iteration, diff in diffs.items():
        rest -= count_json_bytes(diff)
        if diff and (text := _cut_diff(diff, max(room // 2, room - rest))):
            shown[iteration] = text
            room -= count_json_bytes(text)
        if room < _SMALLEST_DIFF:
            break
    return shown


def _cut_diff(diff: str, limit: int) -> str:
    if count_json_bytes(diff) <= limit:
        return diff
    lines = diff.split("\n")  # none is cut: half of a credential would not be recognized as one
    note = "(cut: {})".format
    room, count = limit - len(note(pluralize(len(lines), "more line"))), 0
    while (room := room - count_json_bytes(lines[count]) - 2) >= 0:
        count += 1
    is_change = any(line.startswith(("+", "-")) and not line.startswith(("+++ ", "--- ")) for line in lines[:count])
    return "\n".join([*lines[:count], note(pluralize(len(lines) - count, "more line"))]) if is_change else ""


def count_json_bytes(text: str) -> int:
    return len(encode_basestring_ascii(text)) - 2  # without its quotes


def past_try(
    record: IterationRecord, verify: Sequence[VerifyCommand], readings: Sequence[Reading] = (), idea: str = ""
) -> PastIteration:
    """An iteration as the agent may know it; ``idea`` is its plan's text.

    A crash has only its reason if its sentence may quote a command that sees hidden files.
    """
    why, reason = record.why, record.reason
    if reason in CRASHED:
        open_commands = {command.name for command in verify if command.sees == "candidate"}
        last_command = record.verify[-1].name if record.verify else None
        is_command_failure = reason in (Reason.VERIFY_FAILED, Reason.VERIFY_TIMEOUT)
        is_open = last_command in open_commands if is_command_failure else len(open_commands) == len(verify)
        if reason == Reason.NO_METRIC and not is_open:
            # The sentence begins with the missing number's name: the output of an open command is no secret.
            named = [reading for reading in readings if why.startswith(f"{reading.name}: ")]
            is_open = bool(named) and all(
                reading.command in open_commands and reading.source in ("stdout", "stderr") for reading in named
            )
        why = why if is_open else _SENTENCES[reason]
    return PastIteration(
        record.iteration,
        record.outcome,
        reason,
        record.metric.value,
        record.changed_files,
        record.hypothesis_summary,
        why,
        idea,
        record.changed_loc,
        record.metric.delta,
        tried=record.tried,
        needed=record.metric.needed,
    )


def common_ending(texts: Sequence[str], max_lines: int = 20, max_bytes: int = 2048) -> str:
    """The last lines that all texts share, trailing spaces aside, within ``max_lines`` and ``max_bytes``."""
    columns = [[line.rstrip() for line in text.rstrip().splitlines()] for text in texts]
    upwards = zip(*map(reversed, columns), strict=False)
    shared = [lines[0] for lines in takewhile(lambda lines: len(set(lines)) == 1, islice(upwards, max_lines))]
    sizes = accumulate(len(line.encode("utf-8", "replace")) + 1 for line in shared)
    ending = [line for line, size in zip(shared, sizes, strict=True) if size <= max_bytes]
    return "\n".join(reversed(ending)).strip("\n")


def read_crashes(archive: Archive, standing: Standing) -> tuple[str, int, str]:
    """The common ending of the present row of crashes, the last crash's iteration (0 for none), and its output."""
    tries = (record for record in archive.recent if record.epoch == standing.epoch)
    made = (record for record in tries if record.reason not in PROVIDER_FAILED)
    crashed = (record for record in islice(made, max(standing.crashes, _CRASH_AGE)) if record.reason in CRASHED)
    newest = list(islice(crashed, max(standing.crashes, 1)))
    if not newest:
        return "", 0, ""
    outputs = [crash_output(archive.runs, record, archive.seal) for record in newest]
    endings = list(filter(None, outputs))
    return common_ending(endings) if len(endings) > 1 else "", newest[0].iteration, outputs[0]


def open_ideas(archive: Archive, ahead: Sequence[Ahead]) -> tuple[str, ...]:
    """The ideas that plans noted for later and nobody has tried; the newest last."""
    tries = [record for record in archive.recent if record.outcome != Outcome.BASELINE][:_IDEAS_READ]
    newest = tries[:1] if tries and tries[0].benches is None else tries  # at once, none knows the others' ideas
    noted: list[str] = []
    for record in reversed(newest):
        noted += _stored(archive, record, "context").get("ideas") or ()
        noted += _stored_plan(archive, record).get("later") or ()
    tried = (*(record.hypothesis_summary for record in newest), *(one.title for one in ahead))
    titles = [_words_of(title) for title in tried]

    def is_tried(idea: set[str]) -> bool:  # by a title that has all its words, or some of them and no others
        return any(title and (idea <= title or title <= idea) for title in titles)

    return tuple(idea for idea in dict.fromkeys(noted) if not is_tried(_words_of(idea)))[-IDEAS_LIMIT:]


def _words_of(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def _stored_idea(archive: Archive, record: IterationRecord) -> str:
    plan = _stored_plan(archive, record)
    return str((plan if plan.get("title") else _stored(archive, record, "change")).get("text") or "")


def _stored_plan(archive: Archive, record: IterationRecord) -> dict[str, Any]:
    return _stored(archive, record, "plan") or _stored(archive, record, "plan", 2)  # the answer after one without any


def _stored(archive: Archive, record: IterationRecord, answer: str, number: int = 1) -> dict[str, Any]:
    return _read(str(archive.runs), record.iteration, record.seal, CheckpointName(answer, number), archive.seal)


@functools.lru_cache(maxsize=64)  # once there is a record, it stays
def _read(runs: str, iteration: int, record_seal: str, name: CheckpointName, seal: Seal | None) -> dict[str, Any]:
    return read_sealed(f"{runs}/{iteration:04d}/{name}.json", seal).get("value") or {}


def crash_output(runs: Path, record: IterationRecord, seal: Seal | None = None) -> str:
    """The end of what its failed command printed, if that sees nothing hidden; else ""."""
    for number in range(len(record.attempts) + 1, 0, -1):
        names = CheckpointName("candidate", number), CheckpointName("evidence", number)
        candidate, evidence = (_read(str(runs), record.iteration, record.seal, name, seal) for name in names)
        if candidate.get("commit") == record.commit_hash:
            return str((evidence.get("failure") or {}).get("printed") or "")
    return ""
