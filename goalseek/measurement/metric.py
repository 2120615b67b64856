"""Reading one number out of what a measurement left behind. Pure: texts in, a finite number or a reason out."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalseek.manifest.rules import query_fault
from goalseek.manifest.tables import Reading
from goalseek.own_folders import empty, make_anew, open_beneath
from goalseek.process import seconds_with_sleep
from goalseek.sandbox.supervisor import ProgramResult


class NoNumber(Exception):
    """A measurement without a usable number; ``reason`` is ``no_metric`` or ``not_finite``."""

    def __init__(self, reason: str, why: str) -> None:
        super().__init__(why)
        self.reason = reason
        self.why = why


def from_json(reading: Reading, text: str, is_lines: bool = False) -> float:
    """The number at ``reading.query`` in a JSON document, or in a list of rows where ``is_lines``.

    Raises NoNumber where the document does not parse, or the query finds nothing, or something that is no number.
    """
    import jmespath

    try:
        document = [json.loads(line) for line in text.splitlines() if line.strip()] if is_lines else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NoNumber("no_metric", f"{reading.name}: {reading.path} is not JSON: {error}") from None
    try:
        found = jmespath.search(reading.query or "@", document)
    except jmespath.exceptions.JMESPathError as error:
        raise NoNumber("no_metric", f"{reading.name}: the query {query_fault(reading.query or '@', error)}") from None
    if found is None:
        raise NoNumber("no_metric", f"{reading.name}: nothing at {reading.query!r} in {reading.path}")
    return finite(reading.name, found)


def from_text(reading: Reading, text: str) -> float:
    """The number in the one group of ``reading.regex``. Raises NoNumber for no match, or for several."""
    matches = [match[1] for match in re.finditer(reading.regex or "", text, re.MULTILINE)]
    if not matches:
        raise NoNumber("no_metric", f"{reading.name}: no match of {reading.regex!r} in {reading.source}")
    if len(matches) > 1 and reading.matches == "only":
        raise NoNumber(
            "no_metric",
            f'{reading.name}: {len(matches)} matches of {reading.regex!r}; say matches = "last" to take the last',
        )
    try:
        value = float(matches[-1])
    except (TypeError, ValueError):
        raise NoNumber("no_metric", f"{reading.name}: {matches[-1]!r} is not a number") from None
    return finite(reading.name, value)


def finite(name: str, found: Any) -> float:
    """The value as a float. Booleans, texts, lists and objects are no numbers; NaN and infinities are not finite."""
    if isinstance(found, bool) or not isinstance(found, int | float):
        kind = {bool: "a boolean", str: "a text", list: "a list", dict: "an object"}.get(type(found), "no number")
        raise NoNumber("no_metric", f"{name}: {json.dumps(found)[:80]} is {kind}, not a number")
    try:
        value = float(found)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise NoNumber("not_finite", f"{name} is {value}")
    return value


_REPLACED = "the run folder was replaced"


class Stale(Exception):
    """A file that is there, but was not made by this measurement; the text says how that shows."""


@dataclass(frozen=True)
class RunFolder:
    """A folder that was made for one measurement. ``began`` is its own time: no file in it can be older.

    ``ahead`` is by how much the time of day was ahead then of a clock that nobody can set; both are in nanoseconds.
    """

    path: Path
    device: int
    inode: int
    began: int
    ahead: int

    @classmethod
    def make(cls, path: Path) -> RunFolder:
        """A new empty folder at this place."""
        make_anew(path)
        found = path.stat()
        return cls(path, found.st_dev, found.st_ino, found.st_mtime_ns, _ahead())

    def empty(self) -> None:
        """Removes what is in it."""
        empty(self.path)

    def is_itself(self) -> bool:
        """Whether the folder that was made still stands at its place."""
        try:
            found = self.path.lstat()
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == (self.device, self.inode)

    def open(self, path: str) -> int:
        """A descriptor of a regular file in it. Raises OSError where there is none, Stale where it is another's."""
        if self.path.is_symlink():
            raise Stale(_REPLACED)
        descriptor = open_beneath(self.path, path)
        told = _REPLACED if not self.is_itself() else self.why_stale(os.fstat(descriptor))
        if told:
            os.close(descriptor)
            raise Stale(told)
        return descriptor

    def why_stale(self, found: os.stat_result) -> str:
        """Why a file with these facts was not made by this measurement, or ""."""
        if found.st_nlink > 1:
            return "it is a hard link to another file"
        set_back = min(0, _ahead() - self.ahead)  # a clock that was set back meanwhile gave later files an earlier time
        if found.st_mtime_ns < self.began + set_back:
            return "it is older than this measurement"
        return ""


def _ahead() -> int:
    return time.time_ns() - int(seconds_with_sleep() * 1e9)


_FILE_MOST = 64 * 2**20


def read_number(
    reading: Reading,
    folders: Sequence[RunFolder],
    kept_outputs: Path,
    stale: Mapping[str, str],
    ended: Mapping[str, ProgramResult],
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
