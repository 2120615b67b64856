"""A verify command that shows hidden files to candidate code: said wherever the number is shown, and by doctor."""

from __future__ import annotations

import json
from typing import Any

import pytest
from project import Project, answer

EXPOSED = "candidate code can read the hidden files"
SPLIT = {
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
    assert cross["name"] == "isolation" and "judge: candidate code runs beside the hidden files" in cross["text"]
    assert "split it" in cross["remedy"] and "sabotage" in [one["name"] for one in found]


def test_the_first_and_the_last_line_of_a_climb_report_status_and_promote_say_it(project: Project) -> None:
    project.set_moves(answer(2), answer(3))
    ended = project.run("iterate")
    assert ended.stderr.startswith(f"note: {EXPOSED}: judge sees both; goalseek doctor says how to separate them\n")
    assert ended.stdout.splitlines()[-1].startswith(f"score 1 → 2 · {EXPOSED} · 1 kept of 1")
    said = "Candidate code could read the hidden files"
    markdown, page = (project.run("report", "-o", "-", "--format", form).stdout for form in ("md", "html"))
    assert f"> {said}" in markdown and markdown.index(said) < markdown.index("### Kept")
    assert page.index(said) < page.index('class="facts"')
    warning = f"warning    {EXPOSED}: judge sees both; goalseek doctor says how to separate them"
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
    assert "score: candidate code runs beside the hidden files" in cross["text"] and "split it" in cross["remedy"]
    note = f"{EXPOSED}: score sees both"
    assert note in project.run("iterate").stderr
    project.set_manifest({**SPLIT, "verify": [build, {**score, "run": "cat built/judge"}]})
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
    found = [one for one in findings(project, "--quick") if one["text"].startswith("candidate code can read")]
    assert [one["text"] for one in found] == [
        "candidate code can read data/test.csv, which hidden hidden/evaluate.py names",
        "candidate code can read data/true_labels.csv, answers, and the name says that answers are in it",
    ]
    remedy = "commit it under scope.hidden, or keep it outside (goalseek help recipe-hidden)"
    assert all(one["ok"] and one["remedy"] == remedy for one in found)
