"""A number that is a time: whose it is, and that it is the time of something which depends on the candidate."""

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from project import Project, Projects

BUILD: dict[str, Any] = {"name": "build", "run": "cp answer.json program", "outputs": ["program"]}
RUN = {"name": "run", "run": "cat answer.json"}
CHECK = {"name": "check", "run": "sh hidden/judge.sh", "sees": "hidden"}
PYTHON = shlex.quote(sys.executable)
WALL = {"direction": "minimize", "source": "wall", "noise": "none"}
FILES = {"answer.json": "{}\n", "hidden/judge.sh": "true\n"}
BLIND = "metric is the time of check, which neither sees the candidate nor gets `outputs`"


def make(make_project: Projects, *commands: dict[str, Any], **metric: Any) -> Project:
    project = make_project(files=FILES, manifest={"verify": list(commands), "metric": {**WALL, **metric}})
    project.set_moves("{ }\n")
    return project


def crosses(project: Project) -> tuple[int, list[str]]:
    ended = project.run("--json", "doctor", "--quick")
    findings = [json.loads(line) for line in ended.stdout.splitlines()]
    return ended.exit_code, [finding["text"] for finding in findings if not finding["ok"]]


@pytest.mark.parametrize(
    "commands, metric, problem",
    [
        ((BUILD, RUN), {}, "names none of the 2 verify commands"),
        ((BUILD, RUN), {"source": "cpu"}, 'source = "cpu"'),
        ((RUN, CHECK), {"command": "check"}, BLIND),
        ((CHECK,), {}, BLIND),
        ((RUN,), {}, ""),
        ((BUILD, RUN), {"command": "build"}, ""),
        ((BUILD, CHECK), {"command": "check"}, ""),
    ],
    ids=["wall of two", "cpu of two", "of the check", "of a lone check", "of one", "a name", "of what was built"],
)
def test_a_new_baseline_and_doctor_refuse_a_time_of_which_it_is_unclear_whose(
    make_project: Projects, commands: tuple[dict[str, Any], ...], metric: dict[str, str], problem: str
) -> None:
    project = make(make_project, *commands, **metric)
    code, texts = crosses(project)
    is_unclear = len(commands) > 1 and "command" not in metric
    assert (code, len(texts)) == ((1, 1 + is_unclear) if problem else (0, 0)), texts
    assert problem in "".join(texts)
    if not problem:
        return
    ended = project.run("baseline")
    assert ended.exit_code == 2 and problem in ended.stderr
    if is_unclear:
        assert 'metric.command = "build", or metric.command = "run"' in ended.stderr
    assert project.records() == []


def test_the_report_says_that_a_timed_program_is_the_candidates(make_project: Projects) -> None:
    project = make(make_project, BUILD, {**CHECK, "run": "cat program"}, command="check")
    project.check("baseline")
    assert [record["isolation"]["verifier"] for record in project.iterations()] == ["timed"]
    page = project.check("report", "-o", "-", "--format", "html")
    assert "The program that was timed is the candidate" in page and "none of the candidate" not in page


def test_doctor_names_the_hidden_answer_beside_a_timed_program(make_project: Projects) -> None:
    timed = {**CHECK, "name": "time", "run": "sh program > out", "outputs": ["out"]}
    project = make(make_project, BUILD, timed, {**CHECK, "run": "cmp out hidden/judge"}, command="time", settle=1)
    project.write({"answer.json": "sleep 0.3; echo {}\n", "hidden/judge": "{}\n"})
    project.commit()
    project.set_moves("echo {}\n")
    said = "time: the timed program can read hidden/judge"
    assert f"! isolation    {said}\n" in project.run("doctor", "--quick").stdout
    said += "; keep its sha256 instead"
    assert said in project.run("status").stdout
    assert project.run("iterate").stderr.count(said) == 1
    assert said in project.run("status").stdout
    for command in ("settle", "promote"):
        assert project.run(command).stderr.count(said) == 1


def test_a_climb_says_that_nothing_checks_a_timed_program(make_project: Projects) -> None:
    stderr = make(make_project, BUILD, {**RUN, "run": "cat program"}, command="run").run("iterate").stderr
    assert "nothing checks the output of the timed program: an empty program would win" in stderr


def test_only_commands_that_judge_the_candidate_are_proposed(make_project: Projects) -> None:
    ended = make(make_project, RUN, CHECK).run("baseline")
    assert 'name it: metric.command = "run"\n' in ended.stderr
    timed = {**CHECK, "name": "time", "outputs": ["out"]}
    tables = {"verify": [{**BUILD, "once": True}, timed, CHECK], "metric": WALL}
    project = make_project("three", files=FILES, manifest=tables)
    assert 'name it: metric.command = "time"\n' in project.run("baseline").stderr
    shown = project.run("doctor", "--quick").stdout
    assert "a time without metric.command" in shown and "wall time of the command" not in shown
    assert "✗ manifest" in shown and "isolation" not in shown, "of a time that is not known yet nothing is said"


def test_a_guard_on_the_time_of_a_check_that_knows_no_candidate_is_refused(make_project: Projects) -> None:
    guard = {"name": "took", "source": "wall", "command": "check", "max": 5}
    tables = {"verify": [RUN, CHECK], "metric": {**WALL, "command": "run"}, "guard": [guard]}
    project = make_project(files=FILES, manifest=tables)
    assert "[[guard]]: took is the time of check" in project.run("baseline").stderr


@pytest.mark.slow
def test_a_climb_whose_ruler_is_pinned_goes_on_and_its_next_baseline_is_refused(make_project: Projects) -> None:
    project = make(make_project, BUILD, RUN, command="run")
    project.check("baseline")
    project.set_manifest({"verify": [BUILD, RUN], "metric": WALL})
    assert project.climb()[-1]["verify"][1]["name"] == "run"
    assert crosses(project)[0] == 1
    assert project.run("baseline").exit_code == 2


RACE = "import work\nimport time\nbegan = time.perf_counter()\nwork.run()\nprint(time.perf_counter() - began)\n"
HONEST = "import time\n\ndef run():\n    time.sleep(0.4)\n"
FORGED = """\
import sys, time
sleep = time.sleep
for name in ("time", "monotonic", "perf_counter", "process_time"):
    setattr(time, name, lambda: 0.0)
    setattr(time, name + "_ns", lambda: 0)

def run():
    sleep(1.2)
    print("0.0001")
"""


def timed_python(make_project: Projects, files: dict[str, str], *verify: dict[str, str], **metric: str) -> Project:
    tables = {"scope": {"writable": ["work.py"]}, "verify": list(verify), "metric": {**WALL, **metric}}
    return make_project(files=files, manifest={**tables, "guard": [{"name": "took", "source": "wall", "max": 60}]})


@pytest.mark.slow
def test_patched_clocks_do_not_make_a_candidate_faster(make_project: Projects) -> None:
    commands = {"name": "slow", "run": "sleep 0.2"}, {"name": "race", "run": f"{PYTHON} race.py"}
    project = timed_python(make_project, {"work.py": HONEST, "race.py": RACE}, *commands, command="race")
    project.set_moves({"files": {"work.py": FORGED}}, {"files": {"work.py": HONEST.replace("0.4", "0.0")}})
    baseline, forged, faster = project.climb("iterate", "-n", "2")
    assert 0.4 < baseline["metric"]["value"] < 1.1
    assert (forged["outcome"], forged["reason"], forged["metric"]["value"] > 1.2) == ("reverted", "worse", True)
    assert faster["outcome"] == "kept" and faster["metric"]["value"] < baseline["metric"]["value"]
    for run in faster["runs"]:
        assert run["seconds"] > run["value"] + 0.19, "of the named command alone"


def test_the_command_alone_is_timed_not_what_it_left_behind(make_project: Projects) -> None:
    project = make(make_project, {"name": "race", "run": "(setsid sleep 30 >/dev/null 2>&1 &); exit 0"})
    baseline, *_ = project.climb()
    assert baseline["metric"]["value"] < 2 and baseline["verify"][0]["killed"] == 1


SPIN = "import sys, time\nwhile time.process_time() < {seconds}: pass\ntime.sleep(0.4)\n"


@pytest.mark.slow
def test_processor_time_leaves_out_what_the_command_waits_for(make_project: Projects) -> None:
    command = {"name": "work", "run": f"{PYTHON} -S work.py & wait"}
    files = {"work.py": SPIN.format(seconds=0.3)}
    project = timed_python(make_project, files, command, source="cpu")
    project.set_moves({"files": {"work.py": SPIN.format(seconds=0.05)}})
    baseline, faster = project.climb()
    assert 0.3 <= baseline["metric"]["value"] < 0.6 and baseline["guards"]["took"] > 0.7
    assert faster["outcome"] == "kept" and 0.05 <= faster["metric"]["value"] < 0.3


@pytest.mark.slow
def test_a_time_has_its_unit_wherever_it_stands_with_its_metric(make_project: Projects, tmp_path: Path) -> None:
    guard = {"name": "took", "source": "wall", "command": "run", "max": 60, "max_increase": "900%"}
    metric = {**WALL, "name": "time", "command": "build"}
    project = make_project(files=FILES, manifest={"verify": [BUILD, RUN], "metric": metric, "guard": [guard]})
    project.set_moves("{ }\n")
    doctor = project.run("doctor").stdout
    assert re.search(r"manifest .*: minimize time, wall time of the command build$", doctor, re.MULTILINE)
    seconds = r"[-\d.e]+ s"
    measured = rf"{seconds} \(all in [\d.]+s\)"
    assert re.search(rf"verifier +time = {measured} and {measured}: wall time of the command build$", doctor, re.M)
    bounds = "at most 60 s, at most 900% above the baseline"
    assert re.search(
        rf"verifier +guard took = {seconds}: wall time of the command run; {bounds}$", doctor, re.MULTILINE
    )
    printed = project.check("iterate")
    assert re.search(
        rf"^   1  \w+ +\w+ +{seconds}  {seconds} (beats|is worse than) {seconds} by {seconds};", printed, re.M
    )
    assert re.search(rf"^time {seconds}( → {seconds}|, nothing)", printed, re.MULTILINE)
    assert re.search(rf"best +{seconds} time .*; baseline {seconds},", project.check("status"))
    assert re.search(rf" {seconds} +{seconds} ", project.check("log"))
    page = project.check("show", "1")
    assert re.search(rf"^  time +{seconds}, against {seconds}: {seconds} ", page, re.MULTILINE)
    assert re.search(rf"^  took +{seconds}; {bounds}'s {seconds}$", page, re.MULTILINE)
    project.check("report", "-o", str(tmp_path / "night.md"))
    report = (tmp_path / "night.md").read_text()
    assert re.search(rf"`time` {seconds}", report)
    project.check("report", "-o", str(tmp_path / "night.html"))
    assert re.search(rf">{seconds}<", (tmp_path / "night.html").read_text())
    assert project.records()[-1]["metric"]["unit"] == "s"
