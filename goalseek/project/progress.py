"""What a climb is doing, its progress between two records, and the warnings about its numbers and budgets."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from goalseek.files import write_atomic
from goalseek.humanize import format_duration, format_number
from goalseek.ledger.records import IterationRecord
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import FRESH, Manifest, Metric
from goalseek.project.limits import BudgetUse, Clock, budget_use
from goalseek.project.state_file import ACTIVE_STATUSES, RunState, StateFile, utc_now
from goalseek.statistics.guards import guard_warning
from goalseek.statistics.rotation import Proposer, Turn, labels_of
from goalseek.values import DataClass, Outcome, Phase, Usage

if TYPE_CHECKING:  # status asks for the progress alone
    from goalseek.ledger.checkpoints import PhaseSeconds
    from goalseek.phase_values import Ahead
    from goalseek.project.observer import Observer

REASONS_LIMIT = 6
MIN_FRUITLESS = 5
MOMENT_SECONDS = 2.0
MEDIAN_OF = 15


class Progress(DataClass):
    """The values and budgets that a view shows before the next record.

    ``best`` and ``baseline`` are values of this epoch, None before the first; ``climb`` are the baseline's and those
    of the keeps after it, oldest first; ``reasons`` of the last iterations are newest first. ``usual`` are the median
    seconds of each phase. ``turn`` is that of the next proposal.
    """

    project: str
    metric: str = ""
    direction: str = ""
    unit: str = ""
    baseline: float | None = None
    best: float | None = None
    climb: tuple[float, ...] = ()
    kept: int = 0
    tried: int = 0
    stagnation: int = 0
    reasons: tuple[str, ...] = ()
    spendings: tuple[BudgetUse, ...] = ()
    turn: Turn = Turn(())
    proposers: tuple[Proposer, ...] = ()
    usual: dict[str, float] = field(default_factory=dict)


def format_turn(side: str, number: int) -> str:
    """``run 3, the incumbent again``."""
    return f"run {number}, the {side}{' again' if side == 'incumbent' else ''}"


class Activity:
    """What an invocation is doing, as ``state.json`` shows it, and the seconds that it has worked.

    ``phase_seconds`` count the present step's time. ``waited`` are the seconds of waits since the last record, by what
    was waited for. ``clock`` is that of deadlines.
    """

    def __init__(self, state: Path, observer: Callable[[], Observer]) -> None:
        self.picture = StateFile(state)
        self.clock = Clock.started()
        self.started_at = utc_now()
        self.last_phase = ""
        self.phase_seconds: PhaseSeconds | None = None
        self.waited: dict[str, float] = {}
        self._observer = observer
        self._idle_seconds = 0.0
        self._wait_start: float | None = None

    def beside(self, observer: Callable[[], Observer]) -> Activity:
        """That of another thread of the same invocation, which has its own phases and waits, and writes no file."""
        other = copy.copy(self)
        other.picture, other._observer = StateFile(None), observer
        other.last_phase, other.phase_seconds, other.waited, other._wait_start = "", None, {}, None
        return other

    def state_of(
        self, status: str, run_id: str, iteration: int | None, phase: str | None, stop: tuple[str, str]
    ) -> RunState:
        """The state of now; ``stop`` is the reason of an end, and what a person can do, in words."""
        now = utc_now()
        ended_at = None if status in ACTIVE_STATUSES else now
        times = (self.started_at, iteration, phase, now if phase else None, stop[0] or None, ended_at)
        return RunState(status, run_id, *times, stop[1])

    def beat(self) -> None:
        """Keeps the state file and the stored seconds fresh."""
        self.picture.beat()
        if self.phase_seconds:
            self.phase_seconds.beat()

    def show_turn(self, side: str, number: int) -> None:
        """Shows which tree is measured, in its run of this number."""
        self._observer().on_measurement(side, number)
        if self.last_phase == Phase.VERIFY:
            self.picture.set_turn(format_turn(side, number))

    def seconds(self) -> float:
        """Seconds on a clock that stops while the run waits for somebody else, and while the machine sleeps."""
        return (time.monotonic() if self._wait_start is None else self._wait_start) - self._idle_seconds

    @contextlib.contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """While this block waits, ``state.json`` and the view say what for, and the time counts for no phase."""
        start = self._wait_start = time.monotonic()
        observer = self._observer()
        observer.on_note(text)
        observer.on_wait(text)
        self.picture.waiting(text)
        try:
            yield
        finally:
            self._wait_start = None
            self._idle_seconds += time.monotonic() - start
            observer.on_wait("")
            self.picture.waiting("")

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for somebody else now."""
        return self._wait_start is not None

    def note_wait(self, why: str, seconds: float) -> None:
        """Adds a wait that is over to those for the same."""
        self.waited[why] = self.waited.get(why, 0.0) + seconds

    @property
    def wait_notes(self) -> tuple[str, ...]:
        """A sentence for each thing that was waited for since the last record."""
        return tuple(f"waited {format_duration(seconds)}: {why}" for why, seconds in self.waited.items())

    @contextlib.contextmanager
    def making_tree(self, root: Path) -> Iterator[None]:
        """Notes that a tree is being made, where this block takes longer than ``MOMENT_SECONDS``."""
        text = f"a tree of the repository is being made in {root}: once, later it is only brought up to date"
        timer = threading.Timer(MOMENT_SECONDS, lambda: self._observer().on_note(text))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def progress_of(
    manifest: Manifest,
    standing: Standing,
    newest_first: Iterable[IterationRecord],
    own: str,
    invocation_spendings: tuple[BudgetUse, ...] = (),
) -> Progress:
    """The progress of a standing and its last records.

    ``own`` is the provider's name and model, ``invocation_spendings`` are those of the invocation's own bounds.
    """
    records, project = list(newest_first), manifest.project.name
    spendings = (*invocation_spendings, *budget_use(manifest.limits, standing))
    if standing.origin is None or standing.best is None:
        return Progress(project, spendings=spendings)
    keeps = [
        record.metric.value for record in records if record.epoch == standing.epoch and record.outcome == Outcome.KEPT
    ]
    tries = [record for record in records if record.outcome != Outcome.BASELINE]
    return Progress(
        project=project,
        metric=standing.metric,
        direction=standing.direction,
        unit=standing.unit,
        baseline=standing.origin.value,
        best=standing.best.value,
        climb=(standing.origin.value, *(value for value in reversed(keeps) if value is not None)),
        kept=standing.keeps,
        tried=standing.tries,
        stagnation=standing.stagnation,
        reasons=tuple(record.reason for record in tries[:REASONS_LIMIT]),
        spendings=spendings,
        turn=standing.next_turn(manifest.search, own),
        proposers=standing.proposers,
        usual=median_seconds(tries),
    )


class Beside(Struct, frozen=True):
    """The iterations that are under way: as proposals see them, and what they have spent by now.

    ``call`` is what a call usually takes; ``proposing`` counts those of them that have one under way.
    """

    ahead: tuple[Ahead, ...] = ()
    seconds: float = 0.0
    usage: Usage = Usage()
    proposing: int = 0
    call: Usage = Usage()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.ahead)

    @property
    def is_first_call(self) -> bool:
        """Whether none of them has had an answer, and so it is not known what a call takes."""
        return self.proposing == self.count and self.call == Usage()

    @property
    def recorded(self) -> Beside:
        """What they have spent, without themselves."""
        return structs.replace(self, ahead=())

    def add_to(self, standing: Standing) -> Standing:
        """The standing with what they have spent, each of them counted as an iteration."""
        spend = standing.spending(self.seconds, self.usage)
        return structs.replace(
            spend,
            spend=structs.replace(spend.spend, iterations=spend.spend.iterations + self.count),
            total=structs.replace(spend.total, iterations=spend.total.iterations + self.count),
        )


ALONE = Beside()


def own_label(manifest: Manifest, standing: Standing) -> str:
    """Name and model of the provider itself, for whoever only looks: the command line may have named another one."""
    turn = standing.last.turn_of if standing.last else None
    if turn and turn not in labels_of(manifest.search):
        return turn.removesuffix(f" {FRESH}")
    return manifest.provider.label if manifest.provider else ""


def median_seconds(tries: Iterable[IterationRecord]) -> dict[str, float]:
    """The median seconds of each phase, over the last ``MEDIAN_OF`` iterations that had it."""
    from statistics import median

    times: dict[str, list[float]] = {}
    for record in tries:
        for phase, seconds in record.seconds.items():
            if len(phase_times := times.setdefault(phase, [])) < MEDIAN_OF:
                phase_times.append(seconds)
    return {phase: median(phase_times) for phase, phase_times in times.items()}


MIN_KEEPS = 5
STANDARD_ERRORS = 4.0  # standard errors of a proportion


def needs_settling(manifest: Manifest, standing: Standing) -> bool:
    """Whether to settle: something was kept, the metric is noisy, and the best is not settled yet."""
    if not standing.keeps or not manifest.metric.settle:
        return False
    is_noisy = standing.noise.differed or manifest.metric.noise == "always"
    return is_noisy and standing.settled is None


def small_set_warning(metric: Metric, standing: Standing) -> str | None:
    """A warning where five keeps or more have gained less than 4·√(p(1 - p)/n) on n examples, p being the baseline's.

    None where ``metric.examples`` is not given, or the metric is no proportion.
    """
    baseline, best = standing.origin, standing.best
    if metric.examples is None or baseline is None or best is None or standing.keeps < MIN_KEEPS:
        return None
    if not 0 < baseline.value < 1:
        return None
    gain, bound = abs(best.value - baseline.value), luck_bound(baseline.value, metric.examples)
    if gain >= bound:
        return None
    return (
        f"{standing.keeps} kept changes gained {format_number(gain)} on {metric.examples} examples, where chance "
        f"reaches {format_number(bound)}: a larger set, or a [holdout], would tell"
    )


def fruitless_warnings(standing: Standing) -> Iterator[str]:
    """A warning where five candidates or more all gave the baseline's number, and one where no change merges."""
    if (standing.unmoved or 0) >= MIN_FRUITLESS:
        yield "no candidate has moved the number: goalseek doctor says whether the verifier reads them"
    if standing.unmerged >= MIN_FRUITLESS:
        yield (
            f"{standing.unmerged} merges of changes came to nothing: they edit the same lines, as additions at the end "
            "of one file do, or give code that was measured already: goalseek help parallel"
        )


def guard_notice(manifest: Manifest, standing: Standing) -> str:
    """A warning where the incumbent breaks the bound of a guard, which the ruler does not pin; else ""."""
    if standing.incumbent is None or standing.baseline is None:
        return ""
    subject = "the baseline" if not standing.keeps else "the incumbent"
    return guard_warning(manifest.guard, subject, standing.incumbent.guards, standing.baseline.guards)


def direction_warning(metric: Metric, standing: Standing) -> str:
    """A warning where the manifest's direction is not the one by which the incumbent was kept; else ""."""
    if not standing.keeps or standing.direction in ("", metric.direction):
        return ""
    return "the incumbent was chosen by the other direction: goalseek baseline --from HEAD starts from your own code"


def luck_bound(share: float, examples: int) -> float:
    """Four standard errors of a proportion measured on so many examples."""
    return STANDARD_ERRORS * math.sqrt(share * (1 - share) / examples)


_WARNED_FILE = "warned.json"


def new_warnings(logs: Path, run_id: str, warnings: Mapping[str, str]) -> list[str]:
    """The warnings, given by their budget, that this run has not shown yet; stores that they are shown."""
    path = logs / _WARNED_FILE
    known_budgets = _read_known_budgets(path, run_id)
    if known_budgets != set(warnings) and logs.is_dir():
        write_atomic(path, json.dumps({"run_id": run_id, "budgets": sorted(warnings)}) + "\n")
    return [text for budget, text in warnings.items() if budget not in known_budgets]


def _read_known_budgets(path: Path, run_id: str) -> set[str]:
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        state = json.loads(path.read_text())
        return set(state["budgets"]) if state["run_id"] == run_id else set()
    return set()
