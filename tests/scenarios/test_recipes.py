"""The guide's recipes for a climb that nobody watches, run as printed: ssh, systemd, cron; and that all are tried."""

from __future__ import annotations

import configparser
import contextlib
import os
import pty
import re
import shlex
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from pages import GUIDE
from project import Project, answer, home, living, until
from recipes import WAITING, block, hold, install, let_go, line, lines, pages, path_with_it, put_on_path, typed
from shown import Shown

AGENT = 'echo "called $GOALSEEK_ITERATION" >> "$HOME/journal"; printf \'{"score": %s}\' $((GOALSEEK_ITERATION + 1)) > answer.json'


@pytest.fixture
def repo(isolated: Path) -> Project:
    """The repository of the recipes, ``~/repo``; four iterations are its limit."""
    install()
    project = Project.make(isolated / "repo", manifest={"limits": {"iterations": 4}})
    project.write({"hidden/judge.sh": WAITING})
    project.set_moves(*(answer(score) for score in (2, 3, 4, 5, 6)))
    project.commit()
    return project


def numbers(project: Project) -> list[int]:
    return [record["iteration"] for record in project.iterations()]


def test_every_recipe_is_tried() -> None:
    tried = "".join(path.read_text() for path in Path(__file__).parent.glob("test_re*.py"))
    assert len(pages()) == 12
    assert [title for title in pages() if f'"{title}"' not in tried] == []


def test_the_list_of_recipes_names_each_of_them() -> None:
    listed = re.findall(r"^\| `(recipe-\w+)` \|", (GUIDE / "recipes.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(path.stem for path in GUIDE.glob("recipe-*.md"))


@pytest.mark.slow
def test_cron_one_iteration_a_tick_and_silence(repo: Project) -> None:
    """In cron's own environment; what it would mail is what a tick prints."""
    schedule, command = re.fullmatch(r"((?:\S+ ){4}\S+) (.+)\n", block("cron", "cron")).groups()  # type: ignore[union-attr]
    assert schedule == "*/5 * * * *" and "%" not in command, "a percent sign ends a line of cron's"
    crons = ["env", "-i", f"HOME={home()}", "PATH=/usr/bin:/bin", "SHELL=/bin/sh", "LOGNAME=user", "/bin/sh", "-c"]

    def tick() -> subprocess.Popen[str]:
        out = subprocess.PIPE
        return subprocess.Popen([*crons, command], cwd=home(), stdout=out, stderr=subprocess.STDOUT, text=True)

    hold(0)
    first = tick()
    until(home("waiting").exists)
    log = home("goalseek.log").read_text()
    second = tick()
    assert second.communicate(timeout=30)[0] == "" and second.returncode == 0
    assert home("goalseek.log").read_text() == log and first.poll() is None
    let_go()
    for expected in ([0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]):
        assert first.communicate(timeout=30)[0] == "" and first.returncode == 0
        assert numbers(repo) == expected
        first = tick()
    first.communicate(timeout=30)
    assert home("goalseek.log").read_text().count(" kept ") >= 4


@pytest.mark.slow
def test_by_ssh_it_outlives_the_connection_and_is_watched_and_stopped_from_another(repo: Project) -> None:
    start, watch, stop = lines("Overnight, by ssh")
    hold(0)
    ours, its = pty.openpty()
    login = ["setsid", "--ctty", "--wait", "bash", "-c", f"{start} && sleep 60 & touch $HOME/there; wait"]
    session = subprocess.Popen(login, cwd=repo.folder, env=path_with_it(), stdin=its, stdout=its, stderr=its)
    os.close(its)
    until(home("waiting").exists)
    until(lambda: any("sleep 60" in words for words in living(home()).values()))
    os.close(ours)  # the connection breaks, and its programs are told so
    until(lambda: session.poll() is not None and not any("sleep 60" in words for words in living(home()).values()))
    assert any("iterate --forever" in words for words in living(home()).values())
    with Shown(repo.folder, *watch.split()[1:]) as shown:
        shown.until(lambda text: "measuring" in text and "iteration 0" in text)
        shown.type("q")
        shown.until_end()
    assert "asked process" in typed(stop, repo.folder).stdout
    let_go()
    until(lambda: not living(home()))
    assert "goalseek stop asked for it" in (repo.logs / "detached.log").read_text()


# What systemd does with a unit, as far as a unit of goalseek says something: systemd.service(5), in a few lines.
USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CLEAN_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)
KNOWN = """WorkingDirectory Environment EnvironmentFile ExecStart Restart RestartSec RestartPreventExitStatus
    SuccessExitStatus KillMode OOMPolicy""".split()
STARTS_MOST, STARTS_SECONDS = 5, 10  # more often than that, and systemd gives a unit up


@dataclass(frozen=True)
class Unit:
    """A service of a user whose home is ``home``. A key that is not obeyed here is refused."""

    service: dict[str, str]
    home: Path

    @classmethod
    def read(cls, text: str, home: Path) -> Unit:
        """A unit file's ``[Service]``, with systemd's defaults."""
        parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#", ";"))
        parser.optionxform = str  # type: ignore[assignment, method-assign]
        parser.read_string(text)
        found = {key: value.replace("%h", str(home)) for key, value in parser["Service"].items()}
        assert found.keys() <= {*KNOWN}, found
        usual = {"Restart": "no", "RestartSec": "0.1", "KillMode": "control-group", "OOMPolicy": "stop"}
        return cls({**usual, **found}, home)

    def start(self) -> subprocess.Popen[bytes]:
        """Starts it, with no more of an environment than a user's systemd has for it."""
        environment = {"HOME": str(self.home), "PATH": USUAL_PATH}
        environment |= dict(word.split("=", 1) for word in shlex.split(self.service.get("Environment", "")))
        named = self.service.get("EnvironmentFile", "")
        if named and not (named.startswith("-") and not Path(named[1:]).exists()):
            listed = Path(named.removeprefix("-")).read_text().splitlines()
            environment |= dict(row.split("=", 1) for row in listed if row)
        return subprocess.Popen(
            shlex.split(self.service["ExecStart"]),
            cwd=self.service["WorkingDirectory"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )

    def is_clean(self, code: int) -> bool:
        """Whether an end is no failure: an exit code, or a signal as a negative number."""
        return code == 0 or -code in CLEAN_SIGNALS or str(code) in self.service.get("SuccessExitStatus", "").split()

    def is_started_again(self, code: int) -> bool:
        if str(code) in self.service.get("RestartPreventExitStatus", "").split():
            return False
        restart = self.service["Restart"]
        return restart == "always" or (restart == "on-failure" and not self.is_clean(code))

    def is_given_up(self) -> bool:
        """Whether systemd leaves off where it fails time and again at once."""
        return STARTS_MOST * float(self.service["RestartSec"]) < STARTS_SECONDS

    def stop(self, started: subprocess.Popen[bytes]) -> int:
        """``systemctl stop``; gives how the main process ended."""
        if self.service["KillMode"] != "mixed":
            for pid in set(living(self.home)) - {started.pid}:
                _signal(pid, signal.SIGTERM)
            time.sleep(0.3)  # the order is systemd's, and a busy machine makes any pause of it
        _signal(started.pid, signal.SIGTERM)
        code = started.wait(timeout=60)
        self.kill_the_rest()
        return code

    def ran_out_of_memory(self, started: subprocess.Popen[bytes]) -> None:
        """The kernel killed one of its processes."""
        if self.service["OOMPolicy"] != "continue":
            started.kill()

    def kill_the_rest(self) -> None:
        """What is left in the control group when the main process has ended."""
        for pid in living(self.home):
            _signal(pid, signal.SIGKILL)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


@pytest.fixture
def unit(isolated: Path) -> Unit:
    return Unit.read(block("systemd", "ini"), isolated)


@pytest.fixture
def served(repo: Project, isolated: Path) -> Project:
    """An agent and a judge that write down when they are called; a key comes from where the recipe puts it."""
    judge = 'test "$KEY" = secret || exit 9\n' + WAITING + 'if [ -e "$HOME/greedy" ]; then . "$HOME/greedy"; fi\n'
    repo.write({"hidden/judge.sh": judge})
    put_on_path("my-agent", AGENT)
    provider = {"name": "command", "command": ["my-agent"]}
    tables = {"env": {"verify": {"pass": ["KEY"]}}, "provider": provider, "limits": {"iterations": 4}}
    repo.set_manifest(tables)
    repo.commit("systemd")
    (isolated / ".config").mkdir()
    (isolated / ".config" / "goalseek.env").write_text("KEY=secret\n")
    return repo


@pytest.mark.slow
def test_systemd_starts_it_again_after_kills_but_not_after_a_stop_nor_at_its_limit(served: Project, unit: Unit) -> None:
    for iteration in (1, 2, 3):
        hold(iteration)
        started = unit.start()
        until(home("waiting").exists)
        if iteration == 2:
            code = unit.stop(started)
            assert code == 143 and unit.is_clean(code) and not unit.is_started_again(code)
            continue
        started.kill()
        assert unit.is_started_again(started.wait(timeout=60))
        unit.kill_the_rest()
    let_go()
    code = unit.start().wait(timeout=60)
    assert code == 0 and not unit.is_started_again(code) and not unit.is_given_up()
    assert [(record["iteration"], record["reason"]) for record in served.iterations()] == [
        (0, "measured"),
        *((number, "better") for number in (1, 2, 3, 4)),
    ]
    calls = [words for words in home("journal").read_text().splitlines() if words.startswith("called")]
    assert len(calls) == len(set(calls)), "the agent was called once for each iteration"


@pytest.mark.slow
def test_systemd_has_a_candidate_that_takes_all_the_memory_lose_alone(served: Project, unit: Unit) -> None:
    home("greedy").write_text('if [ "$GOALSEEK_ITERATION" = 2 ]; then touch "$HOME/out-of-memory"; kill -9 $$; fi\n')
    started, starts = unit.start(), 1
    deadline = time.monotonic() + 120
    while (code := started.poll()) is None or unit.is_started_again(code):
        assert time.monotonic() < deadline
        if code is not None:
            started, starts = unit.start(), starts + 1
            assert starts < 4, "it is started again for ever"
        if home("out-of-memory").exists():
            home("out-of-memory").unlink()
            unit.ran_out_of_memory(started)
    assert (code, starts) == (0, 1)
    told = [(record["iteration"], record["reason"]) for record in served.iterations()]
    assert told[2] == (2, "verify_failed") and told[-1] == (4, "better")


def test_systemd_tries_again_what_needs_no_person_and_its_other_lines_name_that_unit(unit: Unit) -> None:
    codes = (0, 1, 2, 3, 4, 5, 70, 143, -9)
    assert [code for code in codes if unit.is_started_again(code)] == [4, -9]
    text = block("systemd", "ini")
    assert text.startswith("# ~/.config/systemd/user/goalseek.service\n") and "WantedBy=default.target\n" in text
    for words in ("daemon-reload", "enable --now goalseek", "stop goalseek"):
        assert line("systemd", words) == f"systemctl --user {words}"
