"""What ``measure.py`` counts is there, and what only looks like it is not counted."""

import json
from pathlib import Path

import measure
import pytest
from source import Source, build

MOVE = "def move(path): ...\n"
TABLE = "from msgspec import Struct\n\n\nclass Table(Struct, frozen=True): ...\n"
KINDS = "@dataclass(frozen=True)\nclass Row: ...\n\n\nclass Cell(NamedTuple): ...\n\n\nclass Folder: ...\n"


def test_names_defined_twice(tmp_path: Path) -> None:
    private = "def _move(path): ...\n\n\ndef run(options): ...\n"
    modules = {"git.a": MOVE + private, "git.b": MOVE + private, "git.c": TABLE + private, "ledger.d": TABLE}
    assert measure.names_defined_twice(build(tmp_path, modules)) == {
        "move": ["git.a", "git.b"],
        "Table": ["git.c", "ledger.d"],
    }


def test_kinds_of_value(tmp_path: Path) -> None:
    found = measure.kinds_of_value(build(tmp_path, {"git.a": TABLE, "git.b": KINDS}))
    assert found == {"Struct": 1, "dataclass": 1, "NamedTuple": 1}


def test_lines_are_those_of_every_file(tmp_path: Path) -> None:
    build(tmp_path, {"git.a": "x = 1\n" * 3})
    (tmp_path / "goalseek" / "git" / "__init__.py").write_text('"""Git."""\n')
    assert measure.count_lines(Source(tmp_path)) == 4


def test_commands_options_and_keys_are_those_of_the_checkout() -> None:
    commands, options, keys = json.loads(measure._output_of(Path(__file__).parents[2], "-c", measure.COUNT_INTERFACE))
    assert 20 < commands < options < keys


@pytest.mark.slow
def test_the_way_of_a_kept_candidate_is_followed() -> None:
    (_, modules), (_, calls) = measure.climb_numbers(Path(__file__).parents[2])
    assert 10 < modules < calls
