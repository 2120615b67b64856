"""DECIDE: the verdict, and where it rejects, the commit that takes the candidate back."""

from __future__ import annotations

from goalseek.manifest import Manifest
from goalseek.missing import Missing
from goalseek.noise import Next
from goalseek.phase_values import Candidate, Change, Context, Decision, Evidence, Verdict
from goalseek.repository import Repository
from goalseek.standing import Standing
from goalseek.turns import what_next


def judge(
    repository: Repository,
    manifest: Manifest,
    standing: Standing,
    context: Context,
    change: Change,
    candidate: Candidate,
    evidence: Evidence,
) -> Decision:
    """Takes the rule's verdict, and makes the revert commit of a rejected candidate."""
    verdict = ruling(manifest, standing, change, evidence)
    assert isinstance(verdict, Verdict)  # else VERIFY would not have ended
    return Decision(verdict, None if verdict else roll_back(repository, candidate, context.moment))


def ruling(manifest: Manifest, standing: Standing, change: Change, evidence: Evidence) -> Next:
    """What the rule says of a candidate after these runs: one more, or the verdict."""
    assert standing.baseline
    lines_saved = change.lines_removed - change.lines_added
    guards = standing.baseline.guards
    return what_next(manifest.metric, manifest.guard, guards, standing.noise, evidence, lines_saved)


def roll_back(repository: Repository, candidate: Candidate, moment: int) -> str:
    """The last of the commits that ``git revert --no-edit`` makes of a candidate's commits on the tip, newest first."""
    tip = candidate.commit
    for place, commit in reversed(list(enumerate(candidate.commits))):
        before = candidate.commits[place - 1] if place else candidate.parent
        raw = repository.objects.read(commit)
        subject = raw.partition(b"\n\n")[2].split(b"\n", 1)[0].decode("utf-8", "surrogateescape")
        message = f'Revert "{subject}"\n\nThis reverts commit {commit}.\n'
        tip = repository.commit(repository.tree_of(before), (tip,), message, moment)
    return tip


def make_roll_back_again(repository: Repository, candidate: Candidate, revert: str) -> None:
    """Makes a candidate's revert commit again where it is gone: before the tip nothing held it, and somebody pruned.

    The same values give the same commit. Raises Missing where they do not.
    """
    if repository.objects.has(revert):
        return
    if roll_back(repository, candidate, repository.moment_of(candidate.commit)) != revert:
        raise Missing(revert)
