"""What has come to differ from the pinned ruler."""

from __future__ import annotations

import os
from pathlib import Path

from goalseek.git import GitFailed, git
from goalseek.location import Location, prefix_below
from goalseek.manifest_file import Loaded, base_of
from goalseek.project_scope import scope_of
from goalseek.quoting import quote_path
from goalseek.ruler import Ruler, differing_keys
from goalseek.standing import Standing
from goalseek.units import counted

_NAMED_MOST = 5


def differing(loaded: Loaded, location: Location, standing: Standing) -> list[str]:
    """What a new baseline would adopt: keys of the manifest, and files of HEAD, in words."""
    if standing.baseline is None:
        return []
    folder, name = location.top, loaded.manifest.project.name
    try:
        pinned = git("cat-file", "blob", f"refs/goalseek/{name}/ledger:ruler.json", folder=folder).decode()
        arguments = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", standing.baseline.commit, "HEAD")
        changed = [os.fsdecode(path) for path in git(*arguments, folder=folder).split(b"\0") if path]
    except GitFailed:
        return []
    scope = scope_of(loaded, loaded.manifest, prefix_below(location.top, loaded.folder))
    ruler = Ruler.from_json(pinned)
    told = [f"key {key}" for key in differing_keys(loaded.manifest, ruler)]
    hidden = _hidden(loaded, base_of(loaded, location.top), ruler)
    told += [f"file {loaded.manifest.scope.hidden_from}/{quote_path(path)}" for path in hidden]
    files = [path for path in changed if scope.in_ruler(path)]
    return told + [f"file {quote_path(path)}" for path in files[:_NAMED_MOST]] + _more(len(files) - _NAMED_MOST)


def _hidden(loaded: Loaded, base: Path, ruler: Ruler) -> list[str]:
    """What differs in the folder of ``hidden_from``; where the manifest names another one now, its key does."""
    named = loaded.manifest.scope.hidden_from
    if not named or named != ruler.keys["scope"].get("hidden_from"):
        return []
    from goalseek import hidden_from

    return hidden_from.differing_files(base / named, ruler.hidden_from)[:_NAMED_MOST]


def _more(count: int) -> list[str]:
    return [f"and {counted(count, 'more file')}"] if count > 0 else []
