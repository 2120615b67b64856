"""``goalseek drive``: whoever works in the sandbox tries like anybody else, and finds nothing hidden there."""

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from project import FILES, MANIFEST, Project, answer, end_all, everything_written, home, living, until
from test_try import kill_worker, outcomes

from goalseek.locks import lock_holder

pytestmark = pytest.mark.needs("bwrap")
SCOPE = {"writable": ["answer.json", "notes.txt"], "hidden": ["hidden/**"]}
HIDDEN = "no-agent-sees-this"
TABLES = {**MANIFEST, "scope": SCOPE, "sandbox": {"mode": "bubblewrap"}}
JUDGE = f"""\
grep -q broken notes.txt && echo {HIDDEN} && exit 3
while grep -q wait notes.txt && [ ! -e SIGNS/go ]; do sleep 0.05; done
cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"
"""
KEY = "sk-a-key-that-nobody-may-find"


def tables(signs: Path) -> dict[str, Any]:
    return {**TABLES, "sandbox": {"mode": "bubblewrap", "read": [str(signs)]}}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Its judge tells its secret when it fails, and waits while ``notes.txt`` says so, until ``signs/go`` is there."""
    signs = tmp_path / "signs"
    signs.mkdir()
    files = {**FILES, "notes.txt": "one\n", "hidden/judge.sh": JUDGE.replace("SIGNS", str(signs))}
    made = Project.make(tmp_path / "p", files=files, manifest=tomli_w.dumps(tables(signs)))
    made.check("baseline")
    return made


def drive(project: Project, script: str, *words: str) -> str:
    """What a script prints that is driven; it must end with 0."""
    return project.check("drive", "--", "bash", "-euc", script, *words)


def put(score: float) -> str:
    return f"echo '{answer(score)}' > answer.json\n"


def test_tries_from_inside_land_and_what_is_hidden_is_not_there(project: Project) -> None:
    before = project.users()
    told = drive(
        project,
        f"""
ls hidden 2>&1 && exit 9; git --no-pager log --oneline
{put(2)} goalseek try two --why because
{put(1.5)} goalseek try --exit-code || echo ended with $?
echo broken > notes.txt; goalseek try; goalseek show; goalseek wait --json; goalseek try --restore
cat notes.txt answer.json; goalseek log; goalseek status --json; goalseek brief --json --query metric.name
""",
    )
    assert project.users() == before
    assert outcomes(project) == [
        (0, "baseline", "measured"),
        (1, "kept", "better"),
        (2, "reverted", "worse"),
        (3, "reverted", "verify_failed"),
    ]
    assert "iteration 1 kept: 2 beats 1 by 1" in told and "ended with 1" in told
    assert "iteration 3 reverted: the verifier failed" in told and HIDDEN not in told
    assert f"one\n{answer(2)}" in told.replace("\r", "") and "    1 kept      two: 2 beats 1 by 1\n" in told
    kept = project.iterations()[1]
    assert (kept["provider"], kept["model"], kept["isolation"]["driver"]) == ("driver", "drive-1 bash", "bubblewrap")
    assert not project.git("for-each-ref", "refs/goalseek/demo/try")


def test_edits_outside_the_scope_and_credentials_are_refused_by_name(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.set_manifest({**TABLES, "env": {"agent": {"pass": ["SOME_API_KEY"]}}})
    monkeypatch.setenv("SOME_API_KEY", KEY)
    script = f"""
echo x > other.txt; goalseek try || git checkout -q other.txt; echo $SOME_API_KEY > notes.txt; goalseek try || rm -f notes.txt
echo $SOME_API_KEY > $TMPDIR/kept; goalseek direct "use $SOME_API_KEY"; {put(2)} goalseek try --why "by $SOME_API_KEY"
"""
    told = drive(project, script)
    assert "nothing was measured: other.txt is outside scope.writable" in told
    assert "notes.txt holds a credential: nothing of this try is stored" in told
    assert outcomes(project)[1:] == [(1, "kept", "better")]
    written = {place for place, content in everything_written(project) if KEY.encode() in content}
    assert not written and "(said by whoever drives) use [credential]" in project.check("direct", "--list")


REFUSED = [
    "show 1 --output",
    "exec ls",
    "try -C /",
    "try --mani x",
    "status --watch",
    "try --from=1 -m x",
    "direct -- -C",
]


@pytest.mark.parametrize("words", REFUSED)
def test_a_request_names_no_file_outside(project: Project, words: str) -> None:
    told = drive(project, f"goalseek {words} || echo ended with $?")
    assert ": in a drive there are try, wait, brief" in told and told.endswith("ended with 2\n")


def test_a_request_that_is_none_is_refused_and_the_next_is_answered(project: Project) -> None:
    client = """
import json, os, socket
token = os.environ["GOALSEEK_TOKEN"]
requests = ['[', '{}', '["try", 1]', '["status"]', '["", "status"]', json.dumps([token, "x" * 70000]), '', '[["a"]]']
requests += [json.dumps([token, *words]) for words in (["try", "\\ud800"], ["show", "\\0"], [])]
for request in requests:
    folder, name = os.path.split(os.environ["GOALSEEK_SOCKET"])
    with socket.socket(socket.AF_UNIX) as channel:
        channel.connect(f"{folder}/{name}")
        channel.sendall(request.encode())
        channel.shutdown(socket.SHUT_WR)
        print(json.loads(channel.makefile().read())[0])
"""
    told = drive(project, f'{sys.executable} -c "$1"; goalseek status', "bash", client)
    assert told == "2\n" * 11 + "score 1.0 is to beat; 1.0 at the baseline; left of the budget: all\n"


def test_what_was_not_tried_goes_on_in_the_next_drive_and_a_kept_try_begins_at_the_tip(project: Project) -> None:
    ended = project.run("drive", "--", "bash", "-c", f"{put(2)} goalseek try\n{put(3)}")
    assert "left in the workspace, not kept by a try: answer.json; goalseek drive goes on with that" in ended.stderr
    told = drive(project, "cat answer.json; goalseek try --from 1 || goalseek try three")
    assert told.startswith(answer(3)) and "has what is in answer.json: nothing is written" in told
    assert outcomes(project)[-1] == (2, "kept", "better")
    assert (
        drive(project, "git --no-pager log --format=%s; git status --short")
        == "three\nedits of answer.json\nBaseline of demo\n"
    )


def test_the_goalseek_outside_imports_nothing_of_the_checkout(project: Project) -> None:
    project.write({"msgspec.py": "raise SystemExit('mine')\n", "goalseek/__init__.py": "raise SystemExit('mine')\n"})
    assert drive(project, "goalseek status").startswith("score 1.0 is to beat")


def test_a_file_that_is_hidden_now_is_gone_from_a_tree_whose_edits_go_on(project: Project, tmp_path: Path) -> None:
    drive(project, put(2))
    hidden = {**SCOPE, "hidden": ["hidden/**", "other.txt"]}
    project.set_manifest({**tables(tmp_path / "signs"), "scope": hidden})
    project.commit("one more is hidden")
    project.check("baseline")
    told = drive(
        project, "ls; git show HEAD:other.txt 2>&1 || true; goalseek try; goalseek try --restore; goalseek try || true"
    )
    assert "\nother.txt\n" not in told and "other" not in told.split("iteration ")[1]
    assert "path 'other.txt' does not exist" in told and outcomes(project)[-1] == (2, "kept", "better")


def test_a_login_in_edits_that_go_on_is_known_to_the_next_drive(project: Project) -> None:
    login = home() / ".claude" / ".credentials.json"
    login.parent.mkdir()
    login.write_text(json.dumps({"claudeAiOauth": {"refreshToken": "a-token-that-nobody-may-find"}}))
    program = home("claude")
    program.write_text("#!/bin/sh\ncat ~/.claude/.credentials.json > notes.txt\n")
    program.chmod(0o755)
    project.check("drive", "--", str(program))
    assert "notes.txt holds a credential" in drive(project, "goalseek try || true") and len(outcomes(project)) == 1


def test_prune_leaves_the_edits_of_a_drive(project: Project) -> None:
    drive(project, put(3))
    assert "drive-1: a drive is at work there, or left edits\n" in project.run("prune").stderr
    assert drive(project, "cat answer.json; goalseek try").startswith(answer(3))
    project.check("prune")
    assert not list(home("cache", "goalseek").glob("*/drive-1/workspace"))


def test_the_text_of_the_manifest_is_told_to_nobody_inside(project: Project) -> None:
    wrong = project.manifest.read_text() + f'\n[search]\nrotate = "{HIDDEN}"\n'
    script = "goalseek status; touch begun; while [ ! -e over ]; do sleep 0.05; done; goalseek brief; goalseek try"
    driven = project.start("drive", "--", "bash", "-c", script)
    (workspace,) = until(lambda: [*home("cache", "goalseek").glob("*/drive-1/workspace/begun")])
    project.set_manifest(wrong)
    workspace.with_name("over").touch()
    told, _ = driven.communicate(timeout=60)
    assert told.count("the manifest is invalid now") == 2 and HIDDEN not in told


def test_a_killed_drive_keeps_its_edits_and_its_try_is_measured_by_the_next(project: Project, tmp_path: Path) -> None:
    script = f"{put(2)} echo wait > notes.txt; goalseek try --wait 0 || echo ended with $?; sleep 60"
    words = [sys.executable, "-m", "goalseek", "drive", "--", "bash", "-c", script]
    with subprocess.Popen(words, cwd=project.top, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        until(lambda: (project.run_folder(1) / "candidate.json").exists())
        kill_worker(project)
        process.kill()
    until(lambda: not [words for words in living(home()).values() if "sleep 60" in words])
    (tmp_path / "signs" / "go").touch()
    assert "iteration 1 kept: 2 beats 1" in drive(project, "cat notes.txt; goalseek wait")
    assert outcomes(project) == [(0, "baseline", "measured"), (1, "kept", "better")]
    end_all(home(), 10)


def test_two_drives_and_a_climb_stand_in_one_queue(project: Project, tmp_path: Path) -> None:
    script = "while [ ! -e SIGNS/go ]; do sleep 0.05; done"
    project.set_agent(script.replace("SIGNS", str(tmp_path / "signs")), tables(tmp_path / "signs"))
    climb = project.start("iterate", "-n", "1", "--jobs", "3")
    until(lambda: lock_holder(project.top / ".git" / "goalseek" / "demo"))
    drives = [
        project.start("drive", "--", "bash", "-c", f"{put(2)} goalseek try first; sleep 2"),
        project.start("drive", "--", "bash", "-c", "echo better > notes.txt; goalseek try second; sleep 2"),
    ]
    told = "".join(one.communicate(timeout=60)[0] for one in drives)
    assert "first" not in told and told.count("iteration ") == 2
    (tmp_path / "signs" / "go").touch()
    climb.communicate(timeout=60)
    assert sorted(one["provider"] for one in project.iterations()) == ["", "command", "driver", "driver"]
    assert len(list(home("cache", "goalseek").glob("*/drive-*"))) == 2


@pytest.mark.parametrize("given", ["line\n" * 2000, ""])
def test_what_is_piped_in_is_read_to_its_end(project: Project, given: str) -> None:
    words = [sys.executable, "-m", "goalseek", "drive", "--", "sh", "-c", "stty -echo; wc -c; sleep 1"]
    done = subprocess.run(words, cwd=project.top, input=given.encode(), capture_output=True, timeout=120, check=True)
    assert int(done.stdout.split()[-1]) == len(given)


class Terminal:
    """A person's terminal, of 80 columns and 24 lines, with a drive in it."""

    def __init__(self, project: Project, *words: str) -> None:
        self.master, slave = pty.openpty()
        self.resize(24, 80)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        command = [sys.executable, "-m", "goalseek", "drive", "--", *words]
        self.process = subprocess.Popen(
            command, cwd=project.top, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        self.seen = ""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def sees(self, text: str) -> bool:
        deadline = time.monotonic() + 60
        while text not in self.seen and time.monotonic() < deadline:
            if select.select([self.master], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):
                    self.seen += os.read(self.master, 65536).decode("utf-8", "replace")
        return text in self.seen

    def close(self) -> None:
        self.process.kill()
        self.process.wait(60)
        os.close(self.master)
        os.close(self.slave)


def state_of(words: str) -> str:
    """That of the process with this command line, S while it sleeps and T while it is stopped; "" for none."""
    numbers = [number for number, command in living(home()).items() if command.strip() == words]
    stats = [Path("/proc", str(number), "stat").read_text().rpartition(")")[2].split()[0] for number in numbers]
    return stats[0] if stats else ""


@pytest.fixture
def terminal(project: Project) -> Iterator[Terminal]:
    made = Terminal(project, "bash", "--norc")
    yield made
    made.close()


def test_the_terminal_is_the_programs_own_and_is_given_back_as_it_was(terminal: Terminal) -> None:
    terminal.type("PS1='inner> '; stty size; tput setaf 1\n")
    assert terminal.sees("24 80\r\n") and terminal.sees("\x1b[31m")
    terminal.resize(30, 100)
    terminal.process.send_signal(signal.SIGWINCH)
    terminal.type("sleep 0.2; stty size\n")
    assert terminal.sees("30 100\r\n")
    terminal.type("sleep 100\n")
    until(lambda: state_of("sleep 100") == "S")
    terminal.type("\x1a")
    assert terminal.sees("Stopped")
    terminal.type("fg\n")
    until(lambda: state_of("sleep 100") == "S")
    terminal.type("\x03")
    terminal.type("echo ended with $?\n")
    assert terminal.sees("ended with 130")
    terminal.type("exit 7\n")
    assert terminal.process.wait(60) == 7
    assert termios.tcgetattr(terminal.slave) == terminal.before


def test_a_program_cannot_type_into_the_persons_terminal(project: Project, terminal: Terminal) -> None:
    inject = "import fcntl, termios; [fcntl.ioctl(0, termios.TIOCSTI, bytes([one])) for one in b'echo typed\\n']"
    terminal.type(f'{sys.executable} -c "{inject}"; exit 0\n')
    terminal.process.wait(60)
    assert not select.select([terminal.slave], [], [], 0.2)[0], "nothing is left to read"


def test_a_terminal_that_closes_ends_what_runs_in_it(project: Project, terminal: Terminal) -> None:
    terminal.type("sleep 100\n")
    until(lambda: state_of("sleep 100") == "S")
    terminal.process.send_signal(signal.SIGHUP)
    assert terminal.process.wait(60) == 128 + signal.SIGHUP
    assert not end_all(home(), 10)


def test_a_login_that_is_renewed_inside_is_the_users_while_it_runs(project: Project) -> None:
    login = home() / ".claude" / ".credentials.json"
    login.parent.mkdir()
    login.write_text(json.dumps({"claudeAiOauth": {"refreshToken": "the-first-refresh-token"}}))
    program = home("bin") / "claude"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\ncd ~/.claude && sed s/first/second/ .credentials.json > new && mv new .credentials.json\n"
        "while [ ! -L .credentials.json ]; do sleep 0.05; done; cat .credentials.json ~/.claude.json\n"
        "ls ~/.claude/skills ~/.agents/skills\n"
    )
    program.chmod(0o755)
    told = project.check("drive", "--", str(program))
    assert "the-second-refresh-token" in told and "the-second-refresh-token" in login.read_text()
    assert '"hasTrustDialogAccepted": true' in told and told.endswith("goalseek\n")
    assert not [place for place, content in everything_written(project) if b"second-refresh-token" in content]


def test_what_cannot_be_driven_is_named(project: Project) -> None:
    assert "goalseek drive claude; a command follows --" in project.fail(2, "drive", "bash")
    assert "there is no program 'claude'" in project.fail(3, "drive", "claude")
    project.set_manifest({**TABLES, "sandbox": {"mode": "none"}})
    assert "needs a sandbox" in project.fail(3, "drive", "--", "bash")
