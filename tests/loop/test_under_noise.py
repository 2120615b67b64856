"""The rule at work: baseline, candidate and incumbent run in turn, and what a record then tells."""

import random
import re
from statistics import median
from typing import Any

import pytest
from noisy import METRIC, NOISY, journal
from project import FILES, Project, Projects, answer, home

import goalseek
from goalseek.loop.phases import verify
from goalseek.statistics.acceptance import AcceptanceRule

SHORT = {**METRIC, "window": 1}  # the incumbent's runs grow old at once, and are made again


@pytest.fixture
def noisy(make_project: Projects) -> Project:
    """A project that is measured with noise of less than one, by the rule's own word on it."""
    return make_project(files={**FILES, "hidden/judge.sh": NOISY}, manifest={"metric": METRIC})


def of(record: dict[str, Any], side: str) -> list[float]:
    return [run["value"] for run in record["runs"] if run["of"] == side]


def test_worse_runs_once_far_better_in_turn_with_the_incumbent_and_all_is_logged(noisy: Project) -> None:
    noisy.set_moves(answer(0), answer(90))
    baseline, worse, better = noisy.climb("iterate", "-n", "2")
    assert len(baseline["runs"]) == 5 and baseline["metric"]["value"] == median(of(baseline, "candidate")[1:])
    assert (worse["outcome"], worse["reason"], len(worse["runs"])) == ("reverted", "worse", 1)
    assert " (1 v 5 runs), needed +" in worse["why"] and worse["metric"]["needed"] > 0
    assert (better["outcome"], better["reason"]) == ("kept", "better")
    assert better["metric"]["odds"] > 1 and len(of(better, "candidate")) >= 3
    assert re.fullmatch(r"\+[\d.]+× \(\d v \d runs, odds > 9:1\)", better["why"])  # noqa: RUF001
    shown = [line for line in noisy.run("show", "2").stdout.splitlines() if "not counted" in line]
    first = next(run for run in better["runs"] if run["of"] == "candidate")
    assert len(shown) == 1 and f"seed {first['seed']}," in shown[0]
    assert better["metric"]["value"] == pytest.approx(median(of(better, "candidate")[1:]))
    assert "not counted" not in noisy.run("show", "1").stdout
    seeds = [run["seed"] for record in (baseline, worse, better) for run in record["runs"]]
    assert len(set(seeds)) == len(seeds) == len(journal())
    folder = noisy.run_folder(2)
    log = (folder / "verifier.log").read_text()
    for place, run in enumerate(better["runs"], start=1):
        assert f"[run {place}: {run['of']}, seed {run['seed']}]" in log
        assert f"[run {place}: score = {run['value']!r}]" in log
        assert (folder / "measurements" / str(place) / "metrics.json").is_file()
    assert f"{of(better, 'candidate')[-1]:.10f}" in (folder / "metrics.json").read_text()


def test_a_candidate_that_fixes_its_seed_is_reverted_unless_the_manifest_allows_it(noisy: Project) -> None:
    own_seed = 'case "$(cat answer.json)" in *fixed*) GOALSEEK_SEED=7 ;; esac\n'
    noisy.write({"hidden/judge.sh": own_seed + NOISY})
    noisy.commit("a judge whose candidates may fix the seed")
    noisy.set_moves(answer(90, more='"fixed": 1,\n'), answer(80))
    _, fixed, better = noisy.climb("iterate", "-n", "2")
    assert (fixed["outcome"], fixed["reason"]) == ("reverted", "seed_fixed")
    assert len(of(fixed, "candidate")) == 3 and len(set(of(fixed, "candidate"))) == 1
    assert len({run["seed"] for run in fixed["runs"]}) == len(fixed["runs"])
    assert (better["outcome"], better["reason"]) == ("kept", "better")
    noisy.set_manifest({"metric": {**METRIC, "allow_fixed_seed": True}})
    noisy.set_moves(answer(90, more='"fixed": 1,\n'), answer(80), answer(99, more='"fixed": 1,\n'))
    *_, allowed = noisy.climb("iterate")
    assert (allowed["outcome"], allowed["reason"]) == ("kept", "better")
    assert "goalseek baseline" not in noisy.run("status").stdout, "the key belongs to the rule, not to the ruler"


def test_the_rule_is_asked_once_for_each_measurement(noisy: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    noisy.set_manifest({"metric": SHORT, "guard": [{"query": "size", "max": 20}]})
    noisy.set_moves(answer(90), answer(9000, size=30))
    asked: list[int] = []

    def counted(rule: Any) -> Any:
        def ask(*arguments: Any) -> Any:
            asked.append(len(arguments[-1].runs))
            return rule(*arguments)

        return ask

    monkeypatch.setattr(AcceptanceRule, "next_step", counted(AcceptanceRule.next_step))
    monkeypatch.setattr(verify, "decide_on_baseline", counted(verify.decide_on_baseline))
    records = list(goalseek.iterate(goalseek.load(noisy.manifest), iterations=2))
    assert [record.reason for record in records] == ["measured", "better", "guard"]
    assert all(len(record.runs) > 2 for record in records)
    assert asked == [count for record in records for count in range(len(record.runs) + 1)]


def test_each_side_has_its_bench_and_evidence_that_was_stored_without_its_verdict_gives_it(noisy: Project) -> None:
    noisy.write({"hidden/judge.sh": NOISY.replace("$GOALSEEK_SEED $(", "$PWD $(")})
    noisy.commit()
    noisy.set_moves(answer(90))
    noisy.set_manifest({"metric": SHORT})
    noisy.climb("baseline")
    noisy.step_until((noisy.run_folder(1) / "evidence.json").exists)
    runs = journal()
    assert not (noisy.run_folder(1) / "verdict.json").exists()
    record = noisy.climb("iterate", "-n", "1")[-1]
    assert (record["outcome"], record["reason"]) == ("kept", "better") and record["metric"]["odds"] > 1
    assert journal() == runs and of(record, "incumbent")
    assert len({line.split(" ")[1] for line in runs}) == 2, runs


def test_an_incumbent_that_fails_stops_and_says_so_and_goes_on_when_mended(noisy: Project) -> None:
    noisy.set_moves(answer(90))
    noisy.set_manifest({"metric": SHORT})
    noisy.climb("baseline")
    home("during").write_text('if grep -q "score.: 1," answer.json; then echo gone; exit 3; fi\n')
    ended = noisy.run("iterate")
    assert ended.exit_code == 1
    assert "the incumbent was measured again and gives no number any more: judge ended with 3: gone" in ended.stderr
    log = (noisy.run_folder(1) / "verifier.log").read_text()
    assert log.count("judge ended with 3: gone]") == 2, "it was asked once more, and both are to be read"
    home("during").unlink()
    assert noisy.climb()[-1]["outcome"] == "kept"


# The n-th run gives the n-th line, whatever the candidate is.
SCRIPTED = """\
echo run >> "$HOME/journal"
printf '{"score": %s}\\n' "$(sed -n "$(wc -l < "$HOME/journal")p" "$HOME/values")" > "$GOALSEEK_RUN_DIR/metrics.json"
"""


@pytest.mark.slow
def test_changes_that_do_nothing_are_not_kept_on_a_machine_that_is_busy_now_and_then(make_project: Projects) -> None:
    draw = random.Random(8)
    levels = (115.0 if run % 90 < 45 else 100.0 for run in range(500))
    home("values").write_text("".join(f"{level * (1 + 0.02 * draw.gauss(0, 1)):.4f}\n" for level in levels))
    metric = {"direction": "minimize", "query": "score", "settle": "none"}
    manifest = {"metric": metric, "search": {"stack": "none"}}
    project = make_project(files={**FILES, "hidden/judge.sh": SCRIPTED}, manifest=manifest)
    project.set_moves(*(answer(1, size) for size in range(11, 71)))
    baseline, *records = project.climb("iterate", "-n", "60")
    assert len(records) == 60 and baseline["metric"]["value"] > 110
    assert sum(record["outcome"] == "kept" for record in records) <= 1


# The n-th run gives the candidate's score, times the n-th line.
SCALED = r"""
echo run >> "$HOME/journal"
base=$(sed -n 's/.*"score": \([0-9]*\).*/\1/p' answer.json)
noise=$(sed -n "$(wc -l < "$HOME/journal")p" "$HOME/values")
awk -v a="$base" -v b="$noise" 'BEGIN { printf "{\"score\": %.6f}\n", a * b }' > "$GOALSEEK_RUN_DIR/metrics.json"
"""


@pytest.mark.slow
def test_a_line_whose_numbers_seem_to_contradict_it_has_the_reason(make_project: Projects) -> None:
    draw = random.Random(5)
    home("values").write_text("".join(f"{2 ** draw.gauss(0, 0.5):.6f}\n" for _ in range(300)))
    files = {**FILES, "answer.json": answer(10), "hidden/judge.sh": SCALED}
    project = make_project(files=files, manifest={"metric": METRIC, "search": {"stack": "none"}})
    project.set_moves(*(answer(score, size) for size, score in enumerate((10, 11, 40, 40, 39, 41), 11)))
    commands = (["baseline"], ["noise", "-n", "9"], ["iterate", "-n", "6"], ["status"], ["log"], ["promote"])
    pages = [project.check(*words) for words in (*commands, *(["show", str(number)] for number in range(1, 7)))]
    project.check("report", "-o", "night.md")
    pages.append(project.git("log", "--format=%B", folder=project.trees() / "workspace"))
    lines = [line for page in (*pages, (project.folder / "night.md").read_text()) for line in page.splitlines()]
    baseline, *records = project.iterations()
    incumbent, contradictions = baseline["metric"]["value"], 0
    assert f"the incumbent, recorded at {incumbent:.6g}: 9 runs, 5 of them earlier" in pages[1]
    for record in records:
        metric, about = record["metric"], [line for line in lines if line.endswith(f"; {record['hypothesis_summary']}")]
        assert len(about) == 2, "in log, and when it was decided"
        if metric["incumbent"] != incumbent:
            shown = [line for line in lines if f"{metric['incumbent']:.6g}" in line and "  run " not in line]
            assert shown and all("median" in line for line in shown)
        if (metric["value"] > incumbent) != (metric["delta"] > 0):
            contradictions += 1
            reason = rf"v the incumbent's last \d, median {metric['incumbent']:.6g}\b"
            assert all(re.search(reason, line) for line in about)
        assert record["outcome"] == "kept" or metric["needed"] > metric["delta"]
        incumbent = metric["value"] if record["outcome"] == "kept" else incumbent
    assert contradictions


FAILS_ONCE = """\
if grep -q "score.: 1," answer.json && [ ! -e "$HOME/failed" ] && [ -e "$HOME/climbing" ]; then
touch "$HOME/failed"; {end}
fi
"""


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.slow
def test_an_incumbent_that_fails_once_is_asked_once_more_and_the_record_tells(noisy: Project, is_killed: bool) -> None:
    noisy.set_moves(answer(90))
    noisy.set_manifest({"metric": SHORT})
    noisy.climb("baseline")
    home("climbing").touch()
    second = 'elif [ -e "$HOME/failed" ] && [ ! -e "$HOME/there" ]; then touch "$HOME/there"; sleep 60; fi'
    fails = FAILS_ONCE.format(end="echo flaky; exit 3")
    home("during").write_text(fails.replace("\nfi", f"\n{second}") if is_killed else fails)
    if is_killed:
        noisy.kill_when(home("there"), "iterate")
    record = noisy.climb()[-1]
    failed = [place for place, run in enumerate(record["runs"], 1) if run["value"] is None]
    assert record["outcome"] == "kept" and len(failed) == 1
    assert record["runs"][failed[0] - 1]["of"] == record["runs"][failed[0]]["of"] == "incumbent"
    assert f"the incumbent gave no number in run {failed[0]}, and was measured once more" in record["notes"]
    log = (noisy.run_folder(1) / "verifier.log").read_text()
    assert "judge ended with 3: flaky]" in log and f"[run {failed[0] + 1}: incumbent, seed" in log
    assert noisy.run("audit").exit_code == 0 and "incumbent no number" in noisy.run("show", "1").stdout


def test_a_verifier_that_says_stop_of_the_incumbent_is_not_asked_again(make_project: Projects) -> None:
    verify = [{"name": "judge", "run": "sh hidden/judge.sh", "sees": "hidden"}]
    judge = 'echo ran >> "$HOME/journal"\nif [ -e "$HOME/during" ]; then exit 127; fi\n'
    judge += 'printf \'{"score": 1.%s}\' "$GOALSEEK_SEED" > "$GOALSEEK_RUN_DIR/metrics.json"\n'
    project = make_project(files={**FILES, "hidden/judge.sh": judge}, manifest={"metric": SHORT, "verify": verify})
    project.set_moves(answer(90))
    project.climb("baseline")
    before = len(journal())
    home("during").touch()
    assert project.run("iterate").exit_code == 1 and len(journal()) == before + 1


GUARD = {"metric": METRIC, "guard": [{"query": "size", "max": 20}]}


class TestGuards:
    def test_a_guard_that_is_missing_on_a_later_run_rejects(self, make_project: Projects) -> None:
        project = make_project(files={**FILES, "hidden/judge.sh": NOISY}, manifest=GUARD)
        project.set_moves(answer(90))
        home("during").write_text(
            'if [ "$(grep -c "score.: 90" "$HOME/journal")" -eq 2 ]; then\n'
            'echo "{\\"score\\": 90}" > "$GOALSEEK_RUN_DIR/metrics.json"; exit 0; fi\n'
        )
        record = project.climb()[-1]
        assert (record["outcome"], record["reason"]) == ("reverted", "no_metric")
        assert record["metric"]["value"] is None

    def test_its_bound_is_judged_on_the_median(self, make_project: Projects) -> None:
        project = make_project(files={**FILES, "hidden/judge.sh": NOISY}, manifest=GUARD)
        # The first of the candidate's runs is over the bound, by luck; the others are not.
        home("during").write_text(
            'n=$(grep -c "score.: 90" "$HOME/journal"); if [ "$n" -eq 1 ]; then\n'
            'printf \'{"score": 90.%s, "size": 21}\' "$GOALSEEK_SEED" > "$GOALSEEK_RUN_DIR/metrics.json"; exit 0; fi\n'
        )
        project.set_moves(answer(90), answer(95, size=30))
        _, lucky, broken = project.climb("iterate", "-n", "2")
        assert (lucky["outcome"], lucky["guards"]) == ("kept", {"size": 10.0})
        assert (broken["outcome"], broken["reason"], broken["guards"]) == ("reverted", "guard", {"size": 30.0})
        assert broken["metric"]["value"] is not None


LINT = 'echo lint >> "$HOME/built"; echo 7 > "$GOALSEEK_RUN_DIR/lint.json"'
VERIFY: list[dict[str, Any]] = [
    {"name": "build", "run": "sh build.sh", "outputs": ["built.json"], "once": True},
    {"name": "judge", "run": "sh hidden/judge.sh", "sees": "hidden"},
    {"name": "lint", "run": LINT, "once": True},
]
BUILD = 'echo build >> "$HOME/built"; cp answer.json built.json\n'


class TestOnce:
    @pytest.fixture
    def building(self, make_project: Projects) -> Project:
        files = {**FILES, "build.sh": BUILD, "hidden/judge.sh": NOISY.replace("answer.json", "built.json")}
        guard = [{"name": "lint", "path": "lint.json", "query": "@", "max": 9}]
        return make_project(files=files, manifest={"metric": METRIC, "verify": VERIFY, "guard": guard})

    def built(self) -> list[str]:
        return home("built").read_text().split()

    def test_once_a_candidate_and_what_it_left_is_there_for_every_repeat(self, building: Project) -> None:
        building.set_moves(answer(90), answer(0), answer(0, size=11))
        baseline, kept = building.climb()
        assert (len(baseline["runs"]), kept["outcome"]) == (5, "kept")
        assert baseline["guards"] == kept["guards"] == {"lint": 7.0}
        # The baseline, the candidate, and the incumbent where it ran on a bench of its own.
        sides = 2 + bool(of(kept, "incumbent"))
        assert self.built() == ["build", "lint"] * sides
        assert len(journal()) == len(baseline["runs"]) + len(kept["runs"])
        building.climb("iterate", "-n", "2")
        assert self.built() == ["build", "lint"] * (sides + 2), "each new candidate is built anew"

    def test_a_metric_that_such_a_command_writes_is_refused(self, building: Project) -> None:
        verify = [{**VERIFY[1], "sees": "both", "once": True}, {"name": "after", "run": "true"}]
        building.write({"hidden/judge.sh": NOISY})
        building.commit()
        building.set_manifest({"metric": METRIC, "verify": verify})
        ended = building.run("baseline")
        assert ended.exit_code == 1
        assert "metrics.json is written by a command that runs once" in ended.stderr


def test_status_says_what_deciding_costs_what_differs_and_a_moved_level(noisy: Project) -> None:
    noisy.climb("baseline")
    quiet = noisy.run("status").stdout
    assert "deciding" in quiet and "up to 16 if it is not" in quiet and "settling at the end takes 10 runs" in quiet
    assert quiet.count("warning") == 1, "that the judge sees both"
    noisy.set_manifest({"metric": {**METRIC, "valid": [0, 200]}})
    assert "metric; goalseek baseline adopts it" in noisy.run("status").stdout, "the range belongs to the ruler"
    noisy.set_manifest({"metric": {**METRIC, "alpha": 0.1, "window": 50, "max_repeats": 4, "settle": "none"}})
    assert "differs" not in noisy.run("status").stdout, "the rule's own terms do not"
    noisy.set_manifest({"metric": METRIC})
    home("during").write_text("shift=50\n")
    noisy.check("noise", "-n", "10")
    moved = noisy.run("status").stdout
    assert "warning    the incumbent measures" in moved and "better than when it was kept, with the same code" in moved
