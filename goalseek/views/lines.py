"""The views of a climb in lines: for a person at a terminal, with questions, and as events of ``iterate --json``."""

import contextlib
import copy
import json
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self, TextIO

from goalseek.humanize import format_distinct, format_duration, format_number
from goalseek.project.activity import Observer
from goalseek.project.approval import Approval, Question
from goalseek.records import HoldoutRecord, IterationRecord, SettleRecord
from goalseek.sandbox.level import SandboxLevel, installation_hint
from goalseek.values import EXIT_CODES, Outcome, Phase, Stop, to_plain
from goalseek.views import terminal_text

_POLL_SECONDS = 0.2


def record_line(record: IterationRecord, paint: terminal_text.Paint, width: int | None) -> str:
    """``  12  kept      better   0.981  0.981 beats 0.975 by 0.006; title``, aligned; cut to ``width`` if given."""
    value = "-" if record.metric.value is None else format_number(record.metric.value, record.metric.unit)
    head = f"{record.iteration:>4}  {record.outcome:<9} {record.reason:<16} {value:>9}  "
    room = None if width is None else width - len(head)
    tail = terminal_text.why_and_title(record.why, record.hypothesis_summary, room)
    if record.outcome in (Outcome.REVERTED, Outcome.SKIPPED):
        tail = paint(tail, "grey")
    return paint(terminal_text.cut_to_cells(head, width), terminal_text.OUTCOME_COLORS[record.outcome]) + tail


class SandboxWatch(Observer):
    """Prints only the level of the sandbox, on stderr; with ``is_quiet`` not that of bubblewrap."""

    def __init__(self, color: str, is_quiet: bool) -> None:
        self._paint_level = terminal_text.painter(sys.stderr, color)
        self._is_quiet = is_quiet

    def on_sandbox(self, level: SandboxLevel, not_enforced: tuple[str, ...]) -> None:
        if level.name == "bubblewrap":
            if not self._is_quiet:
                gaps = "; goalseek doctor lists its gaps" if not_enforced else ""
                print(f"sandbox: {level.name}{gaps}", file=sys.stderr)
            return
        head = "no sandbox: programs run as you"
        if level.name != "none":
            head = f"sandbox: {level.name}, which is weaker than bubblewrap"
        lines = [f"{head}. Not enforced, for the agent and for a candidate's code:"]
        lines += [f"  {clause}" for clause in not_enforced]
        lines += [f"  because {reason}" for reason in level.reason]
        if not any(reason.startswith("sandbox.mode") for reason in level.reason):
            lines.append(f"  to have it: {installation_hint('bubblewrap')}")
        for line in lines:
            print(self._paint_level(line, "red"), file=sys.stderr)


class Prompt:
    """The prompt of an open question, which stays the last line of the terminal while others print."""

    def __init__(self) -> None:
        self._text = ""
        self._lock = threading.RLock()

    def open(self, *lines: str, text: str) -> None:
        with self._lock:
            self._text = text
            print(*lines, text, sep="\n", end="", flush=True)

    def close(self) -> None:
        with self._lock:
            self._text = ""

    @contextlib.contextmanager
    def printing(self) -> Iterator[None]:
        """Output of this block begins a line, and the prompt follows it again."""
        with self._lock:
            text, self._text = self._text, ""
            if text:
                print(flush=True)
            yield
            self._text = text
            if text:
                print(text, end="", flush=True)


class AskingWatch(SandboxWatch):
    """Also asks, if both standard input and output are a terminal."""

    prompt = Prompt()  # a process has one terminal

    def is_attended(self) -> bool:
        return sys.stdin.isatty() and sys.stdout.isatty()

    def ask(self, question: Question, poll_approval: Callable[[], Approval | None]) -> Approval | None:
        """The answer typed here, or given by another command meanwhile; None if the terminal is closed."""
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
                        patch = [terminal_text.replace_unprintable(content)]
                    except OSError as error:
                        patch = [f"there is no patch any more: {error}"]
                self.prompt.open(*patch, text=prompt_text(question))
            print(f"\n{approval}, said goalseek {approval} {question.iteration}", flush=True)
            return approval
        finally:
            self.prompt.close()


def question_lines(question: Question) -> list[str]:
    verdict = question.verdict
    lines = (
        f"iteration {question.iteration}: {verdict.outcome}, {verdict.reason}",
        f"  why        {verdict.why}",
        f"  title      {question.title}",
        *(f"  changed    {path}" for path in question.changed_files),
        f"  lines      {question.lines_added} added, {question.lines_removed} removed",
        f"  patch      {question.diff}",
    )
    return [terminal_text.replace_unprintable(line) for line in lines]


def prompt_text(question: Question) -> str:
    if question.verdict:
        return f"keep iteration {question.iteration}? [y]es, [n]o, [d]iff, or ^C to decide later: "
    # A revert cannot be turned into a keep: there it only asks to go on.
    return f"iteration {question.iteration} is reverted either way; go on? [y]es, [d]iff, or ^C to decide later: "


def _read_lines() -> Iterator[str | None]:
    """The lines typed at a terminal, each with its newline; None after ``_POLL_SECONDS`` without one."""
    descriptor, unread = sys.stdin.fileno(), b""
    while True:
        while b"\n" in unread:
            line, unread = unread.split(b"\n", 1)
            yield line.decode("utf-8", "replace") + "\n"
        if not terminal_text.is_foreground(sys.stdin):
            time.sleep(_POLL_SECONDS)
            yield None
        elif not select.select([descriptor], [], [], _POLL_SECONDS)[0]:
            yield None
        elif terminal_text.is_foreground(sys.stdin):
            try:
                read = os.read(descriptor, 4096)
            except OSError:  # the terminal is gone
                return
            if not read:
                return
            unread += read


class LineWatch(AskingWatch):
    """Prints a line for each iteration on stdout, and messages on stderr; asks at a terminal."""

    def __init__(self, color: str, is_quiet: bool, is_verbose: bool) -> None:
        super().__init__(color, is_quiet)
        self._paint = terminal_text.painter(sys.stdout, color)
        self._is_verbose = is_verbose
        self._iteration: int | None = None

    def of(self, iteration: int) -> Self:
        other = copy.copy(self)
        other._iteration = iteration
        return other

    def on_note(self, text: str) -> None:
        which = "" if self._iteration is None else f"iteration {self._iteration}: "
        with self.prompt.printing():
            print(f"note: {which}{terminal_text.replace_unprintable(text)}", file=sys.stderr)

    def on_phase(self, iteration: int, name: str) -> None:
        self._iteration = None if name in (Phase.SETTLE, Phase.HOLDOUT) else iteration
        if self._is_verbose:
            with self.prompt.printing():
                print(f"{iteration:>4}  {name}", file=sys.stderr)

    def on_record(self, record: IterationRecord | SettleRecord | HoldoutRecord) -> None:
        if isinstance(record, SettleRecord):
            values = " to ".join(format_distinct(record.baseline, record.best, unit=record.unit))
            text = f"{record.metric} {values}, {record.why} of baseline and best in turn{record.left_in_words}"
            print(f"settled: {text}", flush=True)
            return
        if isinstance(record, HoldoutRecord):
            print(f"holdout, look {record.look}: {terminal_text.one_line(record.why)}", flush=True)
            return
        with self.prompt.printing():
            print(record_line(record, self._paint, terminal_text.terminal_width(sys.stdout)), flush=True)
            self._iteration = record.iteration
            for note in record.notes:
                self.on_note(note)
            if record.dropped_files and not self._is_quiet:
                self.on_note(f"files outside the scope were left out: {', '.join(record.dropped_files)}")
            self._iteration = None
            if self._is_verbose:
                print(f"      took {format_duration(sum(record.seconds.values()))}", file=sys.stderr)

    def close(self) -> None:
        pass  # leave the terminal to the last lines

    def on_stopped(self, stop: Stop) -> None:
        self.close()
        if not self._is_quiet:
            print(f"stopped: {stop.why}" + (f"; {stop.next}" if stop.next else ""), file=sys.stderr, flush=True)
        self._say_last(stop)

    def on_failed(self, stop: Stop) -> None:
        self.close()  # the command says why it ended
        with contextlib.suppress(OSError):  # the terminal may be closed
            self._say_last(stop)

    def _say_last(self, stop: Stop) -> None:
        if stop.line:
            print(self._paint(stop.line, "bold"), flush=True)


class EventWatch(Observer):
    """Prints what ``select`` gives for each event as a line, and nothing for None."""

    def __init__(self, stream: TextIO, select: Callable[[Any], Any] = lambda event: event) -> None:
        self._stream = stream
        self._select = select
        self._of: dict[str, int] = {}

    def of(self, iteration: int) -> Self:
        # Notes of one of several iterations name it, as other events always do.
        other = copy.copy(self)
        other._of = {"iteration": iteration}
        return other

    def on_note(self, text: str) -> None:
        self._emit("note", text=text, **self._of)

    def on_sandbox(self, level: SandboxLevel, not_enforced: tuple[str, ...]) -> None:
        self._emit("sandbox", level=level.name, not_enforced=not_enforced, because=level.reason)

    def on_phase(self, iteration: int, name: str) -> None:
        self._emit("phase", iteration=iteration, phase=name)

    def on_record(self, record: IterationRecord | SettleRecord | HoldoutRecord) -> None:
        self._emit(record.kind, record=to_plain(record))

    def on_stopped(self, stop: Stop) -> None:
        code = EXIT_CODES.get(stop.reason)
        self._emit("stopped", stop_reason=stop.reason, why=stop.why, next=stop.next, exit=code, line=stop.line)

    def _emit(self, event: str, **fields: object) -> None:
        selected = self._select({"event": event, **fields})
        if selected is not None:
            self._stream.write(json.dumps(selected) + "\n")
            self._stream.flush()
