"""Field forms of the manifest: the written form of each kind of value, its reading and checks, its JSON Schema."""

import math
import re
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal

from goalseek import humanize
from goalseek.git.paths import normalize_glob, normalize_path

_LONGEST_NAME = 100
MOST_AT_ONCE = 64  # each takes a tree, a thread and some open files
_Read = Callable[[Any], Any]


class FieldForm:
    """A field whose written form differs from its value.

    ``read`` raises ValueError with the remedy, and may leave other types as they are, for pydantic to refuse.
    ``schema`` is of the written form.
    """

    def __init__(self, read: _Read, schema: dict[str, Any]) -> None:
        self.read = read
        self.schema = schema

    def __get_pydantic_core_schema__(self, source: Any, handler: _Read) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(self.read, handler(source))

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return dict(self.schema)


def _with_word(word: str, read: _Read, value: Any = None) -> _Read:
    """``word`` stands for ``value``."""
    return lambda text: value if text == word else read(text)


def _check(fits: Callable[[Any], Any], remedy: str, kind: Any = object) -> _Read:
    """Refuses a value of this ``kind`` that does not fit; pydantic refuses those of other kinds."""

    def read(text: Any) -> Any:
        if isinstance(text, kind) and not fits(text):
            raise ValueError(remedy)
        return text

    return read


def _at_least(minimum: int) -> _Read:
    return _check(lambda count: count >= minimum, f"at least {minimum}", int)


def is_branch_prefix(text: str) -> bool:
    part = r"[A-Za-z0-9_-]([A-Za-z0-9._-]*[A-Za-z0-9_-])?"
    return bool(re.fullmatch(rf"{part}(/{part})*", text)) and not re.search(r"\.\.|\.lock(/|$)|^-", text)


def _name(text: Any) -> Any:
    if not (isinstance(text, str) and re.fullmatch(r"[a-z0-9-]+", text) and not text.startswith("-")):
        raise ValueError("a project's name is made of a-z, 0-9 and -; the branch is named after it")
    if len(text) > _LONGEST_NAME:
        why = "lock files and folders are named after it"
        raise ValueError(f"has {len(text)} characters; a project's name has {_LONGEST_NAME} at most: {why}")
    return text


def _branch_prefix(text: Any) -> Any:
    if not (isinstance(text, str) and is_branch_prefix(text)):
        raise ValueError(f"{text!r} cannot begin the name of a branch; the branch is PREFIX/<name>")
    return text


def _moment(text: Any) -> Any:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else text
    except ValueError:
        raise ValueError("a date and time, such as 2026-12-01T07:00:00Z") from None


def _folder_path(path: Any) -> Any:
    return normalize_path(path) if isinstance(path, str) else path


def _inner_path(path: Any) -> Any:
    normal = _folder_path(path)
    if normal == ".":
        raise ValueError(f'{path!r} is the manifest\'s folder itself; name what is in it, such as "data"')
    return normal


def _inner_paths(paths: Any) -> Any:
    return tuple(map(_inner_path, paths)) if isinstance(paths, list) else paths


def _patterns(patterns: Any) -> Any:
    if not isinstance(patterns, list):
        return patterns
    if patterns and all(str(pattern).startswith("!") for pattern in patterns):
        raise ValueError(f'{patterns[0]!r} excludes from nothing; put a pattern before it, as in ["src/**", "!x"]')
    return tuple(patterns)


def _some(patterns: Any) -> Any:
    if not patterns:
        raise ValueError("name at least one")
    return _patterns(patterns)


def _globs(patterns: Any) -> Any:
    patterns = _patterns(patterns)
    if not isinstance(patterns, tuple):
        return patterns
    return tuple(normalize_glob(pattern) if isinstance(pattern, str) else pattern for pattern in patterns)


def _range(text: Any) -> Any:
    is_pair = isinstance(text, list) and len(text) == 2 and all(isinstance(end, int | float) for end in text)
    if not is_pair or not text[0] <= text[1] or text[0] == math.inf or text[1] == -math.inf:
        raise ValueError("two numbers, the lowest and the highest, such as [0.0, 1.0], [0.0, inf] or [-inf, 0.0]")
    if text == [-math.inf, math.inf]:
        raise ValueError("every number lies between -inf and inf: name an end, such as [0.0, inf], or leave it out")
    return tuple(end if math.isfinite(end) else None for end in text)


def _devices(text: Any) -> Any:
    if isinstance(text, list) and all(isinstance(path, str) and path.startswith("/dev/") for path in text):
        return tuple(text)
    if text in ("auto", "none"):
        return text
    raise ValueError('"auto", "none", or a list of paths below /dev')


def _is_few(count: Any) -> bool:
    return isinstance(count, int) and 1 <= count <= MOST_AT_ONCE


def _is_address(text: Any) -> bool:
    return isinstance(text, str) and re.fullmatch(r"https?://[^\s/]+\S*", text) is not None


def _cluster(text: Any) -> Any:
    host = r"(?!-)[^\s,'\"`$\\;&<>|(){}]+"  # as ssh has it; another would be an option, or words for a shell
    kinds = rf"none|local:[1-9]\d?|tls://[^\s/]+:\d+|file:\S+|ssh:{host}(,{host})*"
    if not isinstance(text, str) or re.fullmatch(kinds, text):
        return text
    if text.startswith("tcp://"):
        why = "over plain tcp, a scheduler runs Python for whoever reaches its port, an agent with the network included"
        raise ValueError(f"{why}: give it certificates, and write tls://")
    raise ValueError('"none", "local:4", "ssh:HOST,HOST", "tls://HOST:PORT" or "file:PATH"')


_FEW, _NUMBER = f"a number from 1 to {MOST_AT_ONCE}", int | float
_duration = _with_word("none", humanize.parse_duration)
_count = _with_word("none", _check(lambda count: count >= 1, 'at least 1, or "none"', int))
_agents = _with_word("auto", _check(_is_few, f'{_FEW}, or "auto"', int | str), "auto")
_alpha = _with_word("auto", _check(lambda share: 0 < share <= 0.5, 'more than 0 and at most 0.5, or "auto"', _NUMBER))
_cost = _with_word("none", _check(lambda cost: 0 < cost < math.inf, 'dollars, more than zero, or "none"', _NUMBER))
_price = _check(lambda cost: 0 <= cost < math.inf, "dollars per million tokens, zero or more", _NUMBER)
_folder = _with_word("none", _check(lambda folder: folder != "", 'a folder, or "none"'))
_endpoint = _with_word("none", _check(_is_address, "an address such as http://localhost:8080"))
_margin = _check(
    lambda text: math.isfinite(humanize.parse_share(text, 1.0)), 'a finite number, or a percentage such as "0.5%"'
)
_least_margin = _check(
    lambda text: not humanize.parse_share(text, 1.0) < 0,
    'zero or more, such as 0.01 or "0.5%"; metric.direction says which way is better',
)
_TEXT_OR_NUMBER: dict[str, Any] = {"type": ["string", "number"]}
_DURATION = {**_TEXT_OR_NUMBER, "title": "duration"}
_MARGIN = {**_TEXT_OR_NUMBER, "title": "number or percentage"}
_LIMIT = {**_TEXT_OR_NUMBER, "title": "number"}
_NAME: dict[str, Any] = {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]*$", "maxLength": _LONGEST_NAME}
_MOMENT = {"type": "string", "format": "date-time", "title": "date and time"}
_PATH = {"type": "string", "pattern": "^[^/]", "title": "path"}
_DEVICES: dict[str, Any] = {"type": ["string", "array"], "items": {"type": "string"}, "title": "list of paths"}
_PAIR: dict[str, Any] = {
    "type": ["array", "string"],
    "items": {"type": "number"},
    "minItems": 2,
    "title": "two numbers",
}
_AT_ONCE: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": MOST_AT_ONCE}
_AGENTS: dict[str, Any] = {**_AT_ONCE, "type": ["integer", "string"], "title": 'whole number or "auto"'}
Patterns = tuple[str, ...]
Command = str | tuple[str, ...]
Seconds = Annotated[float | None, FieldForm(_duration, _DURATION)]
Timeout = Annotated[float | str | None, FieldForm(_with_word("auto", _duration, "auto"), _DURATION)]
Size = Annotated[int, FieldForm(humanize.parse_size, {"type": ["string", "integer"], "title": "size"})]
Margin = Annotated[float | str, FieldForm(_margin, _MARGIN)]
LeastMargin = Annotated[float | str, FieldForm(_least_margin, _MARGIN)]
Count = Annotated[int | None, FieldForm(_count, {"type": ["integer", "string"], "minimum": 1, "title": "whole number"})]
Positive = Annotated[int, FieldForm(_at_least(1), {"type": "integer", "minimum": 1})]
Whole = Annotated[int, FieldForm(_at_least(0), {"type": "integer", "minimum": 0})]
Agents = Annotated[int | Literal["auto"], FieldForm(_agents, _AGENTS)]
Benches = Annotated[int, FieldForm(_check(_is_few, _FEW, int), _AT_ONCE)]
Cluster = Annotated[str, FieldForm(_cluster, {"type": "string"})]
Repeats = Annotated[int, FieldForm(_at_least(2), {"type": "integer", "minimum": 2})]
Alpha = Annotated[float | None, FieldForm(_alpha, _LIMIT)]
Amount = Annotated[float | None, FieldForm(_with_word("none", lambda text: text), _LIMIT)]
Cost = Annotated[float | None, FieldForm(_cost, _LIMIT)]
NotNegative = Annotated[float, FieldForm(_price, {"type": "number", "minimum": 0})]
Endpoint = Annotated[str | None, FieldForm(_endpoint, {"type": "string"})]
Moment = Annotated[datetime | None, FieldForm(_with_word("none", _moment), _MOMENT)]
Name = Annotated[str, FieldForm(_name, _NAME)]
BranchPrefix = Annotated[str, FieldForm(_branch_prefix, {"type": "string", "pattern": "^[A-Za-z0-9._/-]+$"})]
InnerPath = Annotated[str, FieldForm(_inner_path, _PATH)]
InnerPaths = Annotated[Patterns, FieldForm(_inner_paths, {"type": "array", "items": _PATH})]
FolderPath = Annotated[str, FieldForm(_folder_path, _PATH)]
Globs = Annotated[Patterns, FieldForm(_globs, {"type": "array", "items": {"type": "string", "minLength": 1}})]
SomePatterns = Annotated[Patterns, FieldForm(_some, {"type": "array", "items": {"type": "string"}, "minItems": 1})]
Folder = Annotated[str | None, FieldForm(_folder, {"type": "string"})]
Range = Annotated[tuple[float | None, float | None] | None, FieldForm(_with_word("none", _range), _PAIR)]
Devices = Annotated[str | tuple[str, ...], FieldForm(_devices, _DEVICES)]
