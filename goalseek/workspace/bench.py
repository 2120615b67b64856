"""The verifier's bench: one tree per view of a commit (``sees``), cleaned before every command."""

import contextlib
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

from goalseek.disk import clone, read_regular, remove_if_exists
from goalseek.errors import GoalseekError, tampered_error
from goalseek.git.ignore import matcher
from goalseek.git.objects import Entry, MissingObject, Objects, ObjectsFailed, TreeReader
from goalseek.git.paths import FOLDER, quote_path
from goalseek.manifest.tables import Sees
from goalseek.workspace.checkout import OURS, Checkout, TreePlan, TreeUpdateContext
from goalseek.workspace.forbidden_names import Hazard, TreePaths, output_hazards
from goalseek.workspace.hidden_files import as_entries, content_of
from goalseek.workspace.scope import parents

_LEAST_CLONE = 16 * 1024  # a smaller file is written sooner


class Bench:
    """``build_context`` is entered while a tree is built. ``home`` has all trees of the project."""

    def __init__(
        self, folder: Path, objects: Objects, plan: TreePlan, build_context: TreeUpdateContext, home: Path
    ) -> None:
        self.folder = folder
        self._home = home
        self._objects = objects
        self.plan = plan
        self._scope = plan.scope
        self._matches_keep = matcher(plan.keep)
        self._build_context = build_context
        self._reader_of = functools.lru_cache(maxsize=2)(functools.partial(TreeReader, objects))
        self._checkouts: dict[Path, Checkout] = {}

    def close(self) -> None:
        for checkout in self._checkouts.values():
            with contextlib.suppress(OSError):  # an older state is right too
                checkout.close()

    def tidy(self) -> None:
        """Cleans every tree now, to free disk space."""
        for checkout in self._checkouts.values():
            with contextlib.suppress(OSError, MissingObject, ObjectsFailed):  # the next use makes it anew
                checkout.clean()

    def forget(self, sees: Sees) -> None:
        """The next command finds its tree rebuilt, without the files kept between runs."""
        checkout = self._checkouts.pop(self.root_for(sees))
        checkout.label = ""
        checkout.close()
        remove_if_exists(checkout.state)

    def is_whole(self) -> bool:
        """Whether no command removed a tree."""
        return all(root.is_dir() for root in self._checkouts)

    def root_for(self, sees: Sees) -> Path:
        """One folder serves "candidate" and "both", as build folders need."""
        return self.folder / ("ruler" if sees == "hidden" else "tree")

    def sync_to(self, sees: Sees, tree: str) -> Path:
        """Gives a clean folder. Raises GoalseekError, ``tampered``, if a file of the ruler differs from its pin."""
        self.folder.mkdir(parents=True, exist_ok=True)
        root = self.root_for(sees)
        view = f"{sees} {self.plan.scope_key}"
        label = f"{tree} {view}"
        checkout = self._checkouts.get(root)
        if checkout is None or not checkout.label:  # which an update that was interrupted leaves it without
            state, left_alone, mount_points = root.with_suffix(".state"), self._is_left_alone, self.plan.mount_points
            checkout = Checkout(root, state, self._read, self._fill, left_alone, mount_points)
            self._checkouts[root] = checkout
            if not checkout.load():
                self._build(checkout, sees, tree, label)
                return root
        previous, _, previous_view = checkout.label.partition(" ")
        try:
            checkout.clean()
            if self.plan.keep:  # a kept file may be another name of any file
                checkout.walk_next()
            if previous_view == view:
                checkout.update(self._objects.visible_changes(previous, tree, self._scope.seen_by(sees)), label)
            else:
                checkout.update(self._entries_for(sees, tree), label, is_all=True)
        except (MissingObject, ObjectsFailed, FileNotFoundError, NotADirectoryError):
            # The repository was made anew at this place, or the tree is gone, or something else stands there.
            self._build(checkout, sees, tree, label)
        return root

    def refuse_other_ruler(self, baseline_tree: str, tree: str) -> None:
        """Raises GoalseekError, ``tampered``, if the tree's ruler differs from the baseline's."""
        for change in self._objects.differences(baseline_tree, tree):
            if self._scope.in_ruler(change.path):
                path = quote_path(change.path)
                raise tampered_error(f"{path} differs from the baseline in the tree to be measured")

    def changed_ruler_files(self, sees: Sees) -> list[str]:
        """The ruler files that a command wrote, removed or replaced in its tree."""
        checkout = self._checkouts[self.root_for(sees)]
        try:
            changes = checkout.changes()
        except OSError:
            return ["the tree itself"]
        ruler_files = (path for path in (*changes.changed, *changes.missing) if self._is_ruler_file(checkout, path))
        return sorted((*ruler_files, *self.plan.mount_points.intersection(changes.added)))

    def is_untouched(self, sees: Sees, path: str) -> bool:
        """Whether goalseek, and no command, wrote this file."""
        return self._checkouts[self.root_for(sees)].is_as_recorded(path)

    def is_there_anyhow(self, sees: Sees, tree: str, path: str) -> bool:
        """Whether a file is an untouched one of the ruler, or lies where Python keeps the bytecode of a tree's file."""
        checkout = self._checkouts[self.root_for(sees)]
        if path in checkout.entries and self._is_ruler_file(checkout, path) and checkout.is_as_recorded(path):
            return True
        folder, separator, _ = f"/{path}".partition("/__pycache__/")
        return bool(separator) and self._reader_of(tree).has(folder[1:])

    def output_hazards(self, tree: str, path: str) -> Iterator[Hazard]:
        """Why no later command may get a command's new file at this path."""
        has_path = self._reader_of(tree).has
        if not has_path(path):
            yield from output_hazards(path, TreePaths(has_path, is_fixed=self._scope.is_fixed))

    def would_shadow_ruler(self, tree: str, path: str) -> bool:
        """Whether a command's file at this path would replace a file of the ruler, or block its path."""
        if self._scope.kind(path) == "hidden" or self._scope.share_at(path):
            return True
        entry_at = self._reader_of(tree).entry
        if entry := entry_at(path):
            return entry.mode == FOLDER or self._scope.is_fixed(path)
        return any(entry.mode != FOLDER for above in parents(path) if (entry := entry_at(above)))

    def _is_ruler_file(self, checkout: Checkout, path: str) -> bool:
        return checkout.entries[path].mode in OURS or self._scope.in_ruler(path)

    def _entries_for(self, sees: Sees, tree: str) -> dict[str, Entry]:
        copies = as_entries(self.plan.hidden_from, self._scope.prefix) if sees != "candidate" else {}
        return {**self._objects.visible_files(tree, self._scope.seen_by(sees)), **self.plan.links, **copies}

    def _build(self, checkout: Checkout, sees: Sees, tree: str, label: str) -> None:
        with self._build_context(checkout.root):
            checkout.build(self._entries_for(sees, tree), label)
        try:
            for path, entry in checkout.entries.items():
                if entry.mode.startswith("100") and self._scope.in_ruler(path):
                    with open(f"{checkout.root}/{path}", "rb", buffering=0) as file:  # noqa: PTH123 - a path is slow
                        refuse_other_content(self._objects, path, entry, file.read())
        except GoalseekError:
            remove_if_exists(checkout.root)
            raise

    def _fill(self, root: Path, entries: Mapping[str, Entry]) -> None:
        """Clones large files of another tree if the file system can; git writes the rest."""
        left = dict(entries)
        with contextlib.suppress(OSError):  # no clones here, or the other tree changes
            roots = (state.with_suffix("") for state in sorted(self._home.glob("*/*.state")))
            others = (Checkout(other, other.with_suffix(".state"), self._read) for other in roots if other != root)
            other = next((other for other in others if other.load()), None)
            for path, entry in other.entries.items() if other else ():
                is_equal = entries.get(path) == entry and entry.mode.startswith("100")
                if other and is_equal and other.size(path) >= _LEAST_CLONE and other.is_as_recorded(path):
                    clone(other.root, root, path, 0o755 if entry.mode == "100755" else 0o644)
                    if self._objects.hash_of(read_regular(root, path)) == entry.blob:
                        del left[path]
        self._objects.fill(root, left)

    def _read(self, path: str, entry: Entry) -> bytes:
        if entry.mode in OURS:
            assert self.plan.hidden_folder
            return content_of(self.plan.hidden_folder, path.removeprefix(self._scope.prefix), entry)
        content = self._objects.read(entry.blob)
        refuse_other_content(self._objects, path, entry, content)
        return content

    def _is_left_alone(self, path: str) -> bool:
        prefix = self._scope.prefix
        return path.startswith(prefix) and self._matches_keep(path[len(prefix) :])


def refuse_other_content(objects: Objects, path: str, entry: Entry, content: bytes) -> None:
    """Raises GoalseekError, ``tampered``, if bytes differ from the blob's hash, which git does not check on reading."""
    if entry.blob != objects.hash_of(content):
        hint = "the object store was written to by somebody: see git fsck, and fetch the object from a clone"
        raise tampered_error(f"git's object of {quote_path(path)} does not match its hash", hint)
