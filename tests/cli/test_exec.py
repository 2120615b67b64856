"""``goalseek exec``: a command exactly where the agent or the verifier runs, without a trace."""

import os
from pathlib import Path

import pytest
from project import Ended, Project, Projects, answer
from shown import Shown, read_soon
from skips import levels


@pytest.fixture
def climbed(played: Projects) -> Project:
    """A project with a kept and a reverted candidate, then one that had no commit."""
    return played(answer(2), answer(1.5), {"files": {"other.txt": "mine\n"}}, more=(answer(3),))


def shell(project: Project, script: str, *options: str) -> Ended:
    """Runs a shell script by ``exec``, which must work."""
    ended = project.run("exec", *options, "--", "sh", "-c", script)
    assert ended.exit_code == 0, ended.stderr
    return ended


@pytest.mark.elsewhere
def test_each_has_its_own_place(climbed: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = shell(climbed, "pwd -P; ls -A; git log --format=%s; cat answer.json", "--as", "agent").stdout
    workspace = climbed.trees() / "workspace"
    assert seen.startswith(f"{workspace}\n.git\nanswer.json\nother.txt\n") and "move 1" in seen
    assert seen.endswith(answer(2)), "the incumbent's"
    place = shell(climbed, "pwd -P").stdout.strip()
    assert Path(place).is_relative_to(climbed.trees() / "bench")
    assert shell(climbed, "ls -A hidden").stdout.split() == ["judge.sh"]
    judged = 'cat answer.json; sh hidden/judge.sh && cat "$GOALSEEK_RUN_DIR/metrics.json"'
    assert shell(climbed, judged, "--as", "verify").stdout == answer(2) * 2
    monkeypatch.setenv("SECRET_TOKEN", "mine")
    agents, verifiers = shell(climbed, "env", "--as", "agent").stdout, shell(climbed, "env").stdout
    assert f"GOALSEEK_PROJECT_ROOT={workspace}\n" in agents
    assert "GOALSEEK_RUN_DIR=" not in agents
    for name in ("GOALSEEK_RUN_DIR=", "GOALSEEK_SEED=", "GOALSEEK_ITERATION=4\n", "PYTHONDONTWRITEBYTECODE=1\n"):
        assert name in verifiers
    assert "GOALSEEK_SLOT=0\n" in verifiers and "GOALSEEK_SLOT" not in agents
    assert "SECRET_TOKEN" not in agents + verifiers and "GIT_CONFIG_GLOBAL" not in agents + verifiers
    own = tmp_path / "own-shell"
    own.write_text("#!/bin/sh\necho own shell in $(pwd -P)\n")
    own.chmod(0o755)
    monkeypatch.setenv("SHELL", str(own))
    assert climbed.run("exec", "--as", "agent").stdout == f"own shell in {workspace}\n", "without a command"


@pytest.mark.slow
def test_at_names_another_iterations_tree(climbed: Project) -> None:
    for who, hidden in (("agent", ""), ("verify", "there\n")):
        for which, expected in (("0", answer(1)), ("1", answer(2)), ("2", answer(1.5)), ("best", answer(2))):
            looks = "cat answer.json; if test -e hidden; then echo there; fi"
            assert shell(climbed, looks, "--as", who, "--at", which).stdout == expected + hidden


def test_what_is_not_there_is_told_and_a_commands_words_and_exit_code_are_its_own(climbed: Project) -> None:
    for which in ("3", "4", "99", "first"):
        assert which in climbed.fail(2, "exec", "--at", which, "--", "true")
    assert "no-such-program" in climbed.fail(2, "exec", "--", "no-such-program")
    ended = climbed.run("exec", "--", "printf", "%s|", "--as", "agent", "--json", "-q", "--")
    assert ended.stdout == "--as|agent|--json|-q|--|"
    for who, code in (("verify", 0), ("verify", 125), ("agent", 7)):
        assert climbed.run("exec", "--as", who, "--", "sh", "-c", f"exit {code}").exit_code == code


@pytest.mark.elsewhere
@pytest.mark.parametrize("mode", levels("none", "landlock"))
def test_control_c_is_for_the_program_that_has_the_terminal(climbed: Project, mode: str) -> None:
    climbed.set_manifest({"sandbox": {"mode": mode}})
    asks = "trap 'echo heard' INT; echo ready; read line; echo got $line; exit 3"
    with Shown(climbed.folder, "exec", "--", "bash", "-c", asks) as shown:
        shown.until(lambda text: "ready" in text)
        shown.type("\x03")
        shown.until(lambda text: "heard" in text)
        shown.type("more\n")
        rows = shown.until_end()
    assert (rows[-1], shown.child.returncode) == ("got more", 3)
    assert climbed.run("exec", "--", "sh", "-c", "kill -9 $$").exit_code == 128 + 9


@pytest.mark.slow
def test_what_it_changes_is_undone(climbed: Project) -> None:
    before, refs, records = climbed.users(), climbed.git("for-each-ref"), climbed.records()
    listing = "find . -path ./.git -prune -o -print | sort; cat answer.json"
    spoil = "echo 99 > answer.json; echo new > new.txt; rm other.txt; mkdir -p deep/er; ln -s / deep/er/root"
    for options in ("", "--at 0", "--as agent", "--as agent --at 0"):
        untouched = shell(climbed, listing, *options.split()).stdout
        shell(climbed, spoil, *options.split())
        assert shell(climbed, listing, *options.split()).stdout == untouched
        assert (climbed.users(), climbed.git("for-each-ref"), climbed.records()) == (before, refs, records)
    record = climbed.climb("iterate")[-1]
    assert (record["outcome"], record["metric"]["value"], record["changed_files"]) == ("kept", 3, ["answer.json"])


@pytest.mark.elsewhere
def test_a_poisoned_git_folder_and_a_cut_short_command_are_undone(climbed: Project, tmp_path: Path) -> None:
    shell(climbed, f"git config core.fsmonitor 'touch {tmp_path}/planted'; rm .git/index", "--as", "agent")
    assert shell(climbed, "git config core.fsmonitor || true; git status --porcelain", "--as", "agent").stdout == ""
    assert not (tmp_path / "planted").exists()
    started = climbed.start("exec", "--as", "agent", "--", "sh", "-c", "echo bad > answer.json; echo $$; exec sleep 60")
    assert started.stdout is not None
    child = int(read_soon(started.stdout.fileno()))
    started.kill()
    os.kill(child, 9)
    started.communicate(timeout=120)
    assert shell(climbed, "cat answer.json", "--as", "agent").stdout == answer(2)


@pytest.mark.slow
def test_the_verifiers_place_has_what_setup_gives_and_the_outputs_before_it_and_keeps_nothing(project: Project) -> None:
    train = "test ! -e kept/mine && mkdir -p kept && cp answer.json out.json"
    project.write({"hidden/judge.sh": 'grep -q built build/app && cp out.json "$GOALSEEK_RUN_DIR/metrics.json"\n'})
    project.set_manifest(
        {
            "setup": {"run": "mkdir -p build && echo built > build/app", "gives": ["build"]},
            "verify": [
                {"name": "train", "run": train, "sees": "candidate", "outputs": ["out.json"], "keep": ["kept/**"]},
                {"name": "judge", "run": "sh hidden/judge.sh", "sees": "both"},
            ],
        }
    )
    project.commit()
    project.set_moves(answer(2), answer(3))
    project.climb()
    judged = 'sh hidden/judge.sh && cat "$GOALSEEK_RUN_DIR/metrics.json"'
    there = shell(project, judged)
    assert there.stdout == answer(2)
    (view,) = there.stderr.splitlines()
    assert view.startswith("goalseek: the view of judge, the last of 2 verify commands: sees both; run folder /")
    older = shell(project, "cat build/app; ls out.json || true", "--at", "0")
    assert older.stdout == "built\n"
    assert "these outputs of that measurement were not kept: out.json; see log.keep_outputs" in older.stderr
    shell(project, "touch kept/mine; echo bad > build/app; echo '{\"score\": 99}' > out.json")
    assert shell(project, judged).stdout == answer(2)
    assert project.climb()[-1]["metric"]["value"] == 3
