"""The values that one phase of an iteration hands to the next, as they are checkpointed.

Paths are text relative to the repository's root, bytes that are not UTF-8 as surrogates.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, structs

from goalseek.values import Attempt, CommandRun, Number, Outcome, Reason, Usage, VerifierRun

MAX_VISIBLE_FILES = 200
Side = Literal["candidate", "incumbent"]


class Session(Struct, frozen=True):
    """An agent's conversation that a later call can go on with: its ``name`` with the agent, and its ``model``.

    ``told`` is the agent's last running total of usage over all calls; zero where it reports each call separately.
    """

    name: str
    model: str = ""
    told: Usage = Usage()


class Played(Struct, frozen=True):
    """What ``scripted`` played so far: the digest of its script's moves up to the last one.

    ``count`` is the number of its proposals in records that have no such digest, as those of older versions. ``ahead``
    are the digests of those under way.
    """

    digest: str = ""
    count: int = 0
    ahead: tuple[str, ...] = ()


class PastIteration(Struct, frozen=True):
    """One earlier iteration, with only what the next proposal may know of it.

    ``idea`` is the text of its plan; "" where that is gone. ``changed_lines`` are those added and removed. ``gain`` is
    positive where it was better than its incumbent. ``diff`` is its change, cut; "" where it is not to be shown.
    ``tried`` is what its author said to have tried and seen, ``needed`` the least gain that could have been kept.
    ``is_taken_back``: it was kept, and a person took it back. ``of_incumbent``: its change is one of the present
    incumbent; None where its record names none, for then its number says so.
    """

    iteration: int
    outcome: str
    reason: str
    value: Number | None
    changed_files: tuple[str, ...]
    title: str
    why: str
    idea: str = ""
    changed_lines: int = 0
    gain: Number | None = None
    diff: str = ""
    is_taken_back: bool = False
    of_incumbent: bool | None = None
    tried: str = ""
    needed: Number | None = None

    @property
    def label(self) -> str:
        """Its title, with the reason of a person who took a change back, and whether it was taken back itself."""
        title = f"{self.title}: {self.why}" if self.reason == Reason.TAKEN_BACK else self.title
        return f"{title} (taken back since)" if self.is_taken_back else title


class Ahead(Struct, frozen=True):
    """What another proposal may know of an iteration under way: its number, title and files; "" without a plan yet.

    ``stacked`` are the iterations whose changes it tries together, ``script`` is its plan's.
    """

    iteration: int
    title: str = ""
    files: tuple[str, ...] = ()
    stacked: tuple[int, ...] = ()
    script: str = ""


class VisibleFile(Struct, frozen=True):
    """A file that the agent can see: its size in bytes and its blob's hash; writable or read-only."""

    path: str
    size: int
    blob: str
    writable: bool


class Context(Struct, frozen=True):
    """The result of READ_CONTEXT: all that a proposal may know, read once an iteration.

    ``attempt`` counts proposals without baselines; ``moment`` is when it was read, in seconds since 1970. ``files`` are
    at most MAX_VISIBLE_FILES of ``files_total``, writable ones first. ``common_ending`` is the end of the output that
    the last ``crashes`` candidates share, as far as the agent may see it; ``last_crash`` is that of the last candidate
    that crashed, in iteration ``crashed_in``. ``best_iteration`` is the one that kept the best value. ``writable`` and
    ``generated`` are the manifest's globs as the iteration began; empty where an older version began it. ``ideas`` were
    noted in earlier plans for later, and not tried yet. ``played`` is None where an older version began it.
    ``turn`` names who is asked first, in this order; ``turn_note`` says why where its turn begins. ``ahead`` are the
    iterations under way that were begun before it.
    """

    iteration: int
    attempt: int
    moment: int
    incumbent_commit: str
    incumbent_value: Number
    baseline_value: Number
    best_value: Number
    stagnation: int
    flattened: bool
    program: str
    directions: tuple[str, ...]
    files: tuple[VisibleFile, ...]
    files_total: int
    commits: tuple[str, ...]
    crashes: int = 0
    common_ending: str = ""
    crashed_in: int = 0
    last_crash: str = ""
    best_iteration: int = 0
    writable: tuple[str, ...] = ()
    generated: tuple[str, ...] = ()
    ideas: tuple[str, ...] = ()
    played: Played | None = None
    turn: tuple[str, ...] = ()
    turn_note: str = ""
    ahead: tuple[Ahead, ...] = ()


class Plan(Struct, frozen=True):
    """The result of PLAN. ``files`` are those that the provider means to change, ``later`` its ideas for later rounds.

    Where a provider plans while it edits, ``title`` is empty here and the change brings it. ``provider`` and ``model``
    say who answered. ``script`` is the digest of a script's moves up to this one. ``stacked`` are the iterations whose
    changes are tried together: then no provider was asked, nor will be. ``tried`` is what an earlier attempt saw of it.
    """

    title: str
    text: str
    files: tuple[str, ...] = ()
    usage: Usage = Usage()
    provider: str = ""
    model: str = ""
    later: tuple[str, ...] = ()
    script: str = ""
    stacked: tuple[int, ...] = ()
    tried: str = ""


class Edit(Struct, frozen=True):
    """One path of a change: its new mode and blob; a mode of "" means that it was deleted."""

    path: str
    mode: str
    blob: str


class Change(Struct, frozen=True):
    """The result of APPLY_CHANGE: the candidate's edits; ``dropped`` names the stray files that are not among them.

    ``provider`` and ``model`` are whose change it is; "" for the manifest's own. ``base`` is the number of the record
    at whose standing it is a change of the incumbent, where that is not the one at which the iteration began.
    """

    title: str
    text: str
    edits: tuple[Edit, ...]
    dropped: tuple[str, ...]
    lines_added: int
    lines_removed: int
    usage: Usage = Usage()
    provider: str = ""
    model: str = ""
    base: int | None = None
    tried: str = ""


class Candidate(Struct, frozen=True):
    """The result of COMMIT: the candidate's commit, its tree, and as ``parent`` the commit that the iteration began at.

    ``earlier`` are the commits of its earlier attempts, oldest first, each the parent of the next; the last one is the
    parent of the candidate's own.
    """

    commit: str
    tree: str
    parent: str
    earlier: tuple[str, ...] = ()

    @property
    def commits(self) -> tuple[str, ...]:
        return (*self.earlier, self.commit)


class Failure(Struct, frozen=True):
    """Why a measurement has no number: the contract's reason, and one sentence for people.

    ``printed`` is the end of what the failed command printed, only where that command sees no hidden file.
    """

    reason: str
    why: str
    printed: str = ""


class Evidence(Struct, frozen=True):
    """The result of VERIFY: the runs in the order in which they were made, and the failure where there was one.

    ``guard_runs`` has the guards of each of the candidate's runs, ``verify`` its commands, both in that order. All were
    made where ``benches`` measure at once, on ``host``; None where one measures alone.
    """

    runs: tuple[VerifierRun, ...] = ()
    guard_runs: tuple[dict[str, Number], ...] = ()
    verify: tuple[CommandRun, ...] = ()
    failure: Failure | None = None
    benches: int | None = None
    host: str | None = None

    @property
    def guards(self) -> dict[str, float]:
        """Each guard's median over the candidate's runs."""
        names = self.guard_runs[0] if self.guard_runs else ()
        from statistics import median

        return {name: median([guards[name] for guards in self.guard_runs]) for name in names}

    @property
    def is_incumbent_failing(self) -> bool:
        """Whether the last run is one of the incumbent's that failed."""
        return bool(self.runs) and self.runs[-1].of == "incumbent" and self.runs[-1].value is None

    def plus(self, more: Evidence) -> Evidence:
        return structs.replace(
            self,
            runs=self.runs + more.runs,
            guard_runs=self.guard_runs + more.guard_runs,
            verify=self.verify + more.verify,
            failure=more.failure,
        )


class Verdict(Struct, frozen=True):
    """The rule's conclusion from VERIFY. Values are medians in the metric's units, ``delta`` is positive where better.

    ``odds`` are those of "1.6 sd better" against "no better"; None where none were needed. ``needed`` is the least
    ``delta`` that could have been kept, of a candidate that was rejected for its number; None where any could.
    """

    outcome: str
    reason: str
    why: str
    value: Number | None = None
    incumbent: Number | None = None
    delta: Number | None = None
    odds: Number | None = None
    needed: Number | None = None

    def __bool__(self) -> bool:
        """Whether the candidate becomes the incumbent."""
        return self.outcome in (Outcome.KEPT, Outcome.BASELINE)


class Decision(Struct, frozen=True):
    """The result of DECIDE: the verdict, and the revert commit where the candidate was rejected."""

    verdict: Verdict
    rollback: str | None = None


class Review(Struct, frozen=True):
    """The result of REVIEW: APPROVED, CHANGES_REQUESTED or REJECTED, or "" if unreadable; a reason each criterion.

    ``decision`` is the decision after the review. Where it ``goes_on``, the change is back with its author, and the
    decision holds only if no new attempt comes of that. ``provider`` and ``model`` are the reviewer's.
    """

    word: str
    reasons: tuple[str, ...]
    decision: Decision
    goes_on: bool = False
    usage: Usage = Usage()
    provider: str = ""
    model: str = ""


class Rejection(Struct, frozen=True):
    """A ``Rejected`` as it is stored: how an attempt ended before its measurement, and the usage of its call."""

    outcome: str
    reason: str
    why: str
    usage: Usage = Usage()
    edits: tuple[Edit, ...] | None = None
    plan: Plan | None = None


class IterationResult(Struct, frozen=True):
    """The outcome of an iteration, with the results of the phases that it reached.

    ``taken_back`` is the kept iteration that a person took back by it, ``source`` the commit of other code that a
    baseline began with.
    """

    context: Context
    verdict: Verdict
    plan: Plan | None = None
    change: Change | None = None
    candidate: Candidate | None = None
    evidence: Evidence | None = None
    decision: Decision | None = None
    attempts: tuple[Attempt, ...] = ()
    notes: tuple[str, ...] = ()
    taken_back: int | None = None
    source: str | None = None
