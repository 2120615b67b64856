"""An iteration that is under way beside others: it takes slot, bench and landing in turn, and moves with the tip."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from itertools import pairwise

from goalseek.disk import machine_error
from goalseek.errors import GitFailed
from goalseek.git.command import ObjectsFailed
from goalseek.humanize import format_moment
from goalseek.ledger.checkpoints import Begun, CheckpointName
from goalseek.ledger.standing import Standing
from goalseek.locks import Baton
from goalseek.loop.attempts import OpenAttempt, TipMoved
from goalseek.loop.iteration import Iteration
from goalseek.loop.lanes import Lanes, Resource
from goalseek.own_folders import remove_if_exists
from goalseek.phase_values import Ahead, Candidate, Change, Context, Decision
from goalseek.project.approval import Approval, Question, commands_for, read_approval
from goalseek.project.config import Config
from goalseek.project.landing import Landing, in_flight
from goalseek.project.picture import OpenIteration
from goalseek.project.project import Project
from goalseek.project.trees import Lane
from goalseek.records import IterationRecord
from goalseek.values import Attempt, Phase, Reason
from goalseek.workspace.places import LANDING, SLOT


def record_left_behind(project: Project, config: Config, record: Callable[[QueuedIteration], IterationRecord]) -> None:
    """Calls ``record`` for each iteration that a kill has left with a candidate; the others are forgotten."""
    with Baton() as baton, contextlib.closing(Lanes(project, baton, 1, 1)) as lanes:
        for begun in in_flight(project):
            iteration = QueuedIteration(project.beside(lambda: None), config, lanes, begun)
            if iteration.unfinished:
                iteration.project.watch.on_record(record(iteration))
            iteration.leave_all()
            lanes.flight.remove(begun.iteration)


class QueuedIteration(Iteration):
    """An iteration of a queue; ``project`` is its own, by ``beside``. No candidate of it is on the tip before it lands.

    ``question`` is what it waits for a person to answer.
    """

    is_alone = False

    def __init__(
        self, project: Project, config: Config, lanes: Lanes, begun: Begun, source: str = "", is_limited: bool = True
    ) -> None:
        self.question: Question | None = None
        self._seen: OpenIteration | None = None
        self._lanes = lanes
        self._first_begun = begun
        self._held: dict[Resource, Lane] = {}
        self._approved: set[bytes] = set()
        self._answers: dict[str, Approval] = {}
        super().__init__(project, config, source, is_limited=is_limited)
        lane = f"{SLOT}{begun.slot}"
        self.steps.places_of = lambda phase: project.places.beside(LANDING if phase == Phase.REVIEW else lane)

    @property
    def is_proposing(self) -> bool:
        """Whether its author is at work or waits for the slot, and has no candidate to hand on yet."""
        is_in_line = any(self.number in slot.waiting for slot in self._lanes.slots)
        return is_in_line or (self._has_slot and self.number not in self._lanes.bench.waiting)

    @property
    def is_idle(self) -> bool:
        """Whether it waits: for another iteration, for a person, or for somebody else."""
        is_in_line = bool(self._lanes.awaited_by(self.number))
        return is_in_line or self.question is not None or self.project.activity.is_waiting

    def look(self) -> OpenIteration:
        """What it does now, and since when."""
        picture, awaited = self.project.activity.picture, self._lanes.awaited_by(self.number)
        waits = f"waits for {awaited}" if awaited else ""
        if self.question:
            waits = "waits for your approval"
        elif picture.waits:
            waits = picture.waits
        is_measuring, is_landing = self._lanes.bench in self._held, self._lanes.landing in self._held
        stage = "waiting" if waits else "landing" if is_landing else "measuring" if is_measuring else "proposing"
        doing = (stage, picture.phase, waits)
        before = self._seen
        is_same = before is not None and (before.stage, before.phase, before.waits) == doing
        since = before.since if before and is_same else format_moment()
        self._seen = OpenIteration(self.number, *doing, since, self.as_ahead.title)
        return self._seen

    @property
    def setting(self) -> tuple[int | None, str | None]:
        """How many benches measure at once, on which host."""
        return self._lanes.benches, os.uname().nodename

    @property
    def active_seconds(self) -> float | None:
        """The seconds since the last record in which any was at work."""
        return round(self._lanes.clock.seconds, 6)

    @property
    def base(self) -> int | None:
        """The number of the record at whose standing it is a change, where it has moved since it began."""
        return self.standing.seq if self.standing.seq != self._first_begun.seq else None

    @property
    def as_ahead(self) -> Ahead:
        """What proposals that are begun after it may know of it."""
        change, plan = self.attempts.latest.change if self.attempts else None, self.plan
        if plan is None:
            return Ahead(self.number)
        prefix = self.project.places.prefix
        files = tuple(edit.path for edit in change.edits) if change else tuple(prefix + path for path in plan.files)
        return Ahead(self.number, change.title if change else plan.title, files, plan.stacked, plan.script)

    def take_context(self, context: Context) -> None:
        """Takes what the proposals are made from, and says so to whoever waits for it."""
        super().take_context(context)
        self._lanes.baton.notice()

    def begin_again(self, source: str) -> QueuedIteration:
        """The same iteration without what is stored of it, and without limits."""
        again = QueuedIteration(self.project, self.config, self._lanes, self._first_begun, source, is_limited=False)
        assert self.unfinished
        again._held = self._held  # who ends this one leaves that for it
        again._take_standing(self.project.ledger.standing_of_tip(self.unfinished.parent))
        return again

    def attempts_before(self, candidate: Candidate, reason: str) -> tuple[Attempt, ...]:
        """The earlier tries of a candidate, and with their incumbent the versions of earlier tips."""
        repository, ledger = self.project.repository, self.project.ledger
        attempts, tip = [], ""
        for commit, following in pairwise(candidate.commits):
            tip = tip or repository.load_commit(commit).parents[0]
            if repository.load_commit(following).parents[0] == commit:
                attempts.append(Attempt(commit, reason))
            else:
                incumbent = ledger.standing_of_tip(tip).incumbent
                assert incumbent
                attempts.append(Attempt(commit, Reason.MOVED, base_commit_hash=incumbent.commit))
                tip = ""
        return tuple(attempts)

    def take_slot(self) -> None:
        """Waits until its author may work in the workspace of its slot."""
        self._take(self._lanes.slots[self._first_begun.slot % len(self._lanes.slots)])

    def take_bench(self) -> None:
        """Waits until it may be measured; until then its slot is its own."""
        self._take(self._lanes.bench)

    def stand_on(self, change: Change) -> Change:
        """Takes the standing at which this is a change of the incumbent."""
        if change.base is not None:
            self._take_standing(self.project.ledger.standing_at(change.base))
        return change

    def move_to_tip(self) -> None:
        """Takes the standing of now: what follows is a change of the present incumbent."""
        self._take_standing(self.project.standing)

    def refuse_moved_tip(self, attempt: OpenAttempt) -> None:
        """Raises TipMoved where others have landed since it was begun, or was moved, and it is not measured yet."""
        if self._is_outdated and not self.steps.has(CheckpointName("evidence", attempt.number)):
            raise TipMoved(self.incumbent)

    def may_land(self, decision: Decision) -> bool:
        """Whether the decision is about the tip of now. Of what would be kept, it stays so until the iteration ends."""
        if not decision.verdict:
            return True
        self._take(self._lanes.landing)
        if self._is_outdated:
            self._leave(self._lanes.landing)
            return False
        return True

    def ask_person(self, question: Question) -> Approval | None:
        """Waits for a person's answer; others may land meanwhile. A change that was approved is not asked about again.

        Raises GoalseekError with exit code 5 where nobody can be asked, and nothing else is under way.
        """
        patch = self._patch()
        if patch in self._approved:
            return "approve"
        project = self.project
        self.leave_all()
        project.watch.on_note(f"waits for your approval: {commands_for(question)}")
        project.show("running", self.number, Phase.APPROVE)
        project.watch.on_question(question)
        self.question = question
        while (answer := self.read_answer(question)) is None:
            project.pause()
        self.question = None
        return answer

    def read_answer(self, question: Question) -> Approval | None:
        """A person's answer to a question of this iteration, if there is one; it stays known once it is recorded."""
        answer = self._answers.get(question.decided) or read_approval(self.project.loaded.logs, question)
        if answer:
            self._answers[question.decided] = answer
        return answer

    def note_answer(self, decision: Decision) -> None:
        """Notes what a person has said of the change as it is now."""
        if decision.verdict:
            self._approved.add(self._patch())

    def candidates_beside(self) -> dict[int, str]:
        """The commits of the other candidates under way, each by its iteration."""
        flight = self.project.repository.flight().items()
        return {iteration: commits[-1] for iteration, commits in flight if iteration != self.number}

    def put_candidate(self, attempt: OpenAttempt, commit_hash: str) -> None:
        """Makes a candidate's commit reachable, away from the tip."""
        self.project.repository.add_flight(self.number, attempt.number, commit_hash)

    def roll_back(self, candidate: Candidate) -> str | None:
        """None: what was rejected never was on the tip."""
        return None

    def clean_up(self) -> None:
        """Removes what only an iteration without a record needs."""
        self.project.repository.remove_flight(self.number)
        self._lanes.flight.remove(self.number)
        self._lanes.clock.restart()

    def recover_from(self, error: BaseException) -> bool:
        """Whether it can be begun again, as after a cache was emptied; its workspaces are made anew for that."""
        is_recorded = self.project.ledger.history.iteration(self.number) is not None
        if is_recorded or not isinstance(error, FileNotFoundError | GitFailed | ObjectsFailed) or machine_error(error):
            return False
        for lane in self._held.values():
            lane.close_trees()
            with contextlib.suppress(OSError):
                remove_if_exists(lane.places.workspace)
        return True

    def leave_all(self) -> None:
        """Leaves whatever it has taken to others."""
        for resource in [*self._held]:
            self._leave(resource)

    @property
    def _has_slot(self) -> bool:
        return any(slot in self._held for slot in self._lanes.slots)

    @property
    def _is_outdated(self) -> bool:
        return self.project.standing.tip != self.standing.tip

    def _begin(self, standing: Standing) -> Begun:
        return self._first_begun

    def _find_unfinished(self, current: Landing) -> Candidate | None:
        """Its newest candidate, after the earlier ones."""
        repository = self.project.repository
        commits = repository.flight().get(self._first_begun.iteration, ())
        if not commits:
            return None
        newest = repository.load_commit(commits[-1])
        parent = newest.parents[0]
        while parent in commits:
            parent = repository.load_commit(parent).parents[0]
        return Candidate(newest.name, newest.tree, parent, commits[:-1])

    def _take_standing(self, standing: Standing) -> None:
        self.standing = standing
        if self.briefing:
            self.briefing = self.briefing.at(standing)

    def _patch(self) -> bytes:
        """The change without what depends on where in a file it stands: git's patch-id would leave out white space."""
        assert self.attempts and self.attempts.top.candidate
        objects, candidate = self.project.repository.objects, self.attempts.top.candidate
        patch = objects.patch(self.incumbent.tree, candidate.tree)
        return b"\n".join(line for line in patch.splitlines() if not line.startswith((b"@@ ", b"index ")))

    def _take(self, resource: Resource) -> None:
        """Waits for one of these and leaves what it had; of slot and bench it has the first until it gets the other."""
        if resource in self._held:
            return
        if resource is not self._lanes.bench:
            self.leave_all()
        lane = resource.take(self.number, self.project.beat)
        self.leave_all()
        self._held[resource] = lane
        self.project.enter(lane)

    def _leave(self, resource: Resource) -> None:
        resource.give_back(self._held.pop(resource))
