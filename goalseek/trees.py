"""Questions about trees and history, answered from their objects."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from goalseek.objects import SUBMODULE, Entry, Objects

Making = Callable[[Path], AbstractContextManager[object]]  # entered while the tree in a folder is made anew


def walk(objects: Objects, commit: str, most: int, cut: Collection[str] = ()) -> Iterable[tuple[str, bytes]]:
    """The first-parent history from a commit on: (hash, raw commit), newest first.

    It ends at a commit of ``cut``, those whose parents a shallow clone does not have.
    """
    for _ in range(most):
        raw = objects.read(commit)
        yield commit, raw
        parent = next(
            (line[7:].decode() for line in raw.split(b"\n\n")[0].split(b"\n") if line[:7] == b"parent "), None
        )
        if parent is None or commit in cut:
            return
        commit = parent


def visible(entries: Mapping[str, Entry], is_seen: Callable[[str], bool]) -> dict[str, Entry]:
    """The files of a tree that a folder shows: no submodules, and only what may be seen."""
    return {path: entry for path, entry in entries.items() if entry.mode != SUBMODULE and is_seen(path)}


def visible_changes(
    objects: Objects, before: str, after: str, is_seen: Callable[[str], bool]
) -> dict[str, Entry | None]:
    """What to change in a folder that shows one tree so that it shows another."""
    return {
        found.path: found.after if found.after and found.after.mode != SUBMODULE else None
        for found in objects.differences(before, after)
        if is_seen(found.path)
    }
