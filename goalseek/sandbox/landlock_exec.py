"""Restricts this process with Landlock and seccomp; imports little.

The reaper calls it in its fork: the start of an interpreter takes longer than all else. Options: ``--read PATH``,
``--write PATH``, ``--no-tcp``, ``--scope-only``, ``--keep-owner-rights``.
"""

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
LOAD, AND, EQUAL, RETURN = 0x20, 0x54, 0x15, 0x06  # of the machine that runs seccomp's filters
ALLOW, REFUSE = 0x7FFF0000, 0x00050001  # the latter with EPERM
X32_BIT = 0x40000000  # a second set of numbers for the same calls
FILTER, SPECULATION_AS_BEFORE = 1, 4  # without the flag older kernels make all that it runs slower
SHARING_CALLS = {
    # seccomp's own number; then System V memory, semaphores and queues, POSIX queues and keys, by instruction set
    "x86_64": (
        317,
        {
            0xC000003E: (*range(29, 32), *range(64, 72), 220, 240, 241, *range(248, 251)),
            0x40000003: (117, 277, 278, *range(286, 289), *range(393, 403), 420),
        },
    ),
    "aarch64": (
        277,
        {
            0xC00000B7: (180, 181, *range(186, 198), *range(217, 220)),
            0x40000028: (274, 275, *range(298, 313), 420),
        },
    ),
}
FLAGS = ("--no-tcp", "--scope-only", "--keep-owner-rights")

kernel = ctypes.CDLL(None, use_errno=True)


def system_call(number: int, *arguments: int | bytes | None) -> int:
    """Raises OSError if it fails."""
    longs = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = int(kernel.syscall(ctypes.c_long(number), *longs))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def prctl(option: int, *values: int) -> int:
    longs = [ctypes.c_long(value) for value in (*values, 0, 0, 0, 0)[:4]]
    return int(kernel.prctl(ctypes.c_int(option), *longs))


def restrict(options: list[str]) -> None:
    """Skips paths that it cannot open. Raises OSError if the kernel refuses, SystemExit for an unknown option."""
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
            try:
                descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue
            is_folder = os.fstat(descriptor).st_mode & 0o170000 == 0o040000
            allowed = rights if is_folder else rights & FILE_ACCESS
            rule = allowed.to_bytes(8, sys.byteorder) + descriptor.to_bytes(4, sys.byteorder)
            system_call(ADD_RULE, ruleset, 1, rule, 0)
            os.close(descriptor)
    if prctl(NO_NEW_PRIVILEGES, 1) != 0:
        raise OSError(1, "no_new_privs is refused")
    if "--scope-only" not in flags:
        kept = OWNER_CAPABILITIES if "--keep-owner-rights" in flags else ()
        prctl(AMBIENT, AMBIENT_CLEAR)
        for number in range(64):  # those out of the bounding set not even root has after the next exec
            if number not in kept:
                prctl(DROP_BOUNDING, number)
        if can_refuse_sharing():
            refuse_sharing()
    system_call(RESTRICT, ruleset, 0)
    os.close(ruleset)


def can_refuse_sharing() -> bool:
    """Whether this kernel takes a filter of system calls, and their numbers are known here."""
    if os.uname().machine not in SHARING_CALLS:
        return False
    try:
        system_call(SHARING_CALLS[os.uname().machine][0], FILTER, SPECULATION_AS_BEFORE, None)
    except OSError as error:
        return error.errno == 14  # EFAULT: there is no filter at that address
    return False


def refuse_sharing() -> None:
    """Refuses, for good, the system calls by which programs of one user share memory, queues and keys."""
    number, refused = SHARING_CALLS[os.uname().machine]
    steps = [(LOAD, 0, 0, 4)]  # the instruction set
    for instruction_set, calls in refused.items():
        compare = [(EQUAL, len(calls) - index, 0, call) for index, call in enumerate(calls)]
        block = [(LOAD, 0, 0, 0), (AND, 0, 0, ~X32_BIT & 0xFFFFFFFF), *compare, (RETURN, 0, 0, ALLOW)]
        steps += [(EQUAL, 0, len(block) + 1, instruction_set), *block, (RETURN, 0, 0, REFUSE)]
    steps.append((RETURN, 0, 0, ALLOW))
    code = b"".join(
        step.to_bytes(2, sys.byteorder) + bytes(jumps) + value.to_bytes(4, sys.byteorder)
        for step, *jumps, value in steps
    )
    content = ctypes.create_string_buffer(code)
    header = len(steps).to_bytes(8, sys.byteorder) + ctypes.addressof(content).to_bytes(8, sys.byteorder)
    system_call(number, FILTER, SPECULATION_AS_BEFORE, header)
