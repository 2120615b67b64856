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
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from goalseek.disk import remove_if_exists, sync, write_atomic
from goalseek.git.command import MissingObject, ObjectsFailed
from goalseek.git.commits import Commit, UnreadableCommit, candidate_commits, read_commit, walk_first_parents
from goalseek.git.objects import Objects
from goalseek.git.repository import Refs, Repository
from goalseek.humanize import pluralize
from goalseek.ledger.audit_commits import NamedCommits
from goalseek.ledger.chain import (
    NOTHING,
    Deviation,
    LedgerEntry,
    check_message,
    check_seal,
    describe_value,
    format_ranges,
    row_deviations,
    value_deviations,
)
from goalseek.ledger.checkpoints import Checkpoints
from goalseek.ledger.ledger import RULER_FILE
from goalseek.ledger.results_file import SNAPSHOT, diff_lines
from goalseek.ledger.seal import Seal, key_of
from goalseek.ledger.standing import Standing
from goalseek.manifest.loading import RESULTS, ManifestFile, make_log_folders
from goalseek.measurement.ruler import Ruler
from goalseek.records import IterationRecord
from goalseek.values import Outcome, to_plain

SEALS_CHECKED = "seals checked"


class Audit(Struct, frozen=True):
    """The result of an audit. ``seals`` says whether the seals were checked, or why not."""

    records: int
    deviations: tuple[Deviation, ...]
    seals: str
    notes: tuple[str, ...] = ()


def audit(loaded: ManifestFile, repository: Repository, is_rebuilding: bool = False) -> Audit:
    """Walks the ledger from its ref to its root and names every difference. Only the lock's holder may call it.

    ``is_rebuilding`` first writes ``results.jsonl`` again if the whole chain can be read.
    """
    if is_rebuilding:
        repository.objects.bring_back()
    seal, seals = None, SEALS_CHECKED
    try:
        seal = Seal((repository.own / "secret").read_bytes())  # makes no secret where there is none
    except FileNotFoundError:
        seals = "seals not checked: the secret is not here, but where the climb ran"
    except OSError as error:
        seals = f"seals not checked: the secret cannot be read: {error.strerror}"
    auditor = _Auditor(loaded, repository, repository.refs(), seal)
    if is_rebuilding:
        auditor.notes.append(auditor.rebuild())
    deviations = tuple(auditor.differences())
    foreign: dict[str | None, list[int]] = {}
    for key, number in auditor.foreign:
        foreign.setdefault(key, []).append(number)
    notes = (
        f"sealed elsewhere, with the key {key}, and not checkable here: records {format_ranges(numbers)}"
        for key, numbers in foreign.items()
    )
    seals += f" of all but {len(auditor.foreign)}" if foreign else ""
    return Audit(len(auditor.lines), deviations, seals, (*auditor.notes, *notes))


class _Auditor:
    """One audit. ``notes`` gets what is worth knowing and no difference, ``foreign`` the records of other keys."""

    def __init__(self, loaded: ManifestFile, repository: Repository, refs: Refs, seal: Seal | None) -> None:
        self.notes: list[str] = []
        self.foreign: list[tuple[str | None, int]] = []
        self._loaded = loaded
        self._repository = repository
        self._refs = refs
        self._seal = seal
        self._commits = NamedCommits(repository.objects, repository.name)
        self._ruler_digest = functools.cache(functools.partial(_ruler_digest, repository.objects))
        self._numbers: set[int] = set()
        self._is_numbered_in_order = True  # until several iterations were under way at once
        self._tips: dict[str, str] = {}  # of this epoch, each with the incumbent of its moment
        self._broken: list[Deviation] = []
        commits: list[Commit] = []
        try:
            commits += walk_first_parents(functools.partial(read_commit, repository.objects), refs.ledger)
        except UnreadableCommit as error:
            where = f"ledger commit {error.name}"
            self._broken.append(Deviation("the chain is broken", where, "a commit of the ledger", str(error)))
        self._root = None if self._broken or not commits else commits.pop()
        befores = [
            "" if commit.parents[0] == (self._root and self._root.name) else commit.parents[0] for commit in commits
        ]
        self._entries = [LedgerEntry(*pair) for pair in zip(commits, befores, strict=True)][::-1]
        self.lines = [entry.commit.last_line for entry in self._entries]
        self._standing = None if self._broken else Standing()  # None where it cannot be computed

    def rebuild(self) -> str:
        """Writes ``results.jsonl`` again, if the whole chain can be read. Gives what was done, in words."""
        if self._broken or any(deviation for entry in self._entries for deviation in check_message(entry)):
            return f"{RESULTS} was left as it is: the chain in git is not whole"
        make_log_folders(self._loaded)
        path, content = self._loaded.results, "".join(line + "\n" for line in self.lines).encode()
        previous = path.read_bytes() if path.exists() else None
        write_atomic(path, content, durable=True)
        remove_if_exists(path.with_name(SNAPSHOT))
        sync(path.parent)
        was = "there was none" if previous is None else "it was the same" if previous == content else "it was another"
        return f"{path} was written again from git: {pluralize(len(self.lines), 'line')}; {was}"

    def differences(self) -> Iterator[Deviation]:
        """Every difference: of the chain, its records, the refs and ``results.jsonl``."""
        root, name = self._root, self._repository.name
        yield from self._broken
        if self._refs.ledger is None:
            yield Deviation("a ref is missing", self._repository.ledger_ref, "the ledger's last commit", NOTHING)
        if root:
            message = f"goalseek ledger {name}\n"
            yield from value_deviations("the chain's root is none", f"commit {root.name}", message, root.message)
        snapshot = None
        with contextlib.suppress(OSError, ValueError, IndexError, RecursionError):  # nothing uses one that is damaged
            snapshot = json.loads((self._loaded.logs / SNAPSHOT).read_text().splitlines()[1])
        number = None if self._broken else 0
        for entry in self._entries:
            if unreadable := list(check_message(entry)):
                yield from unreadable
                number = None if number is None else number + 1
                continue
            if number is not None:
                where = f"ledger commit {entry.commit.name}"
                yield from value_deviations("the number does not follow", where, number, entry.record.seq)
            number = entry.record.seq + 1
            yield from self._check_record(entry)
            standing = self._standing
            if standing and isinstance(snapshot, dict) and snapshot.get("seq") == standing.seq:
                what = "the snapshot differs from the records"
                yield from row_deviations(what, SNAPSHOT, *_shared_fields(to_plain(standing), snapshot))
        if self._standing:
            yield from self._check_refs(self._standing)
        yield from self._check_results_file()

    def _check_record(self, entry: LedgerEntry) -> Iterator[Deviation]:
        """Checks a record's seal, its commits, its ruler and its run folder, and adds it to the standing."""
        record, standing, seal = entry.record, self._standing, self._seal
        where = f"ledger commit {entry.commit.name}"
        yield from value_deviations("another project", where, self._repository.name, record.project)
        if seal:
            yield from check_seal(entry, seal, self.foreign)
        further = " ".join(record.further_parents) if isinstance(record, IterationRecord) else ""
        second = " ".join(entry.commit.parents[1:])
        yield from value_deviations("another second parent", where, further or None, second or None)
        if isinstance(record, IterationRecord):
            yield from self._check_iteration(entry, record)
        try:
            self._standing = standing.after(record) if standing else None
        except ValueError as error:
            yield Deviation("the records cannot be added up", where, "a commit, a tree and a value", str(error))
            self._standing = None
            return
        if isinstance(record, IterationRecord) and record.outcome == Outcome.BASELINE:
            self._tips.clear()
        if self._standing and self._standing.incumbent:
            self._tips[self._standing.tip] = self._standing.incumbent.commit

    def _check_iteration(self, entry: LedgerEntry, record: IterationRecord) -> Iterator[Deviation]:
        standing, seal, where = self._standing, self._seal, f"record {record.seq}"
        if standing:
            commit = f"ledger commit {entry.commit.name}"
            self._is_numbered_in_order &= record.benches is None
            if self._is_numbered_in_order:
                number = standing.next_iteration
                yield from value_deviations("the iteration does not follow", commit, number, record.iteration)
            elif record.iteration in self._numbers:
                what = "the iteration was recorded before"
                yield Deviation(what, commit, "another number", str(record.iteration))
            self._numbers.add(record.iteration)
        yield from self._commits.check(record, standing.tip if standing else "", self._tips)
        if standing:
            has_base = record.schema > 1 and record.outcome != Outcome.BASELINE
            incumbent = standing.incumbent.commit if has_base and standing.incumbent else None
            base = record.base_commit_hash
            # What was tried beside others and moved nothing may stand on an earlier incumbent of the epoch.
            if record.may_be_late and record.commit_hash:
                incumbent = self._tips.get(record.parent_commit_hash or "", incumbent)
            elif record.may_be_late and base in self._tips.values():
                incumbent = base
            what = "the candidate is not on the incumbent"
            yield from value_deviations(what, f"{where}, base_commit_hash", incumbent, base)
        ruler, digest = record.digests.get("ruler"), self._ruler_digest(entry.commit.tree)
        yield from value_deviations("another verifier than recorded", where, ruler, digest)
        folder = self._loaded.runs / f"{record.iteration:04d}"
        try:
            stored = json.loads((folder / "result.json").read_bytes())
            yield from row_deviations("not the record", f"{folder.name}/result.json", entry.row, stored)
        except FileNotFoundError:
            pass
        except (OSError, ValueError, RecursionError) as error:
            yield Deviation("not the record", f"{folder.name}/result.json", where, str(error))
        if seal and key_of(record.seal) == seal.key:
            for name in Checkpoints.unsealed_files(folder, seal):
                yield Deviation("the seal does not hold", f"{folder.name}/{name}", "goalseek's seal", "another")

    def _check_refs(self, standing: Standing) -> Iterator[Deviation]:
        """Checks tip and branch against the standing. A candidate without a record yet is no difference."""
        repository, refs, tip = self._repository, self._refs, standing.tip or None
        found = refs.tip
        if found and tip and found != tip:
            following = standing.next_iteration
            read = functools.partial(read_commit, repository.objects)
            with contextlib.suppress(UnreadableCommit):
                if candidate_commits(read, found, tip, repository.name, following):
                    note = f"iteration {following} is under way: {repository.tip_ref} is at its candidate"
                    self.notes.append(note)
                    found = tip
        yield from value_deviations("a ref is elsewhere", repository.tip_ref, tip, found)
        is_absent_in_clone = self._seal is None and refs.branch is None
        if not refs.branch_is_checked_out and not is_absent_in_clone:
            yield from value_deviations("a ref is elsewhere", repository.branch_ref, tip, refs.branch)

    def _check_results_file(self) -> Iterator[Deviation]:
        hint = "goalseek audit --rebuild writes it from git"
        if not self._loaded.results.exists():
            if self._seal is None:
                self.notes.append(f"there is no {RESULTS} here; {hint}")
            elif self.lines:
                yield Deviation(
                    "the file is missing", RESULTS, f"{pluralize(len(self.lines), 'line')}; {hint}", NOTHING
                )
            return
        oldest = self._entries[0] if self._broken and self._entries else None
        first = oldest.record.seq if oldest and not any(check_message(oldest)) else 0  # what is before cannot be read
        *lines, torn = self._loaded.results.read_bytes().split(b"\n")
        if torn:
            where, end = f"{RESULTS} line {len(lines) + 1}", "a line with its end"
            yield Deviation("a torn last line", where, end, describe_value(_line_text(torn)))
            lines.append(torn)
        git_lines = [line.encode("utf-8", "surrogateescape") for line in self.lines]
        known = set(git_lines)
        for index, wanted, actual in diff_lines(git_lines, lines[first:]):
            where = f"{RESULTS} line {first + index + 1}"
            if torn and actual is not None and first + index == len(lines) - 1:
                continue
            if wanted is None:
                what = "a line is out of its place" if actual in known else "a line that git does not know"
            else:
                what = "a line is missing" if actual is None else "a line was changed"
            values = describe_value(_line_text(wanted)), describe_value(_line_text(actual))
            deviations = [Deviation(what, where, *values)]
            with contextlib.suppress(ValueError, RecursionError):  # where both are JSON, member by member
                rows = json.loads(wanted or b""), json.loads(actual or b"")
                deviations = list(row_deviations(what, where, *rows)) or deviations
            yield from deviations


def _ruler_digest(objects: Objects, tree: str) -> str:
    """The digest of the ruler in a ledger commit's tree, or why there is none."""
    try:
        entry = objects.tree(tree).get(RULER_FILE)
        return Ruler.from_json(objects.read(entry.blob).decode()).digest if entry else f"no {RULER_FILE}"
    except (MissingObject, ObjectsFailed, BrokenPipeError, ValueError) as error:
        objects.close()
        return f"no readable {RULER_FILE}: {error}"


def _shared_fields(expected: Any, stored: Any) -> tuple[Any, Any]:
    """Both without the fields that only one has, at any depth: a snapshot of another version has other fields."""
    if not isinstance(expected, dict) or not isinstance(stored, dict):
        return expected, stored
    both = {name: _shared_fields(value, stored[name]) for name, value in expected.items() if name in stored}
    return {name: pair[0] for name, pair in both.items()}, {name: pair[1] for name, pair in both.items()}


def _line_text(line: bytes | None) -> str | None:
    return None if line is None else line.decode("utf-8", "backslashreplace")
