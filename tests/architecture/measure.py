"""How far the house is from its plan: every row of the plan's table, measured on a checkout.

    python tests/architecture/measure.py [FOLDER] [--why] [--suite] [--no-climb]

FOLDER is a checkout, this one by default. ``--why`` names the places behind each number that is past its limit.
``--suite`` runs the fast tests too, for their seconds. Ends with 1 where a limit does not hold. Each row's number is
defined where it is computed, in ``source``, ``floors``, ``marks`` and ``trace_climb``; an ``__init__.py`` that is a
docstring and no more is no module. The climb runs with the checkout's own Python, where it has a ``.venv``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from floors import FLOORS, edges_upward, without_floor
from marks import (
    atomic_replaces,
    folds,
    functions_of_many_parameters,
    literals,
    parsers_of_commits,
    takers_of_project_and_config,
    vocabulary,
)
from source import Source, circles

HERE = Path(__file__).resolve()
EXEMPT_FOLDERS = ("cli/commands", "providers/presets")
AT_RUN_TIME = ("statement", "relative", "string")
SHORTEST, LONGEST = 40, 350


@dataclass(frozen=True)
class Row:
    """One number and its limit: a text like ``<= 12`` or ``110 to 180``. ``now`` is None where it was not measured."""

    measure: str
    now: float | None
    limit: str
    why: tuple[str, ...] = ()
    note: str = ""

    @property
    def holds(self) -> bool | None:
        if self.now is None:
            return None
        low, _, high = self.limit.rpartition(" to ")
        return float(low or "-inf") <= self.now <= float(high.removeprefix("<= "))


def static_rows(source: Source) -> list[Row]:
    return [row for measure in STATIC for row in measure(source)]


def sizes(source: Source) -> Iterator[Row]:
    modules, folders = source.modules, source.folders()
    inner = {name: count for name, count in folders.items() if name != "." and name not in EXEMPT_FOLDERS}
    largest = max(inner, key=lambda name: inner[name], default=".")
    packages = sorted({module.package for module in source.every} - {""})
    by_length = sorted((module.lines, module.short_name) for module in modules)
    lengths = [length for length, _ in by_length]
    short = tuple(f"{name} ({length})" for length, name in by_length if length < SHORTEST)
    long = tuple(f"{name} ({length})" for length, name in by_length if length > LONGEST)
    on_the_ground = tuple(module.short_name for module in modules if module.path.parent == source.folder)
    crowded = tuple(f"{name} ({count})" for name, count in inner.items() if count > 15)
    yield Row("modules directly in goalseek/", folders.get(".", 0), "<= 12", on_the_ground)
    yield Row("packages on the floors", len(packages), f"<= {len(FLOORS)}", tuple(packages))
    yield Row("modules in the largest folder", inner.get(largest, 0), "<= 15", crowded, largest)
    yield Row("modules", len(modules), "<= 230")  # 205 when the plan was reached, and rooms of capabilities since
    yield Row(f"modules under {SHORTEST} lines", len(short), "<= 15", short)
    yield Row("lines of the median module", statistics.median(lengths), "110 to 180")
    yield Row("lines of the longest module", lengths[-1], f"<= {LONGEST}", long, by_length[-1][1])


def edges(source: Source) -> Iterator[Row]:
    """Circles, floors, and how much single modules import."""
    found = circles(source.edges(AT_RUN_TIME))
    with_types = circles(source.edges((*AT_RUN_TIME, "types")))
    note = f"the largest of {len(found[0])} modules" if found else ""
    if with_types != found:
        note += f"; with imports for types alone {len(with_types)}, the largest of {len(with_types[0])}"
    yield Row("cycles", len(found), "<= 0", tuple(" ".join(circle) for circle in found), note.removeprefix("; "))
    upward, unknown = tuple(edges_upward(source)), tuple(without_floor(source))
    yield Row("edges upward between packages", len(upward), "<= 0", upward)
    yield Row("modules in a default row", len(unknown), "<= 0", unknown)
    imported = {name: sorted(found) for name, found in source.edges(("statement", "relative", "types")).items()}
    importers = {name: sum(name in found for found in imported.values()) for name in imported}
    for limit, *names in ((13, "loop.loop", "loop"), (18, "loop.iteration"), (20, "project.project", "run")):
        name = next((name for name in names if f"goalseek.{name}" in imported), None)
        whole = f"goalseek.{name}"
        note = f"{name}, imported by {importers[whole]}" if name else f"there is no {names[0]}"
        now = len(imported[whole]) if name else None
        yield Row(f"imports of {names[0]}", now, f"<= {limit}", tuple(imported.get(whole, ())), note)
    rows = [row for row in _sorted(imported) if row[0] > 22]
    most, name = _sorted(imported)[0]
    yield Row("imports of any module", most, "<= 22", tuple(f"{name} ({count})" for count, name in rows), name)


def _sorted(imported: dict[str, list[str]]) -> list[tuple[int, str]]:
    return sorted(((len(found), name.partition(".")[2]) for name, found in imported.items()), reverse=True)


def habits(source: Source) -> Iterator[Row]:
    """Long parameter lists, words as strings, and mechanisms that are there more than once."""
    six, eight = functions_of_many_parameters(source, 6), functions_of_many_parameters(source, 8)
    both = takers_of_project_and_config(source)
    yield Row("functions with 6 parameters or more", len(six), "<= 15", tuple(six))
    yield Row("functions with 8 parameters or more", len(eight), "<= 0", tuple(eight))
    yield Row("functions that take project and config", len(both), "<= 10", tuple(both))
    enums = vocabulary(source)
    values, names = literals(source)
    note = f"of {', '.join(enums)}; {len(names)} more as keys and names" if enums else "no enums"
    yield Row("literals outside values.py", len(values) if enums else None, "<= 0", tuple(values), note)
    written, only_renamed = atomic_replaces(source)
    note = f"{len(only_renamed)} more only rename: {', '.join(only_renamed)}" if only_renamed else ""
    yield Row("atomic replaces", len(written), "<= 1", tuple(written), note)
    parsers = parsers_of_commits(source)
    yield Row("parsers of commits, in modules", len(parsers), "<= 1", tuple(parsers))
    every = folds(source)
    yield Row("folds over records", len(every), "<= 1", tuple(every))


def volumes(source: Source) -> Iterator[Row]:
    tests = sum(len(path.read_text("utf-8").splitlines()) for path in (source.checkout / "tests").rglob("*.py"))
    yield Row("product lines", sum(module.lines for module in source.every), "<= 28500")
    yield Row("test lines", tests, "<= 27000")


STATIC: tuple[Callable[[Source], Iterator[Row]], ...] = (sizes, edges, habits, volumes)


def climb_rows(checkout: Path) -> Iterator[Row]:
    """What one kept candidate goes through, from the provider's answer to its record."""
    with tempfile.TemporaryDirectory(prefix="goalseek-trace-") as folder:
        done = subprocess.run(
            [_python(checkout), str(HERE.with_name("trace_climb.py")), folder],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=300,
        )
    names = ("modules entered from answer to record", "calls between modules from answer to record")
    if done.returncode:
        why = done.stderr.strip().splitlines()[-1]
        yield from (Row(name, None, limit, note=why) for name, limit in zip(names, ("<= 45", "<= 350"), strict=True))
        return
    found = json.loads(done.stdout)
    yield Row(names[0], len(found["modules"]), "<= 45", tuple(found["modules"]))
    calls = tuple(f"{pair} ({count})" for pair, count in found["calls"].items())
    yield Row(names[1], sum(found["calls"].values()), "<= 350", calls)


def suite_row(checkout: Path, is_run: bool) -> Row:
    name, limit = "seconds of the fast suite", "<= 150"
    if not is_run:
        return Row(name, None, limit, note="--suite runs it")
    began = time.monotonic()
    words = [_python(checkout), "-m", "pytest", "-q", "-n", "2"]
    done = subprocess.run(words, cwd=checkout, capture_output=True, text=True, timeout=3600)
    last = (done.stdout.strip().splitlines() or [""])[-1]
    return Row(name, round(time.monotonic() - began), limit, note=last)


def _python(checkout: Path) -> str:
    own = checkout / ".venv" / "bin" / "python"
    return str(own) if own.exists() else sys.executable


def print_table(rows: list[Row]) -> None:
    print(f"{'measure':<46} {'now':>7}  {'limit':<10} holds")
    for row in rows:
        now = "-" if row.now is None else f"{row.now:g}" if row.now < 1e6 else str(row.now)
        holds = {True: "yes", False: "NO", None: "-"}[row.holds]
        print(f"{row.measure:<46} {now:>7}  {row.limit:<10} {holds:<5} {row.note}".rstrip())


def print_places(rows: list[Row]) -> None:
    for row in rows:
        if row.holds is False and row.why:
            print(f"\n{row.measure}:")
            print("\n".join(f"  {place}" for place in row.why))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=HERE.parents[2], metavar="FOLDER")
    parser.add_argument("--why", action="store_true", help="name what is behind each number past its limit")
    parser.add_argument("--suite", action="store_true", help="run the fast tests, for their seconds")
    parser.add_argument("--no-climb", action="store_true", help="only read the source")
    options = parser.parse_args()
    checkout = options.folder.resolve()
    rows = static_rows(Source(checkout))
    if not options.no_climb:
        rows += [*climb_rows(checkout), suite_row(checkout, options.suite)]
    print_table(rows)
    if options.why:
        print_places(rows)
    return 1 if any(row.holds is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
