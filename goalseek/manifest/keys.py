"""The published JSON Schemas, and the keys and tables of the manifest, as its schema explains them."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

# Published beside this module: the types give them, and ``python tests/support/schemas.py`` writes them again. That of
# the brief is written by hand: no type declares a brief.
SCHEMAS = ("manifest", "records", "events", "brief", "notification", "receipt")
_KINDS = {"string": "text", "number": "number", "integer": "whole number", "boolean": "true or false"}
_UNITS = {"duration": ("m", 60), "size": ("GiB", 2**30)}


class Key(Struct, frozen=True):
    name: str  # with its tables, as scope.share
    node: dict[str, Any]  # in the JSON Schema
    is_required: bool
    header: str  # of its table
    inner: tuple[Key, ...]

    @property
    def last_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def text(self) -> str:
        return " ".join(self.node["description"].split())

    @property
    def kind(self) -> str:
        """Its type and default, as ``duration, default "30m"``."""
        kind = _kind_in_words(self.node)
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
        (value,) = self.node["examples"]
        return f"{self.last_name} = {value if self.node.get('format') == 'date-time' else _to_toml(value)}"


def published_schema(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(schema_text(name))
    return document


@functools.cache
def schema_text(name: str) -> str:
    return Path(__file__).with_name(f"{name}.schema.json").read_text("utf-8")


@functools.cache
def manifest_keys() -> dict[str, Key]:
    """By whole name, as ``scope.share``; a table comes before its keys."""
    schema = published_schema("manifest")
    return {key.name: key for key in _keys_of(schema, schema, "", "")}


def _keys_of(schema: dict[str, Any], table: dict[str, Any], prefix: str, header: str) -> Iterator[Key]:
    """The keys of a table; an inner table is followed by its own."""
    for name, node in table["properties"].items():
        whole, is_required = prefix + name, name in table.get("required", ())
        kinds = [kind for kind in node.get("anyOf", [node]) if kind.get("type") != "null"]
        is_list = "items" in kinds[0]
        reference = (kinds[0]["items"] if is_list else kinds[0]).get("$ref", "") if len(kinds) == 1 else ""
        inner = schema["$defs"].get(reference.rpartition("/")[2])
        if inner is None or inner is table:
            yield Key(whole, node, is_required, header, ())
            continue
        brackets = f"[[{whole}]]" if is_list else f"[{whole}]"
        below = [*_keys_of(schema, inner, f"{whole}.", brackets)]
        own = tuple(key for key in below if key.name == f"{whole}.{key.last_name}")
        yield Key(whole, {"description": inner["description"], **node}, is_required, brackets, own)
        yield from below


def find_keys(text: str) -> list[Key]:
    """The key or table of this whole name, in brackets or not, or those of this name in any table."""
    name, every = text.strip("[]"), manifest_keys()
    return [every[name]] if name in every else [key for key in every.values() if key.last_name == name]


def _kind_in_words(node: dict[str, Any]) -> str:
    if "anyOf" in node:
        return " or ".join(_kind_in_words(kind) for kind in node["anyOf"] if kind.get("type") != "null")
    if "enum" in node:
        words = [*map(_to_toml, node["enum"])]
        return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
    if "title" in node:
        return str(node["title"])
    if "items" in node:
        return f"list of {_kind_in_words(node['items'])}" + "s" * ("enum" not in node["items"])
    return _KINDS.get(node.get("type", ""), "table")


def _to_toml(value: Any) -> str:
    if value is None:
        return '"none"'
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_to_toml(item)}' for key, item in value.items())} }}" if value else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_to_toml, value))}]"
    return json.dumps(value)
