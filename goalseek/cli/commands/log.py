"""``goalseek log``: the iterations, a line each, oldest first, streamed."""

import sys
import time
from datetime import UTC, datetime

from goalseek.cli.options import Options, Parser
from goalseek.errors import GoalseekError
from goalseek.humanize import format_age, format_number
from goalseek.ledger.results_file import History
from goalseek.ledger.selection import Selection, parse_since, select_lines
from goalseek.values import Outcome, Reason
from goalseek.views.terminal_text import OUTCOME_COLORS, one_line, terminal_width, why_and_title

_FLUSH_SECONDS = 0.1
_WIDE = 110
_WITH_OUTCOME = 78
_LEAST_TAIL = 12


def arguments(parser: Parser) -> None:
    parser.add_argument("--last", type=int, metavar="N", help="only the newest N")
    parser.add_argument("--outcome", choices=[outcome.value for outcome in Outcome], help="only this outcome")
    reasons = [reason.value for reason in Reason if reason != Reason.MOVED]
    parser.add_argument("--reason", metavar="R", choices=reasons, help="only this reason, such as worse or tie")
    since = "from an iteration, a time or an age on: 12, 2026-11-21T07:00, yesterday, 2h"
    parser.add_argument("--since", metavar="I", help=since)


def run(options: Options) -> None:
    if options.last is not None and options.last < 1:
        raise GoalseekError(f"--last {options.last}: at least 1", "--last 20")
    iteration, moment = parse_since(options.since, datetime.now(UTC)) if options.since is not None else (0, None)
    selection = Selection(options.outcome or "", options.reason or "", iteration, moment, options.last)
    manifest = options.load_manifest()
    history = History(manifest.results)
    if not history.size():
        from goalseek.project.paths import fetch_hint

        why = fetch_hint(manifest) or "there are no records yet; goalseek iterate makes the first"
        options.print_message(options.with_manifest(why))
    if options.wants_json:
        options.apply_query({})
        options.print_json_lines(history.parsed(line) for line, _ in select_lines(history, selection))
        return
    paint, width = options.painter(), terminal_width(sys.stdout)  # no width: lines are not cut
    is_wide = width is None or width >= _WIDE

    def head_of(iteration: str, when: str, outcome: str, reason: str, value: str) -> str:
        if is_wide:
            return f"{iteration:>5}  {when:>10}  {outcome:<8}  {reason:<16} {value:>11}  "
        # On a narrow terminal the outcome is left out: the reason implies it.
        outcome_column = f"{outcome:<8} " if width and width >= _WITH_OUTCOME else ""
        return f"{iteration:>4} {when:>4} {outcome_column}{reason:<15} {value:>9}  "

    now, flushed, has_header = datetime.now(UTC), 0.0, sys.stdout.isatty()
    for _, record in select_lines(history, selection):
        if has_header:
            has_header = False
            names = head_of("", "when", "outcome", "reason", one_line(record.metric.name, 9))
            print(paint(f"{names}why; title", "bold"))
        value = "-" if record.metric.value is None else format_number(record.metric.value, record.metric.unit)
        age = format_age(record.timestamp, now, is_short=not is_wide)
        head = head_of(str(record.iteration), age, record.outcome, record.reason, value)
        room = None if width is None else max(width - len(head), _LEAST_TAIL)
        tail = why_and_title(record.why, record.hypothesis_summary, room)
        color = OUTCOME_COLORS[record.outcome]
        line = paint(head, color) + (paint(tail, "grey") if color == "grey" else tail)
        sys.stdout.write(f"{line}\n")  # print writes twice
        if time.monotonic() - flushed > _FLUSH_SECONDS:
            sys.stdout.flush()
            flushed = time.monotonic()
