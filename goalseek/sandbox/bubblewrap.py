"""Programs under bubblewrap: an allow-list of mounts in an empty root, so that what is not listed does not exist."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from goalseek.own_folders import parent_of, remove
from goalseek.sandbox import landlock
from goalseek.sandbox.mounts import Layout, check_view, innermost_mount, lay_out
from goalseek.sandbox.view import Launch, Mount, View, needs_owner_capabilities, split_environment

_TERMINAL_INPUT = Path("/proc/sys/dev/tty/legacy_tiocsti")


def launch(view: View, arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> Launch:
    """How to start a program under bubblewrap; ``folder`` is a path on disk inside something shown.

    Makes the empty folders in the tree that shared folders are mounted on. HOME and TMPDIR become the view's. Raises
    FileNotFoundError without bwrap, OSError if a mount point cannot be made, GoalseekError for an impossible view.
    """
    launcher = find_bubblewrap()
    if launcher is None:
        raise FileNotFoundError("bwrap")
    check_view(view)
    layout = lay_out(view)
    make_mount_points(layout)
    variables = {**environment, "HOME": str(view.home.at), "TMPDIR": str(view.temporary.at)}
    launcher_variables, program_variables = split_environment(variables)
    command = [launcher, *_isolation_options(view), *_mount_options(view, layout)]
    for name, value in program_variables.items():
        command += ["--setenv", name, value]
    command += ["--chdir", str(view.seen_at(folder)), "--", *arguments]
    is_scoped = view.network and scopes_abstract_sockets()
    return Launch(
        tuple(command),
        launcher_variables,
        Path("/"),
        is_cage=True,
        restriction=landlock.SCOPE_ONLY if is_scoped else (),
    )


def find_bubblewrap() -> str | None:
    """The path of bubblewrap; None if it is not installed."""
    return shutil.which("bwrap")


def scopes_abstract_sockets() -> bool:
    """Whether a program that has the machine's network is kept from abstract unix sockets."""
    path = find_bubblewrap()
    if path is None or os.stat(path).st_mode & stat.S_ISUID:
        return False  # a restricted process cannot start a set-user-id program as what it is
    return landlock.abi() >= landlock.SCOPES


def _isolation_options(view: View) -> Iterator[str]:
    if needs_owner_capabilities(view):
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
    if not (view.terminal and _refuses_typed_input()):
        yield "--new-session"


def _refuses_typed_input() -> bool:
    """Whether the kernel refuses to let a program type into its terminal (TIOCSTI)."""
    try:
        return _TERMINAL_INPUT.read_text().strip() == "0"
    except OSError:
        return False


def _mount_options(view: View, layout: Layout) -> Iterator[str]:
    yield from ("--proc", "/proc", "--dev", "/dev")
    if (
        os.geteuid() == 0
    ):  # the kernel's settings belong to root, with or without capabilities: core_pattern is a way out
        yield from ("--remount-ro", "/proc")
    for device in view.devices:
        yield from ("--dev-bind", str(device), str(device))
    if view.devices:
        yield from ("--ro-bind", "/sys", "/sys")
    mounts: list[tuple[Path, tuple[str, ...]]] = [
        (mount.at, ("--bind" if mount.writable else "--ro-bind", str(mount.source))) for mount in layout.mounts
    ]
    mounts += [(cover.at, _cover_options(cover)) for cover in layout.covers]
    for at, options in sorted(mounts, key=lambda mount: len(mount[0].parts)):
        yield from (*options, str(at))
    for path, target in layout.links:
        yield from ("--symlink", target, str(path))
    for cover in layout.covers:
        if cover.source.is_dir():
            yield from ("--remount-ro", str(cover.at))
    yield from ("--remount-ro", "/")


def _cover_options(cover: Mount) -> tuple[str, ...]:
    return ("--tmpfs",) if cover.source.is_dir() else ("--ro-bind", "/dev/null")


def make_mount_points(layout: Layout) -> None:
    """Makes the mount points that lie inside other writable mounts, through real folders only.

    A link at a mount point is removed. Raises OSError for a link on the way to one, or for a file where a folder is
    needed or the reverse: a program that works in that tree may have made it.
    """
    mounts = {str(mount.at): mount for mount in layout.mounts}
    for mount in layout.mounts:
        outer = innermost_mount(mounts, mount.at.parent)
        if outer is not None and outer.writable:
            _make_mount_point(outer.source / mount.at.relative_to(outer.at), mount.source.is_dir())


def _make_mount_point(path: Path, is_folder: bool) -> None:
    if path.is_symlink():
        remove(path)
    with parent_of(path, "make") as (folder, name):
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
