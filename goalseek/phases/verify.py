"""VERIFY: the verifier's commands run on the bench; what they left becomes the evidence."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from goalseek.artifacts import OUTPUTS, put_outputs
from goalseek.beneath import clear
from goalseek.capture import LogFile
from goalseek.exclusive import alone
from goalseek.measure import Sample, is_in_place, measure
from goalseek.metric import NoNumber
from goalseek.records import MeasurementRecord
from goalseek.setup_once import prepare
from goalseek.values import Evidence, Failure, VerifierRun
from goalseek.verifier import Verifier


def verify(verifier: Verifier, tree: str, seed: int, iteration: int, run_folder: Path) -> Evidence:
    """Measures a tree once; writes ``verifier.log``, ``metrics.json``, ``measurements/1/`` and ``outputs/``.

    Where the bench was removed under a measurement that failed, it is made anew, and the tree measured once more: a
    second time it is the candidate's doing.
    """
    (run_folder / "verifier.log").unlink(missing_ok=True)
    clear(run_folder / "measurements")
    clear(run_folder / OUTPUTS)
    artifacts = run_folder / "measurements" / "1"
    exclusive = alone(verifier.manifest.metric.exclusive, verifier.waiting, verifier.programs.pulse)
    with exclusive, LogFile(run_folder / "verifier.log") as log:
        for is_last in (False, True):
            try:
                prepare(verifier, log)
            except NoNumber as failed:
                return Evidence(failure=Failure(failed.reason, failed.why))
            sample = measure(verifier, tree, seed, iteration, log, artifacts)
            if is_last or not sample.failure or is_in_place(verifier):
                break
            log.write(b"[the bench was removed while it was in use: measured once more]\n")
    run_folder.mkdir(parents=True, exist_ok=True)  # somebody's git clean may have removed it
    if sample.failure is None and verifier.manifest.log.keep_outputs != "none":
        put_outputs(verifier.places.outputs, run_folder)
    _write_metrics(run_folder / "metrics.json", verifier, sample, artifacts)
    return evidence_of(sample)


def evidence_of(sample: Sample) -> Evidence:
    """One measurement of the candidate as evidence."""
    run = VerifierRun("candidate", sample.value, sample.seed, sample.seconds)
    return Evidence((run,), sample.guards, sample.verify, sample.failure)


def evidence_from_pool(pooled: Sequence[MeasurementRecord], run_folder: Path) -> Evidence:
    """Measurements made before, as evidence for the baseline that need not make them again."""
    runs = tuple(VerifierRun("candidate", record.value, record.seed, record.seconds) for record in pooled)
    last = pooled[-1]
    told = [f"[measured before by {record.asked_by}: {record.value}, seed {record.seed}]\n" for record in pooled]
    (run_folder / "verifier.log").write_text("".join(told))
    (run_folder / "metrics.json").write_text(json.dumps({"value": last.value, **last.guards}) + "\n")
    return Evidence(runs, last.guards, last.verify)


def _write_metrics(path: Path, verifier: Verifier, sample: Sample, artifacts: Path) -> None:
    """The metric's own file where there is one, else what was read."""
    metric = verifier.manifest.metric
    source = artifacts / metric.path
    if metric.source == "json" and source.is_file():
        path.write_bytes(source.read_bytes())
        return
    path.write_text(json.dumps({metric.name: sample.value, **sample.guards}) + "\n")
