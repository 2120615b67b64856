"""VERIFY: the verifier's commands run on a bench, one measurement at a time; what they left becomes the evidence."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from goalseek.artifacts import OUTPUTS, put_outputs
from goalseek.errors import BAD_FINDING, GoalseekError
from goalseek.locks import alone
from goalseek.measure import Sample, is_in_place
from goalseek.metric import NoNumber
from goalseek.own_folders import clear
from goalseek.phase_values import Candidate, Change, Evidence, Failure, Side, Verdict
from goalseek.phases.decide import ruling
from goalseek.records import MeasurementRecord
from goalseek.repeats import measure_repeatedly
from goalseek.run import Run
from goalseek.sandbox.pipes import LogFile, Sink
from goalseek.setting import Setting
from goalseek.setup_once import prepare
from goalseek.statistics.sequential_test import Next, RunIncumbent, baseline_verdict
from goalseek.values import VerifierRun
from goalseek.verifier import Verifier, said_stop


def candidate_owes(
    run: Run, setting: Setting, change: Change, candidate: Candidate, folder: Path, before: int, evidence: Evidence
) -> Callable[[], Evidence] | None:
    """The measurement that the candidate's verdict needs next, its own or the incumbent's; None where it needs none.

    An incumbent that failed is asked once more before anything else. ``before`` is how many were made of its earlier
    tries.
    """
    standing = run.standing
    following: Next = RunIncumbent()
    if not is_incumbent_failing(evidence):
        following = ruling(setting.manifest, standing, change, evidence)
    if isinstance(following, Verdict):
        return None
    assert standing.incumbent and standing.baseline
    of: Side = "incumbent" if isinstance(following, RunIncumbent) else "candidate"
    tree = standing.incumbent.tree if of == "incumbent" else candidate.tree
    baseline, number = standing.baseline, standing.last_iteration + 1

    def measured() -> Evidence:
        verifier = run.verifier(setting, standing.ruler, baseline.tree, baseline.seconds, of)
        made = one_more(verifier, of, tree, evidence, _seed(run, number, evidence, before), number, folder)
        if is_incumbent_failing(made):
            run.watch.note("the incumbent, measured again, has no number; it is measured once more")
        return made

    return measured


def is_incumbent_failing(evidence: Evidence) -> bool:
    """Whether the last run is one of the incumbent's that failed."""
    return bool(evidence.runs) and evidence.runs[-1].of == "incumbent" and evidence.runs[-1].value is None


def baseline_owes(
    run: Run, setting: Setting, ruler: str, candidate: Candidate, folder: Path, evidence: Evidence
) -> Callable[[], Evidence] | None:
    """The measurement that a baseline lacks: what was measured before, then one at a time; None where it lacks none."""
    manifest, number = setting.manifest, run.standing.last_iteration + 1
    pooled = run.standing.pooled(candidate.tree, ruler)
    if pooled and not evidence.runs:
        return partial(evidence_from_pool, pooled, folder)
    if baseline_verdict(manifest.metric, manifest.guard, evidence, candidate.commit) is not None:
        return None

    def measured() -> Evidence:
        verifier = run.verifier(setting, ruler, candidate.tree, {})
        seed = _seed(run, number, evidence)
        return one_more(verifier, "candidate", candidate.tree, evidence, seed, number, folder)

    return measured


def _seed(run: Run, number: int, evidence: Evidence, before: int = 0) -> int:
    return run.seal.seed(run.run_id, number, before + len(evidence.runs) + 1)


def one_more(
    verifier: Verifier, of: Side, tree: str, evidence: Evidence, seed: int, iteration: int, run_folder: Path
) -> Evidence:
    """The evidence with one more measurement, of the candidate or the incumbent.

    Measurement k writes ``measurements/k/`` and goes on with ``verifier.log``; ``metrics.json`` and ``outputs/`` are
    those of the candidate's last. Where the bench was removed under a measurement that failed, it is made anew, and the
    tree measured once more: a second time it is the candidate's doing.

    A first failure of the incumbent is a run without a value. Raises GoalseekError, ``incumbent_failed``, where it
    fails the next time too, which is stored nowhere but in the log, or where a command says stop.
    """
    run_folder.mkdir(parents=True, exist_ok=True)  # somebody's git clean may have removed it
    place = len(evidence.runs) + 1
    if place == 1:
        clear(run_folder / "verifier.log")
        clear(run_folder / "measurements")
        clear(run_folder / OUTPUTS)
    artifacts = run_folder / "measurements" / str(place)
    verifier.turn(of, place)
    exclusive = alone(verifier.manifest.metric.exclusive, verifier.waiting, verifier.programs.pulse)
    with exclusive, LogFile(run_folder / "verifier.log") as log:
        log.write(f"[run {place}: {of}, seed {seed}]\n".encode())
        sample = _measured(verifier, tree, seed, iteration, log, artifacts)
        told = sample.failure.why if sample.failure else f"{verifier.manifest.metric.name} = {sample.value!r}"
        log.write(f"[run {place}: {told}]\n".encode("utf-8", "replace"))
    run_folder.mkdir(parents=True, exist_ok=True)
    run = VerifierRun(of, sample.value, sample.seed, sample.seconds)
    if of == "incumbent":
        if sample.failure and (is_incumbent_failing(evidence) or said_stop(verifier.manifest, sample.verify)):
            raise _incumbent_failed(sample.failure)
        return evidence.plus(Evidence((run,)))
    if sample.failure is None and verifier.manifest.log.keep_outputs != "none":
        put_outputs(verifier.places.outputs, run_folder)
    _write_metrics(run_folder / "metrics.json", verifier, sample, artifacts)
    guards = () if sample.failure else (sample.guards,)
    return evidence.plus(Evidence((run,), guards, sample.verify, sample.failure))


def evidence_from_pool(pooled: Sequence[MeasurementRecord], run_folder: Path) -> Evidence:
    """Measurements made before, as evidence for the baseline that need not make them again."""
    evidence = Evidence()
    for record in pooled:
        run = VerifierRun("candidate", record.value, record.seed, record.seconds)
        evidence = evidence.plus(Evidence((run,), (record.guards,), record.verify))
    told = [f"[measured before by {record.asked_by}: {record.value}, seed {record.seed}]\n" for record in pooled]
    (run_folder / "verifier.log").write_text("".join(told))
    (run_folder / "metrics.json").write_text(json.dumps({"value": pooled[-1].value, **pooled[-1].guards}) + "\n")
    return evidence


def _measured(verifier: Verifier, tree: str, seed: int, iteration: int, log: Sink, artifacts: Path) -> Sample:
    try:
        prepare(verifier, log)
        sample = measure_repeatedly(verifier, tree, seed, iteration, log, artifacts)
        if sample.failure is None or is_in_place(verifier):
            return sample
        log.write(b"[the bench was removed while it was in use: measured once more]\n")
        prepare(verifier, log)
        return measure_repeatedly(verifier, tree, seed, iteration, log, artifacts)
    except NoNumber as failed:
        return Sample(None, {}, (), seed, 0.0, Failure(failed.reason, failed.why))


def _incumbent_failed(failure: Failure) -> GoalseekError:
    message = f"the incumbent, measured again, has no number any more: {failure.why}"
    hint = "see its output: goalseek show --output; mend what has changed around it, and run the same command again"
    return GoalseekError(message, hint, BAD_FINDING, "incumbent_failed")


def _write_metrics(path: Path, verifier: Verifier, sample: Sample, artifacts: Path) -> None:
    """The metric's own file where there is one, else what was read."""
    metric = verifier.manifest.metric
    last = artifacts / str(metric.repeats) if metric.repeats > 1 else artifacts
    source = last / metric.path
    if metric.source == "json" and source.is_file():
        path.write_bytes(source.read_bytes())
        return
    path.write_text(json.dumps({metric.name: sample.value, **sample.guards}) + "\n")
