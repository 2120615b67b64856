"""Repeated measurements of unchanged code, for ``noise``: of a bare shell command, or of the incumbent."""

import contextlib
import itertools
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import structs

from goalseek.errors import BAD_FINDING, GoalseekError
from goalseek.evaluation import measurements
from goalseek.evaluation.measurements import MeasuredValue, Target
from goalseek.humanize import format_duration
from goalseek.manifest.tables import Reading
from goalseek.measurement.metric import NoNumber, read_json, read_result
from goalseek.phase_values import Failure
from goalseek.project.project import Project
from goalseek.records import IterationRecord, MeasurementRecord
from goalseek.sandbox.supervisor import HeadAndTail, ProgramResult, Supervisor
from goalseek.sandbox.view import Launch
from goalseek.statistics.noise import setting_of
from goalseek.values import Outcome, Reason, VerifierRun

MAX_FAILURES = 3


def repeat_command(
    command: str, folder: Path, reading: Reading, timeout: float | None, count: int
) -> Iterator[MeasuredValue | Failure]:
    """Run a shell command until ``count`` numbers or three failures, each with another ``GOALSEEK_SEED``.

    ``reading.source`` is stdout, json (on stdout) or wall; ``timeout`` is in seconds, None for no limit.
    """
    made: list[MeasuredValue | Failure] = []
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
                    message = measurements.with_last_lines(f"the first run has no number: {error}", text)
                    hint = "correct the command, or how its number is read, and run this again"
                    raise GoalseekError(message, hint, BAD_FINDING) from None
                made.append(error.failure)
            yield made[-1]


def _is_enough(runs: Sequence[MeasuredValue | Failure], count: int) -> bool:
    numbers = sum(isinstance(run, MeasuredValue) for run in runs)
    return numbers == count or len(runs) - numbers == MAX_FAILURES


def _value_of(reading: Reading, result: ProgramResult, timeout: float | None) -> float:
    if result.timed_out:
        limit = format_duration(timeout or 0.0)
        raise NoNumber(Reason.VERIFY_TIMEOUT, f"the command ran past its limit, {limit}")
    if result.exit_code != 0:
        raise NoNumber(Reason.VERIFY_FAILED, f"the command ended with {result.exit_code}")
    if reading.source == "json":
        return read_json(reading, result.stdout.decode("utf-8", "replace"))
    try:
        return read_result(reading, result)
    except NoNumber as error:
        with contextlib.suppress(NoNumber):
            read_result(structs.replace(reading, source="stderr"), result)
            error = NoNumber(error.failure.reason, f"{error}, but in stderr; end the command with 2>&1")
        raise error from None


def noise_target(project: Project) -> Target:
    """The incumbent, or HEAD before a baseline, with its ``known`` measurements in the order of the records.

    Without the run that it was kept for, which is biased by that choice, those made beside others, and those on some of
    the cases.
    """
    standing, incumbent = project.standing, project.standing.incumbent
    if incumbent is None:
        return measurements.current_target(project, project.config_for_baseline())
    target = measurements.current_target(project, project.config())

    def is_alone(record: IterationRecord) -> bool:
        return setting_of(record.benches, record.host) == (None, None)

    record = project.ledger.history.iteration(incumbent.iteration)
    own = [run for run in record.runs if run.of == "candidate"] if record and is_alone(record) else []
    is_baseline = record is not None and record.outcome == Outcome.BASELINE
    runs: list[tuple[int, VerifierRun | MeasurementRecord]] = [
        *((incumbent.seq, run) for run in (own if is_baseline else own[1:])),
        *((record.seq, record) for record in standing.pooled(target.tree, target.ruler)),
    ]
    for record in project.ledger.recent:
        is_later = record.seq > incumbent.seq and record.base_commit_hash in (None, incumbent.commit)
        if is_later and is_alone(record):
            runs += [(record.seq, run) for run in record.runs if run.of == "incumbent"]
    cases = standing.noise.cases
    known = (
        MeasuredValue(run.value, {}, (), run.seconds, run.seed, before=True)
        for _, run in sorted(runs, key=lambda item: item[0])
        if run.value is not None and (cases is None or (run.cases and len(run.cases.unpacked()) == len(cases.ids)))
    )
    return structs.replace(target, known=tuple(known))


def repeat_measurements(project: Project, target: Target, count: int) -> Iterator[MeasuredValue | Failure]:
    """``count`` measurements: the newest recorded first, then new ones, each recorded, until three failed."""
    known = target.known[-count:]
    yield from known
    runs = measurements.measure_in_turn(project, itertools.repeat(target), asked_by="noise")
    made: list[MeasuredValue | Failure] = []
    while not _is_enough(made, count - len(known)):
        number = next(runs).number
        if isinstance(number, Failure) and not (known or made):
            raise measurements.baseline_error(number, measurements.trial_folder(project))
        made.append(number)
        yield number
