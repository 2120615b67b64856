"""Columns of shared text files that hold the answers: their values are those of a column of a hidden file."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

ANSWER = re.compile("(?i)label|answer|truth|target|solution")
_LEAST_ROWS = 8
_SUFFIXES = (".csv", ".tsv", ".txt", ".data")
_FILES_MOST = 300  # of shared ones, whose first lines are read
_SIZE_MOST = 8_000_000  # bytes of a file that is read to its end
_LONGEST_LINE = 100_000

Column = tuple[str, ...]


class AnswerColumn(Struct, frozen=True):
    """``is_whole``: the hidden file has all columns of the shared one."""

    name: str
    path: str
    hidden: str
    is_whole: bool


def find_answer_columns(shared: Mapping[str, Path], hidden: Mapping[str, Path]) -> Iterator[AnswerColumn]:
    """The answers in each shared file: columns with the values of a hidden one, at least 8 of them and not all equal.

    Where features are in the hidden file as well, only a column whose name says so is an answer, or the last column
    where all are shared. The first lines decide which files are read to the end.
    """
    heads = {path: head for path, file in hidden.items() if (head := _read_columns(file, _LEAST_ROWS + 1))}
    tables = (path for path in shared if path.lower().endswith(_SUFFIXES))
    for path in itertools.islice(tables, _FILES_MOST if heads else 0):
        head = _read_columns(shared[path], _LEAST_ROWS + 1)
        for hidden_path, hidden_head in heads.items():
            if not _same_columns(head, hidden_head, _LEAST_ROWS - 1):
                continue
            answers = _read_columns(hidden[hidden_path])
            columns = _read_columns(shared[path], len(answers[0]) + 2) if answers else []
            same = _same_columns(columns, answers)
            varied = [other for other, column in enumerate(answers) if len(set(column[1:])) > 1]
            names = {other: _name_of(columns[index], index) for other, index in same.items()}
            found = [name for other, name in names.items() if ANSWER.search(name + answers[other][0])]
            if not found and varied and same.keys() >= set(varied):
                found = [names[varied[-1]]]
            is_whole = len(set(same.values())) == len(columns)
            yield from (AnswerColumn(name, path, hidden_path, is_whole) for name in found)
            if found:
                break


def _same_columns(columns: list[Column], others: list[Column], rows: int | None = None) -> dict[int, int]:
    """Which of ``columns``, by the index of the other column with its values; either may begin with a header.

    With ``rows`` only so many are compared, which may be equal throughout.
    """
    indexes = dict[Column, int]()
    for start in (1, 0):
        for index, column in enumerate(columns):
            values = column[start:][:rows]
            if rows or (len(values) >= _LEAST_ROWS and len(set(column[1:])) > 1):
                indexes.setdefault(values, index)
    starts = ((other, column[start:][:rows]) for start in (0, 1) for other, column in enumerate(others))
    return {other: indexes[values] for other, values in starts if values in indexes}


def _read_columns(file: Path, rows: int | None = None) -> list[Column]:
    """The columns of a text file, or of its first ``rows``; none where rows differ in length, or it is too large."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as text:
            first = text.readline(_LONGEST_LINE)
            is_odd = len(first) == _LONGEST_LINE or file.stat().st_size > _SIZE_MOST
            if is_odd or "\0" in first:
                return []
            delimiter = max("\t;,", key=first.count)
            lines = csv.reader(itertools.chain([first], text), delimiter=delimiter, skipinitialspace=True)
            table = [row for row in itertools.islice(lines, rows) if row]
    except (OSError, ValueError, csv.Error):
        return []
    if len({len(row) for row in table}) != 1:
        return []
    return [tuple(value.strip() for value in column) for column in zip(*table, strict=True)]


def _name_of(column: Column, index: int) -> str:
    is_header = column[0] and not re.fullmatch(r"[-+.\deE]+", column[0]) and column[0] not in column[1:]
    return column[0] if is_header else str(index + 1)
