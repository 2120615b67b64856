"""Empty folders and files in goalseek's own trees, for other places to be mounted on."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from goalseek.confinement.layout import Layout, holder
from goalseek.own_folders import parent_of, remove


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
