"""``goalseek manifest``: what holds, every default written out; or the schema of what goalseek reads or writes."""

from __future__ import annotations

import argparse
import dataclasses
import math
from typing import Any

from goalseek.cli.options import loaded
from goalseek.cli.output import answer, wants_json
from goalseek.errors import GoalseekError
from goalseek.manifest import json_schema
from goalseek.values import to_plain

_OPEN_SIDES = (-math.inf, math.inf)


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``manifest`` takes."""
    parser.add_argument("what", nargs="?", choices=("show", "schema"), default="show")
    of = "the schema of: the manifest (usual), a line of results.jsonl, an event of iterate --json, an agent's brief"
    parser.add_argument("of", nargs="?", choices=json_schema.NAMES, help=of)


def run(options: argparse.Namespace) -> int:
    """Prints one or the other."""
    if options.what == "schema":
        options.json = True
        answer(options, json_schema.published(options.of or "manifest"))
        return 0
    if options.of:
        raise GoalseekError(f"manifest show takes no {options.of!r}", f"goalseek manifest schema {options.of}")
    manifest = loaded(options).manifest
    if wants_json(options):
        answer(options, _as_written(to_plain(manifest)))
        return 0
    import tomli_w

    print(tomli_w.dumps(_as_written(_without_nothing(manifest))), end="")
    return 0


def _as_written(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {"pass" if key == "pass_" else key: _as_written(value) for key, value in plain.items()}
    return [_as_written(value) for value in plain] if isinstance(plain, list) else plain


def _without_nothing(value: Any) -> Any:
    """TOML has no null: what is off by default is left out, what was switched off is "none", an open side infinite."""
    if dataclasses.is_dataclass(value):
        found = {field.name: (getattr(value, field.name), field.default) for field in dataclasses.fields(value)}
        return {
            name: "none" if item is None else _without_nothing(item)
            for name, (item, default) in found.items()
            if item is not None or default is not None
        }
    if isinstance(value, tuple):
        return [_OPEN_SIDES[place] if item is None else _without_nothing(item) for place, item in enumerate(value)]
    return to_plain(value)
