"""Applying a patch to a tree, and merging trees, as objects only: no file is written, no user's program runs."""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from goalseek.errors import UNFIT, GitFailed, GoalseekError
from goalseek.git.ignore import literal_pattern
from goalseek.git.objects import MissingObject, Objects, TreeReader
from goalseek.git.paths import quote_path

_USAGE = 129  # git's exit code for options that it does not know
_MESSAGE = "to merge\n"  # of commits that only tell git which trees belong together; nothing refers to them
_DRIVERS = {"union": "merge=union", "binary": "merge=binary", "text": "merge=text", "set": "merge", "unset": "-merge"}
_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_PATCH_FAILED = re.compile(r"patch failed: (.+):(\d+)$", re.MULTILINE)


class PatchError(Exception):
    """The text is no patch, or does not fit the tree; the message names the hunk, or is git's own."""


def patch_tree(objects: Objects, tree: str, patch: bytes, prefix: str) -> str:
    """All of it or nothing, as ``git apply`` does; returns the new tree. Raises PatchError.

    Paths are relative to the top; if none begins with ``prefix``, the manifest's folder ("" or "sub/"), to that.
    """
    try:
        with objects.scratch_file("patched") as index:
            variables = {"GIT_INDEX_FILE": str(index)}
            objects.git("read-tree", tree, variables=variables)
            listing = objects.git("apply", "--numstat", "-z", "-", stdin=patch) if prefix else b""
            paths = (row.split(b"\t")[-1] for row in listing.split(b"\0"))
            is_from_top = any(path.startswith(os.fsencode(prefix)) for path in paths)
            options = [] if is_from_top else [f"--directory={prefix}"]
            objects.git("apply", "--cached", *options, "-", stdin=patch, variables=variables)
            patched = objects.git("write-tree", "--missing-ok", variables=variables).decode().strip()
            objects.bring_back()
            return patched
    except GitFailed as error:
        raise PatchError(_describe_failure(error.stderr, patch)) from None


def _describe_failure(stderr: str, patch: bytes) -> str:
    match = _PATCH_FAILED.search(stderr)
    if match is None:
        return stderr.splitlines()[0].removeprefix("error: ") if stderr else "git apply refuses it"
    path, start = match[1], int(match[2])
    hunks: list[tuple[int, str]] = []  # of this file: the line at which each begins in the old file, and its header
    name = ""
    old = new = 0  # the lines of this hunk that are still to come
    for line in patch.split(b"\n"):
        if old > 0 or new > 0:
            old -= line[:1] in (b" ", b"-", b"")
            new -= line[:1] in (b" ", b"+", b"")
        elif line.startswith((b"--- ", b"+++ ")):
            name_in_header = os.fsdecode(line[4:].split(b"\t")[0]).strip()
            name = name if name_in_header == "/dev/null" else name_in_header.partition("/")[2]
        elif head := _HUNK.match(line):
            old, new = (int(head[side]) if head[side] is not None else 1 for side in (2, 3))
            if name and (path == name or path.endswith("/" + name)):
                hunks.append((int(head[1]), head[0].decode()))
    for number, (begin, header) in enumerate(hunks, start=1):
        if begin == start:
            return f"{path}, hunk {number} of {len(hunks)}, {header}"
    return f"{path}, at line {start}"


class Conflicts(Exception):
    """``files`` are quoted paths, each with the kind of its conflict."""

    def __init__(self, files: tuple[str, ...]) -> None:
        super().__init__(", ".join(files))
        self.files = files


def merge_trees(objects: Objects, before: str, ours: str, theirs: str) -> str:
    """Three-way, with the base ``before``; renames on either side are followed. Only objects are written.

    ``.gitattributes`` of ``ours`` choose among git's own drivers, never a program. Raises Conflicts and MissingObject.
    """
    if before == ours:
        return theirs
    for tree in (before, ours, theirs):
        if not objects.has(tree):  # git would take it for an empty one, and say nothing
            raise MissingObject(tree)
    root = objects.write_commit(before, (), _MESSAGE, 0)
    sides = [objects.write_commit(tree, (root,), _MESSAGE, 0) for tree in (ours, theirs)]
    with _attributes(objects, before, ours, theirs) as settings:
        try:
            arguments = (*settings, "merge-tree", "--write-tree", "-z", "--name-only", *sides)
            return os.fsdecode(objects.git(*arguments)).split("\0")[0]
        except GitFailed as error:
            if error.exit_code == _USAGE:
                message = f"git merge-tree failed: {error.stderr}"
                raise GoalseekError(message, "install git 2.38 or newer", UNFIT) from None
            if error.exit_code != 1:
                raise
            if not error.stdout:  # git ends with 1 for a missing commit too
                raise MissingObject(" or ".join(sides)) from None
            side = re.compile(rf"~(?:{'|'.join(sides)})(?:_\d+)?$")  # ``name~side`` if a file and a folder collide
            fields = [side.sub("", field) for field in os.fsdecode(error.stdout).split("\0")[1:]]
            # The paths, an empty field, and messages: how many paths, these, the kind of conflict, a text.
            index = fields.index("")
            names = sorted(set(fields[:index]))
            index += 1
            kinds: dict[str, str] = {}
            while index < len(fields) and fields[index].isdigit():
                count = int(fields[index])
                match = re.fullmatch(r"CONFLICT \((.+)\)", fields[index + 1 + count])
                if match:
                    kinds.update(dict.fromkeys(fields[index + 1 : index + 1 + count], match[1]))
                index += count + 3
            files = (quote_path(name) + (f" ({kinds[name]})" if name in kinds else "") for name in names)
            raise Conflicts(tuple(files)) from None
        finally:
            objects.bring_back()


@contextlib.contextmanager
def _attributes(objects: Objects, before: str, ours: str, theirs: str) -> Iterator[tuple[str, ...]]:
    """git's options for an attributes file that has the merge drivers of the changed paths, and nothing else.

    A whole ``.gitattributes`` could name filters; the tool's own ``info/attributes`` says nothing of merges.
    """
    paths = {path for tree in (ours, theirs) for path in objects.changed_paths(before, tree)}
    names = {str(folder / ".gitattributes") for path in paths for folder in PurePosixPath(path).parents}
    reader = TreeReader(objects, ours)
    entries = ((name, reader.entry(name)) for name in names)
    files = {name: entry for name, entry in entries if entry and entry.mode.startswith("100")}
    if not files:
        yield ()
        return
    values = objects.read_attributes(files, paths, ["merge"], objects.git_dir)
    with objects.scratch_file("drivers") as drivers:
        chosen = {path: _DRIVERS[values[path]["merge"]] for path in paths if values[path]["merge"] in _DRIVERS}
        lines = (f"{quote_path(literal_pattern(path), is_forced=True)} {driver}\n" for path, driver in chosen.items())
        drivers.write_bytes(os.fsencode("".join(lines)))
        yield "-c", f"core.attributesFile={drivers}"
