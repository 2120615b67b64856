"""Evidence of an iteration, one measurement at a time: run on the bench, logged, its files kept in the run folder.

A bench that disappears during a measurement is made again once: it lies in a cache that anybody may empty.
"""

from __future__ import annotations

import json
from pathlib import Path

from goalseek.errors import GoalseekError
from goalseek.locks import exclusive_lock
from goalseek.measurement.measure import Measurement, MeasurementSpec, is_in_place, measure
from goalseek.measurement.metric import NoNumber
from goalseek.measurement.outputs import OUTPUTS, move_outputs
from goalseek.measurement.setup import run_setup
from goalseek.measurement.verifier import Verifier, has_stop_code
from goalseek.own_folders import remove_if_exists
from goalseek.phase_values import Evidence, Failure
from goalseek.sandbox.pipes import LogFile, Sink
from goalseek.values import StopReason, VerifierRun


def add_measurement(verifier: Verifier, spec: MeasurementSpec, evidence: Evidence, run_folder: Path) -> Evidence:
    """``evidence`` and one more measurement.

    Measurement k writes ``measurements/k/`` and appends to ``verifier.log``; ``metrics.json`` and ``outputs/`` are
    those of the candidate's last. If a measurement fails and the bench is gone, the bench is made again and the tree
    measured once more; if it is gone again, that is the candidate's doing.

    A first failure of the incumbent is a run without a value. Raises GoalseekError, ``incumbent_failed``, if it fails
    the next time too, which is stored nowhere but in the log, or if a command says stop.
    """
    run_folder.mkdir(parents=True, exist_ok=True)  # somebody's git clean may have removed it
    number = len(evidence.runs) + 1
    if number == 1:
        remove_if_exists(run_folder / "verifier.log")
        remove_if_exists(run_folder / "measurements")
        remove_if_exists(run_folder / OUTPUTS)
    artifacts = run_folder / "measurements" / str(number)
    verifier.turn(spec.side, number)
    exclusive = exclusive_lock(verifier.manifest.metric.exclusive, verifier.waiting, verifier.pause)
    with exclusive, LogFile(run_folder / "verifier.log") as log:
        log.write(f"[run {number}: {spec.side}, seed {spec.seed}]\n".encode())
        sample = _measure_on_bench(verifier, spec, log, artifacts)
        result = sample.failure.why if sample.failure else f"{verifier.manifest.metric.name} = {sample.value!r}"
        log.write(f"[run {number}: {result}]\n".encode("utf-8", "replace"))
    run_folder.mkdir(parents=True, exist_ok=True)
    run = VerifierRun(spec.side, sample.value, sample.seed, sample.seconds)
    if spec.side == "incumbent":
        if sample.failure and (evidence.is_incumbent_failing or has_stop_code(verifier.manifest, sample.verify)):
            raise _incumbent_error(sample.failure)
        return evidence.plus(Evidence((run,)))
    if sample.failure is None and verifier.manifest.log.keep_outputs != "none":
        move_outputs(verifier.places.outputs, run_folder)
    _write_metrics(run_folder / "metrics.json", verifier, sample, artifacts)
    guards = () if sample.failure else (sample.guards,)
    return evidence.plus(Evidence((run,), guards, sample.verify, sample.failure))


def _measure_on_bench(verifier: Verifier, spec: MeasurementSpec, log: Sink, artifacts: Path) -> Measurement:
    try:
        run_setup(verifier, log)
        sample = measure(verifier, spec, log, artifacts)
        if sample.failure is None or is_in_place(verifier):
            return sample
        log.write(b"[the bench was removed while it was in use: measured once more]\n")
        run_setup(verifier, log)
        return measure(verifier, spec, log, artifacts)
    except NoNumber as error:
        return Measurement(None, {}, (), spec.seed, 0.0, Failure(error.reason, error.why))


def _incumbent_error(failure: Failure) -> GoalseekError:
    message = f"the incumbent was measured again and gives no number any more: {failure.why}"
    hint = "see its output: goalseek show --output; correct what has changed here, and run the same command again"
    return GoalseekError(message, hint, StopReason.INCUMBENT_FAILED)


def _write_metrics(path: Path, verifier: Verifier, sample: Measurement, artifacts: Path) -> None:
    """The metric's own file where there is one, else what was read."""
    metric = verifier.manifest.metric
    source = artifacts / metric.path
    if metric.source == "json" and source.is_file():
        path.write_bytes(source.read_bytes())
        return
    path.write_text(json.dumps({metric.name: sample.value, **sample.guards}) + "\n")
