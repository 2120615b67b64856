"""A climb is of one folder: manifests of one name in two folders of a repository would share branch and records."""

from __future__ import annotations

import contextlib
import json
import os
import tomllib
from pathlib import Path

from goalseek.errors import UNFIT, USAGE, GitFailed, GoalseekError
from goalseek.git.command import git
from goalseek.git.location import Location, locate
from goalseek.git.paths import prefix_below
from goalseek.ledger.results_file import History, own_folder
from goalseek.locks import holder_of
from goalseek.manifest.loading import Loaded, base_of, load

_FILE = "folder"


def refuse_other_folder(loaded: Loaded, location: Location) -> None:
    """Raises GoalseekError where the climb of this name is that of another folder, which has such a manifest still."""
    if told := other_folder(loaded, location):
        hint = "two climbs need two names: give this manifest a project.name of its own, or climb there"
        raise GoalseekError(told, hint, USAGE)


def other_folder(loaded: Loaded, location: Location) -> str:
    """Whose climb it is, in words; "" where it is this folder's, or nobody's yet, or that of a folder that moved."""
    name = loaded.manifest.project.name
    try:
        known = os.fsdecode(_place(location, name).read_bytes())
    except OSError:
        return ""
    if known == _prefix(loaded, location) or not _has_manifest(location.top / known, name):
        return ""
    return f"the climb {name!r} is that of the manifest in {location.top / known}, not of {loaded.path}"


def climb_at_work(loaded: Loaded, location: Location | None = None) -> Loaded:
    """The manifest of this climb where it is at work: it may be at work in another worktree. Else the one given.

    ``location`` is that of the repository, where it is known. Raises GoalseekError, naming the folder, where that
    manifest cannot be read from here.
    """
    own = location.own(loaded.manifest.project.name) if location else own_folder(loaded)
    holder = holder_of(own) if own else None
    if holder is None or not holder.is_climbing or holder.manifest in ("", str(loaded.path.resolve())):
        return loaded
    try:
        return load(Path(holder.manifest))
    except (GoalseekError, OSError) as error:
        folder = Path(holder.manifest).parent
        raise GoalseekError(f"the climb is at work in {folder}: {holder}; {error}", "type this there", UNFIT) from None


def note_folder(loaded: Loaded, location: Location) -> None:
    """From now on the climb is that of this manifest's folder. Only for the holder of the lock."""
    place, prefix = _place(location, loaded.manifest.project.name), os.fsencode(_prefix(loaded, location))
    if not place.exists() or place.read_bytes() != prefix:
        temporary = place.with_suffix(".new")
        temporary.write_bytes(prefix)
        temporary.replace(place)


def _place(location: Location, name: str) -> Path:
    return location.own(name) / _FILE


def _prefix(loaded: Loaded, location: Location) -> str:
    return prefix_below(location.top, base_of(loaded, location.top))


def _has_manifest(folder: Path, name: str) -> bool:
    """Whether a manifest in the folder has this name."""
    for path in folder.glob("goalseek*.toml"):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            if tomllib.loads(path.read_text(encoding="utf-8")).get("project", {}).get("name") == name:
                return True
    return False


def fetch_hint(loaded: Loaded, location: Location | None = None) -> str:
    """What brings the records here that only git has, in words; "" where there are none, and while a run writes them.

    ``location`` is that of the repository, where it is known. Where the climb is another folder's, that is said.
    """
    name = loaded.manifest.project.name
    ref = f"refs/goalseek/{name}/ledger"
    try:
        location = location or locate(loaded.folder / loaded.manifest.project.repo)
        if told := other_folder(loaded, location):
            return told
        newest = _number(git("cat-file", "commit", ref, git_dir=location.git_dir).partition(b"\n\n")[2])
        last = next(History(loaded.results).backward(), None)
        here = _number(last.text) if last else -1
    except (GitFailed, GoalseekError, OSError, ValueError):
        return ""
    if newest <= here or holder_of(location.own(name)):
        return ""
    more = newest - here
    told = "the records are" if here < 0 else f"{more} newer records are" if more > 1 else "a newer record is"
    return f"{told} in git, as {ref}: goalseek audit --rebuild writes {'it' if more == 1 else 'them'} here"


def _number(line: bytes) -> int:
    """A record's number. Raises ValueError for a line that is no record."""
    row = json.loads(line)
    if not isinstance(row, dict) or not isinstance(row.get("seq"), int):
        raise ValueError("no record")
    return int(row["seq"])
