"""Listings of folders (files by path, size, time and kind) and their comparison."""

from __future__ import annotations

import hashlib
import stat
import typing
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path

from msgspec import Struct

from goalseek import disk
from goalseek.values import to_line
from goalseek.workspace.scope import is_tool_cache

if typing.TYPE_CHECKING:
    from goalseek.git.objects import Entry


class ListedFile(Struct, frozen=True):
    """``size`` in bytes, ``time`` in ns since 1970; ``kind`` is "file", "program" (executable), "link" or "other"."""

    path: str
    size: int
    time: int
    kind: str = "file"


Listing = tuple[ListedFile, ...]


def list_folder(root: Path, limit: int | None = None, is_skipped: Callable[[str], bool] = is_tool_cache) -> Listing:
    """At most ``limit`` files, in a fixed order; follows no link. Raises OSError."""
    files = islice(disk.list_files(root, is_skipped, is_ours=False), limit)
    return tuple(
        ListedFile(path, status.st_size, status.st_mtime_ns, _kind_of(status.st_mode)) for path, status in files
    )


def _kind_of(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "program" if mode & stat.S_IXUSR else "file"
    return "link" if stat.S_ISLNK(mode) else "other"


def digest_of(listing: Listing | Mapping[str, Entry]) -> str:
    return hashlib.sha256(to_line(listing).encode("utf-8", "surrogateescape")).hexdigest()


def content_digest(file: Path) -> str:
    """SHA-256 in hex; "" if the file cannot be read."""
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError:
        return ""


def changed_paths(before: Listing, after: Listing) -> list[str]:
    """Paths in one listing only, or with another size, time or kind."""
    was, now = {item.path: item for item in before}, {item.path: item for item in after}
    return sorted(path for path in {**was, **now} if was.get(path) != now.get(path))
