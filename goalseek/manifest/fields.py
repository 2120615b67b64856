"""Field forms of the manifest: how people write each kind of value, how it is read and checked, its JSON Schema."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from goalseek import humanize
from goalseek.git.paths import normalize_glob, normalize_path

LONGEST_NAME = 100


@dataclass(frozen=True)
class FieldForm:
    """Marks a field that people write in another form than its value has.

    ``read`` turns the written form into the value and raises ValueError with what would be right; ``schema`` is the
    JSON Schema of the written form.
    """

    read: Callable[[Any], Any]
    schema: dict[str, Any] = dataclasses.field(hash=False)

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(self.read, handler(source))

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return dict(self.schema)


def _duration(text: Any) -> float | None:
    return None if text in ("none", None) else humanize.parse_duration(text)


def _timeout(text: Any) -> float | str | None:
    return "auto" if text == "auto" else _duration(text)


def _optional(text: Any) -> Any:
    return None if text == "none" else text


def _count(text: Any) -> Any:
    if isinstance(text, int) and text < 1:
        raise ValueError('at least 1, or "none"')
    return _optional(text)


def _alpha(text: Any) -> Any:
    if isinstance(text, int | float) and not 0 < text <= 0.5:
        raise ValueError('more than 0 and at most 0.5, or "auto"')
    return None if text == "auto" else text


def _at_least(minimum: int) -> Callable[[Any], Any]:
    def check(text: Any) -> Any:
        if isinstance(text, int) and text < minimum:
            raise ValueError(f"at least {minimum}")
        return text

    return check


def _cost(text: Any) -> Any:
    if isinstance(text, int | float) and not 0 < text < float("inf"):
        raise ValueError('dollars, more than zero, or "none"')
    return _optional(text)


def _moment(text: Any) -> Any:
    if not isinstance(text, str) or text == "none":
        return _optional(text)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("a date and time, such as 2026-12-01T07:00:00Z") from None


def _name(text: Any) -> Any:
    if not (isinstance(text, str) and re.fullmatch(r"[a-z0-9-]+", text) and not text.startswith("-")):
        raise ValueError("a project's name is made of a-z, 0-9 and -; the branch is goalseek/<name>")
    if len(text) > LONGEST_NAME:
        why = "lock files and folders are named after it"
        raise ValueError(f"has {len(text)} characters; a project's name has {LONGEST_NAME} at most: {why}")
    return text


def _folder(text: Any) -> Any:
    if text == "":
        raise ValueError('a folder, or "none"')
    return _optional(text)


def _some(patterns: Any) -> Any:
    if not patterns:
        raise ValueError("name at least one")
    _refuse_only_negations(patterns)
    return tuple(patterns) if isinstance(patterns, list) else patterns


def _refuse_only_negations(patterns: Any) -> None:
    if patterns and isinstance(patterns, list) and all(str(pattern).startswith("!") for pattern in patterns):
        raise ValueError(f'{patterns[0]!r} takes back what nothing has named; name that first, as in ["src/**", "!x"]')


def _inner_path(path: Any) -> Any:
    if not isinstance(path, str):
        return path
    normal = normalize_path(path)
    if normal == ".":
        raise ValueError(f'{path!r} is the manifest\'s folder itself; name what is in it, such as "data"')
    return normal


def _folder_path(path: Any) -> Any:
    return normalize_path(path) if isinstance(path, str) else path


def _inner_paths(paths: Any) -> Any:
    return tuple(map(_inner_path, paths)) if isinstance(paths, list) else paths


def _globs(patterns: Any) -> Any:
    _refuse_only_negations(patterns)
    if not isinstance(patterns, list):
        return patterns
    return tuple(normalize_glob(pattern) if isinstance(pattern, str) else pattern for pattern in patterns)


def _margin(text: Any) -> Any:
    if not math.isfinite(humanize.parse_share(text, 1.0)):
        raise ValueError('a finite number, or a percentage such as "0.5%"')
    return text


def _least_margin(text: Any) -> Any:
    if humanize.parse_share(text, 1.0) < 0:
        raise ValueError('zero or more, such as 0.01 or "0.5%"; which way is better, metric.direction says')
    return text


def _pair(text: Any) -> Any:
    """The lowest and the highest number, None for a side that is open."""
    text = _optional(text)
    if text is None:
        return None
    is_pair = isinstance(text, list) and len(text) == 2 and all(isinstance(end, int | float) for end in text)
    if not is_pair or not text[0] <= text[1] or text[0] == math.inf or text[1] == -math.inf:
        raise ValueError("two numbers, the lowest and the highest, such as [0.0, 1.0], [0.0, inf] or [-inf, 0.0]")
    if text == [-math.inf, math.inf]:
        raise ValueError("every number lies between -inf and inf: name an end, such as [0.0, inf], or leave it out")
    return tuple(end if math.isfinite(end) else None for end in text)


def _endpoint(text: Any) -> Any:
    text = _optional(text)
    if text is not None and not (isinstance(text, str) and re.fullmatch(r"https?://[^\s/]+\S*", text)):
        raise ValueError("an address such as http://localhost:8080")
    return text


def _not_negative(text: Any) -> Any:
    if isinstance(text, int | float) and not 0 <= text < float("inf"):
        raise ValueError("dollars per million tokens, zero or more")
    return text


def _devices(text: Any) -> Any:
    if isinstance(text, list) and all(isinstance(path, str) and path.startswith("/dev/") for path in text):
        return tuple(text)
    if text in ("auto", "none"):
        return text
    raise ValueError('"auto", "none", or a list of paths below /dev')


_TEXT_OR_NUMBER: dict[str, Any] = {"type": ["string", "number"]}
Seconds = Annotated[float | None, FieldForm(_duration, _TEXT_OR_NUMBER)]
Timeout = Annotated[float | str | None, FieldForm(_timeout, _TEXT_OR_NUMBER)]
Size = Annotated[int, FieldForm(humanize.parse_size, {"type": ["string", "integer"]})]
Margin = Annotated[float | str, FieldForm(_margin, _TEXT_OR_NUMBER)]
LeastMargin = Annotated[float | str, FieldForm(_least_margin, _TEXT_OR_NUMBER)]
Count = Annotated[int | None, FieldForm(_count, {"type": ["integer", "string"], "minimum": 1})]
Positive = Annotated[int, FieldForm(_at_least(1), {"type": "integer", "minimum": 1})]
Whole = Annotated[int, FieldForm(_at_least(0), {"type": "integer", "minimum": 0})]
Repeats = Annotated[int, FieldForm(_at_least(2), {"type": "integer", "minimum": 2})]
Alpha = Annotated[float | None, FieldForm(_alpha, _TEXT_OR_NUMBER)]
Amount = Annotated[float | None, FieldForm(_optional, _TEXT_OR_NUMBER)]
Cost = Annotated[float | None, FieldForm(_cost, _TEXT_OR_NUMBER)]
NotNegative = Annotated[float, FieldForm(_not_negative, {"type": "number", "minimum": 0})]
Endpoint = Annotated[str | None, FieldForm(_endpoint, {"type": "string"})]
Moment = Annotated[datetime | None, FieldForm(_moment, {"type": "string", "format": "date-time"})]
_NAME: dict[str, Any] = {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]*$", "maxLength": LONGEST_NAME}
Name = Annotated[str, FieldForm(_name, _NAME)]
Patterns = tuple[str, ...]
_PATHS: dict[str, Any] = {"type": "array", "items": {"type": "string", "pattern": "^[^/]"}}
InnerPath = Annotated[str, FieldForm(_inner_path, {"type": "string", "pattern": "^[^/]"})]
InnerPaths = Annotated[Patterns, FieldForm(_inner_paths, _PATHS)]
FolderPath = Annotated[str, FieldForm(_folder_path, {"type": "string", "pattern": "^[^/]"})]
Globs = Annotated[Patterns, FieldForm(_globs, {"type": "array", "items": {"type": "string", "minLength": 1}})]
SomePatterns = Annotated[Patterns, FieldForm(_some, {"type": "array", "items": {"type": "string"}, "minItems": 1})]
Folder = Annotated[str | None, FieldForm(_folder, {"type": "string"})]
_PAIR: dict[str, Any] = {"type": ["array", "string"], "items": {"type": "number"}, "minItems": 2}
Range = Annotated[tuple[float | None, float | None] | None, FieldForm(_pair, _PAIR)]
Command = str | tuple[str, ...]
_DEVICES: dict[str, Any] = {"type": ["string", "array"], "items": {"type": "string"}}
Devices = Annotated[str | tuple[str, ...], FieldForm(_devices, _DEVICES)]
