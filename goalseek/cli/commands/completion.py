"""``goalseek completion``: completion scripts for bash, zsh and fish, generated from the commands' parsers."""

import importlib

from goalseek.cli.options import Options, Parser, add_options
from goalseek.cli.registry import COMMANDS
from goalseek.views.completion import completion_script


def arguments(parser: Parser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell that reads the script")


def run(options: Options) -> None:
    parsers = {name: command_parser(name) for name in COMMANDS}
    summaries = {name: summary for name, (summary, _) in COMMANDS.items()}
    print(completion_script(options.shell, command_parser(""), parsers, summaries), end="")


def command_parser(name: str) -> Parser:
    """With the global options; for "" only what may come before a command."""
    parser = Parser(prog=name or "goalseek")
    add_options(parser, is_top=True)
    if name:
        importlib.import_module(f"goalseek.cli.commands.{name}").arguments(parser)
    else:
        parser.add_argument("--version", action="store_true", help="say which version this is")
    return parser
