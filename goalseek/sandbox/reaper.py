"""The reaper: parent process of every untrusted program, which ends all its descendants, however they hide.

A process of its own: no caller of the library may become a subreaper. It ends with its channel, programs first.
"""

import contextlib
import errno
import functools
import itertools
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from goalseek.sandbox import landlock_exec

GRACE_SECONDS = 5.0
_LOOK_SECONDS = 0.1
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)
_RESTORED = (*_IGNORED, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ)


# A message is four bytes of length, then JSON, in which paths, arguments and variables are Latin-1. The requests are to
# "start" a program (three descriptors come along), to "end" it with its descendants, and to "remove" a folder once the
# channel has closed and all have ended. Answers are fields of supervisor.RunningProgram, with the program's token; that
# to "end" comes unasked once the program has ended by itself, and its descendants after it. Times are of
# time.monotonic, which all processes of a machine share: the caller may be stopped meanwhile.


def send(channel: socket.socket, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
    """Raises OSError if the other end is gone."""
    body = json.dumps(message).encode()
    content = len(body).to_bytes(4, "big") + body
    sent = socket.send_fds(channel, [content], descriptors) if descriptors else 0
    channel.sendall(content[sent:])


def receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """None if the other end is gone."""
    try:
        header, descriptors, _, _ = socket.recv_fds(channel, 4, 3)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        header += _receive_exactly(channel, 4 - len(header)) if header else b""
        if len(header) < 4:
            return None
        return json.loads(_receive_exactly(channel, int.from_bytes(header, "big"))), descriptors
    except (OSError, ValueError):
        return None


def _receive_exactly(channel: socket.socket, count: int) -> bytes:
    parts = []
    while count > 0 and (part := channel.recv(min(count, 65536))):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


class Reaper:
    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.woken, self.wake = socket.socketpair()  # by the end of a child
        self.asked: dict[str, Any] = {}  # to start the program
        self.program = 0
        self.end: dict[str, Any] = {}  # of the program alone
        self.watches_cpu = False
        self.reaped_seconds = 0.0
        self.seen_ticks: dict[tuple[int, bytes], int] = {}
        self.folder = ""  # to remove at the end

    def serve(self) -> None:
        """Returns once the channel has closed and all programs have ended."""
        for end in (self.woken, self.wake):
            end.setblocking(False)
        signal.set_wakeup_fd(self.wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        while True:
            look_seconds = _LOOK_SECONDS if self.watches_cpu else None
            ready, _, _ = select.select([self.channel, self.woken], [], [], look_seconds)
            if self.watches_cpu:
                for pid, fields in self._descendants().items():  # under id and start: user and system time, in ticks
                    self.seen_ticks[pid, fields[19]] = int(fields[11]) + int(fields[12])
            if self.woken in ready:
                self.reap()
                if self.program and self.end:
                    self._end(self.asked["grace"])
            if self.channel in ready:
                if (received := receive(self.channel)) is None:
                    self.end_all(GRACE_SECONDS)
                    if self.folder:
                        _remove_folder(self.folder)
                    return
                message, descriptors = received
                if message["do"] == "remove":
                    self.folder = _decode(message["folder"])
                elif message["do"] == "start":
                    self._start(message, descriptors)
                else:
                    self._end(message["grace"])

    def _end(self, grace: float) -> None:
        killed = self.end_all(grace)
        self.program, self.watches_cpu = 0, False
        # What was reaped has the time of the children that it waited for. What was seen while it ran has its own alone:
        # the sum of that is larger only if a process ended and nobody waited for it.
        cpu_seconds = max(self.reaped_seconds, sum(self.seen_ticks.values()) / os.sysconf("SC_CLK_TCK"))
        self._report({**self.end, "killed": killed, "cpu_seconds": cpu_seconds})

    def _start(self, message: dict[str, Any], descriptors: list[int]) -> None:
        self.asked, self.program, self.end = message, 0, {}
        self.reaped_seconds, self.seen_ticks = 0.0, {}
        self.watches_cpu = message["cpu"] and os.path.exists("/proc/self/stat")
        subject, failure, began = message["folder"], None, time.monotonic()
        try:
            os.chdir(_decode(subject))
            subject = message["arguments"][0]
            if message["restriction"]:
                error_reader, error_writer = os.pipe()
                parent = os.getpid()
                self.program = os.fork()
                if self.program == 0:
                    _become(message, descriptors, error_writer, parent)
                os.close(error_writer)
                with os.fdopen(error_reader, "rb") as file:
                    problem = file.read()
                failure = json.loads(problem) if problem else None
            else:  # a fork copies this interpreter's memory map and pages: 1 ms
                streams = [(os.POSIX_SPAWN_DUP2, source, target) for target, source in enumerate(descriptors)]
                spawn = functools.partial(os.posix_spawn, file_actions=streams, setsid=True, setsigdef=_RESTORED)
                self.program = _execute(message, spawn)
        except (OSError, ValueError) as error:
            failure = [getattr(error, "errno", errno.EINVAL), subject]
        os.chdir("/")
        for descriptor in descriptors:
            os.close(descriptor)
        self._report({"began": began, "failure": failure})

    def end_all(self, grace: float) -> int:
        """SIGTERM, after ``grace`` seconds SIGKILL; gives the number of descendants, less a cage and its first process.

        These get no SIGTERM while others run inside: the cage's end would at once be the end of all in it.
        """
        is_ending = self.reap() and bool(self.end) and self.asked["cage"]  # all in it, the first process last
        while is_ending and select.select([self.woken], [], [], _LOOK_SECONDS)[0]:
            is_ending = self.reap()
        parents = self.running_descendants()
        targets = list(parents)
        if parents and self.asked["cage"]:  # once it has ended, its processes are ending
            inside = [pid for pid in parents if self.program not in (pid, parents[pid])]
            targets = inside if self.program in parents else []
        for pid in (targets or list(parents)) if grace > 0 else ():
            _signal(pid, signal.SIGTERM)
            _signal(pid, signal.SIGCONT)
        deadline, pause = time.monotonic() + grace, 0.001
        while parents and time.monotonic() < deadline and self.running_descendants():
            time.sleep(pause)
            pause = min(pause * 2, 0.05)
            self.reap()
        while parents and (stubborn := self.running_descendants()):
            for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped first: one that forks on cannot outrun the list
                for pid in stubborn:
                    _signal(pid, number)
            time.sleep(0.002)
            self.reap()
        self.reap()
        return len(targets)

    def reap(self) -> bool:
        """Adds up the processor time of ended children, and takes the program's exit code; gives whether others run."""
        with contextlib.suppress(BlockingIOError):
            self.woken.recv(4096)
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self.reaped_seconds += usage.ru_utime + usage.ru_stime
            if pid == self.program:
                self.end = {"exit_code": os.waitstatus_to_exitcode(status), "ended": time.monotonic()}

    def running_descendants(self) -> dict[int, int]:
        """Each with its parent's process id."""
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return {}
        try:
            descendants = self._descendants()
        except FileNotFoundError:
            return {-self.program: os.getpid()}  # nowhere to look: its process group, which is all one can name
        return {pid: int(fields[1]) for pid, fields in descendants.items() if fields[0] not in (b"Z", b"X")}

    def _descendants(self) -> dict[int, list[bytes]]:
        """The fields of ``/proc/PID/stat`` after the name. Raises FileNotFoundError without /proc."""
        children: dict[int, list[tuple[int, list[bytes]]]] = {}
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            with contextlib.suppress(OSError, IndexError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                fields = file.read().rpartition(b")")[2].split()
                children.setdefault(int(fields[1]), []).append((int(name), fields))
        descendants: dict[int, list[bytes]] = {}
        pending = children.get(os.getpid(), [])
        while pending:
            pid, fields = pending.pop()
            descendants[pid] = fields
            pending += children.get(pid, [])
        return descendants

    def _report(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            send(self.channel, {**message, "token": self.asked["token"]})


def _become(message: dict[str, Any], descriptors: list[int], error_writer: int, parent: int) -> None:
    """In the fork: restricts itself and executes the program, or reports the failure."""
    subject = "Landlock"
    try:
        if not message["terminal"]:
            os.setsid()
        for number in _RESTORED:
            signal.signal(number, signal.SIG_DFL)
        for target, source in enumerate(descriptors):
            os.dup2(source, target)
        landlock_exec.prctl(landlock_exec.PARENT_DEATH_SIGNAL, signal.SIGKILL)  # it ends with the reaper
        if os.getppid() != parent:
            os._exit(127)
        landlock_exec.restrict([*map(_decode, message["restriction"])])
        subject = message["arguments"][0]
        _execute(message, os.execve)
    except OSError as error:
        os.write(error_writer, json.dumps([error.errno or errno.EPERM, subject]).encode())
    finally:
        os._exit(127)


def _execute(message: dict[str, Any], start: Callable[..., int]) -> int:
    """As os.execvpe, which imports more than a restricted process may read. Gives what ``start`` gives."""
    command = [_decode(word) for word in message["arguments"]]
    environment = {_decode(name): _decode(value) for name, value in message["environment"].items()}
    failure = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    folders = [""] if "/" in command[0] else environment.get("PATH", os.defpath).split(":")
    for folder in folders:
        try:
            return start(os.path.join(folder, command[0]), command, environment)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            failure = error
    raise failure


def _decode(latin: str) -> str:
    return os.fsdecode(latin.encode("latin-1"))


def _remove_folder(folder: str) -> None:
    """Of any depth, and with folders that a program has closed, as disk does, which this interpreter cannot import."""
    import shutil  # takes 5 ms, and few reapers need it

    numbers, token = itertools.count(), os.urandom(16).hex()
    with contextlib.suppress(OSError):
        os.chmod(folder, 0o700)
        while pending := [entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]:
            for path in pending:
                os.chmod(path, 0o700)
                for entry in os.scandir(path):
                    if entry.is_dir(follow_symlinks=False):
                        os.chmod(entry.path, 0o700)
                        os.rename(entry.path, f"{folder}/{token}{next(numbers)}")
                    else:
                        os.unlink(entry.path)
                os.rmdir(path)
    shutil.rmtree(folder, ignore_errors=True)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def main(channel_number: int) -> None:
    """Serves the inherited channel; no other inherited descriptor reaches a program."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):
            os.set_inheritable(int(name), int(name) < 3)
    if sys.platform == "linux":
        landlock_exec.prctl(landlock_exec.SUBREAPER, 1)
    Reaper(socket.socket(fileno=channel_number)).serve()
