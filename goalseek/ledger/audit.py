"""The audit of a ledger: compares records, git objects, refs, ``results.jsonl`` and run folders.

Only the secret that made a seal can check it. A record sealed with another one is checked against git alone, and is no
difference: nobody can put one below a record that was sealed here.
"""

import contextlib
import functools
import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct

from goalseek.disk import remove_if_exists, sync, write_atomic
from goalseek.git import repository as git_repository
from goalseek.git.objects import MissingObject, Objects, ObjectsFailed
from goalseek.git.paths import quote_path
from goalseek.git.repository import Commit, Repository, UnreadableCommit, revert_message
from goalseek.humanize import format_ranges, pluralize
from goalseek.ledger.checkpoints import CheckpointName, Seal, key_of, read_sealed
from goalseek.ledger.ledger import RULER_FILE, entry_message, read_ruler
from goalseek.ledger.results_file import SNAPSHOT, diff_lines
from goalseek.ledger.standing import Standing
from goalseek.manifest.loading import RESULTS, ManifestFile, make_log_folders
from goalseek.records import IterationRecord, Record, parse_record
from goalseek.values import Outcome, Reason, to_line, to_plain

_NOTHING = "nothing"
_SHOWN_LIMIT = 200
_ABSENT = object()


class Deviation(Struct, frozen=True):
    what: str
    where: str
    expected: str
    found: str


class Audit(Struct, frozen=True):
    """``seals`` says whether the seals were checked, or why not."""

    records: int
    deviations: tuple[Deviation, ...]
    seals: str
    notes: tuple[str, ...] = ()


class LedgerEntry(Struct, frozen=True):
    """A commit of the ledger; ``row`` is its record as JSON, ``record`` a deviation if its message is no record."""

    commit: Commit
    row: Any
    record: Record | Deviation


def audit(loaded: ManifestFile, repository: Repository, is_rebuilding: bool = False) -> Audit:
    """Needs the project's lock. Only ``is_rebuilding`` changes anything: it first writes ``results.jsonl`` from git."""
    if is_rebuilding:
        repository.objects.bring_back()
    seal, seals = None, "seals checked"
    try:
        seal = Seal((repository.own / "secret").read_bytes())  # Seal.open would make a secret
    except FileNotFoundError:
        seals = "seals not checked: only the machine that ran the climb has the secret"
    except OSError as error:
        seals = f"seals not checked: the secret cannot be read: {error.strerror}"
    auditor = _Auditor(loaded, repository, seal)
    if is_rebuilding:
        auditor.notes.append(auditor.rebuild())
    auditor.check()
    notes = (
        f"sealed elsewhere, with the key {key}, and not checkable here: records {format_ranges(numbers)}"
        for key, numbers in auditor.foreign.items()
    )
    seals += f" of all but {sum(map(len, auditor.foreign.values()))}" if auditor.foreign else ""
    return Audit(len(auditor.lines), tuple(auditor.deviations), seals, (*auditor.notes, *notes))


class _Auditor:
    """``notes`` are no differences; ``foreign`` holds the numbers of records sealed with other keys, by key."""

    def __init__(self, loaded: ManifestFile, repository: Repository, seal: Seal | None) -> None:
        self.deviations: list[Deviation] = []
        self.notes: list[str] = []
        self.foreign: dict[str | None, list[int]] = {}
        self._loaded = loaded
        self._repository = repository
        self._objects = repository.objects
        self._refs = repository.refs()
        self._seal = seal
        self._read = functools.lru_cache(maxsize=32)(repository.read_commit)
        self._ruler_digest = functools.cache(functools.partial(_ruler_digest, repository.objects))
        self._numbers: set[int] = set()
        self._is_numbered_in_order = True  # until several iterations were under way at once
        self._tips: dict[str, str] = {}  # of this epoch, each with the incumbent of its moment
        self._kept: dict[int, str] = {}  # the candidate of each kept iteration
        commits: list[Commit] = []
        try:
            commits += git_repository.walk_first_parents(repository.read_commit, self._refs.ledger)
        except UnreadableCommit as error:
            where = f"ledger commit {error.name}"
            self._add("the chain is broken", where, "a commit of the ledger", str(error))
        self._is_broken = bool(self.deviations)
        self._root = None if self._is_broken or not commits else commits.pop()
        self._entries = [_read_entry(commit) for commit in reversed(commits)]
        self.lines = [entry.commit.last_line for entry in self._entries]
        self._standing = None if self._is_broken else Standing()  # None if it cannot be computed

    def _add(self, what: str, where: str, expected: str, found: str) -> None:
        self.deviations.append(Deviation(what, where, expected, found))

    def _compare(self, what: str, where: str, expected: object, found: object) -> None:
        if expected != found:
            self._add(what, where, _describe_value(expected), _describe_value(found))

    def rebuild(self) -> str:
        """Write ``results.jsonl`` from git if the whole chain can be read; returns a sentence for people."""
        if self._is_broken or any(isinstance(entry.record, Deviation) for entry in self._entries):
            return f"{RESULTS} is unchanged: the chain in git is broken"
        make_log_folders(self._loaded)
        path, content = self._loaded.results, "".join(line + "\n" for line in self.lines).encode()
        previous = path.read_bytes() if path.exists() else None
        write_atomic(path, content, durable=True)
        remove_if_exists(path.with_name(SNAPSHOT))
        sync(path.parent)
        was = "there was none" if previous is None else "it was the same" if previous == content else "it differed"
        return f"{path} was written again from git: {pluralize(len(self.lines), 'line')}; {was}"

    def check(self) -> None:
        """Fill ``deviations``, ``notes`` and ``foreign``."""
        if self._refs.ledger is None:
            self._add("a ref is missing", self._repository.ledger_ref, "the ledger's last commit", _NOTHING)
        if root := self._root:
            message = f"goalseek ledger {self._repository.name}\n"
            self._compare("the chain's root is not goalseek's", f"commit {root.name}", message, root.message)
        snapshot = None
        with contextlib.suppress(OSError, ValueError, IndexError, RecursionError):  # nothing uses one that is damaged
            snapshot = json.loads((self._loaded.logs / SNAPSHOT).read_text().splitlines()[1])
        number = None if self._is_broken else 0
        for entry in self._entries:
            record = entry.record
            if isinstance(record, Deviation):
                self.deviations.append(record)
                number = None if number is None else number + 1
                continue
            if number is not None:
                where = f"ledger commit {entry.commit.name}"
                self._compare("the number is out of sequence", where, number, record.seq)
            number = record.seq + 1
            self._check_record(entry, record)
            standing = self._standing
            if standing and isinstance(snapshot, dict) and snapshot.get("seq") == standing.seq:
                what = "the snapshot differs from the records"  # of fields that both have: other versions have others
                self.deviations += _row_deviations(what, SNAPSHOT, to_plain(standing), snapshot, is_partial=True)
        if self._standing:
            self._check_refs(self._standing)
        self._check_results_file()

    def _check_record(self, entry: LedgerEntry, record: Record) -> None:
        standing, commit = self._standing, entry.commit
        where = f"ledger commit {commit.name}"
        self._compare("another project", where, self._repository.name, record.project)
        if self._seal:
            before = "" if self._root and commit.parents[0] == self._root.name else commit.parents[0]
            expected = self._seal.expected(entry.row, before)
            if expected is None:
                self.foreign.setdefault(key_of(record.seal), []).append(record.seq)
            else:
                self._compare("the seal does not hold", f"record {record.seq}", expected, record.seal)
        further = " ".join(record.further_parents) if isinstance(record, IterationRecord) else ""
        self._compare("another second parent", where, further or None, " ".join(commit.parents[1:]) or None)
        if isinstance(record, IterationRecord):
            self._check_iteration(entry, record)
        try:
            self._standing = standing.after(record) if standing else None
        except ValueError as error:
            self._add("the records contradict each other", where, "a commit, a tree and a value", str(error))
            self._standing = None
            return
        if isinstance(record, IterationRecord) and record.outcome == Outcome.BASELINE:
            self._tips.clear()
        if self._standing and self._standing.incumbent:
            self._tips[self._standing.tip] = self._standing.incumbent.commit

    def _check_iteration(self, entry: LedgerEntry, record: IterationRecord) -> None:
        standing, seal, where = self._standing, self._seal, f"record {record.seq}"
        if standing:
            commit = f"ledger commit {entry.commit.name}"
            self._is_numbered_in_order &= record.benches is None
            if self._is_numbered_in_order:
                number = standing.next_iteration
                self._compare("the iteration is out of sequence", commit, number, record.iteration)
            elif record.iteration in self._numbers:
                self._add("the iteration was recorded before", commit, "another number", str(record.iteration))
            self._numbers.add(record.iteration)
        self._check_commits(record, standing.tip if standing else "")
        if standing:
            has_base = record.schema > 1 and record.outcome != Outcome.BASELINE
            incumbent = standing.incumbent.commit if has_base and standing.incumbent else None
            base = record.base_commit_hash
            # A parallel attempt that moved nothing may stand on an earlier incumbent of the epoch.
            if record.may_be_late and record.commit_hash:
                incumbent = self._tips.get(record.parent_commit_hash or "", incumbent)
            elif record.may_be_late and base in self._tips.values():
                incumbent = base
            self._compare("the candidate's parent is not the incumbent", f"{where}, base_commit_hash", incumbent, base)
        ruler, digest = record.digests.get("ruler"), self._ruler_digest(entry.commit.tree)
        self._compare("another verifier than recorded", where, ruler, digest)
        folder = self._loaded.runs / f"{record.iteration:04d}"
        result = f"{folder.name}/result.json"
        try:
            stored = json.loads((folder / "result.json").read_bytes())
            self.deviations += _row_deviations("not the record", result, entry.row, stored)
        except FileNotFoundError:
            pass
        except (OSError, ValueError, RecursionError) as error:
            self._add("not the record", result, where, str(error))
        if seal and key_of(record.seal) == seal.key:
            for path in sorted(folder.glob("*.json")):
                is_torn = path.is_file() and not path.read_bytes().endswith(b"}\n")  # by a kill or a power cut
                is_ours = not path.is_symlink() and (is_torn or read_sealed(path, seal))
                if CheckpointName.parse(path.stem) and not is_ours:
                    self._add("the seal does not hold", f"{folder.name}/{path.name}", "goalseek's seal", "another")

    def _check_commits(self, record: IterationRecord, tip: str) -> None:
        """A ``tip`` of "" is unknown."""
        where, named = f"record {record.seq}", record.parent_commit_hash
        candidate = self._load_commit(record.commit_hash, f"{where}, commit_hash")
        parent = self._load_commit(named, f"{where}, parent_commit_hash")
        rollback = self._load_commit(record.rollback_commit_hash, f"{where}, rollback_commit_hash")
        if record.commit_hash and tip and not (record.may_be_late and named in self._tips):
            self._compare("the candidate's parent is not the tip", f"{where}, parent_commit_hash", tip, named)
        if candidate:
            self._check_candidate(record, candidate, parent)
        if candidate and rollback:
            self._check_rollbacks(record, candidate, parent, rollback)
        for base, names in record.moved_versions if tip else ():
            # A version that moved to a later tip is on a tip of its base; its tries are one on another.
            parents = [one for one, incumbent in self._tips.items() if incumbent == base]
            for name in names:
                if commit := self._check_try(record, name, parents or [f"a tip of {base}"]):
                    self._check_trailers(record, commit, f"earlier try {name}")
                parents = [name]

    def _load_commit(self, name: str | None, where: str) -> Commit | None:
        try:
            return None if name is None else self._read(name)
        except UnreadableCommit as error:
            self._add("a commit is missing", where, str(name), str(error))
            return None

    def _check_candidate(self, record: IterationRecord, candidate: Commit, parent: Commit | None) -> None:
        where = f"candidate {candidate.name}"
        self._compare("another tree than recorded", where, record.tree_hash, candidate.tree)
        if record.parent_commit_hash in (None, record.commit_hash):
            return
        is_baseline = record.outcome == Outcome.BASELINE
        parents = candidate.parents[:1] if is_baseline else candidate.parents
        expected = (str(record.parent_commit_hash), *record.earlier_commits)
        self._compare("another parent than recorded", where, expected[-1], " ".join(parents))
        for before, name in pairwise(expected):
            self._check_try(record, name, [before])
        self._check_trailers(record, candidate, where)
        if parent and not is_baseline:
            where_changed = f"record {record.seq}, changed_files"
            try:
                changed = sorted(map(quote_path, self._objects.changed_paths(parent.tree, candidate.tree)))
                self._compare("other paths than git's", where_changed, changed, sorted(record.changed_files))
            except (MissingObject, ObjectsFailed, BrokenPipeError) as error:
                self._objects.close()
                self._add("trees that git cannot compare", where_changed, "two trees", str(error))
        if record.taken_back is not None:
            reverted = self._load_commit(self._kept.get(record.taken_back), f"record {record.seq}, taken_back")
            expected_message = revert_message(reverted) if reverted else "the revert of a kept iteration"
            message = candidate.message.rpartition("\n\n")[0] + "\n"
            self._compare("another message than git revert's", where, expected_message, message)
        if record.outcome == Outcome.KEPT:
            self._kept[record.iteration] = candidate.name

    def _check_trailers(self, record: IterationRecord, commit: Commit, where: str) -> None:
        expected = {"Project": self._repository.name, "Run": record.run_id, "Iteration": str(record.iteration)}
        if record.reason == Reason.INTERRUPTED:
            del expected["Run"]  # a run that was given up had made it
        for name, value in expected.items():
            self._compare(f"another trailer Goalseek-{name}", where, value, commit.trailers.get(name))

    def _check_try(self, record: IterationRecord, name: str, parents: Sequence[str]) -> Commit | None:
        commit = self._load_commit(name, f"record {record.seq}, attempts")
        if commit and (found := " ".join(commit.parents)) not in parents:
            self._compare("another parent than recorded", f"earlier try {name}", parents[-1], found)
        return commit

    def _check_rollbacks(self, record: IterationRecord, candidate: Commit, parent: Commit | None, last: Commit) -> None:
        """Check the reverts of every attempt; ``last``, the recorded one, reverts the first attempt."""
        where_attempts = f"record {record.seq}, attempts"
        attempts = [self._load_commit(name, where_attempts) for name in record.earlier_commits]
        rollback: Commit | None = last
        for before, reverted in pairwise([parent, *attempts, candidate]):
            if reverted is None or rollback is None:
                return
            where, message = f"rollback {rollback.name}", revert_message(reverted)
            self._compare("another message than git revert's", where, message, rollback.message)
            if before:
                self._compare("another tree than before the candidate", where, before.tree, rollback.tree)
            if reverted is candidate:
                parents = " ".join(rollback.parents)
                self._compare("another parent than the candidate", where, candidate.name, parents)
                return
            rollback = self._load_commit("".join(rollback.parents[:1]), "a revert's parent")

    def _check_refs(self, standing: Standing) -> None:
        repository, refs, tip = self._repository, self._refs, standing.tip or None
        found = refs.tip
        if found and tip and found != tip:  # a candidate without a record yet is no difference
            following = standing.next_iteration
            with contextlib.suppress(UnreadableCommit):
                read = repository.read_commit
                if git_repository.candidate_commits(read, found, tip, repository.name, following):
                    note = f"iteration {following} is under way: {repository.tip_ref} is at its candidate"
                    self.notes.append(note)
                    found = tip
        self._compare("a ref is at another commit", repository.tip_ref, tip, found)
        is_absent_in_clone = self._seal is None and refs.branch is None
        if not refs.branch_is_checked_out and not is_absent_in_clone:
            self._compare("a ref is at another commit", repository.branch_ref, tip, refs.branch)

    def _check_results_file(self) -> None:
        hint = "goalseek audit --rebuild writes it from git"
        if not self._loaded.results.exists():
            if self._seal is None:
                self.notes.append(f"there is no {RESULTS} here; {hint}")
            elif self.lines:
                count = pluralize(len(self.lines), "line")
                self._add("the file is missing", RESULTS, f"{count}; {hint}", _NOTHING)
            return
        oldest = self._entries[0].record if self._is_broken and self._entries else None
        first = 0 if oldest is None or isinstance(oldest, Deviation) else oldest.seq  # earlier ones cannot be read
        *lines, torn = self._loaded.results.read_bytes().split(b"\n")
        if torn:
            where, end = f"{RESULTS} line {len(lines) + 1}", "a line with its end"
            self._add("a torn last line", where, end, _describe_value(torn))
            lines.append(torn)
        git_lines = [line.encode("utf-8", "surrogateescape") for line in self.lines]
        known = set(git_lines)
        for index, wanted, actual in diff_lines(git_lines, lines[first:]):
            where = f"{RESULTS} line {first + index + 1}"
            if torn and actual is not None and first + index == len(lines) - 1:
                continue
            if wanted is None:
                what = "a line is in the wrong place" if actual in known else "a line that git does not have"
            else:
                what = "a record in git is not in results.jsonl" if actual is None else "a line was changed"
            deviations = [Deviation(what, where, _describe_value(wanted), _describe_value(actual))]
            with contextlib.suppress(ValueError, RecursionError):  # member by member, if both are JSON
                rows = json.loads(wanted or b""), json.loads(actual or b"")
                deviations = list(_row_deviations(what, where, *rows)) or deviations
            self.deviations += deviations


def _read_entry(commit: Commit) -> LedgerEntry:
    what, where, row = "the message is no record", f"ledger commit {commit.name}", None
    try:
        record, row = parse_record(commit.last_line), json.loads(commit.last_line)
        expected = entry_message(record, to_line(row))
    except (ValueError, TypeError, RecursionError) as error:
        return LedgerEntry(commit, row, Deviation(what, where, "a record", str(error)))
    is_record = commit.message == expected
    return LedgerEntry(commit, row, record if is_record else Deviation(what, where, expected, commit.message))


def _ruler_digest(objects: Objects, tree: str) -> str:
    try:
        ruler = read_ruler(objects, tree)
        return ruler.digest if ruler else f"no {RULER_FILE}"
    except (MissingObject, ObjectsFailed, BrokenPipeError, ValueError) as error:
        objects.close()
        return f"no readable {RULER_FILE}: {error}"


def _row_deviations(
    what: str, where: str, expected: Any, found: Any, path: str = "", is_partial: bool = False
) -> Iterator[Deviation]:
    """One for each path at which two JSON values differ; if ``is_partial``, members that only one has are none."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in dict.fromkeys([*expected, *found]):
            members = expected.get(key, _ABSENT), found.get(key, _ABSENT)
            if not (is_partial and _ABSENT in members):
                yield from _row_deviations(what, where, *members, f"{path}.{key}" if path else key, is_partial)
        return
    texts = [_NOTHING if value is _ABSENT else json.dumps(value) for value in (expected, found)]
    if texts[0] != texts[1]:
        yield Deviation(what, f"{where}, {path}" if path else where, *map(_describe_value, texts))


def _describe_value(value: object) -> str:
    if value is None:
        return _NOTHING
    value = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _SHOWN_LIMIT else text[:_SHOWN_LIMIT] + "…"
