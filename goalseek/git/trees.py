"""Trees: paths and attributes in one, what of one a folder shows, and how many lines a change of one has."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from goalseek.git.objects import Entry, Objects
from goalseek.git.paths import FOLDER, SUBMODULE


def count_lines(numstat: bytes) -> tuple[int, int]:
    """The lines that a change adds and removes, from a ``--numstat``; binary files have none."""
    rows = [line.split(b"\t") for line in numstat.splitlines()]
    added, removed = (sum(int(row[side]) for row in rows if row[side].isdigit()) for side in (0, 1))
    return added, removed


def read_attributes(
    objects: Objects, attribute_files: Mapping[str, Entry], paths: Iterable[str], names: Sequence[str], git_dir: Path
) -> dict[str, dict[str, str]]:
    """Git attributes of files: for each path the value of each attribute, "unspecified" where it has none.

    ``attribute_files`` are the ``.gitattributes`` that count, beside the ``info/attributes`` of ``git_dir``.
    """
    with objects.scratch_file("attributes") as index:
        objects.index(index, attribute_files)
        variables = {"GIT_DIR": str(git_dir), "GIT_INDEX_FILE": str(index)}
        stdin = b"".join(os.fsencode(path) + b"\0" for path in paths)
        answer = objects.git("check-attr", "--cached", "--stdin", "-z", *names, stdin=stdin, variables=variables)
    values_by_path: dict[str, dict[str, str]] = {}
    fields = iter(os.fsdecode(answer).split("\0")[:-1])
    for path, name, value in zip(fields, fields, fields, strict=True):
        values_by_path.setdefault(path, {})[name] = value
    return values_by_path


class TreeReader:
    """Looks up paths in one tree. Each folder of it is read once."""

    def __init__(self, objects: Objects, tree: str) -> None:
        self._objects = objects
        self._root = Entry(FOLDER, tree)
        self.folder = functools.cache(self._read_folder)

    def entry(self, path: str) -> Entry | None:
        """The entry at a path, "" for the tree itself; None where there is none."""
        above, _, name = path.rpartition("/")
        return self.folder(above).get(name) if path else self._root

    def has(self, path: str) -> bool:
        """Whether there is a file or a folder at a path."""
        return self.entry(path) is not None

    def _read_folder(self, path: str) -> dict[str, Entry]:
        """The entries of a folder; none where there is no such folder."""
        entry = self.entry(path)
        return self._objects.tree(entry.blob) if entry and entry.mode == FOLDER else {}


TreeUpdateContext = Callable[[Path], AbstractContextManager[object]]  # entered while the tree in a folder is made anew


def visible_entries(entries: Mapping[str, Entry], is_visible: Callable[[str], bool]) -> dict[str, Entry]:
    """The files of a tree that a folder shows: no submodules, and only what may be seen."""
    return {path: entry for path, entry in entries.items() if entry.mode != SUBMODULE and is_visible(path)}


def visible_changes(
    objects: Objects, before: str, after: str, is_visible: Callable[[str], bool]
) -> dict[str, Entry | None]:
    """The changes to a folder that shows one tree so that it shows another; None removes a file."""
    return {
        difference.path: difference.after if difference.after and difference.after.mode != SUBMODULE else None
        for difference in objects.differences(before, after)
        if is_visible(difference.path)
    }
