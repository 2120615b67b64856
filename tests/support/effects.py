"""The effects of goalseek's own process: each is a place where it can be killed.

An effect makes, renames or removes a file or a folder, opens a file to write it, or moves refs. Its label is what it
does and where, without what differs from run to run: names of objects, numbers of processes.
"""

import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

VARYING = re.compile(r"\b[0-9a-f]{2}\b|[0-9a-f]{6,}|[0-9]+")


def watch(log: Path, label: str, place: int) -> None:
    """Write each effect's label and the length of the home's journal; die by SIGKILL right after one of them.

    That is the effect ``place``, counted from 1, of those with this label, or with this first word of one. Right after
    is at the next thing that Python audits, which is before the next effect.
    """
    from goalseek.git.repository import Repository

    home, count, is_last = os.environ["HOME"], 0, False
    journal = Path(home, "journal")
    file = log.open("a")

    def note(event: str, *paths: Any) -> None:
        nonlocal count, is_last
        places = [os.fsdecode(path).removeprefix(home) if not isinstance(path, int) else "" for path in paths]
        this = " ".join([event, *(place if "/runs/" in place else VARYING.sub("*", place) for place in places)])
        file.write(f"{this}\t{journal.stat().st_size if journal.exists() else 0}\n")
        file.flush()
        count += label in (this, event)
        is_last = label in (this, event) and count == place

    def hook(event: str, arguments: Sequence[Any]) -> None:
        if is_last and event != "os.kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if event == "open":
            path, _, flags = arguments
            is_write = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)
            if is_write and flags & os.O_EXCL and not isinstance(path, int) and exists(path, -1):
                return
            if is_write and not isinstance(path, int) and path not in (os.devnull, str(log)):
                note(event, path)
        elif event in ("os.mkdir", "os.remove", "os.rmdir"):
            if exists(arguments[0], arguments[-1]) != (event == "os.mkdir"):
                note(event, arguments[0])
        elif event in ("os.rename", "os.truncate", "os.link", "os.symlink"):
            note(event, arguments[event != "os.truncate"])

    move = Repository.move

    def move_refs(self: Repository, moves: Sequence[Any]) -> None:
        move(self, moves)
        if moves:
            note("refs", *(one.ref for one in moves))
            sys.audit("moved")

    Repository.move = move_refs  # type: ignore[method-assign]
    sys.addaudithook(hook)


def exists(path: Any, folder: int) -> bool:
    try:
        os.lstat(path, dir_fd=None if folder == -1 else folder)
    except OSError:
        return False
    return True
