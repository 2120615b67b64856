"""What a provider changed, held against the scope path by path: what is taken, what is left out, what is refused."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from goalseek.checkout import LINK, Checkout
from goalseek.flood import Flood
from goalseek.git.ignore import matcher
from goalseek.git.objects import SYMLINK, Entry, Objects
from goalseek.git.paths import quote_path
from goalseek.newcomers import Newcomers
from goalseek.own_folders import read_regular
from goalseek.scope import DROPPINGS, Scope, clashes
from goalseek.walk import Changes


@dataclass(frozen=True)
class Sifted:
    """A change by what is to become of it.

    ``edits`` are the candidate's; ``beyond`` is what it did to files that are not its to edit, by path; ``strays`` are
    new files outside the scope; ``refused`` says in words why there can be no candidate.
    """

    edits: dict[str, Entry | None] = field(default_factory=dict)
    beyond: dict[str, Entry | None] = field(default_factory=dict)
    strays: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    flood: Flood = field(default_factory=Flood)


@dataclass(frozen=True)
class Sieve:
    """What the changes of the folder ``tree`` are held against; the bytes of what is taken go to ``snapshot``."""

    tree: Checkout
    scope: Scope
    ignored: Callable[[str], bool]
    newcomers: Newcomers
    objects: Objects
    snapshot: Path


def sift(sieve: Sieve, changes: Changes) -> Sifted:
    """Sorts a change, and stores the files of it that are taken."""
    tree, scope, found = sieve.tree, sieve.scope, Sifted()
    for path in changes.added:
        _sift_new(sieve, path, found)
    for path in (*changes.changed, *changes.missing):
        if scope.kind(path) == "generated":
            continue
        if scope.kind(path) != "writable":
            is_left = path in changes.missing or found.flood.counted(tree.root / path)
            entry = None if is_left else _entry(sieve, path)
            if entry is None or not _is_as_before(tree, path, entry):  # touched, or put back as it was, is no edit
                found.refused.append(why_shared(scope, path) or f"{quote_path(path)} is not the candidate's to edit")
                found.beyond[path] = entry
        elif path in changes.missing:
            found.edits[path] = None
        else:
            _take(sieve, path, found)
    return found


def _sift_new(sieve: Sieve, path: str, found: Sifted) -> None:
    scope, ignored = sieve.scope, sieve.ignored
    kind = scope.kind(path)
    if kind == "hidden":
        found.refused.append(f"{quote_path(path)} is new under a hidden pattern")
    elif why := why_shared(scope, path):
        found.refused.append(why)
    elif DROPPINGS(path) or kind == "generated":
        return
    elif kind != "writable":
        if not ignored(path):
            found.strays.append(path)
    elif above := clashes(path, sieve.tree.entries, lambda entry: scope.kind(entry) != "writable"):
        found.refused.append(f"{quote_path(path)} lies below {quote_path(above)}, which is not the candidate's to edit")
    elif refusal := sieve.newcomers.refusal(path, ignored(path)):
        found.refused.append(refusal)
    elif not ignored(path):
        _take(sieve, path, found)


def why_shared(scope: Scope, path: str) -> str:
    """Why nothing may stand at a path, where it is the place of something shared; "" where it is not."""
    shared, quoted = scope.share_at(path), quote_path(path)
    if shared is None:
        return ""
    if path == shared:
        return f"{quoted} is shared, read-only"
    how = "lies in" if path.startswith(f"{shared}/") else "stands in the way of"
    return f"{quoted} {how} {quote_path(shared)}, which is shared, read-only"


def _is_as_before(tree: Checkout, path: str, entry: Entry) -> bool:
    before = tree.entries[path]
    if before.mode == LINK:
        return entry.mode == SYMLINK and os.readlink(tree.root / path) == before.blob
    return entry == before


def _take(sieve: Sieve, path: str, found: Sifted) -> None:
    """Takes a changed file out of the workspace: a regular file, or a link that stays in the tree."""
    tree, newcomers = sieve.tree, sieve.newcomers
    try:
        if why := found.flood.counted(tree.root / path):
            found.refused.append(f"{quote_path(path)}: {why}")
            return
        entry = _entry(sieve, path)
    except OSError as error:
        found.refused.append(f"{quote_path(path)} cannot be read: {error.strerror}")
        return
    if entry is None:
        found.refused.append(f"{quote_path(path)} is neither a file nor a link")
        return
    before = tree.entries.get(path)
    if entry == before:
        return
    refusal = ""
    if entry.mode == SYMLINK:
        refusal = newcomers.link_refusal(path, os.readlink(tree.root / path))
        if before is None or before.mode != SYMLINK:
            refusal = refusal or newcomers.refusal(path, is_ignored=False, is_link=True)
    if refusal:
        found.refused.append(refusal)
    else:
        found.edits[path] = entry


def _entry(sieve: Sieve, path: str) -> Entry | None:
    """What stands at a path of the workspace, stored; None for what git cannot hold."""
    objects, root = sieve.objects, sieve.tree.root
    full = root / path
    mode = full.lstat().st_mode
    if stat.S_ISLNK(mode):
        return Entry(SYMLINK, objects.write_bytes(os.fsencode(os.readlink(full))))
    if not stat.S_ISREG(mode):
        return None
    place = sieve.snapshot / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(read_regular(root, path))
    return Entry("100755" if mode & stat.S_IXUSR else "100644", objects.write_file(place))


def ignored_by(tree: Checkout, objects: Objects) -> Callable[[str], bool]:
    """What the ``.gitignore`` files of the tree ignore, as they were before anybody edited them."""
    files = [path for path in tree.entries if path == ".gitignore" or path.endswith("/.gitignore")]
    rules = []
    for path in sorted(files):
        lines = objects.read(tree.entries[path].blob).decode("utf-8", "surrogateescape").splitlines()
        patterns = tuple(line.rstrip() for line in lines if line.strip() and not line.startswith("#"))
        rules.append((path.removesuffix(".gitignore"), matcher(patterns)))

    def ignored(path: str) -> bool:
        return any(path.startswith(folder) and matches(path[len(folder) :]) for folder, matches in rules)

    return ignored
