"""One iteration of a climb: what belongs to it, and what its phases have given so far."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from goalseek.doctor.checks import find_unseen_script
from goalseek.doctor.diagnose import find_missing_path
from goalseek.errors import Rejected
from goalseek.git.repository import roll_back
from goalseek.ledger.checkpoints import Begun, CheckpointName
from goalseek.ledger.standing import MeasuredCommit, Standing
from goalseek.loop.attempts import Attempts, OpenAttempt, TipMoved
from goalseek.loop.lanes import Lanes, Seat
from goalseek.loop.steps import StepRunner
from goalseek.phase_values import Ahead, Candidate, Change, Context, Decision, IterationResult, Plan, Verdict
from goalseek.project.approval import Approval
from goalseek.project.config import Config
from goalseek.project.project import Project
from goalseek.proposal.call import Briefing, brief_iteration
from goalseek.providers.fallback import ProviderChain
from goalseek.values import Phase, Reason
from goalseek.workspace.places import LANDING, SLOT
from goalseek.workspace.workspace import Workspace


class Iteration:
    """An iteration under way.

    ``seat`` has the lanes that it has taken: a slot, where its agent works, a bench, where it is measured, the landing,
    where one at a time is reviewed and lands. The queue takes them back when it ends. ``standing`` is what its
    candidates build on: at first that of its beginning, after a move that of the move. ``unfinished`` is the candidate
    that a kill left. ``not_stacked`` are sets of rejected changes that PLAN could not merge with each other. ``ahead``
    are the iterations under way that began before it. ``approvals`` are persons' answers by question, ``approved`` the
    patches that they accepted. ``briefing``, ``plan`` and ``attempts`` are None until their phases ran, ``decision`` is
    the final one, None if a rejection ended the iteration.

    ``begun`` is the stored beginning of an earlier invocation's iteration; without it, this is a new one, at the
    standing of now. ``source`` is what a baseline is made of, the ruler's digest say: checkpoints of another one are
    ignored. After ``phase_limit`` phases it raises Paused. Without ``is_limited`` no phase asks the limits of the run.
    """

    def __init__(
        self,
        project: Project,
        config: Config,
        lanes: Lanes,
        begun: Begun | None = None,
        source: str = "",
        phase_limit: int | None = None,
        is_limited: bool = True,
    ) -> None:
        now = project.standing
        self.project = project
        self.config = config
        self.begun = begun = begun or Begun(now.next_iteration, now.seq, now.last_seal)
        self.number = begun.iteration
        self.seat = Seat(project, lanes, begun.iteration, begun.slot)
        self.standing = project.ledger.standing_at(begun.seq)
        self.unfinished = self._find_unfinished()
        self.phase_limit = phase_limit
        limits = config.manifest.limits if is_limited else None
        self.steps = StepRunner(project, begun, source, limits, phase_limit)
        if not lanes.is_alone:
            lane = f"{SLOT}{begun.slot}"
            self.steps.places_of = lambda phase: project.places.beside(LANDING if phase == Phase.REVIEW else lane)
        self.folder = self.steps.folder
        self.briefing: Briefing | None = None
        self.plan: Plan | None = None
        self.not_stacked: tuple[tuple[int, ...], ...] = ()
        self.ahead: tuple[Ahead, ...] = ()
        self.attempts: Attempts | None = None
        self.decision: Decision | None = None
        self.approvals: dict[str, Approval] = {}
        self.approved: set[bytes] = set()
        self._rejection: Verdict | None = None

    def take_context(self, context: Context) -> None:
        """Takes what the proposals are made from; what they may change is as it was when the iteration began."""
        self.config = self.project.config_reader.read_begun(self.config, context, self.project.confines.mounts)
        self.briefing = brief_iteration(self.project, self.config, context, self.standing, self.steps.usage_log)
        self.seat.lanes.baton.notice()  # the next iteration begins once this one has its context

    def begin_attempts(self, plan: Plan) -> Attempts:
        has_repairs = bool(self.provider.repairers) and not plan.stacked
        repair_limit = self.project.provider_table().repair if has_repairs else None
        self.plan, self.attempts = plan, Attempts(self.steps, plan, repair_limit, self.config.manifest)
        return self.attempts

    def stand_at(self, standing: Standing) -> None:
        """From now on candidates build on this standing; ``apply_change`` calls it for a moved attempt."""
        self.standing = standing
        if self.briefing:
            self.briefing = self.briefing.at(standing)

    def refuse_moved_tip(self, attempt: OpenAttempt) -> None:
        """Raises TipMoved if others have landed before its first run; later ``take_landing`` finds that out."""
        if self._tip_moved and not self.steps.has(CheckpointName("evidence", attempt.number)):
            raise TipMoved(base=self.incumbent)

    def take_landing(self) -> bool:
        """Acquires the landing until the iteration ends; false, with every lane given back, if the tip moved."""
        self.seat.take_landing()
        if self._tip_moved:
            self.seat.leave_all()
            return False
        return True

    def roll_back(self, candidate: Candidate) -> str | None:
        """The commit that reverts a rejected candidate, for LOG to put both on the branch.

        None with several iterations at once: there a rejected candidate stays off the branch.
        """
        if not self.seat.lanes.is_alone:
            return None
        repository = self.project.repository
        return roll_back(repository, candidate, repository.load_commit(candidate.commit).time)

    @contextlib.contextmanager
    def ending_at_rejection(self) -> Iterator[None]:
        """Makes a Rejected that leaves the block the verdict of the iteration."""
        try:
            yield
        except Rejected as rejected:
            why, project = rejected.why, self.project
            if rejected.reason == Reason.PROVIDER_FAILED:  # a likely cause is a script that its tree lacks
                entries = project.repository.objects.files(self.incumbent.tree)
                finding = find_unseen_script(project, self.config, project.provider().commands, entries)
                why += f"; {finding}" if finding else ""
            self._rejection = Verdict(rejected.outcome, rejected.reason, why)

    @property
    def result(self) -> IterationResult:
        decision, verdict = self.decision, self._rejection
        if verdict is None:
            assert decision
            verdict = decision.verdict
        if self.attempts is None:
            return IterationResult(self.context, verdict)
        top, notes = self.attempts.top, self.attempts.notes
        if verdict.reason == Reason.VERIFY_FAILED and top.candidate:  # perhaps for a path that only the checkout has
            runs = top.evidence.verify if top.evidence else ()
            missing = find_missing_path(self.project, self.config.manifest, top.candidate.tree, self.folder, runs)
            notes += (f"{missing.text}: {missing.remedy}",) if missing else ()
        parts = (top.plan, top.change, top.candidate, top.evidence, decision)
        return IterationResult(self.context, verdict, *parts, self.attempts.earlier, notes)

    @property
    def as_ahead(self) -> Ahead:
        """What proposals of later iterations may know of it."""
        change, plan = self.attempts.latest.change if self.attempts else None, self.plan
        if plan is None:
            return Ahead(self.number)
        prefix = self.project.places.prefix
        files = tuple(edit.path for edit in change.edits) if change else tuple(prefix + path for path in plan.files)
        return Ahead(self.number, change.title if change else plan.title, files, plan.stacked, plan.script)

    @property
    def incumbent(self) -> MeasuredCommit:
        assert self.standing.incumbent
        return self.standing.incumbent

    @property
    def context(self) -> Context:
        assert self.briefing
        return self.briefing.context

    @property
    def provider(self) -> ProviderChain:
        """Whom this iteration asks: first those whose turn it is."""
        return self.project.provider().in_turn(self.briefing.context.turn if self.briefing else ())

    @property
    def workspace(self) -> Workspace:
        """The agent's tree, at the incumbent; waits for the slot."""
        self.seat.take_slot()
        return self.reviewers_workspace

    @property
    def reviewers_workspace(self) -> Workspace:
        """The tree in which a reviewer looks at what would land, at the incumbent."""
        return self.project.workspace(self.config, self.standing)

    def author_of(self, *answers: Plan | Change | None) -> tuple[str, str]:
        """Provider and model of the first of these answers that names one; of none of them, those of the manifest."""
        for answer in answers:
            if answer and answer.provider:
                return answer.provider, answer.model
        author = self.provider.editors[0]
        return author.name, author.model

    def seed(self, measurement: int) -> int:
        """The seed of a measurement, counted from 1 over all attempts."""
        return self.project.ledger.seal.seed(self.project.run_id, self.number, measurement)

    @property
    def _tip_moved(self) -> bool:
        return self.project.standing.tip != self.standing.tip

    def _find_unfinished(self) -> Candidate | None:
        repository = self.project.repository
        commits = repository.flight().get(self.number, ())
        if not commits:
            return None
        newest = repository.load_commit(commits[-1])
        parent = newest.parents[0]
        while parent in commits:  # a repair's commit is on that of the attempt before; a moved one's is on the new tip
            parent = repository.load_commit(parent).parents[0]
        return Candidate(newest.name, newest.tree, parent, commits[:-1])
