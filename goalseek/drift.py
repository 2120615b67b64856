"""What has come to differ from the pinned ruler."""

from __future__ import annotations

import os
from pathlib import Path

from goalseek.errors import GitFailed
from goalseek.git.command import git
from goalseek.git.location import Location
from goalseek.git.paths import prefix_below, quote_path
from goalseek.humanize import counted
from goalseek.ledger.standing import Standing
from goalseek.manifest.loading import Loaded, base_of
from goalseek.measurement.ruler import Ruler, differing_keys
from goalseek.project_scope import scope_of

_NAMED_MOST = 5


def differing(loaded: Loaded, location: Location, standing: Standing) -> list[str]:
    """What a new baseline would adopt: keys of the manifest, and files of HEAD, in words."""
    if standing.baseline is None:
        return []
    try:
        pinned, head = _pinned_and_head(location, loaded.manifest.project.name)
        changed = _changed(location, standing.baseline.commit, head)
    except GitFailed:
        return []
    scope = scope_of(loaded, loaded.manifest, prefix_below(location.top, loaded.folder))
    ruler = Ruler.from_json(pinned)
    told = [f"key {key}" for key in differing_keys(loaded.manifest, ruler)]
    hidden = _hidden(loaded, base_of(loaded, location.top), ruler)
    told += [f"file {loaded.manifest.scope.hidden_from}/{quote_path(path)}" for path in hidden]
    files = [path for path in changed if scope.in_ruler(path)]
    return told + [f"file {quote_path(path)}" for path in files[:_NAMED_MOST]] + _more(len(files) - _NAMED_MOST)


def _pinned_and_head(location: Location, name: str) -> tuple[str, str]:
    """The ruler's text and the commit of HEAD, in one question. Raises GitFailed where one of them is not there."""
    asked = (f"refs/goalseek/{name}/ledger:ruler.json", "HEAD")
    told = git("cat-file", "--batch", git_dir=location.git_dir, stdin="".join(f"{one}\n" for one in asked).encode())
    first, _, rest = told.partition(b"\n")
    facts = first.split(b" ")
    if facts[1:2] != [b"blob"]:
        raise GitFailed(("cat-file", asked[0]), 1, first)
    size = int(facts[2])
    head, kind, *_ = rest[size + 1 :].partition(b"\n")[0].split(b" ")
    if kind != b"commit":
        raise GitFailed(("cat-file", asked[1]), 1, head)
    return rest[:size].decode(), head.decode()


def _changed(location: Location, before: str, after: str) -> list[str]:
    """The files on which two commits differ."""
    if before == after:
        return []
    listing = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", before, after)
    told = git(*listing, git_dir=location.git_dir)
    return [os.fsdecode(path) for path in told.split(b"\0") if path]


def _hidden(loaded: Loaded, base: Path, ruler: Ruler) -> list[str]:
    """What differs in the folder of ``hidden_from``; where the manifest names another one now, its key does."""
    named = loaded.manifest.scope.hidden_from
    if not named or named != ruler.keys["scope"].get("hidden_from"):
        return []
    from goalseek.workspace import hidden_files

    return hidden_files.differing_files(base / named, ruler.hidden_from)[:_NAMED_MOST]


def _more(count: int) -> list[str]:
    return [f"and {counted(count, 'more file')}"] if count > 0 else []
