"""The live view of a climb: a panel at the bottom of a terminal, and above it a permanent line for each iteration."""

import sys
import time
from collections.abc import Callable

from msgspec import Struct, structs
from rich.text import Text

from goalseek.humanize import format_dollars, format_duration, format_number
from goalseek.process import is_ending
from goalseek.project.approval import Approval, Question
from goalseek.project.limits import WARNING_SHARE, BudgetUse
from goalseek.project.picture import SILENT_SECONDS, OpenIteration, Picture, count_stages, seconds_since
from goalseek.project.progress import Progress
from goalseek.statistics.rotation import proposer_lines
from goalseek.values import Phase, StopReason
from goalseek.views import terminal_text
from goalseek.views.lines import LineWatch
from goalseek.views.screen import Screen, discard_input

_TAIL_BYTES = 8192


class LiveWatch(LineWatch):
    """Must be closed. ``ended`` says how a followed climb ended."""

    def __init__(self, color: str, is_verbose: bool) -> None:
        super().__init__(color, False, is_verbose)
        self.ended = ""
        self._color = color
        self._signs = terminal_text.choose_signs(sys.stdout)
        self._screen: Screen | None = None
        self._progress: Progress | None = None
        self._picture = Picture()
        self._progress_at = self._phase_start = self._wait_start = self._printed_at = time.monotonic()
        self._tail = b""
        self._is_asking = False

    def close(self) -> None:
        screen, self._screen = self._screen, None
        if screen:
            screen.stop()

    def on_progress(self, progress: Progress) -> None:
        self._progress, self._progress_at = progress, time.monotonic() - seconds_since(progress.read_at)
        self._open()

    def on_phase(self, iteration: int, name: str) -> None:
        self._picture = structs.replace(self._picture, phase=None, phase_started_at=None, turn="")
        self.on_picture(structs.replace(self._picture, iteration=iteration, phase=name))
        super().on_phase(iteration, name)

    def on_picture(self, picture: Picture) -> None:
        now, before, self._picture = time.monotonic(), self._picture, picture
        if before.waits and not picture.waits:  # the time of a wait counts neither for the phase nor for the budget
            self._phase_start += now - self._wait_start
            self._progress_at += now - self._wait_start
        if before.waits != picture.waits:
            self._wait_start = self._printed_at = now
        if (before.iteration, before.phase) != (picture.iteration, picture.phase):
            self._phase_start, self._printed_at = now - seconds_since(picture.phase_started_at), now
            self._tail = b""
        if before.turn != picture.turn:
            self._tail = b""
        if before.started_at != picture.started_at:
            self._progress_at = max(self._progress_at, now - seconds_since(picture.started_at))

    def on_output(self, chunk: bytes) -> None:
        self._printed_at = time.monotonic()
        self._tail = (self._tail + chunk[-_TAIL_BYTES:])[-_TAIL_BYTES:]

    def ask(self, question: Question, poll_approval: Callable[[], Approval | None]) -> Approval | None:
        """Replaces the panel by the question; input typed before is discarded."""
        self.close()
        discard_input()
        self._is_asking = True
        approval = super().ask(question, poll_approval)
        self._is_asking = False
        self._open()
        return approval

    def _open(self) -> None:
        if self._screen is None and not self._is_asking:
            self._screen = Screen(self._color, self._rows)
            self._screen.start()

    def _rows(self, columns: int) -> list[Text]:
        assert self._progress
        now, picture = time.monotonic(), self._picture
        if is_ending():
            picture = structs.replace(picture, status="waiting", next="interrupted; for running programs to end")
        silence = max(now - self._printed_at, seconds_since(picture.silent_since))
        says = format_silence(silence) or next(iter(terminal_text.clean_lines(self._tail)[::-1]), "").strip()
        frame = Frame(self._progress, picture, now - self._phase_start, now - self._progress_at, says)
        if self.ended:
            frame = Frame(self._progress, ended=self.ended)
        return panel_rows(frame, columns, self._signs)


MAX_COLUMNS = 100
_LABEL = 14
_BAR = 24
_NAMES: dict[str, str] = {
    Phase.READ_CONTEXT: "reading",
    Phase.PLAN: "planning",
    Phase.APPLY_CHANGE: "changing",
    Phase.COMMIT: "commit",
    Phase.VERIFY: "measuring",
    Phase.DECIDE: "deciding",
    Phase.APPROVE: "asking",
    Phase.LOG: "logging",
    Phase.SETTLE: "settling",
    Phase.HOLDOUT: "holdout",
}


class Frame(Struct, frozen=True):
    """``seconds`` of the phase, and ``since`` progress was read; ``says`` is output, ``ended`` an idle climb's end."""

    progress: Progress
    picture: Picture = Picture()
    seconds: float = 0.0
    since: float = 0.0
    says: str = ""
    ended: str = ""


def panel_rows(frame: Frame, columns: int, signs: terminal_text.Signs) -> list[Text]:
    """Always in one order, so that nothing flickers; each row has at most ``columns - 1`` cells, and at most 100."""
    progress, standing, picture = frame.progress, frame.progress.standing, frame.picture
    width = max(min(columns - 1, MAX_COLUMNS), 1)
    iteration = f"{signs.dot}iteration {picture.iteration}" if picture.iteration is not None else ""
    name = terminal_text.cut_to_cells(f"{progress.project}{iteration}", max(width - 4, 1))
    rule = signs.rule * max(width - 4 - terminal_text.cell_width(name), 0)
    title = Text.assemble((f"{signs.rule * 2} ", "dim"), (name, "bold"), (f" {rule}", "dim"))
    rows = [title, _row(*_phase(frame, signs), width)]
    if standing.best and standing.origin:
        best, baseline, unit = standing.best.value, standing.origin.value, standing.unit
        against = "the baseline's"
        if best != baseline:
            against = f"baseline {format_number(baseline, unit)}, {format_number(best - baseline, unit, sign='+')}"
        best_text = format_number(best, unit)
        row = _row("best", f"{best_text} {standing.metric}, {against}", "", width)
        row.stylize("green bold", _LABEL, _LABEL + len(best_text))
        room = width - row.cell_len - 3
        if signs is not terminal_text.ASCII and len(progress.climb) > 1 and room >= 4:
            row.append("   " + sparkline(progress.climb[-min(room, 30) :], signs.heights), "green")
        rows.append(row)
        tries = f"{standing.keeps} kept of {standing.tries}"
        if standing.keeps and standing.stagnation:
            tries += f"{signs.dot}{standing.stagnation} since the last kept change"
        rows.append(_row("tries", tries, "", width))
        whole = (signs.dot.join(progress.reasons[:count]) for count in range(len(progress.reasons), 0, -1))
        reasons = next((text for text in whole if terminal_text.cell_width(text) <= width - _LABEL), "")  # newest first
        rows.append(_row("last", reasons, "", width))
        lines = proposer_lines(progress.turn, progress.proposers, unit)
        rows += [_row(label, text, "", width) for label, text in lines]
    rows += [_bar(budget, frame.since, width, signs) for budget in progress.spendings]
    rows += [_row(str(one.iteration), format_under_way(one), "", width) for one in picture.under_way]
    if picture.balance:
        rows.append(_row("", terminal_text.one_line(picture.balance), "magenta", width))
    rows += [_row("worker", terminal_text.one_line(text), "", width) for text in picture.workers]
    if not frame.ended and not picture.under_way:
        rows.append(_row("prints", frame.says, "dim", width))
    for row in rows:
        row.no_wrap = True
        row.truncate(width)
    return rows


def format_under_way(one: OpenIteration) -> str:
    """``measuring, 1m 02s: a title``."""
    phase = _NAMES.get(one.phase or "", "proposing") if one.stage == "proposing" else one.stage
    text = f"{one.waits or phase}, {format_whole_seconds(seconds_since(one.since))}"
    return terminal_text.one_line(f"{text}: {one.title}" if one.title else text)


def format_silence(seconds: float) -> str:
    return f"nothing for {format_whole_seconds(seconds)}" if seconds >= SILENT_SECONDS else ""


def format_whole_seconds(seconds: float) -> str:
    """Changes once a second only."""
    return f"{int(seconds)}s" if seconds < 60 else format_duration(float(int(seconds)))


def _row(label: str, text: str, style: str, width: int) -> Text:
    return Text.assemble(
        (f"  {label:<{_LABEL - 2}}", "dim"), (terminal_text.cut_to_cells(text, max(width - _LABEL, 1)), style)
    )


def _phase(frame: Frame, signs: terminal_text.Signs) -> tuple[str, str, str]:
    picture, phase = frame.picture, frame.picture.phase or ""
    if frame.ended:
        return "ended", frame.ended, ""
    if picture.waits:
        return "waiting", terminal_text.one_line(picture.waits), "magenta"
    if picture.under_way:
        return "at once", count_stages(picture.under_way), "cyan"
    text = format_whole_seconds(frame.seconds) if phase else ""
    usual = frame.progress.usual.get(phase, 0.0)
    if usual >= 1:
        text += f", usually {format_whole_seconds(usual)}"
    if picture.turn:
        text += signs.dot + terminal_text.one_line(picture.turn)
    return _NAMES.get(phase, phase.lower()), text, "cyan"


def sparkline(values: tuple[float, ...], heights: str) -> str:
    low, high = min(values) / 2, max(values) / 2  # halves: the difference of two large numbers stays finite
    span = (high - low) or 1.0
    return "".join(heights[round((value / 2 - low) / span * (len(heights) - 1))] for value in values)


def _bar(budget: BudgetUse, since: float, width: int, signs: terminal_text.Signs) -> Text:
    spent = budget.spent + (since if budget.name == StopReason.TIME else 0.0)
    share = min(max(spent / budget.most, 0.0), 1.0)
    least = "at least " if budget.is_partial else ""
    text = f"{least}{_amount(budget.name, spent)} of {_amount(budget.name, budget.most)}"
    text += {"": "", "now": " this time"}.get(budget.of, f", {budget.of}")
    label = ("-n" if budget.name == StopReason.ITERATIONS else "--for") if budget.of == "now" else budget.name
    room = max(min(_BAR, width - _LABEL - terminal_text.cell_width(text) - 2), 0)
    full = round(share * room)
    return Text.assemble(
        (f"  {label:<{_LABEL - 2}}", "dim"),
        (signs.full * full, "magenta" if share >= WARNING_SHARE and budget.of != "now" else "cyan"),
        (signs.rest * (room - full) + ("  " if room else ""), "dim"),
        text,
    )


def _amount(name: str, value: float) -> str:
    if name == StopReason.TIME:
        return format_whole_seconds(value)
    if name == StopReason.COST:
        return format_dollars(value)
    for least, size, unit in ((999.5e6, 1e9, "G"), (999.5e3, 1e6, "M"), (9999.5, 1e3, "k")):
        if value >= least:
            return f"{value / size:.3g}{unit}"
    return f"{value:.0f}"
