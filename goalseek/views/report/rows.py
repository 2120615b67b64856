"""The lines of ``results.jsonl`` with the fields that a report wants: a value missing or of the wrong type is ignored.

A report must also work on records of a newer version, so unknown kinds and keys are no errors.
"""

from __future__ import annotations

import json
import math
import re
import typing
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from goalseek.statistics.intervals import SettledDifference
from goalseek.values import Outcome, Usage, cost_of_sum
from goalseek.views.terminal_text import one_line


class Row(Struct, tag_field="kind", tag="", gc=False):
    """What every record has; of a kind that this version does not know, there is nothing more."""

    project: str = ""
    timestamp: str = ""


class RunRow(Row, tag="run", gc=False):
    """A run began."""

    began: str = ""
    versions: dict[str, Any] = {}


class MeasuredRow(Row, tag="measurement", gc=False):
    """A run of the verifier outside an iteration."""

    tree: str = ""
    ruler: str = ""
    asked_by: str = ""
    value: float | None = None
    seconds: float = 0.0


class _Metric(Struct, gc=False):
    name: str = ""
    direction: str = ""
    value: float | None = None
    incumbent: float | None = None
    odds: float | None = None
    unit: str = ""


class _Run(Struct, gc=False):
    of: str = ""
    value: float | None = None


class _Command(Struct, gc=False):
    name: str = ""
    seconds: float = 0.0
    killed: float = 0.0


class _Attempt(Struct, gc=False):
    reason: str = ""


class UsageRow(Struct, gc=False):
    """The usage of the providers' calls, of one iteration or summed."""

    input_tokens: float = 0.0
    cached_tokens: float = 0.0
    output_tokens: float = 0.0
    cost_usd: float | None = None
    estimated: bool = False
    about_usd: float | None = None
    cost_is_partial: bool = False

    @property
    def tokens(self) -> float:
        """All tokens."""
        return self.input_tokens + self.cached_tokens + self.output_tokens

    @property
    def has_cost(self) -> bool:
        """Whether a cost was reported."""
        return self.cost_usd is not None or self.about_usd is not None

    @property
    def is_known(self) -> bool:
        """Whether anything was reported."""
        return bool(self.tokens) or self.has_cost

    def add(self, other: UsageRow) -> None:
        """Adds another; where the cost of one is unknown, the sum's is partial."""
        self.cost_is_partial, is_unknown = cost_of_sum(self, other)
        self.input_tokens += other.input_tokens
        self.cached_tokens += other.cached_tokens
        self.output_tokens += other.output_tokens
        if other.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0) + other.cost_usd
        self.estimated |= other.estimated
        if other.about_usd is not None:
            self.about_usd = (self.about_usd or 0) + other.about_usd
        if is_unknown:
            self.cost_usd = self.about_usd = None

    def usage(self) -> Usage:
        """The same with whole tokens."""
        tokens = int(self.input_tokens), int(self.cached_tokens), int(self.output_tokens)
        return Usage(*tokens, self.cost_usd, self.estimated, self.about_usd, self.cost_is_partial)


class IterationRow(Row, tag="iteration", gc=False):
    """An iteration."""

    epoch: float = 0.0
    iteration: float = 0.0
    outcome: str = ""
    reason: str = ""
    why: str = ""
    metric: _Metric = msgspec.field(default_factory=_Metric)
    runs: list[_Run] = []
    attempts: list[_Attempt] = []
    guards: dict[str, float] = {}
    commit_hash: str | None = None
    parent_commit_hash: str | None = None
    base_commit_hash: str | None = None
    tree_hash: str | None = None
    taken_back: float | None = None
    changed_files: list[str] = []
    changed_loc: float = 0.0
    hypothesis_summary: str = ""
    stacked: list[int] = []
    not_stacked: list[list[int]] = []
    provider: str = ""
    model: str = ""
    turn_of: str = ""
    usage: UsageRow = msgspec.field(default_factory=UsageRow)
    seconds: dict[str, float] = {}
    active_seconds: float | None = None
    verify: list[_Command] = []
    isolation: dict[str, str] = {}
    benches: int | None = None
    host: str | None = None
    digests: dict[str, str] = {}
    notes: list[str] = []

    @property
    def climb_seconds(self) -> float:
        """Its seconds of the climb's time: those of its phases, where no other iteration was under way beside it."""
        return sum(self.seconds.values()) if self.active_seconds is None else self.active_seconds


class SettleRow(Row, tag="settle", gc=False):
    """Baseline and best measured afresh."""

    pairs: list[Any] = []
    difference: float | None = None
    interval: list[Any] | None = None
    baseline: float = 0.0
    best: float = 0.0
    in_percent: bool = False
    seconds: float = 0.0
    unit: str = ""


class HoldoutRow(Row, tag="holdout", gc=False):
    """A look at the holdout; without a ``value`` it has only begun, or failed. ``gap`` is in the metric's units."""

    look: float = 0.0
    of: str = ""
    iteration: float | None = None
    value: float | None = None
    gap: float | None = None
    reason: str = ""
    why: str = ""
    seconds: float = 0.0


_DECODER: msgspec.json.Decoder[Row] = msgspec.json.Decoder(RunRow | MeasuredRow | IterationRow | SettleRow | HoldoutRow)
_KINDS = {str(kind.__struct_config__.tag): kind for kind in Row.__subclasses__()}


def parse_row(line: bytes) -> Row | None:
    """The row on a line; None where it is no record. What msgspec refuses in whole or in part, json may take."""
    try:
        return _DECODER.decode(line)
    except (ValueError, RecursionError):
        pass
    try:
        return row_of(json.loads(line))
    except (ValueError, RecursionError):
        return None


def row_of(plain: Any) -> Row | None:
    """The row of a line's JSON, with the values that fit; None where it is no record."""
    if not isinstance(plain, dict) or not isinstance(plain.get("kind"), str):
        return None
    return typing.cast(Row, _fit(_KINDS.get(plain["kind"], Row), plain))


def _fit(kind: Any, plain: Any) -> Any:
    """The value of a type, without what does not fit of its items. Raises ValueError where nothing fits."""
    origin = typing.get_origin(kind)
    if isinstance(kind, type) and issubclass(kind, Struct):
        types = _field_types(kind)
        values = msgspec.convert(plain, dict[str, Any])
        return kind(**dict(_fitting((name, types[name], values[name]) for name in types.keys() & values.keys())))
    if origin is list:
        (item_type,) = typing.get_args(kind)
        items = enumerate(msgspec.convert(plain, list[Any]))
        return [item for _, item in _fitting((index, item_type, item) for index, item in items)]
    if origin is dict:
        _, item_type = typing.get_args(kind)
        values = msgspec.convert(plain, dict[str, Any])
        return dict(_fitting((key, item_type, item) for key, item in values.items()))
    value = msgspec.convert(plain, kind)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("not a finite number")
    return value


def _fitting(items: Iterable[tuple[Any, Any, Any]]) -> Iterator[tuple[Any, Any]]:
    for key, kind, plain in items:
        try:
            yield key, _fit(kind, plain)
        except ValueError:
            continue


@cache
def _field_types(kind: type[Struct]) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


_TEXT_MOST = 400
_FILES_MOST = 8
_GUARDS_MOST = 100
_STACKED_MOST = 20
_OUTCOMES = frozenset(Outcome)
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class Label(NamedTuple):
    """The outcome and the reason of a try, in the contract's words."""

    outcome: str
    reason: str


class Try(Struct, frozen=True, gc=False):
    """One iteration. All texts are printable and of bounded length; ``seconds`` are active ones.

    ``guards`` are filled for the baseline and kept tries only. ``stacked`` are the tries whose changes it put together.
    """

    iteration: int
    label: Label
    value: float | None
    incumbent: float | None
    title: str
    why: str
    commit: str
    parent: str
    files: tuple[str, ...]
    changed_loc: int
    seconds: float
    when: str
    guards: dict[str, float]
    stacked: tuple[int, ...] = ()


def try_of(row: IterationRow, label: Label) -> Try:
    """The try in the row of an iteration."""
    files = [one_line(name, 200) for name in row.changed_files[:_FILES_MOST]]
    if len(row.changed_files) > _FILES_MOST:
        files.append(f"and {len(row.changed_files) - _FILES_MOST} more")
    has_guards = label.outcome in (Outcome.BASELINE, Outcome.KEPT)
    return Try(
        iteration=int(row.iteration),
        label=label,
        value=row.metric.value,
        incumbent=row.metric.incumbent,
        title=one_line(row.hypothesis_summary, _TEXT_MOST),
        why=one_line(row.why, _TEXT_MOST),
        commit=_hash(row.commit_hash),
        parent=_hash(row.parent_commit_hash),
        files=tuple(files),
        changed_loc=int(row.changed_loc),
        seconds=sum(row.seconds.values()),
        when=one_line(row.timestamp, 40),
        guards={one_line(name, 80): row.guards[name] for name in list(row.guards)[:_GUARDS_MOST]} if has_guards else {},
        stacked=tuple(row.stacked[:_STACKED_MOST]),
    )


def label_of(row: IterationRow) -> Label:
    """The label of an iteration's row; an unknown outcome counts as skipped."""
    return Label(row.outcome if row.outcome in _OUTCOMES else Outcome.SKIPPED.value, one_line(row.reason, 40))


def _hash(text: str | None) -> str:
    """The text where it is a hash of git, else "": it is passed to git as an argument."""
    return text if text and _HASH.fullmatch(text) else ""


def settled_of(row: SettleRow) -> SettledDifference | None:
    """The result in a ``settle`` row; None where it has no difference."""
    if row.difference is None:
        return None
    try:
        low, high = (_fit(float, end) for end in row.interval or ())
        interval = low, high
    except ValueError:
        interval = None
    values = row.baseline, row.best, row.difference
    return SettledDifference(len(row.pairs), *values, interval, row.in_percent, one_line(row.unit, 20))


def look_of(row: HoldoutRow) -> HoldoutRow:
    """A ``holdout`` row with texts of bounded length: ``of`` what was looked at, ``why`` only where it failed."""
    of = row.of if row.of in (Outcome.BASELINE, "best") else ""
    return msgspec.structs.replace(row, of=of, why=one_line(row.why, 300) if row.reason == "failed" else "")
