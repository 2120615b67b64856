"""One measurement: the verify commands in order, each in the tree that it may see, and the numbers they leave."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from goalseek import files
from goalseek.disk import is_full, is_full_disk, refuse_full
from goalseek.git.ignore import literal, matcher
from goalseek.git.paths import quote_path
from goalseek.humanize import abbreviate
from goalseek.manifest.tables import Reading, VerifyCommand
from goalseek.measurement.metric import NoNumber, RunFolder, read_number
from goalseek.measurement.outputs import KINDS, Kind, OnceLeft, facts_of, once_left, reads_once, take_outputs
from goalseek.measurement.setup import give
from goalseek.measurement.verifier import Verifier, failure_of, run_command, timeout_of
from goalseek.own_folders import clear, make_anew
from goalseek.phase_values import Failure
from goalseek.sandbox.pipes import Sink
from goalseek.sandbox.supervisor import ProgramResult
from goalseek.values import CommandRun

_ARTIFACTS_MOST = 256 * 2**20


@dataclass(frozen=True)
class Measurement:
    """What one measurement gave: a value and guards, or a failure; ``seconds`` is the commands' time together."""

    value: float | None
    guards: dict[str, float]
    verify: tuple[CommandRun, ...]
    seed: int
    seconds: float
    failure: Failure | None = None


def measure(verifier: Verifier, tree: str, seed: int, iteration: int, log: Sink, artifacts: Path | None) -> Measurement:
    """Measures a tree once. What the commands wrote into their run folder ends in ``artifacts``.

    Raises GoalseekError, ``tampered``, where the ruler is not as it was pinned, before or after, and OSError where a
    measurement failed and the disk is full.
    """
    verifier.refuse_changed()
    verifier.bench.refuse_other_ruler(verifier.baseline_tree, tree)
    place = _Place.make(verifier, tree)
    stale: dict[str, str] = {}
    ended: dict[str, ProgramResult] = {}
    runs: list[CommandRun] = []
    failure = None
    for command in verifier.manifest.verify:
        if command.once and place.once and place.once.is_done:
            log.write(f"[{command.name} runs once, and did]\n".encode())
            continue
        if command.name == verifier.own_folder:
            for made in place.fresh.values():
                made.empty()
        made = place.fresh[_kind(command)]
        before = facts_of(made.path) if command.once else {}
        try:
            finished = _run(verifier, command, tree, seed, iteration, log, made.path, place.kept_outputs)
            ended[command.name] = finished
            runs.append(CommandRun(command.name, finished.exit_code, round(finished.seconds, 6), finished.killed))
            failure = (
                failure_of(command, finished)
                or _touched(verifier, command)
                or take_outputs(verifier, command, tree, place.kept_outputs, made, stale)
            )
            if command.once and place.once and not failure:
                place.once.take(command, _kind(command), made.path, before, place.kept_outputs)
        except OSError as error:
            if not is_full_disk(error):
                raise
            failure = Failure("verify_failed", f"{command.name}: what it handed on left no room on the disk")
        if failure:
            break
    seconds = round(sum(run.seconds for run in runs), 6)
    value: float | None = None
    guards: dict[str, float] = {}
    if failure is None:
        try:
            value, guards = _numbers(verifier, place, stale, ended)
        except NoNumber as nothing:
            failure = Failure(nothing.reason, nothing.why)
    verifier.refuse_changed()
    if artifacts is not None:
        clear(artifacts)
        for made in place.fresh.values():
            _keep(made.path, artifacts, log)
    if failure or is_full(verifier.places.scratch):
        _make_room(verifier)
        refuse_full(verifier.places.scratch)
    return Measurement(value, guards, tuple(runs), seed, seconds, failure)


def is_in_place(verifier: Verifier) -> bool:
    """Whether bench and run folder are still there after a measurement: both are in a cache that anybody may empty."""
    return verifier.bench.is_whole() and (verifier.places.scratch / "run").is_dir()


def _number(
    verifier: Verifier, reading: Reading, place: _Place, stale: Mapping[str, str], ended: Mapping[str, ProgramResult]
) -> float:
    """A number that the candidate's commands have no say in, where it is that of a command without its code."""
    sees = {command.name: command.sees for command in verifier.manifest.verify}
    folders = (place.fresh["hidden"], place.fresh["both"])
    if sees[reading.command] != "hidden":
        return read_number(reading, folders, place.kept_outputs, stale, ended)
    try:
        return read_number(reading, folders[:1], place.kept_outputs, stale, ended)
    except NoNumber as nothing:
        if reading.source != "json" or not os.path.lexists(place.fresh["both"].path / reading.path):
            raise
        told = (
            f"what a command with candidate code wrote is not read as {reading.command}'s: see {reading.name}.command"
        )
        raise NoNumber(nothing.reason, f"{nothing.why}; {told}") from None


def _keep(run_folder: Path, artifacts: Path, log: Sink) -> None:
    """Copies what is in a run folder, as far as there is room for it."""
    try:
        files.take(run_folder, artifacts, None, _ARTIFACTS_MOST)
    except (FileNotFoundError, NotADirectoryError):
        log.write(b"[the run folder is gone]\n")
    except files.TooMuch as error:
        log.write(f"[the run folder was not kept whole: {error}]\n".encode())
    except OSError as error:
        if not is_full_disk(error):
            raise
        clear(artifacts)
        log.write(b"[the run folder was not kept: the disk is full]\n")


def _make_room(verifier: Verifier) -> None:
    """Takes away what the candidate itself may have filled the disk with."""
    places = verifier.places
    verifier.bench.tidy()
    own = (places.scratch / "home", places.scratch / "tmp", places.outputs)
    for folder in filter(Path.is_dir, (*map(places.run_folder, ("both", "hidden")), *own)):
        make_anew(folder)


@dataclass(frozen=True)
class _Place:
    """Where one measurement writes: its run folders, the outputs handed on, and what commands that run once left."""

    fresh: dict[Kind, RunFolder]
    kept_outputs: Path
    once: OnceLeft | None

    @classmethod
    def make(cls, verifier: Verifier, tree: str) -> _Place:
        fresh = {kind: RunFolder.make(verifier.places.run_folder(kind)) for kind in KINDS}
        make_anew(verifier.places.outputs)
        once = once_left(verifier.manifest, verifier.bench.folder / "once", f"{tree} {verifier.ruler}")
        if once and once.is_done:
            once.give({kind: made.path for kind, made in fresh.items()}, verifier.places.outputs)
        return cls(fresh, verifier.places.outputs, once)


def _kind(command: VerifyCommand) -> Kind:
    """Which run folder a command has: that of commands without the candidate's code is theirs alone."""
    return "hidden" if command.sees == "hidden" else "both"


def _numbers(
    verifier: Verifier, place: _Place, stale: Mapping[str, str], ended: Mapping[str, ProgramResult]
) -> tuple[float, dict[str, float]]:
    """The metric and the guards. Raises NoNumber."""
    manifest, once = verifier.manifest, place.once
    known = (once.numbers or {}) if once else {}
    value = _number(verifier, manifest.metric, place, stale, ended)
    guards = {
        guard.name: known[guard.name] if guard.name in known else _number(verifier, guard, place, stale, ended)
        for guard in manifest.guard
    }
    if once and not once.is_done:
        left = any(once.is_as_left(manifest.metric.path, kind, place.fresh[kind].path) for kind in KINDS)
        if manifest.metric.source == "json" and left:
            why = f"{manifest.metric.path} is written by a command that runs once: no repeat would give another number"
            raise NoNumber("no_metric", why)
        once.finish({guard.name: guards[guard.name] for guard in manifest.guard if reads_once(manifest, guard)})
    return value, guards


def _run(
    verifier: Verifier,
    command: VerifyCommand,
    tree: str,
    seed: int,
    iteration: int,
    log: Sink,
    run_folder: Path,
    kept_outputs: Path,
) -> ProgramResult:
    assert command.sees is not None
    root = verifier.bench.sync_to(command.sees, tree)
    below = root / verifier.places.prefix
    if command.sees != "hidden":
        give(verifier, below)
    kept_outputs.mkdir(parents=True, exist_ok=True)
    files.take(kept_outputs, below, None, 2**63)
    variables = {
        "GOALSEEK_RUN_DIR": str(run_folder),
        "GOALSEEK_ITERATION": str(iteration),
        "GOALSEEK_SEED": str(seed),
    }
    return run_command(verifier, command, root, variables, timeout_of(command, verifier.baseline_seconds), log)


def _touched(verifier: Verifier, command: VerifyCommand) -> Failure | None:
    """Candidate code in one tree with the ruler may write there: then no number of that tree counts."""
    if command.sees != "both":
        return None
    prefix, setup = verifier.places.prefix, verifier.manifest.setup
    given = matcher(tuple(map(literal, setup.gives))) if setup else lambda path: False
    touched = [
        path for path in verifier.bench.changed_ruler_files(command.sees) if not given(path.removeprefix(prefix))
    ]
    if not touched:
        return None
    named = abbreviate([quote_path(path) for path in touched])
    why = f"{command.name} changed files that are not the candidate's, while it was measured: {named}"
    return Failure("verify_failed", f"{why}; files that it may write go into scope.generated")


AGGREGATES: Mapping[str, Callable[[Sequence[float]], float]] = {"median": median, "mean": fmean, "min": min, "max": max}


def measure_repeatedly(
    verifier: Verifier, tree: str, seed: int, iteration: int, log: Sink, artifacts: Path | None
) -> Measurement:
    """Measures a tree as often as one measurement needs it; the first that fails ends it.

    Guards are brought together as the metric is. Of several runs, each keeps its run folder in ``artifacts/k``.
    """
    metric = verifier.manifest.metric
    if metric.repeats == 1:
        return measure(verifier, tree, seed, iteration, log, artifacts)
    made: list[Measurement] = []
    for place in range(metric.repeats):
        one = seed_of_repeat(seed, place)
        log.write(f"[repeat {place + 1} of {metric.repeats}, seed {one}]\n".encode())
        sample = measure(verifier, tree, one, iteration, log, artifacts / str(place + 1) if artifacts else None)
        made.append(sample)
        if sample.failure:
            break
        log.write(f"[{metric.name} = {sample.value!r}]\n".encode())
    return aggregate(made, seed, AGGREGATES[metric.aggregate])


def aggregate(made: Sequence[Measurement], seed: int, aggregate: Callable[[Sequence[float]], float]) -> Measurement:
    """Several samples as one; a failure, which is the last, is that of all."""
    verify = tuple(command for sample in made for command in sample.verify)
    seconds = round(sum(sample.seconds for sample in made), 6)
    if made[-1].failure:
        return Measurement(None, {}, verify, seed, seconds, made[-1].failure)
    value = aggregate([sample.value for sample in made if sample.value is not None])
    guards = {name: aggregate([sample.guards[name] for sample in made]) for name in made[0].guards}
    return Measurement(value, guards, verify, seed, seconds)


def seed_of_repeat(seed: int, place: int) -> int:
    """The seed of a repeat, made from its measurement's, which is that of the first. 0 to 2**31 - 1."""
    if place == 0:
        return seed
    return int(hashlib.sha256(f"{seed} {place}".encode()).hexdigest()[:8], 16) & 0x7FFFFFFF
