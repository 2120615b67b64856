"""Paths that a manifest names below a folder: each has one spelling, and none leads out. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from goalseek.git.paths import looks_like_git

_LONGEST_PART = 255  # of what a file system may call a file


def normal_path(path: str) -> str:
    """A path below a folder in its one spelling: ``./data//raw/`` is ``data/raw``; "." is the folder itself.

    Raises ValueError, with what would be right, for a path that is empty or leads out of the folder.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    why = ""
    if not path:
        why = "is empty"
    elif path.startswith("/"):
        why = "is absolute"
    elif ".." in parts:
        why = 'has ".." in it'
    elif parts[:1] == ["~"]:
        why = 'begins with "~", which is your HOME'
    elif any(unicodedata.category(char) == "Cc" for char in path):
        why = "has a control character in it"
    elif looks_like_git(path):
        why = "is taken for git's own folder"
    elif max((len(part.encode()) for part in parts), default=0) > _LONGEST_PART:
        why = f"has a name of more than {_LONGEST_PART} bytes in it"
    if why:
        raise ValueError(f'{path!r} {why}: write a relative path without "..", such as "data/raw"')
    return "/".join(parts) or "."


def normal_glob(pattern: str) -> str:
    """A glob in the manifest's folder without empty parts in it. Raises ValueError for one that can match nothing."""
    mark = "!" if pattern.startswith("!") else ""
    text = pattern.removeprefix("!")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if not text.strip() or not parts:
        raise ValueError(f'{pattern!r} matches nothing; name a file, a folder or a glob, such as "out/**"')
    if ".." in parts or parts[0] == "~":
        why = "globs match below the manifest's folder only"
        raise ValueError(f'{pattern!r} matches nothing: {why}; such as "out/**" would be right')
    anchor = "/" if text.startswith(("/", "./")) else ""
    end = "/" if text.endswith("/") else ""
    return f"{mark}{anchor}{'/'.join(parts)}{end}"


def overlap(one: str, other: str) -> bool:
    """Whether two normal paths are the same, or one lies below the other."""
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def first_overlap(path: str, others: Iterable[str]) -> str | None:
    """The first of the ``others`` that is the same path, lies below it, or above it."""
    return next((other for other in others if overlap(path, other)), None)
