"""The house stands as it is drawn: floors, walls, pure code, and how large its rooms are. Only source is read."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import measure
import pytest
from floors import FLOORS, GROUND, edges_through_walls, edges_upward, impurities, relative_imports, without_floor
from source import Module, Source, build, circles

CHECKOUT = Path(__file__).parents[2]
STARTERS = ("process", "sandbox.reaper")  # the latter is a program of its own
STARTING = ("system", "popen", "fork", "forkpty", "execv", "execve", "execvp", "posix_spawn", "posix_spawnp", "spawnv")
SLOW = {"pydantic", "git", "rich", "jmespath", "optuna", "dask", "distributed"}
AT_RUN_TIME = ("statement", "relative", "string")
MODULES_OF_A_FLOOR = 15


@pytest.fixture(scope="module")
def source() -> Source:
    return Source(CHECKOUT)


@pytest.mark.parametrize(
    "breaches",
    [without_floor, edges_upward, edges_through_walls, impurities, relative_imports],
    ids=lambda f: f.__name__,
)
def test_no_import_goes_against_the_floors(source: Source, breaches: Callable[[Source], list[str]]) -> None:
    assert breaches(source) == []


def test_a_package_s_own_file_is_a_docstring(source: Source) -> None:
    inner = [module for module in source.every if module.is_package and module.short_name != "__init__"]
    assert {module.package for module in inner} <= set(FLOORS)
    assert [module.short_name for module in inner if len(module.tree.body) != 1 or not module.is_docstring] == []


def test_every_package_has_its_own_file(source: Source) -> None:
    folders = {module.path.parent for module in source.every}
    assert [folder.name for folder in folders if not (folder / "__init__.py").exists()] == []


def test_no_modules_import_each_other_in_a_circle(source: Source) -> None:
    assert circles(source.edges(AT_RUN_TIME)) == []


def test_no_floor_is_crowded(source: Source) -> None:
    crowded = {folder for folder, count in source.folders().items() if count > MODULES_OF_A_FLOOR}
    assert crowded <= {"cli/commands"}


def test_the_lines_of_the_product_only_fall(source: Source) -> None:
    lines = measure.count_lines(source)
    assert lines <= measure.LINES, "merge something, or take something away"
    assert lines + measure.SLACK >= measure.LINES, f"set LINES to {lines}"


def test_only_the_starters_start_other_programs(source: Source) -> None:
    starts = [start for module in source.every if module.short_name not in STARTERS for start in starts_in(module)]
    assert starts == []


def starts_in(module: Module) -> Iterator[str]:
    """Where a module starts a program or could. It may name ``subprocess.Popen`` as a type."""
    called = {id(node.func) for node in ast.walk(module.tree) if isinstance(node, ast.Call)}
    for node in ast.walk(module.tree):
        where = f"{module.short_name}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.ImportFrom) and node.module in ("subprocess", "os", "multiprocessing"):
            yield from (f"{where} {name.name}" for name in node.names if name.name in (*STARTING, "run", "Popen"))
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        is_type = node.attr == "Popen" and id(node) not in called
        if (node.value.id == "subprocess" and not is_type) or (node.value.id == "os" and node.attr in STARTING):
            yield f"{where} {ast.unparse(node)}"


@pytest.mark.parametrize("option", ["--help", "--help --all", "--version"])
def test_help_imports_none_of_the_slow_packages(option: str) -> None:
    code = f"import sys\nfrom goalseek.cli.main import run\nrun({option.split()})\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert not {name.split(".")[0] for name in done.stderr.split()} & SLOW


UPWARD = {
    "a statement": "from goalseek.loop.loop import iterate",
    "a module of a package": "from goalseek.loop import loop",
    "a whole name": "import goalseek.loop.loop",
    "another name for it": "import goalseek.loop.loop as climbing",
    "within a function": "def climb():\n    from goalseek.loop import loop",
    "relative": "from ..loop import loop",
    "relative, of the package": "from ..loop.loop import iterate",
    "for types alone": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from goalseek.loop import loop",
    "importlib": "import importlib\nimportlib.import_module('goalseek.loop.loop')",
    "importlib, relative": "from importlib import import_module\nimport_module('..loop.loop', __package__)",
    "importlib, by a name that is put together": "import importlib\nimportlib.import_module(f'goalseek.loop.{name}')",
    "__import__": "__import__('goalseek.loop.loop')",
    "a name for later": "COMMANDS = {'climb': 'goalseek.loop.loop:iterate'}",
}


@pytest.mark.parametrize("text", UPWARD.values(), ids=UPWARD)
def test_an_import_upward_is_found(tmp_path: Path, text: str) -> None:
    source = build(tmp_path, {"loop.loop": "", "git.commits": text})
    (edge,) = set(edges_upward(source))
    assert edge.startswith("git.commits:") and edge.endswith(" imports loop.loop")
    assert bool(relative_imports(source)) == text.startswith("from ..")


def test_imports_downward_and_beside_are_allowed(tmp_path: Path) -> None:
    below = "from goalseek.git import commits\nfrom goalseek.values import Phase\nimport json"
    modules = {
        "loop.loop": below,
        "loop.phases.plan": "from goalseek.loop import loop",
        "git.commits": "",
        "values": "",
    }
    source = build(tmp_path, {**modules, "__main__": "from goalseek.cli.main import run", "cli.main": "import rich"})
    for breaches in (without_floor, edges_upward, edges_through_walls, impurities, relative_imports):
        assert breaches(source) == []


@pytest.mark.parametrize("text", ["from goalseek import load", "import goalseek", "from goalseek.__main__ import main"])
def test_nothing_imports_the_public_interface(tmp_path: Path, text: str) -> None:
    assert len(edges_upward(build(tmp_path, {"cli.main": text, "__main__": ""}))) == 1


def test_the_ground_imports_only_the_ground(tmp_path: Path) -> None:
    source = build(
        tmp_path, {"values": "from goalseek.git import commits", "errors": "import goalseek.values", "git.commits": ""}
    )
    assert edges_upward(source) == ["values:1 imports git.commits"]


def test_what_no_list_names_is_found(tmp_path: Path) -> None:
    source = build(tmp_path, {**dict.fromkeys(GROUND, ""), "few": "", "attic.box": "", "git.commits": ""})
    assert without_floor(source) == ["attic", "attic.box", "few"]


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("views.panel", "from goalseek.loop import loop"),
        ("doctor.doctor", "from goalseek.loop import loop"),
        ("views.report.figures", "def fold():\n    import goalseek.evaluation.settle"),
        ("views.panel", "from goalseek.driver.mcp import serve"),
        ("providers.tune", "from goalseek.statistics import scale"),
        ("providers.presets.claude", "from goalseek.git.repository import Repository"),
        ("providers.tune", "from goalseek.records import Record"),
        ("project.status", "import rich"),
        ("project.status", "def show():\n    from rich.live import Live"),
        ("statistics.guards", "from goalseek.git.commits import parents"),
        ("statistics.guards", "from goalseek.process import run"),
    ],
)
def test_an_import_through_a_wall_is_found(tmp_path: Path, module: str, text: str) -> None:
    others = ("loop.loop", "evaluation.settle", "git.repository", "git.commits", "records", "statistics.scale")
    source = build(tmp_path, {**dict.fromkeys(others, ""), "driver.mcp": "", "process": "", module: text})
    (breach,) = edges_through_walls(source)
    assert breach.startswith(f"{module}:")


def test_the_library_named_as_a_package_of_ours_is_no_wall(tmp_path: Path) -> None:
    assert edges_through_walls(build(tmp_path, {"providers.tune": "from statistics import median"})) == []


@pytest.mark.parametrize("text", ["import os", "def late():\n    from time import time", "import os.path as paths"])
def test_impure_imports_are_found(tmp_path: Path, text: str) -> None:
    assert len(impurities(build(tmp_path, {"statistics.guards": text, "git.commits": "import os, time"}))) == 1


def test_a_look_at_the_clock_is_found(tmp_path: Path) -> None:
    text = "from datetime import datetime\n\n\ndef age(then):\n    return datetime.now() - then\n"
    assert impurities(build(tmp_path, {"statistics.guards": text})) == [
        "statistics.guards:5 reads the clock: datetime.now"
    ]


def test_circles_through_functions_are_found(tmp_path: Path) -> None:
    late = "def late():\n    from goalseek.git import "
    source = build(
        tmp_path, {"git.a": f"{late}b", "git.b": f"{late}c", "git.c": f"{late}a", "git.d": "import goalseek.git.a"}
    )
    assert circles(source.edges(AT_RUN_TIME)) == [["goalseek.git.a", "goalseek.git.b", "goalseek.git.c"]]


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.fork()",
        "import subprocess\nsubprocess.run(['ls'])",
        "from subprocess import Popen",
        "import os\nx = os.system",
    ],
)
def test_a_start_of_a_program_is_found(tmp_path: Path, text: str) -> None:
    source = build(tmp_path, {"git.command": text})
    assert len(list(starts_in(source.by_name["goalseek.git.command"]))) == 1
    named = build(tmp_path, {"git.batch": "import subprocess\n\n\ndef end(child: subprocess.Popen) -> None: ...\n"})
    assert list(starts_in(named.by_name["goalseek.git.batch"])) == []
