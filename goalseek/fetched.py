"""Records that git has and ``results.jsonl`` has not: in a clone that fetched them, where another worktree climbs on,
after a ``git clean``.
"""

from __future__ import annotations

import json

from goalseek.errors import GitFailed, GoalseekError
from goalseek.git.command import git
from goalseek.git.location import Location, locate
from goalseek.ledger.results_file import History
from goalseek.locks import holder_of
from goalseek.manifest.loading import Loaded
from goalseek.one_folder import other_folder


def way_to_fetched(loaded: Loaded, location: Location | None = None) -> str:
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
