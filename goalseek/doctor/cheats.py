"""Cheats: patches that game the metric. Each is applied, measured and decided on like a candidate, and must lose.

Nothing of them gets into a ref or a record.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct, structs

from goalseek.doctor.isolation import cheat_remedy, fixed_seed_remedy
from goalseek.evaluation.measurements import Evaluation, Target, measure_in_turn
from goalseek.git.merge import PatchError, patch_tree
from goalseek.git.paths import quote_path
from goalseek.git.trees import count_lines
from goalseek.manifest.tables import Manifest
from goalseek.phase_values import Verdict
from goalseek.project.project import Project
from goalseek.statistics.fixed_seed import MIN_CANDIDATE_RUNS, describe_fixed_seed, has_fixed_seed
from goalseek.statistics.noise_state import NoiseState, values_of
from goalseek.statistics.scale import representative
from goalseek.statistics.sequential_test import AcceptanceRule
from goalseek.values import Finding, Level, Outcome, Reason
from goalseek.workspace.screening import screen_trees


class AppliedCheat(Struct, frozen=True):
    """A cheat applied to the tree that the climb starts from.

    ``unfit`` says why the patch cannot be applied, ``refused`` why its candidate is out of scope. ``tree`` is the
    candidate's; "" where nothing is to be measured.
    """

    patch: str
    unfit: str = ""
    refused: str = ""
    tree: str = ""
    left_out: tuple[str, ...] = ()
    lines_saved: int = 0


class CheatFinding(Finding, frozen=True):
    """The finding on a cheat: whether it ``lost``, and the verdict on its candidate."""

    patch: str = ""
    lost: bool = True
    outcome: str = ""
    reason: str = ""
    value: float | None = None


def apply_cheats(evaluation: Evaluation, tree: str) -> tuple[AppliedCheat, ...]:
    """The manifest's cheats, each applied to a tree; only changes of writable paths are taken."""
    return tuple(_apply_cheat(evaluation, tree, cheat.patch) for cheat in evaluation.config.manifest.cheat)


def count_cheat_runs(cheats: Sequence[AppliedCheat]) -> int:
    """How many of these cheats will be measured."""
    return sum(bool(cheat.tree) for cheat in cheats)


def measure_cheats(project: Project, subject: Target, cheats: Sequence[AppliedCheat]) -> Iterator[Finding]:
    """A finding for each cheat, with its verdict as a candidate."""
    for cheat in cheats:
        if not cheat.unfit:
            yield _finding(subject.config.manifest, cheat, *_verdict(project, subject, cheat))


def _apply_cheat(evaluation: Evaluation, tree: str, name: str) -> AppliedCheat:
    project, config = evaluation.project, evaluation.config
    objects, path = project.repository.objects, project.folder / name
    if path.is_file() and path.resolve() != project.folder.resolve() / Path(name):
        return AppliedCheat(name, "is reached through a link: what it points to is not hidden; name the file itself")
    try:
        after = patch_tree(objects, tree, path.read_bytes(), project.places.prefix)
    except OSError as error:
        return AppliedCheat(name, f"cannot be read: {error.strerror}")
    except PatchError as error:
        return AppliedCheat(name, f"does not apply: {error}")
    screened = screen_trees(objects, config.scope, tree, after)
    refused, strays = screened.refused, list(map(quote_path, screened.strays))
    if strays and config.manifest.scope.strays == "reject":
        refused.append(f"new files outside the scope: {', '.join(strays)}")
    if refused:
        return AppliedCheat(name, refused="; ".join(refused))
    candidate = objects.splice(tree, screened.edits) if screened.edits else tree
    if candidate == tree:
        return AppliedCheat(name, left_out=tuple(strays))
    added, removed = count_lines(objects.git("diff-tree", "--numstat", "-r", tree, candidate))
    return AppliedCheat(name, tree=candidate, left_out=tuple(strays), lines_saved=removed - added)


def _verdict(project: Project, subject: Target, cheat: AppliedCheat) -> tuple[Verdict, bool]:
    """The verdict, and whether all runs of the cheat gave one number where those of the unchanged code differ."""
    if cheat.refused:
        return Verdict(Outcome.SKIPPED, Reason.OUT_OF_SCOPE, cheat.refused), False
    if not cheat.tree:
        return Verdict(Outcome.SKIPPED, Reason.NO_CHANGE, "it changes nothing that a candidate may change"), False
    runs = measure_in_turn(project, itertools.repeat(subject.variant(cheat.tree), 1 + MIN_CANDIDATE_RUNS))
    evidence = next(runs).evidence
    standing, manifest = project.standing, subject.config.manifest
    # Before a baseline: the value that it would have.
    values = [measurement.value for measurement in subject.known]
    value, guards = representative(values), subject.known[-1].guards
    if standing.incumbent and standing.baseline:
        value, guards = standing.incumbent.value, standing.baseline.guards
        values = [run.value for run in standing.noise.incumbent]
    rule = AcceptanceRule(manifest.metric, manifest.guard, guards, NoiseState(value=value), cheat.lines_saved)
    verdict = rule.plain_verdict(evidence)
    if not verdict or manifest.metric.noise == "none" or len(set(values)) < 2:
        return verdict, False
    for run in runs:
        if run.evidence.failure or run.evidence.runs[0].value != verdict.value:
            return verdict, False
        evidence = evidence.plus(run.evidence)
    cheat_values = values_of(evidence.runs, "candidate")
    if has_fixed_seed(manifest.metric, cheat_values, values):
        why = describe_fixed_seed(len(cheat_values))
        verdict = structs.replace(verdict, outcome=Outcome.REVERTED, reason=Reason.SEED_FIXED, why=why)
    return verdict, True


def _finding(manifest: Manifest, cheat: AppliedCheat, verdict: Verdict, has_one_number: bool) -> CheatFinding:
    how = "WON" if verdict else "lost" if cheat.tree else "lost without being measured"
    text = f"{cheat.patch} {how}: {verdict.outcome} / {verdict.reason}: {verdict.why}"
    if cheat.left_out:
        text += f"; left out, being outside the scope: {', '.join(cheat.left_out)}"
    remedy = cheat_remedy(manifest) if verdict else ""
    if verdict.reason == Reason.SIMPLER:
        remedy = "it moves no number, and is kept for its fewer lines: let it change the number, or take it out"
    elif verdict and has_one_number:
        remedy = fixed_seed_remedy(manifest)
    is_lost = not verdict
    ruling = (verdict.outcome, verdict.reason, verdict.value)
    level: Level = "good" if is_lost else "wrong"
    return CheatFinding(level, text, remedy, "cheat", cheat.patch, is_lost, *ruling)
