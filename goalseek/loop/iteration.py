"""One iteration of a climb: what belongs to it, and what its phases have given so far."""

import contextlib
from collections.abc import Iterator

from goalseek.doctor.checks import find_unseen_script
from goalseek.doctor.diagnose import find_missing_path
from goalseek.errors import Rejected
from goalseek.git.repository import roll_back
from goalseek.ledger.checkpoints import Begun, CheckpointName
from goalseek.ledger.standing import MeasuredCommit, Standing
from goalseek.loop.attempts import Attempts, OpenAttempt, TipMoved
from goalseek.loop.lanes import HeldLanes, LanePool
from goalseek.loop.steps import StepRunner
from goalseek.phase_values import Ahead, Candidate, Change, Context, Decision, IterationResult, Plan, Verdict
from goalseek.project.approval import Approval
from goalseek.project.config import Config
from goalseek.project.project import Project
from goalseek.proposal.call import Briefing, brief_iteration
from goalseek.providers.fallback import ProviderChain
from goalseek.values import Reason
from goalseek.workspace.workspace import Workspace


class Iteration:
    """An iteration under way.

    ``lanes`` are those that it holds: a slot, where its agent works, a bench, where it is measured, the landing, where
    one at a time is reviewed and lands. ``standing`` is what its candidates build on: at first that of its beginning,
    after a move that of the move. ``not_stacked`` are sets of rejected changes that PLAN could not merge with each
    other. ``ahead`` are the iterations under way that began before it. ``answers`` are persons' answers by question,
    ``approved_patches`` the patches that they accepted. ``briefing`` and ``attempts`` are None until their phases ran.
    ``trial`` is the commit of the try that PLAN is to take, "" for a proposal; a stored plan counts instead.

    ``begun`` is the stored beginning of an earlier invocation's iteration; without it, this is a new one, at the
    standing of now. ``source`` is what an iteration without a proposal is made of, as a baseline of its ruler:
    checkpoints of another one are ignored, and no phase asks the limits of the run. After ``phase_limit`` phases it
    raises Paused.
    """

    def __init__(
        self,
        project: Project,
        config: Config,
        pool: LanePool,
        begun: Begun | None = None,
        source: str = "",
        phase_limit: int | None = None,
    ) -> None:
        self.project = project
        self.config = config
        self.begun = begun = begun or pool.begin(project.standing.next_iteration)
        self.number = begun.iteration
        self.lanes = HeldLanes(project, pool, begun)
        self.standing = project.ledger.standing_at(begun.seq)
        self.phase_limit = phase_limit
        limits = None if source else config.manifest.limits
        self.steps = StepRunner(project, begun, source, limits, phase_limit, self.lanes.places_of)
        self.folder = self.steps.folder
        self.briefing: Briefing | None = None
        self.not_stacked: tuple[tuple[int, ...], ...] = ()
        self.ahead: tuple[Ahead, ...] = ()
        self.attempts: Attempts | None = None
        self.trial = begun.trial
        self.answers: dict[str, Approval] = {}
        self.approved_patches: set[bytes] = set()
        self._rejection: Decision | None = None

    def begin_proposals(self, context: Context) -> None:
        """The context is there; what proposals may change is as it was when the iteration began."""
        self.config = self.project.config_reader.read_begun(self.config, context, self.project.confines.mounts)
        self.briefing = brief_iteration(self.project, self.config, context, self.standing, self.steps.usage_log)
        self.lanes.pool.baton.notice()  # the next iteration begins once this one has its context

    def begin_attempts(self, plan: Plan) -> Attempts:
        has_repairs = plan.is_asked and bool(self.provider.repairers)
        repair_limit = self.project.provider_table().repair if has_repairs else None
        self.attempts = Attempts(self.steps, plan, repair_limit, self.config.manifest)
        self.trial = plan.trial
        return self.attempts

    def stand_at(self, standing: Standing) -> None:
        """From now on candidates build on this standing; ``apply_change`` calls it for a moved attempt."""
        self.standing = standing
        if self.briefing:
            self.briefing = self.briefing.at(standing)

    def refuse_moved_tip(self, attempt: OpenAttempt) -> None:
        """Raises TipMoved if others have landed before its first run; later ``acquire_landing`` finds that out."""
        if self._tip_moved and not self.steps.has(CheckpointName("evidence", attempt.number)):
            raise TipMoved(base=self.incumbent)

    def acquire_landing(self) -> bool:
        """Acquire the landing until the iteration ends; false, with every lane released, if the tip moved."""
        self.lanes.acquire_landing()
        if has_moved := self._tip_moved:
            self.lanes.release()
        return not has_moved

    def revert(self, candidate: Candidate) -> str | None:
        """The commit that reverts a rejected candidate, for LOG to put both on the branch.

        None with several iterations at once: there a rejected candidate stays off the branch.
        """
        if not self.lanes.pool.is_serial:
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
            self._rejection = Decision(Verdict(rejected.outcome, rejected.reason, why))

    @property
    def result(self) -> IterationResult:
        if self.attempts is None:
            assert self._rejection
            return IterationResult(self.context, self._rejection)
        subject, notes = self.attempts.subject, self.attempts.notes
        decision = self._rejection or subject.decision
        assert decision
        if decision.verdict.reason == Reason.VERIFY_FAILED and subject.candidate:
            runs = subject.evidence.verify if subject.evidence else ()  # perhaps for a path that only the checkout has
            missing = find_missing_path(self.project, self.config.manifest, subject.candidate.tree, self.folder, runs)
            notes += (f"{missing.text}: {missing.remedy}",) if missing else ()
        parts = (subject.plan, subject.change, subject.candidate, subject.evidence)
        return IterationResult(self.context, decision, *parts, self.attempts.entries, notes)

    @property
    def as_ahead(self) -> Ahead:
        if self.attempts is None:
            return Ahead(self.number, is_asked=not self.trial)
        prefix, plan, change = self.project.places.prefix, self.attempts.plan, self.attempts.latest.change
        files = tuple(edit.path for edit in change.edits) if change else tuple(prefix + path for path in plan.files)
        title = change.title if change else plan.title
        return Ahead(self.number, title, files, plan.stacked, plan.script, plan.is_asked)

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
        self.lanes.acquire_slot()
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
