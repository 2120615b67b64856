"""Where the verifier runs: a tree of one commit for each way of seeing, clean before every command."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from goalseek.errors import GoalseekError, tampered
from goalseek.git.command import Missing, ObjectsFailed
from goalseek.git.objects import Entry, Making, Objects, visible, visible_changes
from goalseek.git.paths import FOLDER, quote_path
from goalseek.manifest.tables import Sees
from goalseek.own_folders import clear
from goalseek.workspace.checkout import LINK, OURS, Checkout, occupied
from goalseek.workspace.forbidden_names import Hazard, hijacks
from goalseek.workspace.scan import Changes
from goalseek.workspace.scope import Scope


class Bench:
    """The trees of one commit; ``keep`` says which paths outlive a command in them.

    ``links`` are made in them; what is ``mounted`` on a path of them is left alone. ``copies`` are hidden files that
    are in no tree of git's, ``copied`` gives the content of one.
    """

    def __init__(
        self,
        folder: Path,
        objects: Objects,
        scope: Scope,
        scope_key: str,
        links: Mapping[str, str],
        keep: Callable[[str], bool] | None,
        mounted: frozenset[str] = frozenset(),
        copies: Mapping[str, Entry] | None = None,
        copied: Callable[[str, Entry], bytes] | None = None,
        making: Making = contextlib.nullcontext,
    ) -> None:
        self.folder = folder
        self._objects = objects
        self._scope = scope
        self._scope_key = scope_key
        self._links = {path: Entry(LINK, target) for path, target in links.items()}
        self._keep = keep
        self._mounted = mounted
        self._copies = dict(copies or {})
        self._copied = copied
        self._making = making
        self._level = functools.lru_cache(maxsize=256)(objects.tree)
        self._trees: dict[Path, Checkout] = {}
        self._open: dict[Path, set[str]] = {}
        self._walked: dict[Path, tuple[Changes, object]] = {}

    def close(self) -> None:
        """Records the trees' state for the next process."""
        for tree in self._trees.values():
            with contextlib.suppress(OSError):  # an older state is right too
                tree.save()

    def tidy(self) -> None:
        """Puts every tree in order now: what a command left there takes room."""
        for checkout in self._trees.values():
            with contextlib.suppress(OSError, Missing, ObjectsFailed):  # where it is needed, it is made anew
                self._clean(checkout)

    def forget(self, sees: Sees) -> None:
        """Has the tree of such a command made anew before the next one: what is kept between measurements goes too."""
        checkout = self._trees.pop(self.root_for(sees))
        clear(checkout.state)

    def is_whole(self) -> bool:
        """Whether every tree that was made is still there."""
        return all(root.is_dir() for root in self._trees)

    def root_for(self, sees: Sees) -> Path:
        """Where a command with this ``sees`` runs. One folder serves "candidate" and "both", as build folders need."""
        return self.folder / ("ruler" if sees == "hidden" else "tree")

    def sync_to(self, sees: Sees, tree: str) -> Path:
        """The folder that shows ``tree`` as a command with this ``sees`` may see it, clean.

        Raises GoalseekError, ``tampered``, where a file of the ruler cannot be had as it was pinned.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        root = self.root_for(sees)
        is_seen = self._scope.seen_by(sees)
        view = f"{sees} {self._scope_key}"
        label = f"{tree} {view}"
        checkout = self._trees.get(root)
        if checkout is None:
            checkout = self._trees[root] = self._checkout(root)
            if not checkout.load():
                self._build(checkout, sees, tree, label)
                return root
        before, _, view_before = checkout.label.partition(" ")
        try:
            self._clean(checkout)
            if view_before == view:
                changes = visible_changes(self._objects, before, tree, is_seen)
                checkout.update(changes, label)
                self._open_of(checkout).update(path for path in changes if not self._scope.is_fixed(path))
                return root
        except (Missing, ObjectsFailed, FileNotFoundError, NotADirectoryError):
            # The repository was made anew at this place, or the tree is gone, or something else stands there.
            self._build(checkout, sees, tree, label)
            return root
        wanted = self._wanted(sees, tree)
        gone = {path: None for path in checkout.entries if path not in wanted}
        checkout.update({**gone, **wanted}, label)
        self._open.pop(root, None)
        return root

    def refuse_other_ruler(self, baseline_tree: str, tree: str) -> None:
        """Raises GoalseekError where a tree to be measured does not have the baseline's ruler."""
        refuse_other_ruler(self._objects, self._scope, baseline_tree, tree)

    def changed_ruler_files(self, sees: Sees) -> list[str]:
        """The files of the ruler that a command wrote, removed or put something else in place of, in its own tree."""
        root = self.root_for(sees)
        checkout = self._trees[root]
        try:
            found = checkout.changes()
        except OSError:
            return ["the tree itself"]
        self._walked[root] = (found, self._pulse(checkout))
        rulers = (path for path in (*found.changed, *found.missing) if self._is_rulers(checkout, path))
        return sorted((*rulers, *occupied(root, self._mounted)))

    def is_untouched(self, sees: Sees, path: str) -> bool:
        """Whether a file stands there as goalseek put it there, so that no command made it."""
        return self._trees[self.root_for(sees)].is_as_recorded(path)

    def is_of_ruler(self, sees: Sees, path: str) -> bool:
        """Whether that is so, and the file is not the candidate's: every command has it anyhow."""
        checkout = self._trees[self.root_for(sees)]
        return path in checkout.entries and self._is_rulers(checkout, path) and checkout.is_as_recorded(path)

    def hijacks(self, tree: str, path: str) -> Iterator[Hazard]:
        """Why a command's new file at this path must not be handed on, as (part of the path, reason)."""
        if not self._has(tree, path):
            yield from hijacks(path, functools.partial(self._has, tree), self._scope.is_fixed)

    def is_bytecode(self, tree: str, path: str) -> bool:
        """Whether a path lies where Python looks for the bytecode of a file of the tree."""
        folder, found, _ = f"/{path}".partition("/__pycache__/")
        return bool(found) and (not folder or self._has(tree, folder[1:]))

    def _has(self, tree: str, path: str) -> bool:
        level = self._level(tree)
        *above, name = path.split("/")
        for part in above:
            entry = level.get(part)
            if entry is None or entry.mode != FOLDER:
                return False
            level = self._level(entry.blob)
        return name in level

    def would_shadow_ruler(self, tree: str, path: str) -> bool:
        """Whether a command's file at this path would come to stand in the place of the ruler's, or in its way."""
        level, parts = self._level(tree), path.split("/")
        if self._scope.kind(path) == "hidden" or self._scope.share_at(path):
            return True
        for depth, name in enumerate(parts, start=1):
            entry = level.get(name)
            if entry is None:
                return False
            if depth == len(parts):
                return entry.mode == FOLDER or self._scope.is_fixed(path)
            if entry.mode != FOLDER:
                return True
            level = self._level(entry.blob)
        return False

    def _is_rulers(self, checkout: Checkout, path: str) -> bool:
        return checkout.entries[path].mode in OURS or self._scope.in_ruler(path)

    def _wanted(self, sees: Sees, tree: str) -> dict[str, Entry]:
        copies = self._copies if sees != "candidate" else {}
        return {**visible(self._objects.files(tree), self._scope.seen_by(sees)), **self._links, **copies}

    def _build(self, checkout: Checkout, sees: Sees, tree: str, label: str) -> None:
        with self._making(checkout.root):
            checkout.build(self._wanted(sees, tree), label)
        fixed = ((path, entry) for path, entry in checkout.entries.items() if self._scope.in_ruler(path))
        try:
            refuse_other_files(checkout.root, fixed)
        except GoalseekError:
            clear(checkout.root)
            raise
        self._open.pop(checkout.root, None)

    def _clean(self, checkout: Checkout) -> None:
        """Puts the tree in order. One walk serves the end of a command and the next one's begin where it can."""
        for path in occupied(checkout.root, self._mounted):
            clear(checkout.root / path)
        found, pulse = self._walked.pop(checkout.root, (Changes(), None))
        if pulse is not None and pulse == self._pulse(checkout):
            checkout.restore(found)
        else:
            checkout.clean()

    def _pulse(self, checkout: Checkout) -> object:
        return checkout.fingerprint(sorted(self._open_of(checkout) & checkout.entries.keys()))

    def _open_of(self, checkout: Checkout) -> set[str]:
        """The files that are the candidate's: nobody looks at these again after its command."""
        if checkout.root not in self._open:
            self._open[checkout.root] = {path for path in checkout.entries if not self._scope.is_fixed(path)}
        return self._open[checkout.root]

    def _checkout(self, root: Path) -> Checkout:
        def content(path: str, entry: Entry) -> bytes:
            if entry.mode in OURS:
                assert self._copied
                return self._copied(path, entry)
            found = self._objects.read(entry.blob)
            refuse_other_content(path, entry, found)
            return found

        return Checkout(root, root.with_suffix(".state"), content, self._objects.fill, self._keep, self._mounted)


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
