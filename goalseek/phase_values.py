"""What one phase hands to the next. Paths are text relative to the repository's root, odd bytes as surrogates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from goalseek.values import Attempt, CommandRun, Usage, VerifierRun

VISIBLE_FILES_MOST = 200
Side = Literal["candidate", "incumbent"]


@dataclass(frozen=True)
class Session:
    """By what ``name`` an agent goes on with what it was asked before, and with which ``model``.

    ``told`` is what all its calls used by the agent's own running total, as it was told last; nothing where it tells of
    each call by itself.
    """

    name: str
    model: str = ""
    told: Usage = Usage()


@dataclass(frozen=True)
class PastTry:
    """One earlier iteration as the next proposal may know it."""

    iteration: int
    outcome: str
    reason: str
    value: float | None
    changed_files: tuple[str, ...]
    title: str
    why: str


@dataclass(frozen=True)
class VisibleFile:
    """A file that the agent can see: its size in bytes and its blob's hash; writable or read-only."""

    path: str
    size: int
    blob: str
    writable: bool


@dataclass(frozen=True)
class Context:
    """READ_CONTEXT's answer: all that a proposal may know, gathered once.

    ``attempt`` counts proposals, baselines not among them; ``moment`` is when this was, in seconds since 1970.
    ``files`` are at most VISIBLE_FILES_MOST, writable ones first, of ``files_total``. ``common_ending`` is how the
    output of the last ``crashes`` candidates ended, as far as the agent may see it, and ``last_crash`` how that of the
    last one did which crashed, in the iteration ``crashed_in``. ``best_iteration`` is where the best was kept.
    ``writable`` and ``generated`` are the manifest's globs as the iteration began; none where an older version did it.
    """

    iteration: int
    attempt: int
    moment: int
    incumbent_commit: str
    incumbent_value: float
    baseline_value: float
    best_value: float
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


@dataclass(frozen=True)
class Plan:
    """PLAN's answer. ``files`` are those that the provider means to change.

    Where a provider plans while it edits, ``title`` is empty here and the change brings it. ``provider`` and ``model``
    say who answered.
    """

    title: str
    text: str
    files: tuple[str, ...] = ()
    usage: Usage = Usage()
    provider: str = ""
    model: str = ""


@dataclass(frozen=True)
class Edit:
    """One path of a change: its new mode and blob; a mode of "" means that it was deleted."""

    path: str
    mode: str
    blob: str


@dataclass(frozen=True)
class Change:
    """APPLY_CHANGE's answer: what the candidate is made of; strays that were left out are named in ``dropped``.

    ``provider`` and ``model`` are whose change it is; "" for the manifest's own.
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


@dataclass(frozen=True)
class Candidate:
    """COMMIT's answer: the candidate's commit, its tree, and the commit that the iteration stands on.

    ``earlier`` are the commits of its earlier tries, oldest first, each on the one before; the candidate's own stands
    on the last of them.
    """

    commit: str
    tree: str
    parent: str
    earlier: tuple[str, ...] = ()

    @property
    def commits(self) -> tuple[str, ...]:
        """Every commit of the iteration, oldest first."""
        return (*self.earlier, self.commit)


@dataclass(frozen=True)
class Failure:
    """Why a measurement has no number: the contract's reason, and one sentence for people.

    ``printed`` is the end of what the failed command printed, only where that command sees no hidden file.
    """

    reason: str
    why: str
    printed: str = ""


@dataclass(frozen=True)
class Evidence:
    """VERIFY's answer: the runs in the order in which they were made, and what failed where one did.

    ``guard_runs`` has the guards of each of the candidate's runs, ``verify`` its commands, both in that order.
    """

    runs: tuple[VerifierRun, ...] = ()
    guard_runs: tuple[dict[str, float], ...] = ()
    verify: tuple[CommandRun, ...] = ()
    failure: Failure | None = None

    @property
    def guards(self) -> dict[str, float]:
        """Each guard's median over the candidate's runs."""
        names = self.guard_runs[0] if self.guard_runs else ()
        from statistics import median

        return {name: median([guards[name] for guards in self.guard_runs]) for name in names}

    def plus(self, more: Evidence) -> Evidence:
        """With what was measured after it."""
        return Evidence(
            self.runs + more.runs, self.guard_runs + more.guard_runs, self.verify + more.verify, more.failure
        )


@dataclass(frozen=True)
class Verdict:
    """DECIDE's answer. Values are medians in the metric's units, ``delta`` is positive where better.

    ``odds`` are those of "1.5 sd better" against "no better"; None where none were needed.
    """

    outcome: str
    reason: str
    why: str
    value: float | None = None
    incumbent: float | None = None
    delta: float | None = None
    odds: float | None = None

    def __bool__(self) -> bool:
        """Whether the candidate becomes the incumbent."""
        return self.outcome in ("kept", "baseline")


@dataclass(frozen=True)
class Decision:
    """The verdict, and the commit that takes the candidate back where it was rejected."""

    verdict: Verdict
    rollback: str | None = None


@dataclass(frozen=True)
class Review:
    """REVIEW's answer: APPROVED, CHANGES_REQUESTED or REJECTED, "" where none could be read; a reason each criterion.

    ``decision`` is the verdict as it stands after it. Where it ``goes_on``, the change is back with its author, and the
    decision holds only if nothing comes of that. ``provider`` and ``model`` are whose word it is.
    """

    word: str
    reasons: tuple[str, ...]
    decision: Decision
    goes_on: bool = False
    usage: Usage = Usage()
    provider: str = ""
    model: str = ""


@dataclass(frozen=True)
class Rejection:
    """How a try ended before its measurement, and what the call cost that ended so.

    ``edits`` are what it has within its scope, where it can go back to its author; None where it cannot.
    """

    outcome: str
    reason: str
    why: str
    usage: Usage = Usage()
    edits: tuple[Edit, ...] | None = None


@dataclass(frozen=True)
class IterationResult:
    """What came of an iteration, with the answers of the phases that it reached."""

    context: Context
    verdict: Verdict
    plan: Plan | None = None
    change: Change | None = None
    candidate: Candidate | None = None
    evidence: Evidence | None = None
    decision: Decision | None = None
    attempts: tuple[Attempt, ...] = ()
    notes: tuple[str, ...] = ()
