"""Measuring a tree: the verify commands in order, each in a tree of the files that it may see, then the numbers.

A bench that disappears during one is made again once: it lies in a cache that anybody may empty.
"""

import errno
import json
import math
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field, structs

from goalseek import disk
from goalseek.case_scores import CaseScores
from goalseek.errors import GoalseekError
from goalseek.git.ignore import literal_pattern, matcher
from goalseek.git.paths import quote_path
from goalseek.humanize import abbreviate, pluralize
from goalseek.locks import exclusive_lock
from goalseek.manifest.tables import Manifest, Metric, Reading, VerifyCommand
from goalseek.measurement.metric import NoNumber, RunFolder, find_cases, find_number, read_file, read_result
from goalseek.measurement.verifier import (
    Verifier,
    copy_given_folders,
    has_stop_code,
    refuse_failed,
    run_command,
    run_setup,
)
from goalseek.phase_values import Evidence, Failure
from goalseek.sandbox.supervisor import LogFile, ProgramResult, Sink
from goalseek.values import CommandRun, Reason, Side, StopReason, VerifierRun

OUTPUTS = "outputs"
MOST_MISSING = 0.1  # of the cases asked
_ARTIFACTS_LIMIT = 256 * 2**20
Facts = Mapping[str, tuple[int, int]]  # inode and modification time in nanoseconds, by path
Kind = Literal["both", "hidden"]
KINDS: tuple[Kind, ...] = ("both", "hidden")


class MeasurementSpec(Struct, frozen=True):
    """``role`` is shown instead of ``side``. The command ``own_folder`` finds no earlier command's file to read.

    ``case_ids`` is the table of cases, ``cases`` are the positions of those to ask; empty for all that there are.
    ``so_far`` is shown beside it. A case without a score counts as ``missing``; if that is None, it stays without one.
    """

    tree: str
    seed: int
    iteration: int
    side: Side = "candidate"
    role: str = ""
    own_folder: str = ""
    case_ids: tuple[str, ...] = ()
    cases: tuple[int, ...] = ()
    so_far: str = ""
    missing: float | None = None


def add_measurement(verifier: Verifier, spec: MeasurementSpec, evidence: Evidence, run_folder: Path) -> Evidence:
    """Measurement k writes ``measurements/k/``; ``metrics.json`` and ``outputs/`` are of the candidate's last.

    If it fails and the bench is gone, the bench is made again and the tree measured once more; if it is gone again,
    that is the candidate's doing. A first failure of the incumbent is a run without a value. Raises GoalseekError,
    ``incumbent_failed``, if it fails the next time too, which only the log tells, or if a command says stop.
    """
    number, metric, places = len(evidence.runs) + 1, verifier.manifest.metric, verifier.places
    begin_run_folder(run_folder, number)
    artifacts = run_folder / "measurements" / str(number)
    verifier.turn(spec.role or spec.side, number, spec.so_far)
    exclusive = exclusive_lock(metric.exclusive, verifier.waiting, verifier.pause)
    with exclusive, LogFile(run_folder / "verifier.log") as log:
        log.write(f"[run {number}: {spec.side}, seed {spec.seed}]\n".encode())
        try:
            made = _measure(verifier, spec, log, artifacts)
            if made.failure and not (verifier.bench.is_whole() and (places.scratch / "run").is_dir()):
                log.write(b"[the bench was removed while it was in use: measured once more]\n")
                made = _measure(verifier, spec, log, artifacts)
            if made.runs[0].cases:
                made = _ask_again(verifier, spec, log, artifacts, made)
        except NoNumber as error:
            made = Evidence((VerifierRun(spec.side, None, spec.seed, 0.0),), failure=error.failure)
        value, failure = made.runs[0].value, made.failure
        cases = made.runs[0].cases
        of_cases = f", the mean of {pluralize(len(cases.unpacked()), 'case')}" if cases else ""
        result = failure.why if failure else f"{metric.name} = {value!r}{of_cases}"
        log.write(f"[run {number}: {result}]\n".encode("utf-8", "replace"))
    run_folder.mkdir(parents=True, exist_ok=True)
    if spec.side == "incumbent":
        if failure and (evidence.is_incumbent_failing or has_stop_code(verifier.manifest, made.verify)):
            message = f"the incumbent was measured again and gives no number any more: {failure.why}"
            hint = "see its output: goalseek show --output; correct what has changed here"
            raise GoalseekError(message, f"{hint}, and run the same command again", StopReason.INCUMBENT_FAILED)
        return evidence.plus(Evidence(made.runs))
    if failure is None and verifier.manifest.log.keep_outputs != "none":
        move_outputs(places.outputs, run_folder)
    own_file, shown_file = artifacts / metric.path, run_folder / "metrics.json"
    if metric.source == "json" and own_file.is_file():
        shown_file.write_bytes(own_file.read_bytes())
    else:
        shown_file.write_text(json.dumps({metric.name: value, **made.guards}) + "\n")
    return evidence.plus(made)


def begin_run_folder(run_folder: Path, number: int) -> None:
    run_folder.mkdir(parents=True, exist_ok=True)  # somebody's git clean may have removed it
    if number == 1:
        for name in ("verifier.log", "measurements", OUTPUTS):
            disk.remove_if_exists(run_folder / name)


def _ask_again(verifier: Verifier, spec: MeasurementSpec, log: Sink, artifacts: Path, made: Evidence) -> Evidence:
    """Cases without a score are asked once more; too many that have none then are a failure.

    Not in a look at the holdout, whose other commands have other cases.
    """
    run, case_ids = made.runs[0], spec.case_ids or made.case_ids
    assert run.cases
    scores = run.cases.unpacked()
    missing = tuple(case for case, score in scores.items() if score is None)
    if missing and not spec.own_folder:
        log.write(f"[{pluralize(len(missing), 'case')} without a score, asked once more]\n".encode())
        again = _measure(verifier, structs.replace(spec, case_ids=case_ids, cases=missing), log, artifacts / "again")
        made = structs.replace(made, verify=made.verify + again.verify, failure=again.failure)
        later = again.runs[0]
        more = later.cases.unpacked() if later.cases else {}
        scores = {case: more.get(case) if score is None else score for case, score in scores.items()}
        seconds = round(run.seconds + later.seconds, 6)
        run = structs.replace(run, cases=CaseScores.of(scores), value=_mean(scores), seconds=seconds)
    count = sum(score is None for score in scores.values())
    is_strict = verifier.manifest.metric.missing == "fail" and spec.side == "candidate" and not spec.role
    if not made.failure and (
        count > max(1, MOST_MISSING * len(case_ids)) or (count and is_strict) or run.value is None
    ):
        why = f"{count} of {pluralize(len(scores), 'case')} got no score{'' if spec.own_folder else ', asked twice'}"
        made = structs.replace(made, failure=Failure(Reason.NO_METRIC, why))
    elif count and spec.missing is not None:
        scores = {case: spec.missing if score is None else score for case, score in scores.items()}
        run = structs.replace(run, cases=CaseScores.of(scores), value=_mean(scores))
    if made.failure:
        return structs.replace(made, runs=(structs.replace(run, value=None, cases=None),), guard_runs=())
    return structs.replace(made, runs=(run,))


def _mean(scores: Mapping[int, float | None]) -> float | None:
    present = [score for score in scores.values() if score is not None]
    return math.fsum(present) / len(present) if present else None


def _measure(verifier: Verifier, spec: MeasurementSpec, log: Sink, artifacts: Path) -> Evidence:
    """What the commands wrote into their run folders is copied to ``artifacts``.

    Raises NoNumber if setup fails, GoalseekError, ``tampered``, for a changed ruler, and OSError if the measurement
    failed and the disk is full.
    """
    run_setup(verifier, log)
    places = verifier.places
    verifier.refuse_changed()
    verifier.bench.refuse_other_ruler(verifier.baseline_tree, spec.tree)
    trial = _Trial(verifier, spec, log)
    value: float | None = None
    guards = dict[str, float]()
    failure: Failure | None = None
    try:
        for command in verifier.manifest.commands:
            trial.run(command)
        value, guards = trial.read_numbers()
    except NoNumber as error:
        failure = error.failure
    verifier.refuse_changed()
    disk.remove_if_exists(artifacts)
    for run_folder in trial.fresh.values():
        try:
            disk.copy_regular_files(run_folder.path, artifacts, None, _ARTIFACTS_LIMIT)
        except (FileNotFoundError, NotADirectoryError):
            log.write(b"[the run folder is gone]\n")
        except disk.SizeExceeded as error:
            log.write(f"[the run folder was not kept whole: {error}]\n".encode())
        except OSError as error:
            if disk.full_disk_error(error) is None:
                raise
            disk.remove_if_exists(artifacts)
            log.write(b"[the run folder was not kept: the disk is full]\n")
    if failure or disk.is_full(places.scratch):
        # The disk counts as full only without the candidate's own files.
        verifier.bench.tidy()
        own = (places.scratch / "home", places.scratch / "tmp", places.outputs)
        for folder in filter(Path.is_dir, (*places.run_folders.values(), *own)):
            disk.recreate_folder(folder)
        disk.refuse_full(places.scratch)
    commands = tuple(
        CommandRun(name, result.exit_code, round(result.seconds, 6), result.killed)
        for name, result in trial.results.items()
    )
    seconds = round(sum(command.seconds for command in commands), 6)
    cases = CaseScores.of(trial.scores) if trial.scores and not failure else None
    run = VerifierRun(spec.side, value, spec.seed, seconds, cases)
    return Evidence((run,), () if failure else (guards,), commands, failure, case_ids=trial.case_ids)


class OnceFiles(Struct, frozen=True):
    """What commands with ``once = true`` wrote, for later measurements of one tree under one ruler (``label``).

    No command can write in the ``folder``. ``numbers`` are guards from printed text or times; None until all have run.
    """

    folder: Path
    label: str
    numbers: dict[str, float] | None = None
    facts: dict[tuple[Kind, str], tuple[int, int]] = field(default_factory=dict)

    def give(self, run_folders: Mapping[Kind, Path], kept_outputs: Path) -> None:
        """Copy the stored files to where the commands had written them."""
        for kind, run_folder in run_folders.items():
            for path in disk.copy_regular_files(self.folder / kind, run_folder):
                os.utime(run_folder / path)  # as if it had just been written: it is of this measurement
        disk.copy_regular_files(self.folder / "outputs", kept_outputs)

    def take(self, command: VerifyCommand, kind: Kind, run_folder: Path, before: Facts, kept_outputs: Path) -> None:
        """Store the files of its run folder that differ from ``before``, and its outputs."""
        changed = {path: facts for path, facts in _file_facts(run_folder).items() if before.get(path) != facts}
        self.facts.update({(kind, path): facts for path, facts in changed.items()})
        if changed:
            disk.copy_regular_files(run_folder, self.folder / kind, changed.__contains__)
        if command.outputs:
            disk.copy_regular_files(kept_outputs, self.folder / "outputs", matcher(command.outputs))


def open_once_files(manifest: Manifest, folder: Path, label: str) -> OnceFiles | None:
    """Emptied if it was for another label; None if no command runs once."""
    if not any(command.once for command in manifest.commands):
        return None
    stored = disk.read_object(folder / "done.json")
    if stored.get("label") == label and "numbers" in stored:
        return OnceFiles(folder, label, stored["numbers"])
    disk.recreate_folder(folder)
    for name in (*KINDS, "outputs"):
        (folder / name).mkdir()
    return OnceFiles(folder, label)


def _file_facts(folder: Path) -> Facts:
    """None of a run folder that candidate code has removed, or replaced."""
    try:
        files = [(path, status) for path, status in disk.list_files(folder) if stat.S_ISREG(status.st_mode)]
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {path: (status.st_ino, status.st_mtime_ns) for path, status in files}


class _Trial:
    """``_stale`` are the outputs that this measurement did not write, each with the reason."""

    def __init__(self, verifier: Verifier, spec: MeasurementSpec, log: Sink) -> None:
        self._verifier, self._spec, self._log = verifier, spec, log
        self._outputs, self._stale = verifier.places.outputs, dict[str, str]()
        self.results: dict[str, ProgramResult] = {}
        self.scores: dict[int, float | None] = {}
        self.case_ids: tuple[str, ...] = ()  # if the spec has none
        self.fresh = {kind: RunFolder.make(verifier.places.run_folders[kind]) for kind in KINDS}
        disk.recreate_folder(self._outputs)
        label = f"{spec.tree} {verifier.ruler}"
        self._once = open_once_files(verifier.manifest, verifier.bench.folder / "once", label)
        if self._once and self._once.numbers is not None:
            self._once.give({kind: run_folder.path for kind, run_folder in self.fresh.items()}, self._outputs)

    def run(self, command: VerifyCommand) -> None:
        """Raises NoNumber if the command's end, or a file that it wrote, ends the measurement."""
        assert command.sees is not None
        verifier, once = self._verifier, self._once if command.once else None
        if once and once.numbers is not None:
            self._log.write(f"[{command.name} runs once, and did]\n".encode())
            return
        if command.name == self._spec.own_folder:
            for folder in self.fresh.values():
                disk.empty(folder.path)
            if (metric := verifier.manifest.metric).source == "json":
                disk.remove_if_exists(self._outputs / metric.path)
        kind: Kind = "hidden" if command.sees == "hidden" else "both"  # a run folder that no candidate code writes in
        run_folder = self.fresh[kind]
        before = _file_facts(run_folder.path) if command.once else {}
        try:
            root = verifier.bench.sync_to(command.sees, self._spec.tree)
            below = root / verifier.places.prefix
            if command.sees != "hidden":
                copy_given_folders(verifier, below)
            self._outputs.mkdir(parents=True, exist_ok=True)
            disk.copy_regular_files(self._outputs, below)
            variables = {
                "GOALSEEK_RUN_DIR": str(run_folder.path),
                "GOALSEEK_ITERATION": str(self._spec.iteration),
                "GOALSEEK_SEED": str(self._spec.seed),
            }
            if self._spec.cases and not command.once:  # what runs once is for all later runs
                ids = self._spec.case_ids
                cases_folder = verifier.places.scratch / "cases"
                disk.recreate_folder(cases_folder)  # unsandboxed code can have put anything in its place
                asked = cases_folder / "ids.txt"
                disk.write_atomic(asked, "".join(f"{ids[case]}\n" for case in self._spec.cases))
                variables["GOALSEEK_CASES"] = str(asked)
            result = self.results[command.name] = run_command(verifier, command, root, variables, self._log)
            refuse_failed(verifier, command, result)
            _refuse_changed_ruler(verifier, command)
            self._collect_outputs(command, run_folder)
            if once:
                once.take(command, kind, run_folder.path, before, self._outputs)
        except OSError as error:
            if disk.full_disk_error(error) is None:
                raise
            why = f"{command.name}: its outputs filled the disk"
            raise NoNumber(Reason.VERIFY_FAILED, why) from None

    def _collect_outputs(self, command: VerifyCommand, run_folder: RunFolder) -> None:
        """Raises NoNumber if an output is missing, too large, or not its to make."""
        if not command.outputs:
            return
        assert command.sees is not None
        bench, prefix, tree = self._verifier.bench, self._verifier.places.prefix, self._spec.tree
        sees, matches = command.sees, matcher(command.outputs)

        def is_wanted(path: str) -> bool:
            return matches(path) and not bench.is_there_anyhow(sees, tree, prefix + path)

        def refusal(why: str) -> NoNumber:
            return NoNumber(Reason.VERIFY_FAILED, f"{command.name}{why}")

        below = bench.root_for(sees) / prefix
        try:
            copied = disk.copy_regular_files(below, self._outputs, is_wanted, command.output_max)
        except disk.SizeExceeded as error:
            raise refusal(f": {error}; raise its output_max") from None
        except (FileNotFoundError, NotADirectoryError):
            raise refusal(" left no tree to take outputs from") from None
        for path, status in copied.items():
            if bench.would_shadow_ruler(tree, prefix + path):
                raise refusal(f": its output {quote_path(path)} would hide a file of the verifier")
            for part, why in bench.output_hazards(tree, prefix + path):
                if not any(part in pattern.split("/") and matcher((pattern,))(path) for pattern in command.outputs):
                    remedy = f"list {quote_path(part)} in its outputs if it is wanted"
                    raise refusal(f": its output {quote_path(path)}: {why}; {remedy}")
            self._stale.pop(path, None)
            if why := run_folder.stale_reason(status):
                self._stale[path] = why
            elif bench.is_untouched(sees, prefix + path):
                self._stale[path] = "it is unchanged since the commit"
        for pattern in command.outputs:
            if not any(map(matcher((pattern,)), copied)):
                raise refusal(f" left no output {pattern}")

    def read_numbers(self) -> tuple[float | None, dict[str, float]]:
        """The metric and the guards; None if no case has a score. Raises NoNumber."""
        manifest, once = self._verifier.manifest, self._once
        known = (once.numbers or {}) if once else {}
        value = self._read_cases(manifest.metric) if manifest.metric.cases else self._read(manifest.metric)
        guards = {
            guard.name: known[guard.name] if guard.name in known else self._read(guard) for guard in manifest.guard
        }
        if once and once.numbers is None:
            path = manifest.metric.path
            shown = {(kind, path): _file_facts(self.fresh[kind].path).get(path) for kind in KINDS}
            if manifest.metric.source == "json" and shown.items() & once.facts.items():
                why = f"{path} is written by a command that runs once: no repeat would give another number"
                raise NoNumber(Reason.NO_METRIC, why)
            names = {command.name for command in manifest.commands if command.once}
            printed = [guard.name for guard in manifest.guard if guard.source != "json" and guard.command in names]
            stored = {"label": once.label, "numbers": {name: guards[name] for name in printed}}
            disk.write_atomic(once.folder / "done.json", json.dumps(stored), durable=True)
        return value, guards

    def _read(self, reading: Reading) -> float:
        """Raises NoNumber. A number of a command with ``sees = "hidden"`` is not read from candidate code's files."""
        if reading.source != "json":
            return read_result(reading, self.results[reading.command])
        return find_number(reading, self._read_document(reading))

    def _read_cases(self, metric: Metric) -> float | None:
        """Their mean, None without a score. Raises NoNumber for an id that is none of the table's, or no case."""
        scores, spec = find_cases(metric, self._read_document(metric)), self._spec
        self.case_ids = () if spec.case_ids else tuple(scores)
        ids = spec.case_ids or self.case_ids
        if unknown := scores.keys() - set(ids):
            why = f"{metric.path} has {pluralize(len(unknown), 'case')} that the baseline did not have"
            raise NoNumber(Reason.NO_METRIC, f"{metric.name}: {why}")
        unasked = [scores.get(name) for name in set(ids).difference(ids[case] for case in spec.cases)]
        # Some verifiers answer all, whatever they are asked; others have null for what they are not asked.
        has_all = len(unasked) - unasked.count(None) >= (1 - MOST_MISSING) * len(unasked)
        asked = range(len(ids)) if has_all or not spec.cases else spec.cases
        self.scores = {case: scores.get(ids[case]) for case in asked}
        if not self.scores:
            raise NoNumber(Reason.NO_METRIC, f"{metric.name}: {metric.path} has no case")
        return _mean(self.scores)

    def _read_document(self, reading: Reading) -> Any:
        sees = {command.name: command.sees for command in self._verifier.manifest.commands}
        is_mixed = sees[reading.command] != "hidden"
        run_folders = [self.fresh["hidden"], *([self.fresh["both"]] if is_mixed else [])]
        try:
            return read_file(reading, run_folders, self._outputs, self._stale)
        except NoNumber as error:
            if is_mixed or not os.path.lexists(self.fresh["both"].path / reading.path):
                raise
            hint = f"a file that candidate code could write does not count as {reading.command}'s"
            raise NoNumber(error.failure.reason, f"{error}; {hint}: see {reading.name}.command") from None


def _refuse_changed_ruler(verifier: Verifier, command: VerifyCommand) -> None:
    """Raises NoNumber if a command that sees candidate and ruler changed files of the ruler."""
    if command.sees != "both":
        return
    prefix, setup = verifier.places.prefix, verifier.manifest.setup
    is_setup_output = matcher(tuple(map(literal_pattern, setup.gives))) if setup else lambda path: False
    paths = verifier.bench.changed_ruler_files(command.sees)
    changed = [quote_path(path) for path in paths if not is_setup_output(path.removeprefix(prefix))]
    if changed:
        why = f"{command.name} changed files outside scope.writable during the measurement: {abbreviate(changed)}"
        raise NoNumber(Reason.VERIFY_FAILED, f"{why}; list files that it may write in scope.generated")


def move_outputs(source: Path, folder: Path) -> None:
    disk.remove_if_exists(folder / OUTPUTS)
    if not source.is_dir() or not any(source.iterdir()):
        return
    try:
        source.rename(folder / OUTPUTS)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        disk.copy_regular_files(source, folder / OUTPUTS)
        disk.remove_if_exists(source)
