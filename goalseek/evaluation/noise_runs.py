"""Repeated measurements of unchanged code, for ``noise``: how much does the number move by itself?

Either of a shell command without manifest, repository or sandbox, or of the incumbent with the project's verifier.
"""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from goalseek.errors import BAD_FINDING, USAGE, GoalseekError
from goalseek.evaluation.measurements import (
    Measurement,
    Target,
    baseline_error,
    baseline_target,
    incumbent_target,
    measure_target,
    measurement_of,
    record_measurement,
)
from goalseek.humanize import format_duration
from goalseek.manifest.rules import check_expressions
from goalseek.manifest.tables import Reading
from goalseek.measurement.metric import NoNumber, read_json, read_text, to_finite
from goalseek.phase_values import Failure
from goalseek.process import deferring_signals
from goalseek.project.opening import check_fit
from goalseek.project.project import Project
from goalseek.sandbox.pipes import HeadAndTail
from goalseek.sandbox.supervisor import ProgramResult, Supervisor
from goalseek.sandbox.view import Launch
from goalseek.statistics.sequential_test import baseline_rejection
from goalseek.values import Outcome, Reason, VerifierRun

_LINES_SHOWN = 20


@dataclass(frozen=True)
class StandaloneCommand:
    """A shell command in a folder, and how its number is read: ``reading.source`` is stdout, json (on stdout) or wall.

    ``timeout`` is in seconds, None for no limit.
    """

    run: str
    folder: Path
    reading: Reading
    timeout: float | None = None


def refuse_unreadable(reading: Reading) -> None:
    """Raises GoalseekError for a regular expression or a query that does not compile."""
    for path, text in check_expressions((), reading):
        raise GoalseekError(f"--{path[-1]} {text}", "--regex 'loss: ([0-9.]+)', --query test.loss, or --wall", USAGE)


def run_command(command: StandaloneCommand, count: int) -> Iterator[Measurement | Failure]:
    """Runs the command until ``count`` runs gave a number, each with another ``GOALSEEK_SEED``.

    A run that failed does not count; after three of them no more are made. Raises GoalseekError where the first run of
    all fails.
    """
    values = failures = 0
    with Supervisor(f"noise-{os.getpid()}-{secrets.token_hex(4)}") as programs:
        while values < count and failures < MAX_FAILURES:
            seed = secrets.randbelow(2**31)
            environment = {**os.environ, "GOALSEEK_SEED": str(seed)}
            printed = HeadAndTail()
            launch = Launch(("sh", "-c", command.run), environment, command.folder)
            result = programs.run(launch, printed.write, command.timeout)
            try:
                value = _value_of(command, result)
            except NoNumber as error:
                if not values:
                    raise _first_run_error(error, printed.content()) from None
                failures += 1
                yield Failure(error.reason, error.why)
                continue
            values += 1
            yield Measurement(value, {}, (), round(result.seconds, 6), seed)


def _value_of(command: StandaloneCommand, result: ProgramResult) -> float:
    """The number of one run. Raises NoNumber where it failed or has none."""
    if result.timed_out:
        assert command.timeout
        raise NoNumber(Reason.VERIFY_TIMEOUT, f"the command ran past its limit, {format_duration(command.timeout)}")
    if result.exit_code != 0:
        raise NoNumber(Reason.VERIFY_FAILED, f"the command ended with {result.exit_code}")
    reading = command.reading
    if reading.source == "wall":
        return to_finite(reading.name, result.seconds)
    text = result.stdout.decode("utf-8", "replace")
    if reading.source == "json":
        return read_json(reading, text)
    try:
        return read_text(reading, text)
    except NoNumber as error:
        if not _is_in_stderr(reading, result):
            raise
        raise NoNumber(error.reason, f"{error.why}, but in stderr; end the command with 2>&1") from None


def _is_in_stderr(reading: Reading, result: ProgramResult) -> bool:
    try:
        read_text(reading, result.stderr.decode("utf-8", "replace"))
    except NoNumber:
        return False
    return True


def _first_run_error(error: NoNumber, printed: bytes) -> GoalseekError:
    lines = printed.decode("utf-8", "replace").splitlines()[-_LINES_SHOWN:]
    message = "\n".join([f"the first run has no number: {error.why}", *(f"  | {line}" for line in lines)])
    return GoalseekError(message, "mend the command or how it is read, and run this again", BAD_FINDING)


MAX_FAILURES = 3


def noise_target(project: Project) -> Target:
    """What is measured repeatedly: the incumbent, or HEAD before a baseline. ``known`` are its measurements so far,
    without the one that it was kept for, which is biased by that choice.

    Raises GoalseekError where repository and manifest do not fit.
    """
    check_fit(project)
    standing = project.standing
    if standing.baseline is None:
        return baseline_target(project, project.config_for_baseline())
    subject = incumbent_target(project, project.config())
    return replace(subject, known=tuple(_runs_before(project, subject)))


def repeat_measurements(project: Project, subject: Target, count: int) -> Iterator[Measurement | Failure]:
    """Yields ``count`` measurements: the newest recorded ones first, then new ones, each recorded.

    A run that failed does not count; after three of them no more are made. Raises GoalseekError where the first run of
    all fails.
    """
    known = subject.known[-count:]
    yield from known
    seeds = {measurement.seed for measurement in subject.known}
    values = failures = 0
    while len(known) + values < count and failures < MAX_FAILURES:
        seed = _unused_seed(project, seeds)
        seeds.add(seed)
        folder = project.places.scratch / "trial"
        evidence = measure_target(project, subject, 0, folder, seed=seed)
        manifest = subject.config.manifest
        verdict = baseline_rejection(manifest.metric, manifest.guard, evidence)
        if verdict is None:
            measurement = measurement_of(evidence)
            values += 1
            with deferring_signals():
                record_measurement(project, subject, measurement, "noise")
            yield measurement
            continue
        if not known and not values:
            raise baseline_error(verdict, folder)
        failures += 1
        yield Failure(verdict.reason, verdict.why)


def _unused_seed(project: Project, used: set[int | None]) -> int:
    """A seed that was not used for this tree yet, from the series for measurements outside an iteration."""
    iteration = project.standing.next_iteration
    seeds = (
        project.ledger.seal.seed(project.run_id, iteration, -(project.standing.seq + 2 + number))
        for number in itertools.count()
    )
    return next(seed for seed in seeds if seed not in used)


def _runs_before(project: Project, subject: Target) -> Iterator[Measurement]:
    """The incumbent's measurements in the order of the records, without the one that it was kept for."""
    standing = project.standing
    assert standing.incumbent
    record = project.ledger.history.iteration(standing.incumbent.iteration)
    runs_by_seq: list[tuple[int, Sequence[VerifierRun]]] = []
    if record:
        own = [run for run in record.runs if run.of == "candidate"]
        runs_by_seq.append((record.seq, own if record.outcome == Outcome.BASELINE else own[1:]))
    for record in project.ledger.recent:
        if record.seq > standing.incumbent.seq:
            runs_by_seq.append((record.seq, [run for run in record.runs if run.of == "incumbent"]))
    for measurement in standing.pooled(subject.tree, subject.ruler):
        runs_by_seq.append(
            (measurement.seq, [VerifierRun("incumbent", measurement.value, measurement.seed, measurement.seconds)])
        )
    for _, runs in sorted(runs_by_seq, key=lambda item: item[0]):
        for run in runs:
            if run.value is not None:
                yield Measurement(run.value, {}, (), run.seconds, run.seed, before=True)
