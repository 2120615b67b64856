"""The values that one phase of an iteration hands to the next, as they are checkpointed.

Paths are text relative to the repository's root, bytes that are not UTF-8 as surrogates.
"""

from __future__ import annotations

from msgspec import Struct, structs

from goalseek.values import Attempt, CaseResult, CommandRun, Number, Outcome, Reason, Usage, VerifierRun

MAX_VISIBLE_FILES = 200


class Session(Struct, frozen=True):
    """``name`` is the agent's; ``told`` is its last running total of usage, zero if it reports each call separately."""

    name: str
    model: str = ""
    told: Usage = Usage()


class Played(Struct, frozen=True):
    """Of ``scripted``: the digest of its script's moves up to the last one; ``ahead`` are digests under way.

    ``count`` is the number of its proposals in records without a digest, those of older versions.
    """

    digest: str = ""
    count: int = 0
    ahead: tuple[str, ...] = ()


class PastIteration(Struct, frozen=True):
    """One earlier iteration, with only what the next proposal may know of it.

    ``idea`` is its plan's text, "" if that is gone; ``diff`` is its change, cut, "" if it is not to be shown. ``gain``
    is positive if better than its incumbent. ``tried`` is its author's account; ``needed`` the least gain that could
    have been kept. ``of_incumbent``: it changed the present incumbent; None if its record names none, for then its
    number says so.
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
        """Its title, with a person's reason for taking a change back, and whether it was taken back itself."""
        title = f"{self.title}: {self.why}" if self.reason == Reason.TAKEN_BACK else self.title
        return f"{title} (taken back since)" if self.is_taken_back else title


class Ahead(Struct, frozen=True):
    """What another proposal may know of an iteration under way; "" without a plan yet. ``is_asked``: a provider is."""

    iteration: int
    title: str = ""
    files: tuple[str, ...] = ()
    stacked: tuple[int, ...] = ()
    script: str = ""
    is_asked: bool = True


class VisibleFile(Struct, frozen=True):
    """``size`` is in bytes, ``blob`` the hash."""

    path: str
    size: int
    blob: str
    writable: bool


class Context(Struct, frozen=True):
    """The result of READ_CONTEXT: all that a proposal may know, read once an iteration.

    ``attempt`` counts proposals without baselines; ``moment`` is in seconds since 1970. ``files`` are at most
    MAX_VISIBLE_FILES of ``files_total``, writable ones first. ``common_ending`` is the end of the output that the last
    ``crashes`` candidates share, as far as the agent may see it; ``last_crash`` is that of the last one that crashed,
    in iteration ``crashed_in``. ``writable`` and ``generated`` are globs as the iteration began; if an older version
    began it, they are empty, and ``played`` is None. ``ideas`` are of earlier plans, not tried yet. ``turn`` names who
    is asked, in this order; ``turn_note`` says why if a turn begins. ``ahead`` were begun before it.
    """

    iteration: int
    attempt: int
    moment: int
    incumbent_commit: str
    program: str
    commits: tuple[str, ...]
    incumbent_value: Number = 0.0
    baseline_value: Number = 0.0
    best_value: Number = 0.0
    stagnation: int = 0
    flattened: bool = False
    directions: tuple[str, ...] = ()
    files: tuple[VisibleFile, ...] = ()
    files_total: int = 0
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

    If a provider plans while it edits, ``title`` is empty, and the change brings it. ``script`` is the digest of a
    script's moves up to this one. Without a provider, ``stacked`` are iterations whose changes are tried together, and
    ``trial`` is the commit of a try. ``tried`` is what an earlier attempt saw of it.
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
    trial: str = ""

    @property
    def is_asked(self) -> bool:
        """Whether a provider proposes it."""
        return not (self.stacked or self.trial)


class Edit(Struct, frozen=True):
    """A ``mode`` of "" deletes the path."""

    path: str
    mode: str
    blob: str


class Change(Struct, frozen=True):
    """The result of APPLY_CHANGE; ``dropped`` names the stray files that are not among the edits.

    ``provider`` and ``model`` are "" for the manifest's own. ``base`` is the record whose incumbent it changes, if
    later.
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
    """The result of COMMIT; ``parent`` is the commit that the iteration began at.

    ``earlier`` are the commits of its earlier attempts, oldest first, each the parent of the next, and of ``commit``.
    """

    commit: str
    tree: str
    parent: str
    earlier: tuple[str, ...] = ()

    @property
    def commits(self) -> tuple[str, ...]:
        return (*self.earlier, self.commit)


class Failure(Struct, frozen=True):
    """``printed`` is the end of the failed command's output, only if that sees no hidden file."""

    reason: str
    why: str
    printed: str = ""


class Evidence(Struct, frozen=True):
    """The result of VERIFY; ``guard_runs`` and ``verify`` are of the candidate's runs, in their order.

    ``benches`` measured at once, on ``host``; None if a single one measures. ``case_ids`` are all ids of a run without
    a table of them. ``machine`` is the kind of the worker's host, None without a cluster.
    """

    runs: tuple[VerifierRun, ...] = ()
    guard_runs: tuple[dict[str, Number], ...] = ()
    verify: tuple[CommandRun, ...] = ()
    failure: Failure | None = None
    benches: int | None = None
    host: str | None = None
    case_ids: tuple[str, ...] = ()
    machine: str | None = None

    @property
    def guards(self) -> dict[str, float]:
        """Medians over the candidate's runs, of those on the most cases."""
        if not any(self.guard_runs):
            return {}
        from statistics import median  # slow to import, and a climb without guards needs none of it

        sizes = self.sizes or [0] * len(self.guard_runs)  # none of values that are only compared
        largest = [guards for guards, size in zip(self.guard_runs, sizes, strict=True) if size == max(sizes)]
        return {name: median([guards[name] for guards in largest]) for name in largest[0]}

    @property
    def sizes(self) -> list[int]:
        """How many cases each run of the candidate with a number had."""
        runs = [run for run in self.runs if run.of == "candidate" and run.value is not None]
        return [len(run.cases.unpacked()) if run.cases else 0 for run in runs]

    @property
    def is_incumbent_failing(self) -> bool:
        """Whether the last run is the incumbent's, and failed."""
        return bool(self.runs) and self.runs[-1].of == "incumbent" and self.runs[-1].value is None

    def plus(self, more: Evidence) -> Evidence:
        return structs.replace(
            self,
            runs=self.runs + more.runs,
            guard_runs=self.guard_runs + more.guard_runs,
            verify=self.verify + more.verify,
            failure=more.failure,
            case_ids=self.case_ids or more.case_ids,
        )


class Verdict(Struct, frozen=True):
    """The rule's conclusion. Values are medians in the metric's units; ``delta`` is positive if better.

    ``odds`` is the likelihood ratio of "1.6 sd better" to "no better"; None if not needed. ``needed`` is the least
    ``delta`` that could have been kept, of a candidate that was rejected for its value; None if any could.
    """

    outcome: str
    reason: str
    why: str
    value: Number | None = None
    incumbent: Number | None = None
    delta: Number | None = None
    odds: Number | None = None
    needed: Number | None = None
    cases: CaseResult | None = None

    def __bool__(self) -> bool:
        """Whether the candidate becomes the incumbent."""
        return self.outcome in (Outcome.KEPT, Outcome.BASELINE)


class Decision(Struct, frozen=True):
    """The result of DECIDE; ``rollback`` is the revert commit of a rejected candidate."""

    verdict: Verdict
    rollback: str | None = None


class Review(Struct, frozen=True):
    """The result of REVIEW: APPROVED, CHANGES_REQUESTED or REJECTED, or "" if unreadable; a reason each criterion.

    ``decision`` is that after the review; if it ``goes_on``, it holds only if no new attempt of the author survives.
    """

    word: str
    reasons: tuple[str, ...]
    decision: Decision
    goes_on: bool = False
    usage: Usage = Usage()
    provider: str = ""
    model: str = ""


class Rejection(Struct, frozen=True):
    """A ``Rejected`` as it is stored."""

    outcome: str
    reason: str
    why: str
    usage: Usage = Usage()
    edits: tuple[Edit, ...] | None = None
    plan: Plan | None = None


class IterationResult(Struct, frozen=True):
    """``taken_back`` is the kept iteration that it took back, ``source`` the commit of other code for a baseline."""

    context: Context
    decision: Decision
    plan: Plan | None = None
    change: Change | None = None
    candidate: Candidate | None = None
    evidence: Evidence | None = None
    attempts: tuple[Attempt, ...] = ()
    notes: tuple[str, ...] = ()
    taken_back: int | None = None
    source: str | None = None
