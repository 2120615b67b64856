"""A program restricted by the kernel's Landlock, where nothing can be mounted: trees are at their real places.

It stops: reading and writing files outside the view, listing folders there, TCP where the kernel knows it (version 4),
reaching abstract unix sockets and signalling other processes (version 6), tracing them, and outliving the command.
``GAPS`` says what it does not stop.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import os
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from goalseek.own_folders import parent_of
from goalseek.sandbox import landlock_exec
from goalseek.sandbox.executables import resolve_links
from goalseek.sandbox.mounts import check
from goalseek.sandbox.view import Launch, View, overrules_owners, readable, split

TRUNCATES, TCP, SCOPES = 3, 4, 6
SCOPED = ("--scope-only",)  # no way to abstract unix sockets of others, and all else as it was
GAPS = (
    "trees lie at their own paths: an editable install or a build folder may mean your checkout",
    "it can see that files exist everywhere, and change modes, owners and times of those that are yours",
    "it can connect to unix sockets that have a path: an ssh agent's, a container engine's",
    "it has UDP, name look-ups included: what it read can be sent out",
    "it sees the names and command lines of other programs, and shares /dev/shm with them",
)
_WITHOUT_SYSTEMS = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1"}  # git fails where it may not read a file
_WRITABLE_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm")


@functools.cache
def abi() -> int:
    """The version of Landlock that this kernel speaks, 0 for none."""
    found = ctypes.CDLL(None, use_errno=True).syscall(
        ctypes.c_long(landlock_exec.CREATE), None, ctypes.c_long(0), ctypes.c_long(1)
    )
    return max(int(found), 0)


def gaps(version: int) -> tuple[str, ...]:
    """What a program can do in spite of Landlock of this version."""
    told = list(GAPS)
    if version < TRUNCATES:
        told.append("it can empty files that are yours, though not read them")
    if version < TCP:
        told.append("it has the network")
    if version < SCOPES:
        told.append("it can connect to abstract unix sockets, and send signals to your other programs")
    return tuple(told)


def launch(view: View, arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> Launch:
    """A program restricted to its view; ``folder`` is a real place. HOME and TMPDIR are the throw-away folders.

    What is shown of the user's home is linked to from the throw-away one. Raises GoalseekError for a view that cannot
    be.
    """
    check(view)
    _link_from_home(view)
    inside = {**environment, **_WITHOUT_SYSTEMS, "HOME": str(view.home.source), "TMPDIR": str(view.temporary.source)}
    words: list[str] = []
    for path in _readable(view):
        words += ["--read", str(path)]
    for place in _writable(view):
        words += ["--write", str(place)]
    if not view.network:
        words.append("--no-tcp")
    if overrules_owners(view):
        words.append("--keep-owner-rights")
    return Launch(tuple(arguments), inside, folder, restriction=tuple(words))


def standalone_command(ready: Launch) -> Launch:
    """The same program for who cannot restrict it while starting it: another program does, and stays its reaper."""
    if not ready.restriction:
        return ready
    own, loaders = split(ready.environment)
    words = [*_starter(), *ready.restriction]
    for name, value in loaders.items():
        words += ["--set", name, value]
    return Launch((*words, "--folder", str(ready.folder), "--", *ready.arguments), own, Path("/"), ready.is_cage)


@functools.cache
def _starter() -> tuple[str, ...]:
    interpreter = getattr(sys, "_base_executable", sys.executable)
    source = Path(landlock_exec.__file__)
    return (interpreter, "-I", "-S", "-B", str(_compiled(source) or source))


def _compiled(source: Path) -> Path | None:
    """The bytecode of a program, if it is that of its source: compiling takes longer than all that it does."""
    try:
        place = Path(importlib.util.cache_from_source(str(source)))
        status, head = source.stat(), place.read_bytes()[:16]
    except (OSError, NotImplementedError):
        return None
    dated = struct.pack("<LLL", 0, int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF)
    return place if head == importlib.util.MAGIC_NUMBER + dated else None


def _link_from_home(view: View) -> None:
    home = view.home
    for shown in view.shown:
        if shown.at.is_relative_to(home.at) and shown.at != home.at:
            place = home.source / shown.at.relative_to(home.at)
            if not place.parent.is_relative_to(shown.source):
                # Not through a link: it is one of these, or the program's, which may lead to the user's own files.
                with contextlib.suppress(FileExistsError, NotADirectoryError), parent_of(place, "make") as inside:
                    os.symlink(shown.source, inside[1], dir_fd=inside[0])


def _readable(view: View) -> Iterator[Path]:
    masked = [resolve_links(path).real for path in view.masked]
    shown = [path.source for path in view.everything() if not path.writable]
    for path in dict.fromkeys(resolve_links(path).real for path in (*readable(view.network), *shown)):
        yield from _without(path, masked)
    yield Path("/proc")
    if view.devices:
        yield Path("/sys")


def _without(path: Path, masked: Sequence[Path]) -> Iterator[Path]:
    """A path, or what is in it beside what is masked: a rule for a folder cannot be narrowed below it."""
    if path in masked:
        return
    if not any(place != path and place.is_relative_to(path) for place in masked):
        yield path
        return
    for inner in sorted(Path(path, name) for name in os.listdir(path)):
        if inner not in masked and not inner.is_symlink():
            yield from _without(inner, masked)


def _writable(view: View) -> Iterator[Path]:
    masked = [resolve_links(path).real for path in view.masked]
    for shown in view.everything():
        if shown.writable:
            yield from _without(resolve_links(shown.source).real, masked)
    for name in _WRITABLE_DEVICES:
        yield Path("/dev", name)
    yield from view.devices
