"""Repeated measurements of unchanged code, for ``noise``: how much does the number move by itself?

Either of a shell command without manifest, repository or sandbox, or of the incumbent with the project's verifier.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from msgspec import structs

from goalseek.errors import BAD_FINDING, GoalseekError
from goalseek.evaluation.measurements import (
    Evaluation,
    MeasuredValue,
    Number,
    Target,
    TreeRun,
    baseline_error,
    current_target,
    measure_in_turn,
    record_number,
    trial_folder,
    with_last_lines,
)
from goalseek.humanize import format_duration
from goalseek.manifest.tables import Reading
from goalseek.measurement.metric import NoNumber, read_json, read_text, to_finite
from goalseek.phase_values import Failure
from goalseek.project.project import Project
from goalseek.records import IterationRecord, MeasurementRecord
from goalseek.sandbox.pipes import HeadAndTail
from goalseek.sandbox.supervisor import ProgramResult, Supervisor
from goalseek.sandbox.view import Launch
from goalseek.statistics.noise_state import setting_of
from goalseek.values import Outcome, Reason, VerifierRun

MAX_FAILURES = 3


def repeat_command(command: str, folder: Path, reading: Reading, timeout: float | None, count: int) -> Iterator[Number]:
    """Runs a shell command until ``count`` runs gave a number, or three none, each with another ``GOALSEEK_SEED``.

    ``reading.source`` is stdout, json (on stdout) or wall; ``timeout`` is in seconds, None for no limit.
    """

    made: list[Number] = []
    with Supervisor(f"noise-{os.getpid()}-{secrets.token_hex(4)}") as programs:
        while not _is_enough(made, count):
            seed, printed = secrets.randbelow(2**31), HeadAndTail()
            variables = {**os.environ, "GOALSEEK_SEED": str(seed), "GOALSEEK_SLOT": "0"}
            result = programs.run(Launch(("sh", "-c", command), variables, folder), printed.write, timeout)
            try:
                value = _value_of(reading, result, timeout)
                made.append(MeasuredValue(value, {}, (), round(result.seconds, 6), seed))
            except NoNumber as error:
                if not made:
                    text = printed.content().decode("utf-8", "replace")
                    message = with_last_lines(f"the first run has no number: {error.why}", text)
                    hint = "correct the command, or how its number is read, and run this again"
                    raise GoalseekError(message, hint, BAD_FINDING) from None
                made.append(Failure(error.reason, error.why))
            yield made[-1]


def _is_enough(runs: Sequence[Number], count: int) -> bool:
    """Whether so many runs have a number, or three have none."""
    numbers = sum(isinstance(run, MeasuredValue) for run in runs)
    return numbers == count or len(runs) - numbers == MAX_FAILURES


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
    """
    has_begun = project.standing.baseline is not None
    target = current_target(Evaluation(project, project.config() if has_begun else project.config_for_baseline()))
    return structs.replace(target, known=_runs_before(project, target)) if has_begun else target


def repeat_measurements(project: Project, target: Target, count: int) -> Iterator[Number]:
    """Yields ``count`` measurements: the newest recorded first, then new ones, each recorded, until three failed."""
    known = target.known[-count:]
    yield from known

    def is_enough(made: Sequence[TreeRun]) -> bool:
        return _is_enough([run.number for run in made], count - len(known))

    is_first, record = not known, partial(record_number, project, "noise")
    for run in measure_in_turn(project, itertools.repeat(target), is_enough, record):
        if is_first and isinstance(run.number, Failure):
            raise baseline_error(run.number, trial_folder(project))
        is_first = False
        yield run.number


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
