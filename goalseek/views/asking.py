"""The question to a person at a terminal whether a verdict shall take effect."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from goalseek.project.approval import Approval, Question
from goalseek.project.observer import Observer
from goalseek.views.terminal_text import is_foreground, replace_unprintable

_POLL_SECONDS = 0.2


class Prompt:
    """The prompt of an open question, which stays the last line of the terminal while others print; "" for none."""

    def __init__(self) -> None:
        self._text = ""
        self._lock = threading.RLock()

    def open(self, *lines: str, text: str) -> None:
        """Prints the lines, and the prompt below them."""
        with self._lock:
            self._text = text
            print(*lines, text, sep="\n", end="", flush=True)

    def close(self) -> None:
        """There is no question any more."""
        with self._lock:
            self._text = ""

    @contextlib.contextmanager
    def printing(self) -> Iterator[None]:
        """What is printed in this block begins a line, and the prompt follows it once more."""
        with self._lock:
            text, self._text = self._text, ""
            if text:
                print(flush=True)
            yield
            self._text = text
            if text:
                print(text, end="", flush=True)


class AskingWatch(Observer):
    """Asks where both standard input and output are a terminal; shows nothing else."""

    prompt = Prompt()  # a process has one terminal

    def is_attended(self) -> bool:
        """Whether a person can be asked: both streams are terminals."""
        try:
            return sys.stdin.isatty() and sys.stdout.isatty()
        except (AttributeError, ValueError):
            return False

    def ask(self, question: Question, poll_approval: Callable[[], Approval | None]) -> Approval | None:
        """The answer typed here, or given by another command meanwhile; None where the terminal is closed."""
        self.prompt.open(*question_lines(question), text=prompt_text(question))
        lines = _read_lines()
        try:
            while (approval := poll_approval()) is None:
                line = next(lines, "")
                if line is None:
                    continue
                if not line:
                    print(flush=True)
                    return None
                answer = line.strip().lower()
                if answer in ("y", "yes"):
                    return "approve"
                if answer in ("n", "no"):
                    return "decline"
                patch = []
                if answer in ("d", "diff"):
                    try:
                        content = Path(question.diff).read_bytes().decode("utf-8", "replace")
                        patch = [replace_unprintable(content)]
                    except OSError as error:
                        patch = [f"there is no patch any more: {error}"]
                self.prompt.open(*patch, text=prompt_text(question))
            print(f"\n{approval}, said goalseek {approval} {question.iteration}", flush=True)
            return approval
        finally:
            self.prompt.close()


def question_lines(question: Question) -> list[str]:
    """The facts of a verdict, a line each, for a person who is to answer."""
    verdict = question.verdict
    lines = (
        f"iteration {question.iteration}: {verdict.outcome}, {verdict.reason}",
        f"  why        {verdict.why}",
        f"  title      {question.title}",
        *(f"  changed    {path}" for path in question.changed_files),
        f"  lines      {question.lines_added} added, {question.lines_removed} removed",
        f"  patch      {question.diff}",
    )
    return [replace_unprintable(line) for line in lines]


def prompt_text(question: Question) -> str:
    """The text of the prompt. A revert cannot be turned into a keep: there it only asks to go on."""
    if question.verdict:
        return f"keep iteration {question.iteration}? [y]es, [n]o, [d]iff, or ^C to decide later: "
    return f"iteration {question.iteration} is reverted either way; go on? [y]es, [d]iff, or ^C to decide later: "


def _read_lines() -> Iterator[str | None]:
    """The lines typed at a terminal, each with its newline, and None whenever none came for a moment."""
    descriptor, unread = sys.stdin.fileno(), b""
    while True:
        while b"\n" in unread:
            line, unread = unread.split(b"\n", 1)
            yield line.decode("utf-8", "replace") + "\n"
        if not is_foreground(sys.stdin):
            time.sleep(_POLL_SECONDS)
            yield None
        elif not select.select([descriptor], [], [], _POLL_SECONDS)[0]:
            yield None
        elif is_foreground(sys.stdin):
            try:
                read = os.read(descriptor, 4096)
            except OSError:  # the terminal is gone
                return
            if not read:
                return
            unread += read
