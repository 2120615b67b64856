"""The prompts of one call: a template with its values.

What others wrote stands between two lines with the call's nonce, marked as data; nothing inside can end such a block.
The plan is the task, so it stands there as plain text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, field

from goalseek.humanize import format_dollars, format_duration, format_number, pluralize
from goalseek.manifest.tables import Manifest
from goalseek.phase_values import Context, Edit, Plan
from goalseek.proposal.measurement_text import RUN_IT_TOO
from goalseek.providers.answer import clean_title
from goalseek.providers.prompt_templates import Templates, fill_template
from goalseek.values import Outcome

MAX_DIFF_BYTES = 64 * 1024
_FILES_LIMIT = 60
_PATH_LENGTH = 300
_PLAN_LENGTH = 8000
_ANSWER_LENGTH = 6000
_HISTORY_BYTES = {"plan": 12 * 1024, "apply": 4 * 1024}
_RESUMED_PATTERNS_LENGTH = 500
_UNPLANNED = """\
Nobody has planned it yet: choose ONE change yourself. Start from a cause: what limits the number now, and how will your
change act on it? Then make it, and end your answer with this block:

<<<GOALSEEK PLAN {0}
one-line title: what changes, not why
Cause, change and expected effect.
files:
path/of/each/file/that/you/edited
GOALSEEK PLAN {0}>>>"""

_CUT_OFF = {
    "plan": "Your last turn was cut off. Go on with it, and finish with the block, with the code {nonce}, as asked.",
    "edits": (
        "Your last turn was cut off. Your edits are in the folder: look at `git status` and `git diff`, and go on with "
        "the change that you were making{title}."
    ),
    "none": "Your last turn was cut off. Look at `git status`, and go on with the change that you planned{title}.",
    "undone": (
        "Your last turn was cut off, and its edits were undone: look at `git status` and `git diff`. Make them again, "
        "and go on with the change that you were making{title}."
    ),
}


class Problem(Struct, frozen=True):
    """What was wrong with the answer before: ``said`` in goalseek's own words, ``printed`` by others, so it is data.

    ``answer`` is that answer itself, which an agent that goes on in its session has already.
    """

    said: str
    printed: str = ""
    answer: str = ""


class ReviewSubject(Struct, frozen=True):
    """What a review is about: the measured value, the criteria, the change as a patch, and the brief's words for it.

    ``guards`` are the candidate's, ``changed`` is what git says of each changed file in a line (``--numstat``).
    """

    value: float
    criteria: tuple[str, ...]
    patch: bytes
    brief: Mapping[str, object] = field(default_factory=dict)
    guards: Mapping[str, float] = field(default_factory=dict)
    changed: bytes = b""


class Request(Struct, frozen=True):
    """What a provider is asked for: the ``number``-th time in this phase of the iteration, which counts from 1.

    ``problem`` is what was wrong with the answer before; ``patch`` the edits so far that a repair begins with.
    """

    phase: str
    number: int = 1
    plan: Plan | None = None
    problem: Problem | None = None
    review: ReviewSubject | None = None
    patch: bytes = b""


_STRAYS = {
    "drop": "A new file elsewhere is left out, and the rest is measured.",
    "reject": "A new file elsewhere rejects it too.",
}


class Prompts(NamedTuple):
    """What an agent is asked in a new session, and where it goes on in the session of its last answer.

    ``resumed`` is "" where a session makes no difference. ``file_list`` is the part of them that lists the files.
    """

    fresh: str
    resumed: str
    file_list: str


def make_prompts(
    templates: Templates, manifest: Manifest, context: Context, brief: dict[str, Any], request: Request, nonce: str
) -> Prompts:
    """The prompts of a call. The problem follows at the end where the template has no ``$problem``."""
    template, review, problem = templates[request.phase], request.review, request.problem
    unit = manifest.metric.unit

    def data_block(lines: str) -> str:
        return mark_as_data(lines, nonce) if lines.strip() else ""

    values = {
        "project": manifest.project.name,
        "metric": manifest.metric.name,
        "better": "higher" if manifest.metric.direction == "maximize" else "lower",
        "incumbent": format_number(context.incumbent_value, unit),
        "baseline": format_number(context.baseline_value, unit),
        "best": format_number(context.best_value, unit),
        "decision": brief["decision"],
        "smallest_gain": brief["smallest_gain"],
        "guards": _bullets(_guard_line(guard, review) for guard in brief["guards"]),
        "program": context.program.strip(),
        "writable": _bullets(manifest.scope.writable),
        "strays": _STRAYS[manifest.scope.strays],
        "read_only": _bullets([*manifest.scope.read_only, "everything else that is there"]),
        # A reviewer has a shell or not; its template says so once.
        "run_it": "\n".join(line.removesuffix(RUN_IT_TOO) if review else line for line in brief["measurement"]),
        "files": data_block(_file_lines(context)),
        "history": data_block(_history(brief, context.best_iteration, request.phase, unit)),
        "families": "",  # a template of the user may still name them
        "kept": data_block(_bullets(_change_line(row, unit) for row in brief["kept"])),
        "rejected": data_block("\n\n".join(_rejected_text(row, unit) for row in brief["rejected"])),
        "variation": "A near miss may deserve a variation." if brief["rejected"] and not context.flattened else "",
        "under_way": data_block(_bullets(_under_way_line(row) for row in brief["under_way"] if row["title"])),
        "ideas": data_block(_bullets(brief["ideas"])),
        "directions": _bullets(context.directions),
        "stagnation": _stagnation_text(context),
        "crashes": _crash_text(context, brief["crashes"], nonce),
        "left": ", ".join(_amount_left(*item) for item in brief["left"].items()),
        "minutes": "" if brief["minutes"] is None else format_number(brief["minutes"]),
        "title": clean_title(_without_nonce(request.plan.title, nonce)) if request.plan else "",
        "plan": _plan_text(request, nonce),
        "problem": "",
        "diff": data_block(_patch_text(review.patch if review else request.patch)),
        "nonce": nonce,
    }
    if review:
        values["value"] = format_number(review.value, unit)
        values["criteria"] = _bullets(review.criteria)
        values["changed"] = data_block(_changed_files(review.changed))

    def fill(text: str, problem_text: str) -> str:
        prompt = fill_template(text, {**values, "problem": problem_text})
        if problem_text and "$problem" not in text and "${problem}" not in text:
            prompt = f"{prompt.rstrip()}\n\n# Your last answer\n\n{problem_text}\n"
        return prompt

    is_planned = request.plan is not None and bool(request.plan.title)
    text = template.text if is_planned or not template.unplanned else f"{template.text}\n{template.unplanned}"
    fresh = fill(text, _problem_text(problem, nonce))
    if not template.resumed or (request.phase == "plan" and not problem):
        return Prompts(fresh, "", values["files"])
    values["writable"] = _first_patterns(manifest.scope.writable)
    return Prompts(fresh, fill(template.resumed, _problem_text(problem, nonce, is_resumed=True)), values["files"])


def go_on_prompt(request: Request, nonce: str, edits: tuple[Edit, ...] | None) -> str:
    """What an agent is asked whose last turn was cut off, in the session of that; ``edits`` is None if undone."""
    kind = "plan" if request.phase == "plan" else "undone" if edits is None else "edits" if edits else "none"
    title = clean_title(_without_nonce(request.plan.title, nonce)) if request.plan else ""
    return _CUT_OFF[kind].format(nonce=nonce, title=title and f': "{title}"') + "\n"


def mark_as_data(text: str, nonce: str) -> str:
    """What others wrote, between two lines that carry the call's nonce; nothing in it can be such a line."""
    return f"<<<DATA {nonce}\n{_without_nonce(text, nonce)}\nDATA {nonce}>>>"


def _without_nonce(text: str, nonce: str) -> str:
    return text.replace(nonce, "_" * len(nonce))


def _plan_text(request: Request, nonce: str) -> str:
    """The plan, as the task in plain text, and as data for a reviewer; what to do instead where there is none."""
    plan = request.plan
    if plan is None or not plan.title:
        return _UNPLANNED.format(nonce) if request.phase == "apply" else ""
    text = f"{plan.title}\n\n{plan.text}".strip()
    if request.phase == "review":
        return mark_as_data(text, nonce)
    printable = "".join(char if char.isprintable() or char in "\n\t" else " " for char in text)
    plain = _without_nonce(printable, nonce)
    return plain if len(plain) <= _PLAN_LENGTH else plain[: _PLAN_LENGTH - 1] + "…"


def _problem_text(problem: Problem | None, nonce: str, is_resumed: bool = False) -> str:
    if problem is None:
        return ""
    text = problem.said
    if problem.printed.strip():
        text += f"\n\n{mark_as_data(problem.printed.strip(), nonce)}"
    if problem.answer.strip() and not is_resumed:
        text += f"\n\nThat answer, or its end:\n{mark_as_data(problem.answer.strip()[-_ANSWER_LENGTH:], nonce)}"
    return text


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _patch_text(patch: bytes) -> str:
    """A patch as text, cut at MAX_DIFF_BYTES bytes with a note of what is missing."""
    rest = len(patch) - MAX_DIFF_BYTES
    note = f"\n(it goes on for {rest} bytes, which are not shown here: the folder has all of it)" if rest > 0 else ""
    return patch[:MAX_DIFF_BYTES].decode("utf-8", "replace").rstrip("\n") + note


def _changed_files(counts: bytes) -> str:
    """A line for each changed file with the lines added and removed, at most _FILES_LIMIT of them."""
    rows = [line.split("\t", 2) for line in counts.decode("utf-8", "replace").splitlines()]
    lines = [f"- {path}: +{added} -{removed} lines" for added, removed, path in rows[:_FILES_LIMIT]]
    more_files = len(rows) - len(lines)
    return "\n".join([*lines, f"- and {more_files} more"] if more_files else lines)


def _first_patterns(patterns: Sequence[str]) -> str:
    """As many patterns as a short prompt has room for: the session has all of them."""
    count, room = 0, _RESUMED_PATTERNS_LENGTH
    while count < len(patterns) and (room := room - len(patterns[count]) - 3) >= 0:
        count += 1
    rest = len(patterns) - count
    return _bullets([*patterns[:count], *([f"and {rest} more, as listed above"] if rest else [])])


def _guard_line(guard: dict[str, Any], review: ReviewSubject | None) -> str:
    """A guard's bounds, and its value: of the incumbent, and in a review of the change too."""
    values = {"now": guard["incumbent"]}
    if review:
        values = {"with the change": review.guards.get(guard["name"]), "without it": guard["incumbent"]}
    texts = [f"{format_number(value)} {of}" for of, value in values.items() if value is not None]
    return f"{guard['name']}: {guard['bounds']}" + (f"; it is {', '.join(texts)}" if texts else "")


def _file_lines(context: Context) -> str:
    files = [file for file in context.files if len(file.path) <= _PATH_LENGTH]
    files = sorted(files, key=lambda file: not file.writable)[:_FILES_LIMIT]
    lines = [f"- {file.path} ({file.size} bytes{', writable' if file.writable else ''})" for file in files]
    more_files = context.files_total - len(lines)
    return "\n".join([*lines, f"- and {more_files} more"] if more_files > 0 else lines)


def _history(brief: dict[str, Any], best_iteration: int, phase: str, unit: str) -> str:
    """The tries, newest first: as many as there is room for, and always the best; then the other kept ones, briefly."""
    room = _HISTORY_BYTES.get(phase, _HISTORY_BYTES["apply"])
    lines, shown = [], set()
    for row in brief["history"]:
        if row["outcome"] == Outcome.BASELINE:
            continue
        line = _history_line(row, unit)
        room -= len(line.encode("utf-8", "replace")) + 1
        if room >= 0 or row["iteration"] == best_iteration:
            lines.append(line)
            shown.add(row["iteration"])
    return "\n".join(
        [*lines, *(f"- {_change_line(row, unit)}" for row in brief["kept"] if row["iteration"] not in shown)]
    )


def _history_line(row: dict[str, Any], unit: str) -> str:
    """One try: outcome, number, gain, title; a line each for the idea, what was seen or else the size, and why."""
    numbers = [] if row["gain"] is None else [_gain_text(row["gain"], unit)]
    if row["needed"]:  # without its number, which may be better than one that the incumbent had before
        numbers.append(f"needed {_gain_text(row['needed'], unit)}")
    elif row["value"] is not None:
        numbers.insert(0, format_number(row["value"]))
    result = f"{row['outcome']}/{row['reason']} {', '.join(numbers)}".rstrip()
    lines = [f"- {row['iteration']}: {result}: {row['title'] or '(no title)'}"]
    if row["idea"]:
        lines.append(f"  idea: {row['idea']}")
    if row["tried"]:
        lines.append(f"  tried: {row['tried']}")
    elif row["changed_files"]:
        size = f" ({pluralize(row['changed_lines'], 'line')})" if row["changed_lines"] else ""
        lines.append(f"  changed: {', '.join(row['changed_files'])}{size}")
    return "\n".join([*lines, f"  why: {row['why']}"])


def _under_way_line(row: dict[str, Any]) -> str:
    files = f" ({', '.join(row['files'])})" if row["files"] else ""
    return f"{row['iteration']}: {row['title']}{files}"


def _change_line(row: dict[str, Any], unit: str) -> str:
    """A change in one line: its number, its gain, its title."""
    gain = "" if row["gain"] is None else f" {_gain_text(row['gain'], unit)}"
    return f"{row['iteration']}:{gain} {row['title'] or '(no title)'}"


def _gain_text(gain: float, unit: str) -> str:
    return f"{'+' if gain >= 0 else ''}{format_number(gain, unit)}"


def _rejected_text(row: dict[str, Any], unit: str) -> str:
    """A rejected change: a line about it, and its diff."""
    before = "" if row["of_incumbent"] else ", a change of earlier files"
    return f"## {_change_line(row, unit)} ({row['reason']}{before})\n{row['diff']}"


def _stagnation_text(context: Context) -> str:
    if not context.flattened:
        return ""
    return (
        f"Progress has flattened: nothing was kept in the last {context.stagnation} iterations. More of the same will "
        "not help. Propose a different kind of change."
    )


def _crash_text(context: Context, crashes: dict[str, Any], nonce: str) -> str:
    if context.common_ending:
        intro = f"The last {context.crashes} candidates in a row crashed, and their output ended alike:"
        output = context.common_ending
    elif crashes["last"]:
        intro = f"The last candidate that crashed was that of iteration {crashes['iteration']}. Its output ended with:"
        output = crashes["last"]
    else:
        return ""
    return f"{intro}\n\n{mark_as_data(output, nonce)}\n\nMake sure that your change does not crash in this way."


def _amount_left(limit: str, amount: Any) -> str:
    match limit:
        case "seconds":
            return f"{format_duration(amount)} of active time"
        case "cost_usd":
            return format_dollars(amount)
        case "iterations" | "tokens":
            return f"{amount:,} {limit}"
        case _:
            return f"{amount} is the {limit}"
