"""The prompt of one call: a template with its values.

What others wrote stands between two lines with the call's nonce, marked as data; nothing inside can end such a block.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from goalseek.humanize import format_duration, format_number
from goalseek.manifest.tables import Manifest
from goalseek.phase_values import Context, Plan
from goalseek.providers.prompt_templates import Templates

_FILES_LIMIT = 60
_PATH_LENGTH = 300


class Problem(Struct, frozen=True):
    """What was wrong with the answer before: ``said`` in goalseek's own words, ``printed`` by others, so it is data."""

    said: str
    printed: str = ""


class ReviewSubject(Struct, frozen=True):
    """What a review is about: the measured value, the criteria, the change as a patch, and the brief's words for it."""

    value: float
    criteria: tuple[str, ...]
    patch: str
    brief: Mapping[str, object] = field(default_factory=dict)


class Request(Struct, frozen=True):
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
    template, plan, review = string.Template(templates[request.phase].text), request.plan, request.review
    problem_text = _problem_text(request.problem, nonce)
    plan_text = f"{plan.title}\n\n{plan.text}".strip() if plan and plan.title else ""

    def data_block(lines: str, empty: str = "(none)") -> str:
        return mark_as_data(lines, nonce) if lines.strip() else empty

    values = {
        "project": manifest.project.name,
        "metric": manifest.metric.name,
        "better": "higher" if manifest.metric.direction == "maximize" else "lower",
        "incumbent": format_number(context.incumbent_value),
        "baseline": format_number(context.baseline_value),
        "best": format_number(context.best_value),
        "program": context.program.strip() or "(none)",
        "writable": _bullets(manifest.scope.writable),
        "read_only": _bullets([*manifest.scope.read_only, "everything else that is there"]),
        "files": data_block(_file_lines(context)),
        "history": data_block("\n".join(map(_history_line, brief["history"])), "(nothing was tried yet)"),
        "families": "(none)",  # a template of the user may still name them
        "directions": _bullets(context.directions),
        "stagnation": _stagnation_text(context),
        "crashes": _crash_text(context, brief["crashes"], nonce),
        "left": ", ".join(_amount_left(*item) for item in brief["left"].items()) or "no limit is set",
        "plan": data_block(plan_text, "(you plan while you edit)"),
        "problem": problem_text,
        "nonce": nonce,
    }
    if review:
        values["value"] = format_number(review.value)
        values["criteria"] = _bullets(review.criteria)
        values["diff"] = data_block(review.patch)
    prompt = template.substitute(values)
    if problem_text and "problem" not in template.get_identifiers():
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
    files = [file for file in context.files if len(file.path) <= _PATH_LENGTH]
    files = sorted(files, key=lambda file: not file.writable)[:_FILES_LIMIT]
    lines = [f"- {file.path} ({file.size} bytes{', writable' if file.writable else ''})" for file in files]
    more_files = context.files_total - len(lines)
    return "\n".join([*lines, f"- and {more_files} more"] if more_files > 0 else lines)


def _history_line(row: dict[str, Any]) -> str:
    value = "" if row["value"] is None else f" {format_number(row['value'])}"
    return f"- {row['iteration']}: {row['outcome']}/{row['reason']}{value}: {row['title']} -- {row['why']}"


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


def _amount_left(limit: str, amount: Any) -> str:
    match limit:
        case "seconds":
            return f"{format_duration(amount)} of active time"
        case "cost_usd":
            return f"${format_number(amount)}"
        case "iterations" | "tokens":
            return f"{amount} {limit}"
        case _:
            return f"{amount} is the {limit}"
