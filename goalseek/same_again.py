"""Whether a measurement made again is the one that was recorded. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from goalseek.humanize import number, share_of
from goalseek.ledger.records import IterationRecord
from goalseek.manifest.tables import Guard, Manifest
from goalseek.phase_values import Evidence
from goalseek.statistics.bounds import broken, outside
from goalseek.values import CommandRun

How = Literal["equal", "within", "differs"]


@dataclass(frozen=True)
class Compared:
    """One number, recorded and again. ``difference`` is in its units, ``percent`` of the recorded one (none of 0).

    ``within``: the metric's difference is less than ``min_delta``, or ``is_noise``; a guard's changes nothing about its
    bounds. ``once_more`` is what the same measurement gave a second time, where it was made.
    """

    name: str
    recorded: float
    again: float
    difference: float
    percent: float | None
    how: How
    text: str
    once_more: float | None = None
    is_noise: bool = False


@dataclass(frozen=True)
class SameAgain:
    """What came of it, in words a line each; ``how`` is that of the number that is furthest off."""

    how: How
    text: tuple[str, ...]
    numbers: tuple[Compared, ...] = ()


def same_again(
    manifest: Manifest,
    baseline_guards: Mapping[str, float],
    record: IterationRecord,
    recorded: float | None,
    evidence: Evidence,
) -> SameAgain:
    """Holds evidence against a record, whose value with the same seed is ``recorded``; None where it failed."""
    if recorded is None:
        return _of_failures(record, evidence)
    if evidence.failure:
        return SameAgain("differs", (f"it was measured then, and fails now: {_failed(evidence)}",))
    value = evidence.runs[0].value
    assert value is not None
    metric = manifest.metric
    margin = share_of(metric.min_delta, recorded)
    numbers = [_compared(metric.name, recorded, value, abs(value - recorded) < margin, "less than min_delta")]
    for guard in manifest.guard:
        before, after = record.guards.get(guard.name), evidence.guards[guard.name]
        if before is None:
            return SameAgain("differs", (f"{guard.name} is not in the record, and {number(after)} now",))
        is_within = _verdict(guard, before, baseline_guards) == _verdict(guard, after, baseline_guards)
        numbers.append(_compared(guard.name, before, after, is_within, "on the same side of its bounds"))
    how: How = max((found.how for found in numbers), key=("equal", "within", "differs").index)
    return SameAgain(how, tuple(found.text for found in numbers), tuple(numbers))


def _of_failures(record: IterationRecord, evidence: Evidence) -> SameAgain:
    if not evidence.failure:
        value = evidence.runs[0].value
        assert value is not None
        return SameAgain("differs", (f"it failed then ({record.reason}), and gives {number(value)} now",))
    before = _ending(record.reason, record.verify)
    after = _ending(evidence.failure.reason, evidence.verify)
    if before == after:
        return SameAgain("equal", (f"it fails again the same way: {_failed(evidence)}",))
    return SameAgain("differs", (f"it fails again, but otherwise: {_failed(evidence)}", f"recorded was: {record.why}"))


def _failed(evidence: Evidence) -> str:
    assert evidence.failure
    return f"{evidence.failure.reason}: {evidence.failure.why}"


def _ending(reason: str, verify: tuple[CommandRun, ...]) -> tuple[str, str, int | None]:
    """The reason, the last command, and its exit code, which is chance where its time was up."""
    if not verify:
        return reason, "", None
    return reason, verify[-1].name, None if reason == "verify_timeout" else verify[-1].exit_code


def _compared(name: str, recorded: float, again: float, is_within: bool, why_within: str) -> Compared:
    difference = again - recorded
    if difference == 0:
        return Compared(name, recorded, again, 0.0, 0.0, "equal", f"{name}: {number(again)} again, to the last bit")
    percent = 100 * difference / abs(recorded) if recorded else None
    shown = [number(recorded), number(again)]
    if shown[0] == shown[1]:
        shown = [repr(recorded), repr(again)]
    share = "" if percent is None else f", {percent:+.3g}%"
    text = f"{name}: recorded {shown[0]}, now {shown[1]}: {difference:+.6g}{share}"
    text += f"; {why_within}" if is_within else ""
    return Compared(name, recorded, again, difference, percent, "within" if is_within else "differs", text)


def _verdict(guard: Guard, value: float, baseline: Mapping[str, float]) -> tuple[bool, bool]:
    return outside(guard.name, guard.valid, value) is None, broken(guard, value, baseline.get(guard.name)) is None
