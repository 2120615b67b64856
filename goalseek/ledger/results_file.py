"""``results.jsonl``: reading it from either end or by its index; its repair from git; the standing for readers.

Lines are checked against git before the ledger's holder uses them.
"""

import errno
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice, takewhile, zip_longest
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from goalseek.disk import write_atomic
from goalseek.errors import GoalseekError
from goalseek.humanize import pluralize
from goalseek.ledger.checkpoints import Seal
from goalseek.ledger.standing import Standing
from goalseek.manifest.loading import ManifestFile
from goalseek.records import IterationRecord, IterationSummary, NewerSchema, Record, parse_record, parse_summary
from goalseek.values import Outcome, StopReason, from_plain, to_line

_BLOCK = 65536
SNAPSHOT = "standing.json"
INDEX = "results.index"
_UNFIT = (OSError, ValueError, KeyError, TypeError, StopIteration, AttributeError, RecursionError)
_FOLD = "standing 14"  # another number if the same records add up to another standing
_DIGITS = re.compile(rb"[0-9]+")
_REMEDY = "see the differences: goalseek audit; write it again from git: goalseek audit --rebuild"
Parsed = TypeVar("Parsed")


class Line(Struct, frozen=True):
    """A complete line, without its newline."""

    offset: int
    text: bytes

    @property
    def end(self) -> int:
        return self.offset + len(self.text) + 1


class Snapshot(Struct, frozen=True):
    """The standing of the records before ``end``, an offset in bytes."""

    standing: Standing = Standing()
    end: int = 0


class History:
    """The records in ``results.jsonl``. A torn last line is not a record yet.

    The index has a line for each iteration: tree, ruler, number and offset in bytes. It is searched as text: 100,000
    lines take 5 ms to read and 2 ms to search; a dict would take 60 ms to build.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._index = bytearray()
        self._index_end = 0

    def size(self) -> int:
        """In bytes; 0 if there is no file."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def forward(self, offset: int = 0) -> Iterator[Line]:
        """Complete lines; ``offset`` is a line's beginning."""
        with suppress(FileNotFoundError), self.path.open("rb") as file:
            file.seek(offset)
            for raw in file:
                if raw.endswith(b"\n"):
                    yield Line(offset, raw[:-1])
                offset += len(raw)

    def backward(self) -> Iterator[Line]:
        with suppress(FileNotFoundError), self.path.open("rb") as file:
            position, content, is_torn = file.seek(0, os.SEEK_END), b"", True
            while position > 0:
                size = min(_BLOCK, position)
                position -= size
                file.seek(position)
                content = file.read(size) + content
                end = len(content)
                while (newline := content.rfind(b"\n", 0, end)) >= 0:
                    if not is_torn:
                        yield Line(position + newline + 1, content[newline + 1 : end])
                    end, is_torn = newline, False
                content = content[:end]
            if not is_torn:
                yield Line(0, content)

    def records(self) -> Iterator[Record]:
        """Oldest first. Like all that parse one, raises GoalseekError for a line that is no record."""
        return map(self.parsed, self.forward())

    def newest(self) -> Iterator[Record]:
        return map(self.parsed, self.backward())

    def newest_iterations(self) -> Iterator[IterationRecord]:
        return (record for record in self.newest() if isinstance(record, IterationRecord))

    def iteration(self, number: int) -> IterationRecord | None:
        offset = self._number_after(f" {number} ")
        record = None if offset is None else self.parsed(next(self.forward(offset)))
        assert record is None or isinstance(record, IterationRecord)
        return record

    def offset_since(self, number: int) -> int:
        """Where the first record of this or a later iteration begins; the end if there is none."""
        rows = (row.rsplit(b" ", 2) for row in self._update_index().splitlines()[1:])
        return next((int(offset) for _, iteration, offset in rows if int(iteration) >= number), self.size())

    def measured_in(self, ruler: str, tree: str) -> int | None:
        """The first iteration that measured this tree under this ruler."""
        return self._number_after(f"\n{tree} {ruler} ") if tree else None

    def _number_after(self, key: str) -> int | None:
        index = self._update_index()
        start = index.find(key.encode())
        found = _DIGITS.match(index, start + len(key)) if start >= 0 else None
        return int(found[0]) if found else None

    def _update_index(self) -> bytearray:
        if not self._index:
            text, end = b"\n", 0
            with suppress(*_UNFIT):
                _, text, end = self._read_cache(INDEX)
            self._index, self._index_end = bytearray(text), end
        for line in self.forward(self._index_end):
            if summary := self.summary(line):
                tree = "" if summary.outcome == Outcome.SKIPPED else summary.tree_hash or ""
                self._index += f"{tree} {summary.digests.ruler} {summary.iteration} {line.offset}\n".encode()
            self._index_end = line.end
        return self._index

    def parsed(self, line: Line) -> Record:
        return self._parse(line, parse_record)

    def summary(self, line: Line) -> IterationSummary | None:
        """None if the record is not an iteration."""
        return self._parse(line, parse_summary)

    def _parse(self, line: Line, parse: Callable[[bytes], Parsed]) -> Parsed:
        try:
            return parse(line.text)
        except ValueError as error:
            message = f"{self.path}, at byte {line.offset}: {error}"
            hint = error.hint if isinstance(error, NewerSchema) else _REMEDY
            raise GoalseekError(message, hint, StopReason.TAMPERED) from None

    def replay(self, snapshot: Snapshot, until: int | None = None) -> Standing:
        """Add the records after the snapshot, at most up to the number ``until``."""
        standing = snapshot.standing
        for line in self.forward(snapshot.end):
            if standing.seq == until:
                break
            standing = standing.after(self.parsed(line))
        return standing

    def save_snapshot(self, standing: Standing, seal: Seal) -> None:
        last = next(self.backward(), None)
        if last is None:
            return
        body = to_line(standing)
        self._write_cache(SNAPSHOT, last, f"{body}\n".encode(), {"seal": seal.of(_FOLD, body)})
        self._write_cache(INDEX, last, self._update_index(), {})

    def load_snapshot(self, seal: Seal) -> Snapshot:
        """Empty if it does not fit the file, or its seal does not hold."""
        with suppress(*_UNFIT):
            head, text, end = self._read_cache(SNAPSHOT)
            body = text.decode().removesuffix("\n")
            if seal.holds(head["seal"], _FOLD, body):
                return Snapshot(from_plain(Standing, json.loads(body)), end)
        return Snapshot()

    def _write_cache(self, name: str, last: Line, body: bytes | bytearray, more: Mapping[str, str]) -> None:
        """The first line holds offset and hash of ``last``, the newest record in the cache."""
        head = {"offset": last.offset, "line": hashlib.sha256(last.text).hexdigest(), **more}
        write_atomic(self.path.with_name(name), json.dumps(head).encode() + b"\n" + body)

    def _read_cache(self, name: str) -> tuple[dict[str, Any], bytes, int]:
        """First line, rest, and the end of its records. Raises one of ``_UNFIT``."""
        first, _, body = self.path.with_name(name).read_bytes().partition(b"\n")
        head = json.loads(first)
        line = next(self.forward(head["offset"]))
        if hashlib.sha256(line.text).hexdigest() != head["line"]:
            raise ValueError("it is of other records")
        return head, body, line.end


def append_line(path: Path, *lines: str) -> None:
    """One O_APPEND write; a missing file is made. Lines that a power cut takes are written again from git."""
    content = "".join(line + "\n" for line in lines).encode()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), "wb", buffering=0) as file:
        if file.write(content) != len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def repair(history: History, messages: Iterator[str], snapshot: Snapshot) -> str:
    """Remove a torn last line, and add git's lines that are missing at either end; returns a sentence for people.

    ``messages`` are git's lines, newest first. Lines before the snapshot's end were checked earlier. Raises
    GoalseekError for a complete line that git does not have in its place.
    """
    path = history.path
    path.parent.mkdir(parents=True, exist_ok=True)
    last = next(history.backward(), None)
    end = last.end if last else 0
    newer: list[str] = []
    for message in messages:
        if last and message.encode() == last.text:
            break
        newer.append(message)
    else:
        if last:
            problem = f"{path} ends with a line that is no record in git"
            hint = f"move it away, and goalseek writes it again from git: mv {path} {path}.old"
            raise GoalseekError(problem, hint, StopReason.TAMPERED)
    lines = list(takewhile(lambda line: line.offset >= snapshot.end, islice(history.backward(), 1, None)))
    older: list[str] = []
    for line, message in zip_longest(lines, islice(messages, len(lines) if snapshot.end else None)):
        if line is None:
            older.append(message)
        elif message is None or message.encode() != line.text:
            problem = f"{path}, at byte {line.offset}: the line differs from git"
            raise GoalseekError(problem, _REMEDY, StopReason.TAMPERED)
    note = ""
    if history.size() > end:
        os.truncate(path, end)
        note = "removed a torn last line of results.jsonl"
    if newer:
        append_line(path, *reversed(newer))
        note = f"wrote the last {pluralize(len(newer), 'line')} of results.jsonl again from git: missing or torn"
    if older:
        content = "".join(f"{message}\n" for message in reversed(older)).encode() + path.read_bytes()
        write_atomic(path, content, durable=True)
        note = f"wrote the first {pluralize(len(older), 'line')} of results.jsonl again from git: missing"
    return note


def diff_lines(expected: list[bytes], actual: list[bytes]) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    """Lines that differ: index, expected, actual; None if a line is missing or extra.

    The index counts expected lines if the actual one is None, else actual ones. Equal lines before the first difference
    take linear time.
    """
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(expected, actual, strict=False)))
    left, right = expected[same:], actual[same:]
    from difflib import SequenceMatcher  # most commands need none

    for kind, low, high, start, end in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if kind != "equal":
            for step, (wanted, line) in enumerate(zip_longest(left[low:high], right[start:end])):
                yield same + (low if line is None else start) + step, wanted, line


def load_standing(loaded: ManifestFile, own: Path | None = None) -> Standing:
    """The snapshot if its seal verifies, which needs the secret; else a replay of all records."""
    history, snapshot = History(loaded.results), Snapshot()
    if history.path.with_name(SNAPSHOT).exists() and (own := own or find_own_folder(loaded)):
        with suppress(OSError):
            snapshot = history.load_snapshot(Seal((own / "secret").read_bytes()))
    return history.replay(snapshot)


def find_own_folder(loaded: ManifestFile) -> Path | None:
    """None outside a repository."""
    from goalseek.git.location import locate

    with suppress(GoalseekError):
        return locate(loaded.folder / loaded.manifest.project.repo).own(loaded.manifest.project.name)
    return None
