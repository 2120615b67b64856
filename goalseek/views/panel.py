"""The rows of the panel that shows a climb at work: calm, the same rows in the same places, never wider than asked."""

from __future__ import annotations

import typing
from dataclasses import dataclass

from goalseek.humanize import format_duration, format_number
from goalseek.project.limits import NEAR, Spending
from goalseek.project.progress import Progress
from goalseek.views.terminal_text import cells, cut

if typing.TYPE_CHECKING:
    from rich.text import Text


WIDEST = 100
_LABEL = 14
_BAR = 24
_NAMES = {
    "READ_CONTEXT": "reading",
    "PLAN": "planning",
    "APPLY_CHANGE": "changing",
    "COMMIT": "commit",
    "VERIFY": "measuring",
    "DECIDE": "deciding",
    "APPROVE": "asking",
    "LOG": "logging",
    "SETTLE": "settling",
    "HOLDOUT": "holdout",
}


@dataclass(frozen=True)
class Signs:
    """What a panel is drawn with."""

    rule: str = "─"
    full: str = "━"
    rest: str = "┄"
    heights: str = "▁▂▃▄▅▆▇█"
    dot: str = " · "


TYPED = Signs("-", "#", ".", "", " | ")


@dataclass(frozen=True)
class Activity:
    """What goes on at this moment. ``seconds`` are those of the phase so far, ``since`` those since the scene was told.

    ``turn`` says which run of VERIFY it is, ``waits`` what for, ``says`` what the child printed last; each may be "".
    ``ended`` says how a climb ended that does not go on.
    """

    iteration: int | None = None
    phase: str = ""
    seconds: float = 0.0
    since: float = 0.0
    turn: str = ""
    waits: str = ""
    says: str = ""
    ended: str = ""


def rows(scene: Progress, doing: Activity, columns: int, signs: Signs) -> list[Text]:
    """The panel, in rows of at most ``columns`` cells and 100."""
    width = max(min(columns - 1, WIDEST), 1)
    told = [_title(scene, doing, width, signs), _row(*_phase(scene, doing, signs), width)]
    if scene.best is not None and scene.baseline is not None:
        told.append(_best(scene, scene.best, scene.baseline, width, signs))
        told.append(_row("tries", _tries(scene, signs), "", width))
        told.append(_row("last", _reasons(scene, width, signs), "", width))
    told += [_bar(spending, doing, width, signs) for spending in scene.spendings]
    if not doing.ended:
        told.append(_row("prints", doing.says, "dim", width))
    for row in told:
        row.no_wrap = True
    return told


def duration(seconds: float) -> str:
    """A duration that does not flicker: whole seconds."""
    return f"{int(seconds)}s" if seconds < 60 else format_duration(float(int(seconds)))


def _title(scene: Progress, doing: Activity, width: int, signs: Signs) -> Text:
    from rich.text import Text

    iteration = f"{signs.dot}iteration {doing.iteration}" if doing.iteration is not None else ""
    name = cut(f"{scene.project}{iteration}", max(width - 4, 1))
    head = f"{signs.rule * 2} "
    row = Text.assemble((head, "dim"), (name, "bold"))
    row.append(f" {signs.rule * max(width - len(head) - cells(name) - 1, 0)}", "dim")
    row.truncate(width)
    return row


def _row(label: str, text: str, style: str, width: int) -> Text:
    from rich.text import Text

    row = Text.assemble((f"  {label:<{_LABEL - 2}}", "dim"), (cut(text, max(width - _LABEL, 1)), style))
    row.truncate(width)
    return row


def _phase(scene: Progress, doing: Activity, signs: Signs) -> tuple[str, str, str]:
    """Label, text and style of the row of what goes on."""
    if doing.ended:
        return "ended", doing.ended, ""
    if doing.waits:
        return "waiting", doing.waits, "magenta"
    told = duration(doing.seconds) if doing.phase else ""
    usual = scene.usual.get(doing.phase)
    if usual is not None and usual >= 1:
        told += f", usually {duration(usual)}"
    return _NAMES.get(doing.phase, doing.phase.lower()), told + (signs.dot + doing.turn if doing.turn else ""), "cyan"


def _best(scene: Progress, best: float, baseline: float, width: int, signs: Signs) -> Text:
    told = f"{format_number(best)} {scene.metric}"
    against = (
        f", baseline {format_number(baseline)}, {best - baseline:+.6g}" if best != baseline else ", the baseline's"
    )
    row = _row("best", told + against, "", width)
    row.stylize("green bold", _LABEL, _LABEL + len(format_number(best)))
    room = width - row.cell_len - 3
    if signs.heights and len(scene.climb) > 1 and room >= 4:
        row.append("   " + spark(scene.climb[-min(room, 30) :], signs.heights), "green")
    return row


def spark(values: tuple[float, ...], heights: str) -> str:
    """A letter a value, from the lowest to the highest."""
    low, high = min(values) / 2, max(values) / 2  # halves: the difference of two large numbers stays finite
    span = (high - low) or 1.0
    return "".join(heights[round((value / 2 - low) / span * (len(heights) - 1))] for value in values)


def _tries(scene: Progress, signs: Signs) -> str:
    told = f"{scene.kept} kept of {scene.tried}"
    return told + (f"{signs.dot}{scene.stagnation} since the last keep" if scene.kept and scene.stagnation else "")


def _reasons(scene: Progress, width: int, signs: Signs) -> str:
    """As many whole reasons as fit, newest first."""
    told = ""
    for reason in scene.reasons:
        longer = told + (signs.dot if told else "") + reason
        if cells(longer) > width - _LABEL:
            break
        told = longer
    return told


def _bar(spending: Spending, doing: Activity, width: int, signs: Signs) -> Text:
    from rich.text import Text

    spent = spending.spent + (doing.since if spending.name == "time" else 0.0)
    share = min(max(spent / spending.most, 0.0), 1.0)
    told = f"{_amount(spending.name, spent)} of {_amount(spending.name, spending.most)}"
    told += {"": "", "now": " this time"}.get(spending.of, f", {spending.of}")
    room = max(min(_BAR, width - _LABEL - cells(told) - 2), 0)
    full = round(share * room)
    row = Text.assemble((f"  {spending.name:<{_LABEL - 2}}", "dim"))
    row.append(signs.full * full, "magenta" if share >= NEAR and spending.of != "now" else "cyan")
    row.append(signs.rest * (room - full) + ("  " if room else ""), "dim")
    row.append(told)
    row.truncate(width)
    return row


def _amount(name: str, value: float) -> str:
    if name == "time":
        return duration(value)
    if name == "cost":
        return f"${value:.2f}"
    for least, size, unit in ((999.5e6, 1e9, "G"), (999.5e3, 1e6, "M"), (9999.5, 1e3, "k")):
        if value >= least:
            return f"{value / size:.3g}{unit}"
    return f"{value:.0f}"
