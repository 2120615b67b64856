"""Frozen dataclasses to plain JSON values and back: how everything that goalseek stores is written.

Only what the values of this package use: dataclasses, tuples, dicts with text keys, optional values and JSON's
own types. What comes back is built by the annotations, so a field that an older file lacks takes its default.
"""

from __future__ import annotations

import functools
import json
import types
import typing
from collections.abc import Callable
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
        return typing.cast(Value, _builder(typing.cast(Any, kind))(plain))
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
def _builder(kind: Any) -> Callable[[Any], Any]:
    """A function from plain values to those of a type, put together once a type: records are read by the million."""
    if isinstance(kind, type) and is_dataclass(kind):
        return _dataclass_builder(kind)
    if kind is datetime:
        return datetime.fromisoformat
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return _tuple_builder(arguments)
    if origin is dict:
        item = _builder(arguments[1])
        return lambda plain: {key: item(value) for key, value in plain.items()}
    if origin in (types.UnionType, typing.Union):
        return _union_builder([choice for choice in arguments if choice is not type(None)])
    if kind in _SCALARS:
        return functools.partial(_as_it_is, _SCALARS[kind])
    return lambda plain: plain


def _dataclass_builder(kind: type) -> Callable[[Any], Any]:
    @functools.cache
    def parts() -> list[tuple[str, Callable[[Any], Any], bool]]:
        hints = typing.get_type_hints(kind)  # at the first value: a type may have one of its own kind in it
        return [
            (field.name, _builder(hints[field.name]), field.default is MISSING and field.default_factory is MISSING)
            for field in fields(kind)
        ]

    def build(plain: Any) -> Any:
        _must_be(dict, plain)
        values = {}
        for name, item, is_required in parts():
            if name in plain:
                values[name] = item(plain[name])
            elif is_required:
                raise KeyError(name)
        return kind(**values)

    return build


def _union_builder(choices: list[Any]) -> Callable[[Any], Any]:
    """Of several types only a dataclass is built, from a dict; anything else is taken as it is."""
    built: list[Any] = [choice for choice in choices if is_dataclass(choice)]
    if len(choices) == 1:
        only = _builder(choices[0])
    elif len(built) == 1:
        table = _builder(built[0])

        def only(plain: Any) -> Any:
            return table(plain) if isinstance(plain, dict) else plain

    else:

        def only(plain: Any) -> Any:
            return plain

    return lambda plain: None if plain is None else only(plain)


def _tuple_builder(arguments: tuple[Any, ...]) -> Callable[[Any], Any]:
    if arguments[-1] is Ellipsis:
        item = _builder(arguments[0])

        def build(plain: Any) -> Any:
            _must_be(list, plain)
            return tuple([item(value) for value in plain])

        return build
    items = [_builder(argument) for argument in arguments]

    def build_each(plain: Any) -> Any:
        _must_be(list, plain)
        return tuple(items[place](value) for place, value in enumerate(plain))

    return build_each


def _as_it_is(kind: type | tuple[type, ...], plain: Any) -> Any:
    if not isinstance(plain, kind):
        _must_be(kind, plain)
    return plain


def _must_be(kind: type | tuple[type, ...], plain: Any) -> None:
    if not isinstance(plain, kind):
        raise TypeError(f"{plain!r:.80} is no {kind}")
