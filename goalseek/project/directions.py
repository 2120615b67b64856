"""What a person tells the agent: directions for some iterations, and ``program.md`` for all."""

import os
from pathlib import Path

from msgspec import Struct

from goalseek.disk import write_atomic
from goalseek.errors import GoalseekError
from goalseek.manifest.tables import Manifest
from goalseek.values import from_line, to_line


class Direction(Struct, frozen=True):
    """Holds from iteration ``first`` to ``last``, both included; without ``last``, until it is dropped."""

    number: int
    text: str
    first: int
    last: int | None = None

    def holds_at(self, iteration: int) -> bool:
        return self.first <= iteration and (self.last is None or iteration <= self.last)


def read_program(folder: Path, manifest: Manifest) -> str:
    """The text of ``program.md``, or of the file that the manifest names; "" if there is none."""
    path = folder / (manifest.project.program or "program.md")
    return path.read_text("utf-8", "replace") if path.is_file() else ""


def read_directions(folder: Path) -> list[Direction]:
    """Those that were not dropped, oldest first. Raises GoalseekError for a file that is no direction."""
    result = []
    for path in sorted(folder.glob("*.json")):
        try:
            result.append(from_line(Direction, path.read_bytes()))
        except FileNotFoundError:  # dropped meanwhile
            continue
        except ValueError as error:
            raise GoalseekError(f"{path} is not a direction: {error}", f"remove it: rm {path}") from None
    return result


def add_direction(folder: Path, text: str, first: int, last: int | None) -> Direction:
    """Raises GoalseekError for an empty text or an empty range."""
    if not text.strip():
        raise GoalseekError("a direction needs a text", 'goalseek direct "prefer fewer parameters"')
    if last is not None and last < first:
        raise GoalseekError(f"--to {last} lies before --from {first}", "give a range that is not empty")
    folder.mkdir(parents=True, exist_ok=True)
    numbers = [int(path.name.split(".")[0]) for path in folder.iterdir() if path.name.split(".")[0].isdigit()]
    direction = Direction(max(numbers, default=0) + 1, text.strip(), first, last)
    write_atomic(folder / f"{direction.number:04d}.json", to_line(direction) + "\n", durable=True)
    return direction


def drop_direction(folder: Path, number: int) -> None:
    """Its number is not used again. Raises GoalseekError if there is none."""
    path = folder / f"{number:04d}.json"
    if not path.exists():
        raise GoalseekError(f"there is no direction {number}", "see: goalseek direct --list")
    os.replace(path, path.with_suffix(".dropped"))
