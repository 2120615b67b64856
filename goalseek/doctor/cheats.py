"""Cheats: patches that game the metric. Each is measured and decided on like a candidate, and must lose.

Nothing of them gets into a ref or a record.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct, structs

from goalseek.doctor.isolation import cheat_remedy
from goalseek.evaluation.measurements import Target, measure_in_turn
from goalseek.git.merge import PatchError, patch_tree
from goalseek.git.paths import quote_path
from goalseek.manifest.tables import Manifest
from goalseek.phase_values import Evidence, Verdict
from goalseek.project.config import Config
from goalseek.project.project import Project
from goalseek.statistics.acceptance import AcceptanceRule
from goalseek.statistics.fixed_seed import MIN_CANDIDATE_RUNS, describe_fixed_seed, has_fixed_seed
from goalseek.statistics.noise import NoiseState, representative, values_of
from goalseek.values import Finding, Outcome, Reason
from goalseek.workspace.screening import screen_trees

_UNFIT = "make it again with git diff, from the tree that the climb starts from; or take it out of the manifest"


class AppliedCheat(Struct, frozen=True):
    patch: str
    verdict: Verdict | None = None  # known without a measurement
    tree: str = ""  # of the candidate; "" if there is nothing to measure
    left_out: tuple[str, ...] = ()
    lines_saved: int = 0


class CheatFinding(Finding, frozen=True):
    patch: str = ""
    lost: bool = True
    outcome: str = ""  # of its candidate, like the fields below
    reason: str = ""
    value: float | None = None


def apply_cheat(project: Project, config: Config, tree: str, name: str) -> AppliedCheat | Finding:
    """A finding if the patch does not apply."""
    objects, path = project.repository.objects, project.folder / name
    if path.is_file() and path.resolve() != project.folder.resolve() / Path(name):
        text = f"{name} is reached through a link, whose target is not hidden; name the target"
        return Finding("wrong", text, _UNFIT)
    try:
        after = patch_tree(objects, tree, path.read_bytes(), project.places.prefix)
    except OSError as error:
        return Finding("wrong", f"{name} cannot be read: {error.strerror}", _UNFIT)
    except PatchError as error:
        return Finding("wrong", f"{name} does not apply: {error}", _UNFIT)
    screened = screen_trees(objects, config.scope, tree, after)
    refused, strays = screened.refused, tuple(map(quote_path, screened.strays))
    if strays and config.manifest.scope.strays == "reject":
        refused.append(f"new files outside the scope: {', '.join(strays)}")
    if refused:
        return AppliedCheat(name, verdict=Verdict(Outcome.SKIPPED, Reason.OUT_OF_SCOPE, "; ".join(refused)))
    candidate = objects.splice(tree, screened.edits) if screened.edits else tree
    if candidate == tree:
        why = "it changes no writable file"
        return AppliedCheat(name, verdict=Verdict(Outcome.SKIPPED, Reason.NO_CHANGE, why), left_out=strays)
    diff = objects.diff(tree, candidate)
    return AppliedCheat(name, tree=candidate, left_out=strays, lines_saved=diff.lines_removed - diff.lines_added)


def verdict_on(
    manifest: Manifest, evidence: Evidence, value: float, guards: dict[str, float], lines_saved: int = 0
) -> Verdict:
    """The verdict on one run of a candidate, against an incumbent of this value and these guards."""
    metric = structs.replace(manifest.metric, noise="none")
    verdict = AcceptanceRule(metric, manifest.guard, guards, NoiseState(value=value), lines_saved).next_step(evidence)
    assert isinstance(verdict, Verdict)
    return verdict


def measure_cheats(project: Project, subject: Target, cheats: Sequence[AppliedCheat]) -> Iterator[Finding]:
    manifest = subject.config.manifest
    for cheat in cheats:
        verdict, has_one_number = cheat.verdict, False
        if verdict is None:
            verdict, has_one_number = _measure(project, subject, cheat)
        how = "WON" if verdict else "lost" if cheat.tree else "lost without being measured"
        text = f"{cheat.patch} {how}: {verdict.outcome} / {verdict.reason}: {verdict.why}"
        if cheat.left_out:
            text += f"; left out, being outside the scope: {', '.join(cheat.left_out)}"
        remedy = cheat_remedy(manifest) if verdict else ""
        if verdict.reason == Reason.SIMPLER:
            remedy = "it moves no number, and is kept for its fewer lines: let it change the number, or take it out"
        elif verdict and has_one_number:
            remedy = "its runs under different seeds gave the same number, so it fixes the seed: "
            if manifest.metric.allow_fixed_seed:
                remedy += "take out metric.allow_fixed_seed"
            else:
                remedy += "a climb reverts such a change if the unchanged code never gives one number twice"
        ruling = (not verdict, verdict.outcome, verdict.reason, verdict.value)
        yield CheatFinding("wrong" if verdict else "good", text, remedy, "cheat", cheat.patch, *ruling)


def _measure(project: Project, subject: Target, cheat: AppliedCheat) -> tuple[Verdict, bool]:
    """The verdict, and whether the cheat gives one number in all runs, unlike the unchanged code."""
    runs = measure_in_turn(project, itertools.repeat(subject.variant(cheat.tree), 1 + MIN_CANDIDATE_RUNS))
    evidence = next(runs).evidence
    standing, manifest = project.standing, subject.config.manifest
    # Before a baseline: the value that it would have.
    values = [measurement.value for measurement in subject.known]
    value, guards = representative(values), subject.known[-1].guards
    if standing.incumbent and standing.baseline:
        value, guards = standing.incumbent.value, standing.baseline.guards
        values = [run.value for run in standing.noise.incumbent]
    verdict = verdict_on(manifest, evidence, value, guards, cheat.lines_saved)
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
