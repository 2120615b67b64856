"""What goalseek wrote in the last hour, in an object store of its own that no git of the user's looks into.

A ``git gc --prune=now`` looks at the refs, and later removes what none of them named then: what was written meanwhile,
or named by a ref since. So an object is written here, and linked into the repository's store. goalseek's own git reads
both, and what the repository's store has lost is linked again.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from goalseek.files import copy_atomic
from goalseek.git.command import git
from goalseek.git.location import Sharing
from goalseek.git.paths import quote_path_bytes
from goalseek.own_folders import remove_if_exists

_SECONDS = 3600.0  # the longest that a prune may take between its look and its last removal
_TRIES = 5
_NAME = re.compile("[0-9a-f]{40}(?:[0-9a-f]{24})?")


class RecentObjects:
    """Loose objects, linked into a store; copied where the file system has no links."""

    def __init__(self, git_dir: Path, store: Path, sharing: Sharing) -> None:
        self.folder = git_dir.with_name("recent")
        self._git_dir = git_dir
        self._store = store
        self._sharing = sharing
        sharing.make_folder(self.folder)

    def reading(self) -> dict[str, str]:
        """The variable by which git reads these objects beside the store's."""
        return _alternates(self.folder)

    def writing(self) -> dict[str, str]:
        """The variables by which git writes here, and sees no other store: a prune may be removing it from that."""
        return {**self._variables(self.folder), **self._sharing.variables()}

    def writing_beside(self, folder: Path) -> dict[str, str]:
        """The variables by which git writes to a folder what is neither here nor in the store."""
        return {"GIT_OBJECT_DIRECTORY": str(folder), **_alternates(self._store, self.folder)}

    def take(self, folder: Path) -> None:
        """Takes over the objects that git wrote to a folder, and links them into the store."""
        for path in folder.glob("??/*"):
            target = self.folder / path.relative_to(folder)
            self._sharing.make_folder(target.parent)
            path.rename(target)
            self.link(path.parent.name + path.name)

    def link(self, name: str) -> bool:
        """Links an object into the store where that has no such loose object; False for one that is not recent."""
        path = self.folder / name[:2] / name[2:]
        if not path.exists():
            return False
        self._link(path, self._loose(name))
        return True

    def bring_back(self) -> None:
        """Links what is missing, and forgets what a pack has and what was written more than an hour ago."""
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        paths = {"".join(path.relative_to(self.folder).parts): path for path in files}
        not_loose = [name for name in paths if _NAME.fullmatch(name) and not self._loose(name).exists()]
        missing = self._find_missing(not_loose) if not_loose else set()
        for name in missing:
            self._link(paths[name], self._loose(name))
        packed, oldest = {*not_loose} - missing, time.time() - _SECONDS
        for name, path in paths.items():
            if name in packed or path.stat().st_mtime < oldest:  # when git wrote it last, or would have
                remove_if_exists(path)

    def _find_missing(self, names: list[str]) -> set[str]:
        """Those that the store has not even in a pack. A process that has just started knows which packs there are."""
        stdin = "".join(f"{name}\n" for name in names).encode()
        listing = git("cat-file", "--batch-check", stdin=stdin, variables=self._variables(self._store))
        return {line.split(" ")[0] for line in listing.decode().splitlines() if line.endswith(" missing")}

    def _variables(self, store: Path) -> dict[str, str]:
        return {"GIT_DIR": str(self._git_dir), "GIT_OBJECT_DIRECTORY": str(store)}

    def _link(self, path: Path, loose: Path) -> None:
        for tries_left in reversed(range(_TRIES)):
            self._sharing.make_folder(loose.parent)
            try:
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

    def _loose(self, name: str) -> Path:
        return self._store / name[:2] / name[2:]


def _alternates(*stores: Path) -> dict[str, str]:
    quoted = (os.fsdecode(quote_path_bytes(os.fsencode(store))) for store in stores)
    return {"GIT_ALTERNATE_OBJECT_DIRECTORIES": os.pathsep.join(quoted)}
