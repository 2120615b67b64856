"""A patch applied to a tree in the tool's own objects: no file is written, and nothing of anybody's is run."""

from __future__ import annotations

import os
import re

from goalseek.errors import GitFailed
from goalseek.objects import Objects
from goalseek.own_folders import clear

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_FAILED = re.compile(r"patch failed: (.+):(\d+)$", re.MULTILINE)


class DoesNotApply(Exception):
    """A patch that is none, or does not fit the tree; the text says which hunk, or what git says."""


def patched(objects: Objects, tree: str, patch: bytes, prefix: str) -> str:
    """The tree with the patch applied, as ``git apply`` does it: all of it or nothing.

    Paths are relative to the top, as ``git diff`` prints them; where none of them begins with ``prefix``, the
    manifest's folder ("" or "sub/"), they are relative to that. Raises DoesNotApply.
    """
    index = objects.scratch / f"patched-{os.getpid()}"
    variables = {"GIT_INDEX_FILE": str(index)}
    try:
        objects.git("read-tree", tree, variables=variables)
        below = [] if not prefix or _speaks_of(objects, patch, prefix) else [f"--directory={prefix}"]
        objects.git("apply", "--cached", *below, "-", stdin=patch, variables=variables)
        return objects.git("write-tree", "--missing-ok", variables=variables).decode().strip()
    except GitFailed as failed:
        raise DoesNotApply(_in_words(failed.said, patch)) from None
    finally:
        clear(index)


def _speaks_of(objects: Objects, patch: bytes, prefix: str) -> bool:
    """Whether the patch names a file below the folder by its path from the top."""
    listing = objects.git("apply", "--numstat", "-z", "-", stdin=patch)
    return any(row.split(b"\t")[-1].startswith(os.fsencode(prefix)) for row in listing.split(b"\0"))


def _in_words(said: str, patch: bytes) -> str:
    failed = _FAILED.search(said)
    if failed is None:
        return said.splitlines()[0].removeprefix("error: ") if said else "git apply refuses it"
    path, start = failed[1], int(failed[2])
    hunks = _hunks(patch, path)
    for place, (line, head) in enumerate(hunks, start=1):
        if line == start:
            return f"{path}, hunk {place} of {len(hunks)}, {head}"
    return f"{path}, at line {start}"


def _hunks(patch: bytes, path: str) -> list[tuple[int, str]]:
    """The hunks of one file: where each begins in the old file, and its head."""
    found: list[tuple[int, str]] = []
    name = ""
    old = new = 0
    for line in patch.split(b"\n"):
        if old > 0 or new > 0:
            old -= line[:1] in (b" ", b"-", b"")
            new -= line[:1] in (b" ", b"+", b"")
        elif line.startswith((b"--- ", b"+++ ")):
            told = os.fsdecode(line[4:].split(b"\t")[0]).strip()
            name = name if told == "/dev/null" else told.partition("/")[2]
        elif head := _HUNK.match(line):
            old, new = (int(head[side]) if head[side] is not None else 1 for side in (2, 3))
            if name and (path == name or path.endswith("/" + name)):
                found.append((int(head[1]), head[0].decode()))
    return found
