"""Validation of a manifest: keys, types, values, rules between tables, and defaults. Errors name line and key."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import fields, is_dataclass, replace
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from goalseek.errors import GoalseekError
from goalseek.git.ignore import matcher
from goalseek.manifest import tables
from goalseek.manifest.rules import Fault, check_rules, words_of
from goalseek.manifest.tables import Holdout, Manifest, Source

_RENAMED = {"pass_": "pass"}
_IN_TOML = {
    "should be a valid array": 'should be a list, such as ["a", "b"]',
    "should be a valid integer": "should be a whole number, such as 1_000",
    "should be a valid number": "should be a number, such as 0.5",
    "should be a finite number": "should be a finite number; for no limit, leave it out",
    "should be a valid boolean": "should be true or false",
    "should be a valid string": 'should be a text in quotes, such as "a"',
    "should be an object": 'should be a table, such as { key = "a" }',
}
_REQUIRED = {
    "version": "version = 1",
    "project": 'project.name = "digits"',
    "scope": 'scope.writable = ["experiment.py"]',
    "scope.writable": 'scope.writable = ["experiment.py"]',
    "metric": 'metric = { direction = "maximize", query = "accuracy" }',
    "verify": '[[verify]] with run = "python validate_results.py"',
}


def validate(path: Path, text: str, plain: dict[str, Any]) -> Manifest:
    """The manifest with every default in place. Raises GoalseekError with a line for each thing that is wrong."""
    result = _validate(_as_json(plain))
    if isinstance(result, Manifest):
        manifest = _fill_defaults(result, path.parent)
        faults = list(check_rules(manifest))
        if not faults:
            return manifest
    else:
        faults = result
    lines = sorted((line_of(text, location) or 1, f"{_dotted_key(location)}: {reason}") for location, reason in faults)
    message = "\n".join(f"{path}:{line}: {fault}" for line, fault in lines)
    raise GoalseekError(message, "the manifest's keys: goalseek manifest schema")


def schema() -> dict[str, Any]:
    """JSON Schema of the manifest as people write it."""
    text = json.dumps(_adapter().json_schema())
    for inside, outside in _RENAMED.items():
        text = text.replace(f'"{inside}"', f'"{outside}"')
    document: dict[str, Any] = json.loads(text)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "goalseek manifest", **document}


@functools.cache
def _adapter() -> Any:
    from pydantic import TypeAdapter

    for table in vars(tables).values():
        if isinstance(table, type) and is_dataclass(table):
            table.__pydantic_config__ = {"extra": "forbid", "strict": True, "allow_inf_nan": False}  # type: ignore[attr-defined]
    return TypeAdapter(Manifest)


def _validate(plain: Any) -> Manifest | list[Fault]:
    from pydantic import ValidationError

    try:
        manifest: Manifest = _adapter().validate_json(json.dumps(plain))
        return manifest
    except ValidationError as error:
        faults: dict[tuple[str | int, ...], str] = {}
        for item in error.errors():
            location = tuple(_RENAMED.get(str(part), part) for part in item["loc"] if not _is_choice(part))
            faults.setdefault(location, _message_of(item, location))
        return list(faults.items())


def _is_choice(part: str | int) -> bool:
    return isinstance(part, str) and (
        "[" in part or part in ("str", "float", "int") or is_dataclass(getattr(tables, part, None))
    )


def _message_of(item: Any, location: tuple[str | int, ...]) -> str:
    if item["type"] == "unexpected_keyword_argument":
        known = _known_keys(location[:-1])
        return f"there is no such key; known here: {', '.join(known)}" if known else "there is no such key"
    if item["type"] == "missing":
        example = _REQUIRED.get(_dotted_key(location))
        return f"is required: {example}" if example else "is required"
    message: str = item["msg"]
    message = message.removeprefix("Value error, ").replace("Input should be", "should be")
    message = _IN_TOML.get(message, message)
    if isinstance(item["input"], dict) and len(location) == 1 and message.startswith("should be a list"):
        message = f"should be a list of tables: [[{location[0]}]] in double brackets"
    shown = json.dumps(item["input"], default=str)
    return message if len(shown) > 60 or item["type"] in ("value_error", "finite_number") else f"{message}, not {shown}"


def _known_keys(location: tuple[str | int, ...]) -> list[str]:
    import typing

    kind: Any = Manifest
    for part in location:
        if isinstance(part, int):
            inside = typing.get_args(kind)[:1]
            kind = next((inner for inner in (*typing.get_args(*inside), *inside) if is_dataclass(inner)), None)
            continue
        if not is_dataclass(kind):
            return []
        hints = typing.get_type_hints(kind)
        name = next((inside for inside, outside in _RENAMED.items() if outside == part), part)
        kind = hints.get(name)
        choices = [choice for choice in typing.get_args(kind) if is_dataclass(choice)]
        if typing.get_origin(kind) is not tuple and choices:
            kind = choices[0]
    if not (isinstance(kind, type) and is_dataclass(kind)):
        return []
    return [_RENAMED.get(field.name, field.name) for field in fields(kind)]


def _as_json(plain: Any) -> Any:
    if isinstance(plain, dict):
        renamed = {outside: inside for inside, outside in _RENAMED.items()}
        return {renamed.get(key, key): _as_json(value) for key, value in plain.items()}
    if isinstance(plain, list):
        return [_as_json(value) for value in plain]
    return plain.isoformat() if isinstance(plain, date | datetime | time) else plain


def _fill_defaults(manifest: Manifest, folder: Path) -> Manifest:
    """Fills in the defaults that depend on other keys."""
    hidden = matcher(manifest.scope.hidden)
    outside_folder = folder / manifest.scope.hidden_from if manifest.scope.hidden_from else None

    def is_hidden(word: str) -> bool:
        return hidden(word) or (outside_folder is not None and (outside_folder / word).is_file())

    verify = tuple(_fill_command(command, is_hidden) for command in manifest.verify)
    last = verify[-1].name if verify else ""
    metric = _fill_reading(manifest.metric, last, "metric")
    guards = tuple(_fill_reading(guard, last, "guard") for guard in manifest.guard)
    holdout = _fill_holdout(manifest.holdout, is_hidden) if manifest.holdout else None
    return replace(manifest, verify=verify, metric=metric, guard=guards, holdout=holdout)


def _fill_holdout(holdout: Holdout, is_hidden: Any) -> Holdout:
    filled: Holdout = _fill_command(holdout, is_hidden)
    return replace(filled, source=_source_of(holdout))


def _fill_command(command: Any, is_hidden: Any) -> Any:
    words = words_of(command)
    names_hidden = any(is_hidden(word.removeprefix("./")) for word in words)
    return replace(
        command,
        name=command.name or (Path(words[0]).name if words else ""),
        sees=command.sees or ("hidden" if names_hidden else "candidate"),
    )


def _fill_reading(reading: Any, last: str, fallback: str) -> Any:
    name = reading.name or reading.query or fallback
    return replace(reading, source=_source_of(reading), name=name, command=reading.command or last)


def _source_of(reading: Any) -> Source | None:
    return reading.source or ("json" if reading.query else "stdout" if reading.regex else None)


def _dotted_key(location: tuple[str | int, ...]) -> str:
    return (
        "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")
        or "manifest"
    )


_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")


def line_of(text: str, location: tuple[str | int, ...]) -> int | None:
    """The line, counted from 1, of the key at ``location``, or of the innermost table around it that has one."""
    lines = _lines(text)
    for depth in range(len(location), 0, -1):
        if location[:depth] in lines:
            return lines[location[:depth]]
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
            table = tuple(part for depth in range(len(names)) for part in _with_index(names[: depth + 1], counts))
            lines.setdefault(table, number)
            lines.setdefault(tuple(part for part in table if isinstance(part, str)), number)
        elif key := _KEY.match(line):
            location = table + _parts(key[1])
            for depth in range(len(table) + 1, len(location) + 1):
                lines.setdefault(location[:depth], number)
            for inner in re.finditer(r"[{,]\s*([\w-]+)\s*=", line[key.end() :]):
                lines.setdefault((*location, inner[1]), number)
            quoted = next((mark for mark in ('"""', "'''") if line.count(mark) == 1), "")
    return lines


def _with_index(names: tuple[str, ...], counts: dict[tuple[str, ...], int]) -> tuple[str | int, ...]:
    return (names[-1], counts[names]) if names in counts else (names[-1],)


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(bare or quoted[1:-1] for bare, quoted in re.findall(r"""([\w-]+)|("[^"]*"|'[^']*')""", dotted))
