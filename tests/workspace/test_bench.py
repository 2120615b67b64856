"""Where the verifier runs: each command in the tree that it may see, clean, with what earlier ones handed on."""

import contextlib
import errno
import fcntl
import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from project import Project, answer
from skips import levels

from goalseek.disk import add_own, recreate_folder
from goalseek.git.location import locate
from goalseek.git.objects import Objects
from goalseek.git.repository import Repository
from goalseek.manifest.loading import load
from goalseek.manifest.tables import ScopeTable, VerifyCommand
from goalseek.measurement.verifier import run_command
from goalseek.project.opening import open_project
from goalseek.project.project import Project as OpenedProject
from goalseek.sandbox.supervisor import HeadAndTail
from goalseek.workspace.bench import Bench
from goalseek.workspace.checkout import TreePlan
from goalseek.workspace.scope import build_scope

COPY = 'cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"'
LIST = 'find . -type f -not -path "./out/*" | sort'


def seen_by(project: Project, command: str) -> list[str]:
    return (project.run_folder(0) / "measurements" / "1" / command).read_text().split()


@pytest.mark.slow
def test_each_command_sees_what_sees_says_and_outputs_come_along(project: Project) -> None:
    project.write({"data/fixed.csv": "1\n", "src/lib.sh": "echo lib\n"})
    listing = 'printf "%s\\n" "$({})" > "$GOALSEEK_RUN_DIR/{}"'.format
    project.set_manifest(
        {
            "scope": {"writable": ["answer.json", "src/**"], "read_only": ["data/**"], "hidden": ["hidden/**"]},
            "verify": [
                {
                    "name": "make",
                    "run": f"{listing(LIST, 'candidate')}; mkdir -p out/deep; cp answer.json out/deep/m.json",
                    "outputs": ["out/**"],
                },
                {
                    "name": "judge",
                    "run": f"{listing(LIST, 'judge')}; ls hidden/judge.sh; find out > $HOME/out",
                    "sees": "hidden",
                },
                {"name": "both", "run": f"{listing(LIST, 'both')}; test -e out/deep/m.json", "sees": "both"},
                {"name": "again", "run": f"{listing(LIST, 'again')}; test -e out/deep/m.json"},
            ],
            "metric": {"direction": "maximize", "query": "score", "path": "out/deep/m.json"},
        }
    )
    project.commit()
    project.set_moves(answer(2), answer(3))
    records = project.climb("iterate", "-n", "2")
    assert [record["metric"]["value"] for record in records] == [1, 2, 3]
    code, fixed = ["./answer.json", "./src/lib.sh"], ["./data/fixed.csv", "./other.txt"]
    assert seen_by(project, "candidate") == seen_by(project, "again") == sorted(code + fixed)
    hidden = ["./hidden/judge.sh", "./goalseek.toml"]
    assert seen_by(project, "judge") == sorted(hidden + fixed)
    assert seen_by(project, "both") == sorted(hidden + code + fixed)
    assert "out/deep/m.json" in (Path(os.environ["HOME"]) / "out").read_text()
    assert records[0]["isolation"]["verifier"] == "both"


def test_the_first_failure_stops_and_a_command_that_names_a_hidden_file_sees_the_hidden_side(project: Project) -> None:
    judge = 'test ! -e answer.json && cp out.json "$GOALSEEK_RUN_DIR/metrics.json"; ! grep -q 9 out.json'
    project.write({"hidden/judge.sh": judge})
    make = {"name": "make", "run": "grep -q 7 answer.json || cp answer.json out.json", "outputs": ["out.json"]}
    project.set_manifest({"verify": [make, {"run": "sh hidden/judge.sh"}]})
    project.commit()
    project.set_moves(answer(7), answer(9), answer(2))
    _, no_output, early, kept = project.climb("iterate", "-n", "3")
    assert (no_output["reason"], no_output["why"]) == ("verify_failed", "make left no output out.json")
    assert [command["name"] for command in no_output["verify"]] == ["make"]
    assert (early["reason"], early["metric"]["value"]) == ("verify_failed", None), "it wrote metrics, and failed"
    verdict = json.loads((project.run_folder(2) / "verdict.json").read_text())["value"]["verdict"]
    assert verdict["reason"] == "verify_failed"
    assert (kept["outcome"], kept["isolation"]["verifier"]) == ("kept", "hidden")
    assert [command["name"] for command in kept["verify"]] == ["make", "sh"]


@pytest.mark.slow
def test_setup_runs_once_for_a_ruler_and_each_measurement_has_its_own_copy(project: Project) -> None:
    judge = 'test "$(cat build/made)" = made || exit 7; echo spoilt > build/made; ' + COPY
    project.write({"hidden/judge.sh": judge})
    setup = "test ! -e hidden || exit 8; mkdir -p build; printf made > build/made; ln -s made build/link; "
    setup += 'echo >> "$HOME/setups"'
    project.set_manifest({"setup": {"run": setup, "gives": ["build"]}})
    project.commit()
    project.set_moves(answer(2), answer(3), answer(4))
    records = project.climb("iterate", "-n", "2")
    assert [record["outcome"] for record in records] == ["baseline", "kept", "kept"]
    assert project.climb()[-1]["outcome"] == "kept"
    setups = Path(os.environ["HOME"]) / "setups"
    assert setups.read_text() == "\n"
    project.write({"other.txt": "another ruler\n"})
    project.commit()
    assert project.run("baseline").exit_code == 0
    assert setups.read_text() == "\n\n"


@pytest.mark.slow
def test_bytecode_never_makes_verify_measure_the_candidate_before(make_project: Callable[..., Project]) -> None:
    code = "VALUE = {}\n".format
    judge = "import json, os, model\nmetrics = os.environ['GOALSEEK_RUN_DIR'] + '/metrics.json'\n"
    judge += "json.dump({'score': model.VALUE}, open(metrics, 'w'))\n"
    project = make_project(
        files={"model.py": code(10), "hidden/judge.py": judge},
        manifest={
            "scope": {"writable": ["model.py"], "hidden": ["hidden/**"]},
            "verify": [
                {
                    "name": "judge",
                    "run": f"env -u PYTHONDONTWRITEBYTECODE PYTHONPATH=. {shlex.quote(sys.executable)} hidden/judge.py",
                    "sees": "both",
                }
            ],
        },
    )
    values = [10 + (number * 7) % 80 for number in range(1, 7)]
    project.set_moves(*({"files": {"model.py": code(value)}} for value in values))
    records = project.climb("iterate", "-n", str(len(values)))
    assert [record["metric"]["value"] for record in records[1:]] == values


def test_a_command_finds_its_tree_clean_but_for_what_keep_names_and_unchanged_files_keep_their_time(
    project: Project,
) -> None:
    judge = (
        "test ! -e left || exit 9; touch left; echo changed > made.txt; mkdir -p cache; echo >> cache/runs",
        'wc -l < cache/runs > "$GOALSEEK_RUN_DIR/runs"; stat -c %Y.%y answer.json other.txt > "$GOALSEEK_RUN_DIR/times"',
        COPY,
    )
    project.write({"hidden/judge.sh": "\n".join(judge), "made.txt": "1\n"})
    clean = "grep -q changed made.txt && exit 8; test ! -e left || exit 7"
    project.set_manifest(
        {
            "scope": {"writable": ["answer.json"], "hidden": ["hidden/**"], "generated": ["made.txt"]},
            "verify": [
                {"name": "judge", "run": "sh hidden/judge.sh", "sees": "both", "keep": ["cache/"]},
                {"name": "clean", "run": clean, "sees": "both"},
            ],
        }
    )
    project.commit()
    project.set_moves(answer(0.5), answer(0.25), answer(2))
    records = project.climb("iterate", "-n", "3")
    assert [record["outcome"] for record in records] == ["baseline", "reverted", "reverted", "kept"]
    folders = [project.run_folder(number) / "measurements" / "1" for number in range(4)]
    assert [(folder / "runs").read_text().strip() for folder in folders] == ["1", "2", "3", "4"]
    times = [(folder / "times").read_text().splitlines() for folder in folders]
    assert len({other for _, other in times}) == 1
    assert [changed for changed, _ in times] == sorted({changed for changed, _ in times})
    with open_project(load(project.manifest)) as opened:
        config = opened.config()
        first, second, again = (opened.lane.bench(config.trees, name) for name in ("a", "b", "a"))
        assert [bench.folder.name for bench in (first, second)] == ["bench", "incumbent"] and again is first


@pytest.mark.parametrize("pattern", ["kept", "kept/"])
def test_a_folder_that_keep_names_may_hold_files_of_the_tree(project: Project, pattern: str) -> None:
    project.write({"kept/fixed.txt": "1\n"})
    judge = {"name": "judge", "run": f"touch kept/made; {COPY}", "sees": "both", "keep": [pattern]}
    project.set_manifest({"verify": [judge]})
    project.commit()
    project.set_moves(answer(2), answer(3))
    assert [record["outcome"] for record in project.climb("iterate", "-n", "2")] == ["baseline", "kept", "kept"]


def test_a_tree_whose_update_was_interrupted_is_mended_before_it_is_used(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = dict.fromkeys(["answer.json", "b.json", "c.json"], '{"score": 1}\n')
    project.write(files)
    project.set_manifest({"scope": {"writable": ["*.json"], "hidden": ["hidden/**"]}})
    project.commit()
    files = dict.fromkeys([*files, "new.json"], '{"score": 2}\n')
    project.set_moves({"files": files})
    project.climb("iterate", "-n", "1")

    def open_bench(opened: OpenedProject) -> Bench:
        return opened.lane.bench(opened.config().trees, "a")

    with open_project(load(project.manifest)) as opened:
        baseline, incumbent = opened.standing.baseline, opened.standing.incumbent
        assert baseline and incumbent
        before, after = baseline.tree, incumbent.tree
    read, left = Objects.read, [0]

    def interrupt(objects: Objects, name: str) -> bytes:
        left[0] -= name not in (before, after)
        if left[0] < 0:
            raise KeyboardInterrupt
        return read(objects, name)

    for number in range(len(files)):
        left[0] = number
        with open_project(load(project.manifest)) as opened:
            bench = open_bench(opened)
            bench.sync_to("both", before)
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr(Objects, "read", interrupt)
                bench.sync_to("both", after)
            if number % 2:
                root = bench.sync_to("both", after)
        if not number % 2:  # another command mends it
            with open_project(load(project.manifest)) as opened:
                root = open_bench(opened).sync_to("both", after)
        assert {path: (root / path).read_text() for path in files} == files, number


@pytest.mark.parametrize("mode", levels("none", "landlock", "bubblewrap"))
def test_a_bench_tells_its_commands_its_number(project: Project, mode: str) -> None:
    project.set_manifest({"parallel": {"benches": 2}, "sandbox": {"mode": mode}})
    project.commit()
    project.check("baseline")
    with open_project(load(project.manifest)) as opened:
        config, incumbent = opened.config(), opened.standing.incumbent
        assert incumbent
        command = VerifyCommand(run='echo "$GOALSEEK_SLOT"', name="tell", sees="both")
        for lane, printed in ((opened.lane, b"0\n"), (opened.add_lane("bench-1", 1), b"1\n")):
            opened.enter(lane)
            with contextlib.closing(lane):
                verifier = opened.verifier(config, "", incumbent.tree, {})
                root = verifier.bench.sync_to("both", incumbent.tree)
                recreate_folder(lane.places.run_folders["both"])
                assert run_command(verifier, command, root, {}, HeadAndTail()).stdout == printed


@pytest.mark.parametrize("broken", ["", "unlike", "refused"])
def test_large_files_of_a_second_bench_are_clones_or_written(
    project: Project, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    texts = {"one.bin": "1" * 2**16, "two.bin": "2" * 2**16, "small.txt": "3"}
    project.write(texts)
    project.commit()
    home, asked = project.top.parent / "trees", []
    add_own(home)

    def clone(copy: int, number: int, source: int) -> None:
        asked.append(number)
        if broken == "refused":
            raise OSError(errno.EOPNOTSUPP, "no clones here")
        os.write(copy, b"other" if broken else os.read(source, 2**20))

    monkeypatch.setattr(fcntl, "ioctl", clone)
    scope = build_scope("", ScopeTable(writable=("answer.json",)))
    plan = TreePlan(scope, "key", (), {}, False, (), None)
    with Repository(locate(project.top), "demo") as repository:
        tree = project.git("rev-parse", "HEAD^{tree}")
        for name in ("bench", "other/bench"):
            bench = Bench(home / name, repository.objects, plan, contextlib.nullcontext, home)
            root = bench.sync_to("both", tree)
            bench.close()
            assert {path: (root / path).read_text() for path in texts} == texts
    assert len(asked) == (1 if broken == "refused" else 2)
