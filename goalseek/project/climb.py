"""A climb as a script reads it: its records, and its repository by GitPython."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING

from goalseek.errors import GoalseekError
from goalseek.git.location import locate
from goalseek.ledger.results_file import History, load_standing
from goalseek.manifest.loading import ManifestFile
from goalseek.records import IterationRecord, Record
from goalseek.values import StopReason

if TYPE_CHECKING:
    from git import Commit, Repo


class Climb(contextlib.AbstractContextManager["Climb"]):
    """The records of one moment: open the climb again for newer ones.

    GitPython starts git processes and keeps them: leave the ``with`` block, or ``close`` the climb.
    """

    def __init__(self, manifest: ManifestFile) -> None:
        self.manifest = manifest

    @functools.cached_property
    def records(self) -> list[Record]:
        """All, oldest first. Raises GoalseekError for a line that is no record."""
        return list(History(self.manifest.results).records())

    @property
    def best(self) -> IterationRecord | None:
        """The record of the best commit, as ``goalseek show best`` has it; None before the first baseline."""
        best = load_standing(self.manifest).best
        return History(self.manifest.results).iteration(best.iteration) if best else None

    @functools.cached_property
    def repo(self) -> Repo:
        """The user's repository. Raises GoalseekError if its hashes are SHA-256, which GitPython cannot read."""
        from git import Repo

        location = locate(self.manifest.folder / self.manifest.manifest.project.repo)
        if location.object_format != "sha1":
            message = f"{location.top}: GitPython cannot read {location.object_format} objects"
            raise GoalseekError(message, "goalseek show N --diff, and git itself, can", StopReason.REPOSITORY)
        return Repo(location.git_dir, expand_vars=False)  # else it takes `$X` in a folder's name for a variable

    def commit(self, record: IterationRecord) -> Commit | None:
        """The candidate; None if the iteration has none. Raises what ``Repo.commit`` raises if git has lost it."""
        return self.repo.commit(record.commit_hash) if record.commit_hash else None

    def close(self) -> None:
        if "repo" in self.__dict__:
            self.repo.close()

    def __exit__(self, *error: object) -> None:
        self.close()
