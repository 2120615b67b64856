"""What goalseek wrote in the last day, in an object store of its own that no git of the user's looks into.

A ``git gc --prune=now`` looks at the refs, and later removes what none of them named then: what was written meanwhile,
or named by a ref since. So an object is written here, and linked into the repository's store. goalseek's own git reads
both, and what the repository's store has lost is linked again.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from goalseek.files import copy_atomic
from goalseek.git.paths import quote_path_bytes
from goalseek.own_folders import remove_if_exists

_SECONDS = 86_400.0  # longer than a prune takes from its look to its last removal, and than a call of an agent
_TRIES = 5


class RecentObjects:
    """Loose objects, linked into a store; copied where the file system has no links."""

    def __init__(self, folder: Path, store: Path) -> None:
        self.folder = folder
        self._store = store
        folder.mkdir(exist_ok=True)

    def link(self, name: str) -> None:
        """Links an object into the store where that has no such loose object."""
        path, loose = (folder / name[:2] / name[2:] for folder in (self.folder, self._store))
        for tries_left in reversed(range(_TRIES)):
            try:
                if not loose.parent.is_dir():
                    loose.parent.mkdir(exist_ok=True)
                    shutil.copymode(path.parent, loose.parent)  # git made it, with the rights of a shared repository
                os.link(path, loose)
            except FileExistsError:
                pass
            except FileNotFoundError:  # a gc removes folders that are empty
                if not tries_left:
                    raise
                continue
            except OSError:  # no links here, or the file is somebody else's
                copy_atomic(path, loose)
            return

    def bring_back(self, is_forgetting: bool = False) -> None:
        """Links what the store has not loose, and may forget what was written more than a day ago.

        What a pack has is linked too: the git that removes an older pack may have looked before a ref named the object.
        """
        oldest = time.time() - _SECONDS if is_forgetting else 0.0
        for folder in self.folder.glob("??"):
            try:
                loose = set(os.listdir(self._store / folder.name))
            except FileNotFoundError:
                loose = set()
            with os.scandir(folder) as items:
                for item in items:
                    if item.name not in loose and not item.name.startswith("tmp_"):  # which a killed git has left
                        self.link(folder.name + item.name)
                    if item.stat().st_mtime < oldest:  # when git wrote it last, or would have
                        remove_if_exists(folder / item.name)


def alternates(store: Path) -> dict[str, str]:
    """The variable by which git finds the objects of another store too."""
    return {"GIT_ALTERNATE_OBJECT_DIRECTORIES": os.fsdecode(quote_path_bytes(os.fsencode(store)))}
