"""Which artifact folders stay, and where the outputs of a candidate stay. Records and commits are not touched."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Collection, Iterable
from pathlib import Path

from goalseek.history import History
from goalseek.manifest.tables import LogTable
from goalseek.measurement.outputs import OUTPUTS
from goalseek.own_folders import clear
from goalseek.standing import Standing

_BEFORE_ANSWERS = frozenset(("git_before.txt", "env.json", "context.json.new"))
_NAME = re.compile(r"[0-9]{4,}", re.ASCII)


def run_folders(runs: Path) -> list[Path]:
    """The artifact folders, oldest iteration first. Links, and whatever has another name, are none."""
    return [runs / name for name in _names(runs)]


def _names(runs: Path) -> list[str]:
    with contextlib.suppress(FileNotFoundError), os.scandir(runs) as listing:
        found = [item.name for item in listing if _NAME.fullmatch(item.name) and item.is_dir(follow_symlinks=False)]
        return sorted(found, key=int)
    return []


def is_ours(folder: Path) -> bool:
    """Whether a folder has the mark of an iteration: a stored answer or a record, which name run and seal."""
    for path in folder.glob("*.json"):
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(path.read_text())
            if isinstance(found, dict) and {"run_id", "seal"} <= found.keys():
                return True
    return False


def is_foreign(folder: Path) -> bool:
    """Whether an iteration must not write there: it is not ours, nor as a kill before its first answer leaves it."""
    if not os.path.lexists(folder):
        return False
    if folder.is_symlink() or not folder.is_dir():
        return True
    return not {path.name for path in folder.iterdir()} <= _BEFORE_ANSWERS and not is_ours(folder)


def beyond_newest(runs: Path, newest: int, always: Collection[int]) -> list[Path]:
    """Our folders older than the ``newest`` so many, but for those of the iterations that stay always."""
    names = _names(runs)
    old = [runs / name for name in names[: max(len(names) - newest, 0)] if int(name) not in always]
    return [folder for folder in old if is_ours(folder)]


def of_marks(standing: Standing) -> set[int]:
    """The iterations whose folders stay however old they are: the baseline's and the best's."""
    return {mark.iteration for mark in (standing.baseline, standing.best) if mark}


def keep_few(runs: Path, log: LogTable, standing: Standing) -> None:
    """After an iteration landed: removes the folders and outputs that are no longer wanted.

    What cannot be removed stays, and is tried again after the next iteration.
    """
    last = standing.last
    if last is None:
        return
    if log.keep_runs is not None:
        for folder in beyond_newest(runs, log.keep_runs, of_marks(standing)):
            _drop(folder)
    is_kept = last.outcome in ("kept", "baseline")
    if is_kept and log.keep_outputs == "best":
        _drop_outputs(run_folders(runs), standing, _wanted_best(standing))
    elif not is_kept or log.keep_outputs == "none":
        _drop(runs / f"{last.iteration:04d}" / OUTPUTS)


def keep_few_at_start(runs: Path, log: LogTable, standing: Standing, history: History) -> None:
    """What an earlier process, or another ``log.keep_outputs``, left: outputs that are not wanted go."""
    folders = [path for path in run_folders(runs) if (path / OUTPUTS).is_dir()]
    wanted = _wanted_best(standing) if log.keep_outputs == "best" else set()
    if log.keep_outputs == "kept":
        records = (history.iteration(int(path.name)) for path in folders)
        wanted = {record.iteration for record in records if record and record.outcome in ("kept", "baseline")}
    _drop_outputs(folders, standing, wanted)


def _wanted_best(standing: Standing) -> set[int]:
    return {standing.best.iteration} if standing.best else set()


def _drop_outputs(folders: Iterable[Path], standing: Standing, wanted: Collection[int]) -> None:
    """Removes outputs, but for the wanted and those of an iteration that is not decided yet."""
    for folder in folders:
        if int(folder.name) <= standing.last_iteration and int(folder.name) not in wanted and is_ours(folder):
            _drop(folder / OUTPUTS)


def _drop(path: Path) -> None:
    with contextlib.suppress(OSError):
        clear(path)
