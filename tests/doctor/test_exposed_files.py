"""Hidden files and answers that candidate code can read: said wherever the number is shown, and by doctor."""

import os
import subprocess
from typing import Any

import pytest
from doctor_cases import crosses, findings
from project import IDENTITY, Project, answer

from goalseek.doctor.checks import ask_checks, subject_of
from goalseek.manifest.exposure import exposures
from goalseek.manifest.loading import load
from goalseek.project.opening import open_project
from goalseek.values import Finding

EXPOSED = "candidate code can read the hidden files"
PREDICT = {"name": "predict", "run": "cp answer.json out.json", "sees": "candidate", "outputs": ["out.json"]}
JUDGE = {"name": "judge", "run": 'cp out.json "$GOALSEEK_RUN_DIR/metrics.json"', "sees": "hidden"}
SPLIT: dict[str, Any] = {
    "scope": {"writable": ["answer.json"], "hidden": ["hidden/**"]},
    "verify": [PREDICT, JUDGE],
}


def test_doctor_and_the_first_and_the_last_line_of_a_climb_report_status_and_promote_say_it(project: Project) -> None:
    project.set_moves(answer(2), answer(3))
    ended = project.run("--json", "doctor")
    (cross,) = crosses(ended)
    assert cross["name"] == "isolation" and f"{EXPOSED}: judge sees both" in cross["text"]
    assert "split it" in cross["remedy"] and "sabotage" in findings(ended), "it is still tried"
    ended = project.run("iterate")
    assert ended.stderr.startswith(f"note: {EXPOSED}: judge sees both; split it: a command with sees = ")
    assert ended.stdout.splitlines()[-1].startswith(f"score 1 → 2 · {EXPOSED} · 1 kept of 1")
    said = "Candidate code could read the hidden files"
    markdown, page = (project.run("report", "-o", "-", "--format", form).stdout for form in ("md", "html"))
    assert f"> {said}" in markdown and markdown.index(said) < markdown.index("### Kept")
    assert page.index(said) < page.index('class="facts"')
    warning = f"warning    {EXPOSED}: judge sees both; split it: a command with sees = "
    assert warning in project.run("status").stdout
    result = "score: 2 (was 1); candidate code could read the hidden files"
    assert f"  {result}\n" in project.run("promote").stdout
    project.run("promote", "--branch", "better")
    assert project.git("log", "-1", "--format=%B", "better").splitlines()[-1] == result


def test_where_nothing_hidden_is_shown_nothing_is_said(project: Project) -> None:
    project.set_manifest(SPLIT)
    project.commit("another layout")
    project.set_moves(answer(2))
    ended = project.run("iterate")
    assert ended.exit_code == 0 and EXPOSED not in ended.stdout + ended.stderr
    shown = project.run("report", "-o", "-", "--format", "html").stdout + project.run("promote").stdout
    assert "score: 2 (was 1)" in shown and "could read" not in shown
    assert EXPOSED not in project.run("status").stdout


BUILD = {**PREDICT, "outputs": ["built/**"]}
HANDED = {**PREDICT, "outputs": ["out.json", "grade.py"]}
CODE = {"writable": ["answer.json", "*.py"], "hidden": ["hidden/**"]}
GRADES = "judge runs grade.py, which the candidate can write"


@pytest.mark.parametrize(
    ("scope", "first", "run", "told"),
    [
        *((SPLIT["scope"], BUILD, run, "judge sees both") for run in ("./built/judge", "cd . && built/judge; true")),
        (SPLIT["scope"], BUILD, ["built/judge"], "judge sees both"),
        (SPLIT["scope"], BUILD, "cat built/judge", ""),
        *((CODE, HANDED, run, GRADES) for run in ("python3 -u grade.py", "cd . && python3 -m grade")),
        (CODE, HANDED, ["python3", "./grade.py"], GRADES),
        ({**CODE, "hidden": ["grade.py", "hidden/**"]}, HANDED, "python3 grade.py", ""),
        ({**CODE, "read_only": ["grade.py"]}, PREDICT, "python3 grade.py", ""),
        ({"writable": ["answer.json"], "read_only": ["hidden/**"]}, PREDICT, "python3 grade.py", ""),
    ],
)
def test_a_program_that_was_handed_on_and_gives_the_number_is_candidate_code(
    project: Project, scope: Any, first: Any, run: Any, told: str
) -> None:
    project.set_manifest({"scope": scope, "verify": [first, {**JUDGE, "run": run}]})
    found = list(exposures(load(project.manifest).manifest))
    assert [one.text for one in found if not one.ok] == ([f"{EXPOSED}: {told}"] if told else [])
    remedy = "hide it: name it in scope.hidden" if told == GRADES else "split it"
    assert all(remedy in one.remedy for one in found)


def readable(project: Project, files: dict[str, str], scope: dict[str, Any], **tables: Any) -> list[Finding]:
    """The notes on answers in shared folders; the files of ``data`` and the file ``answers`` are ignored by git."""
    project.write({".gitignore": "data\nanswers\n", **files})
    project.set_manifest({**SPLIT, "scope": {**SPLIT["scope"], "share": ["data"], **scope}, **tables})
    project.commit("shared")
    with open_project(load(project.manifest)) as opened:
        found = list(ask_checks(subject_of(opened, "doctor"), ("isolation",)))
    return [one for one in found if one.text.startswith("candidate code can read")]


def test_answers_in_a_shared_folder_are_named_that_a_hidden_file_or_their_name_gives_away(project: Project) -> None:
    libraries = ("data/lib/site-packages/labels.csv", "data/train_labels.csv", "data/target.py", "data/rows.csv")
    files = dict.fromkeys((*libraries, "data/test.csv", "data/true_labels.csv", "answers"), "1\n")
    files["hidden/evaluate.py"] = "open('data/test.csv'); open('data/none.csv'); open('data'); '\\0'\n"
    found = readable(project, files, {"share": ["data", "answers"]})
    assert [one.text for one in found] == [
        "candidate code can read data/test.csv, which hidden hidden/evaluate.py names",
        "candidate code can read answers, data/true_labels.csv, and the name says that answers are in it",
    ]
    assert all(one.ok for one in found)
    moved = "mv data/test.csv hidden && git add --force hidden/test.csv && git commit -m 'Hide the answers'"
    assert f"mkdir -p hidden && {moved}, and let the scorer read hidden/test.csv" in found[0].remedy
    assert "take answers out of scope.share, and let" in found[1].remedy and "scope.hidden" not in str(found)
    imports = "no shared folder imports your checkout"
    every = project.run("doctor", "--quick").stdout
    assert f" environment  {imports}, and no path is both shared and hidden\n" in every
    project.set_manifest({"scope": {"writable": ["answer.json"], "read_only": ["hidden/**"], "share": ["data"]}})
    assert f" environment  {imports}\n" in project.run("doctor", "--quick").stdout


def test_how_they_are_hidden_is_said_as_lines_that_work(project: Project) -> None:
    hidden = {"hidden": ["score.sh"]}
    (found,) = readable(project, {"score.sh": "cat data/labels.csv\n", "data/labels.csv": "1\n"}, hidden)
    line, _, key = found.remedy.partition(": ")[2].partition(", with ")
    assert key == 'scope.hidden = ["score.sh", "hidden/**"], and let the scorer read hidden/labels.csv'
    subprocess.run(["sh", "-c", line], cwd=project.folder, env={**os.environ, **IDENTITY}, check=True, timeout=30)
    hidden = {"hidden": ["score.sh", "hidden/**"]}
    assert readable(project, {}, hidden) == []
    outside = project.folder.parent / "outside"
    outside.mkdir()
    (outside / "rows.csv").write_text("1\n")
    (found,) = readable(project, {"data/labels.csv": "1,2\n"}, {**hidden, "hidden_from": "../outside"})
    assert "mv data/labels.csv ../outside, and let the scorer read labels.csv" in found.remedy


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
def test_they_are_found_by_parts_of_their_path_and_words_of_the_command(
    project: Project, script: str, text: str
) -> None:
    files = dict.fromkeys(("data/true/rows.csv", "data/other.csv", "data/bin/judge"), "1\n")
    files["hidden/notes.md"] = '"data" and "other.csv"\n'
    score = {**JUDGE, "run": f"data/bin/judge && {'true' if script else text}"}
    found = readable(project, {**files, **({f"hidden/{script}": text} if script else {})}, {}, verify=[PREDICT, score])
    who = f"hidden hidden/{script}" if script else "the command judge"
    assert [one.text for one in found] == [f"candidate code can read data/true/rows.csv, which {who} names"]


def test_a_copy_of_a_hidden_file_and_a_column_that_it_has_are_found(project: Project) -> None:
    rows = [f"{number},{number % 2}" for number in range(9)]
    files = {"hidden/a.csv": "1,2\n", "data/deep/a.csv": "1,2\n", "data/b.csv": "1,2\n", "data/c.csv": "1,3\n"}
    files |= {"data/empty": "", "hidden/empty": "", "hidden/rows.csv": "\n".join(["label", *(row[-1] for row in rows)])}
    files |= {"data/test.csv": "\n".join(["x,label", *rows]), "data/rows.csv": "\n".join(["x,label", *rows[1:]])}
    column, copies = readable(project, files, {})
    assert copies.text == "candidate code can read data/b.csv, data/deep/a.csv, a copy of hidden hidden/a.csv"
    assert "rm data/b.csv data/deep/a.csv" in copies.remedy
    assert (
        column.text
        == "candidate code can read column label of data/test.csv, a column of the hidden file hidden/rows.csv too"
    )
    assert column.remedy == "split it: the features stay, that column goes to the hidden files"


def test_answers_in_a_shared_folder_are_said_wherever_the_number_is_shown(project: Project) -> None:
    readable(project, {"data/labels.csv": "1\n"}, {})
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


@pytest.mark.parametrize("is_named", [True, False], ids=["command", "writable file"])
def test_a_file_that_the_candidate_needs_as_well_is_split_and_not_moved(project: Project, is_named: bool) -> None:
    files = {"data/test.csv": "1\n", "data/labels.csv": "1\n", "hidden/evaluate.py": "open('data/test.csv')\n"}
    predict, scope = PREDICT, {}
    if is_named:
        predict = {**PREDICT, "run": "cat data/test.csv; cp answer.json out.json"}
    else:
        files["train.py"], scope = "open('data/test.csv')\n", {"writable": ["answer.json", "train.py"]}
    split, move = readable(project, files, scope, verify=[predict, JUDGE])
    assert split.remedy.startswith("split it: the features stay, the answers")
    assert move.remedy.startswith("move it to the hidden files: mkdir -p hi")
