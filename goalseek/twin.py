"""``results.jsonl`` as the twin of the ledger's chain: held against it line by line, or written again from it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from goalseek.deviations import NOTHING, Deviation, of_rows, shown
from goalseek.humanize import counted
from goalseek.manifest.loading import RESULTS, Loaded, ignore_home
from goalseek.own_folders import clear

SNAPSHOT = "standing.json"


def compare(path: Path, expected: Sequence[str], first: int) -> Iterator[Deviation]:
    """Every line of the file that is not the chain's; ``first`` lines are before those that the chain could tell."""
    content = path.read_bytes()
    found = [line.decode("utf-8", "backslashreplace") for line in content.split(b"\n")]
    is_torn = bool(found[-1])
    if not is_torn:
        found.pop()
    else:
        yield Deviation("a torn last line", _line(len(found)), "a line with its end", shown(found[-1]))
    found = found[first:]
    known = set(expected)
    for kind, low, high, start, end in _unlike(expected, found):
        both = min(high - low, end - start) if kind == "replace" else 0
        for step in range(both):
            if is_torn and start + step == len(found) - 1:
                continue
            yield from _edited(_line(first + start + step + 1), expected[low + step], found[start + step])
        for place in range(low + both, high):
            yield Deviation("a line is missing", _line(first + place + 1), shown(expected[place]), NOTHING)
        for place in range(start + both, end):
            if is_torn and place == len(found) - 1:
                continue
            what = "a line is out of its place" if found[place] in known else "a line that git does not know"
            yield Deviation(what, _line(first + place + 1), NOTHING, shown(found[place]))


def rebuild(loaded: Loaded, lines: Sequence[str]) -> str:
    """Writes the file again; it is there whole, or as it was. Gives what was done, in words."""
    ignore_home(loaded)
    path = loaded.results
    temporary = path.with_name(f"{RESULTS}.new")
    content = "".join(line + "\n" for line in lines).encode()
    was = path.read_bytes() if path.exists() else None
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    clear(path.with_name(SNAPSHOT))
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    before = "there was none" if was is None else "it was the same" if was == content else "it was another"
    return f"{path} was written again from git: {counted(len(lines), 'line')}; {before}"


def _unlike(expected: Sequence[str], found: Sequence[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """Where two lists of lines differ: costs the lines, and then what differs."""
    same = 0
    while same < min(len(expected), len(found)) and expected[same] == found[same]:
        same += 1
    matcher = SequenceMatcher(None, expected[same:], found[same:], autojunk=False)
    for kind, low, high, start, end in matcher.get_opcodes():
        if kind != "equal":
            yield kind, low + same, high + same, start + same, end + same


def _edited(where: str, expected: str, found: str) -> Iterator[Deviation]:
    try:
        row = json.loads(found)
        named = list(of_rows("a line was changed", where, json.loads(expected), row))
    except (ValueError, RecursionError):
        named = []
    yield from named or [Deviation("a line was changed", where, shown(expected), shown(found))]


def _line(number: int) -> str:
    return f"{RESULTS} line {number}"
