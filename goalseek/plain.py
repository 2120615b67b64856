"""Frozen dataclasses to plain JSON values and back: how everything that goalseek stores is written.

Only what the values of this package use: dataclasses, tuples, dicts with text keys, optional values and JSON's
own types. What comes back is built by the annotations, so a field that an older file lacks takes its default.
"""

from __future__ import annotations

import functools
import json
import types
import typing
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from typing import Any, TypeVar

Value = TypeVar("Value")
_ATOMS = frozenset({str, int, float, bool, type(None)})
LEFT_OUT = "left out where it is None"  # in the metadata of a field
_LEFT_OUT: dict[type, tuple[str, ...]] = {}
_NAMES: dict[type, tuple[str, ...] | None] = {}
_SCALARS: dict[Any, type | tuple[type, ...]] = {str: str, bool: bool, int: int, float: (int, float)}


def to_plain(value: Any) -> Any:
    """The JSON form of a value: dicts in the order of the fields, tuples as lists."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    names = _field_names(kind)
    if names is not None:
        plain = {name: to_plain(getattr(value, name)) for name in names}
        for name in _LEFT_OUT[kind]:
            if plain[name] is None:
                del plain[name]
        return plain
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_plain(item) for item in value]
    return value.isoformat() if isinstance(value, datetime) else value


def from_plain(kind: type[Value], plain: Any) -> Value:
    """The value of type ``kind`` that ``plain`` describes. Raises ValueError where it does not fit."""
    try:
        return typing.cast(Value, _build(kind, plain))
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"not a {kind.__name__}: {error}") from error


def to_line(value: Any) -> str:
    """One line of ASCII JSON without a newline; the same value always gives the same bytes."""
    return json.dumps(to_plain(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _field_names(kind: type) -> tuple[str, ...] | None:
    if kind not in _NAMES:
        found = fields(kind) if is_dataclass(kind) else ()
        _LEFT_OUT[kind] = tuple(field.name for field in found if LEFT_OUT in field.metadata)
        _NAMES[kind] = tuple(field.name for field in found) if is_dataclass(kind) else None
    return _NAMES[kind]


@functools.cache
def _annotations(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _build(kind: Any, plain: Any) -> Any:
    if isinstance(kind, type) and is_dataclass(kind):
        _must_be(dict, plain)
        hints = _annotations(kind)
        values = {}
        for field in fields(kind):
            if field.name in plain:
                values[field.name] = _build(hints[field.name], plain[field.name])
            elif field.default is MISSING and field.default_factory is MISSING:
                raise KeyError(field.name)
        return kind(**values)
    if kind is datetime:
        return datetime.fromisoformat(plain)
    origin = typing.get_origin(kind)
    if origin is tuple:
        _must_be(list, plain)
        return tuple(_build(_item_kind(kind, place), item) for place, item in enumerate(plain))
    if origin is dict:
        item_kind = typing.get_args(kind)[1]
        return {key: _build(item_kind, item) for key, item in plain.items()}
    if origin in (types.UnionType, typing.Union):
        if plain is None:
            return None
        choices = [choice for choice in typing.get_args(kind) if choice is not type(None)]
        if isinstance(plain, dict):
            choices = [choice for choice in choices if is_dataclass(choice)] or choices
        return _build(choices[0], plain) if len(choices) == 1 else plain
    if kind in _SCALARS:
        _must_be(_SCALARS[kind], plain)
    return plain


def _must_be(kind: type | tuple[type, ...], plain: Any) -> None:
    if not isinstance(plain, kind):
        raise TypeError(f"{plain!r:.80} is no {kind}")


def _item_kind(kind: Any, place: int) -> Any:
    arguments = typing.get_args(kind)
    return arguments[0] if arguments[-1] is Ellipsis else arguments[place]
