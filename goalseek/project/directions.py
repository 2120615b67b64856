"""A person's directions for the agent: one small JSON file each, which a climb reads at its next iteration."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from goalseek.errors import GoalseekError
from goalseek.files import write_atomic
from goalseek.values import from_plain, to_line


@dataclass(frozen=True)
class Direction:
    """One direction, for the iterations ``first`` to ``last``, both included; no ``last`` means until dropped."""

    number: int
    text: str
    first: int
    last: int | None = None

    def holds_at(self, iteration: int) -> bool:
        """Whether the agent gets it in this iteration."""
        return self.first <= iteration and (self.last is None or iteration <= self.last)


def read_directions(folder: Path) -> list[Direction]:
    """All directions that were not dropped, oldest first. Raises GoalseekError for a file that is no direction."""
    if not folder.is_dir():
        return []
    result = []
    for path in sorted(folder.glob("*.json")):
        try:
            result.append(from_plain(Direction, json.loads(path.read_text())))
        except FileNotFoundError:  # dropped meanwhile
            continue
        except ValueError as error:
            raise GoalseekError(f"{path} is not a direction: {error}", f"remove it: rm {path}") from None
    return result


def add_direction(folder: Path, text: str, first: int, last: int | None) -> Direction:
    """Adds a direction. Raises GoalseekError for an empty text or an empty range."""
    if not text.strip():
        raise GoalseekError("a direction needs a text", 'goalseek direct "prefer fewer parameters"')
    if last is not None and last < first:
        raise GoalseekError(f"--to {last} lies before --from {first}", "give a range that is not empty")
    folder.mkdir(parents=True, exist_ok=True)
    numbers = [int(path.name.split(".")[0]) for path in folder.iterdir() if path.name.split(".")[0].isdigit()]
    direction = Direction(max(numbers, default=0) + 1, text.strip(), first, last)
    write_atomic(_path(folder, direction.number), to_line(direction) + "\n", durable=True)
    return direction


def drop_direction(folder: Path, number: int) -> None:
    """Takes a direction back; its number is not used again. Raises GoalseekError where there is none."""
    path = _path(folder, number)
    if not path.exists():
        raise GoalseekError(f"there is no direction {number}", "see: goalseek direct --list")
    os.replace(path, path.with_suffix(".dropped"))


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:04d}.json"
