"""The floors: a package imports only those before it. The source is read, nothing is imported."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "goalseek"
GROUND = (
    "errors",
    "values",
    "humanize",
    "files",
    "own_folders",
    "disk",
    "locks",
    "process",
    "phase_values",
    "_version",
)
FLOORS = ("git", "manifest", "workspace", "sandbox", "statistics", "measurement", "ledger", "providers", "project")
FLOORS += ("proposal", "evaluation", "doctor", "loop", "views", "cli")
MOVED_IN = FLOORS[:15]
IMPURE = {"os", "subprocess", "git", "rich", "time", "random", "secrets", "socket", "tempfile", "shutil"}


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def module_of(path: Path) -> str:
    """``run``, ``phases.plan``, ``views`` for views/__init__.py."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


def floor_of(module: str) -> int:
    """The ground is 0; what has not moved in is above all."""
    first = module.split(".")[0]
    if first in GROUND:
        return 0
    return FLOORS.index(first) + 1 if first in MOVED_IN else len(FLOORS) + 1


def imports(path: Path) -> Iterator[str]:
    """Every module that the file imports, also within functions, but not for types alone."""
    tree = ast.parse(path.read_text())
    for_types = [
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    ]
    for node in ast.walk(tree):
        if node in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: imports are absolute"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names if is_module(node.module, alias.name))


def is_module(package: str, name: str) -> bool:
    place = PACKAGE.parent.joinpath(*package.split("."))
    return (place / f"{name}.py").exists() or (place / name / "__init__.py").exists()


def ours(path: Path) -> set[str]:
    return {name.removeprefix("goalseek.") for name in imports(path) if name.startswith("goalseek.")}


@pytest.mark.parametrize("path", sources(), ids=module_of)
def test_no_module_imports_from_a_floor_above_its_own(path: Path) -> None:
    module = module_of(path)
    above = {name for name in ours(path) if floor_of(name) > floor_of(module)}
    assert not above, module


def test_what_decides_is_pure() -> None:
    for path in (PACKAGE / "statistics").glob("*.py"):
        assert {module.split(".")[0] for module in imports(path)} & IMPURE == set(), path.name
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)]
        assert not [node for node in calls if node.attr in ("now", "utcnow", "today")], path.name


def test_who_proposes_does_not_see_who_judges() -> None:
    for path in (PACKAGE / "providers").glob("*.py"):
        assert not ours(path) & {"repository", "ledger", "decide"}, path.name


def test_views_never_import_the_loop() -> None:
    upper = ("loop", "run", "phases", "landing", "call", "baseline", "desk")
    for path in (PACKAGE / "views").rglob("*.py"):
        assert not [name for name in ours(path) if name.split(".")[0] in upper], path.name


def test_rich_is_imported_by_views_and_the_command_line_only() -> None:
    users = {module_of(path) for path in sources() if "rich" in {name.split(".")[0] for name in imports(path)}}
    assert {user.split(".")[0] for user in users} <= {"views", "cli"}


def test_process_and_its_companion_are_the_only_starters_of_other_programs() -> None:
    for path in sources():
        if module_of(path) in (
            "process",
            "sandbox.reaper",
            "sandbox.landlock_exec",
        ):  # the others are programs of their own
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "subprocess":
                assert node.attr == "Popen" and not is_called(path, node), f"{module_of(path)}:{node.lineno}"
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
                starters = ("system", "popen", "fork", "forkpty", "execv", "execve", "execvp", "posix_spawn")
                assert node.attr not in starters, f"{module_of(path)}:{node.lineno}"


def is_called(path: Path, attribute: ast.Attribute) -> bool:
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    return any(
        isinstance(call.func, ast.Attribute)
        and (call.func.lineno, call.func.col_offset, call.func.attr)
        == (attribute.lineno, attribute.col_offset, attribute.attr)
        for call in calls
    )


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_imports_none_of_the_slow_packages(option: str) -> None:
    code = f"import sys\nfrom goalseek.cli.main import run\nrun([{option!r}])\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    loaded = {name.split(".")[0] for name in done.stderr.split()}
    assert not loaded & {"pydantic", "git", "rich", "jmespath", "optuna"}
