"""A process restricts itself with Landlock and becomes another program.

The reaper does so with the new process that it makes: starting an interpreter takes longer than all else. Where there
is no reaper, this is run as a file of its own, ``python -I -S landlock_exec.py``, and imports little.

Words: ``--read PATH``, ``--write PATH``, ``--no-tcp``, ``--scope-only``, ``--keep-owner-rights``, and as a file of its
own ``--set NAME VALUE``, ``--folder PATH``, then ``--`` and the program. Then, unless ``--scope-only`` is given, it
stays behind as the reaper of all that descends from the program: when the program ends, or goalseek does, they are
killed, whatever they did to hide.
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
READING = EXECUTE | READ_FILE | READ_DIR
OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE
FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
TCP = 3
ABSTRACT_SOCKETS, SIGNALS = 1, 2
PARENT_DEATH_SIGNAL, DROP_BOUNDING, NO_NEW_PRIVILEGES, SUBREAPER, AMBIENT, AMBIENT_CLEAR = 1, 24, 38, 36, 47, 4
OVERRULE_OWNERS = (1, 3)  # CAP_DAC_OVERRIDE, CAP_FOWNER
OF_A_TERMINAL = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)  # for the program, not its reaper
GRACE_SECONDS = 3.0
CANNOT_START = 126

kernel = ctypes.CDLL(None, use_errno=True)


def call(number: int, *arguments: int | bytes | None) -> int:
    """A system call that succeeds, or an OSError."""
    given = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = int(kernel.syscall(ctypes.c_long(number), *given))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def control(option: int, *values: int) -> int:
    """prctl, which takes four longs."""
    longs = [ctypes.c_long(value) for value in (*values, 0, 0, 0, 0)[:4]]
    return int(kernel.prctl(ctypes.c_int(option), *longs))


def packed(*numbers: int) -> bytes:
    """64-bit numbers, as the kernel reads them."""
    return b"".join(number.to_bytes(8, sys.byteorder) for number in numbers)


class Options:
    """What the program is granted."""

    def __init__(self) -> None:
        self.readable: list[str] = []
        self.writable: list[str] = []
        self.variables: dict[str, str] = {}
        self.folder = ""
        self.flags: set[str] = set()


def parsed(words: list[str]) -> tuple[Options, list[str]]:
    """The options, and the program behind them."""
    options, left = Options(), iter(words)
    for word in left:
        if word == "--":
            break
        if word == "--read":
            options.readable.append(next(left))
        elif word == "--write":
            options.writable.append(next(left))
        elif word == "--set":
            name, value = next(left), next(left)
            options.variables[name] = value
        elif word == "--folder":
            options.folder = next(left)
        elif word in ("--no-tcp", "--scope-only", "--keep-owner-rights"):
            options.flags.add(word)
        else:
            raise SystemExit(f"goalseek: {word!r} is no option")
    return options, list(left)


def restrict(options: Options) -> None:
    """Gives up what the options do not grant, for good. Raises OSError where the kernel refuses a part of it."""
    flags = options.flags
    version = call(CREATE, None, 0, 1)
    handled = 0 if "--scope-only" in flags else (1 << FILE_RIGHTS[min(version, 5)]) - 1
    network = TCP if "--no-tcp" in flags and version >= 4 else 0
    scopes = 0 if version < 6 else ABSTRACT_SOCKETS if "--scope-only" in flags else ABSTRACT_SOCKETS | SIGNALS
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = call(CREATE, packed(handled, network, scopes)[:size], size, 0)  # closed on exec, as the kernel makes it
    for paths, rights in ((options.readable, handled & READING), (options.writable, handled)):
        for path in paths:
            allow(ruleset, path, rights)
    if control(NO_NEW_PRIVILEGES, 1) != 0:
        raise OSError(1, "no_new_privs is refused")
    if "--scope-only" not in flags:
        drop_capabilities("--keep-owner-rights" in flags)
    call(RESTRICT, ruleset, 0)
    os.close(ruleset)


def allow(ruleset: int, path: str, rights: int) -> None:
    """Grants rights on a path and, for a folder, below it; what is not there is left out."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if os.fstat(place).st_mode & 0o170000 != 0o040000:
        rights &= OF_A_FILE
    rule = rights.to_bytes(8, sys.byteorder) + place.to_bytes(4, sys.byteorder)
    call(ADD_RULE, ruleset, 1, rule, 0)
    os.close(place)


def drop_capabilities(keep_owner_rights: bool) -> None:
    """Without them in the bounding set, root has none after the next exec."""
    control(AMBIENT, AMBIENT_CLEAR)
    number = 0
    while number < 64:
        if not (keep_owner_rights and number in OVERRULE_OWNERS):
            control(DROP_BOUNDING, number)
        number += 1


def become(options: Options, words: list[str]) -> None:
    """Turns into the program, restricted, with no descriptor but the three."""
    try:
        restrict(options)
        os.closerange(3, 1 << 20)
        environment = {**os.environ, **options.variables}
        if options.folder:
            os.chdir(options.folder)
        execute(words, environment)
    except OSError as error:
        os.write(2, f"goalseek: cannot start {words[0]}: {error}\n".encode("utf-8", "replace"))
    os._exit(CANNOT_START)


def execute(words: list[str], environment: dict[str, str]) -> None:
    """Turns into the first such program on PATH: what os.execvpe does, which imports more than may be read by now."""
    failed = OSError(2, "No such file or directory")
    folders = [""] if "/" in words[0] else environment.get("PATH", os.defpath).split(":")
    for folder in folders:
        try:
            os.execve(os.path.join(folder, words[0]), words, environment)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            failed = error
    raise failed


def descendants() -> list[int]:
    """All that descends from this process and still runs."""
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
    found: list[int] = []
    own = {os.getpid()}
    while own:
        own = {pid for pid, parent in parents.items() if parent in own}
        found += own
    return found


def signal_all(number: int) -> None:
    """Sends a signal to every descendant."""
    for pid in descendants():
        try:  # noqa: SIM105 - contextlib takes long to import
            os.kill(pid, number)
        except OSError:
            pass


def reap(child: int) -> None:
    """Waits for the program, ends whatever it leaves, and ends as it ended."""
    quiet = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(quiet, number)
    status, deadline = None, None
    while status is None:
        told = signal.sigtimedwait((signal.SIGCHLD, signal.SIGTERM), 1.0 if deadline is None else 0.02)
        if told and told.si_signo == signal.SIGTERM and deadline is None:
            signal_all(signal.SIGTERM)
            deadline = time.monotonic() + GRACE_SECONDS
        if deadline is not None and time.monotonic() > deadline:
            signal_all(signal.SIGKILL)
        status = collected(child)
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
    """Whether anything is left, also if it has ended and is not waited for."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def collected(child: int) -> int | None:
    """The program's status once it has ended; waits for none."""
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
    options, words = parsed(sys.argv[1:])
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and so would the program
        signal.signal(number, signal.SIG_DFL)
    if "--scope-only" in options.flags:
        become(options, words)
    starter = os.getppid()
    control(PARENT_DEATH_SIGNAL, signal.SIGTERM)
    control(SUBREAPER, 1)
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD, signal.SIGTERM, *OF_A_TERMINAL))
    if os.getppid() != starter:
        os._exit(CANNOT_START)
    child = os.fork()
    if child == 0:
        control(PARENT_DEATH_SIGNAL, signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        become(options, words)
    reap(child)


if __name__ == "__main__":
    main()
