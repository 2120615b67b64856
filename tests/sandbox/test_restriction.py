"""The reaper restricts what it starts: never half, and what outlives its command gets no word in the measurement."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from project import Project
from rooms import write_program
from skips import levels

from goalseek.sandbox import landlock_exec

EVERYTHING = ["--read", "/", "--write", "/"]
LAYERS_MOST = 16
IN_LAYERS = """
import sys
from pathlib import Path
from goalseek.sandbox.landlock_exec import restrict
from goalseek.sandbox.supervisor import Supervisor as Programs
from goalseek.sandbox.view import Launch
everything, layers, mark = sys.argv[3:], int(sys.argv[1]), sys.argv[2]
for _ in range(layers):
    restrict(everything)
with Programs("layers") as programs:
    for restriction in (everything, ["--read", "/usr", "--no-such-word"]):
        try:
            touch = Launch(("/usr/bin/touch", mark), {}, Path("/"), restriction=tuple(restriction))
            done = programs.run(touch, timeout=20.0)
            print(done.exit_code)
        except OSError as error:
            print(error)
"""


def in_layers(count: int, mark: Path) -> list[str]:
    """What comes of two restricted starts in a process that is restricted so many times itself."""
    words = [sys.executable, "-c", IN_LAYERS, str(count), str(mark), *EVERYTHING]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=120).stdout.splitlines()


def test_what_cannot_be_restricted_is_not_started(tmp_path: Path) -> None:
    """The kernel takes sixteen layers and no more."""
    said = in_layers(LAYERS_MOST, tmp_path / "mark")
    assert "Argument list too long" in said[0] and "Landlock" in said[0]
    assert said[1] == "127" and not (tmp_path / "mark").exists()
    assert in_layers(LAYERS_MOST - 1, tmp_path / "mark") == ["0", "127"]
    assert (tmp_path / "mark").exists(), "the control: with one layer less it starts"


REFUSED = """
import sys
from goalseek.sandbox import landlock_exec
assert landlock_exec.can_refuse_sharing()
if "refused" in sys.argv:
    landlock_exec.prctl(landlock_exec.NO_NEW_PRIVILEGES, 1)
    landlock_exec.refuse_sharing()
for number in map(int, sys.argv[2:]):
    try:
        landlock_exec.system_call(number, 0x7FFFFFF1, 0, 0, 0, 0)  # nothing has that number, or is there
    except OSError as error:
        print(number, error.errno == 1)
"""


@pytest.mark.parametrize("is_refused", [False, True])
def test_what_programs_share_without_a_file_is_refused_and_nothing_else(is_refused: bool) -> None:
    calls, *_ = landlock_exec.SHARING_CALLS[os.uname().machine][1].values()
    words = [sys.executable, "-c", REFUSED, "refused" if is_refused else "free", *map(str, calls)]
    told = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120).stdout.splitlines()
    assert told == [f"{number} {is_refused}" for number in calls]


WAITS_FOR_A_SIGNAL = """\
(setsid sh -c 'trap "" HUP; trap "sleep 0.3; cp forged.json $GOALSEEK_RUN_DIR/metrics.json; exit" TERM
    touch ready; while :; do sleep 0.02; done' >/dev/null 2>&1 &)
while [ ! -e ready ]; do sleep 0.01; done
cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"
"""


@pytest.mark.parametrize("mode", levels("none", "landlock", "bubblewrap"))
@pytest.mark.slow
def test_what_outlives_its_command_cannot_write_the_number(project: Project, mode: str) -> None:
    """It would use the time that it is given to end in."""
    project.write({"forged.json": '{"score": 1000}\n'})
    verify = {"name": "judge", "run": WAITS_FOR_A_SIGNAL, "sees": "both"}
    scope = {"writable": ["answer.json"], "hidden": ["hidden/**"], "generated": ["ready"]}
    project.set_manifest({"scope": scope, "verify": [verify], "sandbox": {"mode": mode}})
    project.commit("a survivor")
    project.set_moves('{"score": 2}\n')
    records = project.climb()
    assert [record["metric"]["value"] for record in records] == [1, 2]
    kept = project.run_folder(1) / "measurements" / "1" / "metrics.json"
    assert json.loads(kept.read_text()) == {"score": 2}
    if mode != "bubblewrap":  # there its end is in the cage's
        assert all(run["killed"] >= 1 for record in records for run in record["verify"])


def test_an_agent_that_turns_out_not_to_start_is_a_provider_that_failed(project: Project, tmp_path: Path) -> None:
    interpreter = tmp_path / "interpreter"
    interpreter.touch()  # it is there, and no program
    agent = write_program(tmp_path / "agent", f"#!{interpreter}\n")
    for mode in ("none", "landlock"):
        project.set_manifest({"provider": {"name": "command", "command": [str(agent)]}, "sandbox": {"mode": mode}})
        project.commit(mode)
        record = project.climb()[-1]
        assert (record["outcome"], record["reason"]) == ("skipped", "provider_failed")
        assert os.strerror(errno.EACCES) in record["why"]
