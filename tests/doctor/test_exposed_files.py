"""A verify command that shows hidden files to candidate code: said wherever the number is shown, and by doctor."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest
from project import IDENTITY, Project, answer

EXPOSED = "candidate code can read the hidden files"
SPLIT: dict[str, Any] = {
    "scope": {"writable": ["answer.json"], "hidden": ["hidden/**"]},
    "verify": [
        {"name": "predict", "run": "cp answer.json out.json", "sees": "candidate", "outputs": ["out.json"]},
        {"name": "judge", "run": 'cp out.json "$GOALSEEK_RUN_DIR/metrics.json"', "sees": "hidden"},
    ],
}
READ_ONLY = {"scope": {"writable": ["answer.json"], "read_only": ["hidden/**"]}}


def findings(project: Project, *options: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in project.run("--json", "doctor", *options).stdout.splitlines()]


def test_doctor_has_a_cross_and_still_tries_the_verifier(project: Project) -> None:
    project.set_moves(answer(2))
    found = findings(project)
    (cross,) = [one for one in found if not one["ok"]]
    assert cross["name"] == "isolation" and f"{EXPOSED}: judge sees both" in cross["text"]
    assert "split it" in cross["remedy"] and "sabotage" in [one["name"] for one in found]


def test_the_first_and_the_last_line_of_a_climb_report_status_and_promote_say_it(project: Project) -> None:
    project.set_moves(answer(2), answer(3))
    ended = project.run("iterate")
    assert ended.stderr.startswith(f"note: {EXPOSED}: judge sees both; split it: a command that sees = ")
    assert ended.stdout.splitlines()[-1].startswith(f"score 1 → 2 · {EXPOSED} · 1 kept of 1")
    said = "Candidate code could read the hidden files"
    markdown, page = (project.run("report", "-o", "-", "--format", form).stdout for form in ("md", "html"))
    assert f"> {said}" in markdown and markdown.index(said) < markdown.index("### Kept")
    assert page.index(said) < page.index('class="facts"')
    warning = f"warning    {EXPOSED}: judge sees both; split it: a command that sees = "
    assert warning in project.run("status").stdout
    result = "score: 2 (was 1); candidate code could read the hidden files"
    assert f"  {result}\n" in project.run("promote").stdout
    project.run("promote", "--branch", "better")
    assert project.git("log", "-1", "--format=%B", "better").splitlines()[-1] == result


@pytest.mark.parametrize("run", ["./built/judge", "cd . && built/judge; true", ["built/judge"]])
def test_a_program_that_was_handed_on_and_prints_the_number_is_candidate_code(project: Project, run: Any) -> None:
    build = {"name": "build", "run": "cp answer.json built/judge", "sees": "candidate", "outputs": ["built/**"]}
    score = {"name": "score", "run": run, "sees": "hidden"}
    project.set_manifest({**SPLIT, "verify": [build, score]})
    project.commit("a program that prints its own number")
    found = findings(project, "--quick")
    (cross,) = [one for one in found if not one["ok"] and one["name"] == "isolation"]
    assert f"{EXPOSED}: score sees both" == cross["text"] and "split it" in cross["remedy"]
    note = f"{EXPOSED}: score sees both"
    assert note in project.run("iterate").stderr
    project.set_manifest({**SPLIT, "verify": [build, {**score, "run": "cat built/judge"}]})
    assert not [one for one in findings(project, "--quick") if not one["ok"] and one["name"] == "isolation"]


def test_a_scoring_script_that_the_candidate_can_write_is_to_be_hidden_and_never_handed_on(project: Project) -> None:
    project.write({"grade.py": "print('score: 1')\n", "hidden/run.sh": "exec python3 grade.py\n"})
    predict = {**SPLIT["verify"][0], "outputs": ["out.json"]}
    metric = {"source": "stdout", "regex": "score: (.*)", "direction": "maximize", "command": "judge"}
    scope = {"writable": ["answer.json", "*.py"], "hidden": ["hidden/**"]}
    for run in ("python3 grade.py", "sh hidden/run.sh"):
        judge = {"name": "judge", "run": run, "sees": "hidden"}
        project.set_manifest({"scope": scope, "metric": metric, "verify": [predict, judge]})
        project.commit("a scorer in the root")
        failed = project.run("baseline").stderr
        assert "and it runs grade.py: hide it: name it in scope.hidden" in failed and "name what it needs" not in failed
    for run in ("python3 -u grade.py", ["python3", "./grade.py"], "cd . && python3 -m grade"):
        judge = {"name": "judge", "run": run, "sees": "hidden"}
        handed = {**predict, "outputs": ["out.json", "grade.py"]}
        project.set_manifest({"scope": scope, "metric": metric, "verify": [handed, judge]})
        (cross,) = [one for one in findings(project, "--quick") if not one["ok"] and one["name"] == "isolation"]
        assert cross["text"] == f"{EXPOSED}: judge runs grade.py, which the candidate can write"
        assert "hide it: name it in scope.hidden" in cross["remedy"]
    project.commit("the scorer is handed on")
    assert f"{EXPOSED}: judge runs grade.py, which the candidate can write" in project.run("iterate").stderr
    for table, outputs in (({"hidden": ["grade.py", "hidden/**"]}, ["grade.py"]), ({"read_only": ["grade.py"]}, [])):
        handed = {**predict, "outputs": ["out.json", *outputs]}
        project.set_manifest({"scope": {**scope, **table}, "metric": metric, "verify": [handed, judge]})
        assert not [one for one in findings(project, "--quick") if not one["ok"] and one["name"] == "isolation"]


@pytest.mark.parametrize("tables", [SPLIT, READ_ONLY], ids=["split", "nothing hidden"])
def test_where_nothing_hidden_is_shown_nothing_is_said(project: Project, tables: dict[str, Any]) -> None:
    project.set_manifest(tables)
    project.commit("another layout")
    project.set_moves(answer(2))
    assert [one for one in findings(project, "--quick") if not one["ok"]] == []
    ended = project.run("iterate")
    assert ended.exit_code == 0 and EXPOSED not in ended.stdout + ended.stderr
    shown = project.run("report", "-o", "-", "--format", "html").stdout + project.run("promote").stdout
    assert "score: 2 (was 1)" in shown and "could read" not in shown
    assert EXPOSED not in project.run("status").stdout


def test_doctor_names_answers_in_a_shared_folder_that_a_hidden_file_or_their_name_gives_away(project: Project) -> None:
    libraries = ("data/lib/site-packages/labels.csv", "data/train_labels.csv", "data/target.py", "data/rows.csv")
    answers = ("data/test.csv", "data/true_labels.csv")
    project.write({".gitignore": "data\nanswers\n", "answers": "1\n", **dict.fromkeys((*libraries, *answers), "1\n")})
    project.write({"hidden/evaluate.py": "open('data/test.csv'); open('data/none.csv'); open('data'); '\\0'\n"})
    project.set_manifest({**SPLIT, "scope": {**SPLIT["scope"], "share": ["data", "answers"]}})
    project.commit("shared")
    every = findings(project, "--quick")
    found = [one for one in every if one["text"].startswith("candidate code can read")]
    imports = "no shared folder imports your checkout"
    assert [one["text"] for one in every if one["name"] == "environment"] == [
        f"{imports}, and no path is both shared and hidden"
    ]
    assert [one["text"] for one in found] == [
        "candidate code can read data/test.csv, which hidden hidden/evaluate.py names",
        "candidate code can read answers, data/true_labels.csv, and the name says that answers are in it",
    ]
    assert all(one["ok"] for one in found)
    moved = "mv data/test.csv hidden && git add --force hidden/test.csv && git commit -m 'Hide the answers'"
    assert f"mkdir -p hidden && {moved}, and let the scorer read hidden/test.csv" in found[0]["remedy"]
    assert "take answers out of scope.share, and let" in found[1]["remedy"] and "scope.hidden" not in str(found)
    project.set_manifest({"scope": {**READ_ONLY["scope"], "share": ["data", "answers"]}})
    assert [one["text"] for one in findings(project, "--quick") if one["name"] == "environment"] == [imports]


def test_how_answers_in_a_shared_folder_are_hidden_is_said_as_lines_that_work(project: Project) -> None:
    project.write({".gitignore": "data\n", "score.sh": "cat data/labels.csv\n", "data/labels.csv": "1\n"})
    scope = {"writable": ["answer.json"], "hidden": ["score.sh"], "share": ["data"]}
    project.set_manifest({**SPLIT, "scope": scope})
    project.commit("shared")
    (found,) = [one for one in findings(project, "--quick") if one["text"].startswith("candidate code can read")]
    line, _, key = found["remedy"].partition(": ")[2].partition(", with ")
    assert key == 'scope.hidden = ["score.sh", "hidden/**"], and let the scorer read hidden/labels.csv'
    subprocess.run(["sh", "-c", line], cwd=project.folder, env={**os.environ, **IDENTITY}, check=True, timeout=30)
    project.set_manifest({**SPLIT, "scope": {**scope, "hidden": ["score.sh", "hidden/**"]}})
    assert not [one for one in findings(project, "--quick") if one["text"].startswith("candidate code can read")]
    project.write({"data/labels.csv": "1,2\n"})
    outside = project.folder.parent / "outside"
    outside.mkdir()
    (outside / "rows.csv").write_text("1\n")
    project.set_manifest({**SPLIT, "scope": {**scope, "hidden_from": "../outside"}})
    (found,) = [one for one in findings(project, "--quick") if one["text"].startswith("candidate code can read")]
    assert "mv data/labels.csv ../outside, and let the scorer read labels.csv" in found["remedy"]


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("score.py", 'open(os.path.join("data", "true", "rows.csv"))'),
        ("score.py", "FOLDER = Path('data')\nopen(FOLDER / 'true' / 'rows.csv')"),
        ("score.sh", "cmp out.json data/true/rows.csv"),
        ("", "sh hidden/judge.sh data/true/rows.csv"),
        ("", "sh hidden/judge.sh --rows='data/true/rows.csv'"),
    ],
)
def test_answers_in_a_shared_folder_are_found_by_parts_of_their_path_and_words_of_the_command(
    project: Project, script: str, text: str
) -> None:
    rows = ("data/true/rows.csv", "data/other.csv", "data/bin/judge")
    project.write({".gitignore": "data\n", **dict.fromkeys(rows, "1\n"), "hidden/notes.md": '"data" and "other.csv"\n'})
    project.write({f"hidden/{script}": text} if script else {})
    score = {**SPLIT["verify"][1], "run": f"data/bin/judge && {'true' if script else text}"}
    scope = {**SPLIT["scope"], "share": ["data"]}
    project.set_manifest({**SPLIT, "scope": scope, "verify": [SPLIT["verify"][0], score]})
    project.commit("shared")
    said = [one["text"] for one in findings(project, "--quick") if one["text"].startswith("candidate code can read")]
    who = f"hidden hidden/{script}" if script else "the command judge"
    assert said == [f"candidate code can read data/true/rows.csv, which {who} names"]


def test_a_copy_of_a_hidden_file_in_a_shared_folder_is_found(project: Project) -> None:
    project.write({".gitignore": "data\n", "hidden/rows.csv": "1,2\n", "data/deep/a.csv": "1,2\n"})
    project.write({"data/b.csv": "1,2\n", "data/c.csv": "1,3\n", "data/empty": "", "hidden/empty": ""})
    project.set_manifest({**SPLIT, "scope": {**SPLIT["scope"], "share": ["data"]}})
    project.commit("shared")
    said = [one["text"] for one in findings(project, "--quick") if one["text"].startswith("candidate code can read")]
    assert said == ["candidate code can read data/b.csv, data/deep/a.csv, a copy of hidden hidden/rows.csv"]
    assert "rm data/b.csv data/deep/a.csv" in project.run("iterate").stderr


def test_answers_in_a_shared_folder_are_said_wherever_the_number_is_shown(project: Project) -> None:
    project.write({".gitignore": "data\n", "data/labels.csv": "1\n"})
    project.set_manifest({**SPLIT, "scope": {**SPLIT["scope"], "share": ["data"]}})
    project.commit("shared")
    project.set_moves(answer(2))
    text = "candidate code can read data/labels.csv, and the name says that answers are in it"
    assert f"warning    {text}; " in project.run("status").stdout
    assert f"note: {text}; " in project.run("iterate").stderr
    assert f"warning    {text}; " in project.run("status").stdout
    markdown, page = (project.run("report", "-o", "-", "--format", form).stdout for form in ("md", "html"))
    said = "and the name says that answers are in it"
    assert 0 < markdown.index("`data/labels.csv`") < markdown.index(said) < markdown.index("### Kept")
    assert page.index(text) < page.index('class="facts"')
    (project.folder / "data/labels.csv").unlink()
    assert "can read" not in project.run("status").stdout


def test_a_column_of_a_shared_file_that_a_hidden_file_has_is_found(project: Project) -> None:
    rows = [f"{number},{number % 2}" for number in range(9)]
    project.write({".gitignore": "data\n", "hidden/rows.csv": "\n".join(["label", *(row[-1] for row in rows)])})
    project.write({"data/test.csv": "\n".join(["x,label", *rows]), "data/rows.csv": "\n".join(["x,label", *rows[1:]])})
    project.set_manifest({**SPLIT, "scope": {**SPLIT["scope"], "share": ["data"]}})
    project.commit("shared")
    (found,) = [one for one in findings(project, "--quick") if one["text"].startswith("candidate code can read")]
    assert found["text"] == "candidate code can read column label of data/test.csv, which hidden hidden/rows.csv has"
    assert found["remedy"] == "split it: the features stay, that column goes to the hidden files"


@pytest.mark.parametrize("names_it", ["command", "writable file"])
def test_a_file_that_the_candidate_needs_as_well_is_split_and_not_moved(project: Project, names_it: str) -> None:
    project.write({".gitignore": "data\n", "data/test.csv": "1\n", "data/labels.csv": "1\n"})
    project.write({"hidden/evaluate.py": "open('data/test.csv')\n"})
    predict = SPLIT["verify"][0]
    if names_it == "command":
        predict = {**predict, "run": "cat data/test.csv; cp answer.json out.json"}
    else:
        project.write({"train.py": "open('data/test.csv')\n"})
    scope = {**SPLIT["scope"], "writable": ["answer.json", "train.py"][: 1 + (names_it != "command")]}
    project.set_manifest({**SPLIT, "scope": {**scope, "share": ["data"]}, "verify": [predict, SPLIT["verify"][1]]})
    project.commit("shared")
    found = [one for one in findings(project, "--quick") if one["text"].startswith("candidate code can read")]
    assert [one["remedy"][:40] for one in found] == [
        "split it: the features stay, the answers",
        "move it to the hidden files: mkdir -p hi",
    ]
