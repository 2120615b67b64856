"""``goalseek manifest``: what holds, every default written out; or the schema."""

from __future__ import annotations

import argparse
from typing import Any

from goalseek import manifest_file
from goalseek.cli.answer import answer, wants_json
from goalseek.cli.options import loaded
from goalseek.plain import to_plain


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``manifest`` takes."""
    parser.add_argument("what", nargs="?", choices=("show", "schema"), default="show")


def run(options: argparse.Namespace) -> int:
    """Prints one or the other."""
    if options.what == "schema":
        options.json = True
        answer(options, manifest_file.schema())
        return 0
    plain = _as_written(to_plain(loaded(options).manifest))
    if wants_json(options):
        answer(options, plain)
        return 0
    import tomli_w

    print(tomli_w.dumps(_without_nothing(plain)), end="")
    return 0


def _as_written(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {"pass" if key == "pass_" else key: _as_written(value) for key, value in plain.items()}
    return [_as_written(value) for value in plain] if isinstance(plain, list) else plain


def _without_nothing(plain: Any) -> Any:
    """TOML has no null: a limit that is off is left out."""
    if isinstance(plain, dict):
        return {key: _without_nothing(value) for key, value in plain.items() if value is not None}
    return [_without_nothing(value) for value in plain] if isinstance(plain, list) else plain
