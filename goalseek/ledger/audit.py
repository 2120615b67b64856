"""The audit of a ledger: records, git objects, refs, ``results.jsonl`` and run folders compared, differences named.

Only ``--rebuild`` changes anything: ``results.jsonl`` is then written again from git.

Seals can be checked only with the secret that made them. Records that were sealed with another one are listed, and
checked against git alone. They are no difference: nobody can put one below a record that was sealed here. In a clone
without any secret, the branch, ``results.jsonl`` and the run folders may be absent.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path

from goalseek.errors import GoalseekError
from goalseek.files import write_atomic
from goalseek.git.command import MissingObject, ObjectsFailed
from goalseek.git.commits import UnreadableCommit, candidate_commits, read_commit
from goalseek.git.objects import Objects
from goalseek.git.repository import Refs, Repository
from goalseek.humanize import pluralize
from goalseek.ledger.audit_commits import NamedCommits
from goalseek.ledger.chain import (
    NOTHING,
    Chain,
    Deviation,
    LedgerEntry,
    format_ranges,
    format_value,
    read_entries,
    row_deviations,
    value_deviations,
    walk_ledger,
)
from goalseek.ledger.checkpoints import Checkpoints
from goalseek.ledger.ledger import RULER_FILE, repair_head
from goalseek.ledger.records import IterationRecord
from goalseek.ledger.results_file import History
from goalseek.ledger.seal import Seal, key_of
from goalseek.ledger.standing import Standing
from goalseek.manifest.loading import RESULTS, ManifestFile, make_log_folders
from goalseek.measurement.ruler import Ruler
from goalseek.own_folders import remove_if_exists
from goalseek.values import to_plain

SEALS_CHECKED = "seals checked"


@dataclass(frozen=True)
class Audit:
    """The result of an audit. ``seals`` says whether the seals were checked, or why not."""

    records: int
    deviations: tuple[Deviation, ...]
    seals: str
    notes: tuple[str, ...] = ()


def audit(loaded: ManifestFile, repository: Repository, is_rebuilding: bool = False) -> Audit:
    """Walks the ledger from its ref to its root and names every difference. Only the lock's holder may call it.

    ``is_rebuilding`` first restores commits that are missing at the chain's end from ``results.jsonl``, then writes
    that file again if the whole chain can be read.
    """
    refs = repository.refs()
    seal, why_no_seal = _load_seal(repository.own / "secret")
    if is_rebuilding and refs.ledger and not repository.objects.has(refs.ledger):
        with contextlib.suppress(GoalseekError):  # the audit says what is missing
            repair_head(repository, History(loaded.results), refs.ledger)
    chain = walk_ledger(repository.objects, refs.ledger)
    entries = tuple(read_entries(chain))
    is_whole = not chain.broken and all(isinstance(entry, LedgerEntry) for entry in entries)
    notes: list[str] = []
    if is_rebuilding:
        lines = [commit.message for commit in chain.commits]
        refusal = f"{RESULTS} was left as it is: the chain in git is not whole"
        notes.append(rebuild(loaded, lines) if is_whole else refusal)
    deviations = list(_check_ends(repository, refs, chain))

    def check_records() -> Iterator[Deviation]:
        standing = yield from _check_records(loaded, repository, chain, entries, seal)
        if standing:
            yield from _check_refs(repository, refs, standing, seal is None, notes)

    deviations += check_records()
    deviations += _check_results_file(loaded.results, chain, entries, seal is None, notes)
    foreign = _describe_foreign_seals(entries, seal)
    seals = f"{SEALS_CHECKED} of all but {foreign[1]}" if foreign[1] else SEALS_CHECKED
    return Audit(len(chain.commits), tuple(deviations), why_no_seal or seals, (*notes, *foreign[0]))


def _describe_foreign_seals(
    entries: tuple[LedgerEntry | Deviation, ...], seal: Seal | None
) -> tuple[tuple[str, ...], int]:
    """The records that were sealed with other keys: one note a key, and their number."""
    by_key: dict[str, list[int]] = {}
    for entry in entries:
        key = key_of(entry.record.seal) if seal and isinstance(entry, LedgerEntry) else None
        if key and seal and isinstance(entry, LedgerEntry) and key != seal.key:
            by_key.setdefault(key, []).append(entry.record.seq)
    notes = (
        f"sealed elsewhere, with the key {key}, and not checkable here: records {format_ranges(numbers)}"
        for key, numbers in by_key.items()
    )
    return tuple(notes), sum(map(len, by_key.values()))


def _load_seal(secret: Path) -> tuple[Seal | None, str]:
    """The seal of the secret; where there is none, None and why the seals cannot be checked. Makes no secret."""
    try:
        return Seal(secret.read_bytes()), ""
    except FileNotFoundError:
        return None, "seals not checked: the secret is not here, but where the climb ran"
    except OSError as error:
        return None, f"seals not checked: the secret cannot be read: {error.strerror}"


def _check_ends(repository: Repository, refs: Refs, chain: Chain) -> Iterator[Deviation]:
    """Checks the two ends of the chain: the ref, and the root."""
    yield from chain.broken
    if refs.ledger is None:
        yield Deviation("a ref is missing", repository.ledger_ref, "the ledger's last commit", NOTHING)
    if chain.root:
        words = f"goalseek ledger {repository.name}\n"
        yield from value_deviations("the chain's root is none", f"commit {chain.root.name}", words, chain.root.message)


def _check_records(
    loaded: ManifestFile,
    repository: Repository,
    chain: Chain,
    entries: tuple[LedgerEntry | Deviation, ...],
    seal: Seal | None,
) -> Generator[Deviation, None, Standing | None]:
    """Checks every record against the one before it, its seal, its commits, its ruler and its run folder.

    Returns (as a generator) the standing of all records; None where it cannot be computed.
    """
    commits = NamedCommits(repository.objects, repository.name)
    rulers = _Rulers(repository.objects)
    snapshot = _read_snapshot(loaded.logs / SNAPSHOT)
    standing = None if chain.broken else Standing()
    seq = None if chain.broken else -1
    for entry in entries:
        seq = None if seq is None else seq + 1
        if isinstance(entry, Deviation):
            yield entry
            continue
        record, where = entry.record, f"ledger commit {entry.commit.name}"
        if seq is not None:
            yield from value_deviations("the number does not follow", where, seq, record.seq)
        seq = record.seq
        yield from value_deviations("another project", where, repository.name, record.project)
        if seal and key_of(record.seal) in (None, seal.key):
            yield from _check_seal(entry, seal, chain)
        candidate = record.commit_hash if isinstance(record, IterationRecord) else None
        yield from value_deviations(
            "another second parent", where, candidate, " ".join(entry.commit.parents[1:]) or None
        )
        if isinstance(record, IterationRecord):
            if standing:
                number = standing.next_iteration
                yield from value_deviations("the iteration does not follow", where, number, record.iteration)
            yield from commits.check(record, standing.tip if standing else "")
            yield from rulers.check(entry, record)
            folder = loaded.runs / f"{record.iteration:04d}"
            yield from _check_run_folder(folder, entry)
            if seal and key_of(record.seal) == seal.key:
                for name in Checkpoints.unsealed_files(folder, seal):
                    yield Deviation("the seal does not hold", f"{folder.name}/{name}", "goalseek's seal", "another")
        try:
            standing = standing.after(record) if standing else None
        except ValueError as error:
            yield Deviation("the records cannot be added up", where, "a commit, a tree and a value", str(error))
            standing = None
        if standing and snapshot and snapshot.get("seq") == standing.seq:
            yield from row_deviations("the snapshot differs from the records", SNAPSHOT, to_plain(standing), snapshot)
    return standing


def _check_seal(entry: LedgerEntry, seal: Seal, chain: Chain) -> Iterator[Deviation]:
    before = entry.commit.parents[0]
    if chain.root and before == chain.root.name:
        before = ""
    expected, actual = seal.of_record(entry.row, before), entry.record.seal
    yield from value_deviations("the seal does not hold", f"record {entry.record.seq}", expected, actual)


class _Rulers:
    """The digests of the rulers in ledger commits' trees; one tree is read once."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._digests: dict[str, str] = {}

    def check(self, ledger_entry: LedgerEntry, record: IterationRecord) -> Iterator[Deviation]:
        """A difference where the record names another ruler than its ledger commit has."""
        tree = ledger_entry.commit.tree
        if tree not in self._digests:
            self._digests[tree] = self._digest(tree)
        expected = record.digests.get("ruler")
        yield from value_deviations(
            "another ruler than recorded", f"record {record.seq}", expected, self._digests[tree]
        )

    def _digest(self, tree: str) -> str:
        try:
            entry = self._objects.tree(tree).get(RULER_FILE)
            return Ruler.from_json(self._objects.read(entry.blob).decode()).digest if entry else f"no {RULER_FILE}"
        except (MissingObject, ObjectsFailed, BrokenPipeError, ValueError) as error:
            self._objects.close()
            return f"no readable {RULER_FILE}: {error}"


def _check_run_folder(folder: Path, entry: LedgerEntry) -> Iterator[Deviation]:
    path = folder / "result.json"
    try:
        stored = json.loads(path.read_bytes())
    except FileNotFoundError:
        return
    except (OSError, ValueError, RecursionError) as error:
        yield Deviation("not the record", f"{folder.name}/result.json", f"record {entry.record.seq}", str(error))
        return
    yield from row_deviations("not the record", f"{folder.name}/result.json", entry.row, stored)


def _read_snapshot(path: Path) -> dict[str, object] | None:
    """The standing in the snapshot, as plain JSON; None where it cannot be read, for then nothing uses it."""
    try:
        row = json.loads(path.read_text().splitlines()[1])
    except (OSError, ValueError, IndexError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _check_refs(
    repository: Repository, refs: Refs, standing: Standing, is_clone: bool, notes: list[str]
) -> Iterator[Deviation]:
    """Checks tip and branch against the standing. A candidate without a record yet is no difference."""
    tip = standing.tip or None
    if refs.tip != tip and refs.tip and tip:
        following = standing.next_iteration
        try:
            if candidate_commits(partial(read_commit, repository.objects), refs.tip, tip, repository.name, following):
                notes.append(f"iteration {following} is under way: {repository.tip_ref} is at its candidate")
                refs = Refs(tip, refs.ledger, refs.branch, refs.branch_is_checked_out)
        except UnreadableCommit:
            pass
    yield from value_deviations("a ref is elsewhere", repository.tip_ref, tip, refs.tip)
    if not refs.branch_is_checked_out and not (is_clone and refs.branch is None):
        yield from value_deviations("a ref is elsewhere", repository.branch_ref, tip, refs.branch)


def _check_results_file(
    path: Path, chain: Chain, entries: tuple[LedgerEntry | Deviation, ...], is_clone: bool, notes: list[str]
) -> Iterator[Deviation]:
    hint = "goalseek audit --rebuild writes it from git"
    if not path.exists():
        if is_clone:
            notes.append(f"there is no {RESULTS} here; {hint}")
        elif chain.commits:
            yield Deviation("the file is missing", RESULTS, f"{pluralize(len(chain.commits), 'line')}; {hint}", NOTHING)
        return
    oldest = entries[0].record.seq if chain.broken and entries and isinstance(entries[0], LedgerEntry) else 0
    yield from compare_lines(path, [commit.message for commit in chain.commits], oldest)


SNAPSHOT = "standing.json"


def compare_lines(path: Path, expected: Sequence[str], first: int) -> Iterator[Deviation]:
    """Every line of the file that differs from the chain's; the ``first`` so many lines are not compared."""
    content = path.read_bytes()
    lines = [line.decode("utf-8", "backslashreplace") for line in content.split(b"\n")]
    is_torn = bool(lines[-1])
    if not is_torn:
        lines.pop()
    else:
        yield Deviation("a torn last line", _line_name(len(lines)), "a line with its end", format_value(lines[-1]))
    lines = lines[first:]
    known = set(expected)
    for kind, low, high, start, end in _diff_lines(expected, lines):
        both = min(high - low, end - start) if kind == "replace" else 0
        for step in range(both):
            if is_torn and start + step == len(lines) - 1:
                continue
            yield from _compare_line(_line_name(first + start + step + 1), expected[low + step], lines[start + step])
        for index in range(low + both, high):
            yield Deviation("a line is missing", _line_name(first + index + 1), format_value(expected[index]), NOTHING)
        for index in range(start + both, end):
            if is_torn and index == len(lines) - 1:
                continue
            what = "a line is out of its place" if lines[index] in known else "a line that git does not know"
            yield Deviation(what, _line_name(first + index + 1), NOTHING, format_value(lines[index]))


def rebuild(loaded: ManifestFile, lines: Sequence[str]) -> str:
    """Writes ``results.jsonl`` again, atomically. Gives what was done, in words."""
    make_log_folders(loaded)
    path = loaded.results
    content = "".join(line + "\n" for line in lines).encode()
    previous = path.read_bytes() if path.exists() else None
    write_atomic(path, content, durable=True)
    remove_if_exists(path.with_name(SNAPSHOT))
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    difference = (
        "there was none" if previous is None else "it was the same" if previous == content else "it was another"
    )
    return f"{path} was written again from git: {pluralize(len(lines), 'line')}; {difference}"


def _diff_lines(expected: Sequence[str], actual: Sequence[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """The blocks in which two lists of lines differ, as difflib names them. An equal beginning takes linear time."""
    same = 0
    while same < min(len(expected), len(actual)) and expected[same] == actual[same]:
        same += 1
    matcher = SequenceMatcher(None, expected[same:], actual[same:], autojunk=False)
    for kind, low, high, start, end in matcher.get_opcodes():
        if kind != "equal":
            yield kind, low + same, high + same, start + same, end + same


def _compare_line(where: str, expected: str, actual: str) -> Iterator[Deviation]:
    try:
        row = json.loads(actual)
        differences = list(row_deviations("a line was changed", where, json.loads(expected), row))
    except (ValueError, RecursionError):
        differences = []
    yield from differences or [Deviation("a line was changed", where, format_value(expected), format_value(actual))]


def _line_name(number: int) -> str:
    return f"{RESULTS} line {number}"
