"""``--help``: the first screen, the list of all, and of every command an example that its parser takes."""

import shlex
from argparse import SUPPRESS

import pytest

from goalseek.cli import main
from goalseek.cli.commands.completion import command_parser
from goalseek.cli.registry import COMMANDS, OPTIONS

FIRST = ["init", "doctor", "iterate", "status", "log", "show", "report", "promote"]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_a_summary_a_valid_example_and_texts(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    summary, example = COMMANDS[name]
    with pytest.raises(SystemExit):
        main.run([name, "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert f"{summary}." in lines and lines.count("example:") == 1
    assert lines[lines.index("example:") + 1] == f"  goalseek {example}"
    (common,) = (line for line in lines if line.startswith("common options:"))
    assert all(f" {option}" in common for option in OPTIONS)
    assert not any(line.strip().startswith("--color") for line in lines), "each is explained once, by --help --all"
    command, *arguments = shlex.split(example.partition(" > ")[0])
    assert command == name
    parser = command_parser(name)
    parser.parse_args(arguments)
    for action in parser._actions:
        assert action.help, f"{name}: {action.option_strings or action.dest}"
        assert action.help == SUPPRESS or action.help[-1] != "."


def test_the_first_screen_has_eight_commands_and_says_how_to_see_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--help"]) == 0
    first = capsys.readouterr().out
    names = [line.split()[0] for line in first.splitlines() if line.startswith("  ")]
    assert [name for name in names if name in COMMANDS] == FIRST
    assert len(first.splitlines()) < 24 and f"`goalseek --help --all` lists all {len(COMMANDS)} commands" in first
    assert main.run([]) == 2 and capsys.readouterr().out == first
    assert main.run(["--help", "--all"]) == 0
    whole = capsys.readouterr().out
    assert all(f"\n  {name:<11} {summary}\n" in whole for name, (summary, _) in COMMANDS.items())
    assert all(f"\n{group}:\n" in whole for group in ("start", "run", "take home"))
    assert all(f"\n  {option} " in whole for option in OPTIONS)
    assert max(map(len, f"{first}{whole}".splitlines())) <= 80


def test_version_is_an_option_and_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["--version"]) == main.run(["version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    assert first.startswith("goalseek ")
