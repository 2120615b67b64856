"""A number read from what this measurement made, and from nothing else: a file, an output, a wall time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from goalseek.fresh import RunFolder, Stale
from goalseek.manifest.tables import Reading
from goalseek.metric import NoNumber, finite, from_json, from_text
from goalseek.own_folders import open_beneath
from goalseek.sandbox.supervisor import Finished

_FILE_MOST = 64 * 2**20


def read_number(
    reading: Reading,
    folders: Sequence[RunFolder],
    kept_outputs: Path,
    stale: Mapping[str, str],
    ended: Mapping[str, Finished],
) -> float:
    """The number, from the first run folder that has its file. Raises NoNumber where there is none that counts.

    A wall time is in seconds, as ``Programs.supervise`` measures it from outside: the start of the sandbox and of the
    interpreter are in it, the making of trees is not, and no clock of the command's own counts.
    """
    if reading.source == "wall":
        return finite(reading.name, ended[reading.command].seconds)
    if reading.source in ("stdout", "stderr"):
        raw = ended[reading.command].stdout if reading.source == "stdout" else ended[reading.command].stderr
        return from_text(reading, raw.decode("utf-8", "replace"))
    try:
        with open(_opened(reading.path, folders, kept_outputs, stale), encoding="utf-8", errors="replace") as file:
            if os.fstat(file.fileno()).st_size > _FILE_MOST:
                raise NoNumber("no_metric", f"{reading.name}: {reading.path} has more than {_FILE_MOST} bytes")
            return from_json(reading, file.read(), is_lines=reading.path.endswith(".jsonl"))
    except Stale as told:
        why = f"{reading.name}: {reading.path} was not made by this measurement: {told}"
    except OSError:
        why = f"{reading.name}: the verifier wrote no {reading.path}"
    raise NoNumber("no_metric", why)


def _opened(path: str, folders: Sequence[RunFolder], kept_outputs: Path, stale: Mapping[str, str]) -> int:
    """A descriptor of the file that a number is read from. Raises OSError where there is none, Stale for another's."""
    for folder in folders:
        with contextlib.suppress(OSError):
            return folder.open(path)
    descriptor = open_beneath(kept_outputs, path)
    if why := stale.get(path):
        os.close(descriptor)
        raise Stale(why)
    return descriptor
