"""Second links to recently written objects, in a folder of goalseek's own that no git looks into.

A ``git gc --prune=now`` looks at the refs, and later removes what none of them named then. What was written meanwhile,
or named by a ref since, would be lost; from these links it is stored again.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from goalseek.files import copy_atomic
from goalseek.git.location import Sharing
from goalseek.own_folders import remove_if_exists

_SECONDS = 3600.0  # the longest that a prune may take between its look and its last removal
_TRIES = 5


class RecentObjects:
    """Second links to the loose objects of a store; copies only where the file system has no links."""

    def __init__(self, folder: Path, store: Path, sharing: Sharing) -> None:
        self.folder = folder
        self.folder.mkdir(exist_ok=True)
        self._store = store
        self._sharing = sharing

    def add(self, name: str) -> bool:
        """Keeps an object that was just written; False where it is not loose: in a pack, or removed already."""
        path = self.folder / name
        try:
            if path.exists() and not path.samefile(self._loose(name)):
                remove_if_exists(path)  # of an object that was pruned, and written anew
            _link(self._loose(name), path)
        except FileNotFoundError:
            return False
        return True

    def bring_back(self, is_in_a_pack: Callable[[str], bool]) -> int:
        """Stores missing objects again and drops those that need not be kept; gives how many were missing."""
        count, oldest = 0, time.time() - _SECONDS
        for path in self._paths():
            loose = self._loose(path.name)
            try:
                if loose.stat().st_mtime < oldest:  # when git wrote it last, or would have
                    remove_if_exists(path)
            except FileNotFoundError:
                if is_in_a_pack(path.name):
                    remove_if_exists(path)
                else:
                    self._store_again(path, loose)
                    count += 1
        return count

    def _paths(self) -> list[Path]:
        if not self.folder.is_dir():  # somebody removed it: what it had is in the store
            return []
        return [path for path in self.folder.iterdir() if path.suffix != ".new"]

    def _store_again(self, path: Path, loose: Path) -> None:
        for _ in range(_TRIES):
            self._sharing.make_folder(loose.parent)
            with contextlib.suppress(FileNotFoundError):  # a gc removes folders that are empty
                _link(path, loose)
                return

    def _loose(self, name: str) -> Path:
        return self._store / name[:2] / name[2:]


def _link(path: Path, target: Path) -> None:
    """Another name for a file; a copy of it where the file system has no links, or the file is somebody else's."""
    try:
        os.link(path, target)
    except FileExistsError:
        return
    except FileNotFoundError:
        raise
    except OSError:
        copy_atomic(path, target)
