"""The manifest's values: one frozen dataclass a table, the contract's names and defaults.

Reading, checking and publishing it is the work of ``manifest_file``; here nothing is imported that takes time, so
that ``status`` and ``log`` may use a manifest that was checked before.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from goalseek import units


@dataclass(frozen=True)
class Written:
    """Marks a field that people write in another form than it has here.

    ``read`` turns the written form into the value and raises ValueError with what would be right; ``schema`` is the
    JSON Schema of the written form.
    """

    read: Callable[[Any], Any]
    schema: dict[str, Any] = dataclasses.field(hash=False)

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(self.read, handler(source))

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return dict(self.schema)


def _duration(text: Any) -> float | None:
    return None if text in ("none", None) else units.seconds(text)


def _timeout(text: Any) -> float | str | None:
    return "auto" if text == "auto" else _duration(text)


def _optional(text: Any) -> Any:
    return None if text == "none" else text


def _count(text: Any) -> Any:
    if isinstance(text, int) and text < 1:
        raise ValueError('at least 1, or "none"')
    return _optional(text)


def _alpha(text: Any) -> Any:
    if isinstance(text, int | float) and not 0 < text <= 0.5:
        raise ValueError('more than 0 and at most 0.5, or "auto"')
    return None if text == "auto" else text


def _at_least(least: int) -> Callable[[Any], Any]:
    def checked(text: Any) -> Any:
        if isinstance(text, int) and text < least:
            raise ValueError(f"at least {least}")
        return text

    return checked


def _cost(text: Any) -> Any:
    if isinstance(text, int | float) and not 0 < text < float("inf"):
        raise ValueError('dollars, more than zero, or "none"')
    return _optional(text)


def _moment(text: Any) -> Any:
    if not isinstance(text, str) or text == "none":
        return _optional(text)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("a date and time, such as 2026-12-01T07:00:00Z") from None


def _name(text: Any) -> Any:
    if isinstance(text, str) and re.fullmatch(r"[a-z0-9-]+", text) and not text.startswith("-"):
        return text
    raise ValueError("a project's name is made of a-z, 0-9 and -; the branch is goalseek/<name>")


def _folder(text: Any) -> Any:
    if text == "":
        raise ValueError('a folder, or "none"')
    return _optional(text)


def _not_empty(patterns: Any) -> Any:
    if not patterns:
        raise ValueError("name at least one")
    return tuple(patterns) if isinstance(patterns, list) else patterns


def _margin(text: Any) -> Any:
    units.share_of(text, 1.0)
    return text


def _pair(text: Any) -> Any:
    text = _optional(text)
    if text is None:
        return None
    if isinstance(text, list) and len(text) == 2 and text[0] <= text[1]:
        return tuple(text)
    raise ValueError("two numbers, the lowest and the highest, such as [0.0, 1.0]")


def _endpoint(text: Any) -> Any:
    text = _optional(text)
    if text is not None and not (isinstance(text, str) and re.fullmatch(r"https?://[^\s/]+\S*", text)):
        raise ValueError("an address such as http://localhost:8080")
    return text


def _not_negative(text: Any) -> Any:
    if isinstance(text, int | float) and not 0 <= text < float("inf"):
        raise ValueError("dollars per million tokens, zero or more")
    return text


def _devices(text: Any) -> Any:
    if isinstance(text, list) and all(isinstance(path, str) and path.startswith("/dev/") for path in text):
        return tuple(text)
    if text in ("auto", "none"):
        return text
    raise ValueError('"auto", "none", or a list of paths below /dev')


_TEXT_OR_NUMBER: dict[str, Any] = {"type": ["string", "number"]}
Seconds = Annotated[float | None, Written(_duration, _TEXT_OR_NUMBER)]
Timeout = Annotated[float | str | None, Written(_timeout, _TEXT_OR_NUMBER)]
Size = Annotated[int, Written(units.size, {"type": ["string", "integer"]})]
Margin = Annotated[float | str, Written(_margin, _TEXT_OR_NUMBER)]
Count = Annotated[int | None, Written(_count, {"type": ["integer", "string"], "minimum": 1})]
Positive = Annotated[int, Written(_at_least(1), {"type": "integer", "minimum": 1})]
Repeats = Annotated[int, Written(_at_least(2), {"type": "integer", "minimum": 2})]
Alpha = Annotated[float | None, Written(_alpha, _TEXT_OR_NUMBER)]
Amount = Annotated[float | None, Written(_optional, _TEXT_OR_NUMBER)]
Cost = Annotated[float | None, Written(_cost, _TEXT_OR_NUMBER)]
NotNegative = Annotated[float, Written(_not_negative, {"type": "number", "minimum": 0})]
Endpoint = Annotated[str | None, Written(_endpoint, {"type": "string"})]
Moment = Annotated[datetime | None, Written(_moment, {"type": "string", "format": "date-time"})]
Name = Annotated[str, Written(_name, {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]*$"})]
Patterns = tuple[str, ...]
SomePatterns = Annotated[Patterns, Written(_not_empty, {"type": "array", "items": {"type": "string"}, "minItems": 1})]
Folder = Annotated[str | None, Written(_folder, {"type": "string"})]
_PAIR: dict[str, Any] = {"type": ["array", "string"], "items": {"type": "number"}, "minItems": 2}
Range = Annotated[tuple[float, float] | None, Written(_pair, _PAIR)]
Command = str | tuple[str, ...]
_DEVICES: dict[str, Any] = {"type": ["string", "array"], "items": {"type": "string"}}
Devices = Annotated[str | tuple[str, ...], Written(_devices, _DEVICES)]
Source = Literal["json", "stdout", "stderr", "wall"]
Sees = Literal["candidate", "hidden", "both"]


@dataclass(frozen=True, kw_only=True)
class Project:
    """Whose number is climbed: the name, the repository, and the instructions for the agent."""

    name: Name
    repo: str = "."
    program: str | None = None


@dataclass(frozen=True, kw_only=True)
class ScopeTable:
    """Which files a candidate consists of, and which it may see. Gitignore-style globs."""

    writable: SomePatterns
    generated: Patterns = ()
    read_only: Patterns = ()
    hidden: Patterns = ()
    hidden_from: Folder = None
    share: Patterns = ()
    strays: Literal["drop", "reject"] = "drop"


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Run once for each ruler, on the baseline's tree without the hidden files; each measurement gets a copy."""

    run: Command
    gives: Patterns = ()
    network: bool = False
    timeout: Seconds = 1800.0


@dataclass(frozen=True, kw_only=True)
class VerifyCommand:
    """One command of the measurement. ``timeout`` is in seconds, "auto", or none; ``output_max`` in bytes."""

    run: Command
    name: str = ""
    cwd: str = "."
    sees: Sees | None = None
    outputs: Patterns = ()
    output_max: Size = 2 * 2**30
    once: bool = False
    keep: Patterns = ()
    timeout: Timeout = "auto"
    network: bool = False


@dataclass(frozen=True, kw_only=True)
class Variables:
    """What a program's environment gets beside the published list."""

    pass_: Patterns = ()
    set: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class EnvironmentTable:
    """The additions to the environment of the verifier and of the agent."""

    verify: Variables = Variables()
    agent: Variables = Variables()


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How one number is read from what a measurement left behind."""

    name: str = ""
    source: Source | None = None
    path: str = "metrics.json"
    query: str | None = None
    regex: str | None = None
    matches: Literal["only", "last"] = "only"
    command: str = ""
    valid: Range = None


@dataclass(frozen=True, kw_only=True)
class Metric(Reading):
    """The number that is climbed, and what counts as better.

    ``repeats`` runs make one measurement, by ``aggregate``. ``alpha`` is None for "auto"; ``window`` is in verifier
    runs, ``settle`` in pairs; ``examples`` is the size of a fixed evaluation set.
    """

    direction: Literal["maximize", "minimize"]
    target: Amount = None
    min_delta: Margin = 0.0
    noise: Literal["auto", "none", "always"] = "auto"
    max_repeats: Repeats = 8
    alpha: Alpha = None
    window: Positive = 30
    settle: Count = 5
    repeats: Positive = 1
    aggregate: Literal["median", "mean", "min", "max"] = "median"
    examples: Count = None
    exclusive: str = "none"


@dataclass(frozen=True, kw_only=True)
class Guard(Reading):
    """A second number with a bound. Increases and decreases are held against the baseline."""

    min: float | None = None
    max: float | None = None
    max_increase: Margin | None = None
    max_decrease: Margin | None = None


@dataclass(frozen=True, kw_only=True)
class Holdout(VerifyCommand):
    """A command whose number decides nothing, and how it is read: at a run's end, or after each keep too."""

    when: Literal["end", "kept"] = "end"
    source: Source | None = None
    path: str = "metrics.json"
    query: str | None = None
    regex: str | None = None
    matches: Literal["only", "last"] = "only"
    valid: Range = None


@dataclass(frozen=True, kw_only=True)
class Cheat:
    """A patch that games the metric: ``doctor`` shows that it loses. The agent never sees it."""

    patch: str


@dataclass(frozen=True, kw_only=True)
class ProviderTable:
    """Who proposes. The keys below ``plan`` belong to the provider that the comment names."""

    name: str
    model: str = ""
    timeout: Seconds = 1800.0
    fallback: tuple[str | ProviderTable, ...] = ()
    billing: Literal["auto", "api", "subscription"] = "auto"
    endpoint: Endpoint = None
    credentials: Patterns | None = None
    plan: ProviderTable | None = None
    repair: Annotated[int, Written(_at_least(0), {"type": "integer", "minimum": 0})] = 1
    prompts: str = ""
    record: Folder = None
    command: Patterns | None = None  # command; of another, the program with words that come first
    ask_plan: bool = False  # command
    script: str = "moves.toml"  # scripted
    recordings: str = ""  # replay
    sampler: Literal["tpe", "cmaes", "random"] = "tpe"  # tune
    seed: int = 0  # tune


@dataclass(frozen=True, kw_only=True)
class ReviewTable:
    """Who gives a second opinion on what would be kept, by which criteria.

    ``max_cycles`` is how often a change may go back to its author.
    """

    provider: str | ProviderTable
    criteria: Patterns
    max_cycles: Positive = 3


@dataclass(frozen=True, kw_only=True)
class Price:
    """What a model costs where its agent does not say so: dollars per million tokens; ``cached`` like input if none."""

    model: str
    input: NotNegative
    output: NotNegative
    cached: NotNegative | None = None


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What may be spent. ``time`` is active time in seconds; ``tokens`` are input, cached and output together."""

    iterations: Count = None
    time: Seconds = None
    tokens: Count = None
    cost_usd: Cost = None


@dataclass(frozen=True, kw_only=True)
class Limits(Budget):
    """When a run ends by itself. ``total`` is a budget of all runs of the project together."""

    deadline: Moment = None
    stagnation: Count = 10
    stagnation_stop: Count = None
    failures: Count = 20
    total: Budget = Budget()


@dataclass(frozen=True, kw_only=True)
class SandboxTable:
    """How agent and candidate are kept apart from the rest of the machine; paths as people write them."""

    mode: Literal["auto", "bubblewrap", "landlock", "none"] = "auto"
    agent_network: bool = True
    read: Patterns = ()
    cache: Patterns = ()
    devices: Devices = "auto"


@dataclass(frozen=True, kw_only=True)
class ApproveTable:
    """Which verdicts take effect only with a person's word: none, a keep, or each."""

    before: Literal["never", "kept", "each"] = "never"


@dataclass(frozen=True, kw_only=True)
class NotifyTable:
    """A program that is told: the record of a keep, or the end, as JSON on its stdin."""

    command: Patterns | None = None
    on: tuple[Literal["kept", "stopped", "needs_human", "budget"], ...] = ("kept", "stopped", "needs_human", "budget")


@dataclass(frozen=True, kw_only=True)
class LogTable:
    """Where records and artifacts lie, relative to the manifest's folder, and how much stays.

    ``keep_runs`` artifact folders, the newest; outputs of the best only, of none, or of every kept candidate.
    """

    home: str = ".goalseek"
    keep_runs: Count = 500
    keep_outputs: Literal["best", "none", "kept"] = "best"


@dataclass(frozen=True, kw_only=True)
class Manifest:
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
