"""The files of a folder by path, size and time: how a folder whose content is not in git is held to what it was."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from goalseek.values import to_line
from goalseek.workspace.scope import DROPPINGS


@dataclass(frozen=True)
class Listed:
    """One file: its path below the folder, its size in bytes, its modification time in nanoseconds since 1970.

    ``kind`` is "file", "program" (it may be run), "link", or "other".
    """

    path: str
    size: int
    time: int
    kind: str = "file"


Listing = tuple[Listed, ...]


def list_folder(root: Path, most: int | None = None, left_out: Callable[[str], bool] = DROPPINGS) -> Listing:
    """The files below a folder in the order of their paths, at most ``most``, without caches; no link is followed.

    A folder counts by the files in it. Raises OSError where it cannot be read.
    """
    found: list[Listed] = []
    pending = [""]
    while pending and (most is None or len(found) < most):
        folder = pending.pop()
        inner: list[str] = []
        with os.scandir(root / folder) as listing:
            for item in sorted(listing, key=lambda item: item.name):
                path = folder + item.name
                if item.is_dir(follow_symlinks=False):
                    if not left_out(path + "/x"):
                        inner.append(path + "/")
                elif not left_out(path):
                    found.append(_listed(path, item.stat(follow_symlinks=False)))
        pending += reversed(inner)
    return tuple(found[:most])


def digest_of(listing: Listing) -> str:
    """Names a listing."""
    return hashlib.sha256(to_line(listing).encode("utf-8", "surrogateescape")).hexdigest()


def differing(before: Listing, after: Listing) -> list[str]:
    """The paths that are in one of the two only, or with another size, time or kind."""
    was, now = {item.path: item for item in before}, {item.path: item for item in after}
    return sorted(path for path in {**was, **now} if was.get(path) != now.get(path))


def _listed(path: str, found: os.stat_result) -> Listed:
    kind = "other"
    if stat.S_ISLNK(found.st_mode):
        kind = "link"
    elif stat.S_ISREG(found.st_mode):
        kind = "program" if found.st_mode & stat.S_IXUSR else "file"
    return Listed(path, found.st_size, found.st_mtime_ns, kind)
