"""What the pages of the guide print about providers, reports, promoting and Python works as printed."""

import json
import shlex
import subprocess
import tomllib
from pathlib import Path

import notebook
import pages
import pytest
from fixture_projects import FixtureProject
from project import Project, Projects, answer


def block_with(page: str, language: str, words: str) -> str:
    return pages.block_with((pages.GUIDE / f"{page}.md").read_text(), language, words)


def commands(page: str, words: str) -> list[list[str]]:
    return pages.commands(f"```console\n{block_with(page, 'console', words)}```\n")


def test_the_ways_out_do_what_is_printed(project: Project) -> None:
    project.set_moves(answer(2), answer(1), answer(3))
    project.climb("iterate", "-n", "3")
    report, serve = commands("exports", "night.html")
    assert serve == ["report", "--serve"]
    table, events, to_mlflow = commands("exports", "night.csv")
    assert to_mlflow[:3] == ["export", "--to", "mlflow"]
    others = [table, events, *commands("exports", "show best"), *commands("exports", "manifest schema")]
    assert len(others) == 14
    for words in [report, *others]:
        project.check(*("2" if word == "12" else word for word in words))
    assert (project.folder / "taken/snapshot/answer.json").read_text() == answer(3)
    assert (project.folder / "night.csv").read_text().count("\n") == 5


def test_what_promote_is_said_to_do_it_does(project: Project) -> None:
    project.set_moves(answer(2), answer(1), answer(3))
    project.climb("iterate", "-n", "3")
    project.git("switch", "--quiet", "--create", "elsewhere")
    lines = commands("promote", "home.patch")
    assert len(lines) == 4
    for number, words in enumerate(lines):
        project.check(*(f"faster{number}" if word == "faster" else word for word in words))
    assert "measured on this base: 1 → 3" in project.check("promote", "--onto", "main", "--measure")
    assert (project.folder / "home.patch").exists()


def test_a_kept_change_is_left_out_and_taken_back_as_printed(project: Project) -> None:
    project.set_moves(answer(2), answer(3), answer(4))
    project.climb("iterate", "-n", "3")
    preview, branch = commands("promote", "--without 3")
    assert project.check(*preview).startswith("2 commits on")
    assert "measured on this base: 1 → 3" in project.check(*branch)
    assert project.git("show", "faster:answer.json") == answer(3).rstrip()
    (taking_back,) = commands("promote", "goalseek revert 3")
    project.check(*taking_back)
    last = project.iterations()[-1]
    assert (last["reason"], last["metric"]["value"]) == ("taken_back", 3)


def test_the_lines_that_remove_a_climb_leave_nothing_of_it(project: Project) -> None:
    project.set_moves(answer(2))
    project.climb()
    before = project.git("for-each-ref", "refs/heads/main")
    prune, *others = block_with("storage", "console", "update-ref").replace("digits", "demo").splitlines()
    project.check(*shlex.split(prune)[2:])
    for line in others:
        script = line.removeprefix("$ ")
        subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=project.folder, check=True, timeout=60)
    assert project.git("for-each-ref") == before
    assert not list(project.top.glob("**/goalseek/demo")) and not list(project.top.glob(".goalseek/demo"))
    assert project.climb("iterate")[-1]["iteration"] == 1, "it begins anew"


def test_the_marks_a_program_and_moves_are_read_as_printed(make_project: Projects) -> None:
    tuned = make_project(
        "tuned",
        files={"answer.json": block_with("providers", "python", "# goalseek: float"), "hidden/x": "1"},
        manifest={"provider": {"name": "tune"}},
    )
    assert "turns LEARNING_RATE, DEPTH, KERNEL" in tuned.run("doctor", "--quick").stdout
    asked = make_project("asked")
    asked.manifest.write_text(
        asked.manifest.read_text().partition("[provider]")[0] + block_with("providers", "toml", "propose.sh")
    )
    assert "propose.sh" in asked.check("manifest", "show")
    played = make_project("played", manifest={"scope": {"writable": ["train.py"], "hidden": ["hidden/**"]}})
    played.write({"train.py": "STEP = 0.5\n"})
    played.commit("to train")
    played.script.write_text(block_with("providers", "toml", "[[move]]"))
    assert played.climb("iterate")[-1]["hypothesis_summary"] == "a smaller step"


def test_the_scorer_of_cases_scores_those_that_are_asked(make_project: Projects) -> None:
    def answers(right: int) -> str:
        return json.dumps({f"case-{number}": "yes" if number < right else "no" for number in range(16)})

    project = make_project(
        "cases",
        files={
            "answers.json": answers(2),  # few, so that any part of the cases shows what changed
            "hidden/answers.json": answers(16),
            "hidden/score.py": block_with("cases", "python", "GOALSEEK_CASES"),
        },
        manifest={
            "scope": {"writable": ["/answers.json"], "hidden": ["hidden/**"]},
            "metric": tomllib.loads(block_with("cases", "toml", "race"))["metric"],
            "verify": [
                {"name": "answer", "run": "true", "outputs": ["answers.json"]},
                {"name": "score", "run": "python3 hidden/score.py", "sees": "hidden"},
            ],
        },
    )
    project.set_moves({"files": {"answers.json": answers(15)}}, {"files": {"answers.json": answers(1)}})
    baseline, better, worse = project.climb("iterate", "-n", "2")
    assert baseline["metric"]["value"] == 2 / 16
    assert (better["outcome"], better["metric"]["value"], better["metric"]["cases"]["won"]) == ("kept", 15 / 16, 13)
    assert worse["outcome"] == "reverted" and worse["metric"]["cases"]["run"] < 16


def test_the_code_of_the_page_on_python_runs_as_printed(make_project: Projects) -> None:
    tables = {
        "scope": {"writable": ["experiment.py"]},
        "metric": {"direction": "minimize", "query": "@", "noise": "none"},
        "verify": [{"run": 'sed "s/.* = //" experiment.py > "$GOALSEEK_RUN_DIR/metrics.json"'}],
    }
    project = make_project(files={"experiment.py": "NEIGHBOURS = 16\n"}, manifest=tables)
    project.set_moves(*({"files": {"experiment.py": f"NEIGHBOURS = {number}\n"}} for number in (15, 17)))
    code = "".join(pages.blocks_in((pages.GUIDE / "python.md").read_text(), "python"))
    started = project.start(program=("-W", "error", "-c", f"{code}climb.close()"))
    printed, complaints = started.communicate(timeout=120)
    assert complaints == "" and printed.splitlines()[:3] == ["0 baseline 16.0", "1 kept 15.0", "2 reverted 17.0"]
    for words in ("-NEIGHBOURS = 16\n+NEIGHBOURS = 15\n", "the best against the baseline: ", " neighbours -> kept "):
        assert words in printed


def test_the_notebook_is_the_page_on_python() -> None:
    assert json.loads(notebook.NOTEBOOK.read_text()) == notebook.notebook_of_page()


@pytest.mark.slow
def test_the_notebook_runs_and_shows_plot_and_report(tmp_path: Path) -> None:
    project = FixtureProject(tmp_path / "digits", "digits")
    run = "nbclient.NotebookClient(made, timeout=120).execute()"
    code = f"import nbclient, nbformat; made = nbformat.read({str(notebook.NOTEBOOK)!r}, 4); {run}; print(nbformat.writes(made))"
    printed, complaints = project.start(program=("-c", code)).communicate(timeout=300)
    assert printed, complaints
    shown = [output.get("data", {}) for cell in json.loads(printed)["cells"] for output in cell.get("outputs", ())]
    assert any("image/png" in data for data in shown)
    assert "".join(shown[-1]["text/html"]).startswith("<iframe srcdoc=")


def test_what_pushes_the_records_pushes_all_of_them_or_none() -> None:
    scripts = (pages.README.parent / ".github").rglob("*.sh")
    lines = "\n".join(path.read_text() for path in (*pages.PAGES, *scripts)).splitlines()
    pushes = [line for line in lines if "git push" in line and "refs/goalseek" in line]
    assert len(pushes) == 2 and all("git push --atomic" in line for line in pushes)
