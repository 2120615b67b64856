"""The user's checkout as a tree, while index, files and refs stay as they are."""

from __future__ import annotations

import contextlib
import os
import shutil

from goalseek import process
from goalseek.errors import UNFIT, GoalseekError
from goalseek.git import users_environment
from goalseek.own_folders import clear
from goalseek.repository import Repository

_UNTOUCHED = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "core.splitIndex=false", "core.untrackedCache=false")


def tree_of_checkout(repository: Repository) -> str:
    """The tree that ``git add --all`` and a commit would make now, under the user's own configuration.

    New files that are not ignored are in it. It is built in an index of goalseek's own; only objects are written.
    Raises GoalseekError where a file cannot be read.
    """
    index = repository.objects.scratch / f"index-{os.getpid()}"
    variables = users_environment(GIT_INDEX_FILE=str(index), GIT_OPTIONAL_LOCKS="0", **repository.both_folders())
    settings = [word for setting in _UNTOUCHED for word in ("-c", setting)]
    try:
        # The copy knows which files need not be read again. By its time, git knows which were written in the same
        # second as it, and may have changed since all the same.
        with contextlib.suppress(FileNotFoundError):
            shutil.copy2(repository.location.git_dir / "index", index)
        written = b""
        for arguments in (["add", "--all"], ["write-tree"]):
            answer = process.ask(["git", *settings, *arguments], variables, folder=repository.top)
            if answer.exit_code:
                said = answer.stderr.decode("utf-8", "replace").strip()
                raise GoalseekError(f"git cannot take the checkout as it is: {said}", "", UNFIT, "repository")
            written = answer.stdout
        return written.decode().strip()
    finally:
        clear(index)
