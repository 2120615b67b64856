"""The vocabulary of the records, small values stored in them, findings of checks, and values to JSON and back.

The enums equal the strings of the contract, so records stay the same byte for byte.
"""

import functools
import hashlib
import json
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Struct, structs

from goalseek.case_scores import CaseScores


class Outcome(StrEnum):
    BASELINE = "baseline"
    KEPT = "kept"
    REVERTED = "reverted"
    SKIPPED = "skipped"


class Reason(StrEnum):
    """The contract's table says which reason goes with which outcome."""

    MEASURED = "measured"
    BETTER = "better"
    SIMPLER = "simpler"
    TAKEN_BACK = "taken_back"
    WORSE = "worse"
    TIE = "tie"
    WITHIN_NOISE = "within_noise"
    BELOW_MIN_DELTA = "below_min_delta"
    SEED_FIXED = "seed_fixed"
    GUARD = "guard"
    NOT_VALID = "not_valid"
    VERIFY_FAILED = "verify_failed"
    VERIFY_TIMEOUT = "verify_timeout"
    NO_METRIC = "no_metric"
    NOT_FINITE = "not_finite"
    UNMEASURABLE = "unmeasurable"
    REVIEW_REJECTED = "review_rejected"
    DECLINED = "declined"
    OUTRUN = "outrun"
    NO_CHANGE = "no_change"
    CONFLICT = "conflict"
    DUPLICATE = "duplicate"
    OUT_OF_SCOPE = "out_of_scope"
    PROVIDER_FAILED = "provider_failed"
    PROVIDER_TIMEOUT = "provider_timeout"
    NO_PLAN = "no_plan"
    INTERRUPTED = "interrupted"
    MOVED = "moved"  # of an attempt alone


IN_TIP = (Outcome.BASELINE, Outcome.KEPT)  # outcomes with which the candidate stays in the tip
STACK = "stack"  # the provider in records of rejected changes that git put together
DRIVER = "driver"  # the provider in records of tries: edits that somebody made in a checkout
FUNCTION = "function"  # the provider in records of candidates that a Python function proposed
OPEN = "open"  # of who worked in a checkout or in Python, where hidden files can be read
UNASKED = (STACK, DRIVER)  # for these no provider was asked


class StopReason(StrEnum):
    COUNT = "count"
    FOR = "for"
    UNTIL = "until"
    ASKED = "asked"
    TARGET = "target"
    ITERATIONS = "iterations"
    TIME = "time"
    DEADLINE = "deadline"
    TOKENS = "tokens"
    COST = "cost"
    FAILURES = "failures"
    BASELINE_FAILED = "baseline_failed"
    INCUMBENT_FAILED = "incumbent_failed"
    VERIFIER_SAID_STOP = "verifier_said_stop"
    REPOSITORY = "repository"
    PROVIDER = "provider"
    SANDBOX = "sandbox"
    AUTH = "auth"
    DISK = "disk"
    CLUSTER = "cluster"
    TAMPERED = "tampered"
    NEEDS_HUMAN = "needs_human"
    BUG = "bug"
    INTERRUPTED = "interrupted"


class Phase(StrEnum):
    """The phases of an iteration in their order, then settling and the holdout."""

    READ_CONTEXT = "READ_CONTEXT"
    PLAN = "PLAN"
    APPLY_CHANGE = "APPLY_CHANGE"
    COMMIT = "COMMIT"
    VERIFY = "VERIFY"
    DECIDE = "DECIDE"
    REVIEW = "REVIEW"
    APPROVE = "APPROVE"
    LOG = "LOG"
    SETTLE = "SETTLE"
    HOLDOUT = "HOLDOUT"


EXIT_CODES: dict[str, int] = {
    **{reason: 0 for reason in StopReason if reason != StopReason.INTERRUPTED},
    **dict.fromkeys("failures baseline_failed incumbent_failed verifier_said_stop".split(), 1),
    **dict.fromkeys("repository provider sandbox auth disk cluster tampered".split(), 3),
    StopReason.NEEDS_HUMAN: 5,
    StopReason.BUG: 70,
}
"""A signal's code is 128 and its number."""


class _AsNumber:
    """JSON Schema has one type for both."""

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return {"type": "number"}


Number = Annotated[int | float, _AsNumber()]  # read as it is written: 3 is not 3.0
_OPTIONAL: dict[str, tuple[object, ...]] = {  # fields that are left out if they have one of these values
    **dict.fromkeys("about_usd base_commit_hash base_seq turn_of taken_back active_seconds".split(), (None,)),
    **dict.fromkeys("benches host machine usage_before_run needed cases left".split(), (None,)),
    **dict.fromkeys(("unit", "balance", "tried", "driver"), ("",)),
    **dict.fromkeys(("case_ids", "stacked", "not_stacked", "under_way", "workers", "questions"), ((), [])),
    "cost_is_partial": (False,),
}


class Usage(Struct, frozen=True):
    """What provider calls cost: input tokens without those from a cache, cached and output tokens, dollars.

    ``about_usd`` is what calls under a subscription said that they cost: nobody pays it, and no limit counts it.
    ``cost_is_partial``: some of the tokens have a cost that nobody reported, so the dollars are the least of it.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: Number | None = None
    estimated: bool = False
    about_usd: Number | None = None
    cost_is_partial: bool = False

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.cached_tokens + self.output_tokens

    @property
    def has_cost(self) -> bool:
        return self.cost_usd is not None or self.about_usd is not None

    @classmethod
    def total(cls, usages: Iterable["Usage"]) -> "Usage":
        """Its cost is that of those whose cost is known."""
        return functools.reduce(cls.plus, (usage for usage in usages if usage != cls()), cls())

    def plus(self, other: "Usage") -> "Usage":
        """If the cost of one is unknown, the sum has that of the other, and is partial."""
        lacks_some = self._lacks_cost or other._lacks_cost
        has_dollars = bool(self.cost_usd or self.about_usd or other.cost_usd or other.about_usd)
        is_unknown = lacks_some and not has_dollars
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
            None if is_unknown else _sum(self.cost_usd, other.cost_usd),
            self.estimated or other.estimated,
            None if is_unknown else _sum(self.about_usd, other.about_usd),
            lacks_some and has_dollars,
        )

    @property
    def _lacks_cost(self) -> bool:
        return self.cost_is_partial or bool(self.tokens and not self.has_cost)


def _sum(cost: Number | None, other: Number | None) -> Number | None:
    return other if cost is None else cost if other is None else cost + other


Side = Literal["candidate", "incumbent"]


class VerifierRun(Struct, frozen=True):
    """One measurement of one tree: ``of`` is "candidate" or "incumbent"; no value where it failed.

    ``cases``: the scores of those that were asked, of which ``value`` is the mean; None if the metric has no cases.
    ``host`` is the worker's of a cluster.
    """

    of: str
    value: Number | None
    seed: int
    seconds: Number
    cases: CaseScores | None = None
    host: str | None = None


class CaseResult(Struct, frozen=True):
    """A candidate against its incumbent, case by case: of ``run`` cases it won, lost or tied so many.

    ``of`` is the number of all cases; ``t`` is T of the rule; ``cost`` is that of all runs of both, in full runs.
    """

    won: int
    lost: int
    tied: int
    run: int
    of: int
    t: Number
    cost: Number

    @property
    def text(self) -> str:
        return f"{self.won} won, {self.lost} lost of {self.run}"


class CommandRun(Struct, frozen=True):
    """One verify command as it ended; ``killed`` counts what had to be killed at its end."""

    name: str
    exit_code: int | None
    seconds: Number
    killed: int = 0


class Stop(Struct, frozen=True):
    """``why`` is one sentence, ``next`` the next step, ``line`` the last line to print."""

    reason: StopReason | Literal[""]
    why: str
    next: str = ""
    line: str = ""

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.reason]


class Attempt(Struct, frozen=True):
    """Another try of the same iteration, of a repair or a review; one that never became a commit has no hash.

    ``base_commit_hash`` is the incumbent that it was a change of, where the tries after it are of a later one.
    """

    commit_hash: str | None
    reason: str
    usage: Usage = Usage()
    base_commit_hash: str | None = None


Value = TypeVar("Value")


def to_plain(value: Any) -> Any:
    """Dicts in the order of the fields, tuples as lists."""
    return json.loads(_JSON.encode(value))


def to_line(value: Any) -> str:
    """ASCII JSON without a newline; the same value always gives the same bytes."""
    return _LINE.encode(value)


def short_digest(text: str) -> str:
    """It stands for the text in names of files and refs, and where only a change of it matters."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def to_indented(value: Any, indent: int = 1) -> str:
    """The text that ``json.dumps`` gives with this indent."""
    line = _JSON.encode(value)
    try:
        return msgspec.json.format(line, indent=indent)  # in a fifth of the time of json
    except msgspec.DecodeError:  # a lone surrogate is JSON to json alone
        return json.dumps(json.loads(line), indent=indent)


def _to_fields(value: Any) -> Any:
    """For a value that the JSON encoder does not know."""
    if isinstance(value, datetime):
        return value.isoformat()
    return {name: item for name, item in structs.asdict(value).items() if item not in _OPTIONAL.get(name, ())}


_JSON = json.JSONEncoder(separators=(",", ":"), default=_to_fields)
_LINE = json.JSONEncoder(separators=(",", ":"), default=_to_fields, allow_nan=False)


def from_plain(kind: type[Value], plain: Any) -> Value:
    """Raises ValueError if ``plain`` does not fit."""
    try:
        return msgspec.convert(plain, kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise ValueError(f"not a {kind.__name__}: {error}") from error


def from_line(kind: type[Value], line: str | bytes) -> Value:
    """Raises ValueError if ``line`` is no JSON or does not fit."""
    try:
        value: Value = _decoder(kind).decode(line)
        return value
    except ValueError:  # a lone surrogate is JSON to json alone; and its errors are better to read
        return from_plain(kind, json.loads(line))


_decoder: Any = functools.cache(msgspec.json.Decoder)


Level = Literal["good", "note", "wrong"]


class Finding(Struct, frozen=True):
    """``wrong`` must be corrected, a ``note`` is worth knowing. ``place`` is its name in ``doctor``."""

    level: Level
    text: str
    remedy: str = ""
    place: str = ""

    @property
    def ok(self) -> bool:
        return self.level != "wrong"

    def __str__(self) -> str:
        return f"{self.text}; {self.remedy}" if self.remedy else self.text
