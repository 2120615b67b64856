"""``goalseek status --watch``: the panel of a climb that another terminal runs, until q or ^C."""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import sys
import termios
import time
import tty
import typing
from collections.abc import Callable, Iterator
from dataclasses import replace

from goalseek.cli.options import loaded
from goalseek.cli.output import answer, wants_json
from goalseek.git.location import locate
from goalseek.humanize import in_words, number
from goalseek.ledger.results_file import own_folder
from goalseek.locks import holder_of
from goalseek.manifest.loading import Loaded, typed
from goalseek.project.paths import climb_at_work
from goalseek.project.status import Overview, overview
from goalseek.project.watch import OUTPUT
from goalseek.values import to_plain
from goalseek.views.following import Following, Look
from goalseek.views.lines import record_line
from goalseek.views.live import signs_for
from goalseek.views.panel import duration, rows
from goalseek.views.sanitize import lines_of, one_line
from goalseek.views.style import Paint, is_coloured, is_movable, painter, width_of

if typing.TYPE_CHECKING:
    from rich.text import Text


POLL_SECONDS = 1.0
_OUTPUT_AT_FIRST = 20


def watch(options: argparse.Namespace, loaded: Loaded) -> int:
    """Shows the climb while it is at work; at a terminal also after that, as somebody may go on with it."""
    following, own = Following(loaded), own_folder(loaded)

    def look() -> Look:
        return following.look(own is not None and holder_of(own) is not None)

    if wants_json(options):
        return _in_json(options, loaded, look)
    if is_movable(sys.stdout) and not options.quiet:
        return _on_screen(options, look)
    return _in_lines(options, look)


def _on_screen(options: argparse.Namespace, look: Callable[[], Look]) -> int:
    from goalseek.views.screen import Screen, console_for

    seen, at = look(), time.monotonic()
    signs, is_first = signs_for(sys.stdout.encoding), True

    def shown(columns: int) -> list[Text]:
        since = time.monotonic() - at
        doing = replace(seen.doing, seconds=seen.doing.seconds + since, since=seen.doing.since + since)
        return rows(seen.scene, doing, columns, signs)

    screen = Screen(console_for(sys.stdout, is_coloured(sys.stdout, options.color)), shown)
    screen.start()
    try:
        with _keys() as pressed:
            while True:
                _tell(options, seen, is_first)
                is_first = False
                if pressed(POLL_SECONDS) in ("q", "Q", "\x04"):
                    return 0
                seen, at = look(), time.monotonic()
    except KeyboardInterrupt:
        return 0
    finally:
        screen.stop()


def _in_lines(options: argparse.Namespace, look: Callable[[], Look]) -> int:
    """A line for each phase and each record, until nobody is at work."""
    shown, is_first = None, True
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            seen = look()
            _tell(options, seen, is_first)
            is_first = False
            doing = seen.doing
            now = (doing.iteration, doing.phase, doing.waits)
            if seen.is_at_work and now != shown:
                told = f"waiting: {doing.waits}" if doing.waits else f"{doing.phase}, for {duration(doing.seconds)}"
                print(f"{doing.iteration if doing.iteration is not None else '-':>4}  {told}", flush=True)
                shown = now
            if not seen.is_at_work:
                print(doing.ended, flush=True)
                return 0
            time.sleep(POLL_SECONDS)
    return 0


def _in_json(options: argparse.Namespace, loaded: Loaded, look: Callable[[], Look]) -> int:
    """The answer of ``status`` whenever it has changed but for its heartbeat, until nobody is at work."""
    before = None
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            seen, plain = look(), to_plain(overview(loaded))
            now = {**plain, "heartbeat_at": None}
            if now != before:
                answer(options, plain)
                before = now
            if options.output and seen.printed:
                answer(options, {"event": "output", "lines": lines_of(seen.printed)})
            if not seen.is_at_work:
                return 0
            time.sleep(POLL_SECONDS)
    return 0


def _tell(options: argparse.Namespace, seen: Look, is_first: bool) -> None:
    """What is new, in lines that stay."""
    if options.output:
        lines = lines_of(seen.printed)
        if lines:
            print("\n".join(lines[-_OUTPUT_AT_FIRST:] if is_first else lines), flush=True)
    for record in seen.records:
        print(record_line(record, painter(sys.stdout, options.color), width_of(sys.stdout)), flush=True)


def _wait(seconds: float) -> str:
    time.sleep(seconds)
    return ""


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """A function that waits so many seconds for a key, "" where none came; without a terminal it only waits."""
    try:
        descriptor = sys.stdin.fileno()
        found = termios.tcgetattr(descriptor)
        if os.tcgetpgrp(descriptor) != os.getpgrp():
            raise OSError("in the background")
    except (termios.error, OSError, ValueError):
        yield _wait
        return

    def pressed(seconds: float) -> str:
        if not select.select([descriptor], [], [], seconds)[0]:
            return ""
        return os.read(descriptor, 1).decode("latin-1") or "q"

    try:
        tty.setcbreak(descriptor, termios.TCSADRAIN)
        yield pressed
    finally:
        with contextlib.suppress(termios.error, OSError):
            termios.tcsetattr(descriptor, termios.TCSADRAIN, found)


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
    from goalseek.views.sanitize import lines_of

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
        f"  best       {paint(number(seen.best.value), 'green')} {seen.metric} ({better} is better), iteration "
        f"{seen.best.iteration}; baseline {number(seen.baseline.value)}, {gain:+.6g}"
    )
    if seen.last:
        last = seen.last
        why = one_line(last["why"])
        lines.append(f"  last       {last['iteration']}: {last['outcome']}/{last['reason']}, {why}")
    counts = ", ".join(f"{count} {outcome}" for outcome, count in seen.outcomes.items())
    lines.append(f"  this run   {counts or 'nothing yet'}; {seen.stagnation} since the last keep")
    lines.append(f"  spend      {in_words(seen.spend.seconds)}, {_tokens(seen)}")
    if seen.settled:
        lines.append(f"  settled    {seen.settled.why}")
    lines += [f"  holdout    look {look.look}: {one_line(look.why)}" for look in seen.holdout]
    if seen.cost:
        lines.append(f"  deciding   {seen.cost}")
    lines += [f"  {paint('warning', 'magenta')}    {text}" for text in seen.warnings]
    adopts = typed("goalseek baseline adopts it", manifest)
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
