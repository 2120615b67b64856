"""SIGKILL of a climb with four iterations at once, and what the commands after it make of what it has left."""

import random
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from killing import kill, start
from many import AT_ONCE, Calls, assert_sound_at_end, candidates_in_flight, go_on, many, numbers_in_flight
from project import Project, home, until

pytestmark = pytest.mark.slow
ITERATIONS = 12
KILLS_LEAST = 5
MOST_SECONDS = 2.0


def test_nothing_is_lost_nor_counted_or_paid_twice(
    tmp_path: Path, ways: Sequence[str] = ("tool", "group", "everything"), seed: int = 0
) -> None:
    """benchmarks/kills.py has the other seeds."""
    project, dice, kills = many(tmp_path / "killed", ITERATIONS), random.Random(f"{ways} {seed}"), 0
    users, calls, before, pace = project.users(), Calls(project), project.records(), 0.5
    while len(project.iterations()) <= ITERATIONS:
        started = start(project, "iterate", "--forever", *AT_ONCE)
        time.sleep(pace * dice.uniform(0.3, MOST_SECONDS))
        kills += kill(started, dice.choice(ways))
        calls.note()
        records = project.records()
        assert records[: len(before)] == before
        pace *= 0.7 if len(records) > len(before) + 2 else 1.2 if records == before else 1.0  # machines differ
        before = records
    go_on(project)
    calls.refuse()
    assert kills >= KILLS_LEAST, "the climb was over before it could be killed"
    assert project.users() == users
    assert_sound_at_end(project, ITERATIONS)


def killed_while_measuring(top: Path) -> Project:
    """A climb of six that was killed while several candidates were measured; two are recorded already."""
    project = many(top, 6)
    project.climb("iterate", "-n", "2", *AT_ONCE)
    home("during-verify").write_text("sleep 60\n")
    started = start(project, "iterate", "--forever", *AT_ONCE)
    until(lambda: len(candidates_in_flight(project)) >= 2)
    kill(started, "group")
    home("during-verify").unlink()
    return project


def test_one_at_a_time_ends_them_and_goes_on_and_what_comes_between_waits(tmp_path: Path) -> None:
    project = killed_while_measuring(tmp_path / "repository")
    calls = Calls(project)
    calls.note()
    for command in (("baseline",), ("revert", "1"), ("step",)):
        ended = project.run(*command)
        assert ended.exit_code == 2 and "are under way" in ended.stderr, (command, ended)
        assert "goalseek iterate finishes what was begun; then goalseek" in ended.stderr
    project.check("prune", "--keep", "0")
    project.climb("iterate", "--forever")
    calls.refuse()
    assert_sound_at_end(project, 6)


def test_a_lock_that_git_left_on_a_candidate_in_flight_is_removed(tmp_path: Path) -> None:
    project = killed_while_measuring(tmp_path / "repository")
    refs = project.git("for-each-ref", "--format=%(refname)", "refs/goalseek/demo/flight").splitlines()
    lock = project.top / ".git" / f"{refs[0]}.lock"
    lock.touch()
    project.git("pack-refs", "--all")
    project.climb("iterate", "--forever", *AT_ONCE)
    assert not lock.exists()
    assert_sound_at_end(project, 6)


def test_a_new_run_records_candidates_and_forgets_proposals(tmp_path: Path) -> None:
    project = killed_while_measuring(tmp_path / "repository")
    left, begun = candidates_in_flight(project), numbers_in_flight(project)
    project.climb("iterate", "--new", "-n", "8", *AT_ONCE)
    records = {record["iteration"]: record for record in project.iterations()}
    for number in left:
        assert (records[number]["outcome"], records[number]["reason"]) == ("skipped", "interrupted")
        assert "new run" in records[number]["why"]
    assert_sound_at_end(project, max(records), forgotten=begun - left)


def test_a_baseline_records_them_where_they_cannot_be_finished(tmp_path: Path) -> None:
    project = killed_while_measuring(tmp_path / "repository")
    left = candidates_in_flight(project)
    project.manifest.write_text(project.manifest.read_text().replace("iterations = 6", "iterations = 2"))
    project.check("baseline")
    records = {record["iteration"]: record for record in project.iterations()}
    assert all("could not be finished" in records[number]["why"] for number in left)
    assert project.iterations()[-1]["outcome"] == "baseline"
    assert not candidates_in_flight(project)
    project.check("audit")


@pytest.mark.parametrize("steps", [3, 4])
def test_what_was_under_way_alone_is_finished_first(tmp_path: Path, steps: int) -> None:
    """Its proposal is stored, or its candidate is on the tip."""
    project = many(tmp_path / "repository", 5)
    project.climb("iterate", "-n", "1")
    for _ in range(steps):
        project.check("step")
    project.climb("iterate", "--forever", *AT_ONCE)
    called = Counter(line for line in home("journal").read_text().splitlines() if line.startswith("called 2 apply"))
    assert called.total() == 1
    assert_sound_at_end(project, 5)


def test_two_climbs_of_one_repository_that_are_killed_in_turn(tmp_path: Path) -> None:
    project, dice = many(tmp_path / "repository", 6), random.Random("two")
    other = Project(project.top, project.folder)
    other.manifest = project.folder / "other.toml"
    other.manifest.write_text(project.manifest.read_text().replace('name = "demo"', 'name = "other"'))
    climbs = [("-m", climb.manifest.name, "iterate", "--forever", *AT_ONCE) for climb in (project, other)]
    for _ in range(3):
        both = [start(project, *climb) for climb in climbs]
        time.sleep(dice.uniform(0.5, MOST_SECONDS))
        for started in both:
            kill(started, "group")
    for climb in climbs:
        project.check(*climb)
    assert_sound_at_end(project, 6)
    assert_sound_at_end(other, 6, "other")


def test_after_somebody_emptied_the_cache_in_the_middle_the_same_command_goes_on(tmp_path: Path) -> None:
    project = many(tmp_path / "repository", ITERATIONS)
    started = start(project, "iterate", "--forever", *AT_ONCE)
    until(lambda: len(project.iterations()) > 0)
    time.sleep(1)
    shutil.rmtree(project.trees(), ignore_errors=True)
    started.communicate(timeout=120)
    go_on(project)
    assert_sound_at_end(project, ITERATIONS)
