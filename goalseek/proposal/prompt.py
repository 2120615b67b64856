"""The text of one call: a template with its values, what others wrote marked as data that nothing in it can close."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from goalseek.humanize import format_duration, format_number
from goalseek.manifest.tables import Manifest
from goalseek.phase_values import Context, Plan, VisibleFile
from goalseek.providers.prompt_templates import Templates

_FILES_SHOWN = 60
_PATH_MOST = 300


@dataclass(frozen=True)
class Problem:
    """What was wrong with the answer before: ``said`` in goalseek's own words, ``printed`` by others."""

    said: str
    printed: str = ""


@dataclass(frozen=True)
class Judged:
    """What a review is about: the measured value, the criteria, and the change as a patch."""

    value: float
    criteria: tuple[str, ...]
    patch: str


def make_prompt(
    templates: Templates,
    phase: str,
    context: Context,
    manifest: Manifest,
    brief: dict[str, Any],
    nonce: str,
    plan: Plan | None = None,
    problem: Problem | None = None,
    judged: Judged | None = None,
) -> str:
    """The prompt of a call. A problem that the phase's template does not speak of follows at the end."""
    text = templates[phase].text
    told = _problem(problem, nonce)

    def marked(lines: str, otherwise: str = "(none)") -> str:
        return as_data(lines, nonce) if lines.strip() else otherwise

    of_review = (
        {}
        if judged is None
        else {
            "value": format_number(judged.value),
            "criteria": _bullets(judged.criteria),
            "diff": marked(judged.patch),
        }
    )
    planned = f"{plan.title}\n\n{plan.text}".strip() if plan and plan.title else ""
    made = string.Template(text).substitute(
        project=manifest.project.name,
        metric=manifest.metric.name,
        better="higher" if manifest.metric.direction == "maximize" else "lower",
        incumbent=format_number(context.incumbent_value),
        baseline=format_number(context.baseline_value),
        best=format_number(context.best_value),
        program=context.program.strip() or "(none)",
        writable=_bullets(manifest.scope.writable),
        read_only=_bullets([*manifest.scope.read_only, "everything else that is there"]),
        files=marked(_files(context)),
        history=marked(_history(brief["history"]), "(nothing was tried yet)"),
        families=marked(_families(brief["families"])),
        directions=_bullets(context.directions),
        stagnation=_flattened(context),
        crashes=_crashes(context, brief["crashes"], nonce),
        left=_left(brief["left"]),
        plan=marked(planned, "(you plan while you edit)"),
        problem=told,
        nonce=nonce,
        **of_review,
    )
    if told and "problem" not in string.Template(text).get_identifiers():
        made = f"{made.rstrip()}\n\n# Your last answer\n\n{told}\n"
    return made


def as_data(text: str, nonce: str) -> str:
    """What others wrote, between two lines that carry the call's nonce; nothing in it can be such a line."""
    return f"<<<DATA {nonce}\n{text.replace(nonce, '_' * len(nonce))}\nDATA {nonce}>>>"


def _problem(problem: Problem | None, nonce: str) -> str:
    if problem is None:
        return ""
    return problem.said + (f"\n\n{as_data(problem.printed.strip(), nonce)}" if problem.printed.strip() else "")


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines) or "- (none)"


def _files(context: Context) -> str:
    def is_shown(file: VisibleFile) -> bool:
        return len(file.path) <= _PATH_MOST

    shown = [file for file in sorted(context.files, key=lambda file: not file.writable) if is_shown(file)]
    lines = [
        f"- {file.path} ({file.size} bytes{', writable' if file.writable else ''})" for file in shown[:_FILES_SHOWN]
    ]
    more = context.files_total - len(lines)
    return "\n".join([*lines, f"- and {more} more"] if more > 0 else lines)


def _history(rows: Sequence[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        value = "" if row["value"] is None else f" {format_number(row['value'])}"
        lines.append(f"- {row['iteration']}: {row['outcome']}/{row['reason']}{value}: {row['title']} -- {row['why']}")
    return "\n".join(lines)


def _families(rows: Sequence[dict[str, Any]]) -> str:
    lines = []
    for family in rows:
        best = "no value" if family["best"] is None else f"best {format_number(family['best'])}"
        told = f"{family['tries']} tried, {family['kept']} kept, {best}"
        lines.append(f"- {family['name']}: {told}; for example: {family['example']}")
    return "\n".join(lines)


def _flattened(context: Context) -> str:
    if not context.flattened:
        return ""
    return (
        f"Progress has flattened: nothing was kept in the last {context.stagnation} iterations. More of the same will "
        "not help. Propose a different kind of change, of none of these families.\n"
    )


def _crashes(context: Context, told: dict[str, Any], nonce: str) -> str:
    if context.common_ending:
        said = f"The last {context.crashes} candidates in a row crashed, and what they printed ended alike:"
        printed = context.common_ending
    elif told["last"]:
        said, printed = f"The last candidate that crashed was that of iteration {told['iteration']}:", told["last"]
    else:
        return ""
    return f"{said}\n\n{as_data(printed, nonce)}\n\nDo not let yours end so as well.\n"


def _left(left: dict[str, Any]) -> str:
    def shown(key: str, value: Any) -> str:
        if key == "seconds":
            return format_duration(value)
        return f"${format_number(value)}" if key == "cost_usd" else str(value)

    told = [f"{shown(key, value)} {_NAMES[key]}".strip() for key, value in left.items()]
    return ", ".join(told) or "no limit is set"


_NAMES = {
    "iterations": "iterations",
    "seconds": "of active time",
    "tokens": "tokens",
    "cost_usd": "",
    "deadline": "is the deadline",
}
