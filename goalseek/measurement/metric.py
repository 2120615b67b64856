"""Reading a metric or guard as one finite number: from JSON, printed text, or a time.

A file counts only if this measurement wrote it: ``RunFolder`` finds older files, hard links and replaced folders.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import math
import os
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct

from goalseek.disk import open_regular, recreate_folder
from goalseek.humanize import abbreviate
from goalseek.manifest.rules import query_fault
from goalseek.manifest.tables import TIME_SOURCES, Metric, Reading
from goalseek.phase_values import Failure
from goalseek.process import seconds_with_sleep
from goalseek.sandbox.supervisor import ProgramResult
from goalseek.values import Reason

_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?")  # not 0,125: that comma is a decimal point
_SURROGATE = re.compile("[\ud800-\udfff]")  # in no UTF-8 file
_FILE_LIMIT = 64 * 2**20
MOST_SCORE = 1e38  # records keep them as 32-bit floats
_REPLACED = "the run folder was replaced"


class NoNumber(Exception):
    def __init__(self, reason: str, why: str, printed: str = "") -> None:
        super().__init__(why)
        self.failure = Failure(reason, why, printed)


def _no_metric(reading: Reading, why: str) -> NoNumber:
    return NoNumber(Reason.NO_METRIC, f"{reading.name}: {why}")


def read_json(reading: Reading, text: str, is_lines: bool = False) -> float:
    """At ``reading.query`` in a JSON document, or in rows of JSON if ``is_lines``. Raises NoNumber."""
    return find_number(reading, _parse(reading, text, is_lines))


def _parse(reading: Reading, text: str, is_lines: bool) -> Any:

    def make_object(members: list[tuple[str, Any]]) -> dict[str, Any]:
        counts = Counter(name for name, _ in members)
        if len(counts) < len(members):
            twice = json.dumps(counts.most_common(1)[0][0])
            raise _no_metric(reading, f"{reading.path} has the key {twice} twice; write it once")
        return dict(members)

    parse = functools.partial(json.loads, object_pairs_hook=make_object)
    try:
        return [parse(line) for line in text.splitlines() if line.strip()] if is_lines else parse(text)
    except (ValueError, RecursionError) as error:
        raise _no_metric(reading, f"{reading.path} is not JSON: {error}") from None


def _search(reading: Reading, query: str, document: Any) -> Any:
    """Raises NoNumber if nothing is there."""
    import jmespath

    try:
        value = jmespath.search(query, document)
    except jmespath.exceptions.JMESPathError as error:
        raise _no_metric(reading, f"the query {query_fault(query, error)}") from None
    if value is None:
        keys = [json.dumps(key)[1:-1][:40] for key in document] if isinstance(document, dict) else []
        has = f"; it has: {abbreviate(keys)}" if keys else ""
        raise _no_metric(reading, f"{reading.path} has no {query!r}{has}")
    return value


def find_number(reading: Reading, document: Any) -> float:
    """Raises NoNumber."""
    return to_finite(reading.name, _search(reading, reading.query or "@", document))


def find_cases(metric: Metric, document: Any) -> dict[str, float | None]:
    """Scores by id, None for null; booleans are 0 and 1. Raises NoNumber for a wrong id or score, or an id twice."""
    assert metric.cases is not None
    found = _search(metric, metric.cases, document)
    if isinstance(found, dict):
        found = [{"id": name, "score": score} for name, score in found.items()]
    is_list = isinstance(found, list) and all(isinstance(row, dict) and {"id", "score"} <= row.keys() for row in found)
    if not is_list:
        what = 'neither a mapping of ids to scores nor a list of {"id", "score"}'
        raise _no_metric(metric, f"{metric.cases!r} in {metric.path} is {what}")
    scores: dict[str, float | None] = {}
    for row in found:
        name, score = row["id"], row["score"]
        is_id = isinstance(name, str | int) and not isinstance(name, bool) and str(name).splitlines() == [str(name)]
        if not is_id or _SURROGATE.search(str(name)):
            raise _no_metric(metric, f"{json.dumps(name)[:80]} is no id of a case: a number, or one line of text")
        name = str(name)
        if name in scores:  # places are told, not ids: agents read the sentence
            raise _no_metric(metric, f"{metric.path} has the id of case {len(scores) + 1} twice")
        score = int(score) if isinstance(score, bool) else score
        scores[name] = None if score is None else to_finite(f"the score of case {len(scores) + 1}", score)
        if abs(scores[name] or 0.0) > MOST_SCORE:
            raise _no_metric(metric, f"the score of case {len(scores)} is beyond {MOST_SCORE:g}")
    return scores


def read_text(reading: Reading, text: str) -> float:
    """The one group of ``reading.regex``. Raises NoNumber for no match, or for several."""
    matches = [match[1] for match in re.finditer(reading.regex or "", text, re.MULTILINE)]
    if not matches:
        raise _no_metric(reading, f"no match of {reading.regex!r} in {reading.source}")
    if len(matches) > 1 and reading.matches == "only":
        hint = 'set matches = "last" to take the last'
        raise _no_metric(reading, f"{len(matches)} matches of {reading.regex!r}; {hint}")
    try:
        is_grouped = matches[-1] and _THOUSANDS.fullmatch(matches[-1])
        value = float(matches[-1].replace(",", "") if is_grouped else matches[-1])
    except (TypeError, ValueError):
        raise _no_metric(reading, f"{matches[-1]!r} is not a number") from None
    return to_finite(reading.name, value)


def read_result(reading: Reading, result: ProgramResult) -> float:
    """The time of a program, or the number in what it printed. Raises NoNumber.

    Times are taken from outside, in seconds: with the start of sandbox and interpreter, without the making of trees.
    """
    if reading.source in TIME_SOURCES:
        return to_finite(reading.name, result.seconds if reading.source == "wall" else result.cpu_seconds)
    printed = result.stdout if reading.source == "stdout" else result.stderr
    return read_text(reading, printed.decode("utf-8", "replace"))


def to_finite(name: str, value: Any) -> float:
    """Raises NoNumber for anything but a finite int or float; a boolean is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        kind = {bool: "a boolean", str: "a text", list: "a list", dict: "an object"}.get(type(value), "no number")
        raise NoNumber(Reason.NO_METRIC, f"{name}: {json.dumps(value)[:80]} is {kind}, not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise NoNumber(Reason.NOT_FINITE, f"{name} is {number}")
    return number


class StaleFile(Exception):
    """This measurement did not write the file; the text says how that shows."""


class RunFolder(Struct, frozen=True):
    """``made`` is its status when it was made: no file in it is older. ``clock_lead_ns`` is ``_ahead()`` then."""

    path: Path
    made: os.stat_result
    clock_lead_ns: int

    @classmethod
    def make(cls, path: Path) -> RunFolder:
        recreate_folder(path)
        return cls(path, path.stat(), _ahead())

    def open(self, path: str) -> BinaryIO:
        """A regular file in it. Raises OSError if there is none, StaleFile if it is old."""
        if self.path.is_symlink():
            raise StaleFile(_REPLACED)
        file = open_regular(self.path, path)
        try:
            is_itself = os.path.samestat(self.path.lstat(), self.made)
        except OSError:
            is_itself = False
        if reason := self.stale_reason(os.fstat(file.fileno())) if is_itself else _REPLACED:
            file.close()
            raise StaleFile(reason)
        return file

    def stale_reason(self, status: os.stat_result) -> str:
        """How the status shows that this measurement did not write the file, or ""."""
        if status.st_nlink > 1:
            return "it is a hard link to another file"
        set_back = min(0, _ahead() - self.clock_lead_ns)  # as much as a clock set back makes later files older
        if status.st_mtime_ns < self.made.st_mtime_ns + set_back:
            return "it is older than this measurement"
        return ""


def _ahead() -> int:
    """Nanoseconds by which the time of day is ahead of the clock that nobody can set."""
    return time.time_ns() - int(seconds_with_sleep() * 1e9)


def read_file(reading: Reading, folders: Sequence[RunFolder], outputs: Path, stale: Mapping[str, str]) -> Any:
    """The JSON of the first run folder that has the file, else of the outputs. Raises NoNumber if missing or stale."""
    opened = None
    try:
        for folder in folders:
            with contextlib.suppress(OSError):
                opened = folder.open(reading.path)
                break
        if opened is None:
            opened = open_regular(outputs, reading.path)
            if why := stale.get(reading.path):
                opened.close()
                raise StaleFile(why)
        with io.TextIOWrapper(opened, encoding="utf-8", errors="replace") as file:
            if os.fstat(file.fileno()).st_size > _FILE_LIMIT:
                raise _no_metric(reading, f"{reading.path} has more than {_FILE_LIMIT} bytes")
            return _parse(reading, file.read(), is_lines=reading.path.endswith(".jsonl"))
    except StaleFile as error:
        raise _no_metric(reading, f"{reading.path} was not made by this measurement: {error}") from None
    except OSError:
        raise _no_metric(reading, f"the verifier wrote no {reading.path}") from None
