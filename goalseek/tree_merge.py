"""Three trees merged into one by git, without a checkout and without an index."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from goalseek import process
from goalseek.errors import UNFIT, GoalseekError
from goalseek.git import AUTHOR, HARDENED, environment
from goalseek.objects import Objects
from goalseek.quoting import quote_path


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
    answer = process.ask(arguments, environment(**objects.variables()), folder=objects.git_dir)
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
