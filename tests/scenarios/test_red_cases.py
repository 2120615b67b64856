"""The cases of a hidden verifier stay hidden: an agent is told counts, and no id, label, score, or which were asked.

The same script finds all of them in the records and the cache at ``mode = "none"``.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import tomli_w
from project import Project, Projects, living
from red_team.cases import KINDS, MOVES
from red_team.field import cheating, script
from skips import levels

pytestmark = pytest.mark.slow
COUNT = 40
RUN = """\
if grep -q crash answer.json; then echo "told to crash" >&2; exit 3; fi
mkdir -p out && cp answer.json out/answer.json
"""
SCORE = """\
import json, os, sys
labels = json.load(open("hidden/labels.json"))
asked = os.environ.get("GOALSEEK_CASES")
ids = open(asked).read().splitlines() if asked else list(labels)
answer = json.load(open("out/answer.json"))
scores = {id: 7350000 + 37 * int(id.rpartition("-")[2]) + answer["value"] for id in ids}
print(scores, [labels[id] for id in ids])
fault = answer.get("fault")
if fault == "unknown":
    scores["case-yankee-99"] = 1
if fault == "nan":
    scores[ids[0]] = float("nan")
if fault == "missing":
    scores = dict.fromkeys(ids)
if fault == "refused":
    sys.exit(f"cannot score {ids[0]}, whose label is {labels[ids[0]]}: {scores[ids[0]]}")
json.dump(scores, open(os.environ["GOALSEEK_RUN_DIR"] + "/metrics.json", "w"))
"""
LABELS = {f"case-yankee-{number}": f"label-zulu-{number}" for number in range(COUNT)}
FILES = {
    "answer.json": '{"value": 0}',
    "run.sh": RUN,
    "hidden/score.py": SCORE,
    "hidden/labels.json": json.dumps(LABELS),
}
OUTSIDE = {"records", "objects of the repository", "hidden files", "cases asked", "cache"}


def begin(make_project: Projects, folder: Path, mode: str) -> tuple[Project, list[str]]:
    """A project and the command of its agent."""
    project, agent = make_project(files=FILES), folder / "agent.py"
    places = {"top": str(project.top), "home": str(folder / "home")}
    agent.write_text(script("cases", places))
    words = [sys.executable, str(agent)]
    tables = cheating(words, mode)
    tables["provider"]["repair"] = 1
    tables["review"] = {"provider": {"name": "command", "command": [*words, "review"]}, "criteria": ["It is short."]}
    tables["metric"] = {"direction": "maximize", "name": "accuracy", "cases": "@", "settle": "none"}
    tables["verify"] = [
        {"name": "run", "run": "sh run.sh", "sees": "candidate", "outputs": ["out/*"]},
        {"name": "score", "run": f"{sys.executable} -ISB hidden/score.py", "sees": "hidden"},
    ]
    project.set_manifest(tables)
    project.commit("the manifest")
    return project, words


def loot_of(texts: list[str]) -> list[dict[str, list[str]]]:
    lines = [line for text in texts for line in text.splitlines() if line.startswith("LOOT ")]
    return [json.loads(line.removeprefix("LOOT ")) for line in lines]


def assert_hidden(loot: list[dict[str, list[str]]], mode: str) -> None:
    for found in loot:
        assert not {place: kinds for place, kinds in found.items() if kinds and place not in OUTSIDE}
    outside = [{place for place in OUTSIDE if found[place]} for found in loot]
    assert outside[-1] == (OUTSIDE if mode == "none" else set())
    everything = {kind for found in loot for kinds in found.values() for kind in kinds}
    assert everything == ({*KINDS} if mode == "none" else set())


@pytest.mark.parametrize("mode", levels("none", "landlock", "bubblewrap"))
def test_an_agent_and_a_reviewer_are_told_counts_and_no_case(
    mode: str, make_project: Projects, tmp_path: Path, isolated: Path
) -> None:
    project, _ = begin(make_project, tmp_path, mode)
    records = project.climb("iterate", "-n", str(len(MOVES)))
    reasons = ["measured", "better", "worse", *2 * ["no_metric"], "no_metric", *2 * ["verify_failed"], "better"]
    reasons[4] = "not_finite"
    assert [record["reason"] for record in records] == reasons
    said = ("1 case that the baseline did not have", "the score of case 1 is nan", "yankee")
    assert all(text in records[number]["why"] for number, text in zip((3, 4, 7), said, strict=True)), records
    runs = project.run_folder(0).parent
    outputs = [path.read_text() for path in sorted(runs.rglob("*")) if re.search(r"output.*\.md$", path.name)]
    outputs += [path.read_text() for path in sorted(runs.rglob("reviews/*.md"))]
    loot = loot_of(outputs)
    assert len(loot) >= len(MOVES) + 2, "a repair and two reviews among them"
    assert_hidden(loot, mode)
    prompts = [path.read_bytes() for path in runs.rglob("*") if path.is_file() and "prompt" in str(path)]
    told = b"\n".join(prompts)
    assert not {kind for kind, pattern in KINDS.items() if re.search(pattern, told)}
    assert b"40 won, 0 lost of 40" in told and re.search(rb"0 won, \d+ lost of \d+", told)
    assert b"told to crash" in told and b"the verifier failed" in told and b"gave no metric" in told
    assert not living(isolated)
    project.check("audit")


@pytest.mark.parametrize("mode", levels("landlock", "bubblewrap"))
def test_whoever_drives_is_told_no_more(mode: str, make_project: Projects, tmp_path: Path) -> None:
    project, words = begin(make_project, tmp_path, mode)
    tables = tomllib.loads(project.manifest.read_text())
    del tables["provider"], tables["review"]
    project.set_manifest(tomli_w.dumps(tables))
    project.commit("nobody proposes")
    project.check("baseline")
    command = [sys.executable, "-m", "goalseek", "drive", "--", *words, "--driven"]
    how = {"input": "", "capture_output": True, "text": True, "timeout": 300}
    done = subprocess.run(command, cwd=project.top, check=True, **how)
    assert "iteration 1 kept" in done.stdout and "iteration 7 reverted" in done.stdout
    assert_hidden(loot_of([done.stdout]), mode)
    said = "\n".join(line for line in done.stdout.splitlines() if not line.startswith("LOOT ")) + done.stderr
    assert not {kind for kind, pattern in KINDS.items() if re.search(pattern, said.encode())}
    assert "40 won, 0 lost of 40" in said


@pytest.mark.parametrize("mode", levels("none", "landlock", "bubblewrap"))
def test_candidate_code_sees_the_ids_that_it_is_asked_and_no_more(
    mode: str, make_project: Projects, tmp_path: Path
) -> None:
    """It answers them, so a crash of its own may print them to its author; but no score is known by then."""
    project, _ = begin(make_project, tmp_path, mode)
    tables = tomllib.loads(project.manifest.read_text())
    del tables["review"]
    tables["provider"] = {"name": "scripted", "script": "../repository-moves.toml"}
    tables["scope"]["writable"] = ["answer*"]
    tables["verify"][0]["run"] = (
        f"if [ -e answer.py ]; then {sys.executable} -B answer.py --measured; else sh run.sh; fi"
    )
    project.set_manifest(tomli_w.dumps(tables))
    project.commit("code of the candidate's own")
    project.set_moves({"files": {"answer.py": (tmp_path / "agent.py").read_text()}})
    _, record = project.climb("iterate", "-n", "1")
    assert record["metric"]["cases"]["won"] == COUNT
    loot = loot_of([(project.run_folder(1) / "verifier.log").read_text()])
    assert len(loot) == len(record["runs"]) and {tuple(found.pop("own cases")) for found in loot} == {("ids",)}
    if mode != "none":  # its own file is in the cache
        loot = [{place: [kind for kind in kinds if kind != "ids"] for place, kinds in found.items()} for found in loot]
    assert_hidden(loot, mode)
