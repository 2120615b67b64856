"""One measurement at a time on this machine, among all who name the same thing: a graphics card, say.

The lock is a file that every user of the machine can find and open, whoever made it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from goalseek.errors import UNFIT, GoalseekError

FOLDER = Path("/tmp")
_PAUSE = 0.1


@contextlib.contextmanager
def alone(
    name: str,
    waiting: Callable[[str], AbstractContextManager[object]],
    pulse: Callable[[], None] | None = None,
    folder: Path | None = None,
    doing: str = "measures with it",
) -> Iterator[None]:
    """Waits for its turn at ``name``, and has it for this block; "none" is nobody's.

    ``waiting`` gives the context of a wait, told what for; it is not entered where there is none. Raises GoalseekError
    where the lock cannot be opened. Who names the same thing must name the same ``folder``; ``doing`` is what the
    holder of the lock does, in words.
    """
    if name == "none":
        yield
        return
    descriptor = _opened(name, folder or FOLDER)
    try:
        if not _take(descriptor):
            with waiting(f"waits for {name}: {_holder(descriptor)} {doing}"):
                while not _take(descriptor):
                    if pulse:
                        pulse()
                    time.sleep(_PAUSE)
        with contextlib.suppress(OSError):  # another user's file may be locked, not written to
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _opened(name: str, folder: Path) -> int:
    readable = re.sub(r"[^A-Za-z0-9._-]", "-", name)[:40]
    path = folder / f"goalseek-exclusive-{readable}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.lock"
    common = os.O_CLOEXEC | os.O_NOFOLLOW
    for flags in (os.O_RDWR, os.O_RDWR | os.O_CREAT | os.O_EXCL, os.O_RDWR, os.O_RDONLY):
        with contextlib.suppress(OSError):  # not there, there already, another user's, or a link
            return os.open(path, flags | common, 0o644)
    raise GoalseekError(f"cannot open the lock {path}", "remove it, or name another thing", UNFIT)


def _take(descriptor: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _holder(descriptor: int) -> str:
    said = os.pread(descriptor, 20, 0).decode("ascii", "replace")
    return f"process {said}" if said.isdigit() else "another process"
