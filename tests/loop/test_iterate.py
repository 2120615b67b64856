"""``goalseek iterate``: each outcome with its reason, and what ends an invocation or a run."""

import json
from typing import Any, cast

import pytest
from project import FILES, Project, answer, home

from goalseek.manifest.tables import VerifyCommand
from goalseek.measurement.metric import NoNumber
from goalseek.measurement.verifier import Verifier, refuse_failed
from goalseek.sandbox.supervisor import ProgramResult

OUTCOMES = [
    (answer(2), "kept", "better"),
    (answer(1.5), "reverted", "worse"),
    (answer(2, size=11), "reverted", "tie"),
    ('{"score": 2, "size": 10}\n', "kept", "simpler"),
    (answer(9, size=200), "reverted", "guard"),
    (answer(2000), "reverted", "not_valid"),
    (answer(2.4), "reverted", "below_min_delta"),
    (answer(5, more='"fail": 1,\n'), "reverted", "verify_failed"),
    (answer(5, more='"hang": 1,\n'), "reverted", "verify_timeout"),
    (answer(5, more='"silent": 1,\n'), "reverted", "no_metric"),
    (answer('"9"'), "reverted", "no_metric"),
    (answer("true"), "reverted", "no_metric"),
    (answer("[9]"), "reverted", "no_metric"),
    (answer("NaN"), "reverted", "not_finite"),
    (answer("1e999"), "reverted", "not_finite"),
    ('{"score": 2, "size": 10}\n', "skipped", "no_change"),
    (answer(1.5), "skipped", "duplicate"),
    ({"files": {"other.txt": "mine\n"}}, "skipped", "out_of_scope"),
    ({"patch": "none.patch"}, "skipped", "provider_failed"),
    (answer(3), "kept", "better"),
]
STRICT = {
    "metric": {"direction": "maximize", "query": "score", "valid": [0.0, 1000.0], "min_delta": 0.5},
    "guard": [{"query": "size", "max": 100}],
    "verify": [{"name": "judge", "run": "sh hidden/judge.sh", "sees": "both", "timeout": "1s"}],
}


def test_each_outcome_has_its_reason_and_a_sentence(project: Project) -> None:
    project.set_manifest(STRICT)
    project.commit()
    project.set_moves(*(move for move, _, _ in OUTCOMES))
    baseline, *records = project.climb("iterate", "-n", str(len(OUTCOMES)))
    assert (baseline["iteration"], baseline["outcome"], baseline["reason"]) == (0, "baseline", "measured")
    assert [(record["outcome"], record["reason"]) for record in records] == [row[1:] for row in OUTCOMES]
    metrics = [records[place]["metric"] for place in (0, 1, 19)]
    assert [(metric["incumbent"], metric["delta"]) for metric in metrics] == [(1, 1), (2, -0.5), (2, 1)]
    why = {record["reason"]: record["why"] for record in records}
    assert why["better"] == "3 beats 2 by 1"
    assert why["worse"] == "1.5 is worse than 2 by 0.5"
    assert why["tie"] == "2 as before, and no fewer lines"
    assert why["simpler"] == "2 as before, and 2 lines fewer"
    assert why["guard"] == "size is 200, above its maximum, 100"
    assert why["not_valid"] == "score is 2000, outside its valid range, 0 to 1000"
    assert why["below_min_delta"] == "2.4 beats 2 by 0.4, less than min_delta, 0.5"
    assert why["verify_failed"] == "judge ended with 3: told to fail"
    assert why["verify_timeout"] == "judge took over 1.0s"
    assert why["not_finite"] == "score is inf"
    assert why["duplicate"] == "the same tree was measured in iteration 2"
    assert why["out_of_scope"] == "other.txt is outside scope.writable"
    assert why["no_change"] == "the provider changed nothing"
    whole = [record["why"] for record in records if record["reason"] == "no_metric"]
    assert whole[0] == "score: the verifier wrote no metrics.json"
    assert [text.partition(" is ")[2].partition(",")[0] for text in whole[1:]] == ["a text", "a boolean", "a list"]


def test_events_run_folder_and_variables_keep_the_contract(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = " ".join(f"$GOALSEEK_{name}" for name in ("PROJECT_ROOT", "RUN_DIR", "ITERATION", "SEED"))
    line = f'echo "{variables} $PWD $SECRET_OF_MINE" >> "$HOME/verifier"\n'
    project.write({"hidden/judge.sh": line + FILES["hidden/judge.sh"]})
    project.commit()
    project.set_moves(answer(2), answer(3))
    monkeypatch.setenv("SECRET_OF_MINE", "leaked")
    events = [json.loads(line) for line in project.check("--json", "iterate", "-n", "2").splitlines()]
    phases = [event["phase"] for event in events if event["event"] == "phase" and event["iteration"] == 1]
    assert phases == ["READ_CONTEXT", "PLAN", "APPLY_CHANGE", "COMMIT", "VERIFY", "DECIDE", "LOG"]
    told = [event["record"]["reason"] for event in events if event["event"] == "iteration"]
    assert told == ["measured", "better", "better"]
    assert events[-1]["event"] == "stopped" and events[-1]["stop_reason"] == "count"

    records = project.iterations()
    lines = [line.split(" ") for line in home("verifier").read_text().splitlines()]
    assert [line[2] for line in lines] == ["0", "1", "2"]
    assert [int(line[3]) for line in lines] == [record["runs"][0]["seed"] for record in records]
    assert len({line[3] for line in lines}) == 3
    assert all(line[0] == line[4] and line[5] == "" for line in lines)

    wanted = """git_before.txt env.json prompt.md plan.md provider_output.md changes.diff verifier.log metrics.json
        evidence.json verdict.json result.json results_discussion.md git_after.txt""".split()
    folder, baseline = project.run_folder(1), project.run_folder(0)
    assert [name for name in wanted if not (folder / name).is_file()] == []
    assert (folder / "snapshot" / "answer.json").read_text() == answer(2)
    assert (folder / "measurements" / "1" / "metrics.json").read_text() == answer(2)
    assert json.loads((folder / "metrics.json").read_text())["score"] == 2
    assert '+{"score": 2,' in (folder / "changes.diff").read_text()
    assert json.loads((folder / "result.json").read_text()) == records[1]
    assert "judge ended with 0" in (folder / "verifier.log").read_text()
    assert "move 1" in (folder / "plan.md").read_text()
    assert records[1]["commit_hash"] in (folder / "git_after.txt").read_text()
    assert all((baseline / name).is_file() for name in ("verifier.log", "metrics.json", "result.json", "evidence.json"))


FAILURES: dict[str, Any] = {"limits": {"failures": 2}}
SCORED: dict[str, Any] = {"metric": {"direction": "maximize", "query": "score", "target": 3}}
FAILED = [answer(score, more='"fail": 1,\n') for score in (2, 3, 4)]
NO_PATCH = [{"patch": "none.patch"}] * 5
PLAYED = "the script has no more moves: repository-moves.toml has 2 moves"
ENDS = {  # the manifest's tables, moves, exit code and message of a climb without a bound, after two iterations
    "target": (SCORED, [answer(2), answer(3), answer(4)], 0, "the target is reached: score 3"),
    "crashes": (FAILURES, FAILED, 1, "2 measurements in a row crashed"),
    "failed calls": (FAILURES, NO_PATCH, 1, "the provider failed 2 times in a row"),
    "script": ({}, [answer(2), answer(3)], 1, PLAYED),
}


@pytest.mark.slow
@pytest.mark.parametrize(("tables", "moves", "code", "told"), ENDS.values(), ids=ENDS)
def test_an_open_climb_ends(project: Project, tables: dict[str, Any], moves: list[Any], code: int, told: str) -> None:
    project.set_manifest(tables)
    project.set_moves(*moves)
    ended = project.run("iterate", "--forever")
    assert (ended.exit_code, len(project.iterations())) == (code, 3) and told in ended.stderr
    if tables == SCORED:
        assert told in project.run("iterate").stderr and len(project.iterations()) == 3
    if not tables:  # it goes on once there are more moves; a count is made in any case
        project.set_moves(*moves, answer(4))
        assert project.run("iterate", "--forever").exit_code == 1
        assert project.iterations()[-1]["metric"]["value"] == 4
        assert project.climb("iterate", "-n", "1")[-1]["reason"] == "provider_failed"


CTEST = """2/3 Test #2: numbers ...***Failed

The following tests FAILED:
\t  2 - numbers (Failed)
\t  3 - printing (Subprocess killed)
Errors while running CTest
"""
COMPILER = """main.cpp:2:3: error: expected ';'
    2 |   a
      |   ^~
      |   ;
make: *** [Makefile:2: app] Error 1
"""
PYTEST = "E  Error: x\nFAILED tests/a.py::test_x - assert 0\n1 failed, 2 passed in 0.1s\n"
UNITY = "t.c:12:test_add:FAIL: Expected 1 Was 2\n1 Tests 1 Failures\nFAIL\n"
TAP = "".join(f"not ok {number}\n" for number in range(7))
TOLD = {  # what a failed command printed, and what is told of it
    "ctest": (CTEST, "2 - numbers (Failed), 3 - printing (Subprocess killed)"),
    "pytest": (PYTEST, "FAILED tests/a.py::test_x - assert 0"),
    "go": ("--- FAIL: TestX (0.00s)\n    x_test.go:3: no\nFAIL\nexit status 1\n", "--- FAIL: TestX (0.00s)"),
    "tap": (TAP, "not ok 0, not ok 1, not ok 2, not ok 3, not ok 4 and 2 more"),
    "unity": (UNITY, "t.c:12:test_add:FAIL: Expected 1 Was 2"),
    "a sum after its line": (
        "a.csv: FAILED\nsum: WARNING: 1 did NOT match\n",
        "a.csv: FAILED | sum: WARNING: 1 did NOT match",
    ),
    "marks below an error": (COMPILER, "main.cpp:2:3: error: expected ';'"),
    "marks alone": ("wrong\n   |  ^~\n", "wrong"),
}


@pytest.mark.parametrize(("printed", "told"), TOLD.values(), ids=TOLD)
def test_of_a_command_that_failed_the_lines_that_say_why_are_told(printed: str, told: str) -> None:
    command, result = VerifyCommand(name="judge", run="judge"), ProgramResult(8, 0.1, False, 0, printed.encode(), b"")
    with pytest.raises(NoNumber) as raised:
        refuse_failed(cast(Verifier, None), command, result)
    assert str(raised.value) == f"judge ended with 8: {told}"


def test_a_verifier_without_candidate_code_may_refuse_to_judge_or_stop_the_run(project: Project) -> None:
    judge = 'case $(cat answer.txt) in odd) exit 125;; gone) exit 127;; esac; cat answer.txt > "$GOALSEEK_RUN_DIR/m"'
    project.write({"hidden/judge.sh": judge, "answer.txt": '{"score": 1}\n'})
    project.set_manifest(
        {
            "scope": {"writable": ["answer.txt"], "hidden": ["hidden/**"]},
            "metric": {"direction": "maximize", "query": "score", "path": "m"},
            "verify": [
                {"name": "show", "run": "true", "outputs": ["answer.txt"]},
                {"name": "judge", "run": "sh hidden/judge.sh", "sees": "hidden"},
            ],
        }
    )
    project.commit()
    project.set_moves({"files": {"answer.txt": "odd\n"}}, {"files": {"answer.txt": "gone\n"}})
    ended = project.run("iterate", "--forever")
    assert ended.exit_code == 1 and "says stop" in ended.stderr
    assert [record["reason"] for record in project.iterations()] == ["measured", "unmeasurable", "verify_failed"]


def test_query_takes_a_part_of_the_json_and_smaller_is_better_where_the_manifest_says_so(project: Project) -> None:
    project.set_manifest({"metric": {"direction": "minimize", "query": "score"}})
    project.set_moves(answer(2), answer(0.5))
    ended = project.run("--query", "[record.reason, record.metric.delta]", "iterate", "-n", "2")
    told = [row for row in map(json.loads, ended.stdout.splitlines()) if row != [None, None]]
    assert told == [["measured", None], ["worse", -1], ["better", 0.5]]


def test_a_query_over_json_lines_and_a_regex_over_output_give_numbers(project: Project) -> None:
    judge = 'echo "score: 7"; echo "{\\"a\\": 1}" > "$GOALSEEK_RUN_DIR/rows.jsonl"; cat answer.json >&2\n'
    project.write({"hidden/judge.sh": judge})
    project.set_manifest(
        {
            "metric": {"direction": "maximize", "regex": '"score": ([0-9]+)', "source": "stderr", "name": "score"},
            "guard": [
                {"name": "shown", "regex": "score: (.*)", "min": 7},
                {"name": "rows", "query": "[0].a", "path": "rows.jsonl", "max": 1},
                {"name": "took", "source": "wall", "max": 50},
            ],
        }
    )
    project.commit()
    project.set_moves(answer(2))
    baseline, kept = project.climb()
    assert (baseline["metric"]["value"], kept["metric"]["value"]) == (1, 2)
    assert kept["guards"]["shown"] == 7 and kept["guards"]["rows"] == 1 and kept["guards"]["took"] > 0


@pytest.mark.slow
def test_a_guard_that_the_baseline_breaks_is_said_until_its_bound_holds(project: Project) -> None:
    project.set_manifest({"guard": [{"query": "size", "max": 5}]})
    project.commit()
    project.set_moves(answer(2), answer(3), answer(4))
    warning = "the baseline breaks a guard: size is 10, above its maximum, 5; a candidate is kept only if"
    assert warning in project.run("iterate").stderr
    baseline, lost = project.iterations()
    assert warning in baseline["notes"][0] and lost["reason"] == "guard" and not lost["notes"]
    assert warning in project.run("status").stdout
    assert project.run("iterate").stderr.count(warning) == 1
    project.set_manifest({"guard": [{"query": "size", "max": 10}]})
    assert warning not in project.run("status").stdout + project.run("iterate").stderr
    assert project.iterations()[-1]["reason"] == "better"
    project.set_manifest({"guard": [{"query": "size", "max": 9}]})
    assert "the incumbent breaks a guard: size is 10, above its maximum, 9" in project.run("status").stdout


def test_uncommitted_changes_of_the_candidate_are_said_before_a_baseline_and_not_after(project: Project) -> None:
    project.set_moves(answer(2), answer(3))
    project.write({"answer.json": answer(9)})
    said = "answer.json has uncommitted changes: the baseline is that of "
    assert f"! committed    {said}HEAD" in project.run("doctor", "--quick").stdout
    first, second = project.run("iterate").stderr, project.run("iterate").stderr
    assert first.count(f"{said}HEAD") == 1 and said not in second
    assert project.iterations()[0]["metric"]["value"] == 1
    assert f"{said}the incumbent" in project.run("baseline").stderr
