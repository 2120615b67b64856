"""One measurement: the verify commands in order, each in the tree that it may see, and the numbers they leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from goalseek import outputs
from goalseek.beneath import clear
from goalseek.capture import Sink
from goalseek.fresh import RunFolder
from goalseek.full_disk import refuse_full
from goalseek.globs import matcher
from goalseek.handed_on import take_outputs
from goalseek.listing import few
from goalseek.manifest import VerifyCommand
from goalseek.metric import NoNumber
from goalseek.once import OnceLeft, facts_of, once_left, reads_once
from goalseek.programs import Finished
from goalseek.quoting import quote_path
from goalseek.reading import read_number
from goalseek.setup_once import give
from goalseek.values import CommandRun, Failure
from goalseek.verifier import Verifier, failure_of, run_command, timeout_of

_ARTIFACTS_MOST = 256 * 2**20


@dataclass(frozen=True)
class Sample:
    """What one measurement gave: a value and guards, or a failure; ``seconds`` is the commands' time together."""

    value: float | None
    guards: dict[str, float]
    verify: tuple[CommandRun, ...]
    seed: int
    seconds: float
    failure: Failure | None = None


def measure(verifier: Verifier, tree: str, seed: int, iteration: int, log: Sink, artifacts: Path | None) -> Sample:
    """Measures a tree once. What the commands wrote into their run folder ends in ``artifacts``.

    Raises GoalseekError, ``tampered``, where the ruler is not as it was pinned, before or after, and OSError where a
    measurement failed and the disk is full.
    """
    verifier.refuse_changed()
    verifier.bench.refuse_other_ruler(verifier.baseline_tree, tree)
    place = _Place.make(verifier, tree)
    stale: dict[str, str] = {}
    ended: dict[str, Finished] = {}
    runs: list[CommandRun] = []
    failure = None
    for command in verifier.manifest.verify:
        if command.once and place.once and place.once.is_done:
            log.write(f"[{command.name} runs once, and did]\n".encode())
            continue
        if command.name == verifier.own_folder:
            place.fresh.empty()
        before = facts_of(place.fresh.path) if command.once else {}
        finished = _run(verifier, command, tree, seed, iteration, log, place)
        ended[command.name] = finished
        runs.append(CommandRun(command.name, finished.exit_code, round(finished.seconds, 6), finished.killed))
        failure = (
            failure_of(command, finished)
            or _touched(verifier, command)
            or take_outputs(verifier, command, tree, place.kept_outputs, place.fresh, stale)
        )
        if failure:
            break
        if command.once and place.once:
            place.once.take(command, place.fresh.path, before, place.kept_outputs)
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
        try:
            outputs.take(place.fresh.path, artifacts, None, _ARTIFACTS_MOST)
        except FileNotFoundError:
            log.write(b"[the run folder is gone]\n")
        except outputs.TooMuch as error:
            log.write(f"[the run folder was not kept whole: {error}]\n".encode())
    if failure:
        for folder in filter(
            Path.is_dir, (place.fresh.path, place.kept_outputs)
        ):  # what the candidate itself filled the disk with
            clear(folder)
            folder.mkdir()
        refuse_full(verifier.places.scratch)
    return Sample(value, guards, tuple(runs), seed, seconds, failure)


def is_in_place(verifier: Verifier) -> bool:
    """Whether bench and run folder are still there after a measurement: both are in a cache that anybody may empty."""
    return verifier.bench.is_whole() and (verifier.places.scratch / "run").is_dir()


@dataclass(frozen=True)
class _Place:
    """Where one measurement writes: its run folder, the outputs handed on, and what commands that run once left."""

    fresh: RunFolder
    kept_outputs: Path
    once: OnceLeft | None

    @classmethod
    def make(cls, verifier: Verifier, tree: str) -> _Place:
        fresh = RunFolder.make(verifier.places.scratch / "run")
        clear(verifier.places.outputs)
        verifier.places.outputs.mkdir(parents=True)
        once = once_left(verifier.manifest, verifier.bench.folder / "once", f"{tree} {verifier.ruler}")
        if once and once.is_done:
            once.give(fresh.path, verifier.places.outputs)
        return cls(fresh, verifier.places.outputs, once)


def _numbers(
    verifier: Verifier, place: _Place, stale: Mapping[str, str], ended: Mapping[str, Finished]
) -> tuple[float, dict[str, float]]:
    """The metric and the guards. Raises NoNumber."""
    manifest, once = verifier.manifest, place.once
    known = (once.numbers or {}) if once else {}
    value = read_number(manifest.metric, place.fresh, place.kept_outputs, stale, ended)
    guards = {
        guard.name: known[guard.name]
        if guard.name in known
        else read_number(guard, place.fresh, place.kept_outputs, stale, ended)
        for guard in manifest.guard
    }
    if once and not once.is_done:
        if manifest.metric.source == "json" and once.is_as_left(manifest.metric.path, place.fresh.path):
            why = f"{manifest.metric.path} is written by a command that runs once: no repeat would give another number"
            raise NoNumber("no_metric", why)
        once.finish({guard.name: guards[guard.name] for guard in manifest.guard if reads_once(manifest, guard)})
    return value, guards


def _run(
    verifier: Verifier, command: VerifyCommand, tree: str, seed: int, iteration: int, log: Sink, place: _Place
) -> Finished:
    assert command.sees is not None
    root = verifier.bench.stand_at(command.sees, tree)
    below = root / verifier.places.prefix
    if command.sees != "hidden":
        give(verifier, below)
    place.kept_outputs.mkdir(parents=True, exist_ok=True)
    outputs.take(place.kept_outputs, below, None, 2**63)
    variables = {
        "GOALSEEK_RUN_DIR": str(place.fresh.path),
        "GOALSEEK_ITERATION": str(iteration),
        "GOALSEEK_SEED": str(seed),
    }
    return run_command(verifier, command, root, variables, timeout_of(command, verifier.baseline_seconds), log)


def _touched(verifier: Verifier, command: VerifyCommand) -> Failure | None:
    """Candidate code in one tree with the ruler may write there: then no number of that tree counts."""
    if command.sees != "both":
        return None
    prefix, setup = verifier.places.prefix, verifier.manifest.setup
    given = matcher(tuple("/" + name.strip("/") for name in setup.gives)) if setup else lambda path: False
    touched = [path for path in verifier.bench.touched(command.sees) if not given(path.removeprefix(prefix))]
    if not touched:
        return None
    named = few([quote_path(path) for path in touched])
    why = f"{command.name} changed files that are not the candidate's, while it was measured: {named}"
    return Failure("verify_failed", f"{why}; files that it may write go into scope.generated")
