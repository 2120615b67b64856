"""One writer a project: an flock on a file in the common git directory, free at once when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from goalseek.errors import LOCKED, UNFIT, GoalseekError
from goalseek.since import since

LOCK = "lock"


@contextlib.contextmanager
def only_writer(folder: Path, at: Callable[[], str] = str) -> Iterator[None]:
    """Holds the project's lock. Raises GoalseekError with exit code 4, naming the holder, where somebody has it.

    ``at`` says in words what the holder is about, or "".
    """
    descriptor = _open(folder)
    try:
        try:
            _take(descriptor)
            while not _is_at(folder / LOCK, descriptor):
                os.close(descriptor)
                descriptor = _open(folder)
                _take(descriptor)
        except BlockingIOError:
            named = ", ".join(filter(None, (_holder(descriptor, datetime.now(UTC)), at())))
            hint = "wait for it, or end it after its iteration: goalseek stop"
            raise GoalseekError(f"another run is at work: {named}", hint, LOCKED) from None
        except OSError as error:
            message = f"the file system of {folder} has no locks: {error}"
            raise GoalseekError(message, "keep the repository on a local disk", UNFIT, "repository") from None
        holder = {
            "pid": os.getpid(),
            "host": os.uname().nodename,
            "since": datetime.now(UTC).isoformat("T", "milliseconds").replace("+00:00", "Z"),
        }
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(holder).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _open(folder: Path) -> int:
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # a refused first run took the folder away
            try:
                return os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except PermissionError as error:
                message = f"this climb is another account's, which alone may go on with it: {folder}: {error.strerror}"
                hint = "give your manifest a project.name of its own, or climb in a clone that fetched refs/goalseek/*"
                raise GoalseekError(message, hint, UNFIT, "repository") from None


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether a file is the one at its path still: its last holder may have removed it."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _take(descriptor: int) -> None:
    """Takes the lock; somebody who only looks whether it is held has it for a moment, and is waited for."""
    for _ in range(4):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(0.01)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def holder_of(folder: Path) -> str | None:
    """Who holds the project's lock, in words; None where nobody does, or where it is another account's."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _holder(descriptor)
    finally:
        os.close(descriptor)
    return None


def holder_pid(folder: Path) -> int | None:
    """The process that holds the project's lock, as it says itself; None where nobody does."""
    if holder_of(folder) is None:
        return None
    with contextlib.suppress(OSError, ValueError, KeyError):
        return int(json.loads((folder / LOCK).read_bytes())["pid"])
    return None


def _holder(descriptor: int, now: datetime | None = None) -> str:
    """In words that stay the same; with ``now`` as people say it."""
    try:
        holder = json.loads(os.pread(descriptor, 4096, 0))
        told = f"since {holder['since']}" if now is None else since(str(holder["since"]), now)
        return f"process {holder['pid']} on {holder['host']}, {told}"
    except (ValueError, KeyError):
        return "its process has not said who it is yet"
