"""Records for a report, also damaged ones or of a later version: a missing or unfit value is an empty one."""

import json
import math
import re
import sys
import typing
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from goalseek.records import KINDS, Head, parse_record

_CLAIMED = ("difference", "value")  # a report makes claims of these: a missing one is NaN
# An integer beyond every float has 309 digits, five of them in each 60th byte: looking at these takes less than 1 us.
_HUGE, _STEP, _HUGE_IN_STEPS = re.compile(rb"[0-9]{309}"), 60, re.compile(rb"[0-9][0-9][0-9][0-9][0-9]")
_field_types = cache(partial(typing.get_type_hints, include_extras=True))


def read_record(line: bytes) -> Head | None:
    """Of an unknown kind only its head; None if the line is no record."""
    with suppress(ValueError, RecursionError):
        if not (_HUGE_IN_STEPS.search(line[::_STEP]) and _HUGE.search(line)):
            return parse_record(line)
    with suppress(ValueError, RecursionError):
        return record_of(json.loads(line))
    return None


def record_of(plain: Any) -> Head | None:
    if not isinstance(plain, dict) or not isinstance(plain.get("kind"), str):
        return None
    return typing.cast(Head, _fit(KINDS.get(plain["kind"], Head), plain))


def _fit(kind: Any, plain: Any) -> Any:
    """Convert to the type without the items that do not fit. Raises ValueError if nothing fits."""
    origin, items = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Struct):
        types, values = _field_types(kind), msgspec.convert(plain, dict[str, Any])
        fitting = dict(_fitting((name, types[name], values[name]) for name in types.keys() & values.keys()))
        missing = [field.name for field in fields(kind) if field.required and field.name not in fitting]
        return kind(**{name: _empty_value(name, types[name]) for name in missing}, **fitting)
    if origin is tuple and items[1:] == (...,):
        rows = enumerate(msgspec.convert(plain, list[Any]))
        return tuple([item for _, item in _fitting((index, items[0], item) for index, item in rows)])
    if origin is dict:
        values = msgspec.convert(plain, dict[str, Any])
        return dict(_fitting((key, items[1], item) for key, item in values.items()))
    value = msgspec.convert(plain, kind)
    if isinstance(value, int | float) and not abs(value) <= sys.float_info.max:
        raise ValueError("not a finite number")
    return value


def _fitting(items: Iterable[tuple[Any, Any, Any]]) -> Iterator[tuple[Any, Any]]:
    for key, kind, plain in items:
        try:
            yield key, _fit(kind, plain)
        except ValueError:
            continue


def _empty_value(name: str, kind: Any) -> Any:
    plain: tuple[Any, ...] = (None, "", 0, False, {}, [])
    value = next(value for _, value in _fitting((name, kind, empty) for empty in plain))
    return math.nan if value == 0 and name in _CLAIMED else value
