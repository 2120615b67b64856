"""The progress of a climb between two records, and the warnings about its numbers and budgets."""

import math
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from msgspec import Struct

from goalseek.humanize import format_number, pluralize
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import FRESH, Manifest, Metric
from goalseek.project.limits import BudgetUse, budgets_of
from goalseek.records import IterationRecord
from goalseek.statistics.guards import guard_warning
from goalseek.statistics.noise import median
from goalseek.statistics.rotation import Proposer, Turn, labels_of
from goalseek.values import Outcome

REASONS_LIMIT = 6
MIN_FRUITLESS = 5
MEDIAN_OF = 15
PACE_ITERATIONS = 5
MIN_KEEPS = 5
STANDARD_ERRORS = 4.0  # of a proportion


class Progress(Struct, frozen=True):
    project: str
    standing: Standing = Standing()
    climb: tuple[float, ...] = ()  # the values of this epoch's baseline and keeps, oldest first
    reasons: tuple[str, ...] = ()  # newest first
    spendings: tuple[BudgetUse, ...] = ()
    turn: Turn = Turn(())  # of the next proposal
    proposers: tuple[Proposer, ...] = ()
    usual: dict[str, float] = {}  # median seconds by phase
    read_at: str = ""  # seconds since then are in no record; "": since now


def progress_of(
    manifest: Manifest,
    standing: Standing,
    newest_first: Iterable[IterationRecord],
    own: str,
    invocation_spendings: tuple[BudgetUse, ...] = (),
    read_at: str = "",
) -> Progress:
    """``own`` is the provider's name and model; ``invocation_spendings`` are of the invocation's own bounds."""
    records = list(newest_first)
    tries = [record for record in records if record.outcome != Outcome.BASELINE]
    keeps = [record for record in reversed(tries) if record.epoch == standing.epoch and record.outcome == Outcome.KEPT]
    first = [standing.origin.value] if standing.origin else []
    return Progress(
        manifest.project.name,
        standing,
        climb=(*first, *(record.metric.value for record in keeps if record.metric.value is not None)),
        reasons=tuple(record.reason for record in tries[:REASONS_LIMIT]),
        spendings=(*invocation_spendings, *budgets_of(manifest.limits, standing)),
        turn=standing.rotation.next_turn(manifest.search, own),
        proposers=standing.proposers,
        usual=median_seconds(tries),
        read_at=read_at,
    )


def own_label(manifest: Manifest, standing: Standing) -> str:
    """Name and model of the provider for a mere reader: the command line of the run may have named another one."""
    turn = standing.last.turn_of if standing.last else None
    if turn and turn not in labels_of(manifest.search):
        return turn.removesuffix(f" {FRESH}")
    return manifest.provider.label if manifest.provider else ""


def median_seconds(tries: Iterable[IterationRecord]) -> dict[str, float]:
    """Median seconds of each phase, over its last MEDIAN_OF iterations."""
    rows = [record.seconds for record in tries]
    phases = dict.fromkeys(chain.from_iterable(rows))
    return {phase: median(list(islice((row[phase] for row in rows if phase in row), MEDIAN_OF))) for phase in phases}


def median_iteration_seconds(newest_first: Iterable[IterationRecord]) -> float | None:
    """None if there were only baselines."""
    tries = (record for record in newest_first if record.outcome != Outcome.BASELINE)
    seconds = [sum(record.seconds.values()) for record in islice(tries, PACE_ITERATIONS)]
    return median(seconds) if seconds else None


def pairs_to_settle(metric: Metric, standing: Standing) -> int:
    """How many pairs a settling at the end takes, if it is due; a single one tells all of cases that repeat exactly."""
    if not standing.keeps or standing.settled:
        return 0
    if standing.noise.differed or metric.noise == "always":
        return metric.settle or 0
    return min(1, metric.settle or 0) if metric.cases else 0


def small_set_warning(metric: Metric, standing: Standing) -> str | None:
    """A warning if five keeps or more gained less than 4·√(p(1 - p)/n): n examples, baseline p; else None."""
    baseline, best = standing.origin, standing.best
    if metric.examples is None or baseline is None or best is None or standing.keeps < MIN_KEEPS:
        return None
    if not 0 < baseline.value < 1:
        return None
    gain = abs(best.value - baseline.value)
    bound = STANDARD_ERRORS * math.sqrt(baseline.value * (1 - baseline.value) / metric.examples)
    if gain >= bound:
        return None
    return (
        f"{standing.keeps} kept changes gained {format_number(gain)} on {metric.examples} examples, where chance "
        f"reaches {format_number(bound)}: measure on more examples, or add a [holdout]"
    )


def fruitless_warnings(standing: Standing) -> Iterator[str]:
    """A warning if five or more candidates all gave the baseline's number, and one if no change merges."""
    if (standing.unmoved or 0) >= MIN_FRUITLESS:
        yield "no candidate has moved the number: check with goalseek doctor that the verifier reads them"
    if standing.unmerged >= MIN_FRUITLESS:
        yield (
            f"{standing.unmerged} merges of changes failed: both edit the same lines, for example the end of one file, "
            "or the result was measured already: goalseek help parallel"
        )


def guard_notice(manifest: Manifest, standing: Standing) -> str:
    """A warning if the incumbent breaks a guard's bound, which the ruler does not pin; else ""."""
    if standing.incumbent is None or standing.baseline is None:
        return ""
    subject = "the baseline" if not standing.keeps else "the incumbent"
    return guard_warning(manifest.guard, subject, standing.incumbent.guards, standing.baseline.guards)


def open_warning(standing: Standing) -> str:
    """A sentence on kept tries from checkouts; "" if there are none."""
    count = standing.open_keeps
    return f"{pluralize(count, 'kept change')} by an author who could read the hidden files" if count else ""


def direction_warning(metric: Metric, standing: Standing) -> str:
    """A warning if the manifest's direction is not that of the kept changes; else ""."""
    if not standing.keeps or standing.direction in ("", metric.direction):
        return ""
    return "kept changes have the other metric.direction: goalseek baseline --from HEAD starts from your own code"
