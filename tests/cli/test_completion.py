"""``goalseek completion``: scripts that the shells take, and that complete what the commands really have."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import pytest

from goalseek.cli.commands.completion import choices_of, command_parser, options_of, places_of
from goalseek.cli.registry import COMMANDS

SHELLS = ("bash", "zsh", "fish")
INSTALLED = ["bash", *[pytest.param(shell, marks=pytest.mark.needs(shell)) for shell in ("zsh", "fish")]]


@functools.cache
def script(shell: str) -> str:
    """The script for a shell."""
    arguments = [sys.executable, "-m", "goalseek", "completion", shell]
    return subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=120).stdout


def completed(folder: Path, *words: str) -> set[str]:
    """What bash offers for the last of the words after ``goalseek``, in a folder."""
    (folder / "goalseek.bash").write_text(script("bash"))
    asked = (
        'source ./goalseek.bash; COMP_WORDS=(goalseek "$@"); COMP_CWORD=$#; _goalseek; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    arguments = ["bash", "--norc", "-uc", asked, "bash", *words]
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    return set(done.stdout.splitlines()) - {""}


@pytest.mark.parametrize("shell", INSTALLED)
@pytest.mark.slow
def test_the_shell_takes_its_script(shell: str, tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text(script(shell))
    done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_quotes_of_the_zsh_script_are_closed_as_far_as_bash_can_say(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text(script("zsh"))
    done = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_with_all_that_its_parser_takes_is_in_the_script(shell: str) -> None:
    found = script(shell)
    for name in COMMANDS:
        assert name in found
        parser = command_parser(name)
        for option in options_of(parser):
            for word in option.option_strings:
                assert (f"-l {word[2:]}" if shell == "fish" and word.startswith("--") else word.lstrip("-")) in found
            assert all(choice in found for choice in choices_of(option).split())
        assert all(choice in found for choice in " ".join(places_of(parser)).split())


FISH = {
    "goalseek it": {"iterate"},
    "goalseek --qu": {"--query"},
    "goalseek iterate --fo": {"--for", "--forever"},
    "goalseek log --outcome ": {"baseline", "kept", "reverted", "skipped"},
    "goalseek -q promote --meas": {"--measure"},
    "goalseek manifest schema eve": {"events"},
    "goalseek completion fi": {"fish"},
    "goalseek promote --patch tw": {"two.patch"},
    "goalseek log --last ": set(),
}


@pytest.mark.needs("fish")
@pytest.mark.parametrize("line", FISH)
@pytest.mark.slow
def test_fish_completes(line: str, tmp_path: Path) -> None:
    (tmp_path / "two.patch").touch()
    (tmp_path / "script").write_text(script("fish"))
    asked = f"source ./script; complete -C '{line}'"
    done = subprocess.run(
        ["fish", "--no-config", "-c", asked], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert {row.split("\t")[0] for row in done.stdout.splitlines()} == FISH[line]


ZSH = {
    "goalseek it": "goalseek iterate ",
    "goalseek -C . it": "goalseek -C . iterate ",
    "goalseek iterate --fore": "goalseek iterate --forever ",
    "goalseek log --outcome rev": "goalseek log --outcome reverted ",
    "goalseek promote --meas": "goalseek promote --measure ",
    "goalseek help scope.sh": "goalseek help scope.share ",
    "goalseek promote --patch tw": "goalseek promote --patch two.patch ",
    "goalseek direct --dr": "goalseek direct --drop ",
}


@pytest.mark.needs("zsh")
@pytest.mark.parametrize("line", ZSH)
@pytest.mark.slow
def test_zsh_completes(line: str, tmp_path: Path) -> None:
    (tmp_path / "two.patch").touch()
    (tmp_path / "script").write_text(script("zsh"))
    (tmp_path / "asked.zsh").write_text(_ASK_ZSH)
    done = subprocess.run(["zsh", "-f", "asked.zsh", line], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert f"<{ZSH[line]}>" in done.stdout.replace("\r", ""), done


# A terminal within zsh: the line is typed, completed, and the edited line is printed by a widget.
_ASK_ZSH = r"""
zmodload zsh/zpty
zpty asked zsh -f -i
zpty -w asked 'PS1=; unset zle_bracketed_paste; autoload -Uz compinit; compinit -u -D; source ./script'
zpty -w asked 'show() { print -r -- "<$BUFFER>"; exit }; zle -N show; bindkey "^X" show; print re""ady'
zpty -r asked heard '*ready*'
zpty -w -n asked "$1"$'\t\x18'
zpty -r asked heard '*<goalseek*>*'
print -r -- "$heard"
"""


def test_a_command_is_completed_and_no_file_taken_for_one_nor_hidden_by_options(tmp_path: Path) -> None:
    assert completed(tmp_path, "it") == {"iterate"}
    assert completed(tmp_path, "st") == {"status", "step", "stop"}
    assert completed(tmp_path, "") >= set(COMMANDS)
    (tmp_path / "iterations.txt").touch()
    assert completed(tmp_path, "it") == {"iterate"}
    assert completed(tmp_path, "-q", "--json", "iterate", "--fore") == {"--forever"}
    assert completed(tmp_path, "-q", "it") == {"iterate"}
    assert completed(tmp_path, "-C", "status", "it") == {"iterate"}
    assert completed(tmp_path, "-C", "log", "iterate", "--fore") == {"--forever"}
    assert completed(tmp_path, "--qu") == {"--query"}


@pytest.mark.elsewhere
def test_options_choices_and_files_of_a_command_are_completed(tmp_path: Path) -> None:
    assert completed(tmp_path, "iterate", "--fo") == {"--for", "--forever"}
    assert completed(tmp_path, "promote", "--") >= {"--branch", "--onto", "--squash", "--patch", "--json"}
    assert completed(tmp_path, "log", "--fo") == set()
    assert completed(tmp_path, "log", "--outcome", "rev") == {"reverted"}
    assert completed(tmp_path, "log", "--outcome", "") == {"baseline", "kept", "reverted", "skipped"}
    assert completed(tmp_path, "log", "--outcome", "=", "k") == completed(tmp_path, "log", "--outcome", "k") == {"kept"}
    assert completed(tmp_path, "log", "--outcome", "=") == {"baseline", "kept", "reverted", "skipped"}
    assert completed(tmp_path, "log", "--reason", "no_") == {"no_metric", "no_change", "no_plan"}
    assert completed(tmp_path, "manifest", "schema", "rec") == {"records"}
    assert completed(tmp_path, "help", "scope.sh") == {"scope.share"}
    assert completed(tmp_path, "help", "prom") == {"promote", "prompts"}
    assert completed(tmp_path, "--color", "") == {"always", "auto", "never"}
    assert completed(tmp_path, "log", "--last", "") == set()
    assert completed(tmp_path, "completion", "fi") == {"fish"}
    assert completed(tmp_path, "manifest", "sch") == {"schema"}
    for name in ("two words.patch", "two.patch"):
        (tmp_path / name).touch()
    assert completed(tmp_path, "promote", "--patch", "tw") == {"two words.patch", "two.patch"}
    assert completed(tmp_path, "promote", "--patch", "none") == set()


def test_another_shell_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "goalseek", "completion", "tcsh"], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "bash" in done.stderr
