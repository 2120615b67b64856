"""The process that restricts itself with Landlock and then executes another program.

The reaper does so in the process that it forks: starting an interpreter takes longer than all else. Where there is no
reaper, this file is run by itself, ``python -I -S landlock_exec.py``, and imports little.

Arguments: ``--read PATH``, ``--write PATH``, ``--no-tcp``, ``--scope-only``, ``--keep-owner-rights``, and, if run
by itself, ``--set NAME VALUE``, ``--folder PATH``, then ``--`` and the program. Run by itself without ``--scope-only``,
it stays as the reaper of the program's descendants: when the program ends, or goalseek does, they are killed, whatever
they did to hide.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # the public one imports enum, which takes long
import ctypes
import os
import sys
import time

CREATE, ADD_RULE, RESTRICT = 444, 445, 446
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE, IOCTL_DEVICE = 1 << 14, 1 << 15
READ_ACCESS = EXECUTE | READ_FILE | READ_DIR
FILE_ACCESS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE
FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
TCP = 3
ABSTRACT_SOCKETS, SIGNALS = 1, 2
PARENT_DEATH_SIGNAL, DROP_BOUNDING, NO_NEW_PRIVILEGES, SUBREAPER, AMBIENT, AMBIENT_CLEAR = 1, 24, 38, 36, 47, 4
OWNER_CAPABILITIES = (1, 3)  # CAP_DAC_OVERRIDE, CAP_FOWNER
TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)  # for the program, not its reaper
GRACE_SECONDS = 3.0
CANNOT_START = 126

kernel = ctypes.CDLL(None, use_errno=True)


def system_call(number: int, *arguments: int | bytes | None) -> int:
    """Makes a system call and gives its result. Raises OSError if it fails."""
    longs = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = int(kernel.syscall(ctypes.c_long(number), *longs))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def prctl(option: int, *values: int) -> int:
    """prctl with up to four arguments, which it takes as longs; gives its result."""
    longs = [ctypes.c_long(value) for value in (*values, 0, 0, 0, 0)[:4]]
    return int(kernel.prctl(ctypes.c_int(option), *longs))


def pack_integers(*numbers: int) -> bytes:
    """The numbers as 64-bit integers in this machine's byte order."""
    return b"".join(number.to_bytes(8, sys.byteorder) for number in numbers)


class Options:
    """What the program is granted."""

    def __init__(self) -> None:
        self.readable: list[str] = []
        self.writable: list[str] = []
        self.variables: dict[str, str] = {}
        self.folder = ""
        self.flags: set[str] = set()


def parse_options(arguments: list[str]) -> tuple[Options, list[str]]:
    """The options, and the program behind them."""
    options, remaining = Options(), iter(arguments)
    for argument in remaining:
        if argument == "--":
            break
        if argument == "--read":
            options.readable.append(next(remaining))
        elif argument == "--write":
            options.writable.append(next(remaining))
        elif argument == "--set":
            name, value = next(remaining), next(remaining)
            options.variables[name] = value
        elif argument == "--folder":
            options.folder = next(remaining)
        elif argument in ("--no-tcp", "--scope-only", "--keep-owner-rights"):
            options.flags.add(argument)
        else:
            raise SystemExit(f"goalseek: {argument!r} is no option")
    return options, list(remaining)


def restrict(options: Options) -> None:
    """Gives up for good what the options do not grant. Raises OSError if the kernel refuses any of it."""
    flags = options.flags
    version = system_call(CREATE, None, 0, 1)
    handled = 0 if "--scope-only" in flags else (1 << FILE_RIGHTS[min(version, 5)]) - 1
    network = TCP if "--no-tcp" in flags and version >= 4 else 0
    scopes = 0 if version < 6 else ABSTRACT_SOCKETS if "--scope-only" in flags else ABSTRACT_SOCKETS | SIGNALS
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = system_call(
        CREATE, pack_integers(handled, network, scopes)[:size], size, 0
    )  # closed on exec, as the kernel makes it
    for paths, rights in ((options.readable, handled & READ_ACCESS), (options.writable, handled)):
        for path in paths:
            allow(ruleset, path, rights)
    if prctl(NO_NEW_PRIVILEGES, 1) != 0:
        raise OSError(1, "no_new_privs is refused")
    if "--scope-only" not in flags:
        drop_capabilities("--keep-owner-rights" in flags)
    system_call(RESTRICT, ruleset, 0)
    os.close(ruleset)


def allow(ruleset: int, path: str, rights: int) -> None:
    """Grants rights on a path and, for a folder, on all below it; a path that cannot be opened is skipped."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if os.fstat(descriptor).st_mode & 0o170000 != 0o040000:
        rights &= FILE_ACCESS
    rule = rights.to_bytes(8, sys.byteorder) + descriptor.to_bytes(4, sys.byteorder)
    system_call(ADD_RULE, ruleset, 1, rule, 0)
    os.close(descriptor)


def drop_capabilities(keep_owner_rights: bool) -> None:
    """Removes capabilities from the bounding set: then even root has none after the next exec."""
    prctl(AMBIENT, AMBIENT_CLEAR)
    number = 0
    while number < 64:
        if not (keep_owner_rights and number in OWNER_CAPABILITIES):
            prctl(DROP_BOUNDING, number)
        number += 1


def restrict_and_execute(options: Options, command: list[str]) -> None:
    """Restricts this process and executes the program, with no descriptor open but the standard three."""
    try:
        restrict(options)
        os.closerange(3, 1 << 20)
        environment = {**os.environ, **options.variables}
        if options.folder:
            os.chdir(options.folder)
        execute(command, environment)
    except OSError as error:
        os.write(2, f"goalseek: cannot start {command[0]}: {error}\n".encode("utf-8", "replace"))
    os._exit(CANNOT_START)


def execute(command: list[str], environment: dict[str, str]) -> None:
    """Executes the first such program on PATH, as os.execvpe, which imports more than this process may read by now."""
    failure = OSError(2, "No such file or directory")
    folders = [""] if "/" in command[0] else environment.get("PATH", os.defpath).split(":")
    for folder in folders:
        try:
            os.execve(os.path.join(folder, command[0]), command, environment)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            failure = error
    raise failure


def descendants() -> list[int]:
    """The process ids of all running descendants of this process."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - pathlib is not imported
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if fields[0] not in (b"Z", b"X"):
                parents[int(name)] = int(fields[1])
    pids: list[int] = []
    generation = {os.getpid()}
    while generation:
        generation = {pid for pid, parent in parents.items() if parent in generation}
        pids += generation
    return pids


def signal_all(number: int) -> None:
    """Sends a signal to every descendant."""
    for pid in descendants():
        try:  # noqa: SIM105 - contextlib takes long to import
            os.kill(pid, number)
        except OSError:
            pass


def reap(child: int) -> None:
    """Waits for the program, kills what it leaves behind, and exits with its exit code or signal."""
    quiet = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(quiet, number)
    status, deadline = None, None
    while status is None:
        received = signal.sigtimedwait((signal.SIGCHLD, signal.SIGTERM), 1.0 if deadline is None else 0.02)
        if received and received.si_signo == signal.SIGTERM and deadline is None:
            signal_all(signal.SIGTERM)
            deadline = time.monotonic() + GRACE_SECONDS
        if deadline is not None and time.monotonic() > deadline:
            signal_all(signal.SIGKILL)
        status = collect_status(child)
    while has_children():  # whoever loses its parent becomes a child of this process
        signal_all(signal.SIGKILL)
        time.sleep(0.001)
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        os._exit(code)
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.kill(os.getpid(), -code)


def has_children() -> bool:
    """Whether there is any child, running or ended and not waited for."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def collect_status(child: int) -> int | None:
    """Reaps all ended children without waiting; gives the program's wait status if it is among them, else None."""
    status = None
    while True:
        try:
            pid, how = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == child:
            status = how


def main() -> None:
    """Starts the program behind ``--``."""
    options, command = parse_options(sys.argv[1:])
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and so would the program
        signal.signal(number, signal.SIG_DFL)
    if "--scope-only" in options.flags:
        restrict_and_execute(options, command)
    starter = os.getppid()
    prctl(PARENT_DEATH_SIGNAL, signal.SIGTERM)
    prctl(SUBREAPER, 1)
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD, signal.SIGTERM, *TERMINAL_SIGNALS))
    if os.getppid() != starter:
        os._exit(CANNOT_START)
    child = os.fork()
    if child == 0:
        prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        restrict_and_execute(options, command)
    reap(child)


if __name__ == "__main__":
    main()
