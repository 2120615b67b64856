"""Climbs whose metric is the mean of cases, each scored by a judge that answers what it is asked.

A candidate's ``answer*.json`` have scores by id; a case has the sum of its scores. The judge writes what it is asked
into the home's ``asked``, and what it has scored into the ``journal``, a line for each run; ``$HOME/spoil.py`` may change
its ``rows`` or its whole ``document``.
"""

import json
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from project import Project, home

from goalseek.case_scores import CaseScores

COUNT = 16
IDS = tuple(f"q{number}" for number in range(COUNT))
JUDGE = """\
import json, os, pathlib, random
home, asked, seed = pathlib.Path(os.environ["HOME"]), os.environ.get("GOALSEEK_CASES"), os.environ["GOALSEEK_SEED"]
every = json.loads(pathlib.Path("hidden/ids.json").read_text())
ids = [json.loads(line) if line.isdigit() else line for line in open(asked).read().splitlines()] if asked else every
with (home / "asked").open("a") as file:
    file.write(json.dumps([os.environ["GOALSEEK_ITERATION"], seed, ids if asked else None, asked]) + "\\n")
answers = {}
for path in sorted(pathlib.Path().glob("answer*.json")):
    for id, score in json.loads(path.read_text()).items():
        answers[id] = answers.get(id, 0) + score
rows = [{"id": id, "score": answers.get(str(id), 0)} for id in ids]
document = {"results": rows}
if (home / "spoil.py").exists():
    exec((home / "spoil.py").read_text())
with (home / "journal").open("a") as file:
    file.write(f"scored {seed} {' '.join(str(row['id']) for row in rows)}\\n")
pathlib.Path(os.environ["GOALSEEK_RUN_DIR"], "metrics.json").write_text(json.dumps(document))
"""
# No two runs of a tree are the same.
WOBBLING = """\
for row in rows:
    row["score"] += random.Random(f"{seed} {row['id']}").gauss(0, 0.05)
"""
METRIC: dict[str, Any] = {"direction": "maximize", "name": "accuracy", "cases": "results", "settle": "none"}
RUN = f"{shlex.quote(sys.executable)} -ISB hidden/judge.py"


def right(*numbers: int) -> str:
    """A candidate that has these cases right.

    A race may drop one that is better in less than 13 of the 16 cases, if they are not among the first.
    """
    return scored(dict.fromkeys((f"q{number}" for number in numbers), 1))


def scored(scores: Mapping[str, object]) -> str:
    return json.dumps(scores, indent=0) + "\n"


def part(name: str, *numbers: int, score: object = 1) -> dict[str, Any]:
    """A move that gives these cases a score, in a file of its own."""
    text = scored(dict.fromkeys((f"q{number}" for number in numbers), score))
    return {"title": f"part {name}", "files": {f"answer-{name}.json": text}}


def unpacked(run: Mapping[str, Any]) -> dict[int, float | None]:
    """The scores of a run of a record, by position."""
    return CaseScores(**run["cases"]).unpacked()


def files(ids: Iterable[object] = IDS, judge: str = JUDGE, first: str = right()) -> dict[str, str]:
    return {"answer.json": first, "hidden/judge.py": judge, "hidden/ids.json": json.dumps([*ids])}


def tables(metric: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    judge = {"name": "judge", "run": RUN, "sees": "both"}
    scope = {"writable": ["answer*.json"], "hidden": ["hidden/**"]}
    return {"scope": scope, "metric": {**METRIC, **(metric or {})}, "verify": [judge], **more}


def cases_project(
    top: Path, *moves: Any, metric: Mapping[str, Any] | None = None, ids: Iterable[object] = IDS, **more: Any
) -> Project:
    """A project with these moves before it."""
    project = Project.make(top, files(ids), tables(metric, **more))
    project.set_moves(*moves)
    return project


def spoil(code: str) -> None:
    home("spoil.py").write_text(code)


def asked(iteration: int) -> list[tuple[int, list[Any] | None]]:
    """Seed and ids of each run of the judge in an iteration; None where it was asked for all."""
    lines = home("asked").read_text().splitlines() if home("asked").exists() else ()
    return [(int(seed), ids) for number, seed, ids, _ in map(json.loads, lines) if int(number) == iteration]


def assert_runs_are_those_asked(project: Project, again: int = 0, has_moves: bool = False) -> None:
    """The records hold each case that the judge was asked, under its seed, once; ``again`` runs were made twice.

    ``has_moves``: runs of attempts that moved to another tip are in no record.
    """
    records = project.iterations()
    ids = records[0]["case_ids"]
    runs = [run for record in project.records() for run in record.get("runs", ())]
    recorded = [(run["seed"], case) for run in runs for case in unpacked(run)]
    numbers = range(max(record["iteration"] for record in records) + 1)
    made = [(seed, tuple(map(ids.index, names or ids))) for number in numbers for seed, names in asked(number)]
    assert len(made) == len(set(made)) + again
    given = [(seed, case) for seed, cases in set(made) for case in cases]
    assert len(recorded) == len({*recorded}) and {*recorded} <= {*given}
    assert has_moves or len(recorded) == len(given)
