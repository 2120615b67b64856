"""The brief: the JSON about the climb, with rule and measurement in words, as the agent may know them.

It has at most 32 KiB; its history is newest first and always has the best. ``manifest/brief.schema.json`` declares it.
"""

import functools
import posixpath
import shlex
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from goalseek.git.paths import quote_path
from goalseek.humanize import format_duration, format_number, parse_share
from goalseek.ledger.standing import Standing
from goalseek.manifest.command_words import words_in
from goalseek.manifest.tables import Limits, Manifest, Metric, VerifyCommand
from goalseek.measurement.verifier import timeout_of
from goalseek.phase_values import Ahead, Context, PastIteration
from goalseek.project.limits import budgets_of
from goalseek.proposal.past_tries import Archive, count_json_bytes, open_ideas, rank_rejected, read_crashes
from goalseek.statistics.guards import describe_bounds, format_range
from goalseek.statistics.noise import NoiseState, is_noisy, scale_of, spread
from goalseek.statistics.noise_report import POWER
from goalseek.values import Outcome, StopReason, to_indented
from goalseek.workspace.scope import Scope

MAX_BYTES = 32 * 1024
_DIRECTIONS_BYTES = 6 * 1024
_PATTERNS_BYTES = 2 * 1024
_FILES_LIMIT = 6
_PATH_LENGTH = 120
_TITLE_BYTES = 200
_WHY_BYTES = 400
_IDEA_BYTES = 500
_IDEAS_BYTES = 3 * 1024
_KEPT_BYTES = 2 * 1024
_MEASUREMENT_BYTES = 4 * 1024
_MINUTES_BYTES = 16
_ROW = "iteration outcome reason value changed_files changed_lines title idea tried gain needed why".split()
_OUTPUT_BYTES = 1536
RUN_IT_TOO = " You can run it too."
_RUN_LENGTH = 500
_UNSEEN = {
    "candidate": "- A command that you cannot see runs the changed files.",
    "both": "- A verifier that you cannot see runs the changed files beside files that you cannot see either.",
    "hidden": "- A verifier that you cannot see scores the result.",
}
_READ_FROM = {
    "json": "{} is read from $GOALSEEK_RUN_DIR/{}",
    "stdout": "{} is read from what it prints",
    "stderr": "{} is read from what it prints",
    "wall": "{} is its running time",
    "cpu": "{} is the processor time that it and its children take",
}


def describe_climb(archive: Archive, manifest: Manifest, ahead: tuple[Ahead, ...], **more: Any) -> Context:
    """A context: what the records and the manifest tell, and ``more``, which the caller knows.

    The archive's standing is that of ``Standing.for_run``.
    """
    standing, limit = archive.standing, manifest.limits.stagnation
    assert standing.incumbent and standing.baseline and standing.best
    ending, crashed_in, last_crash = read_crashes(archive, standing)
    return Context(
        attempt=standing.tried + sum(one.is_asked for one in ahead),
        incumbent_commit=standing.incumbent.commit,
        incumbent_value=standing.incumbent.value,
        baseline_value=standing.baseline.value,
        best_value=standing.best.value,
        stagnation=standing.stagnation,
        flattened=limit is not None and standing.stagnation >= limit,
        crashes=standing.crashes,
        common_ending=ending,
        crashed_in=crashed_in,
        last_crash=last_crash,
        best_iteration=standing.best.iteration,
        writable=manifest.scope.writable,
        generated=manifest.scope.generated,
        ideas=open_ideas(archive, ahead),
        ahead=ahead,
        **more,
    )


def make_brief(
    context: Context, history: Sequence[PastIteration], manifest: Manifest, standing: Standing, scope: Scope
) -> dict[str, Any]:
    """The history is as long as 32 KiB of JSON allow. ``standing`` is that of ``Standing.for_run``."""
    guards_before = standing.baseline.guards if standing.baseline else {}
    guards_now = standing.incumbent.guards if standing.incumbent else {}
    kept: list[dict[str, Any]] = []
    kept_room = _KEPT_BYTES
    for row in (_change_row(past) for past in history if past.outcome == Outcome.KEPT):
        if (kept_room := kept_room - len(to_indented(row, 3)) - 3) >= 0:
            kept.append(row)
    brief: dict[str, Any] = {
        "project": manifest.project.name,
        "metric": {"name": manifest.metric.name, "direction": manifest.metric.direction},
        "incumbent": context.incumbent_value,
        "baseline": context.baseline_value,
        "best": context.best_value,
        "decision": describe_rule(manifest.metric, standing.noise),
        "smallest_gain": describe_smallest_gain(manifest.metric, standing.noise),
        "guards": [
            {
                "name": guard.name,
                "bounds": describe_bounds(guard, guards_before.get(guard.name)),
                "incumbent": guards_now.get(guard.name),
            }
            for guard in manifest.guard
        ],
        "measurement": _last_lines_within(describe_measurement(manifest, standing, scope), _MEASUREMENT_BYTES),
        "iteration": context.iteration,
        "minutes": None,
        "writable": _last_lines_within(manifest.scope.writable, _PATTERNS_BYTES),
        "read_only": _last_lines_within(manifest.scope.read_only, _PATTERNS_BYTES),
        "directions": _last_lines_within(context.directions, _DIRECTIONS_BYTES),
        "stagnation": {"iterations": context.stagnation, "flattened": context.flattened},
        "families": [],
        "crashes": {
            "in_a_row": context.crashes,
            "common_ending": _tail(context.common_ending, _OUTPUT_BYTES),
            "iteration": context.crashed_in,
            "last": _tail(context.last_crash, _OUTPUT_BYTES),
        },
        "left": remaining_budget(manifest.limits, standing),
        "under_way": [
            {
                "iteration": one.iteration,
                "title": _cut(one.title, _TITLE_BYTES),
                "files": _first_files([quote_path(path) for path in one.files if scope.kind(path) == "writable"]),
            }
            for one in context.ahead
        ],
        "ideas": _last_lines_within(context.ideas, _IDEAS_BYTES),
        "kept": kept,
        "rejected": [
            _change_row(past) | {"reason": past.reason, "of_incumbent": of_incumbent, "diff": past.diff}
            for past, of_incumbent in rank_rejected(
                [past for past in history if past.diff or past.outcome != Outcome.REVERTED]
            )
        ],
        "history": [],
    }
    best = next((attempt for attempt in history if attempt.iteration == context.best_iteration), None)
    rows: list[dict[str, Any]] = []
    room = MAX_BYTES - _MINUTES_BYTES - len(as_json(brief)) - (_row_and_size(best)[1] if best else 0)
    for attempt in history:
        row, size = _row_and_size(attempt)
        room -= 0 if attempt is best else size
        if room < 0:
            break
        rows.append(row)
    if best and best.iteration not in [row["iteration"] for row in rows]:
        rows.append(_row_and_size(best)[0])
    return {**brief, "history": rows}


def _change_row(past: PastIteration) -> dict[str, Any]:
    return {"iteration": past.iteration, "title": _cut(past.label, _TITLE_BYTES), "gain": past.gain}


def as_json(brief: dict[str, Any]) -> str:
    return to_indented(brief) + "\n"


def remaining_budget(limits: Limits, standing: Standing) -> dict[str, Any]:
    """The remainder of each limit, the run's or that of all runs, whichever is less."""
    remaining: dict[str, Any] = {}
    keys = {StopReason.TIME: "seconds", StopReason.COST: "cost_usd"}
    for budget in budgets_of(limits, standing):
        spent = round(budget.spent) if budget.name == StopReason.TIME else budget.spent
        key, amount = keys.get(budget.name, str(budget.name)), max(round(budget.most - spent, 6), 0)
        remaining[key] = min(remaining.get(key, amount), amount)
    if limits.deadline is not None:
        remaining["deadline"] = limits.deadline.isoformat()
    return remaining


@functools.lru_cache(maxsize=512)  # the next brief has nearly the same
def _row_and_size(past: PastIteration) -> tuple[dict[str, Any], int]:
    row = {name: getattr(past, name) for name in _ROW}
    row["changed_files"] = tuple(_first_files(past.changed_files))
    for name, limit in (("title", _TITLE_BYTES), ("idea", _IDEA_BYTES), ("tried", _IDEA_BYTES), ("why", _WHY_BYTES)):
        row[name] = _cut(row[name], limit)
    text = to_indented(row)
    return row, len(text) + 2 * (text.count("\n") + 1) + 2  # in the brief each line is indented by two more


def _first_files(paths: Sequence[str]) -> list[str]:
    files = [path for path in paths if len(path) <= _PATH_LENGTH][:_FILES_LIMIT]
    more_files = len(paths) - len(files)
    return [*files, f"and {more_files} more"] if more_files else files


def _last_lines_within(lines: Sequence[str], limit: int) -> list[str]:
    """The last lines that fit into ``limit`` bytes of JSON, in order; the first of them is cut to fit."""
    last_lines: list[str] = []
    for line in reversed(lines):
        if limit < 64:
            break
        while line and count_json_bytes(line) + 2 > limit:
            line = line[: len(line) * limit // (count_json_bytes(line) + 3)]
        limit -= count_json_bytes(line) + 8
        last_lines.insert(0, line)
    return last_lines


@functools.lru_cache(maxsize=1024)
def _cut(text: str, limit: int) -> str:
    line = " ".join(text.split())
    while count_json_bytes(line) > limit:
        line = line[: len(line) * limit // (count_json_bytes(line) + 3) - 1].rstrip("…") + "…"
    return line


def _tail(text: str, limit: int) -> str:
    while count_json_bytes(text) > limit:
        text = text[-(len(text) * limit // (count_json_bytes(text) + 3)) :]
    return text


def describe_rule(metric: Metric, state: NoiseState) -> str:
    better = "higher" if metric.direction == "maximize" else "lower"
    margin = f", by at least {metric.min_delta}" if metric.min_delta else ""
    if state.cases:
        sentences = [
            f"{metric.name} is the mean of {len(state.cases.ids)} cases. A change is compared case by case, on a part "
            f"of them first, and kept if it makes {metric.name} {better}{margin}, by more than luck would.",
        ]
    elif is_noisy(metric, state):
        sentences = [f"A change is kept if repeated runs show that it makes {metric.name} {better}{margin}."]
        sd = _sd_in_units(metric, state)
        if sd > 0:
            (half, _), (nearly_all, _) = POWER[0], POWER[-1]
            sentences.append(
                f"Runs of the same code differ with a standard deviation of about {sd:.2g}: a true gain of "
                f"{half * sd:.2g} is recognized about half of the time, one of {nearly_all * sd:.2g} nearly always. "
                "A smaller one looks like noise and is reverted."
            )
        if not metric.allow_fixed_seed:
            sentences.append("Do not fix a random seed: a change whose runs then agree to the last bit is reverted.")
    else:
        sentences = [f"A change is kept if it makes {metric.name} {better}{margin}."]
        if state.agreed:
            enough = "" if metric.min_delta else ", so any gain counts"
            sentences.append(f"The same code always gives the same number{enough}.")
        sentences.append("At exactly the same number, a change is kept only if it leaves fewer lines.")
    if metric.target is not None:
        sentences.append(f"The target is {format_number(metric.target, metric.unit)}.")
    if metric.valid:
        sentences.append(f"{metric.name} is valid in this range only: {format_range(metric.valid)}.")
    return " ".join(sentences)


def describe_smallest_gain(metric: Metric, state: NoiseState) -> str:
    """For an author who looks for it before the measurement."""
    least = parse_share(metric.min_delta, abs(state.value or 0.0))
    if state.cases:
        return f"{max(least, state.cases.smallest_gain(metric.alpha)):.2g} if it alters one answer in ten"
    sd = _sd_in_units(metric, state) if is_noisy(metric, state) else 0.0
    if sd == 0:
        return f"{least:.2g}" if least else "any"
    half, nearly_all = (max(least, effect * sd) for effect, _ in (POWER[0], POWER[-1]))
    return f"{nearly_all:.2g} nearly always, {half:.2g} about half of the time"


def _sd_in_units(metric: Metric, state: NoiseState) -> float:
    """The standard deviation of one run of the same code, in the metric's units; 0 if unknown."""
    scale = scale_of(metric.direction, state.all_positive)
    sd = spread(scale, state.pairs, [run.value for run in state.incumbent])
    return sd * abs(state.value or 0.0) if scale.logarithmic else sd


def describe_measurement(manifest: Manifest, standing: Standing, scope: Scope) -> list[str]:
    """The commands as they are that see the candidate alone; of others only that they exist."""
    metric, seconds = manifest.metric, standing.baseline.seconds if standing.baseline else {}
    lines = []
    for command in manifest.commands:
        line = _UNSEEN[command.sees or "both"]
        if command.sees == "candidate" and not _names_hidden(command, manifest.scope.hidden_from, scope):
            run = command.run if isinstance(command.run, str) else shlex.join(command.run)
            facts = [f"in {command.cwd}"] if command.cwd != "." else []
            if command.name in seconds:
                facts.append(f"{format_duration(seconds[command.name])} at the baseline")
            if timeout := timeout_of(command, seconds):
                facts.append(f"stopped after {format_duration(timeout)}")
            if command.network:
                facts.append("with a network")
            if command.name == metric.command:
                facts.append(_READ_FROM[metric.source or "json"].format(metric.name, metric.path))
            shown = run if len(run) <= _RUN_LENGTH else run[: _RUN_LENGTH - 1] + "…"
            line = f"- `{shown}`{' (' + ', '.join(facts) + ')' if facts else ''}.{RUN_IT_TOO}"
        lines.append(line)
    if not any(command.network for command in manifest.commands):
        lines.append("- The measurement has no network.")
    return [line for line, _ in groupby(lines)]


@functools.lru_cache(maxsize=64)
def _names_hidden(command: VerifyCommand, outside: str | None, scope: Scope) -> bool:
    if outside and outside in command.text:
        return True
    words = words_in(f"{command.text} {command.cwd}")
    paths = (path for word in words for path in (word, posixpath.join(command.cwd, word)))
    named = [scope.prefix + posixpath.normpath(path) for path in paths]
    return any("hidden" in (scope.kind(path), scope.kind(f"{path}/x")) for path in named)
