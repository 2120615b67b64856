"""Repeated measurements of unchanged code, for ``noise``: how much does the number move by itself?

Either of a shell command without manifest, repository or sandbox, or of the incumbent with the project's verifier.
"""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from goalseek.errors import BAD_FINDING, USAGE, GoalseekError
from goalseek.evaluation.measurements import (
    Evaluation,
    Measurement,
    Target,
    baseline_error,
    baseline_target,
    incumbent_target,
    measure_target,
    number_in,
    record_measurement,
    trial_folder,
    unused_seed,
    with_last_lines,
)
from goalseek.humanize import format_duration
from goalseek.manifest.rules import check_expressions
from goalseek.manifest.tables import Reading
from goalseek.measurement.metric import NoNumber, read_json, read_text, to_finite
from goalseek.phase_values import Failure
from goalseek.process import deferring_signals
from goalseek.project.fitness import check_fit
from goalseek.project.project import Project
from goalseek.sandbox.pipes import HeadAndTail
from goalseek.sandbox.supervisor import ProgramResult, Supervisor
from goalseek.sandbox.view import Launch
from goalseek.values import Outcome, Reason, VerifierRun

MAX_FAILURES = 3


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
    """Runs the command until ``count`` runs gave a number, each with another ``GOALSEEK_SEED``; see ``_repeat``."""
    with Supervisor(f"noise-{os.getpid()}-{secrets.token_hex(4)}") as programs:

        def run(is_first: bool) -> Measurement | Failure:
            seed = secrets.randbelow(2**31)
            environment = {**os.environ, "GOALSEEK_SEED": str(seed)}
            printed = HeadAndTail()
            launch = Launch(("sh", "-c", command.run), environment, command.folder)
            result = programs.run(launch, printed.write, command.timeout)
            try:
                return Measurement(_value_of(command, result), {}, (), round(result.seconds, 6), seed)
            except NoNumber as error:
                if is_first:
                    message = with_last_lines(f"the first run has no number: {error.why}", printed.content())
                    hint = "mend the command or how it is read, and run this again"
                    raise GoalseekError(message, hint, BAD_FINDING) from None
                return Failure(error.reason, error.why)

        yield from _repeat(run, count, is_first=True)


def _repeat(
    measure: Callable[[bool], Measurement | Failure], count: int, is_first: bool
) -> Iterator[Measurement | Failure]:
    """Measures until ``count`` numbers are there. A run that failed does not count; three of them end it.

    ``measure`` gets whether there is no number yet, and raises GoalseekError where the first run of all fails.
    """
    values = failures = 0
    while values < count and failures < MAX_FAILURES:
        result = measure(is_first and not values)
        if isinstance(result, Failure):
            failures += 1
        else:
            values += 1
        yield result


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
        try:
            read_text(reading, result.stderr.decode("utf-8", "replace"))
        except NoNumber:
            raise error from None
        raise NoNumber(error.reason, f"{error.why}, but in stderr; end the command with 2>&1") from None


def noise_target(project: Project) -> Target:
    """What is measured repeatedly: the incumbent, or HEAD before a baseline. ``known`` are its measurements so far,
    without the one that it was kept for, which is biased by that choice.

    Raises GoalseekError where repository and manifest do not fit.
    """
    check_fit(project)
    standing = project.standing
    if standing.baseline is None:
        return baseline_target(Evaluation(project, project.config_for_baseline()))
    target = incumbent_target(Evaluation(project, project.config()))
    return replace(target, known=tuple(_runs_before(project, target)))


def repeat_measurements(project: Project, target: Target, count: int) -> Iterator[Measurement | Failure]:
    """Yields ``count`` measurements: the newest recorded ones first, then new ones, each recorded; see ``_repeat``."""
    known = target.known[-count:]
    yield from known
    seeds = {measurement.seed for measurement in target.known}

    def measure(is_first: bool) -> Measurement | Failure:
        seed = next(seed for number in itertools.count() if (seed := unused_seed(project, number)) not in seeds)
        seeds.add(seed)
        result = number_in(target, measure_target(project, target, seed))
        if isinstance(result, Measurement):
            with deferring_signals():
                record_measurement(project, target, result, "noise")
            return result
        if is_first:
            raise baseline_error(result, trial_folder(project))
        return Failure(result.reason, result.why)

    yield from _repeat(measure, count - len(known), is_first=not known)


def _runs_before(project: Project, target: Target) -> Iterator[Measurement]:
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
    for measurement in standing.pooled(target.tree, target.ruler):
        runs_by_seq.append(
            (measurement.seq, [VerifierRun("incumbent", measurement.value, measurement.seed, measurement.seconds)])
        )
    for _, runs in sorted(runs_by_seq, key=lambda item: item[0]):
        for run in runs:
            if run.value is not None:
                yield Measurement(run.value, {}, (), run.seconds, run.seed, before=True)
