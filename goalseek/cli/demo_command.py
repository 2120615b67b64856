"""``goalseek demo``: a fixture as a fresh repository, a baseline and a climb."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path

from goalseek import demo
from goalseek.cli.answer import answer, answer_lines, say, wants_json
from goalseek.cli.iterate_command import climb
from goalseek.cli.options import start_folder
from goalseek.cli.watching import watch_live
from goalseek.errors import GoalseekError
from goalseek.humanize import counted
from goalseek.ledger.standing import Standing
from goalseek.manifest.loading import Loaded
from goalseek.project import stop
from goalseek.project.opening import opened


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``demo`` takes."""
    parser.add_argument("name", metavar="NAME", nargs="?", default=demo.DEFAULT, help="which fixture (digits)")
    parser.add_argument("target", metavar="DIR", nargs="?", help="a new or empty folder (goalseek-demo-NAME)")
    parser.add_argument("-n", dest="count", type=int, metavar="N", help="so many iterations")
    parser.add_argument("--provider", metavar="P", help="who proposes, instead of the fixture's own")
    parser.add_argument("--list", action="store_true", help="name the fixtures")


def run(options: argparse.Namespace) -> int:
    """Makes the repository, climbs, and says what happened and what to type next."""
    if options.list:
        return _list(options)
    if options.count is not None and options.count < 1:
        raise GoalseekError(f"-n {options.count}: at least 1", "-n 10")
    chosen = demo.fixture(options.name)
    folder = start_folder(options) / (options.target or f"goalseek-demo-{chosen.name}")
    asked = demo.asked_of(chosen, options.provider)
    loaded = demo.make_repository(chosen, folder)
    count = options.count or demo.iterations(loaded, asked)
    say(
        options,
        f"{chosen.summary}\na fresh repository in {folder}; {counted(count, 'iteration')} of goalseek iterate in it:",
    )
    with watch_live(options) as watch, opened(loaded, watch, asked, doing="iterate") as opened_run:
        exit_code = climb(opened_run, stop.Ends(count))
        standing = opened_run.standing
    if wants_json(options):
        answer(options, {"event": "demo", "folder": str(folder), **_numbers(standing)})
    else:
        print("\n".join(_closing(loaded)))
    return exit_code


def _list(options: argparse.Namespace) -> int:
    found = demo.fixtures().values()
    if wants_json(options):
        answer_lines(options, [{"name": one.name, "summary": one.summary} for one in found])
        return 0
    for one in found:
        print(f"{one.name:<12} {one.summary}")
    return 0


def _numbers(standing: Standing) -> dict[str, object]:
    return {
        "metric": standing.metric,
        "from": standing.baseline.value if standing.baseline else None,
        "to": standing.best.value if standing.best else None,
        "iterations": standing.tried,
        "kept": standing.outcomes.get("kept", 0),
    }


def _closing(loaded: Loaded) -> list[str]:
    name = loaded.manifest.project.name
    where = shlex.quote(_from_here(loaded.folder))
    return [
        "",
        f"the repository: {loaded.folder}; main is as it was, the climb is on the branch goalseek/{name}",
        f"look at it:     cd {where}; goalseek log; goalseek show best --diff; git log --oneline goalseek/{name}",
        "take it home:   goalseek promote",
    ]


def _from_here(folder: Path) -> str:
    relative = os.path.relpath(folder)
    return str(folder) if relative.startswith("..") else relative
