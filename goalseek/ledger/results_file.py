"""``results.jsonl``: reading it from its end, by bisection or whole; its repair from git; the standing for readers.

Reading costs only what is asked for. Lines are checked against git before the ledger's holder uses them.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from goalseek.errors import GoalseekError
from goalseek.files import write_atomic
from goalseek.humanize import pluralize
from goalseek.ledger.records import IterationRecord, IterationSummary, Record, parse_record, parse_summary
from goalseek.ledger.seal import Seal
from goalseek.ledger.standing import Standing
from goalseek.manifest.loading import ManifestFile
from goalseek.values import StopReason, from_plain, to_line

_BLOCK = 65536
_SNAPSHOT = "standing.json"
Parsed = TypeVar("Parsed")


class Line(Struct, frozen=True):
    """One complete line of the file, without its newline, and where it begins."""

    offset: int
    text: bytes


class Snapshot(Struct, frozen=True):
    """The standing of the records before ``end``, an offset in bytes."""

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
            position = file.seek(0, os.SEEK_END)
            rest = b""
            is_torn = True
            while position > 0:
                size = min(_BLOCK, position)
                position -= size
                file.seek(position)
                rest = file.read(size) + rest
                first, *lines = rest.split(b"\n")
                offset = position + len(rest)
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
        """Every record, oldest first. Raises GoalseekError for a line that is no record."""
        for line in self.forward():
            yield self.parsed(line)

    def newest(self) -> Iterator[Record]:
        """Every record, newest first."""
        for line in self.backward():
            yield self.parsed(line)

    def iteration(self, number: int) -> IterationRecord | None:
        """The record of an iteration, by bisection."""
        entry = self._iteration_from(self.offset_of(number))
        return entry[1] if entry and entry[1].iteration == number else None

    def offset_of(self, number: int) -> int:
        """The offset in bytes from which on an iteration, or the next that there is, is the first; by bisection."""
        low, high = 0, self.size()
        while low < high:
            middle = (low + high) // 2
            entry = self._iteration_from(middle)
            if entry is None or entry[0].offset >= high or entry[1].iteration >= number:
                high = middle
            else:
                low = entry[0].offset + len(entry[0].text) + 1
        return low

    def parsed(self, line: Line) -> Record:
        """The record on a line. Raises GoalseekError where the line is no record."""
        return self._read(line, parse_record)

    def summary(self, line: Line) -> IterationSummary | None:
        """The summary of the iteration on a line; None for another record. Raises GoalseekError as ``parsed`` does."""
        return self._read(line, parse_summary)

    def _read(self, line: Line, parse: Callable[[bytes], Parsed]) -> Parsed:
        try:
            return parse(line.text)
        except ValueError as error:
            message = f"{self.path}, at byte {line.offset}: {error}"
            hint = "goalseek audit says what differs; goalseek audit --rebuild writes it again from git"
            raise GoalseekError(message, hint, StopReason.TAMPERED) from None

    def has_snapshot(self) -> bool:
        """Whether there is one, whoever wrote it."""
        return self.path.with_name(_SNAPSHOT).exists()

    def standing(self) -> Standing:
        """The standing of all records."""
        return self.replay(Snapshot())

    def replay(self, snapshot: Snapshot) -> Standing:
        """The snapshot's standing with the records after it."""
        standing = snapshot.standing
        for line in self.forward(snapshot.end):
            standing = standing.after(self.parsed(line))
        return standing

    def save_snapshot(self, standing: Standing, seal: Callable[[str], str]) -> None:
        """Writes the snapshot: a sealed cache, with the offset and hash of the file's last line."""
        last = next(self.backward(), None)
        if last is None:
            return
        body = to_line(standing)
        checked = {"offset": last.offset, "line": hashlib.sha256(last.text).hexdigest(), "seal": seal(body)}
        write_atomic(self.path.with_name(_SNAPSHOT), json.dumps(checked) + "\n" + body + "\n")

    def load_snapshot(self, holds: Callable[[str, str], bool]) -> Snapshot:
        """The stored snapshot where it fits the file, and its seal ``holds`` (seal, body); else an empty one."""
        try:
            head, body = self.path.with_name(_SNAPSHOT).read_text().splitlines()
            checked = json.loads(head)
            line = next(self.forward(checked["offset"]))
            is_current = hashlib.sha256(line.text).hexdigest() == checked["line"]
            if not is_current or not holds(checked["seal"], body):
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


MessageSource = Callable[[], Iterator[str]]


def append_line(path: Path, *lines: str) -> None:
    """Adds lines by one O_APPEND write, fsynced. The file, and its folder, are made where they are missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(line + "\n" for line in lines).encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        if os.write(descriptor, content) != len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def repair_tail(history: History, messages: MessageSource) -> str:
    """Removes a torn last line and appends missing lines from git; gives what was done, in words.

    A torn line is what follows the last newline. Raises GoalseekError where the last complete line is not git's.
    """
    history.path.parent.mkdir(parents=True, exist_ok=True)
    last = next(history.backward(), None)
    end = last.offset + len(last.text) + 1 if last else 0
    missing: list[str] = []
    for message in messages():
        if last and message.encode() == last.text:
            break
        missing.append(message)
    else:
        if last:
            message = f"{history.path} does not end with a record of git's"
            hint = f"move it away; it is written again from git: mv {history.path} {history.path}.old"
            raise GoalseekError(message, hint, StopReason.TAMPERED)
    note = ""
    if history.size() > end:
        os.truncate(history.path, end)
        note = "a torn last line of results.jsonl was mended"
    if missing:
        append_line(history.path, *reversed(missing))
        note = f"{len(missing)} of the last lines of results.jsonl were missing or torn and written again from git"
    return note


def verify_lines(history: History, messages: MessageSource, snapshot: Snapshot) -> str:
    """Compares the lines after the snapshot's end with git's; those before it were checked earlier.

    Where only older lines are missing, prepends them and says so in words. Raises GoalseekError for a line that
    differs from git's.
    """
    expected = messages()
    for line in history.backward():
        if line.offset < snapshot.end:
            return ""
        if next(expected, "").encode() != line.text:
            problem = f"{history.path}, at byte {line.offset}: the line is not what git has"
            hint = "see: goalseek audit; goalseek audit --rebuild writes it again"
            raise GoalseekError(problem, hint, StopReason.TAMPERED)
    older = list(expected) if not snapshot.end else []
    if not older:
        return ""
    content = "".join(line + "\n" for line in older[::-1]).encode() + history.path.read_bytes()
    write_atomic(history.path, content, durable=True)
    return f"the first {pluralize(len(older), 'line')} of results.jsonl went missing and came again from git"


def load_standing(loaded: ManifestFile, own: Path | None = None) -> Standing:
    """Standing for read-only commands: the snapshot if its seal verifies, else a replay of all records.

    ``own`` is ``own_folder``, if the caller has it. Without the secret no seal verifies.
    """
    history = History(loaded.results)
    if not history.has_snapshot():
        return history.standing()
    own = own or own_folder(loaded)
    if own is None:
        return history.standing()
    try:
        seal = Seal((own / "secret").read_bytes())
    except OSError:
        return history.standing()
    return history.replay(history.load_snapshot(lambda value, body: seal.holds(value, "standing", body)))


def own_folder(loaded: ManifestFile) -> Path | None:
    """The project's own folder in the common git directory; None outside a repository."""
    from goalseek.git.location import locate

    try:
        location = locate(loaded.folder / loaded.manifest.project.repo)
    except GoalseekError:
        return None
    return location.own(loaded.manifest.project.name)
