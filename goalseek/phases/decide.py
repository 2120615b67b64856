"""DECIDE: the verdict, and where it rejects, the commit that takes the candidate back."""

from __future__ import annotations

from goalseek.decide import ToBeat, decide, outside, representative
from goalseek.manifest import Manifest
from goalseek.objects import Missing
from goalseek.records import IterationRecord
from goalseek.repository import Repository
from goalseek.standing import Standing
from goalseek.values import Candidate, Change, Context, Decision, Evidence, Verdict


def judge(
    repository: Repository,
    manifest: Manifest,
    standing: Standing,
    context: Context,
    change: Change,
    candidate: Candidate,
    evidence: Evidence,
) -> Decision:
    """Asks the rule, and makes the revert commit of a rejected candidate."""
    assert standing.incumbent and standing.baseline
    to_beat = ToBeat(standing.incumbent.value, standing.baseline.guards)
    lines_saved = change.lines_removed - change.lines_added
    verdict = decide(manifest.metric, manifest.guard, to_beat, evidence, lines_saved)
    return Decision(verdict, None if verdict else roll_back(repository, candidate, context.moment))


def roll_back(repository: Repository, candidate: Candidate, moment: int) -> str:
    """The commit that ``git revert --no-edit`` makes of a candidate on the tip."""
    raw = repository.objects.read(candidate.commit)
    subject = raw.partition(b"\n\n")[2].split(b"\n", 1)[0].decode("utf-8", "surrogateescape")
    message = f'Revert "{subject}"\n\nThis reverts commit {candidate.commit}.\n'
    return repository.commit(repository.tree_of(candidate.parent), (candidate.commit,), message, moment)


def make_roll_back_again(repository: Repository, record: IterationRecord) -> None:
    """Makes a recorded revert commit again where it is gone: nothing held it before the tip did, and somebody pruned.

    The same values give the same commit. Raises Missing where they do not.
    """
    made = record.rollback_commit_hash
    if made is None or repository.objects.has(made):
        return
    assert record.commit_hash and record.tree_hash and record.parent_commit_hash
    candidate = Candidate(record.commit_hash, record.tree_hash, record.parent_commit_hash)
    if roll_back(repository, candidate, repository.moment_of(candidate.commit)) != made:
        raise Missing(made)


def baseline_verdict(manifest: Manifest, evidence: Evidence, commit: str) -> Verdict:
    """What a measured baseline is; no baseline where it failed, or lies outside the valid range."""
    if evidence.failure:
        return Verdict("reverted", evidence.failure.reason, evidence.failure.why)
    value = representative([run.value for run in evidence.runs if run.value is not None])
    for name, valid, found in (
        (manifest.metric.name, manifest.metric.valid, value),
        *((guard.name, guard.valid, evidence.guards[guard.name]) for guard in manifest.guard),
    ):
        if refusal := outside(name, valid, found):
            return Verdict("reverted", "not_valid", refusal)
    return Verdict("baseline", "measured", f"measured at {commit[:12]}", value)
