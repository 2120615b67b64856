"""``goalseek manifest``: the manifest with all its defaults, its keys explained, or the JSON Schemas."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from goalseek.cli.options import load_manifest, refuse
from goalseek.cli.output import print_answer, print_json, wants_json
from goalseek.errors import GoalseekError
from goalseek.humanize import did_you_mean
from goalseek.manifest.loading import SCHEMAS, published_schema, schema_text
from goalseek.values import to_plain

_OPEN_SIDES = (-math.inf, math.inf)


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``manifest`` takes."""
    parser.add_argument("what", nargs="?", choices=("show", "explain", "schema"), default="show", help="default: show")
    help_text = f"with explain, a key or a table, such as scope.share; with schema, {', '.join(SCHEMAS)} (manifest)"
    package = Path(__file__).parents[2]
    parser.epilog = (
        f"The templates of the prompts are in {package / 'providers' / 'prompts'}; their manual is "
        f"{package / 'guide' / 'prompts.md'}."
    )
    names = dict.fromkeys([*SCHEMAS, *manifest_keys(), *(key.last_name for key in manifest_keys().values())])
    parser.add_argument("of", metavar="OF", nargs="?", type=_read_name, choices=names, help=help_text)


def run(options: argparse.Namespace) -> int:
    """Prints the manifest, a schema, or what a key means."""
    if options.what == "schema":
        name = options.of or "manifest"
        refuse((name not in SCHEMAS, f"there is no schema {name!r}", f"one of {', '.join(SCHEMAS)}"))
        if options.query:
            print_json(options, published_schema(name))
        else:
            print(schema_text(name), end="")
        return 0
    if options.what == "explain":
        return _explain(options)
    if options.of:
        raise GoalseekError(f"manifest show takes no {options.of!r}", f"goalseek manifest schema {options.of}")
    manifest = load_manifest(options).manifest
    if wants_json(options):
        print_json(options, _with_toml_names(to_plain(manifest)))
        return 0
    import tomli_w

    print(tomli_w.dumps(_with_toml_names(_without_none(manifest))), end="")
    return 0


@dataclasses.dataclass(frozen=True)
class Key:
    """A key of the manifest, or a table: its whole name, its node in the JSON Schema, and the header of its table."""

    name: str
    node: dict[str, Any]
    is_required: bool
    header: str
    inner: tuple[Key, ...]

    @property
    def last_name(self) -> str:
        """The name within its table."""
        return self.name.rpartition(".")[2]

    @property
    def text(self) -> str:
        """The sentence that explains it."""
        return " ".join(self.node["description"].split())

    @property
    def kind(self) -> str:
        """What it takes, and what holds where it is left out: ``duration, default "30m"``."""
        kind = _kind_of(self.node)
        if self.is_required or self.inner:
            return f"{kind}, {'required' if self.is_required else 'optional'}"
        default = self.node.get("default", "")
        if default == "" or (default is None and "anyOf" in self.node):
            return f"{kind}, optional"
        if isinstance(default, int | float) and kind in _UNITS:
            unit, size = _UNITS[kind]
            default = f"{default / size:g}{unit}"
        return f"{kind}, default {'none' if default is None else _to_toml(default)}"

    @property
    def example(self) -> str:
        """A line of TOML."""
        (value,) = self.node["examples"]
        return f"{self.last_name} = {value if self.node.get('format') == 'date-time' else _to_toml(value)}"


@functools.cache
def manifest_keys() -> dict[str, Key]:
    """Every key and table of the manifest by its whole name, such as ``scope.share``; a table comes before its keys."""
    schema = published_schema("manifest")
    every = _keys_of(schema, schema, "", "")
    return {key.name: key for top in every for key in _with_inner(top)}


def _with_inner(key: Key) -> Iterator[Key]:
    yield key
    for inner in key.inner:
        yield from _with_inner(inner)


def _keys_of(schema: dict[str, Any], table: dict[str, Any], prefix: str, header: str) -> tuple[Key, ...]:
    keys = []
    for name, node in table["properties"].items():
        whole = prefix + name
        kinds = [kind for kind in node.get("anyOf", [node]) if kind.get("type") != "null"]
        is_list = "items" in kinds[0]
        reference = (kinds[0]["items"] if is_list else kinds[0]).get("$ref", "") if len(kinds) == 1 else ""
        inner = schema["$defs"].get(reference.rpartition("/")[2])
        if inner is None or inner is table:
            keys.append(Key(whole, node, name in table.get("required", ()), header, ()))
            continue
        brackets = f"[[{whole}]]" if is_list else f"[{whole}]"
        described = {"description": inner["description"], **node}
        inner_keys = _keys_of(schema, inner, f"{whole}.", brackets)
        keys.append(Key(whole, described, name in table.get("required", ()), brackets, inner_keys))
    return tuple(keys)


def _read_name(text: str) -> str:
    """The name of a schema or a key. Raises GoalseekError where there is neither."""
    name = text.strip("[]")
    if name not in SCHEMAS:
        _find_keys(name)
    return name


def _find_keys(name: str) -> list[Key]:
    """The key of this whole name, or those of this name in any table. Raises GoalseekError where there is none."""
    every = manifest_keys()
    found = [every[name]] if name in every else [key for key in every.values() if key.last_name == name]
    if found:
        return found
    near = did_you_mean(name, [*every, *(key.last_name for key in every.values())])
    hint = near or "goalseek manifest explain lists the tables"
    raise GoalseekError(f"the manifest has no key {name!r}", hint)


def _explain(options: argparse.Namespace) -> int:
    every = manifest_keys()
    found = _find_keys(options.of) if options.of else []
    if found and not (len(found) == 1 and found[0].inner):
        return _explain_keys(options, found)
    table = found[0].inner if found else tuple(key for key in every.values() if "." not in key.name)
    names = [key.header if key.inner else key.last_name for key in table]
    width = max(map(len, names))
    lines = [f"  {shown:<{width}}  {key.text}" for shown, key in zip(names, table, strict=True)]
    head = [f"{key.header}\n{key.text}\n" for key in found]
    foot = "\ngoalseek manifest explain KEY explains one key."
    print_answer(options, [_plain(key) for key in table], *head, *lines, foot)
    return 0


def _explain_keys(options: argparse.Namespace, keys: list[Key]) -> int:
    texts = []
    for key in keys:
        example = "\n".join(filter(None, [key.header, key.example]))
        texts.append(f"{key.name}: {key.kind}\n{key.text}\n\n{example}")
    print_answer(options, [_plain(key) for key in keys], "\n\n\n".join(texts))
    return 0


def _plain(key: Key) -> dict[str, Any]:
    example = None if key.inner else key.example
    return {"key": key.name, "kind": key.kind, "text": key.text, "table": key.header, "example": example}


def _kind_of(node: dict[str, Any]) -> str:
    """What kind of value a node of the schema takes, in words."""
    if "anyOf" in node:
        return " or ".join(_kind_of(kind) for kind in node["anyOf"] if kind.get("type") != "null")
    if "enum" in node:
        words = [*map(_to_toml, node["enum"])]
        return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
    if "title" in node:
        return str(node["title"])
    if "items" in node:
        return f"list of {_kind_of(node['items'])}" + "s" * ("enum" not in node["items"])
    return _KINDS.get(node.get("type", ""), "table")


_KINDS = {"string": "text", "number": "number", "integer": "whole number", "boolean": "true or false"}


_UNITS = {"duration": ("m", 60), "size": ("GiB", 2**30)}


def _to_toml(value: Any) -> str:
    """A value of JSON in one line of TOML."""
    if value is None:
        return '"none"'
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_to_toml(item)}' for key, item in value.items())} }}" if value else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_to_toml, value))}]"
    return json.dumps(value)


def _with_toml_names(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {"pass" if key == "pass_" else key: _with_toml_names(value) for key, value in plain.items()}
    return [_with_toml_names(value) for value in plain] if isinstance(plain, list) else plain


def _without_none(value: Any) -> Any:
    """Replaces None, which TOML lacks: a default of None is left out, another is "none", an open bound is infinite."""
    if dataclasses.is_dataclass(value):
        fields = {field.name: (getattr(value, field.name), field.default) for field in dataclasses.fields(value)}
        return {
            name: "none" if item is None else _without_none(item)
            for name, (item, default) in fields.items()
            if item is not None or default is not None
        }
    if isinstance(value, tuple):
        return [_OPEN_SIDES[index] if item is None else _without_none(item) for index, item in enumerate(value)]
    return to_plain(value)
