"""Paths as text: quoting, normal spelling, and names that git or a file system would misread.

In memory, bytes that are not UTF-8 are surrogates; records have git's C-quoted form.
"""

import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

FOLDER, SYMLINK, SUBMODULE = "40000", "120000", "160000"
"""Modes as git's trees have them; a file has 100644, a program 100755."""

_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
# Marks and overrides of the direction of writing are among them: a name that has one is shown as another one.
_ODD = re.compile(r'[\x00-\x1f"\\\x7f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]')


def quote_path(path: str, is_forced: bool = False) -> str:
    """As git prints it with ``core.quotePath=false``: quoted only if it has control or invalid bytes.

    Invalid bytes, which git prints raw, are escaped too, so that a record is text, and so are marks of writing
    direction, so that a name is shown as it is. Git reads every form. ``is_forced`` quotes in any case.
    """
    quoted = _ODD.sub(_escape, path)
    return f'"{quoted}"' if is_forced or quoted != path else path


def _escape(odd: re.Match[str]) -> str:
    raw = odd[0].encode("utf-8", "surrogateescape")
    return "\\" + (_ESCAPES.get(raw[0]) or "\\".join(f"{byte:03o}" for byte in raw))


def folder_prefix(top: Path, folder: Path) -> str:
    """As git writes it: "sub/", or "" for the top itself and any folder elsewhere."""
    folder, top = folder.resolve(), top.resolve()
    relative = folder.relative_to(top).as_posix() if folder.is_relative_to(top) else "."
    return "" if relative == "." else relative + "/"


def fold_name(name: str) -> str:
    """Equal for all names that the most forgiving file system takes for the same."""
    name = name.rstrip(". ")
    if name.isascii():
        return name.lower()
    visible = "".join(char for char in name if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", visible.rstrip(". ")).casefold())


_LOOKS_LIKE_GIT = re.compile(r"(?i)\.git|git~[0-9]+")


def looks_like_git(path: str) -> bool:
    """Whether some file system would take a part of the path for a repository's own folder."""
    return any(_LOOKS_LIKE_GIT.fullmatch(fold_name(part)) for part in path.split("/"))


_MAX_PART_BYTES = 255  # the longest file name of common file systems


def normalize_path(path: str) -> str:
    """``./data//raw/`` is ``data/raw``; "." is the folder itself. Raises ValueError for an unusable path."""
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
    elif max((len(part.encode()) for part in parts), default=0) > _MAX_PART_BYTES:
        why = f"has a name of more than {_MAX_PART_BYTES} bytes in it"
    if why:
        raise ValueError(f'{path!r} {why}: write a relative path without "..", such as "data/raw"')
    return "/".join(parts) or "."


def normalize_glob(pattern: str) -> str:
    """Without empty parts. Raises ValueError for a pattern that can match nothing."""
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


def first_overlap(path: str, others: Iterable[str]) -> str | None:
    """The first of the ``others``, all normal paths, that is the same, or lies below or above it."""
    overlaps = (other for other in others if f"{path}/".startswith(f"{other}/") or other.startswith(f"{path}/"))
    return next(overlaps, None)
