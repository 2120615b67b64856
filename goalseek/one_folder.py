"""A climb is of one folder: manifests of one name in two folders of a repository would share branch and records."""

from __future__ import annotations

import contextlib
import os
import tomllib
from pathlib import Path

from goalseek.errors import UNFIT, USAGE, GoalseekError
from goalseek.git.location import Location
from goalseek.git.paths import prefix_below
from goalseek.ledger.results_file import own_folder
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
