"""DECIDE and REVIEW in turn: what the verifier would keep is reviewed, and goes back to its author where that asks so.

A change that went back is measured and decided about like any other before it is reviewed again.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from goalseek.desk import Desk
from goalseek.ledger.checkpoints import named
from goalseek.phase_values import Decision, Plan, Review
from goalseek.phases.decide import judge
from goalseek.project.project import Run
from goalseek.project.setting import Setting
from goalseek.proposal.call import Briefing
from goalseek.review import notes_of, reviewed
from goalseek.tries import Tries, tried_again


def decided(
    run: Run, setting: Setting, desk: Desk, briefing: Briefing, plan: Plan, folder: Path, tries: Tries
) -> tuple[Tries, Decision]:
    """The decision, and the tries that it is about. Raises Rejected where there is nothing to decide about.

    Raises LimitReached where a limit forbids to ask the reviewer, or the author again.
    """
    while True:
        change, candidate, evidence = tries.measured()
        cycle = tries.so_far.cycle
        about = (change, candidate, evidence)
        work = partial(judge, run.repository, setting.manifest, run.standing, briefing.context, *about)
        decision = desk.do("DECIDE", named("verdict", cycle), Decision, work)
        stored_as = named("review", cycle)
        if not decision.verdict:
            return tries, decision
        if setting.manifest.review is None and not desk.has(stored_as):  # one that is there counts all the same
            return tries, decision
        asked = partial(reviewed, run, setting, briefing, plan, change, candidate, decision, desk.calls, folder, cycle)
        review = desk.do("REVIEW", stored_as, Review, asked)
        tries = replace(tries, notes=(*tries.notes, *notes_of(review)))
        if not review.goes_on:
            return tries, review.decision
        again = tried_again(run, setting, desk, briefing, plan, folder, tries, review)
        if again.candidate == tries.candidate:
            return again, review.decision
        tries = again
