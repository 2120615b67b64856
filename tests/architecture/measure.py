"""How heavy the house is: each number of its table, counted on a checkout.

    python tests/architecture/measure.py [FOLDER] [--no-climb]

FOLDER is a checkout, this one by default. The climb of ``trace_climb`` and ``goalseek`` itself run with the checkout's
own Python, if it has a ``.venv``. ``LINES`` alone is a limit that a test holds; the other numbers are for comparison.
"""

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from source import Source

LINES = 38_629
SLACK = 250  # a change that takes away more than this sets LINES to what is left
HERE = Path(__file__).resolve()
# What every command, preset, provider or program defines.
PROTOCOLS = ("run", "arguments", "read", "make", "main", "first_start")
VALUES = ("Struct", "NamedTuple", "TypedDict", "dataclass")
COUNT_INTERFACE = """
import importlib, json
from goalseek.cli.options import Parser, add_options
from goalseek.cli import registry
from goalseek.manifest.keys import manifest_keys

def count_options(add, name="", **given):
    parser = Parser(prog=f"goalseek {name}".strip())
    add(parser, **given)
    return sum(bool(action.option_strings) for action in parser._actions) - 1  # -h

guests = getattr(registry, "MODULES", {})  # of an earlier checkout: commands in the module of another one
modules = {
    name: importlib.import_module(f"goalseek.cli.commands.{guests.get(name, name)}") for name in registry.COMMANDS
}
options = sum(count_options(module.arguments, name) for name, module in modules.items())
options += count_options(add_options, is_top=False)
keys = [name for name in manifest_keys() if not any(other.startswith(f"{name}.") for other in manifest_keys())]
print(json.dumps([len(registry.COMMANDS), options, len(keys)]))
"""


def count_lines(source: Source) -> int:
    return sum(module.lines for module in source.every)


def names_defined_twice(source: Source) -> dict[str, list[str]]:
    """The public classes and functions that more than one module defines, without those of ``PROTOCOLS``."""
    homes: dict[str, list[str]] = {}
    for module in source.modules:
        if module.short_name == "__init__":  # the public interface names what it passes on
            continue
        for node in module.tree.body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(module.short_name)
    return {name: found for name, found in homes.items() if len(found) > 1 and name not in PROTOCOLS}


def kinds_of_value(source: Source) -> dict[str, int]:
    """How many classes are defined as each kind of value."""
    kinds = dict.fromkeys(VALUES, 0)
    for module in source.modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                signs = ast.unparse(ast.List([*node.bases, *node.decorator_list]))
                for kind in VALUES:
                    kinds[kind] += kind in signs
    return {kind: count for kind, count in kinds.items() if count}


def numbers(source: Source) -> Iterator[tuple[str, object]]:
    tests = (source.checkout / "tests").rglob("*.py")
    yield "lines of the product", count_lines(source)
    counted = [path for path in tests if "benchmarks" not in path.parts]
    yield "lines of the tests, without benchmarks", sum(len(path.read_text("utf-8").splitlines()) for path in counted)
    yield "modules", len(source.modules)
    yield "packages", len({module.path.parent for module in source.every})
    yield "names defined twice", names_defined_twice(source)
    yield "kinds of value", kinds_of_value(source)
    yield "commands, options, keys", json.loads(_output_of(source.checkout, "-c", COUNT_INTERFACE))


def climb_numbers(checkout: Path) -> Iterator[tuple[str, int]]:
    """What one kept candidate passes, from the provider's answer to its record."""
    with tempfile.TemporaryDirectory(prefix="goalseek-trace-") as folder:
        found = json.loads(_output_of(checkout, str(HERE.with_name("trace_climb.py")), folder))
    yield "modules from answer to record", len(found["modules"])
    yield "calls between modules from answer to record", sum(found["calls"].values())


def _output_of(checkout: Path, *arguments: str) -> str:
    own = checkout / ".venv" / "bin" / "python"
    environment = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"}
    words = [str(own) if own.exists() else sys.executable, *arguments]
    return subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=300).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=HERE.parents[2], metavar="FOLDER")
    parser.add_argument("--no-climb", action="store_true", help="only read the source")
    options = parser.parse_args()
    checkout = options.folder.resolve()
    for name, number in [*numbers(Source(checkout)), *(() if options.no_climb else climb_numbers(checkout))]:
        print(f"{name}: {number if isinstance(number, (int, list)) else json.dumps(number, indent=2)}")


if __name__ == "__main__":
    main()
