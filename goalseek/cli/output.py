"""Output of commands: answers on stdout, messages on stderr, and questions to a person at a terminal."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from goalseek.cli.streams import handle_write_error
from goalseek.errors import GoalseekError
from goalseek.humanize import format_duration
from goalseek.manifest.rules import query_fault
from goalseek.process import wait_for_line
from goalseek.values import to_plain
from goalseek.views.terminal_text import replace_unprintable


def wants_json(options: argparse.Namespace) -> bool:
    return bool(options.json or options.query)


def print_json(options: argparse.Namespace, value: Any) -> None:
    """Applies ``--query``, and flushes: the reader may go on meanwhile."""
    print(json.dumps(apply_query(options, to_plain(value)), ensure_ascii=True), flush=True)


def print_answer(options: argparse.Namespace, value: Any, *lines: str) -> None:
    if wants_json(options):
        print_json(options, value)
    else:
        print("\n".join(lines))


def print_json_lines(options: argparse.Namespace, values: Iterable[Any]) -> None:
    """Applies ``--query`` to each value, and leaves out null."""
    for value in values:
        part = apply_query(options, to_plain(value))
        if part is not None or not options.query:
            print(json.dumps(part, ensure_ascii=True))


def apply_query(options: argparse.Namespace, plain: Any) -> Any:
    """Raises GoalseekError for a query that does not parse."""
    if not options.query:
        return plain
    import jmespath

    try:
        return jmespath.search(options.query, plain)
    except jmespath.exceptions.JMESPathError as error:
        raise GoalseekError(f"--query {query_fault(options.query, error)}", "see https://jmespath.org") from None


def print_bytes(content: bytes) -> None:
    sys.stdout.flush()
    try:
        sys.stdout.buffer.write(content)
    except OSError as error:
        handle_write_error(1, error)
    sys.stdout.flush()


def print_message(options: argparse.Namespace, text: str) -> None:
    if not options.quiet:
        print(replace_unprintable(text), file=sys.stderr)


def time_to_go(remaining: int, seconds: float) -> str:
    """``; 3 to go, about 2m 10s``, with ``seconds`` for each; "" if none remain."""
    return f"; {remaining} to go, about {format_duration(remaining * seconds)}" if remaining else ""


YES = ("y", "yes")
Value = TypeVar("Value")


def ask_person(question: str, default: str, read: Callable[[str], Value]) -> Value:
    """Asks until ``read`` takes the answer, or the default. Raises GoalseekError if the terminal is closed."""
    while True:
        print(f"{question}{f' [{default}]' if default else ''}: ", end="", file=sys.stderr, flush=True)
        wait_for_line()
        try:
            text = input().strip() or default
        except EOFError:
            raise GoalseekError("no answer", "answer the questions, or use flags: goalseek init --help") from None
        try:
            return read(text)
        except GoalseekError as error:
            print(f"  {error.message}" + (f"; {error.hint}" if error.hint else ""), file=sys.stderr)
