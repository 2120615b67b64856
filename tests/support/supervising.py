"""What systemd does with a unit, as far as a unit of goalseek says something: systemd.service(5), in a few lines."""

from __future__ import annotations

import configparser
import contextlib
import os
import shlex
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from project import living

USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CLEAN_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)
KNOWN = {
    "WorkingDirectory",
    "Environment",
    "EnvironmentFile",
    "ExecStart",
    "Restart",
    "RestartSec",
    "RestartPreventExitStatus",
    "SuccessExitStatus",
    "KillMode",
    "OOMPolicy",
}
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
        assert not set(found) - KNOWN, found
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
        """Whether it is, after that end."""
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
