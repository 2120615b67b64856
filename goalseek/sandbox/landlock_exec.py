"""The process that restricts itself with Landlock and then executes another program; it imports little.

The reaper does so in the process that it forks: starting an interpreter takes longer than all else. Options:
``--read PATH``, ``--write PATH``, ``--no-tcp``, ``--scope-only``, ``--keep-owner-rights``, then ``--`` and the program.
"""

from __future__ import annotations

import ctypes
import os
import sys

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
CANNOT_START = 126
FLAGS = ("--no-tcp", "--scope-only", "--keep-owner-rights")

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


def restrict(options: list[str]) -> None:
    """Gives up for good what the options do not grant.

    Raises OSError if the kernel refuses any of it, and SystemExit for an unknown option.
    """
    granted: dict[str, list[str]] = {"--read": [], "--write": []}
    flags, remaining = set(), iter(options)
    for option in remaining:
        if option in granted:
            granted[option].append(next(remaining))
        elif option in FLAGS:
            flags.add(option)
        else:
            raise SystemExit(f"goalseek: {option!r} is no option")
    version = system_call(CREATE, None, 0, 1)
    handled = 0 if "--scope-only" in flags else (1 << FILE_RIGHTS[min(version, 5)]) - 1
    network = TCP if "--no-tcp" in flags and version >= 4 else 0
    scopes = 0 if version < 6 else ABSTRACT_SOCKETS if "--scope-only" in flags else ABSTRACT_SOCKETS | SIGNALS
    size = 8 if version < 4 else 16 if version < 6 else 24
    attributes = b"".join(number.to_bytes(8, sys.byteorder) for number in (handled, network, scopes))[:size]
    ruleset = system_call(CREATE, attributes, size, 0)  # closed on exec, as the kernel makes it
    for paths, rights in ((granted["--read"], handled & READ_ACCESS), (granted["--write"], handled)):
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
    for number in range(64):
        if not (keep_owner_rights and number in OWNER_CAPABILITIES):
            prctl(DROP_BOUNDING, number)


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


def main() -> None:
    """Restricts this process as its arguments say, and executes the program behind them: the probe of a level."""
    end = sys.argv.index("--")
    command = sys.argv[end + 1 :]
    try:
        restrict(sys.argv[2:end])
        execute(command, dict(os.environ))
    except OSError as error:
        os.write(2, f"goalseek: cannot start {command[0]}: {error}\n".encode("utf-8", "replace"))
    os._exit(CANNOT_START)
