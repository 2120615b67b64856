"""A program started by bubblewrap in an allow-list of mounts: what it must not see is simply not there."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from goalseek.own_folders import parent_of, remove
from goalseek.sandbox import landlock
from goalseek.sandbox.mounts import Layout, check, holder, lay_out
from goalseek.sandbox.view import Launch, Mount, View, overrules_owners, split

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


def _cover(cover: Mount) -> tuple[str, ...]:
    return ("--tmpfs",) if cover.source.is_dir() else ("--ro-bind", "/dev/null")


def make_mount_points(layout: Layout) -> None:
    """Makes what mounts need inside of other writable mounts, through real folders only.

    A link in the place of a mount point gives way to it. Raises OSError where a link is on the way to one, or a file
    that is not empty is in its place: who works in that tree may have put it there.
    """
    mounts = {str(mount.at): mount for mount in layout.mounts}
    for mount in layout.mounts:
        outer = holder(mounts, mount.at.parent)
        if outer is not None and outer.writable:
            _make(outer.source / mount.at.relative_to(outer.at), mount.source.is_dir())


def _make(place: Path, is_folder: bool) -> None:
    if place.is_symlink():
        remove(place)
    with parent_of(place, "make") as (folder, name):
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            if is_folder:
                os.mkdir(name, 0o755, dir_fd=folder)
            else:
                os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644, dir_fd=folder))
            return
        if stat.S_ISDIR(mode) != is_folder:
            raise OSError(f"{name} is in the way of what is to be shown there")
