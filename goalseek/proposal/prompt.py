"""The prompt of one call: a template with its values.

What others wrote stands between two lines with the call's nonce, marked as data; nothing inside can end such a block.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from goalseek.humanize import format_duration, format_number
from goalseek.manifest.tables import Manifest
from goalseek.phase_values import Context, Plan, VisibleFile
from goalseek.providers.prompt_templates import Templates

_FILES_LIMIT = 60
_PATH_LENGTH = 300


@dataclass(frozen=True)
class Problem:
    """What was wrong with the answer before: ``said`` in goalseek's own words, ``printed`` by others, so it is data."""

    said: str
    printed: str = ""


@dataclass(frozen=True)
class ReviewSubject:
    """What a review is about: the measured value, the criteria, the change as a patch, and the brief's words for it."""

    value: float
    criteria: tuple[str, ...]
    patch: str
    brief: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """What a provider is asked for: the ``number``-th time in this phase of the iteration, which counts from 1.

    ``problem`` is what was wrong with the answer before.
    """

    phase: str
    number: int = 1
    plan: Plan | None = None
    problem: Problem | None = None
    review: ReviewSubject | None = None


def make_prompt(
    templates: Templates, manifest: Manifest, context: Context, brief: dict[str, Any], request: Request, nonce: str
) -> str:
    """The prompt of a call. The problem follows at the end where the template has no ``$problem``."""
    template, plan, review_subject = templates[request.phase].text, request.plan, request.review
    problem_text = _problem_text(request.problem, nonce)

    def data_block(lines: str, empty: str = "(none)") -> str:
        return mark_as_data(lines, nonce) if lines.strip() else empty

    review_values = (
        {}
        if review_subject is None
        else {
            "value": format_number(review_subject.value),
            "criteria": _bullets(review_subject.criteria),
            "diff": data_block(review_subject.patch),
        }
    )
    plan_text = f"{plan.title}\n\n{plan.text}".strip() if plan and plan.title else ""
    prompt = string.Template(template).substitute(
        project=manifest.project.name,
        metric=manifest.metric.name,
        better="higher" if manifest.metric.direction == "maximize" else "lower",
        incumbent=format_number(context.incumbent_value),
        baseline=format_number(context.baseline_value),
        best=format_number(context.best_value),
        program=context.program.strip() or "(none)",
        writable=_bullets(manifest.scope.writable),
        read_only=_bullets([*manifest.scope.read_only, "everything else that is there"]),
        files=data_block(_file_lines(context)),
        history=data_block(_history_lines(brief["history"]), "(nothing was tried yet)"),
        families="(none)",  # a template of the user may still name them
        directions=_bullets(context.directions),
        stagnation=_stagnation_text(context),
        crashes=_crash_text(context, brief["crashes"], nonce),
        left=_remaining_text(brief["left"]),
        plan=data_block(plan_text, "(you plan while you edit)"),
        problem=problem_text,
        nonce=nonce,
        **review_values,
    )
    if problem_text and "problem" not in string.Template(template).get_identifiers():
        prompt = f"{prompt.rstrip()}\n\n# Your last answer\n\n{problem_text}\n"
    return prompt


def mark_as_data(text: str, nonce: str) -> str:
    """What others wrote, between two lines that carry the call's nonce; nothing in it can be such a line."""
    return f"<<<DATA {nonce}\n{text.replace(nonce, '_' * len(nonce))}\nDATA {nonce}>>>"


def _problem_text(problem: Problem | None, nonce: str) -> str:
    if problem is None:
        return ""
    return problem.said + (f"\n\n{mark_as_data(problem.printed.strip(), nonce)}" if problem.printed.strip() else "")


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines) or "- (none)"


def _file_lines(context: Context) -> str:
    def is_shown(file: VisibleFile) -> bool:
        return len(file.path) <= _PATH_LENGTH

    files = [file for file in sorted(context.files, key=lambda file: not file.writable) if is_shown(file)]
    lines = [
        f"- {file.path} ({file.size} bytes{', writable' if file.writable else ''})" for file in files[:_FILES_LIMIT]
    ]
    more_files = context.files_total - len(lines)
    return "\n".join([*lines, f"- and {more_files} more"] if more_files > 0 else lines)


def _history_lines(rows: Sequence[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        value = "" if row["value"] is None else f" {format_number(row['value'])}"
        lines.append(f"- {row['iteration']}: {row['outcome']}/{row['reason']}{value}: {row['title']} -- {row['why']}")
    return "\n".join(lines)


def _stagnation_text(context: Context) -> str:
    if not context.flattened:
        return ""
    return (
        f"Progress has flattened: nothing was kept in the last {context.stagnation} iterations. More of the same will "
        "not help. Propose a different kind of change.\n"
    )


def _crash_text(context: Context, crashes: dict[str, Any], nonce: str) -> str:
    if context.common_ending:
        intro = f"The last {context.crashes} candidates in a row crashed, and what they printed ended alike:"
        output = context.common_ending
    elif crashes["last"]:
        intro = f"The last candidate that crashed was that of iteration {crashes['iteration']}:"
        output = crashes["last"]
    else:
        return ""
    return f"{intro}\n\n{mark_as_data(output, nonce)}\n\nDo not let yours end so as well.\n"


def _remaining_text(remaining: dict[str, Any]) -> str:
    def format_amount(key: str, value: Any) -> str:
        if key == "seconds":
            return format_duration(value)
        return f"${format_number(value)}" if key == "cost_usd" else str(value)

    amounts = [f"{format_amount(key, value)} {_UNITS[key]}".strip() for key, value in remaining.items()]
    return ", ".join(amounts) or "no limit is set"


_UNITS = {
    "iterations": "iterations",
    "seconds": "of active time",
    "tokens": "tokens",
    "cost_usd": "",
    "deadline": "is the deadline",
}
