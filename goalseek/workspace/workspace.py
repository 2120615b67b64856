"""The agent's workspace: a repository of its own, whose object store never held a hidden file.

git runs in ``workspace.git``, which no agent gets; ``.git`` mirrors it, so that no hook or setting of an agent runs.
"""

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar, cast

from msgspec import Struct

from goalseek import disk
from goalseek.errors import GitFailed
from goalseek.git.command import AUTHOR
from goalseek.git.ignore import literal_pattern
from goalseek.git.objects import Entry, MissingObject, Objects, ObjectsFailed
from goalseek.workspace.checkout import Changes, Checkout, TreePlan, TreeUpdateContext
from goalseek.workspace.listing import digest_of

Value = TypeVar("Value")
_BRANCH = "refs/heads/goalseek"
_LOOSE_LIMIT = 300
_NOT_MIRRORED = ("scratch", "hooks", "description", "branches")
_CORE_SETTINGS = "bare = false\n\tlogAllRefUpdates = true\n\tautocrlf = false"
_SETTINGS = f"[gc]\n\tauto = 0\n[user]\n\tname = {AUTHOR[0]}\n\temail = {AUTHOR[1]}\n"


class AgentCommit(Struct, frozen=True):
    """``moment`` is in Unix seconds."""

    label: str
    tree: str
    message: str
    moment: int


def agent_tree(
    root: Path, objects: Objects, is_left_alone: Callable[[str], bool], mount_points: frozenset[str] = frozenset()
) -> Checkout:
    """The tree in which an agent works; its record lies beside it."""
    state, fill = root.with_name(root.name + ".state"), objects.fill
    return Checkout(root, state, lambda path, entry: objects.read(entry.blob), fill, is_left_alone, mount_points)


class Workspace:
    """``build_context`` is entered while the tree is built."""

    def __init__(self, folder: Path, objects: Objects, plan: TreePlan, build_context: TreeUpdateContext) -> None:
        self.root = folder
        self._objects = objects
        self._plan = plan
        self._is_seen = plan.scope.seen_by("agent")
        self._scope_key = plan.scope_key + (digest_of(plan.proposer) if plan.proposer else "")
        self._build_context = build_context
        self._cache: dict[str, tuple[str, Any]] = {}
        self._pristine = folder.with_name(folder.name + ".git")
        self._store = self._open_store()
        self.tree = agent_tree(folder, objects, {".git"}.__contains__, plan.mount_points)
        self.git_folder = Checkout(
            folder / ".git",
            folder.with_name(folder.name + ".git.state"),
            lambda path, entry: (self._pristine / path).read_bytes(),
        )

    def close(self) -> None:
        with contextlib.suppress(OSError):  # an older state is right too
            self.git_folder.close()
            self.tree.close()
        self._store.close()

    def sync_to(self, history: Callable[[str], Iterable[AgentCommit]]) -> None:
        """``history(label)`` gives the commits after the one with that label, oldest first; all for an unknown one."""
        if not self.is_whole():
            self.tree.label = ""
        try:
            is_loaded = not self.tree.label and self.tree.load() and self.git_folder.load()
            if is_loaded:
                self.clean()
            if self._tree_label()[1] == self._scope_key:
                self._add(history, has_changed=is_loaded)
                return
        except (MissingObject, ObjectsFailed, GitFailed, OSError):  # another repository's, or a part of it is gone
            self.tree.label = ""
        with self._build_context(self.root):
            self._store.close()
            disk.remove_if_exists(self._pristine)
            self.root.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._store = self._open_store()
            config = self._pristine / "config"
            config.write_text(config.read_text().replace("bare = true", _CORE_SETTINGS) + _SETTINGS)
            excluded = (*self._plan.links, *sorted(self._plan.mount_points))
            lines = (f"{literal_pattern(path)}\n" for path in excluded)
            (self._pristine / "info" / "exclude").write_text("".join(lines))
            (self._pristine / "HEAD").write_text(f"ref: {_BRANCH}\n")
            disk.remove_if_exists(self.root)
            self.tree.label = self.git_folder.label = ""
            self._add(history)

    def is_whole(self) -> bool:
        """Checks for both folders: a cache may be removed at any time."""
        return self.root.is_dir() and not self.root.is_symlink() and self._pristine.is_dir()

    def cached(self, name: str, compute: Callable[[], Value]) -> Value:
        """``compute()``, cached under ``name`` until the tree changes."""
        label, value = self._cache.get(name, ("", None))
        if label != self.tree.label:
            value = compute()
            self._cache[name] = (self.tree.label, value)
        return cast(Value, value)

    def restore(self, changes: Changes) -> None:
        self.tree.restore(changes)
        if not (self.root / ".git").is_dir() or (self.root / ".git").is_symlink():
            disk.recreate_folder(self.root / ".git")
        self.git_folder.clean()

    def changes(self) -> Changes:
        """Of the tree."""
        if self.git_folder.must_walk():  # a name there may have been another name of the tree's file
            self.tree.walk_next()
        return self.tree.changes()

    def clean(self) -> None:
        self.restore(self.changes())

    def _open_store(self) -> Objects:
        return Objects(self._pristine, self._pristine / "objects", self._objects.object_format)

    def _tree_label(self) -> list[str]:
        """Label of the last ``AgentCommit``, scope key, its tree, and the commit made of it here."""
        return self.tree.label.split(" ") if self.tree.label else [""] * 4

    def _add(self, history: Callable[[str], Iterable[AgentCommit]], has_changed: bool = False) -> None:
        """Adds missing commits; then, or if it ``has_changed``, mirrors the git folder."""
        for commit in history(self._tree_label()[0]):
            self._apply(commit)
            has_changed = True
        if not has_changed:
            return
        if sum(1 for _ in self._pristine.glob("objects/??/*")) > _LOOSE_LIMIT:
            for leftover in (*self._pristine.glob("objects/pack/tmp_*"), *self._pristine.glob("objects/pack/.tmp-*")):
                disk.remove(leftover)  # of a repack that was killed
            self._store.git("repack", "-a", "-d", "-q")
        entries = {
            path: Entry("100644", f"{status.st_mtime_ns}-{status.st_size}")
            for path, status in disk.list_files(self._pristine, lambda path: path.split("/")[0] in _NOT_MIRRORED)
        }
        if not self.git_folder.label:
            self.git_folder.build(entries, "mirror")
        else:
            self.git_folder.update(entries, "mirror", is_all=True)

    def _apply(self, agent_commit: AgentCommit) -> None:
        *_, tree_before, parent = self._tree_label()
        new_tree = agent_commit.tree
        if self._plan.proposer:
            new_tree = self._objects.splice(new_tree, self._plan.proposer)
        changed: dict[str, Entry | None]
        if not tree_before:
            entries = self._objects.visible_files(new_tree, self._is_seen)
            if names := "".join(f"{blob}\n" for blob in sorted({entry.blob for entry in entries.values()})):
                pack = self._objects.git("pack-objects", "--stdout", "-q", "--window=0", stdin=names.encode())
                self._store.git("index-pack", "--stdin", "--fix-thin", stdin=pack)
            changed = dict(entries)
        else:
            changed = self._objects.visible_changes(tree_before, new_tree, self._is_seen)
            for entry in changed.values():
                if entry is not None:
                    self._store.write_bytes(self._objects.read(entry.blob))
        index = self._pristine / "index"
        variables = {"GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(self.root)}
        self._store.index(index, changed)
        tree = self._store.git("write-tree", variables={"GIT_INDEX_FILE": str(index)}).decode().strip()
        message = agent_commit.message.encode("utf-8", "replace").decode()
        commit = self._store.write_commit(tree, [parent] if parent else [], message, agent_commit.moment)
        self._store.git("update-ref", _BRANCH, commit)
        label = f"{agent_commit.label} {self._scope_key} {new_tree} {commit}"
        if tree_before:
            self.tree.update(changed, label)
            return
        self.tree.build({**{path: entry for path, entry in changed.items() if entry}, **self._plan.links}, label)
        with contextlib.suppress(GitFailed):  # only so that the agent's first git status is quick
            self._store.git("update-index", "-q", "--refresh", variables=variables)
