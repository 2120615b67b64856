"""Output of commands: answers on stdout, messages on stderr, and questions to a person at a terminal."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from goalseek.errors import GoalseekError
from goalseek.git.ignore import matcher
from goalseek.manifest.rules import query_fault
from goalseek.values import to_plain
from goalseek.views.terminal_text import replace_unprintable


def wants_json(options: argparse.Namespace) -> bool:
    """Whether the answer is to be JSON."""
    return bool(options.json or options.query)


def print_json(options: argparse.Namespace, value: Any) -> None:
    """Prints one JSON value, or the part that ``--query`` selects, and flushes it: its reader may go on meanwhile."""
    print(json.dumps(apply_query(options, to_plain(value)), ensure_ascii=True), flush=True)


def print_answer(options: argparse.Namespace, value: Any, *lines: str) -> None:
    """Prints ``value`` as JSON where that is asked for, else the lines."""
    if wants_json(options):
        print_json(options, value)
    else:
        print("\n".join(lines))


def print_json_lines(options: argparse.Namespace, values: Iterable[Any]) -> None:
    """Prints each value as a line of JSON; with ``--query`` what it selects of each, null left out."""
    for value in values:
        part = apply_query(options, to_plain(value))
        if part is not None or not options.query:
            print(json.dumps(part, ensure_ascii=True))


def apply_query(options: argparse.Namespace, plain: Any) -> Any:
    """The part of a JSON value that ``--query`` selects. Raises GoalseekError for a query that does not parse."""
    if not options.query:
        return plain
    import jmespath

    try:
        return jmespath.search(options.query, plain)
    except jmespath.exceptions.JMESPathError as error:
        raise GoalseekError(f"--query {query_fault(options.query, error)}", "see https://jmespath.org") from None


def print_message(options: argparse.Namespace, text: str) -> None:
    """Prints a message on stderr; nothing with ``-q``."""
    if not options.quiet:
        print(replace_unprintable(text), file=sys.stderr)


Value = TypeVar("Value")


def ask(question: str, default: str, read: Callable[[str], Value]) -> Value:
    """Asks until ``read`` takes the answer. An empty answer is the default.

    Raises GoalseekError where the terminal is closed.
    """
    while True:
        print(f"{question}{f' [{default}]' if default else ''}: ", end="", file=sys.stderr, flush=True)
        try:
            text = input().strip() or default
        except EOFError:
            raise GoalseekError("no answer", "answer the questions, or use flags: goalseek init --help") from None
        try:
            return read(text)
        except GoalseekError as error:
            print(f"  {error.message}" + (f"; {error.hint}" if error.hint else ""), file=sys.stderr)


def parse_globs(text: str, paths: list[str] | None) -> tuple[str, ...]:
    """The globs of an answer, in which one with a space is in double quotes.

    Raises GoalseekError where there is none, and for one that matches none of ``paths``, where these are given.
    """
    patterns = tuple(quoted or plain for quoted, plain in re.findall(r'"([^"]+)"|([^\s,]+)', text))
    if not patterns:
        raise GoalseekError("name at least one", "experiment.py src/**, say")
    for pattern in patterns if paths is not None else ():
        if not any(map(matcher((pattern,)), paths or ())):
            raise GoalseekError(f"{pattern!r} matches no committed file")
    return patterns


def format_globs(patterns: tuple[str, ...]) -> str:
    """The globs as one answer, as ``parse_globs`` reads it."""
    return " ".join(f'"{pattern}"' if re.search(r"[\s,]", pattern) else pattern for pattern in patterns)


def parse_reading(text: str) -> tuple[str, str, str]:
    """Direction, query and regex of ``maximize accuracy`` or ``minimize /took ([0-9.]+)s/``; raises GoalseekError."""
    match = re.fullmatch(r"\s*(maximize|minimize)\s*[\s:]\s*(\S.*?)\s*", text)
    if not match:
        hint = "maximize accuracy (in metrics.json), or minimize /took ([0-9.]+)s/ (in what the command prints)"
        raise GoalseekError(f"{text!r} does not say how to read the number", hint)
    source = match[2]
    if re.fullmatch(r"\w+(\s+\w+)+", source):
        raise GoalseekError(f"a name has no blanks; did you mean {'_'.join(source.split())}?")
    if len(source) > 2 and source.startswith("/") and source.endswith("/"):
        return match[1], "", source[1:-1]
    return match[1], source, ""


def reading_in_flags(options: argparse.Namespace) -> dict[str, str]:
    """Direction, query, regex and the metric's name, as far as flags give them; query and regex together."""
    query, regex, direction, name = (getattr(options, key) or "" for key in ("query", "regex", "direction", "metric"))
    if query and regex:
        raise GoalseekError("goalseek init: --query or --regex, not both", "a number is read in one way")
    if re.match(r"(maximize|minimize)[\s:]", name):
        its_direction, name, pattern = parse_reading(name)
        direction = direction or its_direction
        query, regex = (query, regex) if query or regex else (name, pattern)
    elif name and not regex:
        query = query or name
    given = {"query": query, "regex": regex} if query or regex else {}
    return given | {key: value for key, value in (("direction", direction), ("metric", name)) if value}
