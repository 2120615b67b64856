"""``goalseek status``: where the climb stands, and what to do next."""

from __future__ import annotations

import argparse
import sys

from goalseek.cli.options import loaded
from goalseek.cli.output import answer, wants_json
from goalseek.git.location import locate
from goalseek.humanize import format_duration, format_number
from goalseek.manifest.loading import Loaded, with_manifest_option
from goalseek.project.paths import climb_at_work
from goalseek.project.status import Overview, overview
from goalseek.project.watch import OUTPUT
from goalseek.values import to_plain
from goalseek.views.terminal_text import Paint, one_line, painter


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``status`` takes."""
    parser.add_argument("--watch", action="store_true", help="go on showing it; q or ^C leaves")
    parser.add_argument("--output", action="store_true", help="with what the agent and the verifier print")


def run(options: argparse.Namespace) -> int:
    """Shows the overview."""
    asked = loaded(options)
    location = locate(asked.folder / asked.manifest.project.repo)
    manifest = climb_at_work(asked, location)
    if options.watch:
        from goalseek.cli.watch import watch

        return watch(options, manifest)
    seen = overview(manifest, location if manifest is asked else None)
    printed = _printed(manifest) if options.output else []
    if wants_json(options):
        answer(options, {**to_plain(seen), "output": printed} if options.output else seen)
        return 0
    lines = _lines(seen, painter(sys.stdout, options.color), options.manifest)
    if manifest is not asked:
        lines.insert(1, f"  at work in {manifest.folder}")
    print("\n".join([*lines, *(f"  | {line}" for line in printed)]))
    return 0


def _printed(manifest: Loaded) -> list[str]:
    from goalseek.views.following import output_of
    from goalseek.views.terminal_text import lines_of

    return lines_of(output_of(manifest.logs / OUTPUT))


def _lines(seen: Overview, paint: Paint, manifest: str | None) -> list[str]:
    why = f" ({seen.stop_reason})" if seen.stop_reason and seen.stop_reason != seen.status else ""
    lines = [f"{paint(seen.project, 'bold')}: {seen.status}{why}"]
    if seen.phase:
        lines[0] += f", in {seen.phase} since {seen.phase_started_at}"
    if seen.silent:
        lines.append(f"  {paint('silent', 'magenta')}     {seen.silent}")
    if seen.best is None or seen.baseline is None:
        return [*lines, "nothing is measured yet", f"next: {one_line(seen.next)}"]
    better = "higher" if seen.direction == "maximize" else "lower"
    gain = seen.best.value - seen.baseline.value
    lines.append(
        f"  best       {paint(format_number(seen.best.value), 'green')} {seen.metric} ({better} is better), iteration "
        f"{seen.best.iteration}; baseline {format_number(seen.baseline.value)}, {gain:+.6g}"
    )
    if seen.last:
        last = seen.last
        why = one_line(last["why"])
        lines.append(f"  last       {last['iteration']}: {last['outcome']}/{last['reason']}, {why}")
    counts = ", ".join(f"{count} {outcome}" for outcome, count in seen.outcomes.items())
    lines.append(f"  this run   {counts or 'nothing yet'}; {seen.stagnation} since the last keep")
    lines.append(f"  spend      {format_duration(seen.spend.seconds)}, {_tokens(seen)}")
    if seen.settled:
        lines.append(f"  settled    {seen.settled.why}")
    lines += [f"  holdout    look {look.look}: {one_line(look.why)}" for look in seen.holdout]
    if seen.cost:
        lines.append(f"  deciding   {seen.cost}")
    lines += [f"  {paint('warning', 'magenta')}    {text}" for text in seen.warnings]
    adopts = with_manifest_option("goalseek baseline adopts it", manifest)
    lines += [f"  {paint('differs', 'magenta')}    {name}; {adopts}" for name in seen.differs]
    if seen.waits:
        from goalseek.views.asking import question_lines

        lines += ["", *question_lines(seen.waits)]
    return [*lines, f"next: {one_line(seen.next)}"]


def _tokens(seen: Overview) -> str:
    usage = seen.spend.usage
    cost = f", ${usage.cost_usd:.2f}" if usage.cost_usd is not None else ""
    about = f", about ${usage.about_usd:.2f} by subscription" if usage.about_usd is not None else ""
    marked = " (estimated)" if usage.estimated and usage.cost_usd is not None else ""
    return f"{usage.tokens} tokens{cost}{marked}{about}{_each(seen)}"


def _each(seen: Overview) -> str:
    """What a kept change cost."""
    kept, cost = seen.outcomes.get("kept", 0), seen.spend.usage.cost_usd
    if not kept or not seen.spend.tokens:
        return ""
    dollars = "" if cost is None else f", ${cost / kept:.2f}"
    return f"; a kept change {round(seen.spend.tokens / kept)} tokens{dollars}"
