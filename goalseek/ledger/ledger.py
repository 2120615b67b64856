"""The ledger: a chain with a commit for each record. Its ref's update is an iteration's only commit point.

``results.jsonl`` is a readable copy, repaired from the chain whenever the ledger is opened.
"""

import functools
import json
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice, pairwise, takewhile
from pathlib import Path
from typing import TypeVar

from msgspec import structs

from goalseek import records
from goalseek.errors import GoalseekError
from goalseek.git.objects import Entry, Objects
from goalseek.git.repository import Commit, RefMove, RefMoved, Repository, ref_moved_error, walk_first_parents
from goalseek.ledger.checkpoints import Seal
from goalseek.ledger.results_file import History, Snapshot, append_line, repair
from goalseek.ledger.standing import Standing
from goalseek.measurement.ruler import Ruler
from goalseek.values import StopReason, from_line, to_line, to_plain

RULER_FILE = "ruler.json"
_HEAD_FILE = "ledger"
# An older version takes all of the note for the commit, shows its first 12 characters, and goes no further.
_NOTE_FOR_OLDER_VERSIONS = "newer schema: update goalseek, which left it at"
_SNAPSHOT_EVERY = 16
RECENT = 200
_NEWEST_STANDINGS = 64  # iterations under way may have begun at one of these
AnyRecord = TypeVar("AnyRecord", bound=records.Record)


def entry_message(record: records.Record, line: str) -> str:
    """A subject for people, and the record's line; in schema 1 the line alone."""
    if record.schema == 1:
        return line
    match record:
        case records.IterationRecord():
            subject = f"{record.iteration} {record.outcome} {record.reason}"
        case records.RunRecord():
            subject = "run begins"
        case records.MeasurementRecord():
            subject = f"measures for {record.asked_by}"
        case records.SettleRecord():
            subject = f"settles {record.iteration}"
        case records.HoldoutRecord():
            subject = f"holdout {record.look} of {record.of} {record.reason}"
    return f"goalseek {subject}\n\n{line}\n"


def read_ruler(objects: Objects, tree: str) -> Ruler | None:
    entry = objects.tree(tree).get(RULER_FILE)
    return from_line(Ruler, objects.read(entry.blob)) if entry else None


class Ledger:
    """Only the lock's holder may open one. ``recent`` holds iterations, newest first."""

    def __init__(self, repository: Repository, results: Path) -> None:
        self.repository = repository
        self.history = History(results)
        self.seal = Seal.open(repository.own)
        self.head = repository.refs().ledger
        try:
            records.parse_record(repository.load_commit(self.head).last_line if self.head else "")
        except records.NewerSchema as error:
            problem = f"{repository.ledger_ref}: {error}"
            raise GoalseekError(problem, error.hint, StopReason.REPOSITORY) from None
        except ValueError:
            pass  # the seal and results.jsonl say more of a damaged record
        self._refuse_moved()
        foreign_note = self._refuse_forged()
        snapshot = self.history.load_snapshot(self.seal)
        repair_note = self._repair_lines(snapshot)
        self._size = self.history.size()
        if self.head and self._last_head() != self.head:
            self._note_head(repository.load_commit(self.head).message)
        self.standing = self.history.replay(snapshot)
        # With 20,000 hidden files it takes 25 ms to read.
        self._ruler_in = functools.lru_cache(maxsize=1)(lambda tree: read_ruler(repository.objects, tree))
        self._newest = deque([self.standing], maxlen=_NEWEST_STANDINGS)
        if self.standing.baseline is None:  # the measurement of an init, say, whose folder went away
            repair_note = ""
        self.mended = "; ".join(filter(None, (foreign_note, repair_note)))
        self.recent = deque(islice(self.history.newest_iterations(), RECENT), maxlen=RECENT)

    def append(self, record: AnyRecord, ruler: str | None = None) -> AnyRecord:
        """Seals and commits it; ``ruler`` (JSON) begins an epoch. Raises GoalseekError if somebody moved the ledger."""
        record = structs.replace(record, seq=self.standing.seq + 1, seal="")
        sealed = structs.replace(record, seal=self.seal.of_record(to_plain(record), self.head or ""))
        line, before, repository = to_line(sealed), self.head, self.repository
        objects = repository.objects
        root_message = f"goalseek ledger {repository.name}\n"
        parent = before or objects.write_commit(objects.write_tree({}), (), root_message, 0)
        tree = repository.tree_of(parent)
        if ruler is not None:  # the tree of this and every later commit, so that the head has the pinned one
            tree = objects.write_tree({RULER_FILE: Entry("100644", objects.write_bytes(ruler.encode()))})
        # They keep the candidate and its earlier versions reachable.
        further = sealed.further_parents if isinstance(sealed, records.IterationRecord) else ()
        timestamp = int(datetime.fromisoformat(sealed.timestamp).timestamp())
        message = entry_message(sealed, line)
        after = objects.write_commit(tree, (parent, *further), message, timestamp)
        try:
            repository.move([RefMove(repository.ledger_ref, before, after)])
        except RefMoved:
            actual = repository.refs().ledger
            raise ref_moved_error(repository.ledger_ref, before or "nothing", actual) from None
        objects.sync()
        self.head = after
        self._note_head(message)
        if self.history.size() == self._size:
            append_line(self.history.path, line)
        else:  # somebody changed the file since the last line
            self.mended = self._repair_lines(Snapshot())
            self.history = History(self.history.path)  # without its index: the lines may be in other places now
        self._size = self.history.size()
        self.standing = self.standing.after(sealed)
        self._newest.appendleft(self.standing)
        if self.standing.seq % _SNAPSHOT_EVERY == 0:
            self.history.save_snapshot(self.standing, self.seal)
        if isinstance(sealed, records.IterationRecord):
            self.recent.appendleft(sealed)
        return sealed

    def standing_at(self, seq: int) -> Standing:
        known = next((standing for standing in self._newest if standing.seq == seq), None)
        if known:
            return known
        snapshot = self.history.load_snapshot(self.seal)
        return self.history.replay(snapshot if snapshot.standing.seq <= seq else Snapshot(), seq)

    def standing_of_tip(self, commit: str) -> Standing:
        """After the record that moved the tip to this commit; the present one if none is known."""
        landed = (record.seq for record in self.history.newest_iterations() if record.landed_commit_hash == commit)
        return self.standing_at(next(landed, self.standing.seq))

    def pinned_ruler(self) -> Ruler | None:
        """The present epoch's; None before the first baseline."""
        return self._ruler_in(self.repository.tree_of(self.head)) if self.head else None

    def now(self) -> str:
        """UTC to the millisecond."""
        return datetime.now(UTC).isoformat("T", "milliseconds").replace("+00:00", "Z")

    def _repair_lines(self, snapshot: Snapshot) -> str:
        return repair(self.history, (commit.last_line for commit, _ in self._commits()), snapshot)

    def _commits(self) -> Iterator[tuple[Commit, str]]:
        """Newest first, each with the commit that it follows, "" for the root."""
        for commit, below in pairwise(walk_first_parents(self.repository.load_commit, self.head)):
            yield commit, below.name if below.parents else ""

    def _refuse_forged(self) -> str:
        """Check the seals of records after the last noted head; returns a note of those fetched with another key.

        Raises GoalseekError for a seal that names our key, or none, and does not hold.
        """
        last_head = self._last_head()
        foreign: list[int] = []
        for commit, before in takewhile(lambda pair: pair[0].name != last_head, self._commits()):
            try:
                row = json.loads(commit.last_line)
                expected, seal, number = self.seal.expected(row, before), row["seal"], row["seq"]
            except (ValueError, TypeError, KeyError):
                expected, seal, number = "that of a record", None, 0
            if expected is None:
                foreign.append(number)
            elif expected != seal:
                ref, name = self.repository.ledger_ref, commit.name
                problem = f"{ref}, at {name[:12]}: the record has no seal of goalseek's"
                undo = f"; git update-ref {ref} {last_head} goes back to its last one" if last_head else ""
                raise GoalseekError(problem, f"see: goalseek audit{undo}", StopReason.TAMPERED)
        return (
            f"records {foreign[-1]}-{foreign[0]} were sealed elsewhere, and cannot be checked here" if foreign else ""
        )

    def _refuse_moved(self) -> None:
        """Raises GoalseekError unless the ledger is at, or ahead of, the commit where goalseek last left it."""
        last_head = self._last_head()
        if last_head is None and self.head is None and self.history.size():
            ref, path = self.repository.ledger_ref, self.history.path
            hint = (
                f"fetch it from a clone: git fetch CLONE {ref}:{ref}; or find its last commit, whose message ends "
                f"with the last line of that file: git fsck --unreachable; to begin anew, move the file away"
            )
            raise GoalseekError(f"{ref} is gone, and {path} has its records", hint, StopReason.TAMPERED)
        if last_head is None or last_head == self.head:
            return
        if self.head is None or not self.repository.is_ancestor(last_head, self.head):
            error = ref_moved_error(self.repository.ledger_ref, last_head, self.head)
            removal = f"; to begin anew, remove {self.repository.own} and {self.history.path.parent}"
            error.hint += removal if self.head is None else ""
            raise error

    def _last_head(self) -> str | None:
        try:
            words = (self.repository.own / _HEAD_FILE).read_text().split()
        except FileNotFoundError:
            return None
        return words[-1] if words else None

    def _note_head(self, message: str) -> None:
        """``message`` is the head's. An empty, lost or older note is harmless: it only detects changes by others."""
        note = self.head if message.startswith("{") else f"{_NOTE_FOR_OLDER_VERSIONS} {self.head}"
        (self.repository.own / _HEAD_FILE).write_text(f"{note}\n")
