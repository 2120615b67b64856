"""What is claimed in the end: measured afresh, at a run's end and nowhere else; and the holdout, looked at seldom."""

import json
import re
import sys
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from msgspec import structs
from noisy import METRIC, NOISY
from project import FILES, MANIFEST, Project, Projects, answer, held_out, home
from records import SETTLED

import goalseek
from goalseek.errors import GoalseekError
from goalseek.evaluation.holdout import with_holdout
from goalseek.evaluation.settle import pairs_in_time, seconds_to_settle
from goalseek.ledger.standing import MeasuredCommit, Spend, Standing
from goalseek.manifest.tables import Budget, Limits, Manifest, Metric
from goalseek.manifest.validation import validate
from goalseek.project.limits import why_stop
from goalseek.project.progress import pairs_to_settle, small_set_warning
from goalseek.statistics.noise import NoiseState

SETTLE = {**METRIC, "settle": 3}
NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


def make_noisy(top: Path, iterations: int = 0, **tables: Any) -> Project:
    """A noisy project whose run ends after two iterations, the first of which is far better."""
    manifest = {"metric": SETTLE, "limits": {"iterations": 2}, **tables}
    project = Project.make(top, files={**FILES, "hidden/judge.sh": NOISY}, manifest=manifest)
    project.set_moves(answer(90), answer(0))
    if iterations:
        project.climb("iterate", "-n", str(iterations))
    return project


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "repository"


@pytest.fixture
def kept(made_once: Projects, place: Path) -> Project:
    """A copy of such a project after its first iteration."""
    return made_once(make_noisy, place, 1)


def of_kind(project: Project, kind: str) -> list[dict[str, Any]]:
    return [record for record in project.records() if record["kind"] == kind]


def test_a_run_that_ends_by_a_limit_claims_and_counts_what_is_measured_afresh(place: Path) -> None:
    project = make_noisy(place, notify={"command": ["sh", "-c", f"cat > {home('told')}"]})
    ended = project.run("iterate", "--forever")
    assert ended.exit_code == 0
    (record,) = of_kind(project, "settle")
    measured = [made["value"] for made in of_kind(project, "measurement") if made["asked_by"] == "settle"]
    befores, afters = [measured[at] for at in (0, 3, 4)], [measured[at] for at in (1, 2, 5)]
    assert max(befores) < 2 and min(afters) > 89, "each was measured where its turn was"
    assert record["pairs"] == [list(pair) for pair in zip(befores, afters, strict=True)]
    assert (record["baseline"], record["best"]) == (median(befores), median(afters))
    assert record["interval"][0] <= record["difference"] <= record["interval"][1] and record["in_percent"]
    assert "settled: score 1" in ended.stdout and record["why"] in ended.stdout
    shown = project.run("status").stdout
    assert f"{record['best']:.6g} score (higher is better), iteration 1; baseline {record['baseline']:.6g}" in shown
    assert f"  settled    {record['why']}; " in shown and "the mean of 3 pairs" in shown
    result = f"score: {record['best']:.6g} (was {record['baseline']:.6g}), settled: {record['why']}"
    assert result in project.run("promote").stdout
    assert json.loads(home("told").read_text())["settled"]["why"] == record["why"]
    assert project.run("audit").exit_code == 0
    decided = {run["value"] for record in project.iterations() for run in record["runs"]}
    assert not decided & {value for pair in record["pairs"] for value in pair}
    iterations = sum(sum(made["seconds"].values()) for made in project.iterations())
    spend = json.loads(project.run("--json", "status").stdout)["spend"]["seconds"]
    assert spend == pytest.approx(iterations + record["seconds"], abs=1e-3)
    head, columns, *rows = project.check("show", "settled").splitlines()
    assert head == f"score, settled at iteration 1: {record['why']}"
    assert columns.split() == ["pair", "baseline", "best"]
    pairs = [tuple(map(float, row.split()[1:])) for row in rows]
    assert pairs == [pytest.approx(pair, rel=1e-3) for pair in record["pairs"]]
    assert json.loads(project.check("--json", "show", "settle"))["pairs"] == record["pairs"]
    assert "has pairs" in project.run("show", "settled", "--diff").stderr


@pytest.mark.slow
def test_not_where_it_is_not_wished_until_a_person_asks_for_it(kept: Project) -> None:
    kept.set_manifest({"metric": {**METRIC, "settle": "none"}, "limits": {"iterations": 2}})
    kept.climb("iterate", "--forever")
    assert not of_kind(kept, "settle")
    kept.check("report", "--settle")
    assert [len(record["pairs"]) for record in of_kind(kept, "settle")] == [5]


@pytest.mark.slow
def test_time_is_kept_for_it_with_less_there_are_fewer_pairs_and_with_none_it_is_left_to_a_person(place: Path) -> None:
    project = make_noisy(place, limits={"time": "1h"})
    project.write({"hidden/judge.sh": NOISY.replace("base=", "sleep 0.8\nbase=", 1)})
    project.commit()
    project.climb("iterate", "-n", "2")
    project.set_manifest({"metric": SETTLE, "limits": {"time": 0.001}})
    ended = project.run("iterate", "--forever")
    assert ended.exit_code == 0 and "no time is left" in ended.stderr and "goalseek settle" in ended.stderr
    assert not of_kind(project, "settle")
    spent = sum(sum(record["seconds"].values()) for record in project.iterations())
    project.set_manifest({"metric": SETTLE, "limits": {"time": spent + 4.0}})
    ended = project.run("iterate", "--forever")
    assert ended.exit_code == 0 and "kept for settling" in ended.stderr, ended.stderr
    (record,) = of_kind(project, "settle")
    assert 1 <= len(record["pairs"]) < 3
    assert f"settling with {len(record['pairs'])} pairs in place of 3" in ended.stderr


@pytest.mark.slow
def test_one_that_fails_is_told_harms_nothing_and_can_be_made_up_for(kept: Project) -> None:
    home("during").write_text('[ "$(wc -l < "$HOME/journal")" -gt 2 ] && exit 3\n')
    ended = kept.run("iterate", "--forever")
    assert ended.exit_code == 0 and not of_kind(kept, "settle")
    assert re.search("settling stopped at the (best|baseline): judge ended with 3", ended.stderr), ended.stderr
    assert "goalseek doctor, then goalseek settle" in ended.stderr
    assert kept.run("report", "--settle").exit_code == 1
    home("during").unlink()
    settled = kept.run("settle")
    assert settled.exit_code == 0 and settled.stdout.startswith("settled: score 1.")
    assert [len(record["pairs"]) for record in of_kind(kept, "settle")] == [3]


@pytest.mark.slow
def test_a_run_past_its_timeout_is_made_once_more_and_then_the_key_is_named(kept: Project) -> None:
    manifest = tomllib.loads(kept.manifest.read_text())
    kept.set_manifest({**manifest, "verify": [{**manifest["verify"][0], "timeout": 0.5}]})
    slow = 'if [ -e "$HOME/twice" ] || [ ! -e "$HOME/once" ]; then touch "$HOME/once"; sleep 9; fi\n'
    home("during").write_text(slow)
    settled = kept.run("settle")
    assert settled.exit_code == 0 and "judge took over 0.5s; it is measured once more" in settled.stderr
    home("twice").touch()
    ended = kept.run("settle")
    assert ended.exit_code == 1 and 'set timeout = "1m" in [[verify]] judge, then goalseek settle' in ended.stderr


def test_what_never_moved_has_nothing_to_settle(project: Project) -> None:
    project.set_manifest({"metric": SETTLE, "limits": {"iterations": 1}})
    project.set_moves(answer(2))
    project.climb("iterate", "--forever")
    assert not of_kind(project, "settle")
    told = project.run("settle")
    assert told.exit_code == 0 and "so one run each is enough" in told.stderr
    cost = "; the baseline is run 3 times, and the first 2 kept changes twice\n"
    assert cost in project.run("status").stdout
    assert not of_kind(project, "settle")


@pytest.mark.parametrize("share", [0.0, 1e9], ids=["dear", "cheap"])
def test_a_number_of_iterations_settles_by_itself_where_that_costs_little_of_them(
    place: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    monkeypatch.setattr("goalseek.loop.invocation._SETTLING_SHARE", share)
    project = make_noisy(place, limits={"time": "1h"})
    list(goalseek.iterate(goalseek.load(project.manifest), iterations=1))
    settled = of_kind(project, "settle")
    assert len(settled) == (1 if share else 0)
    status = json.loads(project.run("--json", "status").stdout)
    afresh = "" if share else "goalseek settle measures the gain afresh; "
    promote = "goalseek promote applies the kept changes missing from HEAD"
    assert status["next"] == f"goalseek iterate goes on; {afresh}{promote}"
    seconds = sum(sum(record["seconds"].values()) for record in project.iterations())
    charged = sum(record["seconds"] for record in settled)
    assert status["spend"]["seconds"] == pytest.approx(seconds + charged, abs=1e-3) and bool(charged) == bool(share)


@pytest.mark.slow
def test_a_best_that_is_worse_than_the_baseline_is_said_with_the_way_back(kept: Project) -> None:
    assert "goalseek promote applies" in kept.run("status").stdout
    assert "warning" not in kept.run("promote").stderr
    home("during").write_text("if grep -q 90 answer.json; then shift=-95; fi\n")
    ended = kept.run("settle")
    (record,) = of_kind(kept, "settle")
    assert record["interval"][1] < 0, ended.stderr
    warning = f"settling found the best worse than the baseline: {record['why']}; goalseek revert 1 takes"
    status, preview = kept.run("status").stdout, kept.run("promote")
    assert f"next: goalseek iterate goes on; {warning}" in status and "goalseek promote applies" not in status
    assert f"warning: {warning}" in preview.stderr and "this was a preview" in preview.stdout
    assert kept.run("iterate", "--until", "score>=2").stdout.splitlines()[-1].endswith("· goalseek status")
    assert kept.run("revert", "1").exit_code == 0
    assert "settling found" not in kept.run("status").stdout


def test_where_zero_lies_inside_the_interval_no_gain_is_shown_and_promote_not_advised_without_that(
    kept: Project,
) -> None:
    assert "the best is not settled" in kept.run("show", "settled").stderr
    assert kept.run("settle", "results.jsonl").exit_code == 2, "it takes no copy"
    every_other = 'shift=$((-86 - 4 * ($(wc -l < "$HOME/journal") % 2)))'
    home("during").write_text(f"if grep -q 90 answer.json; then {every_other}; fi\n")
    events = map(json.loads, kept.check("--json", "settle").splitlines())
    (record,) = of_kind(kept, "settle")
    assert [event["record"]["why"] for event in events if event["event"] == "settle"] == [record["why"]]
    assert record["interval"][0] < 0 < record["interval"][1]
    assert re.fullmatch(r"no gain shown: -[\d.,]+[%×] to [\d.,]+[%×] \(3 pairs\)", record["why"])  # noqa: RUF001
    status, preview = kept.check("status"), kept.run("promote")
    assert f"next: goalseek iterate goes on; {record['why']}; goalseek promote applies" in status
    assert f"  settled    {record['why']}; the two numbers are its medians" in status
    assert preview.stderr.count(f"warning: {record['why']}\n") == 1 and record["why"] in preview.stdout
    assert f"**{record['why']}" in kept.check("report", "--format", "md", "-o", "-")


def test_the_baseline_s_own_code_is_no_progress_after_a_revert(kept: Project) -> None:
    kept.check("revert", "1")
    first, *_, last = (record["metric"]["value"] for record in kept.iterations())
    assert first != last, "the control: another run gave another number"
    assert f"iteration 2; baseline {first:.6g}, +0\n" in kept.check("status")


@pytest.mark.slow
def test_a_report_settles_only_where_something_was_kept_and_that_is_asked_for(place: Path) -> None:
    project = make_noisy(place, limits={"iterations": 9})
    project.set_moves(answer(0))
    project.climb()
    told = project.run("report", "--settle")
    assert told.exit_code == 2 and "nothing was kept" in told.stderr
    assert not of_kind(project, "settle")
    project.set_moves(answer(0), answer(50), answer(90))
    project.climb("iterate", "-n", "2")
    told = project.run("report", "--settle", "-o", "night.md")
    assert told.exit_code == 0, told.stderr
    (record,) = of_kind(project, "settle")
    assert len(record["pairs"]) == 3 and record["why"] in told.stdout + told.stderr
    assert "Settled" in (project.folder / "night.md").read_text()
    values = f"{record['best']:.6g} (was {record['baseline']:.6g}), settled: {record['why']}"
    first, last = (one["message"] for one in json.loads(project.run("promote", "--json").stdout)["commits"])
    assert "settled" not in first and last.rstrip().splitlines()[-2].startswith("score: ")
    assert f"score since the baseline: {values}" in last
    (whole,) = json.loads(project.run("promote", "--json", "--squash").stdout)["commits"]
    assert f"\nscore: {values}" in whole["message"]


AGENT = """\
import glob, json, os, sys
n = int(os.environ["GOALSEEK_ITERATION"])
seen = sys.stdin.read() + open(os.environ["GOALSEEK_BRIEF"]).read()
for path in glob.glob("**/*", recursive=True):
    if os.path.isfile(path):
        seen += open(path, errors="replace").read()
open(sys.argv[1], "a").write(seen)
json.dump({"score": [0, 50, 90, 0][n], "size": 10}, open("answer.json", "w"))
"""
FINAL = """\
if [ -e "$HOME/hang" ]; then touch "$HOME/there"; sleep 60; fi
echo "final $GOALSEEK_ITERATION" >> "$HOME/looks"
score=$(sed -n 's/.*"score": \\([0-9]*\\).*/\\1/p' answer.json)
echo "{\\"accuracy\\": $((score + 770000))}" > "$GOALSEEK_RUN_DIR/metrics.json"
"""


HOLDOUT = {"run": "sh hidden/final.sh", "query": "accuracy"}
FAILED = [("baseline", None), ("best", None)]


def make_held_out(place: Path, **more: Any) -> Project:
    metric = {**METRIC, "noise": "none", **more.pop("metric", {})}
    tables = {"metric": metric, "limits": {"iterations": 3}, **held_out(**{**HOLDOUT, **more})}
    project = Project.make(place, files={**FILES, "hidden/final.sh": FINAL}, manifest=tables)
    project.set_moves(answer(50), answer(90), answer(0))
    return project


@pytest.mark.slow
def test_it_is_looked_at_once_in_the_end_and_each_look_is_written_before_it_is_made(place: Path) -> None:
    project = make_held_out(place)
    ended = project.run("iterate", "--forever")
    assert ended.exit_code == 0, ended.stderr
    looks = of_kind(project, "holdout")
    assert [(look["look"], look["of"], look["reason"], look["value"]) for look in looks] == [
        (1, "baseline", "begun", None),
        (1, "baseline", "measured", 770001.0),
        (2, "best", "begun", None),
        (2, "best", "measured", 770090.0),
    ]
    assert looks[-1]["gap"] == 0.0
    assert "holdout, look 2: baseline 770001, best 770090: a gain of 89; the verifier's gain is 89" in ended.stdout
    assert len(home("looks").read_text().splitlines()) == 2
    project.climb("iterate", "--forever")
    assert len(home("looks").read_text().splitlines()) == 2
    assert "holdout    look 2" in project.run("status").stdout


@pytest.mark.slow
def test_its_number_never_comes_before_a_provider(place: Path) -> None:
    project = make_held_out(place, when="kept")
    home("agent.py").write_text(AGENT)
    provider = {"name": "command", "command": [sys.executable, str(home("agent.py")), str(home("seen"))]}
    project.set_manifest({**tomllib.loads(project.manifest.read_text()), "provider": provider})
    project.climb("iterate", "--forever")
    looks = of_kind(project, "holdout")
    assert [look["iteration"] for look in looks if look["reason"] == "measured"] == [0, 1, 2]
    seen = home("seen").read_text()
    assert '"iteration": 2' in seen
    assert "77000" not in seen and "holdout" not in seen and "final.sh" not in seen


@pytest.mark.slow
def test_a_look_that_was_killed_counts_and_the_next_is_another(place: Path) -> None:
    project = make_held_out(place)
    home("hang").touch()
    project.kill_when(home("there"), "iterate", "--forever")
    home("hang").unlink()
    project.climb("iterate", "--forever")
    looks = [f"{look['look']} {look['of']} {look['reason']}" for look in of_kind(project, "holdout")]
    baselines = ["1 baseline begun", "2 baseline begun", "2 baseline measured"]
    assert looks == [*baselines, "3 best begun", "3 best measured"]


@pytest.mark.parametrize(
    ("how", "looks", "why"),
    [
        pytest.param({"run": "exit 127", "sees": "hidden"}, FAILED, "", marks=pytest.mark.slow),
        pytest.param({"run": "true", "query": "score"}, FAILED, "wrote no metrics.json", marks=pytest.mark.slow),
        ({"metric": {"valid": [0, 770050]}}, [("baseline", 770001.0), ("best", None)], "outside its valid range"),
        (
            {"run": "grep -q 90 answer.json && sh hidden/final.sh"},
            [("baseline", None), ("best", 770090.0)],
            "the look at the baseline failed",
        ),
    ],
    ids=["127", "the verifier's own", "range", "baseline"],
)
def test_a_failing_one_is_recorded_and_not_tried_again(
    place: Path, how: dict[str, Any], looks: list[tuple[str, float | None]], why: str
) -> None:
    project = make_held_out(place, **how)
    ended = project.run("iterate", "--forever")
    assert ended.exit_code == 0
    found = [look for look in of_kind(project, "holdout") if look["reason"] != "begun"]
    assert [(look["of"], look["value"]) for look in found] == looks
    assert {look["gap"] for look in found} == {None}, "without both there is no gain to hold against another"
    failed = [look for look in found if look["value"] is None]
    assert all(look["reason"] == "failed" and why in look["why"] and look["why"] in ended.stdout for look in failed)
    if looks == FAILED:
        project.climb("iterate", "--forever")
    assert len(of_kind(project, "holdout")) == 4


def test_its_number_may_be_printed_and_go_down_and_it_belongs_to_the_ruler(place: Path) -> None:
    printed = "sed -n 's/.*\"score\": \\([0-9]*\\).*/loss 5\\nloss \\1.5/p' answer.json"
    holdout = held_out(printed, regex="loss ([0-9.]+)")
    metric = {**METRIC, "direction": "minimize", "matches": "last", "noise": "none"}
    more = {"guard": [{"query": "size", "max": 100}], "limits": {"iterations": 1}}
    project = Project.make(place, manifest={"metric": metric, **holdout, **more})
    project.write({"answer.json": answer(90)})
    project.commit()
    project.set_moves(answer(30))
    project.climb("iterate", "--forever")
    looks = [look for look in of_kind(project, "holdout") if look["reason"] == "measured"]
    assert [(look["value"], look["gap"]) for look in looks] == [(90.5, None), (30.5, 0.0)]
    assert "a gain of 60; the verifier's gain is 60" in looks[1]["why"]
    project.set_manifest(project.manifest.read_text().replace("loss ([", "los. (["))
    assert "holdout; goalseek baseline adopts it" in project.run("status").stdout


def test_an_output_at_the_path_of_the_metric_is_not_taken_for_its_number(place: Path) -> None:
    judge = {**MANIFEST["verify"][0], "run": "cp answer.json scores.json", "outputs": ["scores.json"]}
    final = {"name": "final", "run": "true", "sees": "both"}
    metric = {**METRIC, "path": "scores.json", "settle": "none", "noise": "none"}
    tables = {"metric": metric, "verify": [final, judge], "holdout": {"command": "final"}}
    project = Project.make(place, manifest={**tables, "limits": {"iterations": 1}})
    project.set_moves(answer(90))
    project.climb("iterate", "--forever")
    failed = [look["why"] for look in of_kind(project, "holdout") if look["reason"] == "failed"]
    assert len(failed) == 2 and all("the verifier wrote no scores.json" in why for why in failed)


def test_its_gain_is_held_against_what_was_settled(place: Path) -> None:
    files = {**FILES, "hidden/judge.sh": NOISY, "hidden/final.sh": FINAL}
    more = {"metric": SETTLE, "limits": {"iterations": 1}, **held_out(**HOLDOUT)}
    project = Project.make(place, files=files, manifest=more)
    project.set_moves(answer(90))
    home("during").write_text('[ "$GOALSEEK_ITERATION" = 2 ] && grep -q 90 answer.json && shift=-40\n')
    project.climb("iterate", "--forever")
    (settled,) = of_kind(project, "settle")
    claimed = settled["best"] - settled["baseline"]
    assert 48 < claimed < 50 and project.iterations()[1]["metric"]["value"] > 90
    assert of_kind(project, "holdout")[-1]["gap"] == pytest.approx(claimed - 89)


def validated(tables: dict[str, Any]) -> Manifest:
    return validate(Path("/goalseek.toml"), "", {**MANIFEST, **tables})


@pytest.mark.parametrize(
    ("metric", "holdout", "read"),
    [
        ({"query": "a"}, {}, ("json", "a", None)),
        ({"query": "a"}, {"query": "b"}, ("json", "b", None)),
        ({"query": "a"}, {"regex": "(b)"}, ("stdout", None, "(b)")),
        ({"source": "stderr", "regex": "(a)"}, {"regex": "(b)"}, ("stderr", None, "(b)")),
        ({"source": "stderr", "regex": "(a)"}, {"query": "b"}, ("json", "b", None)),
        ({"source": "wall"}, {}, ("wall", None, None)),
    ],
)
def test_a_holdout_is_read_as_the_metric_where_its_keys_do_not_differ(
    metric: dict[str, str], holdout: dict[str, str], read: tuple[str | None, ...]
) -> None:
    verify = [{"name": "final", "run": "true"}, *MANIFEST["verify"]]
    tables = {"metric": {"direction": "maximize", **metric}, "verify": verify}
    manifest = validated({**tables, "holdout": {"command": "final", **holdout}})
    assert [command.name for command in manifest.commands] == ["judge"] == [manifest.metric.command]
    assert manifest.holdout
    looked = with_holdout(manifest, manifest.holdout)
    assert [command.name for command in looked.commands] == ["judge", "final"], "after what it may need"
    assert looked.metric.command == "final" and not looked.guard
    assert (looked.metric.source, looked.metric.query, looked.metric.regex) == read


ONCE = {"name": "final", "run": "true", "once": True}
ALONE = "'final' runs for the holdout alone"


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        ({"holdout": {"query": "accuracy"}}, 'holdout.command: is required: holdout.command = "final"'),
        ({"holdout": {"command": "finale"}}, "holdout.command: there is no verify command named 'finale'"),
        ({"holdout": {"command": "judge"}}, "verify: needs at least one command beside the holdout's"),
        (held_out("true", when="never"), "holdout.when"),
        (held_out("true", query="a b"), "holdout.query: 'a b' is not JMESPath"),
        (held_out("true", query="a", regex="(a)"), "holdout.regex: has no use beside query"),
        ({**held_out("true"), "metric": {**METRIC, "command": "final"}}, f"metric.command: {ALONE}: name another"),
        ({**held_out("true"), "guard": [{"query": "a", "max": 1, "command": "final"}]}, f"guard[0].command: {ALONE}"),
        ({**held_out("true"), "verify": [*MANIFEST["verify"], ONCE]}, "verify[1].once: has no use: the holdout is not"),
        ({"holdout": {"run": "true"}}, "holdout.run: was removed: move it to a [[verify]] that holdout.command names"),
        ({"holdout": {"command": "a", "valid": [0, 1]}}, "holdout.valid: was removed: the holdout is read by metric"),
    ],
)
def test_an_impossible_holdout_is_refused(tables: dict[str, Any], told: str) -> None:
    with pytest.raises(GoalseekError, match=re.escape(told)):
        validated(tables)


@pytest.mark.parametrize(
    ("gain", "keeps", "examples", "is_told"),
    [(0.05, 5, 500, True), (0.05, 4, 500, False), (0.09, 5, 500, False), (0.01, 9, None, False)],
)
def test_many_keeps_with_little_gain_on_few_examples_are_warned_of(
    gain: float, keeps: int, examples: int | None, is_told: bool
) -> None:
    def warning(before: float, after: float) -> str | None:
        marks = [MeasuredCommit(number, number, "c", "t", value) for number, value in ((0, before), (9, after))]
        standing = Standing(origin=marks[0], baseline=marks[0], incumbent=marks[1], best=marks[1], keeps=keeps)
        return small_set_warning(Metric(name="accuracy", direction="maximize", examples=examples), standing)

    told = warning(0.7, 0.7 + gain) or ""
    assert told.startswith("5 kept changes gained 0.05 on 500 examples, where chance reaches 0.0819756" * is_told)
    assert bool(told) == is_told
    assert warning(70.0, 71.0) is None, "that is no proportion"


def test_settling_keeps_its_time_free() -> None:
    metric = Metric(name="a", direction="maximize")
    deadline = Limits(deadline=NOON + timedelta(seconds=100))
    for limits, reason in ((Limits(time=100.0), "time"), (deadline, "deadline")):
        assert why_stop(limits, metric, Standing(), NOON, iteration_seconds=60.0, reserved_seconds=40.0) is None
        stop = why_stop(limits, metric, Standing(), NOON, iteration_seconds=60.0, reserved_seconds=50.0)
        assert stop and stop.reason == reason and "with 50s kept for settling" in stop.why


FIRST = MeasuredCommit(0, 1, "a", "t", 1.0, seconds={"train": 3.0, "judge": 1.0})
KEPT = Standing(baseline=FIRST, best=MeasuredCommit(3, 4, "b", "u", 2.0), keeps=1, noise=NoiseState(differed=True))


def manifest_of(limits: Limits, **metric: Any) -> Manifest:
    return structs.replace(validated({"metric": {**METRIC, **metric}}), limits=limits)


@pytest.mark.parametrize(
    ("limits", "pairs"),
    [
        (Limits(), 5),
        (Limits(time=1000.0), 5),
        (Limits(time=60.0 + 32.0), 4),
        (Limits(time=60.0 + 31.9), 3),
        (Limits(time=60.0 + 7.9), 0),
        (Limits(time=50.0), 0),
        (Limits(deadline=NOON + timedelta(seconds=16)), 2),
        (Limits(deadline=NOON - timedelta(seconds=16)), 0),
        (Limits(deadline=NOON + timedelta(seconds=16), time=60.0 + 8.0), 1),
        (Limits(total=Budget(time=160.0 + 24.0), time=1000.0), 3),
    ],
)
def test_as_many_pairs_are_measured_as_there_is_time_for(limits: Limits, pairs: int) -> None:
    manifest = manifest_of(limits)
    standing = structs.replace(KEPT, spend=Spend(3, 60.0), total=Spend(9, 160.0))
    assert pairs_in_time(manifest, standing, NOON) == pairs
    assert seconds_to_settle(manifest, standing) == 5 * 2 * 4.0
    at_once = structs.replace(standing, baseline=structs.replace(FIRST, seconds={}))
    assert pairs_in_time(manifest, at_once, NOON) == 5 and seconds_to_settle(manifest, at_once) == 0.0


def test_settling_is_owed_where_a_noisy_metric_has_a_keep_that_was_not_settled() -> None:
    def owed(standing: Standing, **metric: Any) -> bool:
        manifest = manifest_of(Limits(), **metric)
        assert (pairs_to_settle(manifest.metric, standing) > 0) == (seconds_to_settle(manifest, standing) > 0)
        return pairs_to_settle(manifest.metric, standing) > 0

    still = structs.replace(KEPT, noise=NoiseState())
    assert owed(KEPT) and owed(KEPT, noise="always") and owed(still, noise="always")
    assert not owed(still) and not owed(KEPT, settle="none") and not owed(still, noise="none")
    for standing in (KEPT, still):
        assert not owed(structs.replace(standing, settled=SETTLED), noise="always")
    assert not owed(structs.replace(KEPT, keeps=0))
