"""``goalseek try`` and ``goalseek wait``: edits of a checkout are measured like proposals, and nothing of the user's moves."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import tomli_w
from project import FILES, MANIFEST, Project, answer, end_all, home, until

from goalseek.git.location import locate
from goalseek.git.repository import Repository
from goalseek.locks import lock_holder
from goalseek.project.tries import find_driver

WRITABLE = {"scope": {"writable": ["answer.json", "notes.txt"], "hidden": ["hidden/**"]}}
WAITING = """\
touch "$HOME/measuring"
while grep -q wait notes.txt && [ ! -e "$HOME/go" ]; do sleep 0.05; done
cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"
"""
FIRST = {**FILES, "notes.txt": "one\ntwo\nthree\nfour\nfive\n", "hidden/judge.sh": WAITING}


@pytest.fixture
def checkout(tmp_path: Path) -> Project:
    """A project whose manifest names no provider; its judge waits while ``notes.txt`` says so, until ``go`` is there."""
    return Project.make(tmp_path / "p", files=FIRST, manifest=tomli_w.dumps({**MANIFEST, **WRITABLE}))


def outcomes(project: Project) -> list[tuple[int, str, str]]:
    return [(one["iteration"], one["outcome"], one["reason"]) for one in project.iterations()]


def kill_worker(project: Project) -> None:
    holder = lock_holder(project.top / ".git" / "goalseek" / "demo")
    assert holder
    os.kill(holder.pid, signal.SIGKILL)


def test_each_edit_is_measured_and_nothing_of_the_users_moves(
    checkout: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "8a718ed2")
    assert "no writable file has changed" in checkout.fail(1, "try")
    checkout.write({"answer.json": answer(2), "other.txt": "dirty\n"})
    said = checkout.fail(2, "try")
    assert (
        "nothing was measured: uncommitted changes outside scope.writable, perhaps part of the verifier: other.txt"
        in said
    )
    assert "baseline --committed" in said and not checkout.git("for-each-ref", "refs/goalseek/demo/try")
    checkout.git("stash", "push", "--quiet", "other.txt")
    before = checkout.users()
    printed = checkout.check("try", "two", "--why", "because")
    assert printed.splitlines() == [
        "iteration 1 kept: 2 beats 1 by 1",
        "score 2 against 1",
        "its author could read the hidden files: isolation.driver = open",
        "next: edit on, then goalseek try",
    ]
    assert checkout.users() == before
    checkout.write({"answer.json": answer(1.5), "other.txt": "dirty again\n"})
    before = checkout.users()
    assert checkout.run("try", "--exit-code").exit_code == 1
    assert checkout.users() == before
    assert outcomes(checkout) == [(0, "baseline", "measured"), (1, "kept", "better"), (2, "reverted", "worse")]
    _, kept, reverted = checkout.iterations()
    assert (kept["provider"], kept["model"], kept["isolation"]["driver"]) == ("driver", "claude 8a718ed2", "open")
    assert kept["changed_files"] == ["answer.json"] and kept["hypothesis_summary"] == "two"
    assert "because" in (checkout.run_folder(1) / "plan.md").read_text()
    assert (
        reverted["hypothesis_summary"] == "edits of answer.json"
        and "driver" not in checkout.iterations()[0]["isolation"]
    )
    assert checkout.ask("try")["reason"] == "duplicate"
    assert json.loads(checkout.check("--json", "wait", "2"))["seal"] == reverted["seal"]
    assert "5 records, 0 differences" in checkout.check("audit")
    sentence = "1 kept change by an author who could read the hidden files"
    assert sentence in checkout.check("status") and sentence in checkout.check("iterate", "-n", "0")
    checkout.check("report", "-o", "night.md")
    report = (checkout.top / "night.md").read_text()
    assert "3 of the tries came from checkouts or Python functions, whose authors could read the hidden files" in report
    assert "no sandbox" in report, "whose tries they were is no level of the sandbox"


def test_what_was_kept_meanwhile_stays_and_what_conflicts_is_named(checkout: Project, tmp_path: Path) -> None:
    other = Project(tmp_path / "other", tmp_path / "other")
    checkout.git("worktree", "add", "--quiet", "--detach", str(other.top))
    checkout.write({"answer.json": answer(2)})
    checkout.check("try")
    other.write({"notes.txt": "one\ntwo\nthree\nfour\nFIVE\n"})
    assert outcomes(checkout)[-1][0] == 1
    assert json.loads(other.check("--json", "try"))["reason"] == "tie"
    other.write({"answer.json": answer(2, size=3)})
    assert "conflict with yours in answer.json (contents): nothing is measured" in other.fail(1, "try")
    # Where the first is still at work, it takes the try of the other worktree.
    assert max(len(checkout.iterations()), len(other.iterations())) == 3
    other.write({"answer.json": answer(1), "notes.txt": "ONE\ntwo\nthree\nfour\nfive\n"})
    assert json.loads(other.check("--json", "try"))["metric"]["value"] == 2  # with what was kept meanwhile


def test_past_its_wait_a_try_goes_on_and_a_second_one_is_told(checkout: Project) -> None:
    checkout.write({"answer.json": answer(2), "notes.txt": "wait\n"})
    assert "--wait: " in checkout.fail(2, "try", "--wait", "soon")
    ended = checkout.run("try", "--wait", "0.1s")
    assert ended.exit_code == 75 and ended.stdout == "your try waits for its turn: goalseek wait\n"
    assert "is not decided yet" in checkout.fail(4, "try")
    until(lambda: (checkout.run_folder(1) / "candidate.json").exists())
    ended = checkout.run("wait", "1", "--wait", "0.01s")
    assert (
        ended.exit_code == 75
        and ended.stdout.startswith("iteration 1 is being measured")
        and "goalseek wait 1" in ended.stdout
    )
    assert "is not decided yet" in checkout.fail(4, "try", "--restore")
    assert end_all(home())  # the process that measures is killed
    home("go").touch()
    assert checkout.check("wait", "1").startswith("iteration 1 kept: 2 beats 1")
    assert outcomes(checkout) == [(0, "baseline", "measured"), (1, "kept", "better")]
    assert checkout.check("wait") == checkout.check("wait", "1")
    assert "no try in iteration 7 goes on" in checkout.fail(2, "wait", "7")


@pytest.mark.parametrize(("jobs", "wait", "code"), [("1", "0.2s", 75), ("3", "60s", 0)])
def test_a_climb_at_work_takes_the_try_and_does_not_count_it(tmp_path: Path, jobs: str, wait: str, code: int) -> None:
    climb = Project.make(tmp_path / "p", files=FIRST, manifest=WRITABLE)
    climb.set_moves(*({"files": {"answer.json": answer(score), "notes.txt": "wait\n"}} for score in (2, 3)))
    running = climb.start_until(home("measuring"), "iterate", "-n", "2", "--jobs", jobs)
    until(lambda: climb.run_folder(1).is_dir())
    climb.write({"answer.json": answer(1, size=4)})
    assert climb.run("try", "--wait", wait).exit_code == code, "a free bench measures it beside the others"
    home("go").touch()
    assert climb.check("wait").startswith("iteration ")
    running.communicate(timeout=60)
    until(lambda: len(climb.iterations()) == 4)
    records = climb.iterations()
    assert sorted(one["iteration"] for one in records) == [0, 1, 2, 3]
    assert sorted(one["provider"] for one in records) == ["", "driver", "scripted", "scripted"]


def test_the_checkout_gets_files_back_but_only_where_none_is_lost(checkout: Project) -> None:
    checkout.write({"answer.json": answer(2)})
    checkout.check("try")
    checkout.write({"answer.json": answer(1.5)})
    checkout.check("try")
    checkout.write({"answer.json": answer(7), "other.txt": "mine\n"})
    assert "has what is in answer.json: nothing is written" in checkout.fail(1, "try", "--restore")
    checkout.write({"answer.json": answer(1.5)})
    index = checkout.git("ls-files", "--stage")
    assert checkout.check("try", "--restore") == "wrote the files of the incumbent, iteration 1: answer.json\n"
    assert (checkout.top / "answer.json").read_text() == answer(2) and (
        checkout.top / "other.txt"
    ).read_text() == "mine\n"
    assert checkout.git("ls-files", "--stage") == index
    assert "no writable file has changed" in checkout.fail(1, "try")
    checkout.check("try", "--from", "2")
    assert (checkout.top / "answer.json").read_text() == answer(1.5)
    checkout.check("try", "--restore")
    assert (checkout.top / "answer.json").read_text() == answer(2), "what --from wrote is known"
    checkout.write({"answer.json": answer(5)})
    assert checkout.ask("try")["metric"]["value"] == 5
    checkout.git("checkout", "answer.json")
    assert (
        "note: as in HEAD, older than what was kept: answer.json; goalseek try --restore writes that\n"
        in checkout.run("try").stderr
    )


def test_a_folder_in_the_place_of_a_file_is_refused_and_stays(tmp_path: Path) -> None:
    scope = {"scope": {"writable": ["answer.json", "lib/**"], "hidden": ["hidden/**"]}}
    manifest = tomli_w.dumps({**MANIFEST, **scope})
    project = Project.make(tmp_path / "p", files={**FILES, "lib/old": "old\n"}, manifest=manifest)
    project.write({"answer.json": answer(2)})
    project.check("try")
    (project.top / "lib" / "old").unlink()
    project.write({"lib/old/new": "new\n"})
    assert "lib/old is neither a file nor a link" in project.check("try")
    assert "has what is in lib/old: nothing is written" in project.fail(1, "try", "--restore")
    assert (project.top / "lib" / "old" / "new").read_text() == "new\n"


def test_conflicts_and_the_repositories_of_others_are_no_edits(checkout: Project) -> None:
    checkout.write({"answer.json": answer(2)})
    blob = checkout.git("rev-parse", "HEAD:notes.txt")
    stages = "".join(f"100644 {blob} {stage}\tnotes.txt\n" for stage in (1, 2, 3))
    checkout.git("update-index", "--index-info", stdin=f"0 {'0' * 40}\tnotes.txt\n{stages}".encode())
    assert "a merge has left conflicts in notes.txt\n" in checkout.fail(1, "try")
    checkout.git("add", "notes.txt")
    checkout.git("init", "--quiet", "nested")
    assert ".git/info/exclude" in checkout.fail(3, "try")


def test_in_a_subfolder_and_with_a_manifest_that_nobody_committed_a_try_is_the_same(tmp_path: Path) -> None:
    manifest = tomli_w.dumps({**MANIFEST, **WRITABLE})
    project = Project.make(tmp_path / "p", files=FIRST, manifest=manifest, below="sub")
    project.git("rm", "--quiet", "--cached", "sub/goalseek.toml")
    project.git("commit", "--quiet", "--message", "only mine")
    project.write({"answer.json": answer(2), "new/file.txt": "no part of it\n"})
    assert project.check("-C", "hidden", "try").startswith("iteration 1 kept: 2 beats 1 by 1")
    assert project.iterations()[1]["changed_files"] == ["sub/answer.json"]


def test_what_ends_the_climb_ends_the_try_in_words(checkout: Project) -> None:
    with checkout.manifest.open("a") as file:
        file.write("[limits]\niterations = 1\n")
    checkout.write({"answer.json": answer(2)})
    checkout.check("try")
    checkout.write({"answer.json": answer(3)})
    assert "nothing was measured: stopped at limits.iterations" in checkout.fail(1, "try")
    assert len(checkout.iterations()) == 2


def test_who_ends_early_leaves_what_was_begun_to_the_next(checkout: Project) -> None:
    with checkout.manifest.open("a") as file:
        file.write('[approve]\nbefore = "kept"\n')
    checkout.commit("asks")
    checkout.write({"answer.json": answer(2)})
    said = checkout.fail(5, "try")
    assert "iteration 1 is not finished" in said and " approve 1" in said and "goalseek wait 1 goes on" in said
    checkout.check("approve", "1")
    assert checkout.check("wait", "1").startswith("iteration 1 kept")
    checkout.write({"answer.json": answer(3), "notes.txt": "wait\n"})
    waiting = checkout.start_until(checkout.run_folder(2) / "candidate.json", "try")
    kill_worker(checkout)
    _, said = waiting.communicate(timeout=60)
    assert waiting.returncode == 1 and "iteration 2 is not finished: interrupted\n" in said
    home("go").touch()
    checkout.fail(5, "wait", "2")
    checkout.check("decline", "2")
    assert checkout.ask("wait", "2")["reason"] == "declined"
    assert outcomes(checkout) == [(0, "baseline", "measured"), (1, "kept", "better"), (2, "reverted", "declined")]


@pytest.mark.parametrize("reached", ["context", "plan", "candidate"])
def test_of_several_at_once_a_killed_try_is_finished_by_who_waits(tmp_path: Path, reached: str) -> None:
    tables = {**MANIFEST, **WRITABLE, "parallel": {"agents": 2, "benches": 2}}
    project = Project.make(tmp_path / "p", files=FIRST, manifest=tomli_w.dumps(tables))
    project.check("baseline")
    project.write({"answer.json": answer(2), "notes.txt": "wait\n"})
    requested = project.start_until(project.run_folder(1) / f"{reached}.json", "try", "--wait", "30s")
    kill_worker(project)
    _, said = requested.communicate(timeout=60)
    assert requested.returncode == 1 and "goalseek wait" in said
    home("go").touch()
    assert project.check("wait").startswith("iteration 1 kept: 2 beats 1")
    assert not project.git("for-each-ref", "refs/goalseek/demo/try")


def test_a_killed_worker_loses_no_try(checkout: Project) -> None:
    checkout.write({"notes.txt": "wait\n"})
    checkout.commit("the baseline waits")
    checkout.write({"answer.json": answer(2)})
    requested = checkout.start_until(home("measuring"), "try", "--wait", "30s")
    kill_worker(checkout)
    _, said = requested.communicate(timeout=60)
    assert requested.returncode == 1 and "was to measure your try was killed (Killed)\n" in said, said
    home("go").touch()
    assert checkout.check("wait").startswith("iteration 1 kept: 2 beats 1")


def put_a_folder(top: Path) -> None:
    (top / "answer.json").unlink()
    (top / "answer.json").mkdir()
    (top / "answer.json" / "ignored").write_text("mine")


def put_an_ignored_file(top: Path) -> None:
    (top / "lib" / "new.txt").write_text("mine")


def put_a_link(top: Path) -> None:
    (top / "elsewhere").mkdir()
    (top / "lib").symlink_to("elsewhere")


def put_a_silent_edit(top: Path) -> None:
    subprocess.run(["git", "update-index", "--assume-unchanged", "answer.json"], cwd=top, check=True, timeout=120)
    (top / "answer.json").write_text("mine")


@pytest.mark.parametrize("put", [put_a_folder, put_an_ignored_file, put_a_link, put_a_silent_edit])
def test_what_git_does_not_see_is_not_overwritten_either(tmp_path: Path, put: Callable[[Path], None]) -> None:
    scope = {"scope": {"writable": ["answer.json", "lib/**"], "hidden": ["hidden/**"]}}
    files = {**FILES, ".gitignore": "ignored\n", "lib/old.txt": "old\n"}
    project = Project.make(tmp_path / "p", files=files, manifest=tomli_w.dumps({**MANIFEST, **scope}))
    project.write({"answer.json": answer(2), "lib/new.txt": "new\n"})
    project.check("try")
    project.write({"answer.json": answer(1)})
    for name in ("new.txt", "old.txt"):
        (project.top / "lib" / name).unlink()
    if put is put_a_link:
        (project.top / "lib").rmdir()
    (project.top / ".git" / "info" / "exclude").write_text("new.txt\n")
    put(project.top)
    before = project.users()
    assert "nothing is written" in project.fail(1, "try", "--restore")
    assert project.users() == before


def test_a_try_that_a_kill_left_after_its_record_is_ended_by_who_waits(
    checkout: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_THREAD_ID", "one")
    checkout.write({"answer.json": answer(2)})
    checkout.check("try", "--wait", "60s")
    trial, tried = checkout.iterations()[-1]["digests"]["try"], "refs/goalseek/demo/tried"
    session = find_driver(Repository(locate(checkout.top), "demo"), os.environ).session
    for waiting in (("wait",), ("wait", "1")):
        checkout.git("update-ref", f"refs/goalseek/demo/try/{session}", trial)
        assert "is not decided yet" in checkout.fail(4, "try")
        assert checkout.check(*waiting).startswith("iteration 1 kept")
        assert not checkout.git("for-each-ref", "refs/goalseek/demo/try") and trial in checkout.git(
            "for-each-ref", tried
        )
    monkeypatch.setenv("CODEX_THREAD_ID", "two")
    assert "no try of yours goes on" in checkout.fail(2, "wait")
