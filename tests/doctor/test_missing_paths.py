"""A command that fails because its tree lacks a path of the checkout: the path is named, with what to write."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from project import Project, answer

IGNORED = "`data/` is ignored by git and so not in the trees"
READS_DATA = "open('data/raw/big.bin').close()"


def python_judge(line: str) -> str:
    head = "import json, os, pathlib, sys\n"
    return f"{head}{line}\njson.dump({{'score': 1}}, open(os.environ['GOALSEEK_RUN_DIR'] + '/metrics.json', 'w'))\n"


def set_judge(project: Project, line: str, sees: str = "both", **tables: Any) -> None:
    project.write({"hidden/judge.py": python_judge(line)})
    verify = [{"name": "judge", "run": "python hidden/judge.py", "sees": sees}]
    project.set_manifest({"verify": verify, **tables})


def commit_with_data(project: Project) -> None:
    project.write({".gitignore": "data/\n"})
    project.commit("a judge")
    project.write({"data/raw/big.bin": "1\n"})


def test_an_ignored_folder_is_named_by_iterate_and_the_line_helps(project: Project) -> None:
    set_judge(project, READS_DATA)
    commit_with_data(project)
    project.set_moves(answer(2))
    ended = project.run("iterate")
    assert (
        ended.exit_code == 1 and f'{IGNORED}: scope.share = ["data"]; then run the same command again' in ended.stderr
    )
    set_judge(project, READS_DATA, scope={"writable": ["answer.json"], "hidden": ["hidden/**"], "share": ["data"]})
    assert project.run("iterate").exit_code == 0


def test_what_a_scorer_misses_is_never_to_be_shared(project: Project) -> None:
    set_judge(project, READS_DATA, sees="hidden")
    commit_with_data(project)
    stderr = project.run("baseline").stderr
    assert f"{IGNORED}: commit it, and name it in scope.hidden; or keep it outside" in stderr
    assert "scope.hidden_from" in stderr and "scope.share" not in stderr


def test_doctor_names_it_and_outside_too(project: Project) -> None:
    set_judge(project, READS_DATA, sandbox={"mode": "auto"})
    commit_with_data(project)
    lines = project.run("--json", "doctor", "--outside").stdout.splitlines()
    found = {one["name"]: one for one in map(json.loads, lines)}
    for name in ("verifier", "outside"):
        assert not found[name]["ok"] and f'{IGNORED}: scope.share = ["data"]' in found[name]["remedy"]


def test_init_names_it(project: Project) -> None:
    set_judge(project, READS_DATA)
    commit_with_data(project)
    project.manifest.unlink()
    run = ("--run", "python hidden/judge.py", "--writable", "answer.json")
    ended = project.run("init", *run, "--metric", "maximize score")
    assert ended.exit_code == 1 and f'{IGNORED}: scope.share = ["data"]' in ended.stderr


def test_a_candidate_that_fails_for_it_has_a_note(project: Project) -> None:
    set_judge(project, "json.load(open('answer.json'))['score'] == 1 or open('data/raw/big.bin')")
    commit_with_data(project)
    project.set_moves(answer(2))
    ended = project.run("iterate", "-n", "1")
    assert "verify_failed" in ended.stdout and f': {IGNORED}: scope.share = ["data"]' in ended.stderr


@pytest.mark.parametrize(
    ("line", "files", "expected"),
    [
        ("open('hidden/a.csv')", {"hidden/a.csv": ""}, "`hidden/a.csv` is hidden and not committed"),
        ("import helper", {"helper.py": ""}, "`helper.py` is not committed and so not in the trees: commit it"),
        ("sys.exit('cat: weights: No such file')", {"weights": ""}, 'where it is data: scope.share = ["weights"]'),
        ("sys.exit(f'cannot read {os.getcwd()}/data/big')", {"data/big": ""}, IGNORED),
        ("open('out/log', 'w')", {"out/old": ""}, "`out/` is not committed and so not in the trees: mkdir -p out"),
        ("sys.exit(\"cannot open 'my data/big'\")", {"my data/big": ""}, 'scope.share = ["my data"]'),
        ("sys.exit('no folder data/tracked/x here')", {"data/tracked/x": ""}, "`data/tracked/x` is ignored by git"),
        ("sys.exit('src/a.c:1:9: fatal error: b.h: No such file')", {"src/b.h": ""}, "`src/b.h` is not committed"),
    ],
    ids=["hidden", "module", "bare word", "absolute", "written", "space", "a tracked file beside it", "include"],
)
def test_other_paths(project: Project, line: str, files: dict[str, str], expected: str) -> None:
    set_judge(project, f"sys.path.insert(0, '.'); {line}")
    project.write({".gitignore": "data/\nout/\n*.csv\n", "data/tracked/kept": "1\n", "src/a.c": ""})
    if "tracked" in line:
        project.git("add", "-f", "data/tracked/kept")
    else:
        (project.folder / "data/tracked/kept").unlink()
    project.commit("a judge")
    project.write(files)
    assert expected in project.run("baseline").stderr


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("print('wrote data/x'); sys.exit('just wrong')", {"data/x": ""}),
        ("sys.exit('no such file: other.txt')", {}),
        ("sys.exit('no such file: nowhere/x')", {}),
        ("sys.exit('cannot parse shared/x')", {"shared/x": ""}),
    ],
    ids=["no complaint", "in the tree", "nowhere", "shared"],
)
def test_what_is_no_cause_is_not_named(project: Project, line: str, files: dict[str, str]) -> None:
    scope = {"writable": ["answer.json"], "hidden": ["hidden/**"], "share": ["shared"]}
    set_judge(project, line, scope=scope)
    project.write({".gitignore": "data/\nshared/\n", "shared/y": ""})
    project.commit("a judge")
    project.write(files)
    stderr = project.run("baseline").stderr
    assert "the baseline has no number" in stderr and "not in the trees" not in stderr


def test_what_is_shared_or_runs_is_no_cause_in_a_folder_of_a_monorepo_either(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "repository", below="service")
    scope = {"writable": ["answer.json"], "hidden": ["hidden/**"], "share": [".venv"]}
    project.write({"../.venv/lib/x.py": "", "../libs/x.py": "", "../.gitignore": ".venv\n"})
    (project.folder / ".venv").symlink_to("../.venv")
    for line, is_cause in (
        ("cannot parse ../.venv/lib/x.py", False),
        ("../libs/x.py:12: Warning: No files were here", False),
        ("cannot parse ../libs/x.py", True),
    ):
        set_judge(project, f"sys.exit('{line}')", scope=scope)
        project.git("add", "service/hidden/judge.py", "service/goalseek.toml", ".gitignore")
        project.git("commit", "--quiet", "--allow-empty", "-m", line)
        stderr = project.run("baseline").stderr
        assert "the baseline has no number" in stderr
        assert ("`libs/` is not committed" in stderr, "`.venv/`" in stderr) == (is_cause, False)


def test_a_submodule_and_a_link(project: Project, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far/x").write_text("1\n")
    (project.folder / "near").symlink_to(tmp_path / "far")
    set_judge(project, "open('near/x')", sandbox={"mode": "auto"})
    project.commit("a link")
    line = 'and what it leads to is not in the trees: scope.share = ["near"]'
    assert f"`near/` is a link, {line}" in project.run("baseline").stderr
    library = Project.make(tmp_path / "library", {"x": "1\n"})
    project.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.top), "lib")
    set_judge(project, "open('lib/x')")
    project.commit("a submodule")
    named = f"`lib/` is a submodule, {line.replace('near', 'lib')}"
    assert named in project.run("baseline").stderr
    (project.folder / "lib/src/demand").mkdir(parents=True)
    set_judge(project, "import demand.lags")
    project.commit("a module of the submodule")
    assert named in project.run("baseline").stderr


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("folder", ["", "{}/"], ids=["relative", "absolute"])
def test_an_interpreter_that_ran_is_not_missing(project: Project, folder: str) -> None:
    project.write({".gitignore": ".venv/\n", "hidden/judge.py": "import sys; sys.exit(f'{sys.argv[1]}: not right')\n"})
    program = f"{folder.format(project.folder)}.venv/bin/python"
    verify = [{"name": "judge", "run": f"{program} hidden/judge.py {program}", "sees": "both"}]
    project.set_manifest({"verify": verify, "sandbox": {"mode": "auto"}})
    project.commit("a judge")
    project.write({".venv/pyvenv.cfg": f"home = {Path(sys.executable).resolve().parent}\n"})
    (project.folder / ".venv/bin").mkdir()
    (project.folder / ".venv/bin/python").symlink_to(Path(sys.executable).resolve())
    stderr = project.run("baseline").stderr
    assert "not right" in stderr and "not committed" not in stderr and "ignored by git" not in stderr


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("echo 1 && forecast.csv", "`forecast.csv` is not a command that is found there"),
        ("tool/run", "tool/run is in your checkout, but not committed: add it"),
    ],
)
def test_a_program_that_did_not_run(project: Project, line: str, expected: str) -> None:
    project.set_manifest({"verify": [{"name": "judge", "run": line, "sees": "both"}]})
    project.commit("a command")
    project.write({"tool/run": "", "forecast.csv": ""})
    assert f"judge: {expected}" in project.run("baseline").stderr


def test_a_folder_that_a_candidate_removed_is_not_said_to_be_newer_than_the_climb(project: Project) -> None:
    verify = [{"name": "judge", "run": "ls src/part && sh hidden/judge.sh", "sees": "both"}]
    project.write({"src/part": "1\n"})
    project.set_agent("rm -r src", {"verify": verify, "scope": {"writable": ["src/**"]}})
    project.commit("a part")
    project.check("iterate")
    record = project.iterations()[-1]
    assert record["reason"] == "verify_failed" and "src/part" in record["why"]
    assert "committed" not in record["why"] + "".join(record["notes"])


def test_a_file_that_was_committed_after_the_baseline(project: Project) -> None:
    set_judge(project, "json.load(open('answer.json'))['score'] == 1 or open('more.txt')")
    project.commit("a judge")
    project.set_moves(answer(2))
    assert project.run("baseline").exit_code == 0
    project.write({"more.txt": "1\n"})
    project.commit("more")
    assert "`more.txt` was committed after the tree that the climb starts from" in project.run("iterate").stderr


def test_a_script_that_exists_nowhere_is_not_one_to_be_handed_on(project: Project) -> None:
    verify = [{"name": "judge", "run": "python3 hidden/jugde.py", "sees": "hidden"}]
    set_judge(project, "")
    project.set_manifest({"verify": verify})
    project.commit("a slip")
    assert "judge: hidden/jugde.py does not exist; did you mean 'hidden/judge.py'?" in project.run("baseline").stderr


def test_a_module_that_another_python_has_or_that_is_not_committed_beside_the_code(project: Project) -> None:
    set_judge(
        project, "import stopwords", scope={"writable": ["answer.json"], "hidden": ["hidden/**"], "share": [".venv"]}
    )
    project.write({".gitignore": ".venv/\n", "libs/kit.py": "1\n"})
    project.commit("a judge")
    project.write({".venv/lib/python3.11/site-packages/stopwords.py": "1\n"})
    said = ".venv has the module stopwords: run the command with .venv/bin/python"
    assert said in project.run("baseline").stderr
    project.write({"libs/stopwords.py": "1\n"})
    assert "`libs/stopwords.py` is not committed" in project.run("baseline").stderr


def test_data_that_is_hidden_from_the_command_that_reads_it(project: Project) -> None:
    verify = [{"name": "run", "run": "awk 1 data/tickets.txt", "sees": "candidate"}]
    project.set_manifest({"verify": verify, "scope": {"writable": ["answer.json"], "hidden": ["data/**"]}})
    project.write({"data/tickets.txt": "1\n"})
    project.commit("tickets")
    said = "data/tickets.txt is hidden from the command run: take it out of scope.hidden, unless it has answers"
    assert said in project.run("baseline").stderr
