"""The audit of a ledger: records, git objects, refs, ``results.jsonl`` and run folders compared, differences named.

Only ``--rebuild`` changes anything: ``results.jsonl`` is then written again from git.

Seals can be checked only with the secret that made them. Records that were sealed with another one are listed, and
checked against git alone. They are no difference: nobody can put one below a record that was sealed here. In a clone
without any secret, the branch, ``results.jsonl`` and the run folders may be absent.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from goalseek.errors import GoalseekError
from goalseek.files import sync, write_atomic
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
    auditor = _Auditor(loaded, repository, walk_ledger(repository.objects, refs.ledger), seal)
    if is_rebuilding:
        auditor.notes.append(auditor.rebuild())
    deviations = tuple(auditor.differences(refs))
    foreign = auditor.foreign_seals()
    count = sum(map(len, foreign.values()))
    notes = (
        f"sealed elsewhere, with the key {key}, and not checkable here: records {format_ranges(numbers)}"
        for key, numbers in foreign.items()
    )
    seals = why_no_seal or SEALS_CHECKED + (f" of all but {count}" if count else "")
    return Audit(len(auditor.lines), deviations, seals, (*auditor.notes, *notes))


def _load_seal(secret: Path) -> tuple[Seal | None, str]:
    """The seal of the secret; where there is none, None and why the seals cannot be checked. Makes no secret."""
    try:
        return Seal(secret.read_bytes()), ""
    except FileNotFoundError:
        return None, "seals not checked: the secret is not here, but where the climb ran"
    except OSError as error:
        return None, f"seals not checked: the secret cannot be read: {error.strerror}"


class _Auditor:
    """One audit. What is worth knowing and no difference is added to ``notes``."""

    def __init__(self, loaded: ManifestFile, repository: Repository, chain: Chain, seal: Seal | None) -> None:
        self.notes: list[str] = []
        self.lines = [commit.message for commit in chain.commits]
        self._loaded = loaded
        self._repository = repository
        self._chain = chain
        self._entries = tuple(read_entries(chain))
        self._seal = seal
        self._commits = NamedCommits(repository.objects, repository.name)
        self._ruler_digest = functools.cache(functools.partial(_ruler_digest, repository.objects))
        self._standing = None if chain.broken else Standing()  # None where it cannot be computed

    def foreign_seals(self) -> dict[str, list[int]]:
        """The numbers of the records that were sealed with other keys, by key."""
        by_key: dict[str, list[int]] = {}
        for entry in self._entries if self._seal else ():
            key = key_of(entry.record.seal) if isinstance(entry, LedgerEntry) else None
            if key and isinstance(entry, LedgerEntry) and self._seal and key != self._seal.key:
                by_key.setdefault(key, []).append(entry.record.seq)
        return by_key

    def rebuild(self) -> str:
        """Writes ``results.jsonl`` again, if the whole chain can be read. Gives what was done, in words."""
        if self._chain.broken or not all(isinstance(entry, LedgerEntry) for entry in self._entries):
            return f"{RESULTS} was left as it is: the chain in git is not whole"
        make_log_folders(self._loaded)
        path, content = self._loaded.results, "".join(line + "\n" for line in self.lines).encode()
        previous = path.read_bytes() if path.exists() else None
        write_atomic(path, content, durable=True)
        remove_if_exists(path.with_name(SNAPSHOT))
        sync(path.parent)
        was = "there was none" if previous is None else "it was the same" if previous == content else "it was another"
        return f"{path} was written again from git: {pluralize(len(self.lines), 'line')}; {was}"

    def differences(self, refs: Refs) -> Iterator[Deviation]:
        """Every difference: of the chain, its records, the refs and ``results.jsonl``."""
        root, name = self._chain.root, self._repository.name
        yield from self._chain.broken
        if refs.ledger is None:
            yield Deviation("a ref is missing", self._repository.ledger_ref, "the ledger's last commit", NOTHING)
        if root:
            message = f"goalseek ledger {name}\n"
            yield from value_deviations("the chain's root is none", f"commit {root.name}", message, root.message)
        seq = None if self._chain.broken else -1
        snapshot = _read_snapshot(self._loaded.logs / SNAPSHOT)
        for entry in self._entries:
            seq = None if seq is None else seq + 1
            if isinstance(entry, Deviation):
                yield entry
                continue
            if seq is not None:
                where = f"ledger commit {entry.commit.name}"
                yield from value_deviations("the number does not follow", where, seq, entry.record.seq)
            seq = entry.record.seq
            yield from self._check_record(entry)
            standing = self._standing
            if standing and snapshot and snapshot.get("seq") == standing.seq:
                what = "the snapshot differs from the records"
                yield from row_deviations(what, SNAPSHOT, to_plain(standing), snapshot)
        if self._standing:
            yield from self._check_refs(refs, self._standing)
        yield from self._check_results_file()

    def _check_record(self, entry: LedgerEntry) -> Iterator[Deviation]:
        """Checks a record's seal, its commits, its ruler and its run folder, and adds it to the standing."""
        record, standing, seal = entry.record, self._standing, self._seal
        where = f"ledger commit {entry.commit.name}"
        yield from value_deviations("another project", where, self._repository.name, record.project)
        before, root = entry.commit.parents[0], self._chain.root
        expected = seal.expected(entry.row, "" if root and before == root.name else before) if seal else None
        if expected:
            yield from value_deviations("the seal does not hold", f"record {record.seq}", expected, record.seal)
        candidate = record.commit_hash if isinstance(record, IterationRecord) else None
        second = " ".join(entry.commit.parents[1:]) or None
        yield from value_deviations("another second parent", where, candidate, second)
        if isinstance(record, IterationRecord):
            if standing:
                number = standing.next_iteration
                yield from value_deviations("the iteration does not follow", where, number, record.iteration)
            yield from self._commits.check(record, standing.tip if standing else "")
            ruler, digest = record.digests.get("ruler"), self._ruler_digest(entry.commit.tree)
            yield from value_deviations("another ruler than recorded", f"record {record.seq}", ruler, digest)
            folder = self._loaded.runs / f"{record.iteration:04d}"
            yield from _check_run_folder(folder, entry)
            if seal and key_of(record.seal) == seal.key:
                for name in Checkpoints.unsealed_files(folder, seal):
                    yield Deviation("the seal does not hold", f"{folder.name}/{name}", "goalseek's seal", "another")
        try:
            self._standing = standing.after(record) if standing else None
        except ValueError as error:
            yield Deviation("the records cannot be added up", where, "a commit, a tree and a value", str(error))
            self._standing = None

    def _check_refs(self, refs: Refs, standing: Standing) -> Iterator[Deviation]:
        """Checks tip and branch against the standing. A candidate without a record yet is no difference."""
        repository, tip, is_clone = self._repository, standing.tip or None, self._seal is None
        found = refs.tip
        if found != tip and found and tip:
            following = standing.next_iteration
            read = functools.partial(read_commit, repository.objects)
            with contextlib.suppress(UnreadableCommit):
                if candidate_commits(read, found, tip, repository.name, following):
                    note = f"iteration {following} is under way: {repository.tip_ref} is at its candidate"
                    self.notes.append(note)
                    found = tip
        yield from value_deviations("a ref is elsewhere", repository.tip_ref, tip, found)
        if not refs.branch_is_checked_out and not (is_clone and refs.branch is None):
            yield from value_deviations("a ref is elsewhere", repository.branch_ref, tip, refs.branch)

    def _check_results_file(self) -> Iterator[Deviation]:
        hint = "goalseek audit --rebuild writes it from git"
        if self._loaded.results.exists():
            first = self._entries[0] if self._chain.broken and self._entries else None
            oldest = first.record.seq if isinstance(first, LedgerEntry) else 0
            yield from compare_lines(self._loaded.results, self.lines, oldest)
        elif self._seal is None:
            self.notes.append(f"there is no {RESULTS} here; {hint}")
        elif self.lines:
            yield Deviation("the file is missing", RESULTS, f"{pluralize(len(self.lines), 'line')}; {hint}", NOTHING)


def _ruler_digest(objects: Objects, tree: str) -> str:
    """The digest of the ruler in a ledger commit's tree, or why there is none."""
    try:
        entry = objects.tree(tree).get(RULER_FILE)
        return Ruler.from_json(objects.read(entry.blob).decode()).digest if entry else f"no {RULER_FILE}"
    except (MissingObject, ObjectsFailed, BrokenPipeError, ValueError) as error:
        objects.close()
        return f"no readable {RULER_FILE}: {error}"


def _check_run_folder(folder: Path, entry: LedgerEntry) -> Iterator[Deviation]:
    where = f"{folder.name}/result.json"
    try:
        stored = json.loads((folder / "result.json").read_bytes())
    except FileNotFoundError:
        return
    except (OSError, ValueError, RecursionError) as error:
        yield Deviation("not the record", where, f"record {entry.record.seq}", str(error))
        return
    yield from row_deviations("not the record", where, entry.row, stored)


def _read_snapshot(path: Path) -> dict[str, object] | None:
    """The standing in the snapshot, as plain JSON; None where it cannot be read, for then nothing uses it."""
    try:
        row = json.loads(path.read_text().splitlines()[1])
    except (OSError, ValueError, IndexError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


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
