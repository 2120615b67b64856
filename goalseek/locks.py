"""Locks between processes, by flock, free at once when the holder dies, and between the threads of one.

``project_lock`` lets one command at a time write. Named locks in /tmp (``exclusive_lock``) let the projects of a
machine share a GPU or a login in turn. Each file names its holder.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from goalseek.disk import closing, read_object
from goalseek.errors import LOCKED, UNFIT, GoalseekError
from goalseek.humanize import format_since
from goalseek.process import deferring_signals, is_alive
from goalseek.values import StopReason, from_line, short_digest, to_plain

LOCK = "lock"
ITERATE = "iterate"  # of the commands that hold the lock, the one that looks for a request to stop

_WITH_PHASES = (ITERATE, "step", "baseline", "")


class Holder(Struct, frozen=True):
    """The process that holds a project's lock, as its file says; ``pid`` is 0 if it has not written there yet.

    ``started`` tells it from another process of that number, ``namespace`` is its PID namespace. Unknown fields are "".
    """

    pid: int = 0
    host: str = ""
    since: str = ""
    doing: str = ""
    manifest: str = ""
    started: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        return self.in_words(f"since {self.since}")

    def in_words(self, start: str) -> str:
        return f"process {self.pid} on {self.host}, {start}" if self.pid else "its process is starting"

    @property
    def is_climbing(self) -> bool:
        return self.doing == ITERATE

    @property
    def is_local(self) -> bool:
        """Same host and PID namespace: its number means the same process to us."""
        return self.host == os.uname().nodename and self.namespace == _namespace()

    @property
    def stop_hint(self) -> str:
        here = "" if self.is_local else f", where it runs, on {self.host}"
        return "goalseek stop" if self.is_climbing else f"kill {self.pid}{here}" if self.pid else "its own end"


@contextlib.contextmanager
def project_lock(
    folder: Path, activity: Callable[[], str] = str, doing: str = "", manifest: Path | str = ""
) -> Iterator[None]:
    """Raises GoalseekError with exit code 4, naming the holder, if somebody has it.

    ``activity`` says what a climb of this manifest is doing, or ""; ``doing`` is the command that takes the lock.
    """
    while True:
        try:
            descriptor = open_lock(folder / LOCK)
        except FileNotFoundError:  # a refused first run removed the folder
            continue
        except PermissionError as error:
            message = f"this climb belongs to another account, which alone may run it: {folder}: {error.strerror}"
            hint = "give your manifest another project.name, or climb in a clone that fetched refs/goalseek/*"
            raise GoalseekError(message, hint, StopReason.REPOSITORY) from None
        with closing(descriptor):
            try:
                for _ in range(5):  # ``lock_holder`` holds it for a moment only
                    if try_lock(descriptor):
                        break
                    time.sleep(0.01)
                else:
                    raise _locked_error(_read_holder(descriptor), activity, str(manifest))
                is_in_place = os.path.samestat(os.stat(folder / LOCK), os.fstat(descriptor))
            except FileNotFoundError:
                is_in_place = False
            except OSError as error:
                message = f"the file system of {folder} has no locks: {error}"
                raise GoalseekError(message, "keep the repository on a local disk", StopReason.REPOSITORY) from None
            if not is_in_place:  # the last holder removed the file
                continue
            now = datetime.now(UTC).isoformat("T", "milliseconds").replace("+00:00", "Z")
            pid = os.getpid()
            holder = Holder(pid, os.uname().nodename, now, doing, str(manifest), _start_time(pid), _namespace())
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(to_plain(holder)).encode(), 0)
            yield
            return


def lock_holder(folder: Path) -> Holder | None:
    """None if nobody holds it, or it is another account's."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return None
    with closing(descriptor):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return _read_holder(descriptor)
    return None


def refuse_locked(folder: Path, activity: Callable[[], str], manifest: Path | str) -> None:
    """Raises the error of ``project_lock``, without taking the lock, if somebody has it."""
    if holder := lock_holder(folder):
        raise _locked_error(holder, activity, str(manifest))


def last_manifest(folder: Path) -> str:
    """The path of the manifest for which the lock was held last; "" if unknown."""
    return str(read_object(folder / LOCK).get("manifest", ""))


def _read_holder(descriptor: int) -> Holder:
    """The holder that the file names; an unknown one if that process is gone."""
    try:
        holder = from_line(Holder, os.pread(descriptor, 65536, 0))
    except ValueError:
        return Holder()
    if not holder.is_local or not holder.started:
        return holder
    started = _start_time(holder.pid)
    is_running = started == holder.started if started else is_alive(holder.pid)
    return holder if is_running else Holder()


def _namespace() -> str:
    """Empty if it cannot be read."""
    with contextlib.suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return ""


def _start_time(pid: int) -> str:
    """In clock ticks since boot; "" if the process is gone or it cannot be read."""
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return ""


def _locked_error(holder: Holder, activity: Callable[[], str], manifest: str) -> GoalseekError:
    is_elsewhere = bool(holder.manifest) and holder.manifest != manifest
    where = f"in {Path(holder.manifest).parent}" if is_elsewhere else activity() if holder.doing in _WITH_PHASES else ""
    command = "" if holder.is_climbing or not holder.doing else f"goalseek {holder.doing}"
    start = format_since(holder.since, datetime.now(UTC))
    details = "; ".join(filter(None, (command, holder.in_words(start), where)))
    after = " after its iteration" if holder.is_climbing else ""
    hint = f"wait until it ends, or end it{after}: {holder.stop_hint}" if holder.pid else "wait until it ends"
    return GoalseekError(f"another run is at work: {details}", hint, LOCKED)


NAMED_LOCKS_FOLDER = Path("/tmp")
_LOOK_SECONDS = 0.5


@contextlib.contextmanager
def exclusive_lock(
    name: str,
    wait_context: Callable[[str], AbstractContextManager[object]],
    pause: Callable[[], None],
    folder: Path | None = None,
    doing: str = "measures with it",
    holders: list[int] | None = None,
) -> Iterator[None]:
    """Wait for the lock ``name`` and hold it for this block; "none" is no lock.

    Threads of one climb that give the same list of ``holders`` hold it together. ``wait_context`` makes a context from
    a sentence; it is entered only if somebody else holds the lock, and ``pause`` is called meanwhile, again and again.
    All who share a lock must give the same ``folder``. Raises GoalseekError if the lock cannot be opened.
    """
    if name == "none":
        yield
        return
    holders = [] if holders is None else holders
    descriptor = os.dup(holders[0]) if holders else _open_named(name, folder or NAMED_LOCKS_FOLDER)
    holders.append(descriptor)
    try:
        if not try_lock(descriptor):
            note = os.pread(descriptor, 20, 0).decode("ascii", "replace")
            holder = f"process {note}" if note.isdigit() else "another process"
            with wait_context(f"waits for {name}: {holder} {doing}"):
                while not try_lock(descriptor):
                    pause()
        with contextlib.suppress(OSError):  # another user's file may be locked, not written to
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        holders.remove(descriptor)
        os.close(descriptor)


def _open_named(name: str, folder: Path) -> int:
    readable = re.sub(r"[^A-Za-z0-9._-]", "-", name)[:40]
    path = folder / f"goalseek-exclusive-{readable}-{short_digest(name)[:8]}.lock"
    common = os.O_CLOEXEC | os.O_NOFOLLOW
    for flags in (os.O_RDWR, os.O_RDWR | os.O_CREAT | os.O_EXCL, os.O_RDWR, os.O_RDONLY):
        with contextlib.suppress(OSError):  # not there, there already, another user's, or a link
            return os.open(path, flags | common, 0o644)
    raise GoalseekError(f"cannot open the lock {path}", "remove it, or choose another metric.exclusive", UNFIT)


def open_lock(path: Path) -> int:
    """The file is made with its folder if it does not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def try_lock(descriptor: int) -> bool:
    """Whether it was free, and is taken now."""
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


class Baton(contextlib.AbstractContextManager["Baton"]):
    """Held by the one thread that runs goalseek's own code, so that no two touch shared values; released by a wait."""

    def __init__(self) -> None:
        self.news = threading.Event()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)

    def __enter__(self) -> Baton:
        with contextlib.ExitStack() as stack:
            with deferring_signals():  # one that came meanwhile ends the wait, and must not leave it taken for ever
                self._lock.acquire()
                stack.callback(self._lock.release)
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @contextlib.contextmanager
    def let_go(self) -> Iterator[None]:
        """Others may hold it during this block, which must touch nothing that threads share."""
        with contextlib.ExitStack() as stack:
            with deferring_signals():
                self._lock.release()
                stack.callback(self._acquire)
            yield

    def wait_until(self, is_due: Callable[[], bool], pause: Callable[[], None]) -> None:
        """Ask ``is_due`` at each ``notice`` and each half second, after ``pause``, whose exception ends the wait."""
        while not is_due():
            pause()
            self._changed.wait(_LOOK_SECONDS)

    def notice(self) -> None:
        self._changed.notify_all()
        self.news.set()

    def _acquire(self) -> None:
        with deferring_signals():
            self._lock.acquire()
