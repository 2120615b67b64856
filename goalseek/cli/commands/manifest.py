"""``goalseek manifest``: the manifest with all its defaults, or the JSON Schemas."""

from pathlib import Path
from typing import Any

import tomli_w

from goalseek.cli.options import Options, Parser
from goalseek.errors import GoalseekError
from goalseek.manifest.keys import SCHEMAS, published_schema, schema_text
from goalseek.manifest.loading import to_tables
from goalseek.values import to_plain


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
    text = tomli_w.dumps(to_tables(manifest))
    options.print_answer(_with_toml_names(to_plain(manifest)), text.removesuffix("\n"))


def _with_toml_names(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {"pass" if key == "pass_" else key: _with_toml_names(value) for key, value in plain.items()}
    return [_with_toml_names(value) for value in plain] if isinstance(plain, list) else plain
