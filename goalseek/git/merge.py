"""A patch applied to a tree in the tool's own objects: no file is written, and nothing of anybody's is run."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from goalseek import process
from goalseek.errors import UNFIT, GitFailed, GoalseekError
from goalseek.git.command import AUTHOR, HARDENED, environment
from goalseek.git.objects import Objects
from goalseek.git.paths import quote_path
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


class Conflicts(Exception):
    """The two sides do not go together; ``files`` are quoted paths, each with the kind of its conflict."""

    def __init__(self, files: tuple[str, ...]) -> None:
        super().__init__(", ".join(files))
        self.files = files


def merged(objects: Objects, before: str, ours: str, theirs: str) -> str:
    """The tree with what changed from ``before`` to ``theirs`` done to ``ours``; renames on either side are followed.

    Raises Conflicts; nothing but objects was written then.
    """
    if before == ours:
        return theirs
    root = _commit(objects, before)
    sides = [_commit(objects, ours, root), _commit(objects, theirs, root)]
    arguments = ["git", *HARDENED, "merge-tree", "--write-tree", "-z", "--name-only", *sides]
    answer = process.run(arguments, environment(**objects.variables()), folder=objects.git_dir)
    fields = os.fsdecode(answer.stdout).split("\0")
    if answer.exit_code == 0:
        return fields[0]
    if answer.exit_code == 1:
        raise Conflicts(_files([_without_side(field, sides) for field in fields[1:]]))
    raise GoalseekError(f"git merge-tree failed: {os.fsdecode(answer.stderr).strip()}", "git 2.38 or newer", UNFIT)


def _commit(objects: Objects, tree: str, *parents: str) -> str:
    """A commit that only tells git which trees belong together; nothing refers to it."""
    who = f"{AUTHOR[0]} <{AUTHOR[1]}> 0 +0000"
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents), f"author {who}", f"committer {who}"]
    return objects.write_bytes("\n".join([*lines, "", "to merge\n"]).encode(), "commit")


def _without_side(path: str, sides: Sequence[str]) -> str:
    """Where a file and a folder want one place, git calls the file ``name~side``: that is no file of anybody's."""
    return re.sub(rf"~(?:{'|'.join(sides)})(?:_\d+)?$", "", path)


def _files(fields: list[str]) -> tuple[str, ...]:
    """The paths, and of each the kind that git's messages name: ``a.txt (contents)``."""
    end = fields.index("")
    kinds: dict[str, str] = {}
    place = end + 1
    while place < len(fields) and fields[place].isdigit():
        count = int(fields[place])
        paths = fields[place + 1 : place + 1 + count]
        told = re.fullmatch(r"CONFLICT \((.+)\)", fields[place + 1 + count])
        if told:
            kinds.update(dict.fromkeys(paths, told[1]))
        place += count + 3
    named = sorted(set(fields[:end]))
    return tuple(quote_path(path) + (f" ({kinds[path]})" if path in kinds else "") for path in named)
