"""``results.jsonl`` as it is read: from its end, by bisection, or whole. What is not asked for costs nothing."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from goalseek.errors import UNFIT, GoalseekError
from goalseek.records import IterationRecord, Record, from_line
from goalseek.standing import Standing
from goalseek.values import from_plain, to_line

_BLOCK = 65536
_SNAPSHOT = "standing.json"


@dataclass(frozen=True)
class Line:
    """One complete line of the file, without its newline, and where it begins."""

    offset: int
    text: bytes


@dataclass(frozen=True)
class Snapshot:
    """A fold over the records before ``end``, a place in bytes."""

    standing: Standing = Standing()
    end: int = 0


class History:
    """The records of one project, read from its ``results.jsonl``. A torn last line is not a record yet."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def size(self) -> int:
        """The file's size in bytes; 0 where there is none."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def forward(self, offset: int = 0) -> Iterator[Line]:
        """Complete lines from a line's beginning on."""
        with suppress(FileNotFoundError), self.path.open("rb") as file:
            file.seek(offset)
            for raw in file:
                if raw.endswith(b"\n"):
                    yield Line(offset, raw[:-1])
                offset += len(raw)

    def backward(self) -> Iterator[Line]:
        """Complete lines from the end."""
        with suppress(FileNotFoundError), self.path.open("rb") as file:
            place = file.seek(0, os.SEEK_END)
            rest = b""
            is_torn = True
            while place > 0:
                step = min(_BLOCK, place)
                place -= step
                file.seek(place)
                rest = file.read(step) + rest
                first, *lines = rest.split(b"\n")
                offset = place + len(rest)
                for text in reversed(lines):
                    offset -= len(text)
                    if not is_torn:
                        yield Line(offset, text)
                    is_torn = False
                    offset -= 1
                rest = first
            if not is_torn:
                yield Line(0, rest)

    def records(self) -> Iterator[Record]:
        """Every record, oldest first. Raises GoalseekError for a line that is none."""
        for line in self.forward():
            yield self.parsed(line)

    def newest(self) -> Iterator[Record]:
        """Every record, newest first."""
        for line in self.backward():
            yield self.parsed(line)

    def iteration(self, number: int) -> IterationRecord | None:
        """The record of an iteration, by bisection."""
        found = self._iteration_from(self.offset_of(number))
        return found[1] if found and found[1].iteration == number else None

    def offset_of(self, number: int) -> int:
        """Where the lines begin with which an iteration, or the next one that there is, comes first; by bisection."""
        low, high = 0, self.size()
        while low < high:
            middle = (low + high) // 2
            found = self._iteration_from(middle)
            if found is None or found[0].offset >= high or found[1].iteration >= number:
                high = middle
            else:
                low = found[0].offset + len(found[0].text) + 1
        return low

    def parsed(self, line: Line) -> Record:
        """The record on a line. Raises GoalseekError where it is none."""
        try:
            return from_line(line.text)
        except ValueError as error:
            message = f"{self.path}, at byte {line.offset}: {error}"
            hint = "goalseek audit says what differs; goalseek audit --rebuild writes it again from git"
            raise GoalseekError(message, hint, UNFIT, "tampered") from None

    def has_snapshot(self) -> bool:
        """Whether there is one, whoever wrote it."""
        return self.path.with_name(_SNAPSHOT).exists()

    def standing(self) -> Standing:
        """The fold over all records."""
        return self.folded(Snapshot())

    def folded(self, snapshot: Snapshot) -> Standing:
        """The fold over a snapshot and the records after it."""
        standing = snapshot.standing
        for line in self.forward(snapshot.end):
            standing = standing.after(self.parsed(line))
        return standing

    def remember(self, standing: Standing, seal: Callable[[str], str]) -> None:
        """Writes the snapshot: a cache, sealed, and held against the last line before it is used."""
        last = next(self.backward(), None)
        if last is None:
            return
        body = to_line(standing)
        checked = {"offset": last.offset, "line": hashlib.sha256(last.text).hexdigest(), "seal": seal(body)}
        content = json.dumps(checked) + "\n" + body + "\n"
        temporary = self.path.with_name(_SNAPSHOT + ".new")
        temporary.write_text(content)
        temporary.replace(self.path.with_name(_SNAPSHOT))

    def snapshot(self, holds: Callable[[str, str], bool]) -> Snapshot:
        """The stored snapshot where it fits the file, and its seal ``holds`` (seal, body); else an empty one."""
        try:
            head, body = self.path.with_name(_SNAPSHOT).read_text().splitlines()
            checked = json.loads(head)
            line = next(self.forward(checked["offset"]))
            fits = hashlib.sha256(line.text).hexdigest() == checked["line"]
            if not fits or not holds(checked["seal"], body):
                return Snapshot()
            return Snapshot(from_plain(Standing, json.loads(body)), line.offset + len(line.text) + 1)
        except (OSError, ValueError, KeyError, TypeError, StopIteration, AttributeError):
            return Snapshot()

    def _iteration_from(self, offset: int) -> tuple[Line, IterationRecord] | None:
        """The first iteration record on a line that begins at ``offset`` or later."""
        with suppress(FileNotFoundError), self.path.open("rb") as file:
            file.seek(max(offset - 1, 0))
            if offset:
                file.readline()
            while (raw := file.readline()).endswith(b"\n"):
                line = Line(file.tell() - len(raw), raw[:-1])
                record = self.parsed(line)
                if isinstance(record, IterationRecord):
                    return line, record
        return None
