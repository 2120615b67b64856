"""The manifest's tables: one frozen dataclass for each, with the contract's names and defaults.

Reading and checking is done in ``loading`` and ``validation``; nothing that takes time is imported here, so that
``status`` and ``log`` may use a manifest that was checked before. The docstrings are published in its JSON Schema.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from goalseek.manifest import fields as form
from goalseek.values import DataClass

Source = Literal["json", "stdout", "stderr", "wall", "cpu"]
TIME_SOURCES: tuple[Source, ...] = ("wall", "cpu")
Sees = Literal["candidate", "hidden", "both"]


class Project(DataClass, kw_only=True):
    """Whose number is climbed: the name, the repository, and the instructions for the agent."""

    name: form.Name
    repo: str = "."
    program: str | None = None


class ScopeTable(DataClass, kw_only=True):
    """Which files a candidate consists of, and which it may see. Gitignore-style globs."""

    writable: form.SomePatterns
    generated: form.Patterns = ()
    read_only: form.Patterns = ()
    hidden: form.Patterns = ()
    hidden_from: form.Folder = None
    share: form.InnerPaths = ()
    strays: Literal["drop", "reject"] = "drop"


class Setup(DataClass, kw_only=True):
    """Run once for each ruler, on the baseline's tree without the hidden files; each measurement gets a copy."""

    run: form.Command
    gives: form.InnerPaths = ()
    network: bool = False
    timeout: form.Seconds = 1800.0


class VerifyCommand(DataClass, kw_only=True):
    """One command of the measurement. ``timeout`` is in seconds, "auto", or none; ``output_max`` in bytes."""

    run: form.Command
    name: str = ""
    cwd: form.FolderPath = "."
    sees: Sees | None = None
    outputs: form.Globs = ()
    output_max: form.Size = 2 * 2**30
    once: bool = False
    keep: form.Globs = ()
    timeout: form.Timeout = "auto"
    network: bool = False


class Variables(DataClass, kw_only=True):
    """What a program's environment gets beside the published list."""

    pass_: form.Patterns = ()
    set: dict[str, str] = field(default_factory=dict)


class EnvironmentTable(DataClass, kw_only=True):
    """The additions to the environment of the verifier and of the agent."""

    verify: Variables = Variables()
    agent: Variables = Variables()


class Reading(DataClass, kw_only=True):
    """How one number is read from what a measurement left behind."""

    name: str = ""
    source: Source | None = None
    path: form.InnerPath = "metrics.json"
    query: str | None = None
    regex: str | None = None
    matches: Literal["only", "last"] = "only"
    command: str = ""
    valid: form.Range = None

    @property
    def unit(self) -> str:
        """The unit of the number where goalseek knows it: "s" of a time; else ""."""
        return "s" if self.source in TIME_SOURCES else ""


class Metric(Reading, kw_only=True):
    """The number that is climbed, and what counts as better.

    ``repeats`` runs make one measurement, by ``aggregate``. ``alpha`` is None for "auto"; ``window`` is in verifier
    runs, ``settle`` in pairs; ``examples`` is the size of a fixed evaluation set. With ``allow_fixed_seed`` a candidate
    may win whose runs agree to the last bit though the incumbent's never do.
    """

    direction: Literal["maximize", "minimize"]
    target: form.Amount = None
    min_delta: form.LeastMargin = 0.0
    noise: Literal["auto", "none", "always"] = "auto"
    max_repeats: form.Repeats = 8
    alpha: form.Alpha = None
    window: form.Positive = 30
    settle: form.Count = 5
    repeats: form.Positive = 1
    aggregate: Literal["median", "mean", "min", "max"] = "median"
    examples: form.Count = None
    exclusive: str = "none"
    allow_fixed_seed: bool = False


class Guard(Reading, kw_only=True):
    """A second number with a bound. Increases and decreases are held against the baseline."""

    min: float | None = None
    max: float | None = None
    max_increase: form.Margin | None = None
    max_decrease: form.Margin | None = None


class Holdout(VerifyCommand, kw_only=True):
    """A command whose number decides nothing, and how it is read: at a run's end, or after each keep too."""

    when: Literal["end", "kept"] = "end"
    source: Source | None = None
    path: form.InnerPath = "metrics.json"
    query: str | None = None
    regex: str | None = None
    matches: Literal["only", "last"] = "only"
    valid: form.Range = None


class Cheat(DataClass, kw_only=True):
    """A patch that games the metric: ``doctor`` shows that it loses. The agent never sees it."""

    patch: form.InnerPath


class Budget(DataClass, kw_only=True):
    """What may be spent. ``time`` is active time in seconds; ``tokens`` are input, cached and output together."""

    iterations: form.Count = None
    time: form.Seconds = None
    tokens: form.Count = None
    cost_usd: form.Cost = None


class Limits(Budget, kw_only=True):
    """When a run ends by itself. ``total`` is a budget of all runs of the project together."""

    deadline: form.Moment = None
    stagnation: form.Count = 10
    stagnation_stop: form.Count = None
    failures: form.Count = 20
    total: Budget = Budget()


class SandboxTable(DataClass, kw_only=True):
    """How agent and candidate are kept apart from the rest of the machine; paths as people write them."""

    mode: Literal["auto", "bubblewrap", "landlock", "none"] = "auto"
    agent_network: bool = True
    read: form.Patterns = ()
    cache: form.Patterns = ()
    devices: form.Devices = "auto"


class ApproveTable(DataClass, kw_only=True):
    """Which verdicts take effect only with a person's word: none, a keep, or each."""

    before: Literal["never", "kept", "each"] = "never"


class NotifyTable(DataClass, kw_only=True):
    """A program that is told: the record of a keep, or the end, as JSON on its stdin."""

    command: form.Patterns | None = None
    on: tuple[Literal["kept", "stopped", "needs_human", "budget"], ...] = ("kept", "stopped", "needs_human", "budget")


class LogTable(DataClass, kw_only=True):
    """Where records and artifacts lie, relative to the manifest's folder, and how much stays.

    ``keep_runs`` artifact folders, the newest; outputs of the best only, of none, or of every kept candidate.
    """

    home: form.FolderPath = ".goalseek"
    keep_runs: form.Count = 500
    keep_outputs: Literal["best", "none", "kept"] = "best"


class Manifest(DataClass, kw_only=True):
    """A whole manifest, checked, with every default in place."""

    version: Literal[1]
    project: Project
    scope: ScopeTable
    metric: Metric
    verify: tuple[VerifyCommand, ...]
    setup: Setup | None = None
    env: EnvironmentTable = EnvironmentTable()
    guard: tuple[Guard, ...] = ()
    cheat: tuple[Cheat, ...] = ()
    holdout: Holdout | None = None
    provider: ProviderTable | None = None
    price: tuple[Price, ...] = ()
    review: ReviewTable | None = None
    limits: Limits = Limits()
    sandbox: SandboxTable = SandboxTable()
    approve: ApproveTable = ApproveTable()
    notify: NotifyTable = NotifyTable()
    log: LogTable = LogTable()


class ProviderTable(DataClass, kw_only=True):
    """Who proposes. The keys below ``plan`` belong to the provider that the comment names."""

    name: str
    model: str = ""
    timeout: form.Seconds = 1800.0
    fallback: tuple[str | ProviderTable, ...] = ()
    billing: Literal["auto", "api", "subscription"] = "auto"
    endpoint: form.Endpoint = None
    credentials: form.Patterns | None = None
    plan: ProviderTable | None = None
    repair: form.Whole = 1
    prompts: str = ""
    record: form.Folder = None
    command: form.Patterns | None = None  # command; of another, the program with words that come first
    ask_plan: bool = False  # command
    script: str = "moves.toml"  # scripted
    recordings: str = ""  # replay
    sampler: Literal["tpe", "cmaes", "random"] = "tpe"  # tune
    seed: int = 0  # tune


class ReviewTable(DataClass, kw_only=True):
    """Who gives a second opinion on what would be kept, by which criteria.

    ``max_cycles`` is how often a change may go back to its author.
    """

    provider: str | ProviderTable
    criteria: form.Patterns
    max_cycles: form.Positive = 3


class Price(DataClass, kw_only=True):
    """What a model costs where its agent does not say so: dollars per million tokens; ``cached`` like input if none."""

    model: str
    input: form.NotNegative
    output: form.NotNegative
    cached: form.NotNegative | None = None
