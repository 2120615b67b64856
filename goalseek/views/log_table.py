"""Iterations as ``log`` prints them, a line each in columns that fit the terminal, and one in full as ``show`` does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from goalseek.humanize import (
    better_or_worse,
    format_age,
    format_cost,
    format_distinct,
    format_duration,
    format_number,
    format_odds,
)
from goalseek.records import IterationRecord, IterationSummary
from goalseek.views.terminal_text import OUTCOME_COLORS, Paint, one_line, why_and_title, wrap

_WIDE = 110
_WITH_OUTCOME = 78
_LEAST_TAIL = 12


def log_lines(records: Iterable[IterationSummary], paint: Paint, width: int | None, has_header: bool) -> Iterator[str]:
    """``  12   2 h ago  kept      better            0.981  0.981 beats 0.975 by 0.006; title``, for each record.

    ``width`` is the terminal's in cells; None for a file or a pipe, where lines are not cut. Below 110 cells times are
    short; below 78 the outcome is left out, as the reason implies it.
    """
    now = datetime.now(UTC)
    is_wide = width is None or width >= _WIDE

    def head_of(iteration: str, when: str, outcome: str, reason: str, value: str) -> str:
        if is_wide:
            return f"{iteration:>5}  {when:>10}  {outcome:<8}  {reason:<16} {value:>11}  "
        outcome_column = f"{outcome:<8} " if width and width >= _WITH_OUTCOME else ""
        return f"{iteration:>4} {when:>4} {outcome_column}{reason:<15} {value:>9}  "

    for record in records:
        if has_header:
            has_header = False
            names = head_of("", "when", "outcome", "reason", one_line(record.metric.name, 9))
            yield paint(f"{names}why; title", "bold")
        value = "-" if record.metric.value is None else format_number(record.metric.value, record.metric.unit)
        head = head_of(
            str(record.iteration),
            format_age(record.timestamp, now, is_short=not is_wide),
            record.outcome,
            record.reason,
            value,
        )
        tail = why_and_title(
            record.why, record.hypothesis_summary, None if width is None else max(width - len(head), _LEAST_TAIL)
        )
        color = OUTCOME_COLORS[record.outcome]
        yield paint(head, color) + (paint(tail, "grey") if color == "grey" else tail)


_LABEL = 11
_LEAST = 20


def record_page(
    record: IterationRecord,
    paint: Paint,
    width: int | None,
    has_artifacts: bool,
    guards: Mapping[str, str],
    parents: Sequence[IterationRecord] = (),
    taken_back_by: int | None = None,
) -> list[str]:
    """The page of ``show``. ``width`` is the terminal's in cells; None for a file or a pipe: nothing is wrapped.

    ``has_artifacts`` says whether the iteration's folder is still there. ``guards`` has the text of each guard that the
    manifest still has: its value with its bounds. ``parents`` are the records of the tries whose changes this one put
    together. ``taken_back_by`` is the iteration in which a person took the change back; None where nobody did.
    """
    lines = [paint(f"iteration {record.iteration}: {record.outcome}, {record.reason}", OUTCOME_COLORS[record.outcome])]
    rows = [*_rows(record, guards, parents)]
    if taken_back_by is not None:
        rows.append(("taken back", f"by iteration {taken_back_by}: goalseek show {taken_back_by}"))
    if not has_artifacts:
        rows.append(("artifacts", "not here: older than log.keep_runs, removed, or on another machine"))
    for label, text in rows:
        text = one_line(text)
        for index, piece in enumerate(wrap(text, max(width - _LABEL - 2, _LEAST)) if width else [text]):
            head = paint(f"{one_line(label):<{_LABEL - 1}}", "grey") if not index and label else " " * (_LABEL - 1)
            lines.append(f"  {head} {piece}")
    return lines


def _rows(
    record: IterationRecord, guards: Mapping[str, str], parents: Sequence[IterationRecord]
) -> Iterator[tuple[str, str]]:
    metric = record.metric
    yield "why", record.why
    if record.hypothesis_summary:
        yield "title", record.hypothesis_summary
    if record.tried:
        yield "tried", record.tried
    for number, parent in enumerate(parents, 1):  # drawn as the branches of a tree
        branch = "`-" if number == len(parents) else "|-"
        yield "made of", f"{branch} {parent.iteration} {parent.reason}: {parent.why}; {parent.hypothesis_summary}"
    if record.taken_back is not None:
        yield "takes back", f"iteration {record.taken_back}"
    yield "when", f"{format_age(record.timestamp, datetime.now(UTC))}, {record.timestamp}; run {record.run_id}"
    numbers, unit = [number for number in (metric.value, metric.incumbent) if number is not None], metric.unit
    texts = format_distinct(*numbers, unit=unit)
    value, *rest = texts if metric.value is not None else ("none", *texts)
    of = ", the incumbent's median in this comparison" if metric.odds or metric.needed else ""
    against = f", against {rest[0]}{of}" if rest else ""
    better = f": {format_number(abs(metric.delta), unit)} {better_or_worse(metric.delta)}" if metric.delta else ""
    needed = f"needed +{format_number(metric.needed, unit)}" if metric.needed else ""
    yield metric.name, ", ".join(filter(None, (f"{value}{against}{better}", format_odds(metric.odds), needed)))
    yield from ((name, guards.get(name, format_number(value))) for name, value in record.guards.items())
    yield from (("changed", path) for path in record.changed_files)
    yield from (("left out", path) for path in record.dropped_files)
    hashes = (("commit", record.commit_hash), ("revert", record.rollback_commit_hash))
    yield from ((name, commit) for name, commit in hashes if commit)
    for attempt in record.attempts:
        base = f" from {attempt.base_commit_hash}" if attempt.base_commit_hash else ""
        yield "attempt", f"{attempt.commit_hash or 'no commit'}: {attempt.reason}{base}"
    if record.runs and record.base_commit_hash and any(attempt.base_commit_hash for attempt in record.attempts):
        yield "moved to", f"{record.base_commit_hash}, which it was measured against"
    of_candidate = [run for run in record.runs if run.of == "candidate" and run.value is not None]
    left_out = of_candidate[0] if len({run.value for run in of_candidate}) > 1 else None
    for run in record.runs:
        measured = "no number" if run.value is None else format_number(run.value, metric.unit)
        counted = "; the first run is not counted" if run is left_out else ""
        yield "run", f"{run.of} {measured}, seed {run.seed}, {format_duration(run.seconds)}{counted}"
    for command in record.verify:
        leftovers = f", {command.killed} left-over processes ended" if command.killed else ""
        code = "killed at its limit" if command.exit_code is None else f"exit {command.exit_code}"
        yield "command", f"{command.name}: {code}, {format_duration(command.seconds)}{leftovers}"
    yield "provider", f"{record.provider or 'none'} {record.model}".rstrip()
    if (usage := record.usage).tokens or usage.has_cost:
        cost = f", {format_cost(usage)}" if usage.has_cost else ""
        yield "usage", f"{usage.input_tokens} tokens in, {usage.cached_tokens} cached, {usage.output_tokens} out{cost}"
    yield "isolation", f"sandbox {record.isolation.sandbox}, verifier {record.isolation.verifier}"
    yield "seconds", ", ".join(f"{name} {format_duration(spent)}" for name, spent in record.seconds.items())
    yield from (("direction", text) for text in record.directions)
    yield from (("note", text) for text in record.notes)
