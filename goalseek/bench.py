"""Where the verifier runs: a tree of one commit for each way of seeing, clean before every command."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path

from goalseek.checkout import LINK, Checkout
from goalseek.manifest import Sees
from goalseek.objects import Entry, Missing, Objects, ObjectsFailed
from goalseek.scope import Scope
from goalseek.trees import visible, visible_changes


class Bench:
    """The trees of one commit; ``keep`` says which paths outlive a command in them.

    ``links`` are made in them; what is ``mounted`` on a path of them is left alone.
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
    ) -> None:
        self.folder = folder
        self._objects = objects
        self._scope = scope
        self._scope_key = scope_key
        self._links = {path: Entry(LINK, target) for path, target in links.items()}
        self._keep = keep
        self._mounted = mounted
        self._trees: dict[Path, Checkout] = {}

    def close(self) -> None:
        """Records the trees' state for the next process."""
        for tree in self._trees.values():
            with contextlib.suppress(OSError):  # an older state is right too
                tree.save()

    def is_whole(self) -> bool:
        """Whether every tree that was made is still there."""
        return all(root.is_dir() for root in self._trees)

    def root(self, sees: Sees) -> Path:
        """Where a command with this ``sees`` runs. One folder serves "candidate" and "both", as build folders need."""
        return self.folder / ("ruler" if sees == "hidden" else "tree")

    def stand_at(self, sees: Sees, tree: str) -> Path:
        """The folder that shows ``tree`` as a command with this ``sees`` may see it, clean."""
        self.folder.mkdir(parents=True, exist_ok=True)
        root = self.root(sees)
        is_seen = self._scope.seen_by(sees)
        view = f"{sees} {self._scope_key}"
        label = f"{tree} {view}"
        checkout = self._trees.get(root)
        if checkout is None:
            checkout = self._trees[root] = self._checkout(root)
            if not checkout.load():
                checkout.build({**visible(self._objects.files(tree), is_seen), **self._links}, label)
                return root
        before, _, view_before = checkout.label.partition(" ")
        try:
            checkout.clean()
            if view_before == view:
                checkout.bring(visible_changes(self._objects, before, tree, is_seen), label)
                return root
        except (Missing, ObjectsFailed, FileNotFoundError):  # the repository was made anew at this place, or it is gone
            checkout.build({**visible(self._objects.files(tree), is_seen), **self._links}, label)
            return root
        wanted = {**visible(self._objects.files(tree), is_seen), **self._links}
        gone = {path: None for path in checkout.entries if path not in wanted}
        checkout.bring({**gone, **wanted}, label)
        return root

    def _checkout(self, root: Path) -> Checkout:
        def content(path: str, entry: Entry) -> bytes:
            return self._objects.read(entry.blob)

        return Checkout(root, root.with_suffix(".state"), content, self._objects.fill, self._keep, self._mounted)
