"""The standing of a climb: baseline, incumbent, best, spend and streaks, computed from its records alone."""

from collections.abc import Mapping

from msgspec import Struct, field, structs

from goalseek import records
from goalseek.statistics.noise import NoiseState, scale_of
from goalseek.statistics.rotation import Proposer, Rotation, proposers_of
from goalseek.values import IN_TIP, OPEN, STACK, UNASKED, Number, Outcome, Reason, Usage

CRASHED = (Reason.VERIFY_FAILED, Reason.VERIFY_TIMEOUT, Reason.NO_METRIC, Reason.NOT_FINITE, Reason.UNMEASURABLE)
_MEASUREMENTS_MOST = 50


class MeasuredCommit(Struct, frozen=True):
    """``seconds`` holds the longest of each command."""

    iteration: int
    seq: int
    commit: str
    tree: str
    value: Number
    guards: dict[str, Number] = field(default_factory=dict)
    seconds: dict[str, Number] = field(default_factory=dict)


class Spend(Struct, frozen=True):
    """``iterations`` leaves out baselines and a person's reverts; ``seconds`` are active ones."""

    iterations: int = 0
    seconds: Number = 0.0
    usage: Usage = Usage()

    @property
    def tokens(self) -> int:
        return self.usage.tokens

    def plus(self, seconds: float, usage: Usage, iterations: int = 0) -> "Spend":
        return Spend(self.iterations + iterations, self.seconds + seconds, self.usage.plus(usage))


class Standing(Struct, frozen=True):
    """All that decisions, limits and views need of the records.

    ``last`` is the newest iteration. ``tries`` counts iterations since ``origin``, without a person's reverts;
    ``tried`` counts all proposals, no stacks. ``origin`` is the first baseline under this ruler, from which the gain
    counts (a later one, if nothing was kept before or ``--from`` gave it other code). ``tip`` is where the last landing
    moved it.
    ``best`` is what goes home: the newest kept change with those before it, even if a person took one back and the
    value is worse. ``keeps`` counts its changes since ``origin``; ``taken_back`` maps those of this epoch that it lacks
    to the iteration that took each back. ``outcomes`` and ``spend`` are of this run; an iteration that took a change
    back counts by its reason. A failed call leaves ``stagnation`` as it was.
    ``open_keeps`` counts the kept tries since ``origin`` whose authors could read the hidden files.
    ``has_kept`` is under any ruler. ``unmoved`` counts the measured candidates of this epoch, None once one gave
    another value than the baseline; ``unmerged`` the sets and late changes since the last stack that did not merge.
    ``script_digest`` and ``script_count`` are as in ``Played``. ``machine`` is the kind of host that a cluster's worker
    measured the baseline on.
    """

    seq: int = -1
    run_id: str = ""
    project: str = ""
    metric: str = ""
    direction: str = ""
    unit: str = ""
    epoch: int = -1
    ruler: str = ""
    last_iteration: int = -1
    tries: int = 0
    tried: int = 0
    script_digest: str = ""
    script_count: int = 0
    tip: str = ""
    first: MeasuredCommit | None = None
    origin: MeasuredCommit | None = None
    baseline: MeasuredCommit | None = None
    incumbent: MeasuredCommit | None = None
    best: MeasuredCommit | None = None
    last: records.IterationRecord | None = None
    keeps: int = 0
    open_keeps: int = 0
    has_kept: bool = False
    unmoved: int | None = 0
    unmerged: int = 0
    taken_back: dict[int, int] = field(default_factory=dict)
    stagnation: int = 0
    provider_failures: int = 0
    crashes: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    spend: Spend = Spend()
    total: Spend = Spend()
    measurements: tuple[records.MeasurementRecord, ...] = ()
    noise: NoiseState = NoiseState()
    machine: str | None = None
    rotation: Rotation = Rotation()
    settling: tuple[records.MeasurementRecord, ...] = ()
    settled: records.SettleRecord | None = None
    looks: int = 0
    holdout: tuple[records.HoldoutRecord, ...] = ()

    def after(self, record: records.Record) -> "Standing":
        following = structs.replace(self, seq=record.seq, project=record.project)
        match record:
            case records.RunRecord():
                return structs.replace(_reset_run(following), run_id=record.run_id)
            case records.MeasurementRecord():
                noise = self.noise.after_measurement(record)
                measurements = (*self.measurements, record)[-_MEASUREMENTS_MOST:]
                following = structs.replace(following, measurements=measurements, noise=noise)
                if record.asked_by != "settle":
                    return following
                following = structs.replace(following, settling=(*self.settling, record))
                return following.spending(record.seconds, Usage())
            case records.SettleRecord():
                return structs.replace(following, settled=record, settling=())
            case records.HoldoutRecord():  # the newest of each side stays: of the baseline, and of the last best
                others = tuple(look for look in self.holdout if look.of != record.of)
                following = structs.replace(following, looks=record.look, holdout=(*others, record))
                return following.spending(record.seconds, Usage())
            case records.IterationRecord():
                return _after_iteration(following, record)

    def for_run(self, run_id: str) -> "Standing":
        """With ``spend`` of this run only: zero if it has no record yet."""
        return self if run_id == self.run_id else _reset_run(self)

    def spending(
        self, seconds: float, usage: Usage, before_run: Usage | None = None, iterations: int = 0
    ) -> "Standing":
        """``before_run`` is usage of earlier runs; it counts in ``total`` alone."""
        total = self.total.plus(seconds, usage, iterations)
        total = total.plus(0.0, before_run) if before_run else total
        return structs.replace(self, spend=self.spend.plus(seconds, usage, iterations), total=total)

    @property
    def worse_than_baseline(self) -> str:
        """The finding of a settling, and the way back; "" unless the best is worse beyond doubt."""
        settled = self.settled
        if settled is None or settled.interval is None or settled.interval[1] >= 0:
            return ""
        is_kept = self.best != self.baseline  # changes of an earlier epoch cannot be taken back
        command = f"{self.how_to_take_back(settled.iteration)} takes the newest kept change back, " if is_kept else ""
        return (
            f"settling found the best worse than the baseline: {settled.why}; {command}"
            "goalseek baseline --from HEAD starts from your own code"
        )

    def how_to_take_back(self, number: int) -> str:
        """The command names no number if iteration ``number`` is itself a revert."""
        is_revert = number in self.taken_back.values()
        return "goalseek revert N (goalseek log --outcome kept)" if is_revert else f"goalseek revert {number}"

    @property
    def proposers(self) -> tuple[Proposer, ...]:
        return proposers_of(self.rotation.without(self.taken_back), scale_of(self.direction, self.noise.all_positive))

    @property
    def last_seal(self) -> str:
        """Empty before the first iteration."""
        return self.last.seal if self.last else ""

    @property
    def next_iteration(self) -> int:
        return self.last_iteration + 1

    def pooled(self, tree: str, ruler: str) -> tuple[records.MeasurementRecord, ...]:
        return tuple(record for record in self.measurements if (record.tree, record.ruler) == (tree, ruler))


def _reset_run(standing: Standing) -> Standing:
    rotation = structs.replace(standing.rotation, tries=0)
    return structs.replace(
        standing, spend=Spend(), outcomes={}, stagnation=0, provider_failures=0, crashes=0, rotation=rotation
    )


def _after_iteration(standing: Standing, record: records.IterationRecord) -> Standing:
    incumbent = standing.incumbent.commit if standing.incumbent else None
    counted_as = record.outcome if record.taken_back is None else record.reason
    outcomes = {**standing.outcomes, counted_as: standing.outcomes.get(counted_as, 0) + 1}
    is_try = record.taken_back is None and record.outcome != Outcome.BASELINE
    following = structs.replace(
        standing.spending(record.climb_seconds, record.usage, record.usage_before_run, int(is_try)),
        noise=standing.noise.after_iteration(record, incumbent),
        epoch=record.epoch,
        metric=record.metric.name,
        direction=record.metric.direction,
        unit=record.metric.unit,
        last_iteration=max(standing.last_iteration, record.iteration),
        tries=standing.tries + is_try,
        last=record,
        settling=(),
        outcomes=outcomes,
        tip=record.landed_commit_hash or standing.tip,
    )
    if record.outcome in IN_TIP:
        commit = _measured_commit(record)
        following = structs.replace(following, incumbent=commit, best=commit, stagnation=0, settled=None)
    if record.outcome == Outcome.BASELINE:
        ruler = record.digests.get("ruler", "")
        goes_on = bool(ruler) and ruler == standing.ruler and standing.keeps > 0 and "source" not in record.digests
        if not goes_on:
            following = structs.replace(following, keeps=0, open_keeps=0, tries=0, holdout=())
        return structs.replace(
            following,
            ruler=ruler,
            first=standing.first or commit,
            origin=standing.origin if goes_on else commit,
            baseline=commit,
            machine=record.machine,
            crashes=0,
            measurements=(),
            unmoved=0,
            unmerged=0,
            taken_back={},
            rotation=Rotation(),
        )
    if record.taken_back is not None:  # a person's word, which is no try of a provider
        taken_back = take_back(standing.taken_back, record.taken_back, record.iteration)
        return structs.replace(
            following,
            keeps=standing.keeps + len(standing.taken_back) - len(taken_back),
            taken_back=taken_back,
            rotation=structs.replace(standing.rotation, tries=0, has_kept=False),
            crashes=0,
        )
    is_newest = record.iteration > standing.last_iteration  # one that was begun earlier played an earlier move
    script_digest = record.digests.get("script", "") if is_newest else ""
    is_unasked = record.provider in UNASKED
    has_merged = record.provider == STACK or any(attempt.reason == Reason.MOVED for attempt in record.attempts)
    is_crash, is_failed_call = record.reason in CRASHED, record.reason in records.PROVIDER_FAILED
    value, unmoved = record.metric.value, standing.unmoved
    if value is not None and unmoved is not None and standing.baseline:
        unmoved = unmoved + 1 if value == standing.baseline.value else None
    following = structs.replace(
        following,
        tried=standing.tried + (not is_unasked),
        unmoved=unmoved,
        unmerged=0 if has_merged else standing.unmerged + len(record.not_stacked) + (record.reason == Reason.CONFLICT),
        script_digest=script_digest or standing.script_digest,
        script_count=0 if script_digest else standing.script_count + (record.provider == "scripted"),
        provider_failures=standing.provider_failures + is_failed_call if is_failed_call or is_unasked else 0,
        crashes=standing.crashes + is_crash if is_crash or record.outcome == Outcome.SKIPPED else 0,
        rotation=standing.rotation.after(record, incumbent),
    )
    if record.outcome == Outcome.KEPT:
        open_keeps = standing.open_keeps + (record.isolation.driver == OPEN)
        return structs.replace(following, keeps=standing.keeps + 1, open_keeps=open_keeps, has_kept=True)
    return structs.replace(following, stagnation=standing.stagnation + (not is_failed_call))


def take_back(taken_back: Mapping[int, int], number: int, iteration: int) -> dict[int, int]:
    """Maps changes to the iterations that took them back; the revert of a revert removes its change."""
    if number in taken_back.values():
        return {change: by for change, by in taken_back.items() if by != number}
    return {**taken_back, number: iteration}


def _measured_commit(record: records.IterationRecord) -> MeasuredCommit:
    commit, tree, value = record.commit_hash, record.tree_hash, record.metric.value
    if commit is None or tree is None or value is None:
        raise ValueError(f"record {record.seq}: {record.outcome} without a commit or a value")
    seconds: dict[str, Number] = {}
    for command in record.verify:
        seconds[command.name] = max(command.seconds, seconds.get(command.name, 0.0))
    return MeasuredCommit(record.iteration, record.seq, commit, tree, value, record.guards, seconds)
