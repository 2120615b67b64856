"""Programs under the kernel's Landlock, for machines without bubblewrap: trees are seen at their real paths.

It stops access outside the view, tracing, TCP (version 4), abstract unix sockets and signals (version 6); seccomp stops
System V memory, message queues and keyrings. Nothing stops ``GAPS``.
"""

import contextlib
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from goalseek.disk import own_folder
from goalseek.sandbox import landlock_exec
from goalseek.sandbox.executables import resolve_links
from goalseek.sandbox.view import Launch, Mount, View, needs_owner_capabilities, system_paths

TRUNCATES, TCP, SCOPES = 3, 4, 6
SCOPE_ONLY = ("--scope-only",)  # no way to abstract unix sockets of others, and all else as it was
GAPS = (
    "trees lie at their own paths: an editable install or a build folder may mean your checkout",
    "it can see that files exist everywhere, and change modes, owners and times of those that are yours",
    "it can connect to unix sockets that have a path: an ssh agent's, a container engine's",
    "it has UDP, name look-ups included: what it read can be sent out",
    "it sees the names and command lines of other programs, and shares /dev/shm with them",
)
_WITHOUT_SYSTEMS = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1"}  # git fails if it may not read a file
_OLDER_GAPS = (
    (TRUNCATES, "it can empty files that are yours, though not read them"),
    (TCP, "it has the network"),
    (SCOPES, "it can connect to abstract unix sockets, and send signals to your other programs"),
)
_SHARING = "it shares System V memory, semaphores, message queues and keyrings with your other programs"
_WRITABLE_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm")


@functools.cache
def abi() -> int:
    """The version of Landlock in this kernel, 0 for none."""
    with contextlib.suppress(OSError):
        return landlock_exec.system_call(landlock_exec.CREATE, None, 0, 1)
    return 0


def gaps(version: int, is_sharing_refused: bool) -> tuple[str, ...]:
    """What this version does not stop, each a clause beginning with "it"."""
    older_gaps = (gap for needed, gap in _OLDER_GAPS if version < needed)
    return (*GAPS, *older_gaps, *(() if is_sharing_refused else (_SHARING,)))


def launch_under_landlock(view: View, arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> Launch:
    """``folder`` is a real path. Links in the throw-away HOME lead to the shown files of the user's."""
    _link_from_home(view)
    variables = {**environment, **_WITHOUT_SYSTEMS, "HOME": str(view.home.source), "TMPDIR": str(view.temporary.source)}
    masked = [resolve_links(path).real for path in view.masked]
    grants = [("--read", Path("/proc")), *([("--read", Path("/sys"))] if view.devices else [])]
    grants += [("--write", device) for device in (*(Path("/dev", name) for name in _WRITABLE_DEVICES), *view.devices)]
    for mount in (*map(Mount.in_place, system_paths(view.network)), *view.everything()):
        option = "--write" if mount.writable else "--read"
        grants += [(option, path) for path in _unmasked_parts(resolve_links(mount.source).real, masked)]
    restriction = [word for option, path in dict.fromkeys(grants) for word in (option, str(path))]
    if not view.network:
        restriction.append("--no-tcp")
    if needs_owner_capabilities(view):
        restriction.append("--keep-owner-rights")
    return Launch(tuple(arguments), variables, folder, restriction=tuple(restriction))


def _link_from_home(view: View) -> None:
    home = view.home
    for shown in view.shown:
        if shown.at.is_relative_to(home.at) and shown.at != home.at:
            link = home.source / shown.at.relative_to(home.at)
            if not link.parent.is_relative_to(shown.source):
                # Not through a link: it is one of these, or the program's, which may lead to the user's own files.
                with contextlib.suppress(FileExistsError, NotADirectoryError), own_folder(link.parent, "make") as above:
                    os.symlink(shown.source, link.name, dir_fd=above.descriptor)


def _unmasked_parts(path: Path, masked: Sequence[Path]) -> Iterator[Path]:
    """The path, or its unmasked content: a Landlock rule for a folder holds for everything below it."""
    if path in masked:
        return
    if not any(hidden != path and hidden.is_relative_to(path) for hidden in masked):
        yield path
        return
    for inner in sorted(Path(path, name) for name in os.listdir(path)):
        if inner not in masked and not inner.is_symlink():
            yield from _unmasked_parts(inner, masked)
