"""Where a command line begins and ends: one command's module is imported, and every error becomes an exit code."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from goalseek import __version__
from goalseek.cli.commands import COMMANDS, help_text
from goalseek.errors import BUG, USAGE, GoalseekError, Interrupted


def run(arguments: list[str]) -> int:
    """Runs one command line; gives the contract's exit code."""
    try:
        return _run(arguments)
    except GoalseekError as error:
        return _told(error)
    except (KeyboardInterrupt, Interrupted) as error:
        number = error.signal_number if isinstance(error, Interrupted) else signal.SIGINT
        with _perhaps_closed():
            print("goalseek: interrupted; nothing is lost: the same command goes on from here", file=sys.stderr)
        return 128 + number
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except Exception as error:
        from goalseek.machine_faults import as_machine_fault

        fault = as_machine_fault(error)
        return _told(fault) if fault else _bug(error)


@contextlib.contextmanager
def _perhaps_closed() -> Iterator[None]:
    """Around words for a terminal that may have been closed: that is no reason for another exit code."""
    try:
        yield
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.__stdout__, sys.__stderr__):
            if stream:
                os.dup2(nowhere, stream.fileno())


def _run(arguments: list[str]) -> int:
    top, rest = _split(arguments)
    if (rest and rest[0] in ("-h", "--help")) or not arguments:
        print(help_text(__version__))
        return 0 if rest else USAGE
    if rest and rest[0] == "--version":
        print(f"goalseek {__version__}")
        return 0
    with _nothing_collected():
        module, options = _understood(arguments, top, rest)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    code = _with_typed_hints(module, options)
    sys.stdout.flush()
    return code


def _with_typed_hints(module: Any, options: Any) -> int:
    """Runs the command; what is to be typed after an error names the manifest as this command did."""
    try:
        code: int = module.run(options)
    except GoalseekError as error:
        from goalseek.typed import typed

        error.hint = typed(error.hint, options.manifest)
        raise
    return code


def _understood(arguments: list[str], top: list[str], rest: list[str]) -> tuple[Any, Any]:
    """The command's module, and its options."""
    from goalseek.cli.options import Parser, add_options

    parser = Parser(prog="goalseek", add_help=False, usage="goalseek [OPTIONS] COMMAND ... (see goalseek --help)")
    add_options(parser, is_top=True)
    options = parser.parse_args(top)
    if not rest:
        raise GoalseekError("which command?", "see: goalseek --help", USAGE)
    name = rest[0]
    if name not in COMMANDS:
        raise GoalseekError(f"there is no command {name!r}", _nearest(name), USAGE)
    module: Any = importlib.import_module(f"goalseek.cli.{name}_command")
    own = Parser(prog=f"goalseek {name}", description=COMMANDS[name][1].capitalize() + ".")
    options.command_line = arguments
    module.arguments(own)
    add_options(own, is_top=False)
    own.parse_args(rest[1:], options)
    return module, options


@contextlib.contextmanager
def _nothing_collected() -> Iterator[None]:
    """Around imports, of which nothing becomes garbage: to look for some takes a tenth of their time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The options before the command, and the command with what follows."""
    place = 0
    while (
        place < len(arguments)
        and arguments[place].startswith("-")
        and arguments[place]
        not in (
            "-h",
            "--help",
            "--version",
        )
    ):
        takes_value = arguments[place] in ("-C", "-m", "--query", "--color")
        place += 2 if takes_value else 1
    return arguments[:place], arguments[place:]


def _nearest(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, COMMANDS, n=1)
    return f"did you mean {near[0]!r}?" if near else "see: goalseek --help"


def _told(error: GoalseekError) -> int:
    print(f"goalseek: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"  {error.hint}", file=sys.stderr)
    return error.exit_code


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise Interrupted(number)


def _bug(error: Exception) -> int:
    """A log to paste."""
    import platform
    import traceback

    print("goalseek: this is a bug. Nothing of yours is lost. Please report what follows:\n", file=sys.stderr)
    print(f"goalseek {__version__}, Python {platform.python_version()}, {platform.platform()}", file=sys.stderr)
    print("".join(traceback.format_exception(error)), file=sys.stderr)
    return BUG
