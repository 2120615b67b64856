"""``goalseek rejudge``: how the climb would have gone under another rule or other limits, from its records alone."""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from goalseek.cli.options import load_manifest, refuse, start_folder
from goalseek.cli.output import print_answer
from goalseek.errors import GoalseekError
from goalseek.evaluation.rejudge import Judgement, Rejudged, rejudge
from goalseek.humanize import format_number, pluralize
from goalseek.ledger.results_file import History
from goalseek.manifest.loading import ManifestFile
from goalseek.manifest.tables import Budget, Limits, Manifest
from goalseek.project.paths import fetch_hint
from goalseek.values import Outcome, to_plain
from goalseek.views.report.source import copy_source
from goalseek.views.terminal_text import OUTCOME_COLORS, Paint, painter, terminal_width, why_and_title

_RULE_KEYS = tuple(
    f"metric.{key}" for key in "min_delta noise alpha max_repeats window valid allow_fixed_seed direction".split()
)
_TARGET = "metric.target"
_LIMIT_KEYS = tuple(
    f"limits.{key}"
    for key in "iterations time tokens cost_usd deadline stagnation_stop failures "
    "total.iterations total.time total.tokens total.cost_usd".split()
)
_LEAST_WHY = 20
_NEEDS_RUNS = "needs more runs"


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``rejudge`` takes."""
    results = "a results.jsonl from elsewhere, or its folder (default: this project's)"
    parser.add_argument("results", nargs="?", metavar="RESULTS", help=results)
    text = (
        "a key of [metric] that decides, or of [limits], and its value as in the manifest; may be given several times"
    )
    parser.add_argument("--set", dest="settings", action="append", required=True, metavar="KEY=VALUE", help=text)
    parser.epilog = (
        "Nothing is measured or changed. Up to the first decision that differs it is how the climb would have gone; "
        "after that each decision is judged by itself."
    )


def run(options: argparse.Namespace) -> int:
    """Prints what would differ."""
    loaded = load_manifest(options)
    settings = _parse_settings(options.settings)
    manifest = _with_settings(loaded, {key: value for key, (value, _) in settings.items()})
    results = copy_source(start_folder(options) / options.results).results if options.results else loaded.results
    unlimited = replace(loaded.manifest.metric, target=None)
    target = manifest.metric if _TARGET in settings else unlimited
    limits = _only_limits(manifest.limits, [key for key in settings if key in _LIMIT_KEYS])
    metric = manifest.metric if any(key in _RULE_KEYS for key in settings) else None
    rejudged = rejudge(History(results).records(), metric, limits, target)
    if rejudged is None:
        hint = fetch_hint(loaded) or "goalseek iterate makes the first record"
        raise GoalseekError(f"{results} has no baseline yet", hint)
    _refuse_other_metric(rejudged, loaded.manifest)
    as_recorded = rejudge(History(results).records(), unlimited, _NO_LIMITS, unlimited) if metric else None
    texts = {key: text for key, (_, text) in settings.items()}
    names = " and ".join(f"{key.removeprefix('metric.')} = {text}" for key, text in texts.items())
    sentences = [_decision_sentence(rejudged)] if metric else []
    if any(key == _TARGET or key in _LIMIT_KEYS for key in settings):
        sentences.append(_end_sentence(rejudged, manifest.metric.unit))
    answer = f"under {names} {'; '.join(sentences)}"
    notes = list(_notes(rejudged, as_recorded))
    fields = {"set": texts, "answer": answer, "notes": notes, "same": rejudged.same, **to_plain(rejudged)}
    lines = _table(rejudged, painter(sys.stdout, options.color), terminal_width(sys.stdout))
    print_answer(options, fields, answer, *lines, *(f"note: {note}" for note in notes))
    return 0


def _refuse_other_metric(rejudged: Rejudged, manifest: Manifest) -> None:
    """Raises GoalseekError where the records are of another metric than the manifest's."""
    now = (manifest.metric.name, manifest.metric.direction)
    texts = [f"{name}, to {direction}" for name, direction in (rejudged.metric, now)]
    message = f"the records are of {texts[0]}; the manifest has {texts[1]}"
    refuse((rejudged.metric != now, message, "name the manifest of these records with -m"))


_NO_LIMITS = Limits(stagnation=None, failures=None)


def _parse_settings(texts: Sequence[str]) -> dict[str, tuple[Any, str]]:
    """The value of each key of the command line, and its text. Raises GoalseekError with what would be right."""
    settings: dict[str, tuple[Any, str]] = {}
    known = (*_RULE_KEYS, _TARGET, *_LIMIT_KEYS)
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        refuse(
            (not equals, f"--set {text}: there is no =", "--set metric.min_delta=0.01"),
            (key not in known, f"--set {text}: records do not tell what {key} changes", f"known: {', '.join(known)}"),
            (key in settings, f"--set {text}: {key} has a value already", "give each key once"),
        )
        try:
            parsed = tomllib.loads(f"value = {value}")
        except ValueError as error:
            hint = "values are written as in the manifest, a text in quotes: --set 'metric.noise=\"none\"'"
            raise GoalseekError(f"--set {text}: {error}", hint) from None
        refuse((len(parsed) > 1, f"--set {text!r}: that is more than one value", "give --set several times"))
        settings[key] = parsed["value"], value
    return settings


def _with_settings(loaded: ManifestFile, settings: dict[str, Any]) -> Manifest:
    """The manifest with other values, checked as a whole. Raises GoalseekError where one is wrong."""
    from goalseek.manifest.validation import validate

    plain = tomllib.loads(loaded.text)
    for key, value in settings.items():
        *tables, name = key.split(".")
        table = plain
        for part in tables:
            table = table.setdefault(part, {})
        table[name] = value
    try:
        return validate(loaded.path, loaded.text, plain)
    except GoalseekError as error:
        line = re.compile(rf"^{re.escape(str(loaded.path))}:\d+: ", re.MULTILINE)
        raise GoalseekError(line.sub("--set ", error.message), error.hint) from None


def _only_limits(limits: Limits, keys: Sequence[str]) -> Limits:
    """Limits that have only these keys: any other may have been raised since."""
    names = [key.removeprefix("limits.") for key in keys]
    own = {name: getattr(limits, name) for name in names if "." not in name}
    of_all = [name.removeprefix("total.") for name in names if "." in name]
    return replace(_NO_LIMITS, **own, total=Budget(**{name: getattr(limits.total, name) for name in of_all}))


def _decision_sentence(rejudged: Rejudged) -> str:
    count, same = len(rejudged.decisions), rejudged.same
    if not count:
        return "nothing changes: nothing was decided by the number yet"
    if same == count:
        return (
            f"{'all ' if count > 1 else ''}{pluralize(count, 'decision')} {'stay' if count > 1 else 'stays'} the same"
        )
    first, *rest = rejudged.decisions[same:]
    begin = f"the first {f'{same} decisions are' if same > 1 else 'decision is'} the same; " if same else ""
    becomes = _NEEDS_RUNS if first.new_outcome is None else f"would have been {first.new_outcome}"
    sentence = f"{begin}iteration {first.iteration} {becomes}{'' if same else ', the first decision of all'}"
    if rest:
        needy = sum(row.new_outcome is None for row in rest)
        more = f", and {needy} {'needs' if needy == 1 else 'need'} more runs" if needy else ""
        differ = sum(not row.is_same for row in rest) - needy
        sentence += f"; after that {differ} of {len(rest)} would differ by themselves{more}"
    return sentence


def _end_sentence(rejudged: Rejudged, unit: str) -> str:
    end, last = rejudged.end, rejudged.last_iteration
    if end is None and rejudged.same < len(rejudged.decisions):
        return f"no limit would have ended the run before iteration {rejudged.decisions[rejudged.same].iteration}"
    if end is None:
        return f"the run would not have ended before iteration {last}, where the records end"
    sentence = f"the run would have ended after iteration {end.iteration}: {end.why}"
    if end.iteration != last and end.best is not None and rejudged.best is not None:
        best, recorded = format_number(end.best, unit), format_number(rejudged.best, unit)
        sentence += f"; its best is {best} there, and {recorded} at iteration {last}"
    return sentence


def _notes(rejudged: Rejudged, as_recorded: Rejudged | None) -> Iterator[str]:
    if rejudged.others:
        yield (
            f"{pluralize(rejudged.others, 'iteration')} that a guard, a failure, a review or a person decided "
            f"{'stays' if rejudged.others == 1 else 'stay'} as recorded"
        )
    if as_recorded and as_recorded.same < len(as_recorded.decisions):
        row = as_recorded.decisions[as_recorded.same]
        yield f"the manifest's own rule decides iteration {row.iteration} otherwise than recorded: it was another then"


def _table(rejudged: Rejudged, paint: Paint, width: int | None) -> Iterator[str]:
    """A line for each decision that is not the same; those judged by themselves below a heading."""
    rows = [row for row in rejudged.decisions if not row.is_same]
    heads = [
        (f"{row.outcome} {row.reason}", f"{row.new_outcome} {row.new_reason}" if row.new_outcome else _NEEDS_RUNS)
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*heads, strict=True)]
    was_in_order = True
    for row, (recorded, new) in zip(rows, heads, strict=True):
        if was_in_order and not row.in_order:
            yield "each by itself, against what was recorded before it:"
        was_in_order = row.in_order
        head = f"{row.iteration:>5}  {recorded:<{widths[0]}} -> {new:<{widths[1]}}  "
        yield paint(head, OUTCOME_COLORS[row.new_outcome or Outcome.SKIPPED]) + _tail(row, head, width)


def _tail(row: Judgement, head: str, width: int | None) -> str:
    """Why the other rule decides so, and the title, in what the terminal has left."""
    return why_and_title(row.why, row.title, None if width is None else max(width - len(head), _LEAST_WHY))
