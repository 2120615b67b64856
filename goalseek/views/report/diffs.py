"""The patches of kept changes as lines to show, from the stored artifacts or from git, within a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from goalseek.errors import GitFailed, GoalseekError
from goalseek.git.command import git
from goalseek.git.location import locate
from goalseek.views.report.markup import share, written
from goalseek.views.report.rows import Try
from goalseek.views.terminal_text import harmless

_WHOLE = 600_000
_ONE_MOST = 60_000
_MARKUP = 30
_LINE_MOST = 400
_SKIPPED = ("index ", "--- ", "+++ ")


@dataclass(frozen=True)
class DiffLine:
    """One line; ``kind`` is "file", "about", "hunk", "added", "removed" or "same"."""

    kind: str
    text: str


@dataclass(frozen=True)
class Diff:
    """The lines to show, and how many more there are."""

    lines: tuple[DiffLine, ...]
    left_out: int


PatchOf = Callable[[Try], bytes | None]


def patches(runs: Path | None, repository: Path | None) -> PatchOf:
    """Where a try's patch is found: in its artifacts, else in git; None where it is in neither."""

    def patch_of(done: Try) -> bytes | None:
        if runs is not None:
            try:
                return (runs / f"{done.iteration:04d}" / "changes.diff").read_bytes()
            except OSError:
                pass
        if repository is None or not done.commit or not done.parent:
            return None
        try:
            git_dir = locate(repository).git_dir
            return git("diff-tree", "-p", "--no-ext-diff", "--no-textconv", done.parent, done.commit, git_dir=git_dir)
        except (GitFailed, GoalseekError, OSError):
            return None

    return patch_of


def most_for(count: int) -> int:
    """How many bytes of each patch to show where about so many are shown: the same as for one more, mostly."""
    return share(_WHOLE, 10 * 2 ** max(0, math.ceil(math.log2(max(1, count) / 10))), _ONE_MOST)


def diff_of(patch: bytes, most: int) -> Diff:
    """A patch as lines: whole ones, until ``most`` bytes are shown."""
    shown: list[DiffLine] = []
    left_out = length = 0
    for line in _lines(patch.decode("utf-8", "replace")):
        length += written(line.text) + _MARKUP
        if length > most:
            left_out += 1
        else:
            shown.append(line)
    return Diff(tuple(shown), left_out)


def _lines(text: str) -> Iterator[DiffLine]:
    """The lines by what they are. Within a hunk a line of ``---`` is one that was removed."""
    in_hunk = is_binary = False
    for raw in text.split("\n"):
        line = harmless(raw if len(raw) <= _LINE_MOST else raw[: _LINE_MOST - 1] + "…")
        if line.startswith("diff --git "):
            in_hunk = is_binary = False
            yield DiffLine("file", line.removeprefix("diff --git "))
        elif line.startswith("@@ "):
            in_hunk = True
            yield DiffLine("hunk", line)
        elif in_hunk and line:
            yield DiffLine({"+": "added", "-": "removed"}.get(line[0], "same"), line)
        elif line == "GIT binary patch":
            is_binary = True
            yield DiffLine("about", "a binary file")
        elif line and not is_binary and not line.startswith(_SKIPPED):
            yield DiffLine("about", line)
