"""A command run again and again where one stands, without manifest, repository or sandbox: how much does it move?"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from goalseek.errors import BAD_FINDING, USAGE, GoalseekError
from goalseek.humanize import in_words
from goalseek.manifest.rules import not_compiling
from goalseek.manifest.tables import Reading
from goalseek.measurement.metric import NoNumber, finite, from_json, from_text
from goalseek.noise_runs import FAILURES_MOST
from goalseek.phase_values import Failure
from goalseek.pool import Measurement
from goalseek.sandbox.pipes import HeadAndTail
from goalseek.sandbox.supervisor import Finished, Programs

_LINES_SHOWN = 20


@dataclass(frozen=True)
class AloneCommand:
    """A shell command in a folder, and how its number is read: ``reading.source`` is stdout, json (on stdout) or wall.

    ``timeout`` is in seconds, None for no limit.
    """

    run: str
    folder: Path
    reading: Reading
    timeout: float | None = None


def refuse_unreadable(reading: Reading) -> None:
    """Raises GoalseekError for a regular expression or a query that does not compile."""
    for place, text in not_compiling((), reading):
        raise GoalseekError(f"--{place[-1]} {text}", "--regex 'loss: ([0-9.]+)', --query test.loss, or --wall", USAGE)


def alone_runs(command: AloneCommand, count: int) -> Iterator[Measurement | Failure]:
    """Runs the command until ``count`` runs gave a number, each with another ``GOALSEEK_SEED``.

    A run that failed does not count; after three of them no more are made. Raises GoalseekError where the first run of
    all fails.
    """
    values = failures = 0
    with Programs(f"noise-{os.getpid()}-{secrets.token_hex(4)}") as programs:
        while values < count and failures < FAILURES_MOST:
            seed = secrets.randbelow(2**31)
            environment = {**os.environ, "GOALSEEK_SEED": str(seed)}
            printed = HeadAndTail()
            finished = programs.supervise(
                ["sh", "-c", command.run], command.folder, environment, printed, command.timeout
            )
            try:
                value = _value_of(command, finished)
            except NoNumber as nothing:
                if not values:
                    raise _nothing(nothing, printed.content()) from None
                failures += 1
                yield Failure(nothing.reason, nothing.why)
                continue
            values += 1
            yield Measurement(value, {}, (), round(finished.seconds, 6), seed)


def _value_of(command: AloneCommand, finished: Finished) -> float:
    """The number of one run. Raises NoNumber where it failed or has none."""
    if finished.timed_out:
        assert command.timeout
        raise NoNumber("verify_timeout", f"the command ran past its limit, {in_words(command.timeout)}")
    if finished.exit_code != 0:
        raise NoNumber("verify_failed", f"the command ended with {finished.exit_code}")
    reading = command.reading
    if reading.source == "wall":
        return finite(reading.name, finished.seconds)
    text = finished.stdout.decode("utf-8", "replace")
    if reading.source == "json":
        return from_json(reading, text)
    try:
        return from_text(reading, text)
    except NoNumber as nothing:
        if not _is_in_stderr(reading, finished):
            raise
        raise NoNumber(nothing.reason, f"{nothing.why}, but in stderr; end the command with 2>&1") from None


def _is_in_stderr(reading: Reading, finished: Finished) -> bool:
    try:
        from_text(reading, finished.stderr.decode("utf-8", "replace"))
    except NoNumber:
        return False
    return True


def _nothing(nothing: NoNumber, printed: bytes) -> GoalseekError:
    lines = printed.decode("utf-8", "replace").splitlines()[-_LINES_SHOWN:]
    message = "\n".join([f"the first run has no number: {nothing.why}", *(f"  | {line}" for line in lines)])
    return GoalseekError(message, "mend the command or how it is read, and run this again", BAD_FINDING)
