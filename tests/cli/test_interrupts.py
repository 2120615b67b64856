"""Signals that end the tool: once, whatever follows in the next seconds, and not where they are switched off."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from killing import start
from many import AT_ONCE, Calls, assert_sound_at_end, candidates_in_flight, go_on, many
from project import Project, answer, home, living, until
from shown import Shown

pytestmark = pytest.mark.elsewhere

HEAD = """\
import os, signal, sys, time
from goalseek import process
from goalseek.errors import Interrupted
def send(*names):
    for name in names:
        os.kill(os.getpid(), getattr(signal, name))
"""


SAID = {
    "what follows the first does not end the cleaning up": (
        """
for first in ("SIGINT", "SIGTERM", "SIGHUP"):
    process.install_signal_handlers()
    try:
        try:
            send(first)
        finally:
            send("SIGINT", "SIGHUP", "SIGTERM", "SIGINT")
            print("clean")
    except BaseException as error:
        print(repr(error))
""",
        "clean\nKeyboardInterrupt()\nclean\nInterrupted(15)\nclean\nInterrupted(1)\n",
    ),
    "after some seconds it is another wish": (
        """
process.SAME_SIGNAL_SECONDS = 0.2
process.install_signal_handlers()
for _ in range(2):
    try:
        send("SIGINT")
        print("not heard")
    except KeyboardInterrupt:
        print("heard", process.is_ending())
    time.sleep(0.3)
    print(process.is_ending())
""",
        "heard True\nFalse\n" * 2,
    ),
    "what was switched off stays so": (
        """
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
process.install_signal_handlers()
with process.deferring_signals():
    send("SIGHUP", "SIGINT")
send("SIGHUP", "SIGINT")
print("at work")
try:
    send("SIGTERM")
except Interrupted as error:
    print(error.signal_number)
""",
        "at work\n15\n",
    ),
    "held back they come after the block": (
        """
process.install_signal_handlers()
try:
    with process.deferring_signals():
        send("SIGINT", "SIGINT")
        print("done")
    print("never")
except KeyboardInterrupt:
    print("then")
""",
        "done\nthen\n",
    ),
}


@pytest.mark.parametrize(("code", "printed"), SAID.values(), ids=SAID)
def test_signals(code: str, printed: str) -> None:
    done = subprocess.run([sys.executable, "-c", HEAD + code], capture_output=True, text=True, timeout=30)
    assert (done.stdout + done.stderr, done.returncode) == (printed, 0)


def test_a_question_hears_one_that_does_not_interrupt_its_system_call(tmp_path: Path) -> None:
    code = """
import threading
from goalseek.cli.streams import ask_person
process.install_signal_handlers()
def send_to_this_thread():
    time.sleep(0.5)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
threading.Thread(target=send_to_this_thread).start()
try:
    ask_person("who", "", str)
except KeyboardInterrupt:
    print("heard")
"""
    with Shown(tmp_path, command=(sys.executable, "-c", HEAD + code)) as terminal:
        terminal.hear("heard")
        assert terminal.ended() == 0


@pytest.mark.slow
def test_control_c_again_and_again_leaves_a_sane_terminal(project: Project) -> None:
    project.write({"hidden/judge.sh": "sleep 30\n"})
    project.commit()
    project.set_moves(answer(2))
    with Shown(project.folder, "iterate", "--forever", columns=100) as shown:
        shown.until(lambda text: "measuring" in text)
        deadline = time.monotonic() + 60
        while shown.child.poll() is None:
            assert time.monotonic() < deadline
            shown.type("\x03")
            end = time.monotonic() + 0.03
            while time.monotonic() < end:  # else the next one takes away what the terminal has not read
                shown.read(0.005)
        rows = shown.until_end()
        assert shown.child.returncode == 130, rows
        assert shown.echoes()
        assert not shown.screen.cursor.hidden
    told = shown.raw.decode()
    assert told.count("goalseek: interrupted; nothing is lost") == 1
    assert "Traceback" not in told and "Exception" not in told
    assert not [row for row in rows if row.startswith("── ")]


@pytest.mark.parametrize(
    ("number", "code", "hook"), [(signal.SIGINT, 130, "during-apply"), (signal.SIGTERM, 143, "during-verify")]
)
def test_a_signal_ends_all_programs_of_four_slots(tmp_path: Path, number: signal.Signals, code: int, hook: str) -> None:
    project = many(tmp_path / "repository", 4)
    project.check("baseline")
    home(hook).write_text("sleep 60\n")
    started = start(project, "iterate", "--forever", *AT_ONCE)
    if hook == "during-verify":
        until(lambda: len(candidates_in_flight(project)) == 4)
    until(lambda: sum("sleep 60" in command for command in living(home()).values()) == 4)
    started.send_signal(number)
    stderr = started.communicate(timeout=30)[1]
    assert (started.returncode, stderr.count("nothing is lost")) == (code, 1), stderr
    assert "Traceback" not in stderr
    assert not living(home())
    calls = Calls(project)
    calls.note()
    home(hook).unlink()
    go_on(project)
    calls.refuse()
    assert_sound_at_end(project, 4)
