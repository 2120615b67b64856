"""Questions to a person at a terminal: on stderr, so that stdout has answers only."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from goalseek.errors import GoalseekError

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
