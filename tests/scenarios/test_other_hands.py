"""Other hands in the repository: each does no harm, or is a stop that names what happened and the way on."""

import re
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from inside import GoalseekError, before_refs_move
from many import AT_ONCE, assert_sound_at_end, many
from project import Ended, Project, Projects, answer, home

import goalseek

pytestmark = pytest.mark.slow

LEDGER = "refs/goalseek/demo/ledger"
TIP = "refs/goalseek/demo/tip"
BRANCH = "refs/heads/goalseek/demo"
WAIT = """\
if [ "$GOALSEEK_ITERATION" = 1 ] && [ ! -e "$HOME/go" ]; then touch "$HOME/waiting"; fi
while [ -e "$HOME/waiting" ] && [ ! -e "$HOME/go" ]; do sleep 0.05; done
"""
COPY = 'cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"\n'
JUDGE = WAIT + COPY
AGENT = "printf '{\"score\": 1%s}' $GOALSEEK_ITERATION > answer.json; echo a title\n"


def made(make_project: Projects, agent: str, judge: str) -> Project:
    files = {"answer.json": '{"score": 1}\n', "hidden/judge.sh": judge, "other.txt": "x\n"}
    project = make_project(files=files).set_agent(agent)
    project.commit("the agent")
    return project


@pytest.fixture
def waiting(make_project: Projects) -> Project:
    """A project whose verifier waits in iteration 1 until ``go`` is there; iteration n proposes 1n."""
    return made(make_project, AGENT, JUDGE)


@pytest.fixture
def waiting_agent(make_project: Projects) -> Project:
    """The same, but it is the agent who waits."""
    return made(make_project, WAIT + AGENT, COPY)


def at_work(project: Project, *arguments: str) -> subprocess.Popen[str]:
    """A climb that waits in iteration 1."""
    return project.start_until(home("waiting"), *(arguments or ("iterate", "-n", "2")))


def finished(started: subprocess.Popen[str]) -> Ended:
    home("go").touch()
    stdout, stderr = started.communicate(timeout=60)
    assert "Traceback" not in stderr, stderr
    return Ended(started.returncode, stdout, stderr)


def climb_on(project: Project) -> list[dict[str, Any]]:
    home("go").touch()
    return project.climb()


def values(project: Project) -> list[float | None]:
    return [record["metric"]["value"] for record in project.iterations()]


HANDS = {
    "housekeeping": """
        git reflog expire --expire=now --all
        git gc --quiet --prune=now
        git repack -a -d -q
        git pack-refs --all
        git gc --quiet --aggressive --prune=now
        """,
    "a push": """
        git clone --quiet --bare . ../bare.git
        git push --quiet ../bare.git 'refs/goalseek/*:refs/goalseek/*' goalseek/demo
        git fetch --quiet ../bare.git 'refs/goalseek/*:refs/goalseek/*'
        git worktree add --quiet -b elsewhere ../worktree
        """,
    "the user's own work": """
        echo mine > other.txt; echo mine too > new.txt
        git stash --include-untracked --quiet
        git switch --quiet -c feature
        echo exit 1 > hidden/judge.sh; git add -A; git commit --quiet -m mine
        git switch --quiet main
        git stash pop --quiet
        git commit --quiet -a -m 'more of mine'
        git reset --quiet --hard HEAD~1
        """,
    "a wrong manifest": "echo 'version = [' > goalseek.toml",
    "no manifest": "rm goalseek.toml",
    "git clean": "git clean -fdx --quiet; test ! -e .goalseek",
    "an empty cache": 'rm -r "$XDG_CACHE_HOME"/goalseek/*',
    "tip moved": f"git update-ref {TIP} $(git commit-tree 'main^{{tree}}' -p goalseek/demo -m mine)",
    "tip deleted": f"git update-ref -d {TIP}",
    "branch deleted": "git branch -D goalseek/demo",
    "branch renamed": "git branch -m goalseek/demo best",
    "branch committed to": """
        git switch --quiet goalseek/demo
        git commit --quiet --allow-empty -m mine
        git switch --quiet main
        """,
    "branch rebased": """
        git commit --quiet --allow-empty -m 'on main'
        git switch --quiet goalseek/demo
        git commit --quiet --amend --allow-empty -m amended
        git rebase --quiet --keep-empty main
        git switch --quiet main
        """,
    "ledger deleted": f"git update-ref -d {LEDGER}",
    "ledger set back": f"git update-ref {LEDGER} {LEDGER}~1",
    "ledger deleted, git clean": f"git clean -fdx --quiet; git update-ref -d {LEDGER}",
}
HARMLESS = list(HANDS)[:7]
STOPS = ["tip moved", "tip deleted", "branch committed to", "branch rebased", "ledger deleted", "ledger set back"]


def lay(hand: str, project: Project) -> None:
    subprocess.run(["sh", "-ec", HANDS[hand]], cwd=project.top, check=True, capture_output=True, timeout=120)


@pytest.mark.parametrize("hand", HARMLESS)
def test_done_to_a_run_at_work_it_does_no_harm(waiting: Project, hand: str) -> None:
    manifest = waiting.manifest.read_text()
    started = at_work(waiting)
    lay(hand, waiting)
    users = waiting.users()
    ended = finished(started)
    assert ended.exit_code == 0, ended.stderr
    assert values(waiting) == [1, 11, 12]
    assert waiting.users() == users
    assert waiting.git("rev-parse", "goalseek/demo") == waiting.git("rev-parse", TIP)
    waiting.manifest.write_text(manifest)
    waiting.check("audit")
    if hand == "git clean":
        assert "again from git: " in ended.stderr
        assert waiting.git("status", "--porcelain") == ""
        assert (waiting.run_folder(1) / "result.json").exists()
    if "manifest" in hand:
        assert "the last valid one applies" in waiting.iterations()[-1]["notes"][0]


@pytest.mark.parametrize("hand", ["git clean", "an empty cache"])
def test_done_while_the_agent_is_at_work_it_goes_on(waiting_agent: Project, hand: str) -> None:
    started = at_work(waiting_agent)
    lay(hand, waiting_agent)
    assert finished(started).exit_code == 0
    found = [(record["outcome"], record["reason"]) for record in waiting_agent.iterations()]
    lost = ("skipped", "interrupted") if hand == "an empty cache" else ("kept", "better")
    assert found == [("baseline", "measured"), lost, ("kept", "better")]
    waiting_agent.check("audit")


@pytest.mark.parametrize(
    ("hand", "is_at_work"),
    [*((hand, True) for hand in STOPS), *((hand, False) for hand in (*STOPS, "ledger deleted, git clean"))],
)
def test_a_ref_that_somebody_moved_is_a_stop_that_says_the_way_on(
    waiting: Project, hand: str, is_at_work: bool
) -> None:
    """Both under a run at work and between two invocations; what the stop says is then done."""
    started = at_work(waiting) if is_at_work else None
    if not started:
        climb_on(waiting)
    lay(hand, waiting)
    ref = {"tip": TIP, "branch": BRANCH, "ledger": LEDGER}[hand.split()[0]]
    position = waiting.git("for-each-ref", "--format=%(objectname)", ref)[:12] or "nothing"
    ended = finished(started) if started else waiting.run("iterate")
    assert ended.exit_code == 5 and "somebody moved refs" in ended.stderr, ended
    assert f"is at {position}" in ended.stderr
    way_on = re.search(r"git (update-ref \S+ [0-9a-f]{40})", ended.stderr)
    assert way_on, ended.stderr
    waiting.git(*way_on[1].split())
    waiting.check("iterate")
    assert values(waiting)[: 2 if is_at_work else None] == [1, 11, 12][: 2 if is_at_work else None]
    waiting.check("audit")


@pytest.mark.parametrize("is_at_work", [True, False])
@pytest.mark.parametrize("hand", ["branch deleted", "branch renamed"])
def test_a_branch_that_is_gone_is_made_again_and_stops_nobody(waiting: Project, hand: str, is_at_work: bool) -> None:
    started = at_work(waiting) if is_at_work else None
    if not started:
        climb_on(waiting)
    lay(hand, waiting)
    assert not started or finished(started).exit_code == 0
    waiting.check("iterate")
    assert values(waiting)[:3] == [1, 11, 12]
    assert waiting.git("rev-parse", "goalseek/demo") == waiting.git("rev-parse", TIP)
    waiting.check("audit")


def test_a_deleted_tip_is_noticed_after_an_iteration_without_a_candidate(waiting: Project) -> None:
    waiting.agent.write_text("true\n")
    assert climb_on(waiting)[-1]["reason"] == "no_change"
    lay("tip deleted", waiting)
    ended = waiting.run("iterate")
    assert ended.exit_code == 5 and "is at nothing" in ended.stderr


def test_a_branch_that_is_checked_out_is_left_alone_and_brought_up_afterwards(waiting: Project) -> None:
    started = at_work(waiting)
    waiting.git("switch", "--quiet", "goalseek/demo")
    users = waiting.users()
    assert finished(started).exit_code == 0
    assert waiting.users() == users
    assert waiting.git("rev-parse", "goalseek/demo") == waiting.git("rev-parse", "main")
    waiting.git("switch", "--quiet", "main")
    waiting.climb()
    assert waiting.git("rev-parse", "goalseek/demo") == waiting.git("rev-parse", TIP)
    waiting.check("audit")


def test_a_candidate_whose_stored_answers_are_gone_is_recorded_as_interrupted(waiting: Project) -> None:
    started = at_work(waiting)
    started.send_signal(signal.SIGTERM)
    started.communicate(timeout=20)
    candidate = waiting.git("rev-parse", "refs/goalseek/demo/flight/1/1")
    lay("git clean", waiting)
    home("go").touch()
    told = [waiting.run("step", "--json").stdout for _ in range(2)]
    assert "READ_CONTEXT" in told[0] and "iteration 1: skipped" in told[1]
    records = waiting.climb()
    assert [record["reason"] for record in records] == ["measured", "interrupted", "better"]
    assert records[1]["commit_hash"] == candidate and records[1]["changed_files"] == ["answer.json"]
    assert waiting.git("rev-parse", f"{records[1]['rollback_commit_hash']}^{{tree}}") == records[0]["tree_hash"]
    assert waiting.git("show", f"{candidate}:answer.json") == '{"score": 11}'
    waiting.check("audit")


def test_what_nothing_held_yet_and_was_pruned_between_two_steps_is_made_again(make_project: Projects) -> None:
    project = made(make_project, AGENT.replace("1%s", "0.%s"), COPY)
    for _ in range(5 + 7):
        project.check("step")
        project.git("gc", "--quiet", "--prune=now")
    record = project.iterations()[-1]
    assert (record["iteration"], record["reason"]) == (1, "worse")
    assert project.git("rev-parse", "goalseek/demo") == record["rollback_commit_hash"]
    assert project.git("show", f"{record['commit_hash']}:answer.json") == '{"score": 0.1}'
    project.check("audit")


@pytest.mark.parametrize("phase", ["LOG of a baseline", "COMMIT", "LOG"])
def test_what_a_prune_removed_that_looked_before_the_refs_moved_comes_back(waiting: Project, phase: str) -> None:
    """The prune is staged: it looks, the phase moves a ref, then it removes what it saw nobody name."""
    home("go").touch()
    if "baseline" not in phase:
        waiting.check("baseline")
    while phase.split()[0] not in waiting.run("step").stdout.partition("next: ")[2]:
        pass
    named = waiting.git("rev-list", "--objects", "--no-object-names", "--all").split()
    records = len(waiting.records())
    waiting.check("step")
    for path in waiting.top.glob(".git/objects/??/*"):
        if path.parent.name + path.name not in named:
            path.unlink()
    assert len(waiting.climb("iterate", "-n", "2")) >= records
    assert waiting.git("gc", "--quiet") == waiting.git("fsck", "--no-dangling") == ""
    waiting.check("audit")


def climb_beside(project: Project, commands: Sequence[str], pause: float, *arguments: str) -> None:
    """Climbs to the end while git does these commands over and over."""
    climb = project.start("iterate", *arguments)
    deadline = time.monotonic() + 300
    while climb.poll() is None and time.monotonic() < deadline:
        for command in commands:
            subprocess.run(["git", *command.split()], cwd=project.top, capture_output=True, timeout=120)
        time.sleep(pause)
    said = climb.communicate(timeout=120)
    assert climb.returncode == 0, said


@pytest.mark.parametrize("command, pause", [("gc --quiet --prune=now", 0.1), ("prune --expire=now", 0.0)])
def test_a_climb_goes_on_beside_a_git_that_prunes_all_the_time(waiting: Project, command: str, pause: float) -> None:
    home("go").touch()
    climb_beside(waiting, [command], pause, "-n", "12")
    assert [record["iteration"] for record in waiting.climb()] == list(range(14))
    waiting.git("gc", "--quiet")
    waiting.check("audit")


def test_four_at_once_go_on_beside_housekeeping_that_prunes_all_the_time(tmp_path: Path) -> None:
    project = many(tmp_path / "repository", 8)
    housekeeping = ("gc --quiet --prune=now", "repack -a -d -q", "reflog expire --expire=now --all")
    climb_beside(project, housekeeping, 0.0, "--forever", *AT_ONCE)
    assert_sound_at_end(project, 8)
    assert "interrupted" not in [record["reason"] for record in project.iterations()]


def test_content_that_cannot_be_had_again_is_an_interrupted_iteration(waiting: Project) -> None:
    home("go").touch()
    for _ in range(5 + 3):
        waiting.check("step")
    shutil.rmtree(waiting.top / ".git/goalseek/demo/recent")
    waiting.git("gc", "--quiet", "--prune=now")
    shutil.rmtree(waiting.run_folder(1) / "snapshot")
    assert waiting.climb()[-1]["why"] == "git does not have the content of answer.json any more: somebody pruned it"
    assert waiting.climb()[-1]["outcome"] == "kept"
    waiting.check("audit")


def test_an_object_that_is_gone_for_good_is_named(waiting: Project) -> None:
    record = climb_on(waiting)[-1]
    blob = waiting.git("rev-parse", f"{record['commit_hash']}:answer.json")
    place = waiting.top / ".git" / "objects" / blob[:2] / blob[2:]
    content = place.read_bytes()
    place.unlink()
    shutil.rmtree(waiting.top / ".git/goalseek/demo/recent")
    shutil.rmtree(waiting.trees())
    ended = waiting.run("iterate")
    assert ended.exit_code == 3 and blob in ended.stderr and "pruned" in ended.stderr
    place.write_bytes(content)
    assert waiting.climb()[-1]["outcome"] == "kept"
    waiting.check("audit")


def test_a_lock_that_somebody_holds_for_a_moment_is_waited_for(waiting: Project) -> None:
    started = at_work(waiting)
    lock = waiting.top / ".git" / f"{LEDGER}.lock"
    lock.touch()
    home("go").touch()
    time.sleep(0.3)
    lock.unlink()
    assert finished(started).exit_code == 0


def test_from_another_worktree_the_climb_goes_on(waiting: Project) -> None:
    climb_on(waiting)
    top = waiting.top.parent / "worktree"
    waiting.git("worktree", "add", "--quiet", "-b", "elsewhere", str(top))
    there = Project(top, top)
    assert [record["iteration"] for record in there.climb()] == [0, 1, 2]
    there.check("audit")
    assert [record["iteration"] for record in waiting.climb()] == [0, 1, 2, 3]
    waiting.check("audit")


def test_of_two_refs_the_one_that_somebody_moved_meanwhile_is_named(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.set_moves(answer(2), answer(3))
    climbed = goalseek.iterate(goalseek.load(project.manifest), iterations=1)
    assert [record.outcome for record in climbed] == ["baseline", "kept"]
    head = project.git("rev-parse", "HEAD")
    move = partial(project.git, "update-ref", "refs/heads/goalseek/demo", head)
    before_refs_move(monkeypatch, move)
    project.set_moves(answer(2), answer(1.5))
    with pytest.raises(GoalseekError, match="somebody moved refs/heads/goalseek/demo"):
        list(goalseek.iterate(goalseek.load(project.manifest), iterations=1))
