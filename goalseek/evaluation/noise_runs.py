"""Repeated measurements of unchanged code, for ``noise``: how much does the number move by itself?

Either of a shell command without manifest, repository or sandbox, or of the incumbent with the project's verifier.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from goalseek.errors import BAD_FINDING, GoalseekError
from goalseek.evaluation.benches import Crew, side_by_side
from goalseek.evaluation.measurements import (
    Evaluation,
    MeasuredValue,
    Target,
    baseline_error,
    current_target,
    in_turn,
    measure_target,
    number_in,
    record_measurement,
    trial_folder,
    unused_seed,
    with_last_lines,
)
from goalseek.humanize import format_duration
from goalseek.ledger.records import IterationRecord, MeasurementRecord
from goalseek.manifest.tables import Reading
from goalseek.measurement.metric import NoNumber, read_json, read_text, to_finite
from goalseek.phase_values import Failure
from goalseek.process import deferring_signals
from goalseek.project.fitness import check_fit
from goalseek.project.project import Project
from goalseek.sandbox.pipes import HeadAndTail
from goalseek.sandbox.supervisor import ProgramResult, Supervisor
from goalseek.sandbox.view import Launch
from goalseek.statistics.noise_state import setting_of
from goalseek.values import Outcome, Reason, VerifierRun

MAX_FAILURES = 3


Runs = tuple[MeasuredValue | Failure, ...]
"""One run that was made alone, or several that were made at once."""


def run_command(
    command: str, folder: Path, reading: Reading, timeout: float | None, count: int, jobs: int = 1
) -> Iterator[Runs]:
    """Runs a shell command until ``count`` runs gave a number, each with another ``GOALSEEK_SEED``; see ``_repeat``.

    ``reading.source`` is stdout, json (on stdout) or wall; ``timeout`` is in seconds, None for no limit. With more
    ``jobs`` than one, so many are run at once in turn with each run.
    """
    crew = Crew()

    def run(slot: int, programs: Supervisor) -> MeasuredValue | Failure:
        seed = secrets.randbelow(2**31)
        printed = HeadAndTail()
        variables = {**os.environ, "GOALSEEK_SEED": str(seed), "GOALSEEK_SLOT": str(slot)}
        launch = Launch(("sh", "-c", command), variables, folder)
        result = programs.run(launch, printed.write, timeout)
        try:
            value = _value_of(reading, result, timeout)
        except NoNumber as error:
            return Failure(error.reason, error.why, printed.content().decode("utf-8", "replace"))
        return MeasuredValue(value, {}, (), round(result.seconds, 6), seed)

    def first_error(failure: Failure) -> GoalseekError:
        message = with_last_lines(f"the first run has no number: {failure.why}", failure.printed)
        return GoalseekError(message, "correct the command, or how its number is read, and run this again", BAD_FINDING)

    with contextlib.ExitStack() as stack:
        owner = f"noise-{os.getpid()}-{secrets.token_hex(4)}"
        tasks = [
            functools.partial(
                run, slot, stack.enter_context(Supervisor(owner, pulse=crew.check, waiting=crew.baton.let_go))
            )
            for slot in range(jobs)
        ]
        stack.enter_context(crew.baton)
        turns = _turns(count, lambda: (tasks[0](),), (lambda: crew.run(tasks)) if jobs > 1 else None)
        yield from _repeat(turns, first_error)


def _turns(
    count: int, measure: Callable[[], Runs], measure_at_once: Callable[[], Runs] | None
) -> Iterable[Callable[[], Runs]]:
    """What is done in turn: so many runs alone, and as often several at once where that is given."""
    if measure_at_once is None:
        return [measure] * count
    return [in_turn(index, measure, measure_at_once) for index in range(2 * count)]


def _repeat(
    turns: Iterable[Callable[[], Runs]], first_error: Callable[[Failure], GoalseekError] | None
) -> Iterator[Runs]:
    """Takes each turn, again where a run of it failed; after three such runs nothing more is run.

    Where ``first_error`` is given, it is raised where the first run fails.
    """
    failures = 0
    for measure in turns:
        is_done = False
        while not is_done:
            if failures >= MAX_FAILURES:
                return
            runs = measure()
            failed = [run for run in runs if isinstance(run, Failure)]
            if failed and first_error:
                raise first_error(failed[0])
            first_error, is_done = None, not failed
            failures += len(failed)
            yield runs


def _value_of(reading: Reading, result: ProgramResult, timeout: float | None) -> float:
    """The number of one run. Raises NoNumber where it failed or has none."""
    if result.timed_out:
        limit = format_duration(timeout or 0.0)
        raise NoNumber(Reason.VERIFY_TIMEOUT, f"the command ran past its limit, {limit}")
    if result.exit_code != 0:
        raise NoNumber(Reason.VERIFY_FAILED, f"the command ended with {result.exit_code}")
    if reading.source == "wall":
        return to_finite(reading.name, result.seconds)
    text = result.stdout.decode("utf-8", "replace")
    if reading.source == "json":
        return read_json(reading, text)
    try:
        return read_text(reading, text)
    except NoNumber as error:
        with contextlib.suppress(NoNumber):
            read_text(reading, result.stderr.decode("utf-8", "replace"))
            error.why += ", but in stderr; end the command with 2>&1"
        raise


def noise_target(project: Project) -> Target:
    """What is measured repeatedly: the incumbent, or HEAD before a baseline. ``known`` are its measurements so far,
    without the one that it was kept for, which is biased by that choice.

    Raises GoalseekError where repository and manifest do not fit.
    """
    check_fit(project)
    has_begun = project.standing.baseline is not None
    target = current_target(Evaluation(project, project.config() if has_begun else project.config_for_baseline()))
    return replace(target, known=_runs_before(project, target)) if has_begun else target


def repeat_measurements(project: Project, target: Target, count: int, jobs: int = 1) -> Iterator[Runs]:
    """Yields ``count`` measurements: the newest recorded ones first, then new ones, each recorded; see ``_repeat``.

    With more ``jobs`` than one all are new: so many are made at once in turn with each, and those are not recorded.
    """
    known = target.known[-count:] if jobs == 1 else ()
    yield from ((measurement,) for measurement in known)
    seeds = {measurement.seed for measurement in target.known}

    def measure(project: Project) -> MeasuredValue | Failure:
        seed = next(seed for number in itertools.count() if (seed := unused_seed(project, number)) not in seeds)
        seeds.add(seed)
        result = number_in(target, measure_target(project, target, seed))
        return result if isinstance(result, MeasuredValue) else Failure(result.reason, result.why)

    def measure_and_record(own: Project) -> Runs:
        result = measure(own)
        if isinstance(result, MeasuredValue):
            with deferring_signals():
                record_measurement(project, target, result, "noise")
        return (result,)

    def first_error(failure: Failure) -> GoalseekError:
        return baseline_error(failure, trial_folder(project))

    error = None if known else first_error
    if jobs == 1:
        yield from _repeat(_turns(count - len(known), lambda: measure_and_record(project), None), error)
        return
    crew = Crew()
    with side_by_side(project, crew, jobs) as projects:
        tasks = [functools.partial(measure, beside) for beside in projects]
        yield from _repeat(_turns(count, lambda: measure_and_record(projects[0]), lambda: crew.run(tasks)), error)


def _runs_before(project: Project, target: Target) -> tuple[MeasuredValue, ...]:
    """The incumbent's measurements in the order of the records, without the one that it was kept for.

    None is of a time when several measurements were made at once.
    """
    standing, incumbent = project.standing, project.standing.incumbent
    assert incumbent
    record = project.ledger.history.iteration(incumbent.iteration)
    is_baseline = record is not None and record.outcome == Outcome.BASELINE
    own = [run for run in record.runs if run.of == "candidate"] if record and _is_measured_alone(record) else []
    later = [
        record
        for record in project.ledger.recent
        if record.seq > incumbent.seq
        and record.base_commit_hash in (None, incumbent.commit)
        and _is_measured_alone(record)
    ]
    runs: list[tuple[int, VerifierRun | MeasurementRecord]] = [
        *((incumbent.seq, run) for run in (own if is_baseline else own[1:])),
        *((record.seq, run) for record in later for run in record.runs if run.of == "incumbent"),
        *((record.seq, record) for record in standing.pooled(target.tree, target.ruler)),
    ]
    return tuple(
        MeasuredValue(run.value, {}, (), run.seconds, run.seed, before=True)
        for _, run in sorted(runs, key=lambda item: item[0])
        if run.value is not None
    )


def _is_measured_alone(record: IterationRecord) -> bool:
    return setting_of(record.benches, record.host) == (None, None)
