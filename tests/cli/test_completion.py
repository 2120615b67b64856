"""``goalseek completion``: scripts that the shells take, and that complete what the commands really have."""

import contextlib
import functools
import io
import subprocess
from pathlib import Path

import pytest

from goalseek.cli import main
from goalseek.cli.commands.completion import choices_of, command_parser, options_of, places_of
from goalseek.cli.registry import COMMANDS

SHELLS = ("bash", "zsh", "fish")
INSTALLED = ["bash", *[pytest.param(shell, marks=pytest.mark.needs(shell)) for shell in ("zsh", "fish")]]


@functools.cache
def script(shell: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main.run(["completion", shell]) == 0
    return printed.getvalue()


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
    "goalseek iterate --fo": {"--for", "--forever"},
    "goalseek log --outcome ": {"baseline", "kept", "reverted", "skipped"},
    "goalseek manifest schema eve": {"events"},
    "goalseek promote --patch tw": {"two.patch"},
    "goalseek log --last ": set(),
}


@pytest.mark.needs("fish")
@pytest.mark.slow
def test_fish_completes(tmp_path: Path) -> None:
    (tmp_path / "two.patch").touch()
    (tmp_path / "script").write_text(script("fish"))
    for line, expected in FISH.items():
        command = ["fish", "--no-config", "-c", f"source ./script; complete -C '{line}'"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, "")
        assert {row.split("\t")[0] for row in done.stdout.splitlines()} == expected, line


ZSH = {
    "goalseek it": "goalseek iterate ",
    "goalseek -C . it": "goalseek -C . iterate ",
    "goalseek log --outcome rev": "goalseek log --outcome reverted ",
    "goalseek help scope.sh": "goalseek help scope.share ",
    "goalseek promote --patch tw": "goalseek promote --patch two.patch ",
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


BASH = {
    "it": {"iterate"},
    "st": {"status", "step", "stop"},
    "-q it": {"iterate"},
    "-C status it": {"iterate"},
    "-C log iterate --fore": {"--forever"},
    "-q --json iterate --fore": {"--forever"},
    "--qu": {"--query"},
    "--color ": {"always", "auto", "never"},
    "iterate --fo": {"--for", "--forever"},
    "log --fo": set(),
    "log --outcome rev": {"reverted"},
    "log --outcome ": {"baseline", "kept", "reverted", "skipped"},
    "log --outcome = k": {"kept"},
    "log --outcome =": {"baseline", "kept", "reverted", "skipped"},
    "log --reason no_": {"no_metric", "no_change", "no_plan"},
    "log --last ": set(),
    "manifest sch": {"schema"},
    "manifest schema rec": {"receipt", "records"},
    "help scope.sh": {"scope.share"},
    "help prom": {"promote", "prompts"},
    "completion fi": {"fish"},
    "promote --patch tw": {"two words.patch", "two.patch"},
    "promote --patch none": set(),
}


def test_bash_completes(tmp_path: Path) -> None:
    for name in ("two words.patch", "two.patch", "iterations.txt"):
        (tmp_path / name).touch()
    assert {line: completed(tmp_path, *line.split(" ")) for line in BASH} == BASH
    assert completed(tmp_path, "") >= set(COMMANDS)
    assert completed(tmp_path, "promote", "--") >= {"--branch", "--onto", "--squash", "--patch", "--json"}


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["completion", "tcsh"]) == 2
    refused = capsys.readouterr()
    assert refused.out == "" and "bash" in refused.err
