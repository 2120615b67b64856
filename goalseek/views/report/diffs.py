"""The patches of kept changes as lines to show, from the artifacts or from git, within a budget of bytes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from goalseek.errors import GoalseekError
from goalseek.git.location import locate
from goalseek.git.objects import BatchProcesses, ObjectsFailed
from goalseek.views.report.markup import equal_share, escaped_size
from goalseek.views.report.tries import Try
from goalseek.views.terminal_text import replace_unprintable

_WHOLE = 600_000
_ONE_MOST = 60_000
_MARKUP = 30
_LINE_MOST = 400
_PATCH = ("diff-tree", "--stdin", "--no-commit-id", "-p", "--no-ext-diff", "--no-textconv")
_SKIPPED = ("index ", "--- ", "+++ ")


class DiffLine(Struct, frozen=True):
    """One line; ``kind`` is "file", "about", "hunk", "added", "removed" or "same"."""

    kind: str
    text: str


class Diff(Struct, frozen=True):
    """The lines to show, and the number of lines left out."""

    lines: list[DiffLine]
    left_out: int


def read_patches(tries: Iterable[Try], runs: Path, repository: Path | None) -> Iterator[bytes | None]:
    """The patch of each try, from its artifacts, else from git; None where it is not here."""
    processes: BatchProcesses | None = None
    try:
        for try_ in tries:
            patch = None
            try:
                patch = (runs / f"{try_.iteration:04d}" / "changes.diff").read_bytes()
            except OSError:
                if repository and try_.commit and try_.parent:
                    with suppress(ObjectsFailed, GoalseekError, OSError):
                        if processes is None:
                            git_dir = locate(repository).git_dir
                            processes = BatchProcesses(git_dir, {"GIT_DIR": str(git_dir)})
                        reply = processes.send(_PATCH, f"{try_.commit} {try_.parent}\nend\n".encode())
                        patch = b"\n".join(reply.lines()) or None
            yield patch
    finally:
        if processes:
            processes.close()


def patch_limit(count: int) -> int:
    """The limit in bytes of each of ``count`` patches; rounded, so that it seldom changes as one is added."""
    return equal_share(_WHOLE, 10 * 2 ** max(0, math.ceil(math.log2(max(1, count) / 10))), _ONE_MOST)


def diff_of(patch: bytes, limit: int) -> Diff:
    """A patch as whole lines, as many as fit into ``limit`` bytes of markup."""
    lines: list[DiffLine] = []
    left_out = length = 0
    for line in _lines(patch.decode("utf-8", "replace")):
        length += escaped_size(line.text) + _MARKUP
        if length > limit:
            left_out += 1
        else:
            lines.append(line)
    return Diff(lines, left_out)


def _lines(text: str) -> Iterator[DiffLine]:
    """The lines with their kinds. Within a hunk ``---`` begins a removed line, not a header."""
    in_hunk = is_binary = False
    for raw in text.split("\n"):
        line = replace_unprintable(raw if len(raw) <= _LINE_MOST else raw[: _LINE_MOST - 1] + "…")
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
