"""goalseek improves one number in a git repository. The names here are the public API; all others may change."""

from __future__ import annotations

import typing
from collections.abc import Generator, Iterator
from pathlib import Path

from goalseek._version import __version__ as __version__

if typing.TYPE_CHECKING:
    from goalseek.climb import Climb
    from goalseek.errors import GoalseekError
    from goalseek.manifest.loading import ManifestFile
    from goalseek.records import HoldoutRecord, IterationRecord, MeasurementRecord, Record, RunRecord, SettleRecord

__all__ = ["Climb", "GoalseekError", "iterate", "load", "open", "read_results"]
__all__ += ["HoldoutRecord", "IterationRecord", "MeasurementRecord", "Record", "RunRecord", "SettleRecord"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    home = {"Climb": "climb", "GoalseekError": "errors"}.get(name, "records")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return __all__


def load(path: str | Path) -> ManifestFile:
    """Read and check a manifest. Raises GoalseekError naming what is wrong and where."""
    from goalseek.manifest import loading

    return loading.load(loading.find(Path.cwd(), str(Path(path).resolve())))


def open(path: str | Path = "goalseek.toml") -> Climb:
    """The climb of a manifest, to go on with and to read. Raises GoalseekError as ``load`` does."""
    from goalseek.climb import Climb

    return Climb(load(path))


def iterate(manifest: ManifestFile, iterations: int | None = None) -> Generator[IterationRecord, None, None]:
    """``Climb.iterate`` of a manifest."""
    from goalseek.climb import Climb

    return Climb(manifest).iterate(iterations)


def read_results(path: str | Path) -> Iterator[Record]:
    """The records in a ``results.jsonl``, oldest first. Raises GoalseekError for a line that is no record."""
    from goalseek.ledger.results_file import History

    return History(Path(path)).records()
