"""The rule's verdicts in one line for people: ``3.1% better, odds 14:1, 3 runs against 5``."""

from __future__ import annotations

from goalseek.units import counted, number

_ODDS_MOST = 1000


def in_one_line(gain: float, incumbent: float, in_percent: bool, odds: float | None, runs: tuple[int, int]) -> str:
    """How much better, at what odds, how many runs of the candidate against how many of the incumbent.

    ``gain`` is in the metric's units, positive where better; percents are of the incumbent's median.
    """
    told = "as before" if gain == 0 else f"{amount(gain, incumbent, in_percent)} {'better' if gain > 0 else 'worse'}"
    candidate = counted(runs[0], "run")
    return ", ".join(filter(None, (told, odds_in_words(odds), f"{candidate} against {runs[1]}")))


def amount(gain: float, of: float, in_percent: bool) -> str:
    """The size of a gain: in percent ``of`` a value, or in the metric's units."""
    return percent(abs(gain / of)) if in_percent and of else number(abs(gain))


def percent(share: float) -> str:
    """A share as people read it: ``3.1%``, ``12%``, ``0.04%``."""
    return f"{100 * share:.0f}%" if share >= 1 else f"{100 * share:.{2 if share < 0.1 else 3}g}%"


def odds_in_words(odds: float | None) -> str:
    """``odds 14:1``, ``odds 1:3``; nothing where there are none."""
    if odds is None:
        return ""
    larger = odds if odds >= 1 else 1 / odds if odds > 0 else float("inf")
    shown = f"{_ODDS_MOST}" if larger >= _ODDS_MOST else f"{larger:.2g}" if larger < 10 else f"{larger:.0f}"
    return f"odds {shown}:1" if odds >= 1 else f"odds 1:{shown}"
