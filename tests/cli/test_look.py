"""``status``, ``log``, ``show`` and ``manifest``: what happened and what holds, for people and for programs."""

import contextlib
import json
import os
import re
import signal
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from project import FILES, MANIFEST, Ended, Project, Projects, answer, home, living, until
from shown import on_a_terminal

from goalseek.cli.watch import ClimbFollower
from goalseek.manifest.loading import load
from goalseek.project.activity import Observer
from goalseek.project.progress import Progress

MANIFESTS = sorted((Path(__file__).parents[2] / "manifests").glob("*.toml"))
MOVES = (answer(2), answer(1.5), {"files": {"other.txt": "mine\n"}}, answer(2, size=11), answer(3), answer(2.5))
OUTCOMES = [
    (0, "baseline", "measured"),
    (1, "kept", "better"),
    (2, "reverted", "worse"),
    (3, "skipped", "out_of_scope"),
    (4, "reverted", "tie"),
    (5, "kept", "better"),
    (6, "reverted", "worse"),
]
EXPOSED = (
    'candidate code can read the hidden files: judge sees both; split it: a command with sees = "candidate" runs the '
    'code and leaves `outputs`, one with sees = "hidden" scores them'
)
ESCAPE = "\x1b["


@pytest.fixture
def climbed(played: Projects) -> Project:
    """A project after the iterations of ``OUTCOMES``."""
    return played(*MOVES)


def rows(ended: Ended) -> list[Any]:
    """An answer in JSON lines."""
    assert ended.exit_code == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def numbers(project: Project, *arguments: str) -> list[int]:
    """The iterations that ``log`` gives, once as lines and once as JSON lines, which must agree."""
    found = [row["iteration"] for row in rows(project.run("log", "--json", *arguments))]
    shown = project.run("log", *arguments).stdout.splitlines()
    assert [int(line.split()[0]) for line in shown] == found
    return found


class TestStatus:
    def test_a_new_run_begins_its_counts_before_its_first_iteration_ends(self, climbed: Project) -> None:
        climbed.set_agent('touch "$HOME/here"; sleep 30\n')
        climbed.kill_when(home("here"), "iterate", "--new")
        seen = climbed.ask("status")
        assert (seen["outcomes"], seen["stagnation"], seen["spend"]["iterations"]) == ({}, 0, 0)
        told: list[int] = []

        class Hearing(Observer):
            def on_progress(self, progress: Progress) -> None:
                told.append(progress.standing.stagnation)

        ClimbFollower(load(climbed.manifest), Hearing()).look()
        assert told == [0]

    def test_after_a_climb_it_names_best_last_and_counts_and_a_query_takes_a_part(self, climbed: Project) -> None:
        seen = climbed.ask("status")
        assert (seen["status"], seen["stop_reason"], seen["iteration"]) == ("completed", "count", 6)
        assert (seen["baseline"]["value"], seen["best"]["value"], seen["best"]["iteration"]) == (1, 3, 5)
        assert (seen["last"]["iteration"], seen["last"]["outcome"], seen["stagnation"]) == (6, "reverted", 1)
        assert seen["outcomes"] == {"baseline": 1, "kept": 2, "reverted": 3, "skipped": 1}
        assert seen["differs"] == []
        shown = climbed.run("status").stdout
        for expected in ("demo: finished as asked", "3 score", "iteration 5", "6: reverted/worse", "2 kept"):
            assert expected in shown
        assert "differs" not in shown
        assert rows(climbed.run("status", "--query", "best.[iteration, value]")) == [[5, 3]]

    @pytest.mark.slow
    def test_a_run_at_work_is_running_and_an_ended_one_interrupted(self, project: Project, isolated: Path) -> None:
        def until_seen(**fields: object) -> dict[str, Any]:
            def look() -> dict[str, Any] | None:
                seen: dict[str, Any] = project.ask("status")
                return seen if fields.items() <= seen.items() else None

            return until(look)

        project.set_moves(answer(2, more='"hang": 1,\n'))
        started = project.start("iterate")
        assert until_seen(phase="VERIFY", iteration=0)["status"] == "running"
        started.terminate()
        _, stderr = started.communicate(timeout=120)
        assert started.returncode == 143 and "same command goes on" in stderr
        seen = project.ask("status")
        assert (seen["status"], seen["stop_reason"]) == ("interrupted", "interrupted")
        started = project.start("iterate")
        until_seen(status="running", phase="VERIFY")
        started.kill()
        started.communicate(timeout=120)
        for process in living(isolated):  # a verifier that outlives the tool would be ended by the next iterate
            with contextlib.suppress(ProcessLookupError):  # it may have ended by itself
                os.kill(process, signal.SIGKILL)
        seen = until_seen(status="interrupted")
        assert (seen["phase"], seen["last"]["iteration"]) == (None, 0)
        assert "interrupted" in project.check("status")

    def test_what_differs_from_the_ruler_is_named_until_a_baseline_adopts_it(self, climbed: Project) -> None:
        climbed.set_manifest({"limits": {"iterations": 99}, "metric": {**MANIFEST["metric"], "target": 1000}})
        assert climbed.ask("status")["differs"] == []
        climbed.set_manifest({"verify": [{"name": "judge", "run": "sh hidden/judge.sh 2", "sees": "both"}]})
        seen = climbed.ask("status")
        assert seen["differs"] == ["key verify"]
        assert re.search(r"differs +key verify", climbed.run("status").stdout)
        climbed.git("checkout", "--quiet", "--", "goalseek.toml")
        climbed.write({"answer.json": climbed.git("show", "goalseek/demo:answer.json") + "\n"})
        climbed.commit("a kept change that came home")
        assert climbed.ask("status")["warnings"] == [EXPOSED]
        climbed.write({"hidden/judge.sh": FILES["hidden/judge.sh"] + "# harder\n", "answer.json": answer(1, size=9)})
        assert climbed.ask("status")["differs"] == []
        climbed.commit("a harder judge, and writable files, which belong to no ruler")
        assert climbed.ask("status")["differs"] == ["file hidden/judge.sh"]
        assert "hidden/judge.sh" in climbed.run("status").stdout
        not_climbed = "HEAD's answer.json is not in the climb; goalseek baseline --from HEAD climbs from it"
        not_climbed += ", and leaves the kept changes: goalseek promote, and merge them first"
        assert climbed.ask("status")["warnings"] == [EXPOSED, not_climbed]
        ended = climbed.run("iterate", "--new")
        assert not_climbed in ended.stderr
        differs = "· file hidden/judge.sh differs from the pinned verifier; goalseek baseline adopts it"
        assert ended.stdout.rstrip().endswith(differs)
        stderr = climbed.run("baseline").stderr
        assert not_climbed in stderr and "adopts: file hidden/judge.sh\n" in stderr and "adopts it" not in stderr
        seen = climbed.ask("status")
        assert (seen["differs"], seen["baseline"]["iteration"], seen["baseline"]["value"]) == ([], 8, 3)

    def test_a_baseline_counts_only_changes_since_the_climb_began(self, climbed: Project) -> None:
        for number in (1, 2):  # the second stands on a baseline that is a commit of the climb's own
            climbed.set_manifest({"verify": [{"name": f"judge{number}", "run": "sh hidden/judge.sh", "sees": "both"}]})
            climbed.git("commit", "--quiet", "--all", "--message=the manifest only")
            assert "not in the climb" not in climbed.run("baseline").stderr
            assert "not in the climb" not in climbed.run("status").stdout
        climbed.write({"answer.json": answer(1, size=9)})
        climbed.commit("a change of the user's")
        assert "climbs from it, and leaves the kept changes" in climbed.run("status").stdout
        climbed.check("baseline", "--from", "HEAD")
        climbed.write({"answer.json": answer(1, size=8)})
        climbed.commit("another change of the user's")
        shown = climbed.run("status").stdout
        assert "climbs from it" in shown and "and leaves the kept" not in shown


class TestLog:
    def test_it_gives_every_iteration_oldest_first_and_the_records_themselves(self, climbed: Project) -> None:
        assert numbers(climbed) == [0, 1, 2, 3, 4, 5, 6]
        line = climbed.run("log").stdout.splitlines()[2]
        for expected in ("reverted", "worse", "1.5", "move 2"):
            assert expected in line
        assert rows(climbed.run("log", "--json")) == climbed.iterations()
        assert rows(climbed.run("log", "--outcome", "kept", "--query", "metric.value")) == [2, 3]
        assert rows(climbed.run("log", "--query", "commit_hash && iteration")) == [0, 1, 2, 4, 5, 6]

    def test_it_gives_what_is_asked_for(self, climbed: Project) -> None:
        cases = {
            "--last 2": [5, 6],
            "--last 99": [0, 1, 2, 3, 4, 5, 6],
            "--outcome kept": [1, 5],
            "--outcome kept --last 1": [5],
            "--outcome reverted": [2, 4, 6],
            "--outcome skipped": [3],
            "--outcome baseline": [0],
            "--reason worse": [2, 6],
            "--reason tie --outcome kept": [],
            "--since 4": [4, 5, 6],
            "--since 3 --outcome reverted": [4, 6],
            "--since 1h": [0, 1, 2, 3, 4, 5, 6],
            "--since 2hours": [0, 1, 2, 3, 4, 5, 6],
            "--since 2099-01-01T00:00": [],
            "--since 2020-01-01": [0, 1, 2, 3, 4, 5, 6],
        }
        assert {case: numbers(climbed, *case.split()) for case in cases} == cases

    def test_what_cannot_be_meant_or_written_is_refused(self, climbed: Project) -> None:
        for option, wrong, said in (
            *((option, wrong, wrong) for option, wrong in {"--last": "0", "--since": "tomorrow"}.items()),
            *((option, wrong, wrong) for option, wrong in {"--outcome": "better", "--reason": "bad"}.items()),
            ("--query", "a b", "a b"),
            ("-o", "all.csv", "log -o was removed: goalseek export --to csv FILE"),
        ):
            assert said in climbed.fail(2, "log", option, wrong)
        assert not (climbed.folder / "all.csv").exists()


class TestShow:
    def test_it_shows_the_record_that_is_named_with_all_that_a_person_asks_about(self, climbed: Project) -> None:
        for which, number in ((["2"], 2), (["best"], 5), ([], 6), (["last"], 6), (["0"], 0)):
            assert rows(climbed.run("show", *which, "--json")) == [climbed.iterations()[number]]
            shown = climbed.run("show", *which).stdout
            assert shown.startswith(f"iteration {number}: {OUTCOMES[number][1]}, {OUTCOMES[number][2]}\n")
        shown = climbed.run("show", "2").stdout
        record = climbed.iterations()[2]
        for expected in (
            *("move 2", "1.5, against 2", "answer.json", "judge: exit 0", "scripted", record["why"]),
            *(record["commit_hash"], record["rollback_commit_hash"]),
        ):
            assert expected in shown

    def test_what_is_not_there_is_refused(self, climbed: Project) -> None:
        for which in ("7", "99", "first", "-1"):
            assert which in climbed.fail(2, "show", which)
        assert "plan.md" in climbed.fail(2, "show", "0", "--plan")

    def test_the_diff_outlives_its_artifacts_and_applies_to_its_parent(self, climbed: Project) -> None:
        assert "+mine\n" in climbed.run("show", "3", "--diff").stdout
        (climbed.run_folder(5) / "changes.diff").unlink()
        patch = climbed.run("show", "5", "--diff").stdout
        assert '-{"score": 2,\n' in patch
        assert '+{"score": 3,\n' in patch
        patch = climbed.run("show", "2", "--diff").stdout
        record = climbed.iterations()[2]
        assert patch.startswith("diff --git a/answer.json b/answer.json\n")
        climbed.git("checkout", "--quiet", record["parent_commit_hash"])
        climbed.git("apply", "--index", stdin=patch.encode())
        assert climbed.git("write-tree") == record["tree_hash"]

    def test_the_diff_of_the_best_is_one_step_or_with_all_every_step(self, climbed: Project) -> None:
        best = max((record for record in climbed.iterations() if record["outcome"] == "kept"), key=lambda r: r["seq"])
        step = climbed.run("show", "best", "--diff")
        command = "goalseek show best --diff --all"
        assert step.stderr == f"only iteration {best['iteration']}; from the baseline on: {command}\n"
        whole = climbed.run("show", "best", "--diff", "--all")
        assert whole.stderr == "" and whole.stdout != step.stdout
        climbed.git("checkout", "--quiet", climbed.iterations()[0]["commit_hash"])
        climbed.git("apply", "--index", stdin=whole.stdout.encode())
        assert climbed.git("write-tree") == best["tree_hash"]
        for words, said in ((("0", "--diff", "--all"), "no change since"), (("best", "--all"), "goes with --diff")):
            assert said in climbed.fail(2, "show", *words)

    def test_plan_prompt_and_output_are_the_artifacts(self, climbed: Project) -> None:
        assert climbed.run("show", "1", "--plan").stdout == (climbed.run_folder(1) / "plan.md").read_text()
        assert "move 1" in climbed.run("show", "1", "--plan").stdout
        prompt = climbed.run("show", "2", "--prompt").stdout
        asked = {name: (climbed.run_folder(2) / "prompts" / f"{name}.md").read_text() for name in ("plan", "apply")}
        assert prompt == f"== plan ==\n{asked['plan']}== apply ==\n{asked['apply']}"
        assert asked["apply"] == (climbed.run_folder(2) / "prompt.md").read_text()
        assert "1: kept/better" in prompt
        output = climbed.run("show", "1", "--output").stdout
        assert "== verifier.log ==" in output
        assert "== provider_output.md ==" in output
        printed = climbed.run_folder(1) / "provider_output.md"
        printed.write_text("no end of line")
        assert "no end of line\n== verifier.log ==\n" in climbed.run("show", "1", "--output").stdout
        climbed.set_moves(*MOVES, answer(2, more='"fail": 1,\n'))
        climbed.climb()
        assert "told to fail" in climbed.run("show", "--output").stdout

    def test_files_copies_the_candidate_and_the_metrics(self, climbed: Project, tmp_path: Path) -> None:
        folder = tmp_path / "taken"
        climbed.check("show", "5", "--files", str(folder))
        found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        assert found == {"snapshot/answer.json", "measurements/1/metrics.json"}
        assert (folder / "snapshot/answer.json").read_text() == answer(3)
        again = climbed.run("show", "1", "--files", str(folder))
        assert again.exit_code == 2
        assert (folder / "snapshot/answer.json").read_text() == answer(3)
        (tmp_path / "file").write_text("mine\n")
        assert climbed.run("show", "5", "--files", str(tmp_path / "file")).exit_code == 2
        assert (tmp_path / "file").read_text() == "mine\n"


class TestManifest:
    @pytest.mark.parametrize("shipped", MANIFESTS, ids=lambda path: path.stem)
    @pytest.mark.slow
    def test_the_shown_manifest_means_the_same(self, make_project: Projects, shipped: Path) -> None:
        first = make_project("first", manifest=shipped.read_text())
        printed = first.check("manifest", "show")
        second = make_project("second", manifest=printed)
        again = second.run("manifest", "show")
        assert again.stdout == printed
        assert rows(second.run("manifest", "--json")) == rows(first.run("manifest", "--json"))

    def test_it_writes_the_defaults_out_and_what_is_switched_off_stays_off(self, project: Project) -> None:
        tables = tomllib.loads(project.run("manifest").stdout)
        assert (tables["scope"]["strays"], tables["log"]["home"], tables["metric"]["name"]) == (
            "drop",
            ".goalseek",
            "score",
        )
        assert tables["limits"] == {"stagnation": 10, "failures": 20, "total": {}}
        off = dict.fromkeys(("iterations", "time", "deadline", "stagnation", "failures"), "none")
        command = {"run": "sh hidden/judge.sh", "sees": "both", "timeout": "none"}
        metric = {"direction": "maximize", "query": "score", "valid": "none", "target": "none"}
        provider = {"name": "tune", "timeout": "none"}
        project.set_manifest({"limits": off, "verify": [command], "metric": metric, "provider": provider})
        schema = jsonschema.Draft202012Validator(json.loads(project.run("manifest", "schema").stdout))
        assert schema.is_valid(tomllib.loads(project.manifest.read_text()))
        project.set_manifest(project.check("manifest"))
        (found,) = rows(project.run("manifest", "--json"))
        assert {found["limits"][name] for name in off} == {None}
        assert found["verify"][0]["timeout"] is None


class TestColours:
    def test_colours_are_optional_and_never_in_json(self, climbed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        assert ESCAPE not in climbed.run("log", "--json", "--color", "always").stdout
        for command in (["log"], ["status"], ["show", "1"], ["promote"]):
            assert ESCAPE not in climbed.run(*command).stdout
            assert ESCAPE in climbed.run("--color", "always", *command).stdout
            assert ESCAPE not in climbed.run(*command, "--color", "never").stdout
        monkeypatch.setenv("NO_COLOR", "1")
        assert ESCAPE in climbed.run("log", "--color", "always").stdout
        assert ESCAPE not in on_a_terminal(climbed.folder, "log", "--color", "never")


def test_a_prompt_that_nobody_was_asked_is_not_shown(project: Project) -> None:
    project.set_agent("echo better; echo '{\"score\": 2}' > answer.json\n")
    project.climb()
    shown = project.run("show", "1", "--prompt").stdout
    assert shown.startswith("== apply ==\n") and "== plan ==" not in shown
