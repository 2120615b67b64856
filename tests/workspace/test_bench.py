"""Where the verifier runs: each command in the tree that it may see, clean, with what earlier ones handed on."""

import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from project import Project, answer

from goalseek.manifest.loading import load
from goalseek.project.opening import open_project

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


def test_a_command_that_names_a_hidden_file_sees_the_hidden_side_by_itself(project: Project) -> None:
    project.write({"hidden/judge.sh": 'test ! -e answer.json && cp out.json "$GOALSEEK_RUN_DIR/metrics.json"'})
    project.set_manifest(
        {
            "verify": [
                {"name": "make", "run": "cp answer.json out.json", "outputs": ["out.json"]},
                {"run": "sh hidden/judge.sh"},
            ]
        }
    )
    project.commit()
    project.set_moves(answer(2))
    records = project.climb()
    assert records[1]["outcome"] == "kept" and records[1]["isolation"]["verifier"] == "hidden"
    assert [command["name"] for command in records[1]["verify"]] == ["make", "sh"]


def test_the_first_failure_stops_and_a_missing_output_is_one(project: Project) -> None:
    project.set_manifest(
        {
            "verify": [
                {"name": "make", "run": "grep -q 7 answer.json || touch out.json", "outputs": ["out.json"]},
                {"name": "judge", "run": "sh hidden/judge.sh", "sees": "both"},
            ]
        }
    )
    project.commit()
    project.set_moves(answer(7), answer(2))
    _, failed, kept = project.climb("iterate", "-n", "2")
    assert (failed["reason"], failed["why"]) == ("verify_failed", "make left no output out.json")
    assert [command["name"] for command in failed["verify"]] == ["make"]
    assert kept["outcome"] == "kept"


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


def test_what_a_command_leaves_behind_is_gone_before_the_next(project: Project) -> None:
    judge = "test ! -e left || exit 9; touch left; echo changed > other.txt; " + COPY
    once = "grep -q changed other.txt && exit 8; test ! -e left || exit 7"
    project.write({"hidden/judge.sh": judge})
    project.set_manifest(
        {
            "scope": {"writable": ["answer.json"], "hidden": ["hidden/**"], "generated": ["other.txt"]},
            "verify": [
                {"name": "judge", "run": "sh hidden/judge.sh", "sees": "both"},
                {"name": "clean", "run": once, "sees": "both"},
            ],
        }
    )
    project.commit()
    project.set_moves(answer(2), answer(3))
    assert [record["outcome"] for record in project.climb("iterate", "-n", "2")] == ["baseline", "kept", "kept"]


def test_a_build_cache_that_keep_names_outlives_the_command(project: Project) -> None:
    judge = 'echo >> cache/runs; wc -l < cache/runs > "$GOALSEEK_RUN_DIR/runs"; ' + COPY
    project.write({"hidden/judge.sh": "mkdir -p cache; " + judge})
    project.set_manifest(
        {"verify": [{"name": "judge", "run": "sh hidden/judge.sh", "sees": "both", "keep": ["cache/"]}]}
    )
    project.commit()
    project.set_moves(answer(2), answer(3))
    project.climb("iterate", "-n", "2")
    counts = [(project.run_folder(number) / "measurements" / "1" / "runs").read_text().strip() for number in range(3)]
    assert counts == ["1", "2", "3"]


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
    values = [10 + (number * 7) % 80 for number in range(1, 13)]
    project.set_moves(*({"files": {"model.py": code(value)}} for value in values))
    records = project.climb("iterate", "-n", str(len(values)))
    assert [record["metric"]["value"] for record in records[1:]] == values


def test_a_changed_file_gets_a_new_time_and_the_others_keep_theirs(project: Project) -> None:
    judge = 'stat -c %Y.%y answer.json other.txt > "$GOALSEEK_RUN_DIR/times"; ' + COPY
    project.write({"hidden/judge.sh": judge})
    project.commit()
    project.set_moves(answer(0.5), answer(0.25), answer(2))
    project.climb("iterate", "-n", "3")
    times = [
        (project.run_folder(number) / "measurements" / "1" / "times").read_text().splitlines() for number in range(4)
    ]
    assert len({other for _, other in times}) == 1
    assert [changed for changed, _ in times] == sorted({changed for changed, _ in times})


def test_metrics_of_a_verifier_that_exits_early_count_for_nothing(project: Project) -> None:
    project.write(
        {"hidden/judge.sh": 'cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"; grep -q 9 answer.json && exit 1; exit 0'}
    )
    project.commit()
    project.set_moves(answer(9))
    record = project.climb()[1]
    assert (record["reason"], record["metric"]["value"]) == ("verify_failed", None)
    assert (
        json.loads((project.run_folder(1) / "verdict.json").read_text())["value"]["verdict"]["reason"]
        == "verify_failed"
    )


def test_a_bench_is_given_to_one_at_a_time_and_a_climb_finds_those_it_had(project: Project) -> None:
    project.set_moves(answer(2))
    project.climb()
    with open_project(load(project.manifest)) as opened:
        config = opened.config()
        with opened.bench(config, "a") as first, opened.bench(config, "b") as second:
            assert [bench.folder.name for bench in (first, second)] == ["bench", "incumbent"]
            with pytest.raises(RuntimeError, match="bench a is in use"), opened.bench(config, "a"):
                raise AssertionError
        with opened.bench(config, "a") as again:
            assert again is first
