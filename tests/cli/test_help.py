"""``--help`` of every command: an example that the parser takes, a text for all that it takes, one line of the rest."""

from __future__ import annotations

import argparse
import shlex
from argparse import SUPPRESS

import pytest

from goalseek.cli import main
from goalseek.cli.commands.completion import command_parser
from goalseek.cli.registry import COMMANDS, OPTIONS


def printed_help(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What ``goalseek NAME --help`` prints."""
    with pytest.raises(SystemExit):
        main.run([name, "--help"])
    return capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_its_summary_one_example_and_the_common_options_in_one_line(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed_help(name, capsys).splitlines()
    assert f"{COMMANDS[name][0]}." in lines
    assert lines.count("example:") == 1
    assert lines[lines.index("example:") + 1] == f"  goalseek {COMMANDS[name][1]}"
    (common,) = (line for line in lines if line.startswith("common options:"))
    assert all(f" {option}" in common for option in OPTIONS)
    assert not any(line.strip().startswith("--color") for line in lines)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_parser_of_a_command_takes_its_example(name: str) -> None:
    command, *arguments = shlex.split(COMMANDS[name][1].partition(" > ")[0])
    assert command == name
    command_parser(name).parse_args(arguments)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_of_a_command_has_a_text(name: str) -> None:
    for action in command_parser(name)._actions:
        assert action.help, f"{name}: {action.option_strings or action.dest}"
        assert action.help == SUPPRESS or isinstance(action, argparse._HelpAction) or action.help[-1] != "."


def test_the_help_lists_every_command_and_every_common_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name:<11} {summary}\n" in text for name, (summary, _) in COMMANDS.items())
    assert all(f"  {option} " in text for option in OPTIONS)
    assert max(map(len, text.splitlines())) <= 80


def test_version_is_an_option_and_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == main.run(["version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    assert first.startswith("goalseek ")
