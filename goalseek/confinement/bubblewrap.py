"""A program started by bubblewrap in an allow-list of mounts: what it must not see is simply not there."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from goalseek.confinement import landlock
from goalseek.confinement.launch import Launch, split
from goalseek.confinement.layout import Layout, check, lay_out
from goalseek.confinement.mount_points import make_mount_points
from goalseek.confinement.ownership import overrules_owners
from goalseek.confinement.view import Shown, View

_TERMINAL_INPUT = Path("/proc/sys/dev/tty/legacy_tiocsti")


def launch(view: View, arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> Launch:
    """A program in its view; ``folder`` is a place on disk inside something shown.

    Makes the empty folders in the tree that shared folders are mounted on. Inside, HOME and TMPDIR are the view's.
    Raises FileNotFoundError without bwrap, OSError where a mount point cannot be made, GoalseekError for a view that
    cannot be.
    """
    keeper = program()
    if keeper is None:
        raise FileNotFoundError("bwrap")
    check(view)
    layout = lay_out(view)
    make_mount_points(layout)
    inside = {**environment, "HOME": str(view.home.at), "TMPDIR": str(view.temporary.at)}
    own, loaders = split(inside)
    words = [keeper, *_isolation(view), *_mounts(view, layout)]
    for name, value in loaders.items():
        words += ["--setenv", name, value]
    words += ["--chdir", str(view.seen_at(folder)), "--", *arguments]
    is_scoped = view.network and scopes_abstract_sockets()
    return Launch(tuple(words), own, Path("/"), is_cage=True, restriction=landlock.SCOPED if is_scoped else ())


def program() -> str | None:
    """Where bubblewrap is."""
    return shutil.which("bwrap")


def scopes_abstract_sockets() -> bool:
    """Whether abstract unix sockets are out of reach for a program that has the machine's network."""
    place = program()
    if place is None or os.stat(place).st_mode & stat.S_ISUID:
        return False  # a restricted process cannot start a set-user-id program as what it is
    return landlock.abi() >= landlock.SCOPES


def _isolation(view: View) -> Iterator[str]:
    if overrules_owners(view):
        # In a user namespace root owns root's files only. CAP_DAC_READ_SEARCH is left out: it opens files by handle.
        yield from ("--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try")
        if not view.network:
            yield "--unshare-net"
        yield from ("--cap-drop", "ALL", "--cap-add", "CAP_DAC_OVERRIDE", "--cap-add", "CAP_FOWNER")
    else:
        yield "--unshare-all"
        if view.network:
            yield "--share-net"
        yield from ("--cap-drop", "ALL")
    yield "--die-with-parent"
    if not (view.terminal and _cannot_type()):
        yield "--new-session"


def _cannot_type() -> bool:
    """Whether the kernel refuses to let a program put words into its terminal."""
    try:
        return _TERMINAL_INPUT.read_text().strip() == "0"
    except OSError:
        return False


def _mounts(view: View, layout: Layout) -> Iterator[str]:
    yield from ("--proc", "/proc", "--dev", "/dev")
    if (
        os.geteuid() == 0
    ):  # the kernel's settings belong to root, with or without capabilities: core_pattern is a way out
        yield from ("--remount-ro", "/proc")
    for device in view.devices:
        yield from ("--dev-bind", str(device), str(device))
    if view.devices:
        yield from ("--ro-bind", "/sys", "/sys")
    steps: list[tuple[Path, tuple[str, ...]]] = [
        (mount.at, ("--bind" if mount.writable else "--ro-bind", str(mount.source))) for mount in layout.mounts
    ]
    steps += [(cover.at, _cover(cover)) for cover in layout.covered]
    for at, words in sorted(steps, key=lambda step: len(step[0].parts)):
        yield from (*words, str(at))
    for place, target in layout.links:
        yield from ("--symlink", target, str(place))
    for cover in layout.covered:
        if cover.source.is_dir():
            yield from ("--remount-ro", str(cover.at))
    yield from ("--remount-ro", "/")


def _cover(cover: Shown) -> tuple[str, ...]:
    return ("--tmpfs",) if cover.source.is_dir() else ("--ro-bind", "/dev/null")
