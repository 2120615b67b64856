"""The audit: records against git against seals. Nothing is changed; what differs is named.

Seals are checked that were made with the secret of this place; records that were made elsewhere are named, and only
git is asked about them. They are no difference: nobody can put one below a record that was sealed here. In a clone
without any secret, what the climb's own place has besides its refs may be absent: the branch, ``results.jsonl``, the
run folders.
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
from goalseek.git.command import Missing, ObjectsFailed
from goalseek.git.commits import UnreadableCommit, read_commit
from goalseek.git.objects import Objects
from goalseek.git.repository import Refs, Repository
from goalseek.humanize import pluralize
from goalseek.ledger.audit_commits import NamedCommits, is_next_candidate
from goalseek.ledger.chain import (
    NOTHING,
    Chain,
    Deviation,
    LedgerEntry,
    of_rows,
    of_values,
    read_entries,
    runs_of,
    shown,
    walk_ledger,
)
from goalseek.ledger.checkpoints import Checkpoints
from goalseek.ledger.ledger import RULER_FILE, repair_head
from goalseek.ledger.records import IterationRecord
from goalseek.ledger.results_file import History
from goalseek.ledger.seal import Seal, key_of
from goalseek.ledger.standing import Standing
from goalseek.manifest.loading import RESULTS, Loaded, ignore_home
from goalseek.measurement.ruler import Ruler
from goalseek.own_folders import clear
from goalseek.values import to_line, to_plain

SEALS_CHECKED = "seals checked"


@dataclass(frozen=True)
class Audit:
    """What came of an audit; ``seals`` says whether they were checked, or why not."""

    records: int
    deviations: tuple[Deviation, ...]
    seals: str
    notes: tuple[str, ...] = ()


def audit(loaded: Loaded, repository: Repository, is_rebuilding: bool = False) -> Audit:
    """Walks the ledger from its ref to its root and names every difference. Only the lock's holder may call it.

    ``is_rebuilding`` first makes again from ``results.jsonl`` what the chain lost at its end, then writes that file
    again, where the whole chain can be read.
    """
    refs = repository.refs()
    seal, why_no_seal = _seal(repository.own / "secret")
    if is_rebuilding and refs.ledger and not repository.objects.has(refs.ledger):
        with contextlib.suppress(GoalseekError):  # the audit says what is missing
            repair_head(repository, History(loaded.results), refs.ledger)
    chain = walk_ledger(repository.objects, refs.ledger)
    read = tuple(read_entries(chain))
    is_whole = not chain.broken and all(isinstance(link, LedgerEntry) for link in read)
    notes: list[str] = []
    if is_rebuilding:
        lines = [commit.message for commit in chain.commits]
        refused = f"{RESULTS} was left as it is: the chain in git is not whole"
        notes.append(rebuild(loaded, lines) if is_whole else refused)
    deviations = list(_ends(repository, refs, chain))

    def check_records() -> Iterator[Deviation]:
        standing = yield from _chain(loaded, repository, chain, read, seal)
        if standing:
            yield from _refs(repository, refs, standing, seal is None, notes)

    deviations += check_records()
    deviations += _twin(loaded.results, chain, read, seal is None, notes)
    elsewhere = _elsewhere(read, seal)
    seals = f"{SEALS_CHECKED} of all but {elsewhere[1]}" if elsewhere[1] else SEALS_CHECKED
    return Audit(len(chain.commits), tuple(deviations), why_no_seal or seals, (*notes, *elsewhere[0]))


def _elsewhere(read: tuple[LedgerEntry | Deviation, ...], seal: Seal | None) -> tuple[tuple[str, ...], int]:
    """The records that were sealed with other keys, in words, one note a key; and how many they are."""
    found: dict[str, list[int]] = {}
    for link in read:
        key = key_of(link.record.seal) if seal and isinstance(link, LedgerEntry) else None
        if key and seal and isinstance(link, LedgerEntry) and key != seal.key:
            found.setdefault(key, []).append(link.record.seq)
    notes = (
        f"sealed elsewhere, with the key {key}, and not checkable here: records {runs_of(numbers)}"
        for key, numbers in found.items()
    )
    return tuple(notes), sum(map(len, found.values()))


def _seal(secret: Path) -> tuple[Seal | None, str]:
    """The seal of the secret, which is never made here; without one, why the seals cannot be checked."""
    try:
        return Seal(secret.read_bytes()), ""
    except FileNotFoundError:
        return None, "seals not checked: the secret is not here, but where the climb ran"
    except OSError as error:
        return None, f"seals not checked: the secret cannot be read: {error.strerror}"


def _ends(repository: Repository, refs: Refs, chain: Chain) -> Iterator[Deviation]:
    """The chain's two ends: the ref, and the root."""
    yield from chain.broken
    if refs.ledger is None:
        yield Deviation("a ref is missing", repository.ledger_ref, "the ledger's last commit", NOTHING)
    if chain.root:
        words = f"goalseek ledger {repository.name}\n"
        yield from of_values("the chain's root is none", f"commit {chain.root.name}", words, chain.root.message)


def _chain(
    loaded: Loaded, repository: Repository, chain: Chain, read: tuple[LedgerEntry | Deviation, ...], seal: Seal | None
) -> Generator[Deviation, None, Standing | None]:
    """Every record against the one before it, its seal, its commits, its ruler and its run folder.

    Gives (as a generator's value) what the records add up to; None where they do not.
    """
    named = NamedCommits(repository.objects, repository.name)
    rulers = _Rulers(repository.objects)
    remembered = _remembered(loaded.logs / SNAPSHOT)
    standing = None if chain.broken else Standing()
    seq = None if chain.broken else -1
    for link in read:
        seq = None if seq is None else seq + 1
        if isinstance(link, Deviation):
            yield link
            continue
        record, where = link.record, f"ledger commit {link.commit.name}"
        if seq is not None:
            yield from of_values("the number does not follow", where, seq, record.seq)
        seq = record.seq
        yield from of_values("another project", where, repository.name, record.project)
        if seal and key_of(record.seal) in (None, seal.key):
            yield from _sealed(link, seal, chain)
        candidate = record.commit_hash if isinstance(record, IterationRecord) else None
        yield from of_values("another second parent", where, candidate, " ".join(link.commit.parents[1:]) or None)
        if isinstance(record, IterationRecord):
            if standing:
                number = standing.last_iteration + 1
                yield from of_values("the iteration does not follow", where, number, record.iteration)
            yield from named.check(record, standing.tip if standing else "")
            yield from rulers.check(link, record)
            folder = loaded.runs / f"{record.iteration:04d}"
            yield from _run_folder(folder, link)
            if seal and key_of(record.seal) == seal.key:
                for name in Checkpoints.not_sealed(folder, seal):
                    yield Deviation("the seal does not hold", f"{folder.name}/{name}", "goalseek's seal", "another")
        try:
            standing = standing.after(record) if standing else None
        except ValueError as error:
            yield Deviation("the records cannot be added up", where, "a commit, a tree and a value", str(error))
            standing = None
        if standing and remembered and remembered.get("seq") == standing.seq:
            yield from of_rows("the snapshot differs from the records", SNAPSHOT, to_plain(standing), remembered)
    return standing


def _sealed(link: LedgerEntry, seal: Seal, chain: Chain) -> Iterator[Deviation]:
    before = link.commit.parents[0]
    if chain.root and before == chain.root.name:
        before = ""
    unsealed = to_line({**link.row, "seal": ""})
    expected, written = seal.of("record", before, unsealed), link.record.seal
    yield from of_values("the seal does not hold", f"record {link.record.seq}", expected, written)


class _Rulers:
    """The digests of the rulers in ledger commits' trees; one tree is read once."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._digests: dict[str, str] = {}

    def check(self, link: LedgerEntry, record: IterationRecord) -> Iterator[Deviation]:
        """A difference where the record goes by another ruler than its ledger commit has."""
        tree = link.commit.tree
        if tree not in self._digests:
            self._digests[tree] = self._digest(tree)
        wanted = record.digests.get("ruler")
        yield from of_values("another ruler than recorded", f"record {record.seq}", wanted, self._digests[tree])

    def _digest(self, tree: str) -> str:
        try:
            entry = self._objects.tree(tree).get(RULER_FILE)
            return Ruler.from_json(self._objects.read(entry.blob).decode()).digest if entry else f"no {RULER_FILE}"
        except (Missing, ObjectsFailed, BrokenPipeError, ValueError) as error:
            self._objects.close()
            return f"no readable {RULER_FILE}: {error}"


def _run_folder(folder: Path, link: LedgerEntry) -> Iterator[Deviation]:
    path = folder / "result.json"
    try:
        stored = json.loads(path.read_bytes())
    except FileNotFoundError:
        return
    except (OSError, ValueError, RecursionError) as error:
        yield Deviation("not the record", f"{folder.name}/result.json", f"record {link.record.seq}", str(error))
        return
    yield from of_rows("not the record", f"{folder.name}/result.json", link.row, stored)


def _remembered(path: Path) -> dict[str, object] | None:
    """The fold that the snapshot holds; none where it is not one: then nobody goes by it."""
    try:
        row = json.loads(path.read_text().splitlines()[1])
    except (OSError, ValueError, IndexError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _refs(
    repository: Repository, refs: Refs, standing: Standing, is_clone: bool, notes: list[str]
) -> Iterator[Deviation]:
    """Tip and branch against what the records add up to. A candidate without a record yet is no difference."""
    tip = standing.tip or None
    if refs.tip != tip and refs.tip and tip:
        following = standing.last_iteration + 1
        try:
            if is_next_candidate(partial(read_commit, repository.objects), refs.tip, tip, repository.name, following):
                notes.append(f"iteration {following} is under way: {repository.tip_ref} is at its candidate")
                refs = Refs(tip, refs.ledger, refs.branch, refs.branch_is_checked_out)
        except UnreadableCommit:
            pass
    yield from of_values("a ref is elsewhere", repository.tip_ref, tip, refs.tip)
    if not refs.branch_is_checked_out and not (is_clone and refs.branch is None):
        yield from of_values("a ref is elsewhere", repository.branch_ref, tip, refs.branch)


def _twin(
    path: Path, chain: Chain, read: tuple[LedgerEntry | Deviation, ...], is_clone: bool, notes: list[str]
) -> Iterator[Deviation]:
    hint = "goalseek audit --rebuild writes it from git"
    if not path.exists():
        if is_clone:
            notes.append(f"there is no {RESULTS} here; {hint}")
        elif chain.commits:
            yield Deviation("the file is missing", RESULTS, f"{pluralize(len(chain.commits), 'line')}; {hint}", NOTHING)
        return
    oldest = read[0].record.seq if chain.broken and read and isinstance(read[0], LedgerEntry) else 0
    yield from compare(path, [commit.message for commit in chain.commits], oldest)


SNAPSHOT = "standing.json"


def compare(path: Path, expected: Sequence[str], first: int) -> Iterator[Deviation]:
    """Every line of the file that is not the chain's; ``first`` lines are before those that the chain could tell."""
    content = path.read_bytes()
    found = [line.decode("utf-8", "backslashreplace") for line in content.split(b"\n")]
    is_torn = bool(found[-1])
    if not is_torn:
        found.pop()
    else:
        yield Deviation("a torn last line", _line(len(found)), "a line with its end", shown(found[-1]))
    found = found[first:]
    known = set(expected)
    for kind, low, high, start, end in _unlike(expected, found):
        both = min(high - low, end - start) if kind == "replace" else 0
        for step in range(both):
            if is_torn and start + step == len(found) - 1:
                continue
            yield from _edited(_line(first + start + step + 1), expected[low + step], found[start + step])
        for place in range(low + both, high):
            yield Deviation("a line is missing", _line(first + place + 1), shown(expected[place]), NOTHING)
        for place in range(start + both, end):
            if is_torn and place == len(found) - 1:
                continue
            what = "a line is out of its place" if found[place] in known else "a line that git does not know"
            yield Deviation(what, _line(first + place + 1), NOTHING, shown(found[place]))


def rebuild(loaded: Loaded, lines: Sequence[str]) -> str:
    """Writes the file again; it is there whole, or as it was. Gives what was done, in words."""
    ignore_home(loaded)
    path = loaded.results
    temporary = path.with_name(f"{RESULTS}.new")
    content = "".join(line + "\n" for line in lines).encode()
    was = path.read_bytes() if path.exists() else None
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    clear(path.with_name(SNAPSHOT))
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    before = "there was none" if was is None else "it was the same" if was == content else "it was another"
    return f"{path} was written again from git: {pluralize(len(lines), 'line')}; {before}"


def _unlike(expected: Sequence[str], found: Sequence[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """Where two lists of lines differ: costs the lines, and then what differs."""
    same = 0
    while same < min(len(expected), len(found)) and expected[same] == found[same]:
        same += 1
    matcher = SequenceMatcher(None, expected[same:], found[same:], autojunk=False)
    for kind, low, high, start, end in matcher.get_opcodes():
        if kind != "equal":
            yield kind, low + same, high + same, start + same, end + same


def _edited(where: str, expected: str, found: str) -> Iterator[Deviation]:
    try:
        row = json.loads(found)
        named = list(of_rows("a line was changed", where, json.loads(expected), row))
    except (ValueError, RecursionError):
        named = []
    yield from named or [Deviation("a line was changed", where, shown(expected), shown(found))]


def _line(number: int) -> str:
    return f"{RESULTS} line {number}"
