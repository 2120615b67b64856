"""The tree in which somebody drives an agent: a workspace whose edits stay until they are tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from goalseek.disk import read_stored, write_atomic
from goalseek.errors import BAD_FINDING, UNFIT, GoalseekError
from goalseek.git.objects import Entry, TreeReader
from goalseek.git.paths import quote_path
from goalseek.git.repository import Repository
from goalseek.values import to_line
from goalseek.workspace.scope import Scope
from goalseek.workspace.screening import FolderFiles, Screening, rules_of
from goalseek.workspace.workspace import agent_tree

_FILE = "drive.json"


class Drive(Struct, frozen=True):
    """A drive, stored in the folder of its lane: the ``commit`` that its tree was made of, and who is in it."""

    lane: str  # its folder's path
    commit: str = ""
    name: str = ""
    level: str = ""  # of the sandbox
    logins: tuple[str, ...] = ()  # paths of files
    variables: tuple[str, ...] = ()  # with credentials
    has_edits: bool = False  # that are not kept, or it is at work
    scope_key: str = ""

    @property
    def folder(self) -> Path:
        return Path(self.lane)

    @classmethod
    def load(cls, folder: Path) -> Drive:
        return read_stored(cls, folder / _FILE) or cls(str(folder))  # there is none yet

    def save(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomic(self.folder / _FILE, to_line(self))


class DrivenTree:
    """``is_credential`` says whether a file's bytes hold one: nothing of such a try is stored."""

    def __init__(
        self, repository: Repository, scope: Scope, drive: Drive, is_credential: Callable[[bytes], bool]
    ) -> None:
        self._repository = repository
        self._scope = scope
        self._drive = drive
        self._is_credential = is_credential
        self.strays: list[str] = []
        self._checkout = agent_tree(
            drive.folder / "workspace", repository.objects, lambda path: path == ".git" or scope.share_at(path) == path
        )

    def read(self) -> tuple[str, list[str]]:
        """Its tree, with the files that no agent sees as in its commit, and why edits outside the scope are refused.

        Sets ``strays``, new files outside the scope. Raises GoalseekError for a credential, if files change meanwhile,
        and if somebody removed the tree.
        """
        screening = self.screen()
        self.strays = screening.strays
        tree = self._repository.tree_of(self._drive.commit)
        return self._repository.objects.splice(tree, screening.edits), screening.refused

    def screen(self) -> Screening:
        """The change since its commit. Raises GoalseekError as ``read``."""
        if not self._checkout.load():
            raise GoalseekError("the tree of this drive is gone", "end it, and goalseek drive again", UNFIT)
        objects, scope, entries = self._repository.objects, self._scope, self._checkout.entries
        tree = TreeReader(objects, self._repository.tree_of(self._drive.commit))
        files = FolderFiles(self._checkout.root, objects)
        screening = Screening(entries, files, tree, scope, *rules_of(entries, objects, scope))
        try:
            changes = self._checkout.changes()
            if path := screening.find_credential((*changes.added, *changes.changed), self._is_credential):
                message = f"{quote_path(path)} holds a credential: nothing of this try is stored"
                raise GoalseekError(message, "take it out, then goalseek try", BAD_FINDING)
            screening.screen(changes)
        except FileNotFoundError:
            message = "files of the workspace changed while they were read"
            raise GoalseekError(message, "end what writes them, then goalseek try", BAD_FINDING) from None
        return screening

    def unseen(self, seen: Mapping[str, Entry | None]) -> list[str]:
        """Nothing: the walk sees every file."""
        return []

    def write(self, entries: Mapping[str, Entry | None]) -> None:
        self._checkout.overlay(entries)
