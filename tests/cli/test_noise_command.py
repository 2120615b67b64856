"""``goalseek noise``: the verifier run again and again on code that does not change, and any command without a manifest."""

import json
import re
import signal
import time
from pathlib import Path

import pytest
from project import Project, Projects, answer, home, until
from shown import on_a_terminal

from goalseek.locks import project_lock

NOISY = """\
echo ran >> "$HOME/journal"
if [ -e "$HOME/fail-at" ] && [ "$(wc -l < "$HOME/journal")" -eq "$(cat "$HOME/fail-at")" ]; then echo broken; exit 3; fi
if [ -e "$HOME/slow" ] && [ "$(wc -l < "$HOME/journal")" -ge 3 ]; then sleep 60; fi
base=$(sed -n 's/.*"score": \\([0-9]*\\).*/\\1/p' answer.json)
printf '{"score": %s.%010d}\\n' "$base" "$GOALSEEK_SEED" > "$GOALSEEK_RUN_DIR/metrics.json"
"""
NOISY_FILES = {"answer.json": answer(1), "hidden/judge.sh": NOISY}


@pytest.fixture
def noisy(make_project: Projects) -> Project:
    """A project whose number is the candidate's, and behind its point the seed."""
    return make_project(files=NOISY_FILES)


@pytest.fixture
def anywhere(tmp_path: Path) -> Project:
    """A folder without a repository and a manifest."""
    return Project(tmp_path, tmp_path)


def count() -> int:
    journal = home() / "journal"
    return len(journal.read_text().splitlines()) if journal.exists() else 0


class TestOfAProject:
    def test_every_run_is_recorded_with_its_seed_and_the_baseline_takes_them(self, noisy: Project) -> None:
        before = noisy.users()
        shown = noisy.check("noise", "-n", "4")
        records = noisy.records()
        assert [(record["kind"], record["asked_by"]) for record in records] == [("measurement", "noise")] * 4
        seeds = [record["seed"] for record in records]
        assert len(set(seeds)) == 4
        assert [record["value"] for record in records] == [pytest.approx(1 + seed / 1e10) for seed in seeds]
        assert noisy.users() == before
        for word in ("in order", "spread", "noisy", "90% interval", "outliers", "skew", "drift", "greedy", "the rule"):
            assert word in shown
        assert "1. enlarge the data" in shown and "2. repeat: a climb repeats" in shown, "its seed is drawn"
        with project_lock(noisy.top / ".git" / "goalseek" / "demo"):
            assert noisy.run("noise").exit_code == 4
        first, more = (noisy.ask("noise", "-n", str(number))["runs"] for number in (4, 5))
        assert count() == 5, "runs made before count"
        assert [run["before"] for run in first] == [True] * 4
        assert (more[:4], len({run["seed"] for run in more})) == (first, 5)
        assert "5 runs, 5 of them earlier" in noisy.run("noise", "-n", "5").stdout
        noisy.set_moves(answer(0))
        baseline = noisy.climb()[0]
        assert [run["seed"] for run in baseline["runs"]][:4] == seeds

    def test_the_run_for_which_the_incumbent_was_kept_is_left_out(self, noisy: Project) -> None:
        noisy.set_moves(answer(7))
        kept = noisy.climb()[-1]
        assert kept["outcome"] == "kept"
        found = noisy.ask("noise", "-n", "3")
        assert found["commit"] == kept["commit_hash"]
        assert all(run["value"] > 7 for run in found["runs"])
        assert kept["runs"][0]["seed"] not in [run["seed"] for run in found["runs"]]
        noisy.check("audit")

    def test_figures_are_as_json_what_they_are_in_words(self, noisy: Project) -> None:
        noisy.set_manifest({"metric": {"direction": "maximize", "query": "score", "min_delta": "2%"}})
        noisy.commit()
        found = noisy.ask("noise")
        assert (found["deterministic"], found["in_percent"], len(found["runs"])) == (False, True, 10)
        assert found["sd_interval"][0] < found["sd"] < found["sd_interval"][1]
        assert found["min_delta"] == pytest.approx(0.02 * found["median"])
        assert found["repeats"] >= 1 and len(found["power"]) == 4 and found["greedy"]["iterations"] == 100
        assert noisy.ask("noise", "--query", "{a: deterministic, b: median}") == {
            "a": False,
            "b": found["median"],
        }

    def test_identical_values_are_doubted(self, project: Project) -> None:
        shown = project.check("noise", "-n", "3")
        assert "3 runs gave 1, equal to the last bit" in shown
        assert "never reads the candidate" in shown and "goalseek doctor" in shown
        assert "spread" not in shown and "fit that one seed" not in shown

    def test_a_first_failure_leaves_nothing_and_a_later_one_is_a_finding(self, noisy: Project) -> None:
        (home() / "fail-at").write_text("1")
        ended = noisy.run("noise")
        assert ended.exit_code == 1
        assert "judge ended with 3" in ended.stderr and "| broken" in ended.stderr
        assert noisy.traces() == []
        (home() / "fail-at").write_text("3")
        ended = noisy.run("noise", "-n", "4", "--json")
        assert ended.exit_code == 1
        found = json.loads(ended.stdout)
        assert [failure["reason"] for failure in found["failures"]] == ["verify_failed"]
        assert len(found["runs"]) == 4 == len(noisy.records())
        assert "a run failed: verify_failed" in ended.stderr

    @pytest.mark.slow
    def test_an_interrupt_keeps_and_shows_what_was_measured(self, noisy: Project) -> None:
        (home() / "slow").touch()
        process = noisy.start("noise", "-n", "4")
        until(lambda: count() >= 3)
        time.sleep(0.2)  # the judge is at its sleep by then
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=30)
        assert process.returncode == 130, stderr
        assert "2 runs gave 2 values" in stdout
        assert len(noisy.records()) == 2
        (home() / "slow").unlink()
        assert len(noisy.ask("noise", "-n", "4")["runs"]) == 4
        assert count() == 5


class TestOfAnyCommand:
    def test_a_number_in_the_output_in_a_folder_without_git(self, anywhere: Project) -> None:
        arguments = ("noise", "--run", "echo loss: $GOALSEEK_SEED", "--regex", r"loss: (\d+)", "--json")
        ended_here = anywhere.run(*arguments)
        found = json.loads(ended_here.stdout)
        assert ended_here.exit_code == 0
        assert [run["value"] for run in found["runs"]] == [run["seed"] for run in found["runs"]]
        assert len({run["seed"] for run in found["runs"]}) == 10
        assert "outside the sandbox" in ended_here.stderr
        assert found["direction"] is None
        assert [path.name for path in anywhere.folder.iterdir()] == ["home"], "nothing is written"

    def test_json_on_stdout_and_the_last_match_where_that_is_asked_for(self, anywhere: Project) -> None:
        command = """echo '{"test": {"loss": 0.25}}'"""
        ended_here = anywhere.run("noise", "-n", "2", "--run", command, "--query", "test.loss")
        assert "2 runs gave 0.25, equal to the last bit" in ended_here.stdout
        assert "break something that must move the number" in ended_here.stdout
        arguments = ("noise", "-n", "2", "--run", "echo y3 y4", "--regex", r"y(\d)", "--matches", "last")
        assert anywhere.ask(*arguments)["median"] == 4

    def test_wall_time(self, anywhere: Project) -> None:
        found = anywhere.ask("noise", "-n", "3", "--run", "sleep 0.1")
        assert all(0.1 < run["value"] == pytest.approx(run["seconds"], abs=1e-5) for run in found["runs"])
        assert found["direction"] == "minimize"
        assert "minimum of several runs" in found["advice"][-1]

    def test_a_first_run_without_a_number_is_told_with_what_it_printed(self, anywhere: Project) -> None:
        for arguments, said in (
            (("echo y3; exit 3", "--regex", r"y(\d)"), "the command ended with 3"),
            (("echo half; sleep 60", "--timeout", "0.2s"), "ran past its limit, 0.2s"),
            (("echo x3", "--regex", r"y(\d)"), "no match of"),
            (("echo y3 >&2", "--regex", r"y(\d)"), "end the command with 2>&1"),
            (("echo y3 y4", "--regex", r"y(\d)"), "2 matches of"),
            (("echo text", "--query", "loss"), "what it printed is not JSON"),
            (("echo NaN", "--regex", "(.+)"), "is nan"),
        ):
            told = anywhere.fail(1, "noise", "--run", *arguments)
            assert said in told and "  | " in told

    def test_failures_after_the_first_run_are_counted_and_three_end_it(self, anywhere: Project) -> None:
        command = 'echo >> "$HOME/j"; n=$(wc -l < "$HOME/j"); echo y$n; test $n -lt 3'
        ended_here = anywhere.run("noise", "--run", command, "--regex", r"y(\d+)", "--json")
        found = json.loads(ended_here.stdout)
        assert (ended_here.exit_code, len(found["runs"]), len(found["failures"])) == (1, 2, 3)

    def test_what_makes_no_sense_is_refused(self, anywhere: Project) -> None:
        for arguments, said in (
            (("--run", "true", "--query", "x", "--regex", "(x)"), "--regex and --query exclude each other"),
            (("--run", "true", "--direction", "maximize"), "always minimized"),
            (("-m", "speed", "--run", "true"), "-m and --run"),
            (("--run", "true", "--matches", "last"), "--matches is for --regex"),
            (("--run", "true", "--regex", "(x"), "does not compile"),
            (("--run", "true", "--regex", "x"), "it needs one"),
            (("--run", "true", "--query", "[x"), "is not JMESPath"),
            (("--run", "true", "--timeout", "soon"), "is not a duration"),
            (("-n", "1", "--run", "true"), "two runs at least"),
            (("--regex", "(x)"), "--regex goes with --run"),
        ):
            assert said in anywhere.fail(2, "noise", *arguments)


@pytest.mark.parametrize(("variable", "is_colored"), [("COLORTERM", True), ("NO_COLOR", False)])
def test_at_a_terminal_it_fits_and_may_be_coloured(tmp_path: Path, variable: str, is_colored: bool) -> None:
    arguments = ("noise", "-n", "3", "-q", "--run", "echo $GOALSEEK_SEED", "--regex", "(.+)")
    environment = {"TERM": "xterm", variable: "1", "LC_ALL": "C.UTF-8"}
    text = on_a_terminal(tmp_path, *arguments, columns=60, environment=environment)
    assert ("\x1b[" in text) == is_colored
    lines = re.sub(r"\x1b\[\d+m", "", text).splitlines()
    assert max(map(len, lines)) <= 60
    assert "┼" in next(line for line in lines if line.startswith("spread"))
