"""Two revisions measured afresh, in turn, with the manifest's verifier. Needs no climb, and records nothing."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from goalseek.errors import USAGE, GoalseekError
from goalseek.evaluation.measurements import Measurement, Target, failed_baseline, measure_subject, measurement_of
from goalseek.git.as_user import tree_of_checkout
from goalseek.git.objects import Entry, Objects
from goalseek.git.paths import quote_path
from goalseek.humanize import abbreviate, format_duration, pluralize
from goalseek.manifest.loading import ignore_home
from goalseek.measurement.ruler import Ruler, digest_of_files, keys_of
from goalseek.phase_values import Side
from goalseek.project import preflight
from goalseek.project.config import Config
from goalseek.project.opening import check_confines
from goalseek.project.project import Project
from goalseek.statistics.bounds import guard_violation
from goalseek.statistics.intervals import Settled, settle
from goalseek.statistics.sequential_test import unfit
from goalseek.workspace.scope import Scope

CHECKOUT = "the checkout"


@dataclass(frozen=True)
class Revision:
    """One of the two: its name as it was asked for, its commit (None for the checkout), and what is measured."""

    name: str
    commit: str | None
    subject: Target


@dataclass(frozen=True)
class Comparison:
    """What came of it. ``is_exact``: each side gave the same value again, to the last bit, and no more were made."""

    settled: Settled
    is_exact: bool

    @property
    def better(self) -> str | None:
        """``before`` or ``after``, as far as was measured; None where there is no difference."""
        if self.settled.difference == 0:
            return None
        return "after" if self.settled.difference > 0 else "before"

    def in_words(self, before: str, after: str) -> str:
        """Which is better, by how much, how sure."""
        settled = self.settled
        if settled.difference == 0 and self.is_exact:
            return f"{after} and {before} give the same value, each of them twice"
        told = f"{after} against {before}: {settled.in_words()}"
        if self.is_exact:
            return f"{told}: each gave its value again"
        if settled.interval is None:
            return f"{told}; how sure that is, a second pair would tell"
        return f"{told}; " + ("sure: zero lies outside" if settled.is_sure else "not sure: zero lies inside")


def sides(project: Project, before: str, after: str | None) -> tuple[Revision, Revision]:
    """The two, ready to be measured; ``after`` is None for the checkout as it is.

    Raises GoalseekError where one is not there, where a tree does not fit the manifest, where what measures is not the
    same in both, and where there is nothing to compare.
    """
    ignore_home(project.loaded)  # goalseek's own files are no part of the checkout
    config = project.fresh_config()
    repository = project.repository
    first = _side(project, config, *_commit(project, before))
    second = _side(project, config, *(_commit(project, after) if after is not None else (CHECKOUT, None)))
    trees = (first.subject.tree, second.subject.tree)
    if trees[0] == trees[1]:
        message = f"{first.name} and {second.name} are the same tree"
        raise GoalseekError(message, "how much one tree's number moves: goalseek noise", USAGE)
    entries = [repository.objects.files(tree) for tree in trees]
    for side, files, others in zip((first, second), entries, entries[::-1], strict=True):
        _refuse_unfit(project, config, side.name, files, others)
    _refuse_other_judge(project, config, first, second)
    check_confines(project, entries[1], config.manifest)
    return first, second


def pairs_in_turn(
    project: Project, before: Revision, after: Revision, count: int
) -> Iterator[tuple[Measurement, Measurement]]:
    """So many pairs of runs (before, after), each with a seed of its own; every other pair begins with ``after``.

    There are no more once each side gave the same value twice, and no other. ``timeout = "auto"`` is that of the first
    run. Raises GoalseekError where a run has no number.
    """
    made: list[tuple[Measurement, Measurement]] = []
    seconds: dict[str, float] = {}
    while len(made) < count and not is_exact(made):
        found = {}
        for side in (before, after) if len(made) % 2 == 0 else (after, before):
            found[side.name] = _measured(project, side, seconds, "candidate" if side is before else "incumbent")
            seconds = seconds or {command.name: command.seconds for command in found[side.name].verify}
        made.append((found[before.name], found[after.name]))
        yield made[-1]


def is_exact(pairs: Sequence[tuple[Measurement, Measurement]]) -> bool:
    """Whether each side gave one and the same value, twice or more."""
    return len(pairs) > 1 and all(len({made.value for made in side}) == 1 for side in zip(*pairs, strict=True))


def compare_revisions(direction: str, pairs: Sequence[tuple[Measurement, Measurement]]) -> Comparison:
    """What the pairs say. Raises ValueError without one."""
    return Comparison(settle(direction, [(first.value, second.value) for first, second in pairs]), is_exact(pairs))


def _measured(project: Project, side: Revision, seconds: Mapping[str, float], of: Side) -> Measurement:
    folder = project.places.scratch / "trial"
    subject = replace(side.subject, baseline_seconds=dict(seconds))
    evidence = measure_subject(project, subject, 0, folder, seed=secrets.randbelow(2**31), of=of)
    manifest = subject.config.manifest
    verdict = unfit(manifest.metric, manifest.guard, evidence)
    if verdict is None:
        return measurement_of(evidence)
    failed = failed_baseline(verdict, folder, side.name)
    raise GoalseekError(failed.message, "what has no number cannot be compared", failed.exit_code)


def _commit(project: Project, revision: str) -> tuple[str, str]:
    """A side's name and commit: git's revision first, else ``best``, ``baseline``, or an iteration's number."""
    found = project.repository.resolve(revision)
    if found is not None:
        return revision, found
    standing = project.standing
    marks = {"best": standing.best, "baseline": standing.baseline}
    if mark := marks.get(revision):
        return revision, mark.commit
    if revision in marks:
        raise GoalseekError(f"{revision}: nothing is measured yet", "goalseek baseline, then again", USAGE)
    if revision.isascii() and revision.isdigit():
        record = project.ledger.history.iteration(int(revision))
        if record and record.commit_hash:
            return f"iteration {record.iteration}", record.commit_hash
        what = f"iteration {record.iteration} has no candidate" if record else f"there is no iteration {revision}"
        raise GoalseekError(f"{revision}: there is no such commit, and {what}", "see: goalseek log", USAGE)
    hint = "name a commit, branch or tag; or of the climb best, baseline or an iteration's number"
    raise GoalseekError(f"{revision}: there is no such commit", hint, USAGE)


def _side(project: Project, config: Config, name: str, commit: str | None) -> Revision:
    repository = project.repository
    tree = repository.tree_of(commit) if commit else tree_of_checkout(repository)
    files = digest_of_files(repository.objects.files(tree).items(), config.scope)
    ruler = Ruler(keys_of(config.manifest), files, config.hidden_from).digest
    return Revision(name, commit, Target(config, tree, ruler, project.standing.epoch, tree))


def _refuse_unfit(
    project: Project, config: Config, name: str, entries: Mapping[str, Entry], others: Mapping[str, Entry]
) -> None:
    """``others`` are the other side's files: a writable one may be in either."""
    try:
        preflight.refuse_globs(project.loaded, project.places.prefix, entries, others)
        preflight.refuse_unfit(project.loaded, project.repository, project.places.prefix, entries)
        preflight.refuse_hidden_clashes(config.manifest, project.places.prefix, config.hidden_from, entries)
    except GoalseekError as error:
        raise GoalseekError(f"{name}: {error.message}", error.hint, error.exit_code, error.stop_reason) from None


def _refuse_other_judge(project: Project, config: Config, before: Revision, after: Revision) -> None:
    """What measures is what is hidden or named read-only; other files may differ, which is said of them."""
    judges, others = [], []
    scope = config.scope
    for found in project.repository.objects.differences(before.subject.tree, after.subject.tree):
        if scope.is_apart(found.path):
            continue
        if scope.kind(found.path) in ("hidden", "read_only"):
            judges.append(quote_path(found.path))
        elif scope.kind(found.path) == "other":
            others.append(quote_path(found.path))
    if judges:
        message = f"{before.name} and {after.name} do not have the same verifier: {abbreviate(judges)}"
        hint = "numbers of two verifiers are never compared; compare revisions between which these files stay"
        raise GoalseekError(message, hint, USAGE)
    if others:
        project.watch.on_note(f"not writable, but different as well, and measured as they are: {abbreviate(others)}")


@dataclass(frozen=True)
class SettledOnBase:
    """What came of it: the difference, and the guards that the result breaks against the base, a sentence each."""

    compared: Comparison
    broken: tuple[str, ...]
    seconds: float

    @property
    def is_worse(self) -> bool:
        """Whether the result is surely worse than the base, or breaks a guard."""
        interval = self.compared.settled.interval
        return bool(self.broken) or (interval is not None and interval[1] < 0)


def settle_on_base(project: Project, base: str, result: str, pairs: int, tell: Callable[[str], None]) -> SettledOnBase:
    """Measures the tree ``base`` against ``result``, at most so many pairs, under the pinned ruler; records nothing.

    Raises GoalseekError where one of them has no number.
    """
    config, standing = project.config(), project.standing
    assert standing.baseline
    objects = project.repository.objects
    before = with_pinned(objects, config.scope, standing.baseline.tree, base)
    after = with_pinned(objects, config.scope, standing.baseline.tree, result)
    config, ruler = project.config((before, after)), standing.ruler
    if any(config.scope.is_fixed(found.path) for found in objects.differences(standing.baseline.tree, before)):
        ruler = hashlib.sha256(f"{ruler} on {before}".encode()).hexdigest()  # what setup gives is made on this base
    subject = Target(config, before, ruler, standing.epoch, before)
    usual = format_duration(2 * pairs * sum(standing.baseline.seconds.values()))
    tell(f"measuring {pluralize(pairs, 'pair')} of base and result in turn, about {usual}; nothing is recorded")
    sides = Revision("the base", None, subject), Revision("the result", None, replace(subject, tree=after))
    made = list(pairs_in_turn(project, *sides, pairs))
    first, last = made[-1]
    told = (
        guard_violation(guard, last.guards[guard.name], first.guards[guard.name]) for guard in config.manifest.guard
    )
    seconds = round(sum(measured.seconds for pair in made for measured in pair), 6)
    return SettledOnBase(
        compare_revisions(config.manifest.metric.direction, made), tuple(text for text in told if text), seconds
    )


def with_pinned(objects: Objects, scope: Scope, pinned: str, tree: str) -> str:
    """The tree with the hidden and read-only files of the pinned one: these decide, whatever has become of them."""
    edits: dict[str, Entry | None] = {
        found.path: found.after
        for found in objects.differences(tree, pinned)
        if scope.kind(found.path) in ("hidden", "read_only") and not scope.is_apart(found.path)
    }
    return objects.splice(tree, edits) if edits else tree
