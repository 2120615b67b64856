"""Empty folders and files in goalseek's own trees, for other places to be mounted on."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from goalseek.confinement.layout import Layout, holder
from goalseek.own_folders import open_folder, parent_of, remove


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


def occupied(root: Path, paths: Iterable[str]) -> list[str]:
    """Of the paths in a tree that something is mounted on, those where more than an empty mount point stands.

    A path below a link is none of them: the link itself is what somebody put there.
    """
    return [path for path in sorted(paths) if _is_occupied(root, path)]


def _is_occupied(root: Path, path: str) -> bool:
    *above, name = path.split("/")
    with contextlib.ExitStack() as opened, contextlib.suppress(OSError):
        folder = opened.enter_context(open_folder(root))
        for part in above:
            folder = opened.enter_context(open_folder(part, folder))
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            return bool(os.listdir(opened.enter_context(open_folder(name, folder))))
        return not stat.S_ISREG(found.st_mode) or found.st_size > 0
    return False


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
