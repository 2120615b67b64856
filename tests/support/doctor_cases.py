"""Small real repositories for the commands that begin a project: doctor, init and demo."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from project import Ended, Project, ended, home

# Reads the candidate, and leaves a line outside of every tree each time it runs.
JUDGE = 'echo ran >> "{runs}"; read value < answer.txt; echo "score: $value"; test "$value" -ge 0'

MANIFEST = """\
version = 1
project.name = "demo"
scope.writable = ["answer.txt"]
scope.read_only = ["judge.sh"]
sandbox.mode = "none"
metric = {{ name = "score", direction = "maximize", regex = 'score: (\\S+)'{metric} }}

[[verify]]
name = "judge"
run = "sh judge.sh"
sees = "both"
{verify}
{more}
"""


class Case(Project):
    """A repository whose judge leaves a line in ``runs`` each time it runs, of somebody whom git does not know."""

    def __init__(self, folder: Path, runs: Path) -> None:
        super().__init__(folder, folder)
        self.home, self.runs = home(), runs

    @property
    def environment(self) -> dict[str, str]:
        """An environment without a name for git."""
        return {
            name: value for name, value in os.environ.items() if not name.startswith(("GIT_AUTHOR", "GIT_COMMITTER"))
        }

    def run(self, *arguments: str, variables: Mapping[str, str] | None = None, folder: Path | None = None) -> Ended:
        return ended(arguments, folder or self.folder, {**self.environment, **(variables or {})})

    def write(self, **files: str) -> None:
        """Writes files; ``judge_sh`` is judge.sh."""
        super().write({name.replace("_", "."): text for name, text in files.items()})

    def count(self) -> int:
        return len(self.runs.read_text().splitlines()) if self.runs.exists() else 0


def make_case(place: Path, judge: str = JUDGE, metric: str = "", verify: str = "", more: str = "") -> Case:
    """A committed project; its candidate is a number in a file, its judge is ``judge`` (``{runs}`` is filled in)."""
    case = Case(place / "repository", place / "runs")
    case.folder.mkdir()
    case.git("init", "--quiet", "--initial-branch=main")
    case.write(
        answer_txt="5\n",
        judge_sh=judge.replace("{runs}", str(case.runs)) + "\n",
        goalseek_toml=MANIFEST.format(metric=metric, verify=verify, more=more),
    )
    case.commit()
    return case


def findings(ended: Ended) -> dict[str, list[dict[str, Any]]]:
    """What ``doctor --json`` found, by the names of the findings."""
    found: dict[str, list[dict[str, Any]]] = {}
    for one in map(json.loads, ended.stdout.splitlines()):
        found.setdefault(one["name"], []).append(one)
    return found


def crosses(ended: Ended) -> list[dict[str, Any]]:
    return [one for several in findings(ended).values() for one in several if not one["ok"]]
