"""``goalseek completion``: scripts that the shells take, and that complete what the commands really have."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SHELLS = ("bash", "zsh", "fish")
COMMANDS = "iterate step baseline status log show direct promote exec manifest prune completion".split()


def script(shell: str) -> str:
    """The script for a shell."""
    arguments = [sys.executable, "-m", "goalseek", "completion", shell]
    return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout


def completed(folder: Path, *words: str) -> set[str]:
    """What bash offers for the last of the words after ``goalseek``, in a folder."""
    (folder / "goalseek.bash").write_text(script("bash"))
    asked = (
        'source ./goalseek.bash; COMP_WORDS=(goalseek "$@"); COMP_CWORD=$#; _goalseek; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    arguments = ["bash", "--norc", "-uc", asked, "bash", *words]
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True)
    assert done.stderr == ""
    return set(done.stdout.splitlines()) - {""}


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shutil.which(shell)])
def test_the_shell_takes_its_script(shell: str, tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text(script(shell))
    done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_quotes_of_the_zsh_script_are_closed_as_far_as_bash_can_say(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text(script("zsh"))
    done = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_with_its_options_is_in_the_script(shell: str) -> None:
    found = script(shell)
    for word in (*COMMANDS, "forever", "outcome", "squash", "dry-run", "drop"):
        assert word in found


def test_a_command_is_completed(tmp_path: Path) -> None:
    assert completed(tmp_path, "it") == {"iterate"}
    assert completed(tmp_path, "st") == {"status", "step", "stop"}
    assert completed(tmp_path, "") >= set(COMMANDS)


def test_a_file_is_not_taken_for_a_command(tmp_path: Path) -> None:
    (tmp_path / "iterations.txt").touch()
    assert completed(tmp_path, "it") == {"iterate"}


def test_the_options_of_a_command_are_completed(tmp_path: Path) -> None:
    assert completed(tmp_path, "iterate", "--fo") == {"--for", "--forever"}
    assert completed(tmp_path, "promote", "--") >= {"--branch", "--onto", "--squash", "--patch", "--json"}
    assert completed(tmp_path, "log", "--fo") == set()


def test_choices_are_completed(tmp_path: Path) -> None:
    assert completed(tmp_path, "log", "--outcome", "rev") == {"reverted"}
    assert completed(tmp_path, "completion", "fi") == {"fish"}
    assert completed(tmp_path, "manifest", "sch") == {"schema"}


def test_files_are_completed_after_a_command(tmp_path: Path) -> None:
    for name in ("two words.patch", "two.patch"):
        (tmp_path / name).touch()
    assert completed(tmp_path, "promote", "--patch", "tw") == {"two words.patch", "two.patch"}
    assert completed(tmp_path, "promote", "--patch", "none") == set()


def test_options_before_the_command_do_not_hide_it(tmp_path: Path) -> None:
    assert completed(tmp_path, "-q", "--json", "iterate", "--fore") == {"--forever"}
    assert completed(tmp_path, "-q", "it") == {"iterate"}
    assert completed(tmp_path, "--qu") == {"--query"}


def test_another_shell_is_refused() -> None:
    done = subprocess.run([sys.executable, "-m", "goalseek", "completion", "tcsh"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "bash" in done.stderr
