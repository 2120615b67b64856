"""``goalseek manifest``: the manifest with all its defaults, or the JSON Schemas."""

import math
from pathlib import Path
from typing import Any

import tomli_w
from msgspec import Struct, structs

from goalseek.cli.options import Options, Parser
from goalseek.errors import GoalseekError
from goalseek.manifest.keys import SCHEMAS, published_schema, schema_text
from goalseek.values import to_plain

_OPEN_SIDES = (-math.inf, math.inf)


def arguments(parser: Parser) -> None:
    parser.add_argument("what", nargs="?", choices=("show", "schema"), default="show", help="default: show")
    package = Path(__file__).parents[2]
    parser.epilog = (
        f"The templates of the prompts are in {package / 'providers' / 'prompts'}; their manual is "
        f"{package / 'guide' / 'prompts.md'}."
    )
    help_text = f"with schema, {', '.join(SCHEMAS)} (default: manifest)"
    parser.add_argument("of", metavar="OF", nargs="?", choices=SCHEMAS, help=help_text)


def run(options: Options) -> None:
    if options.what == "schema":
        name = options.of or "manifest"
        if options.query:
            options.print_answer(published_schema(name))
        else:
            print(schema_text(name), end="")
        return
    if options.of:
        raise GoalseekError(f"manifest show takes no {options.of!r}", f"goalseek manifest schema {options.of}")
    manifest = options.load_manifest().manifest
    text = tomli_w.dumps(_with_toml_names(_without_none(manifest)))
    options.print_answer(_with_toml_names(to_plain(manifest)), text.removesuffix("\n"))


def _with_toml_names(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {"pass" if key == "pass_" else key: _with_toml_names(value) for key, value in plain.items()}
    return [_with_toml_names(value) for value in plain] if isinstance(plain, list) else plain


def _without_none(value: Any) -> Any:
    # TOML lacks None: a default of None is left out, another is "none", an open bound is infinite.
    if isinstance(value, Struct):
        fields = {field.name: (getattr(value, field.name), field.default) for field in structs.fields(value)}
        return {
            name: "none" if item is None else _without_none(item)
            for name, (item, default) in fields.items()
            if item is not None or default is not None
        }
    if isinstance(value, tuple):
        return [_OPEN_SIDES[index] if item is None else _without_none(item) for index, item in enumerate(value)]
    return to_plain(value)
