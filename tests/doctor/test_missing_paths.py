"""A command that fails because its tree lacks a path of the checkout: the path is named, with what to write."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from doctor_cases import findings
from project import Project, answer

from goalseek.doctor.diagnose import unseen_file_hint
from goalseek.manifest.loading import load
from goalseek.project.opening import open_project
from goalseek.values import CommandRun

IGNORED = "`data/` is ignored by git and so not in the trees"
READS_DATA = "open('data/raw/big.bin').close()"
SCOPE = {"writable": ["answer.json"], "hidden": ["hidden/**"]}
MISSING = "FileNotFoundError: [Errno 2] No such file or directory: "


def judged(run: str = "python hidden/judge.py", sees: str = "both", scope: Any = SCOPE, **tables: Any) -> Any:
    return {"verify": [{"name": "judge", "run": run, "sees": sees}], "scope": scope, **tables}


def set_judge(project: Project, line: str, **tables: Any) -> None:
    """A judge that does ``line`` before it answers, and beside it data that git ignores."""
    end = "json.dump({'score': 1}, open(os.environ['GOALSEEK_RUN_DIR'] + '/metrics.json', 'w'))"
    project.write({"hidden/judge.py": f"import json, os\n{line}\n{end}\n", ".gitignore": "data/\n"})
    project.set_manifest(judged(**tables))
    project.commit("a judge")
    project.write({"data/raw/big.bin": "1\n"})


class Failure:
    """A judge that fails in this project; ``hint`` is the hint on it, in the tree of HEAD if no other is given."""

    def __init__(self, project: Project, opened: Any) -> None:
        self.project, self.opened = project, opened

    def hint(self, log: str, exit_code: int = 1, tree: str = "", **tables: Any) -> str:
        self.project.set_manifest(judged(**tables))
        (self.project.top.parent / "verifier.log").write_text(log)
        tree = tree or self.opened.repository.tree_of(self.opened.repository.head())
        runs, manifest = (CommandRun("judge", exit_code, 0.1),), load(self.project.manifest).manifest
        return unseen_file_hint(self.opened, manifest, runs, tree, self.project.top.parent)


@contextlib.contextmanager
def failing(project: Project) -> Iterator[Failure]:
    with open_project(load(project.manifest)) as opened:
        yield Failure(project, opened)


@pytest.mark.slow
def test_doctor_init_and_iterate_name_an_ignored_folder_and_the_line_helps(project: Project) -> None:
    set_judge(project, READS_DATA, sandbox={"mode": "auto"})
    found = findings(project.run("--json", "doctor", "--outside"))
    told = f'{IGNORED}: scope.share = ["data"]'
    for name in ("verifier", "outside"):
        assert not found[name][0]["ok"] and told in found[name][0]["remedy"]
    project.manifest.unlink()
    run = ("--run", "python hidden/judge.py", "--writable", "answer.json")
    ended = project.run("init", *run, "--metric", "maximize score")
    assert ended.exit_code == 1 and told in ended.stderr
    project.set_manifest(judged())
    project.set_moves(answer(2))
    ended = project.run("iterate")
    assert ended.exit_code == 1 and f"{told}; then run the same command again" in ended.stderr
    project.set_manifest(judged(scope={**SCOPE, "share": ["data"]}))
    assert project.run("iterate").exit_code == 0


def test_a_candidate_that_fails_for_it_has_a_note(project: Project) -> None:
    set_judge(project, "json.load(open('answer.json'))['score'] == 1 or open('data/raw/big.bin')")
    project.set_moves(answer(2))
    ended = project.run("iterate", "-n", "1")
    assert "verify_failed" in ended.stdout and f': {IGNORED}: scope.share = ["data"]' in ended.stderr


SHARING = {"scope": {**SCOPE, "share": ["shared"]}}
VENV = {"scope": {**SCOPE, "share": [".venv"]}}
NO_COMMAND = "command not found: `forecast.csv`"
SLIP = {"run": "python hidden/jugde.sh", "sees": "hidden"}
GRADES = {"run": "python3 grade.py", "sees": "hidden"}
TO_HIDE = "and it runs grade.py: hide it: name it in scope.hidden"
READS_HIDDEN = {"run": "awk 1 hidden/tickets.txt", "sees": "candidate"}
IS_HIDDEN = "hidden/tickets.txt is hidden from the command judge: take it out of scope.hidden, unless it has answers"
ABSENT = "is not committed and so not in the trees"
CASES: dict[str, tuple[str, Any, int, str]] = {
    "hidden": (f"{MISSING}'hidden/a.csv'", {}, 1, "`hidden/a.csv` is hidden and not committed"),
    "module": ("ModuleNotFoundError: No module named 'helper'", {}, 1, f"`helper.py` {ABSENT}: commit it"),
    "bare word": ("cat: weights: No such file", SHARING, 1, 'if it is data: scope.share = ["shared", "weights"]'),
    "absolute": ("cannot read {top}/data/big", {}, 1, IGNORED),
    "in the bench": ("cannot read {bench}/tree/data/big", {}, 1, IGNORED),
    "written": (f"{MISSING}'out/log'", {}, 1, f"`out/` {ABSENT}: mkdir -p out"),
    "space": ("cannot open 'my data/big'", {}, 1, 'scope.share = ["my data"]'),
    "a tracked file beside it": ("no folder mixed/x here", {}, 1, "`mixed/x` is ignored by git"),
    "include": ("src/a.c:1:9: fatal error: b.h: No such file", {}, 1, "`src/b.h` is not committed"),
    "link": (f"{MISSING}'near/x'", {}, 1, "`near/` is a link, and its target is not in the trees: scope.share ="),
    "submodule": (f"{MISSING}'lib/x'", {}, 1, "`lib/` is a submodule, and its target is not in the trees: scope"),
    "its module": ("No module named 'demand.lags'", {}, 1, "`lib/` is a submodule, and its target"),
    "of a scorer": (
        f"{MISSING}'data/big'",
        {"sees": "hidden"},
        1,
        f"{IGNORED}: commit it, and name it in scope.hidden",
    ),
    "another python's": ("No module named 'stopwords'", VENV, 1, "run the command with .venv/bin/python"),
    "beside the code": ("No module named 'kit'", VENV, 1, "`libs/kit.py` is not committed"),
    "no command": ("sh: 1: forecast.csv: not found", {"run": "true && forecast.csv"}, 127, f"judge: {NO_COMMAND}"),
    "of bash": ("sh: line 1: forecast.csv: command not found", {"run": "forecast.csv"}, 127, f"judge: {NO_COMMAND}"),
    "no program": (
        "sh: 1: tool/run: not found",
        {"run": "tool/run"},
        127,
        "judge: tool/run is in your checkout, but not",
    ),
    "a slip": ("can't open file '/x/hidden/jugde.sh': No such file", SLIP, 2, "did you mean 'hidden/judge.sh'?"),
    "hidden from it": ('awk: cannot open "hidden/tickets.txt"', READS_HIDDEN, 2, IS_HIDDEN),
    "its own code": ("python3: can't open file '/x/grade.py'", GRADES, 2, TO_HIDE),
    "code of its script": ("can't open file '/x/grade.py'", {**GRADES, "run": "sh hidden/run.sh"}, 2, TO_HIDE),
    "no complaint": ("wrote data/big\njust wrong", {}, 1, ""),
    "in the tree": ("no such file: other.txt", {}, 1, ""),
    "nowhere": ("no such file: nowhere/x", {}, 1, ""),
    "shared": ("cannot parse shared/x", SHARING, 1, ""),
    "the interpreter": (".venv/bin/python: not right", {"run": ".venv/bin/python hidden/judge.sh"}, 1, ""),
    "its whole path": ("{top}/.venv/bin/python: not right", {"run": "{top}/.venv/bin/python hidden/judge.sh"}, 1, ""),
}


def test_what_a_failed_command_misses_is_told_from_what_it_printed(project: Project, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far/x").write_text("1\n")
    (project.folder / "near").symlink_to(tmp_path / "far")
    library = Project.make(tmp_path / "library", {"x": "1\n"})
    project.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.top), "lib")
    project.write({".gitignore": "data/\nout/\nmixed/\nshared/\n.venv/\n*.csv\n", "mixed/kept": "1\n"})
    project.write({"src/a.c": "", "libs/other.py": "", "hidden/tickets.txt": "1\n"})
    project.write({"grade.py": "1\n", "hidden/run.sh": "exec python3 grade.py\n"})
    project.git("add", "-f", "mixed/kept")
    project.commit("a tree")
    paths = "hidden/a.csv helper.py weights data/big out/old src/b.h shared/y shared/x mixed/x tool/run forecast.csv"
    project.write(dict.fromkeys([*paths.split(), "my data/big", "libs/kit.py", ".venv/bin/python"], ""))
    project.write({".venv/lib/python3.11/site-packages/stopwords.py": "", "lib/src/demand/lags.py": ""})
    with failing(project) as failure:
        places = {"top": project.top, "bench": failure.opened.places.bench("a")}
        for name, (log, how, exit_code, expected) in CASES.items():
            tables = {key: text.format(**places) if key == "run" else text for key, text in how.items()}
            told = failure.hint(log.format(**places), exit_code, **tables)
            assert expected in told if expected else not told, (name, told)
            assert name != "of a scorer" or ("scope.hidden_from" in told and "scope.share" not in told)


def test_in_a_folder_of_a_monorepo_a_path_above_it_is_named(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "repository", below="service")
    project.write({"../.venv/lib/x.py": "", "../libs/x.py": "", "../.gitignore": ".venv\n"})
    (project.folder / ".venv").symlink_to("../.venv")
    with failing(project) as failure:
        assert "`libs/` is not committed" in failure.hint("cannot parse ../libs/x.py", **VENV)
        for line in ("cannot parse ../.venv/lib/x.py", "../libs/x.py:12: Warning: No files were here"):
            assert failure.hint(line, **VENV) == "", "it is shared, or runs"


def test_a_path_that_a_candidate_removed_is_not_newer_than_the_climb_but_one_committed_since_is(
    project: Project,
) -> None:
    project.write({"src/part": "1\n"})
    project.commit("a part")
    project.check("baseline")
    incumbent = project.git("rev-parse", "HEAD^{tree}")
    project.git("rm", "--quiet", "--cached", "src/part")
    without = project.git("write-tree")
    project.write({"more.txt": "1\n"})
    project.commit("more")
    with failing(project) as failure:
        assert failure.hint("ls: cannot access 'src/part': No such file", tree=without) == ""
        told = failure.hint(f"{MISSING}'more.txt'", tree=incumbent)
    assert told.startswith("`more.txt` was committed after the tree that the climb starts from")
