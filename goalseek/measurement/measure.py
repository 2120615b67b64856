"""Measuring a tree: the verify commands in order, each in a tree of the files that it may see, then the numbers."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct, field

from goalseek import files
from goalseek.disk import is_full, is_full_disk, refuse_full
from goalseek.git.ignore import literal_pattern, matcher
from goalseek.git.paths import quote_path
from goalseek.humanize import abbreviate
from goalseek.manifest.tables import Reading, VerifyCommand
from goalseek.measurement.metric import NoNumber, RunFolder, read_number
from goalseek.measurement.outputs import (
    KINDS,
    Kind,
    OnceFiles,
    collect_outputs,
    file_facts,
    open_once_files,
    reads_once_command,
)
from goalseek.measurement.setup import copy_given_folders
from goalseek.measurement.verifier import Verifier, failure_of, run_command
from goalseek.own_folders import recreate_folder, remove_if_exists
from goalseek.phase_values import Failure, Side
from goalseek.sandbox.pipes import Sink
from goalseek.sandbox.supervisor import ProgramResult
from goalseek.values import CommandRun, Reason

_ARTIFACTS_LIMIT = 256 * 2**20


class Measurement(Struct, frozen=True):
    """A value and guards, or a failure; ``seconds`` is the sum of the commands' wall times."""

    value: float | None
    guards: dict[str, float]
    verify: tuple[CommandRun, ...]
    seed: int
    seconds: float
    failure: Failure | None = None


class MeasurementSpec(Struct, frozen=True):
    """One measurement to be made: of which tree, with which seed, in which iteration; of candidate or incumbent."""

    tree: str
    seed: int
    iteration: int
    side: Side = "candidate"


def measure(verifier: Verifier, spec: MeasurementSpec, log: Sink, artifacts: Path) -> Measurement:
    """Measures a tree once. What the commands wrote into their run folders is copied to ``artifacts``.

    Raises GoalseekError, ``tampered``, if the ruler is not as it was pinned, before or after, and OSError if the
    measurement failed and the disk is full.
    """
    verifier.refuse_changed()
    verifier.bench.refuse_other_ruler(verifier.baseline_tree, spec.tree)
    trial = _Trial.begin(verifier, spec, log)
    failure = next(filter(None, map(trial.run, verifier.manifest.commands)), None)
    value: float | None = None
    guards: dict[str, float] = {}
    if failure is None:
        try:
            value, guards = trial.read_numbers()
        except NoNumber as error:
            failure = Failure(error.reason, error.why)
    verifier.refuse_changed()
    remove_if_exists(artifacts)
    for run_folder in trial.fresh.values():
        _copy_run_folder(run_folder.path, artifacts, log)
    if failure or is_full(verifier.places.scratch):
        _make_room(verifier)
        refuse_full(verifier.places.scratch)
    runs = tuple(
        CommandRun(name, result.exit_code, round(result.seconds, 6), result.killed)
        for name, result in trial.results.items()
    )
    return Measurement(value, guards, runs, spec.seed, round(sum(run.seconds for run in runs), 6), failure)


def is_in_place(verifier: Verifier) -> bool:
    """Whether bench and run folder still exist: both are in a cache that anybody may empty."""
    return verifier.bench.is_whole() and (verifier.places.scratch / "run").is_dir()


def _copy_run_folder(run_folder: Path, artifacts: Path, log: Sink) -> None:
    """Copies the content of a run folder, as far as there is room for it."""
    try:
        files.copy_regular_files(run_folder, artifacts, None, _ARTIFACTS_LIMIT)
    except (FileNotFoundError, NotADirectoryError):
        log.write(b"[the run folder is gone]\n")
    except files.SizeExceeded as error:
        log.write(f"[the run folder was not kept whole: {error}]\n".encode())
    except OSError as error:
        if not is_full_disk(error):
            raise
        remove_if_exists(artifacts)
        log.write(b"[the run folder was not kept: the disk is full]\n")


def _make_room(verifier: Verifier) -> None:
    """Removes what the candidate itself may have filled the disk with."""
    places = verifier.places
    verifier.bench.tidy()
    own = (places.scratch / "home", places.scratch / "tmp", places.outputs)
    for folder in filter(Path.is_dir, (*map(places.run_folder, ("both", "hidden")), *own)):
        recreate_folder(folder)


class _Trial(Struct, frozen=True):
    """One measurement under way: where its commands write, the stored files of ``once`` commands, and results so far.

    ``stale`` are the outputs that this measurement did not write, with the reason.
    """

    verifier: Verifier
    spec: MeasurementSpec
    log: Sink
    fresh: dict[Kind, RunFolder]
    once: OnceFiles | None
    stale: dict[str, str] = field(default_factory=dict)
    results: dict[str, ProgramResult] = field(default_factory=dict)

    @classmethod
    def begin(cls, verifier: Verifier, spec: MeasurementSpec, log: Sink) -> _Trial:
        fresh = {kind: RunFolder.make(verifier.places.run_folder(kind)) for kind in KINDS}
        recreate_folder(verifier.places.outputs)
        once = open_once_files(verifier.manifest, verifier.bench.folder / "once", f"{spec.tree} {verifier.ruler}")
        if once and once.is_done:
            once.give({kind: run_folder.path for kind, run_folder in fresh.items()}, verifier.places.outputs)
        return cls(verifier, spec, log, fresh, once)

    def run(self, command: VerifyCommand) -> Failure | None:
        """Runs a command; the failure that ends the measurement, or None."""
        once = self.once if command.once else None
        if once and once.is_done:
            self.log.write(f"[{command.name} runs once, and did]\n".encode())
            return None
        if command.name == self.verifier.own_folder:
            for folder in self.fresh.values():
                folder.empty()
            if (metric := self.verifier.manifest.metric).source == "json":
                remove_if_exists(self.verifier.places.outputs / metric.path)
        run_folder = self.fresh[_kind(command)]
        before = file_facts(run_folder.path) if command.once else {}
        try:
            result = self.results[command.name] = self._run_on_bench(command, run_folder.path)
            failure = (
                failure_of(self.verifier, command, result)
                or _check_ruler_files(self.verifier, command)
                or collect_outputs(self.verifier, command, self.spec.tree, run_folder, self.stale)
            )
            if once and not failure:
                once.take(command, _kind(command), run_folder.path, before, self.verifier.places.outputs)
        except OSError as error:
            if not is_full_disk(error):
                raise
            return Failure(Reason.VERIFY_FAILED, f"{command.name}: what it handed on left no room on the disk")
        return failure

    def _run_on_bench(self, command: VerifyCommand, run_folder: Path) -> ProgramResult:
        assert command.sees is not None
        verifier, kept_outputs = self.verifier, self.verifier.places.outputs
        root = verifier.bench.sync_to(command.sees, self.spec.tree)
        below = root / verifier.places.prefix
        if command.sees != "hidden":
            copy_given_folders(verifier, below)
        kept_outputs.mkdir(parents=True, exist_ok=True)
        files.copy_regular_files(kept_outputs, below, None, 2**63)
        variables = {
            "GOALSEEK_RUN_DIR": str(run_folder),
            "GOALSEEK_ITERATION": str(self.spec.iteration),
            "GOALSEEK_SEED": str(self.spec.seed),
        }
        return run_command(verifier, command, root, variables, self.log)

    def read_numbers(self) -> tuple[float, dict[str, float]]:
        """The metric and the guards. Raises NoNumber."""
        manifest, once = self.verifier.manifest, self.once
        known = (once.numbers or {}) if once else {}
        value = self._read_number(manifest.metric)
        guards = {
            guard.name: known[guard.name] if guard.name in known else self._read_number(guard)
            for guard in manifest.guard
        }
        if once and not once.is_done:
            path = manifest.metric.path
            is_stale_metric = any(once.is_unchanged(path, kind, self.fresh[kind].path) for kind in KINDS)
            if manifest.metric.source == "json" and is_stale_metric:
                why = f"{path} is written by a command that runs once: no repeat would give another number"
                raise NoNumber(Reason.NO_METRIC, why)
            once.finish(
                {guard.name: guards[guard.name] for guard in manifest.guard if reads_once_command(manifest, guard)}
            )
        return value, guards

    def _read_number(self, reading: Reading) -> float:
        """One number. That of a command with ``sees = "hidden"`` is never read from what candidate code wrote.

        Raises NoNumber.
        """
        sees = {command.name: command.sees for command in self.verifier.manifest.commands}
        run_folders = [self.fresh["hidden"]]
        if is_mixed := sees[reading.command] != "hidden":
            run_folders.append(self.fresh["both"])
        try:
            return read_number(reading, run_folders, self.verifier.places.outputs, self.stale, self.results)
        except NoNumber as error:
            if is_mixed or reading.source != "json" or not os.path.lexists(self.fresh["both"].path / reading.path):
                raise
            hint = f"what a command with candidate code wrote is not read as {reading.command}'s"
            raise NoNumber(error.reason, f"{error.why}; {hint}: see {reading.name}.command") from None


def _kind(command: VerifyCommand) -> Kind:
    """Which run folder a command has: commands without the candidate's code have one of their own."""
    return "hidden" if command.sees == "hidden" else "both"


def _check_ruler_files(verifier: Verifier, command: VerifyCommand) -> Failure | None:
    """A failure if a command that sees candidate and ruler changed files of the ruler; None otherwise.

    Then no number of that tree counts.
    """
    if command.sees != "both":
        return None
    prefix, setup = verifier.places.prefix, verifier.manifest.setup
    is_setup_output = matcher(tuple(map(literal_pattern, setup.gives))) if setup else lambda path: False
    changed = [
        path
        for path in verifier.bench.changed_ruler_files(command.sees)
        if not is_setup_output(path.removeprefix(prefix))
    ]
    if not changed:
        return None
    names = abbreviate([quote_path(path) for path in changed])
    why = f"{command.name} changed files that are not the candidate's, while it was measured: {names}"
    return Failure(Reason.VERIFY_FAILED, f"{why}; files that it may write go into scope.generated")
