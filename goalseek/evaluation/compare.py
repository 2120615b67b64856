"""Comparison of two revisions, measured afresh in turn; and of a result with its base. It records nothing."""

import hashlib
import secrets
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, structs

from goalseek.errors import USAGE, GoalseekError
from goalseek.evaluation import measurements
from goalseek.evaluation.measurements import MeasuredValue, Target
from goalseek.git.as_user import UsersCheckout
from goalseek.git.paths import quote_path
from goalseek.humanize import abbreviate, format_distinct, format_duration, pluralize
from goalseek.manifest.loading import make_log_folders
from goalseek.manifest.tables import Manifest, Metric
from goalseek.phase_values import Failure
from goalseek.project.project import Project
from goalseek.records import SettledDifference
from goalseek.statistics.guards import guard_violation
from goalseek.statistics.intervals import PAIRS
from goalseek.workspace.places import BenchName
from goalseek.workspace.scope import Scope

Pair = tuple[MeasuredValue, MeasuredValue]


class Revision(Target, frozen=True):
    commit: str | None = None  # None for the checkout


class RevisionComparison(Struct, frozen=True):
    settled: SettledDifference
    is_exact: bool  # each side gave the same value every time, to the last bit

    @property
    def better(self) -> str | None:
        """``before`` or ``after``, sure or not; None if the difference is zero."""
        if self.settled.difference == 0:
            return None
        return "after" if self.settled.difference > 0 else "before"

    def in_words(self, before: str, after: str) -> str:
        settled = self.settled
        if settled.difference == 0 and self.is_exact:
            return f"{after} against {before}: no difference (deterministic)"
        text = f"{after} against {before}: {settled.in_words()}"
        if self.is_exact:
            return f"{text} (deterministic)"
        if settled.interval is None:
            return f"{text}; an interval needs a second pair"
        return f"{text}; " + ("sure: zero lies outside" if settled.is_sure else "not sure: zero lies inside")


def revisions_to_compare(project: Project, before: str, after: str | None) -> tuple[Revision, Revision]:
    """Raises GoalseekError for a missing revision, and for equal trees. ``after``: None for the checkout."""
    make_log_folders(project.loaded)  # goalseek's own files are no part of the checkout
    config, repository, epoch = project.config_for_baseline(), project.repository, project.standing.epoch

    def revision(name: str | None, bench: BenchName) -> Revision:
        name, commit = ("the checkout", None) if name is None else _named_commit(project, name)
        tree = repository.tree_of(commit) if commit else UsersCheckout(repository).read()[0]
        ruler = measurements.ruler_of(project, config, tree).digest
        return Revision(config, tree, ruler, epoch, tree, bench=bench, name=name, commit=commit)

    first, second = revision(before, "a"), revision(after, "b")
    if first.tree == second.tree:
        message = f"{first.name} and {second.name} are the same tree"
        raise GoalseekError(message, "goalseek noise shows how much the number of one tree varies", USAGE)
    return first, second


def measure_pairs(project: Project, before: Target, after: Target, count: int = PAIRS) -> Iterator[Pair]:
    """Up to ``count`` pairs (before, after), measured in turn, each run with another seed.

    Ends early once each side gave one value twice. ``timeout = "auto"`` goes by the first run. Raises GoalseekError if
    a run has no number.
    """
    numbers: list[MeasuredValue] = []
    trees = (
        structs.replace(side, seed=secrets.randbelow(2**31), known=tuple(numbers[:1])).variant(side.tree)
        for side in measurements.alternate(before, after, count)
    )
    for run in measurements.measure_in_turn(project, trees):
        if isinstance(number := run.number, Failure):
            error = measurements.baseline_error(number, measurements.trial_folder(project), run.target.name)
            error.hint = "compare revisions that the verifier can measure"
            raise error
        numbers.append(number)
        if len(numbers) % 2 == 0:
            pairs = measurements.pairs_in_turn(numbers)
            yield pairs[-1]
            if is_exact(pairs):
                return


def is_exact(pairs: Sequence[Pair]) -> bool:
    """Whether each side gave one and the same value, twice or more, and in each case the same."""
    return len(pairs) > 1 and all(
        len({(run.value, run.cases) for run in side}) == 1 for side in zip(*pairs, strict=True)
    )


def compare_revisions(metric: Metric, pairs: Sequence[Pair]) -> RevisionComparison:
    """Raises ValueError without a pair."""
    return RevisionComparison(measurements.settle_pairs(metric, pairs), is_exact(pairs))


def broken_guards(manifest: Manifest, pair: Pair) -> tuple[str, ...]:
    """A sentence for each guard that the second of a pair breaks against the first."""
    before, after = pair
    why = (guard_violation(guard, after.guards[guard.name], before.guards[guard.name]) for guard in manifest.guard)
    return tuple(filter(None, why))


def _named_commit(project: Project, revision: str) -> tuple[str, str]:
    """Name and commit of a side: git's revision first, else ``best``, ``baseline``, or an iteration's number."""
    commit = project.repository.resolve(revision)
    if commit is not None:
        return revision, commit
    standing = project.standing
    named = {"best": standing.best, "baseline": standing.baseline}
    if entry := named.get(revision):
        return revision, entry.commit
    if revision in named:
        raise GoalseekError(f"{revision}: nothing is measured yet", "goalseek baseline, then again", USAGE)
    if revision.isascii() and revision.isdigit():
        record = project.ledger.history.iteration(int(revision))
        if record and record.commit_hash:
            return f"iteration {record.iteration}", record.commit_hash
        what = f"iteration {record.iteration} has no candidate" if record else f"there is no iteration {revision}"
        raise GoalseekError(f"{revision}: there is no such commit, and {what}", "see: goalseek log", USAGE)
    hint = "name a commit, branch or tag; or best, baseline or an iteration's number"
    raise GoalseekError(f"{revision}: there is no such commit", hint, USAGE)


def refuse_other_ruler(project: Project, scope: Scope, before: Revision, after: Revision) -> None:
    """Raises GoalseekError if hidden or read-only files differ; notes others that are not writable."""
    differences = project.repository.objects.differences(before.tree, after.tree)
    paths = [difference.path for difference in differences if not scope.is_own_file(difference.path)]
    ruler_files = [quote_path(path) for path in paths if scope.kind(path) in ("hidden", "read_only")]
    others = [quote_path(path) for path in paths if scope.kind(path) == "other"]
    if ruler_files:
        message = f"{before.name} and {after.name} do not have the same verifier: {abbreviate(ruler_files)}"
        hint = "numbers of two verifiers are never compared; compare revisions in which these files are the same"
        raise GoalseekError(message, hint, USAGE)
    if others:
        project.watch.on_note(
            f"files outside the scope differ too, and each side is measured with its version: {abbreviate(others)}"
        )


class BaseComparison(Struct, frozen=True):
    compared: RevisionComparison
    broken: tuple[str, ...]  # as broken_guards
    seconds: float  # of all runs

    def __str__(self) -> str:
        numbers = format_distinct(self.compared.settled.before, self.compared.settled.after)
        text = f"measured on this base: {' → '.join(numbers)}, {self.compared.in_words('the base', 'the result')}"
        return "; ".join([text, *self.broken])

    @property
    def is_worse(self) -> bool:
        """Whether the result is surely worse, or breaks a guard."""
        interval = self.compared.settled.interval
        return bool(self.broken) or (interval is not None and interval[1] < 0)


def settle_on_base(project: Project, base: str, result: str, on_message: Callable[[str], None]) -> BaseComparison:
    """Measure both trees in up to five pairs under the pinned ruler. Raises GoalseekError if one has no number."""
    standing, objects, scope = project.standing, project.repository.objects, project.config().scope
    assert standing.baseline
    pinned, ruler = standing.baseline.tree, standing.ruler

    def decides(path: str) -> bool:
        return scope.kind(path) in ("hidden", "read_only") and not scope.is_own_file(path)

    before, after = (measurements.replace_files(objects, tree, pinned, decides) for tree in (base, result))
    config = project.config((before, after))
    if any(config.scope.is_fixed(difference.path) for difference in objects.differences(pinned, before)):
        ruler = hashlib.sha256(f"{ruler} on {before}".encode()).hexdigest()  # setup runs on this base
    target = Target(config, before, ruler, standing.epoch, before, name="the base")
    count, duration = pluralize(PAIRS, "pair"), format_duration(2 * PAIRS * sum(standing.baseline.seconds.values()))
    on_message(f"measuring {count} of base and result in turn, about {duration}; nothing is recorded")
    other = structs.replace(target, tree=after, bench="b", name="the result")
    pairs = list(measure_pairs(project, target, other, PAIRS))
    seconds = round(sum(measurement.seconds for pair in pairs for measurement in pair), 6)
    comparison = compare_revisions(config.manifest.metric, pairs)
    return BaseComparison(comparison, broken_guards(config.manifest, pairs[-1]), seconds)
