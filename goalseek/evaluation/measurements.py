"""One measurement outside an iteration: what is measured, how it is made on a bench, and how it is recorded.

A recorded measurement is evidence for the next baseline, so that none is made twice. The ruler is taken here too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from goalseek.errors import GoalseekError
from goalseek.ledger.checkpoints import Checkpoints, PhaseSeconds
from goalseek.ledger.records import MeasurementRecord
from goalseek.manifest.loading import make_log_folders
from goalseek.measurement.evidence import add_measurement
from goalseek.measurement.ruler import Ruler, digest_of_files, ruler_keys
from goalseek.phase_values import Evidence, Side, Verdict
from goalseek.project import preflight
from goalseek.project.config import Config
from goalseek.project.project import Project
from goalseek.values import CommandRun, StopReason, VerifierRun
from goalseek.workspace.places import BenchName
from goalseek.workspace.shared_folders import refuse_unfit_gives, refuse_unfit_shares


@dataclass(frozen=True)
class Measurement:
    """One value of a tree. ``seconds`` are those of all commands together; ``seed`` is None where it was not recorded.

    ``before``: it was measured by an earlier command.
    """

    value: float
    guards: dict[str, float]
    verify: tuple[CommandRun, ...]
    seconds: float
    seed: int | None = None
    before: bool = False


@dataclass(frozen=True)
class Target:
    """What is measured: the incumbent's tree under the pinned ruler, or HEAD's under the next baseline's.

    ``known`` are the measurements of it that were made before, oldest first.
    """

    config: Config
    tree: str
    ruler: str
    epoch: int
    baseline_tree: str
    baseline_seconds: dict[str, float] = field(default_factory=dict)
    known: tuple[Measurement, ...] = ()


def incumbent_target(project: Project, config: Config) -> Target:
    """The incumbent of a climb that has begun."""
    standing = project.standing
    incumbent, start = standing.incumbent, standing.baseline
    assert incumbent and start
    runs = tuple(CommandRun(name, 0, seconds) for name, seconds in incumbent.seconds.items())
    first = Measurement(incumbent.value, incumbent.guards, runs, sum(incumbent.seconds.values()), before=True)
    known = (first, *_known_measurements(project, incumbent.tree, standing.ruler))
    return Target(config, incumbent.tree, standing.ruler, standing.epoch, start.tree, start.seconds, known)


def baseline_target(project: Project, config: Config) -> Target:
    """What the first baseline will measure. Raises GoalseekError for an uncommitted change of the ruler's files."""
    ruler = take_ruler(project, config).digest
    tree = project.repository.tree_of(project.repository.head())
    return Target(
        config, tree, ruler, project.standing.epoch + 1, tree, known=_known_measurements(project, tree, ruler)
    )


def measure_target(
    project: Project,
    subject: Target,
    number: int,
    folder: Path,
    tree: str = "",
    seed: int = -1,
    iteration: int | None = None,
    bench: BenchName = "a",
    own_folder: str = "",
) -> Evidence:
    """Measures the subject once, or another ``tree`` in its place, on a bench.

    ``number`` counts the measurements since the last record, from 0. Without ``seed`` each number has another; without
    ``iteration`` it is the next one. The verifier's output goes to ``folder / "verifier.log"``; the command named
    ``own_folder`` has an empty run folder of its own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    seconds = subject.baseline_seconds
    if tree and not seconds and subject.known:
        seconds = {command.name: command.seconds for command in subject.known[-1].verify}
    if iteration is None:
        iteration = project.standing.next_iteration
    if seed < 0:
        # Below zero: no measurement of an iteration has such a number, so no seed is ever used twice.
        seed = project.ledger.seal.seed(project.run_id, iteration, -(project.standing.seq + 2 + number))
    with project.verifier(subject.config, subject.ruler, subject.baseline_tree, seconds, bench) as usual:
        side: Side = "candidate" if bench == "a" else "incumbent"
        verifier = replace(usual, own_folder=own_folder, turn=lambda _, number: usual.turn(side, number))
        return add_measurement(verifier, "candidate", tree or subject.tree, Evidence(), seed, iteration, folder)


def seconds_outside(project: Project, what: str) -> PhaseSeconds:
    """Counts the seconds of a measurement outside an iteration, for the limits; ``what`` names its record to come.

    Seconds that it has already are those of an attempt at the same record that was killed or failed.
    """
    return PhaseSeconds(
        Checkpoints(project.repository.own, project.ledger.seal, project.run_id, what), project.activity.seconds
    )


def sync_bench(project: Project, config: Config, tree: str) -> None:
    """Brings every view of the bench on which trees are measured to this tree."""
    with project.bench(config, "a") as bench:
        for sees in dict.fromkeys(command.sees for command in config.manifest.verify):
            if sees is not None:
                bench.sync_to(sees, tree)


def measurement_of(evidence: Evidence) -> Measurement:
    """The measurement in evidence that has exactly one, with a value."""
    run = evidence.runs[0]
    assert run.value is not None
    return Measurement(run.value, evidence.guards, evidence.verify, run.seconds, run.seed)


def record_measurement(project: Project, subject: Target, measurement: Measurement, asked_by: str) -> None:
    """Writes a measurement into the ledger, where the next baseline finds it."""
    make_log_folders(project.loaded)
    record = MeasurementRecord(
        seq=0,
        kind="measurement",
        project=project.repository.name,
        run_id=project.run_id,
        epoch=subject.epoch,
        timestamp=project.ledger.now(),
        tree=subject.tree,
        ruler=subject.ruler,
        asked_by=asked_by,
        value=measurement.value,
        seed=measurement.seed or 0,
        seconds=measurement.seconds,
        guards=measurement.guards,
        verify=measurement.verify,
    )
    project.ledger.append(record)


def _known_measurements(project: Project, tree: str, ruler: str) -> tuple[Measurement, ...]:
    return tuple(
        Measurement(record.value, record.guards, record.verify, record.seconds, record.seed, before=True)
        for record in project.standing.pooled(tree, ruler)
    )


def evidence_from_pool(pool: Sequence[MeasurementRecord], run_folder: Path) -> Evidence:
    """Recorded measurements as evidence for the baseline, with the run folder's files for them."""
    evidence = Evidence()
    for record in pool:
        run = VerifierRun("candidate", record.value, record.seed, record.seconds)
        evidence = evidence.plus(Evidence((run,), (record.guards,), record.verify))
    lines = [f"[measured before by {record.asked_by}: {record.value}, seed {record.seed}]\n" for record in pool]
    (run_folder / "verifier.log").write_text("".join(lines))
    (run_folder / "metrics.json").write_text(json.dumps({"value": pool[-1].value, **pool[-1].guards}) + "\n")
    return evidence


_LINES_SHOWN = 20


def take_ruler(project: Project, config: Config) -> Ruler:
    """The ruler as HEAD and the manifest have it now. Raises GoalseekError for an uncommitted change of its files,
    and where HEAD tracks what is shared, or what setup gives anew.
    """
    preflight.refuse_uncommitted(project.repository, config.scope)
    entries = project.repository.objects.files(project.repository.tree_of(project.repository.head()))
    preflight.refuse_hidden_clashes(config.manifest, project.places.prefix, config.hidden_from, entries)
    refuse_unfit_shares(project.loaded, project.repository, project.places, config.scope, entries)
    refuse_unfit_gives(config.manifest, project.places.prefix, config.scope, entries)
    return Ruler(ruler_keys(config.manifest), digest_of_files(entries.items(), config.scope), config.hidden_from)


def baseline_error(verdict: Verdict, run_folder: Path, what: str = "the baseline", remedy: str = "") -> GoalseekError:
    """The error for a baseline, or another tree, without a number, with the verifier's last lines.

    ``remedy`` is what is likely to help, where that is known.
    """
    log = run_folder / "verifier.log"
    lines = log.read_text("utf-8", "replace").splitlines()[-_LINES_SHOWN:] if log.exists() else []
    message = f"{what} has no number: {verdict.why}"
    if lines:
        message += "\n" + "\n".join(f"  | {line}" for line in lines)
    hint = f"{remedy or 'mend the verifier or the code'}, commit, and run the same command again"
    return GoalseekError(message, hint, StopReason.BASELINE_FAILED)
