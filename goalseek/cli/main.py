"""The main function of the command line: imports the module of one command, runs it, turns errors into exit codes."""

from __future__ import annotations

import gc
import importlib
import signal
import sys
import typing
from collections.abc import Callable
from typing import Any

from goalseek._version import __version__
from goalseek.cli.registry import COMMANDS, OPTIONS, REMOVED, help_text, removed_words, topics
from goalseek.cli.streams import prepare_streams
from goalseek.errors import BUG, USAGE, GoalseekError, Interrupted, exit_code_of_interrupt

if typing.TYPE_CHECKING:
    from goalseek.cli.options import Options

_ANSWERED_AT_ONCE = ("-h", "--help", "--version")


def run(arguments: list[str]) -> int:
    """Gives the contract's exit code, also for an exception, which is shown on stderr."""
    prepare_streams()
    code = _exit_code_of(lambda: _run(arguments))
    return _exit_code_of(sys.stdout.flush) or code


def _exit_code_of(act: Callable[[], int | None]) -> int:
    try:
        return act() or 0
    except GoalseekError as error:
        return _show_error(error)
    except (KeyboardInterrupt, Interrupted) as error:
        code = exit_code_of_interrupt(error)
        if code != 128 + signal.SIGPIPE:
            print("goalseek: interrupted; nothing is lost: the same command goes on from here", file=sys.stderr)
        return code
    except Exception as error:
        from goalseek.disk import machine_error

        fault = machine_error(error)
        if fault:
            return _show_error(fault)
        import platform
        import traceback

        print("goalseek: this is a bug. No data is lost. Please report the following:\n", file=sys.stderr)
        print(f"goalseek {__version__}, Python {platform.python_version()}, {platform.platform()}", file=sys.stderr)
        print("".join(traceback.format_exception(error)), file=sys.stderr)
        return BUG


def _run(arguments: list[str]) -> int | None:
    at = 0
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] not in _ANSWERED_AT_ONCE:
        at += 2 if "metavar" in OPTIONS.get(arguments[at], {}) else 1
    top, rest = arguments[:at], arguments[at:]  # the options before the command, and the command
    if (rest and rest[0] in ("-h", "--help")) or not arguments:
        print(help_text(__version__, is_whole="--all" in arguments))
        return 0 if rest else USAGE
    if rest[:1] == ["help"] and rest[1:] and rest[1] in COMMANDS and rest[1] not in topics():
        rest = [rest[1], "--help"]
    if rest and rest[0] in ("--version", "version"):
        print(f"goalseek {__version__}")
        return 0
    from goalseek.process import install_signal_handlers

    install_signal_handlers()
    gc.disable()  # imports make no garbage, and looking for it takes a tenth of their time
    try:
        module, options = _parse_command(arguments, top, rest)
    finally:
        gc.freeze()
        gc.set_threshold(50_000)  # an iteration makes little garbage: looking for it took a tenth of goalseek's time
        gc.enable()
    try:
        code: int | None = module.run(options)
    except GoalseekError as error:
        error.hint = options.with_manifest(error.hint)
        raise
    return code


def _parse_command(arguments: list[str], top: list[str], rest: list[str]) -> tuple[Any, Options]:
    from goalseek.cli.options import Options, Parser, add_options

    parser = Parser(prog="goalseek", add_help=False, usage="goalseek [OPTIONS] COMMAND ... (see goalseek --help)")
    add_options(parser, is_top=True)
    options = parser.parse_args(top, Options())
    if not rest:
        raise GoalseekError("no command is given", "goalseek --help --all lists the commands")
    name = rest[0]
    if removed := removed_words(rest):
        raise GoalseekError(f"goalseek {removed} was removed: {REMOVED[removed]}")
    if name not in COMMANDS:
        from goalseek.humanize import did_you_mean

        hint = did_you_mean(name, COMMANDS) or "goalseek --help --all lists the commands"
        raise GoalseekError(f"there is no command {name!r}", hint)
    module: Any = importlib.import_module(f"goalseek.cli.commands.{name}")
    summary, example = COMMANDS[name]
    own = Parser(prog=f"goalseek {name}", description=f"{summary}.")
    own.example = f"goalseek {example}"
    options.command_line = arguments
    options.command_name = name
    module.arguments(own)
    add_options(own, is_top=False)
    own.parse_args(rest[1:], options)
    return module, options


def _show_error(error: GoalseekError) -> int:
    from goalseek.views.terminal_text import clean_text

    # The message may quote a program's output, which may have control characters.
    print(f"goalseek: {clean_text(error.message)}", file=sys.stderr)
    if error.hint:
        print(f"  {clean_text(error.hint)}", file=sys.stderr)
    return error.exit_code
