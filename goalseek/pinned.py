"""What a ruler's files come from, held against what was pinned: a difference stops the run as ``tampered``."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from goalseek.errors import tampered
from goalseek.git.objects import Entry, Objects
from goalseek.git.paths import quote_path
from goalseek.scope import Scope


def refuse_other_ruler(objects: Objects, scope: Scope, baseline_tree: str, tree: str) -> None:
    """Raises GoalseekError where a tree that is to be measured has another ruler's files than the baseline's.

    Costs what differs between the two trees.
    """
    if baseline_tree == tree:
        return
    for found in objects.differences(baseline_tree, tree):
        if scope.in_ruler(found.path):
            raise tampered(f"{quote_path(found.path)} is not as at the baseline in the tree that was to be measured")


def refuse_other_content(path: str, entry: Entry, content: bytes) -> None:
    """Raises GoalseekError where bytes are not those of the blob: git does not look when it reads one."""
    if entry.blob != _blob_of(entry, content):
        hint = "the object store was written to by somebody: see git fsck, and fetch the object from a clone"
        raise tampered(f"git's object of {quote_path(path)} has another content than its name says", hint)


def refuse_other_files(root: Path, entries: Iterable[tuple[str, Entry]]) -> None:
    """Raises GoalseekError where a file that was just written from git's objects is not what its entry says."""
    for path, entry in entries:
        if entry.mode.startswith("100"):
            refuse_other_content(path, entry, (root / path).read_bytes())


def _blob_of(entry: Entry, content: bytes) -> str:
    kind = "sha1" if len(entry.blob) == 40 else "sha256"
    return hashlib.new(kind, b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
