"""Small real repositories for the commands that begin a project: doctor, init and demo."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from project import Ended, ended

WHO = ("-c", "user.name=A User", "-c", "user.email=user@example.com")

# Reads the candidate, and leaves a line outside of every tree each time it runs.
JUDGE = 'echo ran >> "{runs}"; read value < answer.txt; echo "score: $value"; test "$value" -ge 0'

MANIFEST = """\
version = 1
project.name = "demo"
scope.writable = ["answer.txt"]
scope.hidden = ["judge.sh"]
sandbox.mode = "none"
metric = {{ name = "score", direction = "maximize", regex = 'score: (\\S+)'{metric} }}

[[verify]]
name = "judge"
run = "sh judge.sh"
sees = "both"
{verify}
{more}
"""


@dataclass(frozen=True)
class Case:
    """A repository in ``folder``; its judge leaves a line in ``runs`` each time it runs."""

    folder: Path
    home: Path
    runs: Path

    @property
    def environment(self) -> dict[str, str]:
        """An environment without anything of the user's."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "XDG_", "GOALSEEK_"))}
        return {
            **kept,
            "HOME": str(self.home),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        }

    def run(self, *arguments: str, variables: Mapping[str, str] | None = None, folder: Path | None = None) -> Ended:
        """Runs goalseek without a terminal."""
        return ended(arguments, folder or self.folder, {**self.environment, **(variables or {})})

    def git(self, *arguments: str, folder: Path | None = None) -> str:
        """Runs git, which must succeed."""
        done = subprocess.run(
            ["git", *WHO, *arguments],
            cwd=folder or self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        return done.stdout.strip()

    def write(self, **files: str) -> None:
        """Writes files; ``judge_sh`` is judge.sh."""
        for name, text in files.items():
            (self.folder / name.replace("_", ".")).write_text(text)

    def commit(self) -> None:
        """Commits all that is there."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "A commit")

    def count(self) -> int:
        """How often the judge ran."""
        return len(self.runs.read_text().splitlines()) if self.runs.exists() else 0

    def traces(self) -> list[str]:
        """What goalseek left in the repository or beside the manifest."""
        refs = [ref for ref in self.git("for-each-ref", "--format=%(refname)").splitlines() if "goalseek" in ref]
        return refs + [
            str(place) for place in (self.folder / ".goalseek", self.folder / ".git/goalseek") if place.exists()
        ]


def make_case(place: Path, judge: str = JUDGE, metric: str = "", verify: str = "", more: str = "") -> Case:
    """A committed project; its candidate is a number in a file, its judge is ``judge`` (``{runs}`` is filled in)."""
    case = Case(place / "repository", place / "own home", place / "runs")
    case.folder.mkdir()
    case.home.mkdir()
    case.git("init", "--quiet", "--initial-branch=main")
    case.write(
        answer_txt="5\n",
        judge_sh=judge.replace("{runs}", str(case.runs)) + "\n",
        goalseek_toml=MANIFEST.format(metric=metric, verify=verify, more=more),
    )
    case.commit()
    return case
