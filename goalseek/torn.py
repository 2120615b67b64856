"""``results.jsonl`` brought to what the ledger's chain says, whatever a kill, a power cut or somebody's hands left.

What git does not know is never thrown away: then this stops, and says what to do. ``messages()`` gives the lines that
the chain holds, newest first.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from goalseek.errors import UNFIT, GoalseekError
from goalseek.history import History, Snapshot
from goalseek.humanize import counted

Messages = Callable[[], Iterator[str]]


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


def mend(history: History, messages: Messages) -> str:
    """A torn last line goes, lines that are missing at the end come; gives what was done, in words.

    A line is torn where it has no end: what is behind the last newline. Raises GoalseekError where the last line that
    has one is not git's.
    """
    history.path.parent.mkdir(parents=True, exist_ok=True)
    last = next(history.backward(), None)
    whole = last.offset + len(last.text) + 1 if last else 0
    missing: list[str] = []
    for message in messages():
        if last and message.encode() == last.text:
            break
        missing.append(message)
    else:
        if last:
            message = f"{history.path} does not end with a record of git's"
            hint = f"move it away; it is written again from git: mv {history.path} {history.path}.old"
            raise GoalseekError(message, hint, UNFIT, "tampered")
    told = ""
    if history.size() > whole:
        os.truncate(history.path, whole)
        told = "a torn last line of results.jsonl was mended"
    if missing:
        append_line(history.path, *reversed(missing))
        told = f"{len(missing)} of the last lines of results.jsonl were missing or torn and written again from git"
    return told


def refuse_edited(history: History, messages: Messages, snapshot: Snapshot) -> str:
    """Holds the lines that are about to be believed against git's; those before a snapshot's end were checked before.

    Where nothing but older lines is missing, the file is written again; gives that in words. Raises GoalseekError for
    a line that is not what git has.
    """
    expected = messages()
    for line in history.backward():
        if line.offset < snapshot.end:
            return ""
        if next(expected, "").encode() != line.text:
            told = f"{history.path}, at byte {line.offset}: the line is not what git has"
            hint = "see: goalseek audit; goalseek audit --rebuild writes it again"
            raise GoalseekError(told, hint, UNFIT, "tampered")
    older = list(expected) if not snapshot.end else []
    if not older:
        return ""
    _put_before(history.path, older[::-1])
    return f"the first {counted(len(older), 'line')} of results.jsonl went missing and came again from git"


def _put_before(path: Path, lines: Sequence[str]) -> None:
    """Puts lines before those that a file has: it is there whole, or as it was."""
    temporary = path.with_name(path.name + ".new")
    with temporary.open("wb") as file:
        file.write("".join(line + "\n" for line in lines).encode() + path.read_bytes())
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
