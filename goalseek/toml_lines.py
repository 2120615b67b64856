"""Where a key stands in a TOML text, for errors that name the line. tomllib keeps no positions."""

from __future__ import annotations

import re

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")


def line_of(text: str, place: tuple[str | int, ...]) -> int | None:
    """The line, counted from 1, of the key at ``place``, or of the innermost table around it that has one."""
    lines = _lines(text)
    for depth in range(len(place), 0, -1):
        if place[:depth] in lines:
            return lines[place[:depth]]
    return None


def _lines(text: str) -> dict[tuple[str | int, ...], int]:
    lines: dict[tuple[str | int, ...], int] = {}
    counts: dict[tuple[str, ...], int] = {}
    table: tuple[str | int, ...] = ()
    quoted = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if quoted:
            quoted = "" if quoted in line else quoted
            continue
        if header := _HEADER.match(line):
            names = _parts(header[2])
            if header[1] == "[[":
                counts[names] = counts.get(names, -1) + 1
            table = tuple(part for depth in range(len(names)) for part in _numbered(names[: depth + 1], counts))
            lines.setdefault(table, number)
            lines.setdefault(tuple(part for part in table if isinstance(part, str)), number)
        elif key := _KEY.match(line):
            place = table + _parts(key[1])
            for depth in range(len(table) + 1, len(place) + 1):
                lines.setdefault(place[:depth], number)
            for inner in re.finditer(r"[{,]\s*([\w-]+)\s*=", line[key.end() :]):
                lines.setdefault((*place, inner[1]), number)
            quoted = next((mark for mark in ('"""', "'''") if line.count(mark) == 1), "")
    return lines


def _numbered(names: tuple[str, ...], counts: dict[tuple[str, ...], int]) -> tuple[str | int, ...]:
    return (names[-1], counts[names]) if names in counts else (names[-1],)


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(bare or quoted[1:-1] for bare, quoted in re.findall(r"""([\w-]+)|("[^"]*"|'[^']*')""", dotted))
