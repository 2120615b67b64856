"""One measurement outside an iteration, as evidence for the next baseline; and the ruler."""

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self, TypeVar

from msgspec import Struct, field, structs

from goalseek.case_scores import CaseScores
from goalseek.errors import GoalseekError
from goalseek.git.objects import Objects
from goalseek.ledger.checkpoints import Checkpoints
from goalseek.ledger.standing import Standing
from goalseek.manifest.loading import make_log_folders
from goalseek.manifest.tables import Metric
from goalseek.measurement.measure import MeasurementSpec
from goalseek.measurement.ruler import Ruler, ruler_keys
from goalseek.phase_values import Evidence, Failure, Verdict
from goalseek.process import deferring_signals
from goalseek.project import landing
from goalseek.project.activity import PhaseSeconds
from goalseek.project.config import Config
from goalseek.project.project import Project
from goalseek.records import MeasurementRecord, SettledDifference
from goalseek.statistics.acceptance import rejection_of
from goalseek.statistics.cases import order_of
from goalseek.statistics.intervals import settle
from goalseek.values import CommandRun, Reason, StopReason, VerifierRun
from goalseek.workspace.places import BenchName

Value = TypeVar("Value")
_MAX_LOG = 64 * 1024


class MeasuredValue(Struct, frozen=True):
    value: float
    guards: dict[str, float]
    verify: tuple[CommandRun, ...]
    seconds: float  # of all commands together
    seed: int | None = None  # None if it was not recorded
    before: bool = False  # an earlier command measured it
    cases: CaseScores | None = None
    host: str | None = None


Run = MeasuredValue | MeasurementRecord


class Target(Struct, frozen=True):
    """A tree to be measured under the pinned ruler, or the next baseline's."""

    config: Config
    tree: str
    ruler: str
    epoch: int
    baseline_tree: str
    baseline_seconds: dict[str, float] = field(default_factory=dict)
    known: tuple[MeasuredValue, ...] = ()  # of the same tree, oldest first
    own_folder: str = ""  # the command with an empty run folder of its own
    bench: BenchName = "a"  # another one for each of two trees in turn
    seed: int | None = None  # None for an unused one
    iteration: int | None = None  # None for the next
    name: str = ""  # for errors
    case_ids: tuple[str, ...] = ()  # the table, before a baseline has one
    cases: tuple[int, ...] = ()  # those to ask; all, if empty

    def variant(self, tree: str) -> Self:
        """Another tree in its place. Without a baseline, ``timeout = "auto"`` goes by the last known run."""
        seconds = self.baseline_seconds
        if not seconds and self.known:
            seconds = {command.name: command.seconds for command in self.known[-1].verify}
        return structs.replace(self, tree=tree, baseline_seconds=seconds)


def pinned_target(standing: Standing, config: Config, tree: str, bench: BenchName = "a", name: str = "") -> Target:
    baseline = standing.baseline
    assert baseline
    return Target(config, tree, standing.ruler, standing.epoch, baseline.tree, baseline.seconds, bench=bench, name=name)


def origin_tree(project: Project, config: Config) -> str:
    """The code of the first baseline under this ruler, with all else of the present one."""
    assert project.standing.origin and project.standing.baseline
    return compose_tree(project, config, project.standing.baseline.tree, project.standing.origin.tree)


def compose_tree(project: Project, config: Config, ruler_tree: str, code_tree: str) -> str:
    kind = config.scope.kind
    return replace_files(project.repository.objects, ruler_tree, code_tree, lambda path: kind(path) == "writable")


def replace_files(objects: Objects, tree: str, other: str, takes: Callable[[str], bool]) -> str:
    differences = objects.differences(tree, other)
    edits = {difference.path: difference.after for difference in differences if takes(difference.path)}
    return objects.splice(tree, edits) if edits else tree


def current_target(project: Project, config: Config) -> Target:
    """The incumbent's tree, or before the first baseline HEAD's."""
    standing = project.standing
    incumbent = standing.incumbent
    if incumbent is None:
        return baseline_target(project, config)
    runs = tuple(CommandRun(name, 0, seconds) for name, seconds in incumbent.seconds.items())
    kept = MeasuredValue(incumbent.value, incumbent.guards, runs, sum(incumbent.seconds.values()), before=True)
    target = pinned_target(standing, config, incumbent.tree)
    return structs.replace(target, known=(kept, *map(value_before, standing.pooled(target.tree, target.ruler))))


def baseline_target(project: Project, config: Config) -> Target:
    standing, tree = project.standing, project.repository.tree_of(project.repository.head())
    target = Target(config, tree, ruler_of(project, config, tree).digest, standing.epoch + 1, tree)
    pool = () if config.manifest.metric.cases else standing.pooled(target.tree, target.ruler)  # they have no table
    return structs.replace(target, known=tuple(map(value_before, pool)))


def value_before(run: MeasurementRecord) -> MeasuredValue:
    return MeasuredValue(run.value, run.guards, run.verify, run.seconds, run.seed, before=True, cases=run.cases)


class TreeRun(Struct, frozen=True):
    target: Target
    evidence: Evidence

    @property
    def number(self) -> MeasuredValue | Failure:
        """A failure also for an invalid value."""
        manifest = self.target.config.manifest
        rejection = rejection_of(manifest.metric, manifest.guard, self.evidence)
        return Failure(*rejection) if rejection else measurement_of(self.evidence)


def measure_in_turn(project: Project, trees: Iterable[Target], asked_by: str = "") -> Iterator[TreeRun]:
    """Measure the trees in order. A tree without a seed gets an unused one.

    If ``asked_by`` is given, each number is recorded before it is yielded, and only then is ``trees`` asked for the
    next, so a result can decide what follows.
    """
    used_here, host = set[int](), None
    folder = trial_folder(project)
    for target in trees:
        if target.seed is None:
            used = used_here.union(number.seed for number in target.known if number.seed is not None)
            # Below zero: no run of an iteration has such a number. After a record they begin one lower.
            standing, seal = project.standing, project.ledger.seal
            numbers = itertools.count(-(standing.seq + 2), -1)
            seeds = (seal.seed(project.run_id, standing.next_iteration, number) for number in numbers)
            target = structs.replace(target, seed=next(seed for seed in seeds if seed not in used))
        assert target.seed is not None
        folder.mkdir(parents=True, exist_ok=True)
        iteration = project.standing.next_iteration if target.iteration is None else target.iteration
        role = "candidate" if target.bench == "a" else "incumbent"
        is_pinned = target.ruler == project.standing.ruler and not target.own_folder  # a holdout has cases of its own
        known = project.standing.noise.cases if is_pinned else None
        ids = known.ids if known else target.case_ids
        cases = target.cases or order_of(len(ids), target.seed)
        spec = MeasurementSpec(target.tree, target.seed, iteration, role=role, own_folder=target.own_folder)
        missing = known.missing_score(target.config.manifest.metric) if known else None
        spec = structs.replace(spec, case_ids=ids, cases=cases, missing=missing)
        ruler = (target.ruler, target.baseline_tree, target.baseline_seconds)
        verifier = project.verifier(target.config, *ruler, target.bench)
        run = TreeRun(target, project.measure(verifier, spec, Evidence(), folder))
        host, before = run.evidence.runs[-1].host, host
        if before not in (None, host) and not target.config.manifest.metric.portable:
            message = f"the worker on {before} was lost, and what {host} measured is not compared with its numbers"
            raise GoalseekError(message, "run the same command again", StopReason.CLUSTER)
        used_here.add(target.seed)
        if asked_by and isinstance(number := run.number, MeasuredValue):
            record_measurement(project, target, number, asked_by)
        yield run


def alternate(before: Value, after: Value, pairs: int) -> Iterator[Value]:
    """So many pairs in the order before, after, after, before, and so on, so that drift cancels."""
    return itertools.islice(itertools.cycle((before, after, after, before)), 2 * pairs)


def pairs_in_turn(values: Sequence[Value]) -> list[tuple[Value, Value]]:
    """The whole pairs (before, after) of values from ``alternate``."""
    pairs = zip(values[::2], values[1::2], strict=False)
    return [pair if index % 2 == 0 else pair[::-1] for index, pair in enumerate(pairs)]


def settle_pairs(metric: Metric, pairs: Iterable[tuple[Run, Run]], all_positive: bool = True) -> SettledDifference:
    """Of pairs (before, after), with their cases. Raises ValueError without a pair."""
    values, cases = zip(*(((a.value, b.value), (a.cases, b.cases)) for a, b in pairs), strict=True)
    return settle(metric.direction, values, all_positive, metric.unit, cases)


def trial_folder(project: Project) -> Path:
    return project.places.scratch / "trial"


def seconds_outside(project: Project, what: str) -> PhaseSeconds:
    """Counts seconds for the limits, from those of a try at the record ``what`` that was killed or failed."""
    checkpoints = Checkpoints(project.repository.own, project.ledger.seal, project.run_id, what)
    return PhaseSeconds(checkpoints, project.activity.seconds)


def sync_bench(project: Project, config: Config, tree: str) -> None:
    bench = project.lane.bench(config.trees, "a")
    for sees in dict.fromkeys(command.sees for command in config.manifest.commands):
        if sees is not None:
            bench.sync_to(sees, tree)


def measurement_of(evidence: Evidence) -> MeasuredValue:
    run = evidence.runs[0]
    assert run.value is not None
    cases = None if evidence.case_ids else run.cases  # without a table the positions are of this run alone
    return MeasuredValue(run.value, evidence.guards, evidence.verify, run.seconds, run.seed, cases=cases, host=run.host)


def record_measurement(project: Project, target: Target, measurement: MeasuredValue, asked_by: str) -> None:
    make_log_folders(project.loaded)
    record = MeasurementRecord(
        **project.record_head("measurement", target.epoch),
        tree=target.tree,
        ruler=target.ruler,
        asked_by=asked_by,
        value=measurement.value,
        seed=measurement.seed or 0,
        seconds=measurement.seconds,
        guards=measurement.guards,
        verify=measurement.verify,
        cases=measurement.cases,
        host=measurement.host,
    )
    with deferring_signals():
        landing.append(project, record)


def evidence_from_pool(pool: Sequence[MeasurementRecord], run_folder: Path) -> Evidence:
    """Recorded measurements as evidence for the baseline; writes the run folder's files for them."""
    runs = tuple(VerifierRun("candidate", record.value, record.seed, record.seconds) for record in pool)
    lines = [f"[measured before by {record.asked_by}: {record.value}, seed {record.seed}]\n" for record in pool]
    (run_folder / "verifier.log").write_text("".join(lines))
    (run_folder / "metrics.json").write_text(json.dumps({"value": pool[-1].value, **pool[-1].guards}) + "\n")
    return Evidence(
        runs,
        tuple(record.guards for record in pool),
        tuple(command for record in pool for command in record.verify),
    )


def ruler_of(project: Project, config: Config, tree: str) -> Ruler:
    return Ruler(
        ruler_keys(config.manifest), digest_of_files(ruler_files(project, config, tree)), config.trees.hidden_from
    )


def ruler_files(project: Project, config: Config, tree: str) -> dict[str, str]:
    """Mode and blob by path."""
    scope, files = config.scope, project.repository.objects.files(tree).items()  # who proposes is none of the ruler
    of_ruler = ((path, entry) for path, entry in files if scope.in_ruler(path) and path not in scope.proposer)
    return {path: f"{entry.mode} {entry.blob}" for path, entry in of_ruler}


def digest_of_files(files: Mapping[str, str]) -> str:
    lines = sorted(f"{entry} {path}" for path, entry in files.items())
    return hashlib.sha256("\0".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def baseline_error(
    failure: Failure | Verdict, run_folder: Path, what: str = "the baseline", remedy: str = ""
) -> GoalseekError:
    """The error for a tree without a number, with the verifier's last lines. ``remedy`` may be ""."""
    message = with_last_lines(f"{what} has no number: {failure.why}", printed_in(run_folder))
    wrong = "query or regex, the verifier" if failure.reason == Reason.NO_METRIC else "the verifier"
    hint = f"{remedy}; then" if remedy else f"correct {wrong} or the code, commit, and"
    hint += " run the same command again"
    return GoalseekError(message, hint, StopReason.BASELINE_FAILED)


def printed_in(run_folder: Path) -> str:
    """The end of what the verifier printed in the measurements of this run folder."""
    log = run_folder / "verifier.log"
    return log.read_bytes()[-_MAX_LOG:].decode("utf-8", "replace") if log.is_file() else ""


def with_last_lines(message: str, printed: str) -> str:
    return "\n".join([message, *(f"  | {line}" for line in printed.splitlines()[-20:])])
