"""Validation of a manifest: keys, types, values, rules between tables, and defaults. Errors name line and key."""

import dataclasses
import functools
import json
import re
import typing
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import fields, replace

from goalseek.errors import GoalseekError
from goalseek.git.ignore import matcher
from goalseek.humanize import did_you_mean
from goalseek.manifest import tables
from goalseek.manifest.command_words import parse_command
from goalseek.manifest.keys import manifest_keys
from goalseek.manifest.rules import Location, check_rules
from goalseek.manifest.tables import Manifest, Metric, Reading, VerifyCommand

AnyReading = TypeVar("AnyReading", bound=Reading)

_IN_TOML = {
    "should be a valid array": 'should be a list, such as ["a", "b"]',
    "should be a valid integer": "should be a whole number, such as 1_000",
    "should be a valid number": "should be a number, such as 0.5",
    "should be a finite number": "should be a finite number; for no limit, leave it out",
    "should be a valid boolean": "should be true or false",
    "should be a valid string": 'should be a text in quotes, such as "a"',
    "should be 'worst' or 'fail'": "should be 'worst', 'fail' or a number",
    "should be an object": 'should be a table, such as { key = "a" }',
}
_REQUIRED = {
    "version": "version = 1",
    "project": 'project.name = "digits"',
    "scope": 'scope.writable = ["experiment.py"]',
    "scope.writable": 'scope.writable = ["experiment.py"]',
    "metric": 'metric = { direction = "maximize", query = "accuracy" }',
    "verify": '[[verify]] with run = "python validate_results.py"',
    "holdout.command": 'holdout.command = "final"',
}
_OF_COMMAND = "run name cwd sees outputs output_max once keep timeout network".split()
_OF_METRIC = "source path matches valid".split()
_RECORDINGS = [f"{table}.recordings" for table in "provider provider.plan provider.fallback search.rotate".split()]
_LOOP = "goalseek repeats promising candidates, up to metric.max_repeats times; for more runs, loop in the command"
REMOVED = {
    "metric.repeats": _LOOP,
    "metric.aggregate": _LOOP,
    "parallel.slots": "a command reads its bench from $GOALSEEK_SLOT: CUDA_VISIBLE_DEVICES=$GOALSEEK_SLOT ./train",
    "notify.on": "the program gets every event, and its `event` field says which",
    **dict.fromkeys(_RECORDINGS, "name the folder in `record`"),
    **{f"holdout.{key}": "move it to a [[verify]] that holdout.command names" for key in _OF_COMMAND},
    **{f"holdout.{key}": f"the holdout is read by metric.{key}; query or regex may differ" for key in _OF_METRIC},
}
"""Keys of earlier versions, without the indices of lists, and what to write or do instead."""
_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")


def validate(path: Path, text: str, plain: dict[str, Any]) -> Manifest:
    """``plain`` with every default in place. Raises GoalseekError with a line for each fault."""
    from pydantic import ValidationError

    def is_choice(part: str | int) -> bool:
        return isinstance(part, str) and (
            "[" in part or part in ("str", "float", "int") or _is_table(getattr(tables, part, None))
        )

    try:
        as_json = json.dumps(plain, default=lambda moment: moment.isoformat())
        checked = msgspec.convert(type_adapter().validate_json(as_json), Manifest, from_attributes=True)
        manifest = _fill_defaults(checked, path.parent)
        if not (faults := list(check_rules(manifest))):
            return manifest
    except ValidationError as error:
        found: dict[Location, str] = {}
        for item in error.errors():
            location = tuple(part for part in item["loc"] if not is_choice(part))
            found.setdefault(location, _message_of(item, location))
        faults = list(found.items())
    lines_by_key = _lines(text)

    def line_of(location: Location) -> int:
        """Of the key, or of the innermost table around it that has a line."""
        outwards = (location[:depth] for depth in range(len(location), 0, -1))
        return next((lines_by_key[key] for key in outwards if key in lines_by_key), 1)

    lines = sorted((line_of(location), f"{_dotted_key(location)}: {reason}") for location, reason in faults)
    message = "\n".join(f"{path}:{line}: {fault}" for line, fault in lines)
    raise GoalseekError(message, "goalseek help manifest lists the keys")


@functools.cache
def type_adapter() -> Any:
    """Checks the written form of a manifest, and gives its JSON Schema."""
    from pydantic import TypeAdapter

    config: dict[str, Any] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}
    config["alias_generator"] = lambda field_name: field_name.removesuffix("_")
    for table in filter(_is_table, vars(tables).values()):
        show_to_pydantic(table, __pydantic_config__=config)
    return TypeAdapter(Manifest)


def show_to_pydantic(kind: Any, **namespace: Any) -> None:
    """Let pydantic, which knows no Struct, check one by a dataclass of the same fields."""
    hints = typing.get_type_hints(kind, include_extras=True)
    rows = []
    for row in fields(kind):
        defaults = {name: getattr(row, name) for name in ("default", "default_factory")}
        known = {name: value for name, value in defaults.items() if value is not NODEFAULT}
        rows.append((row.name, hints[row.name], dataclasses.field(**known)))
    namespace["__doc__"] = kind.__doc__
    twin = dataclasses.make_dataclass(kind.__name__, rows, namespace=namespace, kw_only=True)
    kind.__get_pydantic_core_schema__ = lambda source, handler: handler.generate_schema(twin)


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct) and kind is not Struct


def _message_of(item: Any, location: Location) -> str:
    if item["type"] == "unexpected_keyword_argument":
        if instead := REMOVED.get(".".join(part for part in location if isinstance(part, str))):
            return f"was removed: {instead}"
        known = _known_keys(location[:-1])
        near = did_you_mean(str(location[-1]), known) or (f"known here: {', '.join(known)}" if known else "")
        return "; ".join(filter(None, ("unknown key", near)))
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


def _known_keys(location: Location) -> list[str]:
    keys, name = manifest_keys(), ".".join(part for part in location if isinstance(part, str))
    if not name:
        return [key for key in keys if "." not in key]
    inner = keys[name].inner if name in keys else ()
    return [key.last_name for key in inner or keys["provider"].inner]  # else it is a provider below another table


def _fill_defaults(manifest: Manifest, folder: Path) -> Manifest:
    hidden = matcher(manifest.scope.hidden)
    outside_folder = folder / manifest.scope.hidden_from if manifest.scope.hidden_from else None

    def is_hidden(word: str) -> bool:
        return hidden(word) or (outside_folder is not None and (outside_folder / word).is_file())

    def fill_command(command: VerifyCommand) -> VerifyCommand:
        words = parse_command(command.run)
        return replace(
            command,
            name=command.name or (Path(words.plain[0]).name if words.plain else ""),
            sees=command.sees or ("hidden" if words.names(is_hidden) else "candidate"),
        )

    def fill_reading(reading: AnyReading, fallback: str) -> AnyReading:
        name = reading.name or reading.query or fallback
        is_json = reading.query or (isinstance(reading, Metric) and reading.cases is not None)
        source = reading.source or ("json" if is_json else "stdout" if reading.regex else None)
        return replace(reading, source=source, name=name, command=reading.command or last)

    manifest = replace(manifest, verify=tuple(map(fill_command, manifest.verify)))
    last = manifest.commands[-1].name if manifest.commands else ""
    return replace(
        manifest,
        metric=fill_reading(manifest.metric, "metric"),
        guard=tuple(fill_reading(guard, "guard") for guard in manifest.guard),
    )


def _dotted_key(location: Location) -> str:
    keys = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return keys.removeprefix(".") or "manifest"


def _lines(text: str) -> dict[Location, int]:
    lines: dict[Location, int] = {}
    counts: dict[tuple[str, ...], int] = {}
    table: Location = ()
    quoted = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if quoted:
            quoted = "" if quoted in line else quoted
            continue
        if header := _HEADER.match(line):
            names = _parts(header[2])
            if header[1] == "[[":
                counts[names] = counts.get(names, -1) + 1
            table = ()
            for depth, name in enumerate(names, start=1):
                count = counts.get(names[:depth])
                table += (name,) if count is None else (name, count)
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


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(bare or quoted[1:-1] for bare, quoted in re.findall(r"""([\w-]+)|("[^"]*"|'[^']*')""", dotted))
