"""goalseek improves one number in a git repository. The names here are the public API; all others may change."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from pathlib import Path

from goalseek._version import __version__

if typing.TYPE_CHECKING:
    from goalseek.manifest.loading import ManifestFile
    from goalseek.project.climb import Climb
    from goalseek.records import IterationRecord, Record

__all__ = ["__version__", "iterate", "load", "open", "read_results"]


def load(path: str | Path) -> ManifestFile:
    """Read and check a manifest. Raises GoalseekError naming what is wrong and where."""
    from goalseek.manifest import loading

    return loading.load(loading.find(Path.cwd(), str(Path(path).resolve())))


def open(path: str | Path = "goalseek.toml") -> Climb:
    """The climb of a manifest, to read its records and its repository. Raises GoalseekError as ``load`` does."""
    from goalseek.project.climb import Climb

    return Climb(load(path))


def iterate(manifest: ManifestFile, iterations: int | None = None) -> Iterator[IterationRecord]:
    """Run ``iterations`` iterations, or until a limit if that is None; yields each record once it is written.

    Goes on where an earlier climb ended. Raises GoalseekError for an error that the user can correct.
    """
    from goalseek.loop import invocation, loop
    from goalseek.project import opening, stop

    with opening.open_project(manifest, doing="iterate") as project:
        yield from loop.iterate(invocation.Invocation(project, stop.Ends(count=iterations)))


def read_results(path: str | Path) -> Iterator[Record]:
    """The records in a ``results.jsonl``, oldest first. Raises GoalseekError for a line that is no record."""
    from goalseek.ledger.results_file import History

    return History(Path(path)).records()
