"""One iteration of a climb: what belongs to it, and what its phases have given so far."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Concatenate, Literal, ParamSpec, TypeVar

from goalseek.doctor.diagnose import find_missing_path
from goalseek.doctor.provider_checks import find_unseen_script
from goalseek.errors import Rejected
from goalseek.ledger.checkpoints import Begun, CheckpointName
from goalseek.ledger.standing import MeasuredCommit, Standing
from goalseek.loop.attempts import Attempts, OpenAttempt
from goalseek.loop.steps import StepRunner
from goalseek.phase_values import Ahead, Candidate, Change, Context, Decision, Evidence, IterationResult, Plan, Verdict
from goalseek.project.approval import Approval, Question, commands_for, read_approval
from goalseek.project.config import Config
from goalseek.project.landing import Landing, landing
from goalseek.project.project import Project
from goalseek.proposal.call import Briefing, brief_iteration
from goalseek.providers.fallback import ProviderChain
from goalseek.values import Attempt, Phase, Reason
from goalseek.workspace.workspace import Workspace

Value = TypeVar("Value")
Inputs = ParamSpec("Inputs")
Work = Callable[Concatenate["Iteration", Inputs], Value]


def checkpointed(
    phase: Phase, answer: str, kind: type[Value], count: Literal["", "number", "cycle"] = ""
) -> Callable[[Work[Inputs, Value]], Work[Inputs, Value]]:
    """Makes a function the work of a phase: a call gives what is stored under ``answer``, or works and stores it.

    ``count`` is the attribute of the argument after the iteration, as ``attempt.number``, that numbers the checkpoints
    of one iteration; "" where there is one. A call raises Rejected, Paused and LimitReached as the step does.
    """

    def decorate(work: Work[Inputs, Value]) -> Work[Inputs, Value]:
        @functools.wraps(work)
        def step(iteration: Iteration, /, *inputs: Inputs.args, **options: Inputs.kwargs) -> Value:
            name = CheckpointName(answer, getattr(inputs[0], count) if count else 1)
            return iteration.steps.do(phase, name, kind, lambda: work(iteration, *inputs, **options))

        return step

    return decorate


class Iteration:
    """An iteration under way: its number, configuration, folder and steps, and standing and refs as it began.

    ``unfinished`` is the candidate that a kill left. ``not_stacked`` are sets of rejected changes that PLAN
    could not put together. ``ahead`` are the iterations under way that were begun before it. What its phases have given
    is None until then. Stored answers of another ``source`` are ignored. Without ``is_limited`` no phase asks the
    limits of the run.
    """

    is_alone = True

    def __init__(
        self,
        project: Project,
        config: Config,
        source: str = "",
        phase_limit: int | None = None,
        is_limited: bool = True,
    ) -> None:
        self.project = project
        self.config = config
        self.phase_limit = phase_limit
        with landing(project) as current:
            self.refs = current.refs
            self.unfinished = self._find_unfinished(current)
            self.begun = self._begin(current.standing)
        self.standing = project.ledger.standing_at(self.begun.seq)
        self.number = self.begun.iteration
        limits = config.manifest.limits if is_limited else None
        self.steps = StepRunner(project, self.begun, source, limits, phase_limit)
        self.folder = self.steps.folder
        self.briefing: Briefing | None = None
        self.plan: Plan | None = None
        self.not_stacked: tuple[tuple[int, ...], ...] = ()
        self.ahead: tuple[Ahead, ...] = ()
        self.attempts: Attempts | None = None
        self.decision: Decision | None = None
        self._verdict: Verdict | None = None

    def take_context(self, context: Context) -> None:
        """Takes what the proposals are made from; what they may change is as it was when the iteration began."""
        self.config = self.project.config_reader.read_begun(self.config, context, self.project.confines.mounts)
        self.briefing = brief_iteration(self.project, self.config, context, self.standing, self.steps.usage_log)

    def begin_attempts(self, plan: Plan) -> Attempts:
        """The attempts at this plan, of which none has been made."""
        has_repairs = bool(self.provider.repairers) and not plan.stacked
        repair_limit = self.project.provider_table().repair if has_repairs else None
        self.plan, self.attempts = plan, Attempts(self.steps, plan, repair_limit, self.config.manifest)
        return self.attempts

    def begin_again(self, source: str) -> Iteration:
        """The same iteration without what is stored of it, and without limits."""
        return Iteration(self.project, self.config, source, self.phase_limit, is_limited=False)

    def attempts_before(self, candidate: Candidate, reason: str) -> tuple[Attempt, ...]:
        """The earlier tries of a candidate, as the record of one that cannot be finished lists them."""
        return tuple(Attempt(commit, reason) for commit in candidate.earlier)

    def take_slot(self) -> None:
        """Waits until its author may work in the workspace."""

    def take_bench(self) -> None:
        """Waits until it may be measured, and leaves the workspace to others."""

    def stand_on(self, change: Change) -> Change:
        """Takes the standing at which this is a change of the incumbent."""
        return change

    def move_to_tip(self) -> None:
        """Takes the standing of now: what follows is a change of the present incumbent."""

    def refuse_moved_tip(self, attempt: OpenAttempt) -> None:
        """Raises TipMoved where others have landed since it was begun, or was moved, and it is not measured yet."""

    def may_land(self, decision: Decision) -> bool:
        """Whether the decision is about the tip of now. Of what would be kept, it stays so until the iteration ends."""
        return True

    def ask_person(self, question: Question) -> Approval | None:
        """The answer of a person at the terminal, or of another process meanwhile; None where there is nobody."""
        project = self.project
        if not project.watch.is_attended():
            return None

        def read_answer() -> Approval | None:
            project.activity.beat()
            return read_approval(project.loaded.logs, question)

        project.show("waiting", question.iteration, Phase.APPROVE, next=commands_for(question))
        project.watch.on_question(question)
        answer = project.watch.ask(question, read_answer)
        project.show("running", question.iteration, Phase.APPROVE)
        return answer

    def candidates_beside(self) -> dict[int, str]:
        """The commits of the other candidates under way, each by its iteration."""
        return {}

    def put_candidate(self, attempt: OpenAttempt, commit_hash: str) -> None:
        """Makes a candidate's commit reachable: moves the tip to it."""
        with landing(self.project) as current:
            current.move_tip(attempt.commits[-1] if attempt.commits else self.standing.tip, commit_hash)

    def roll_back(self, candidate: Candidate) -> str | None:
        """The commit that reverts a rejected candidate on the tip."""
        with landing(self.project) as current:
            return current.roll_back(candidate)

    def note_answer(self, decision: Decision) -> None:
        """Notes what a person has said of the change."""

    def clean_up(self) -> None:
        """Removes what only an iteration without a record needs."""

    def _begin(self, standing: Standing) -> Begun:
        return Begun(standing.next_iteration, standing.seq, standing.last_seal)

    def _find_unfinished(self, current: Landing) -> Candidate | None:
        return current.unfinished_candidate(self.refs.tip)

    @contextlib.contextmanager
    def ending_at_rejection(self) -> Iterator[None]:
        """A phase that rejects in this block ends it; what it says is the verdict."""
        try:
            yield
        except Rejected as rejected:
            hint = self._hint_for_provider() if rejected.reason == Reason.PROVIDER_FAILED else ""
            self._verdict = Verdict(rejected.outcome, rejected.reason, rejected.why + hint)

    def _hint_for_provider(self) -> str:
        """A likely cause of a provider's failure, to be added to its own message: a script that its tree lacks."""
        project = self.project
        entries = project.repository.objects.files(self.incumbent.tree)
        finding = find_unseen_script(project, self.config, project.provider().commands, entries)
        return f"; {finding}" if finding else ""

    @property
    def setting(self) -> tuple[int | None, str | None]:
        """How many benches measure at once, on which host; none of both where one measures alone."""
        return (None, None)

    @property
    def active_seconds(self) -> float | None:
        """The seconds since the last record in which any of several was at work; None where there is one."""
        return None

    @property
    def base(self) -> int | None:
        """The number of the record at whose standing it is a change, where it has moved since it began."""
        return None

    @property
    def incumbent(self) -> MeasuredCommit:
        """What its candidate is a change of."""
        assert self.standing.incumbent
        return self.standing.incumbent

    @property
    def context(self) -> Context:
        """What READ_CONTEXT gave."""
        assert self.briefing
        return self.briefing.context

    @property
    def provider(self) -> ProviderChain:
        """Whom this iteration asks: first those whose turn it is."""
        return self.project.provider().in_turn(self.briefing.context.turn if self.briefing else ())

    @property
    def workspace(self) -> Workspace:
        """The agent's tree, at the incumbent."""
        self.take_slot()
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
    def result(self) -> IterationResult:
        """What its record is about."""
        decision, verdict = self.decision, self._verdict
        if verdict is None:
            assert decision
            verdict = decision.verdict
        if self.attempts is None:
            return IterationResult(self.context, verdict)
        top = self.attempts.top
        parts = (top.plan, top.change, top.candidate, top.evidence, decision)
        notes = (*self.attempts.notes, *self._missing_path_notes(verdict, top.candidate, top.evidence))
        return IterationResult(self.context, verdict, *parts, self.attempts.earlier, notes)

    def _missing_path_notes(
        self, verdict: Verdict, candidate: Candidate | None, evidence: Evidence | None
    ) -> tuple[str, ...]:
        """A note where a command of the verifier failed for a path that the checkout has and the tree has not."""
        if verdict.reason != Reason.VERIFY_FAILED or candidate is None:
            return ()
        runs = evidence.verify if evidence else ()
        missing = find_missing_path(self.project, self.config.manifest, candidate.tree, self.folder, runs)
        return (f"{missing.text}: {missing.remedy}",) if missing else ()
