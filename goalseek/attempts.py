"""What the tries of an iteration leave in its run folder: that of the record is at the top, others in ``attempts/K/``.

Each step can be done again after it was killed half-way.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from goalseek.own_folders import clear

ATTEMPTS = "attempts"
REVIEWS = "reviews"
_OF_CHANGE = ("changes.diff", "snapshot")
_OF_TRY = (*_OF_CHANGE, "verifier.log", "metrics.json", "measurements")
_BEGUN = ("provider_output.md", "prompts", ATTEMPTS, REVIEWS)


def clear_attempts(folder: Path) -> None:
    """Removes what earlier calls left there, before the first of an iteration."""
    for name in _BEGUN:
        clear(folder / name)


def place_of(folder: Path, number: int, shown: int) -> Path:
    """Where try ``number`` writes: at the top, or where a candidate is ``shown`` there, in its own folder."""
    return folder / ATTEMPTS / str(number) if shown else folder


def snapshot_of(folder: Path, number: int) -> Path:
    """The changed files of a try that is over."""
    own = folder / ATTEMPTS / str(number) / "snapshot"
    return own if own.is_dir() else folder / "snapshot"


def put_by(folder: Path, number: int) -> None:
    """Makes room for the next try: what try ``number`` left, which was no candidate, goes into its own folder."""
    target = folder / ATTEMPTS / str(number)
    if target.exists():
        return
    unfinished = target.with_name(f"{number}.new")
    _move(folder, unfinished)
    unfinished.replace(target)


def publish(folder: Path, place: Path, shown: int) -> None:
    """Brings a new candidate's change to the top; what try ``shown`` left there goes into its own folder."""
    _move(folder, folder / ATTEMPTS / str(shown))
    for name in (*_OF_CHANGE, "plan.md"):
        clear(folder / name)
        if (place / name).is_dir():
            shutil.copytree(place / name, folder / name)
        elif (place / name).exists():
            shutil.copyfile(place / name, folder / name)


def _move(folder: Path, target: Path) -> None:
    """Moves what is of a try; a name that was moved before a kill stays as it is."""
    target.mkdir(parents=True, exist_ok=True)
    for name in _OF_TRY:
        if (folder / name).exists() and not (target / name).exists():
            (folder / name).replace(target / name)


def others_in(folder: Path, names: tuple[str, ...]) -> list[str]:
    """Which of these files the other tries left, ``1/verifier.log`` say, oldest try first."""
    tries = [path for path in (folder / ATTEMPTS).glob("*") if path.name.isdigit()]
    ordered = sorted(tries, key=lambda path: int(path.name))
    return [f"{path.name}/{name}" for path in ordered for name in names if (path / name).is_file()]
