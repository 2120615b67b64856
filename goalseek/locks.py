"""One writer a project: an flock on a file in the common git directory, free at once when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from goalseek.errors import LOCKED, UNFIT, GoalseekError
from goalseek.humanize import since

LOCK = "lock"
CLIMBING = "iterate"  # of the commands that hold the lock, the one that looks for a request to stop

_WITH_PHASES = (CLIMBING, "step", "baseline", "")


@dataclass(frozen=True)
class Holder:
    """Who holds a project's lock, as it says itself; ``pid`` is 0 where it has not said so yet.

    ``doing`` is its command and ``manifest`` the path of its manifest, each "" where it does not say. ``started`` tells
    it from an earlier process with the same number; ``namespace`` is where that number means it, a container's say.
    """

    pid: int = 0
    host: str = ""
    since: str = ""
    doing: str = ""
    manifest: str = ""
    started: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        """In words that stay the same."""
        return self.in_words()

    def in_words(self, now: datetime | None = None) -> str:
        """With ``now`` as people say it."""
        if not self.pid:
            return "its process has not said who it is yet"
        told = f"since {self.since}" if now is None else since(self.since, now)
        return f"process {self.pid} on {self.host}, {told}"

    @property
    def is_climbing(self) -> bool:
        """Whether it looks for a request to stop."""
        return self.doing == CLIMBING

    @property
    def is_seen_here(self) -> bool:
        """Whether its number means that process here too."""
        return self.host == os.uname().nodename and self.namespace == _namespace()

    @property
    def way_to_end(self) -> str:
        """What ends it, in words."""
        here = "" if self.is_seen_here else f", where it runs, on {self.host}"
        return "goalseek stop" if self.is_climbing else f"kill {self.pid}{here}" if self.pid else "its own end"


@contextlib.contextmanager
def only_writer(
    folder: Path, at: Callable[[], str] = str, doing: str = "", manifest: Path | str = ""
) -> Iterator[None]:
    """Holds the project's lock. Raises GoalseekError with exit code 4, naming the holder, where somebody has it.

    ``at`` says in words what a climb of this manifest is about, or "". ``doing`` is the command that takes the lock.
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
            raise _held(_noted(descriptor), at, str(manifest)) from None
        except OSError as error:
            message = f"the file system of {folder} has no locks: {error}"
            raise GoalseekError(message, "keep the repository on a local disk", UNFIT, "repository") from None
        now = datetime.now(UTC).isoformat("T", "milliseconds").replace("+00:00", "Z")
        own = os.getpid()
        holder = Holder(own, os.uname().nodename, now, doing, str(manifest), _started(own), _namespace())
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(asdict(holder)).encode(), 0)
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


def holder_of(folder: Path) -> Holder | None:
    """Who holds the project's lock; None where nobody does, or where it is another account's."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _noted(descriptor)
    finally:
        os.close(descriptor)
    return None


def last_manifest(folder: Path) -> str:
    """The path of the manifest for which the lock was held last; "" where that is not known."""
    try:
        return str(json.loads((folder / LOCK).read_bytes())["manifest"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _noted(descriptor: int) -> Holder:
    """The holder as the note names it; one that was left by a process which is gone is not believed."""
    try:
        note = json.loads(os.pread(descriptor, 65536, 0))
        holder = Holder(**{key: note[key] for key in Holder.__dataclass_fields__ if key in note})
        is_gone = holder.is_seen_here and bool(holder.started) and not _is_process(holder.pid, holder.started)
        return Holder() if is_gone else holder
    except (ValueError, TypeError):
        return Holder()


def _is_process(pid: int, started: str) -> bool:
    """Whether a process with this number runs which began then; also where nobody may look."""
    if found := _started(pid):
        return found == started
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def _namespace() -> str:
    """Which numbers of processes this one sees; "" where that cannot be told."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When a process began, in the system's own count; "" where it is gone, or nobody may look."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _held(holder: Holder, at: Callable[[], str], manifest: str) -> GoalseekError:
    is_elsewhere = bool(holder.manifest) and holder.manifest != manifest
    where = f"in {Path(holder.manifest).parent}" if is_elsewhere else at() if holder.doing in _WITH_PHASES else ""
    what = "" if holder.is_climbing or not holder.doing else f"goalseek {holder.doing}"
    named = ", ".join(filter(None, (holder.in_words(datetime.now(UTC)), what, where)))
    when = " after its iteration" if holder.is_climbing else ""
    hint = f"wait for it, or end it{when}: {holder.way_to_end}" if holder.pid else "wait for it"
    return GoalseekError(f"another run is at work: {named}", hint, LOCKED)


FOLDER = Path("/tmp")
_PAUSE = 0.1


@contextlib.contextmanager
def exclusive_lock(
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
        if not _take_named(descriptor):
            with waiting(f"waits for {name}: {_holder(descriptor)} {doing}"):
                while not _take_named(descriptor):
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


def _take_named(descriptor: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _holder(descriptor: int) -> str:
    said = os.pread(descriptor, 20, 0).decode("ascii", "replace")
    return f"process {said}" if said.isdigit() else "another process"
