"""The vocabulary of the records (outcomes, reasons, phases), small values stored in them, and values to JSON and back.

The enums equal the strings of the contract, so records stay the same byte for byte.
"""

from __future__ import annotations

import functools
import json
import types
import typing
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar


class Outcome(StrEnum):
    """The outcome of an iteration, as its record has it."""

    BASELINE = "baseline"
    KEPT = "kept"
    REVERTED = "reverted"
    SKIPPED = "skipped"


class Reason(StrEnum):
    """Why an iteration has its outcome; the contract's table says which reason goes with which outcome."""

    MEASURED = "measured"
    BETTER = "better"
    SIMPLER = "simpler"
    WORSE = "worse"
    TIE = "tie"
    WITHIN_NOISE = "within_noise"
    BELOW_MIN_DELTA = "below_min_delta"
    GUARD = "guard"
    NOT_VALID = "not_valid"
    VERIFY_FAILED = "verify_failed"
    VERIFY_TIMEOUT = "verify_timeout"
    NO_METRIC = "no_metric"
    NOT_FINITE = "not_finite"
    UNMEASURABLE = "unmeasurable"
    REVIEW_REJECTED = "review_rejected"
    DECLINED = "declined"
    NO_CHANGE = "no_change"
    DUPLICATE = "duplicate"
    OUT_OF_SCOPE = "out_of_scope"
    PROVIDER_FAILED = "provider_failed"
    PROVIDER_TIMEOUT = "provider_timeout"
    NO_PLAN = "no_plan"
    INTERRUPTED = "interrupted"


class StopReason(StrEnum):
    """Why an invocation ended; ``EXIT_CODES`` gives the exit code that goes with it."""

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
    TAMPERED = "tampered"
    NEEDS_HUMAN = "needs_human"
    BUG = "bug"
    INTERRUPTED = "interrupted"


class Phase(StrEnum):
    """What a climb is doing: the phases of an iteration in their order, and then settling and the holdout."""

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
    StopReason.COUNT: 0,
    StopReason.FOR: 0,
    StopReason.UNTIL: 0,
    StopReason.ASKED: 0,
    StopReason.TARGET: 0,
    StopReason.ITERATIONS: 0,
    StopReason.TIME: 0,
    StopReason.DEADLINE: 0,
    StopReason.TOKENS: 0,
    StopReason.COST: 0,
    StopReason.FAILURES: 1,
    StopReason.BASELINE_FAILED: 1,
    StopReason.INCUMBENT_FAILED: 1,
    StopReason.VERIFIER_SAID_STOP: 1,
    StopReason.REPOSITORY: 3,
    StopReason.PROVIDER: 3,
    StopReason.SANDBOX: 3,
    StopReason.AUTH: 3,
    StopReason.DISK: 3,
    StopReason.TAMPERED: 3,
    StopReason.NEEDS_HUMAN: 5,
    StopReason.BUG: 70,
}
"""A signal's code is 128 and its number."""


@dataclass(frozen=True)
class Usage:
    """What provider calls cost: input tokens without those from a cache, cached and output tokens, dollars.

    ``about_usd`` is what calls under a subscription said that they cost: nobody pays it, and no limit counts it.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    estimated: bool = False
    about_usd: float | None = field(default=None, metadata={"left out where it is None": True})

    @property
    def tokens(self) -> int:
        """Input, cached and output tokens together."""
        return self.input_tokens + self.cached_tokens + self.output_tokens

    @property
    def has_cost(self) -> bool:
        """Whether a cost in dollars was reported."""
        return self.cost_usd is not None or self.about_usd is not None

    def plus(self, other: Usage) -> Usage:
        """The sum of both; its cost is unknown only where neither is known."""
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        about = [cost for cost in (self.about_usd, other.about_usd) if cost is not None]
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
            sum(costs) if costs else None,
            self.estimated or other.estimated,
            sum(about) if about else None,
        )


@dataclass(frozen=True)
class VerifierRun:
    """One measurement of one tree: ``of`` is "candidate" or "incumbent"; no value where it failed."""

    of: str
    value: float | None
    seed: int
    seconds: float


@dataclass(frozen=True)
class CommandRun:
    """One verify command as it ended; ``killed`` counts what had to be killed at its end."""

    name: str
    exit_code: int | None
    seconds: float
    killed: int = 0


@dataclass(frozen=True)
class Stop:
    """The end of an invocation: the contract's reason, one sentence, what to do next, a last line to print."""

    reason: str
    why: str
    next: str = ""
    line: str = ""

    @property
    def exit_code(self) -> int:
        """The contract's exit code for this reason."""
        return EXIT_CODES[self.reason]


@dataclass(frozen=True)
class Attempt:
    """Another try of the same iteration, of a repair or a review; one that never became a commit has no hash."""

    commit_hash: str | None
    reason: str
    usage: Usage = Usage()


Value = TypeVar("Value")
_JSON_SCALARS = frozenset({str, int, float, bool, type(None)})
LEFT_OUT = "left out where it is None"  # in the metadata of a field
_OPTIONAL_NAMES: dict[type, tuple[str, ...]] = {}
_NAMES: dict[type, tuple[str, ...] | None] = {}
_SCALARS: dict[Any, type | tuple[type, ...]] = {str: str, bool: bool, int: int, float: (int, float)}


def to_plain(value: Any) -> Any:
    """The JSON form of a value: dicts in the order of the fields, tuples as lists."""
    kind = type(value)
    if kind in _JSON_SCALARS:
        return value
    names = _field_names(kind)
    if names is not None:
        plain = {name: to_plain(getattr(value, name)) for name in names}
        for name in _OPTIONAL_NAMES[kind]:
            if plain[name] is None:
                del plain[name]
        return plain
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_plain(item) for item in value]
    return value.isoformat() if isinstance(value, datetime) else value


def from_plain(kind: type[Value], plain: Any) -> Value:
    """The value of type ``kind`` that ``plain`` describes. Raises ValueError where it does not fit."""
    try:
        return typing.cast(Value, _builder(typing.cast(Any, kind))(plain))
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"not a {kind.__name__}: {error}") from error


def to_line(value: Any) -> str:
    """One line of ASCII JSON without a newline; the same value always gives the same bytes."""
    return json.dumps(to_plain(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _field_names(kind: type) -> tuple[str, ...] | None:
    if kind not in _NAMES:
        all_fields = fields(kind) if is_dataclass(kind) else ()
        _OPTIONAL_NAMES[kind] = tuple(field.name for field in all_fields if LEFT_OUT in field.metadata)
        _NAMES[kind] = tuple(field.name for field in all_fields) if is_dataclass(kind) else None
    return _NAMES[kind]


@functools.cache
def _builder(kind: Any) -> Callable[[Any], Any]:
    """A function from plain values to those of a type, cached by type: records are read by the million."""
    if isinstance(kind, type) and is_dataclass(kind):
        return _dataclass_builder(kind)
    if kind is datetime:
        return datetime.fromisoformat
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return _tuple_builder(arguments)
    if origin is dict:
        build_item = _builder(arguments[1])
        return lambda plain: {key: build_item(value) for key, value in plain.items()}
    if origin in (types.UnionType, typing.Union):
        return _union_builder([choice for choice in arguments if choice is not type(None)])
    if kind in _SCALARS:
        return functools.partial(_scalar, _SCALARS[kind])
    return lambda plain: plain


def _dataclass_builder(kind: type) -> Callable[[Any], Any]:
    @functools.cache
    def field_builders() -> list[tuple[str, Callable[[Any], Any], bool]]:
        hints = typing.get_type_hints(kind)  # at the first value: a type may have one of its own kind in it
        return [
            (field.name, _builder(hints[field.name]), field.default is MISSING and field.default_factory is MISSING)
            for field in fields(kind)
        ]

    def build(plain: Any) -> Any:
        _check_type(dict, plain)
        values = {}
        for name, build_field, is_required in field_builders():
            if name in plain:
                values[name] = build_field(plain[name])
            elif is_required:
                raise KeyError(name)
        return kind(**values)

    return build


def _union_builder(choices: list[Any]) -> Callable[[Any], Any]:
    """Of a union only the one dataclass is built, from a dict; any other value stays as it is."""
    dataclass_choices: list[Any] = [choice for choice in choices if is_dataclass(choice)]
    if len(choices) == 1:
        build = _builder(choices[0])
    elif len(dataclass_choices) == 1:
        build_dataclass = _builder(dataclass_choices[0])

        def build(plain: Any) -> Any:
            return build_dataclass(plain) if isinstance(plain, dict) else plain

    else:

        def build(plain: Any) -> Any:
            return plain

    return lambda plain: None if plain is None else build(plain)


def _tuple_builder(arguments: tuple[Any, ...]) -> Callable[[Any], Any]:
    if arguments[-1] is Ellipsis:
        build_item = _builder(arguments[0])

        def build(plain: Any) -> Any:
            _check_type(list, plain)
            return tuple([build_item(value) for value in plain])

        return build
    builders = [_builder(argument) for argument in arguments]

    def build_each(plain: Any) -> Any:
        _check_type(list, plain)
        return tuple(builders[index](value) for index, value in enumerate(plain))

    return build_each


def _scalar(kind: type | tuple[type, ...], plain: Any) -> Any:
    if not isinstance(plain, kind):
        _check_type(kind, plain)
    return plain


def _check_type(kind: type | tuple[type, ...], plain: Any) -> None:
    if not isinstance(plain, kind):
        raise TypeError(f"{plain!r:.80} is no {kind}")
