"""``goalseek log``: the iterations, a line each, oldest first; it starts to print at once."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

from goalseek import units
from goalseek.cli.answer import answer_lines, say, wants_json
from goalseek.cli.options import loaded
from goalseek.errors import GoalseekError
from goalseek.fetched import way_to_fetched
from goalseek.history import History
from goalseek.plain import to_plain
from goalseek.records import IterationRecord
from goalseek.views.cells import width_of
from goalseek.views.lines import record_line
from goalseek.views.style import painter

_COLUMNS = ("iteration", "timestamp", "outcome", "reason", "value", "incumbent", "delta", "title", "why", "commit_hash")


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``log`` takes."""
    parser.add_argument("--last", type=int, metavar="N", help="the newest N")
    parser.add_argument("--kept", action="store_true", help="only what was kept")
    parser.add_argument("--outcome", choices=("baseline", "kept", "reverted", "skipped"))
    parser.add_argument("--reason", metavar="R", help="such as worse, tie, no_change")
    parser.add_argument("--since", metavar="I", help="an iteration, a time (2026-11-21T07:00), or an age (8h)")
    parser.add_argument("-o", dest="file", metavar="FILE", help="to FILE.csv or FILE.jsonl")


def run(options: argparse.Namespace) -> int:
    """Prints or exports the records."""
    if options.last is not None and options.last < 1:
        raise GoalseekError(f"--last {options.last}: at least 1", "--last 20")
    manifest = loaded(options)
    history = History(manifest.logs / "results.jsonl")
    if not history.size():
        say(options, way_to_fetched(manifest) or "there are no records yet; goalseek iterate makes the first")
    chosen = _chosen(options, history)
    if options.file:
        count = _export(Path(options.file), chosen)
        say(options, f"{count} records in {options.file}")
    elif wants_json(options):
        answer_lines(options, chosen)
    else:
        paint, width = painter(sys.stdout, options.color), width_of(sys.stdout)
        for record in chosen:
            print(record_line(record, paint, width))
    return 0


def _chosen(options: argparse.Namespace, history: History) -> Iterator[IterationRecord]:
    wanted = _filter(options)
    if options.last is None:
        return (record for record in history.records() if isinstance(record, IterationRecord) and wanted(record))
    newest = (record for record in history.newest() if isinstance(record, IterationRecord) and wanted(record))
    return iter(list(islice(newest, options.last))[::-1])


def _filter(options: argparse.Namespace) -> _Filter:
    return _Filter("kept" if options.kept else options.outcome, options.reason, *_since(options.since))


class _Filter:
    """Whether a record is wanted."""

    def __init__(self, outcome: str | None, reason: str | None, iteration: int, moment: datetime | None) -> None:
        self.outcome, self.reason, self.iteration, self.moment = outcome, reason, iteration, moment

    def __call__(self, record: IterationRecord) -> bool:
        if self.outcome not in (None, record.outcome) or self.reason not in (None, record.reason):
            return False
        if record.iteration < self.iteration:
            return False
        return self.moment is None or datetime.fromisoformat(record.timestamp) >= self.moment


def _since(text: str | None) -> tuple[int, datetime | None]:
    if text is None:
        return 0, None
    if text.isdigit():
        return int(text), None
    try:
        moment = datetime.fromisoformat(text)
        return 0, moment if moment.tzinfo else moment.astimezone(UTC)
    except ValueError:
        pass
    try:
        return 0, datetime.now(UTC) - timedelta(seconds=units.seconds(text))
    except ValueError:
        raise GoalseekError(f"--since {text!r}: an iteration, a time or an age", "--since 12, --since 8h") from None


def _export(path: Path, records: Iterable[IterationRecord]) -> int:
    count = 0
    if path.suffix not in (".csv", ".jsonl"):
        later = ": not yet" if path.suffix == ".parquet" else ""
        raise GoalseekError(f"-o {path}: unknown kind of file{later}", "end it in .csv or .jsonl")
    try:
        file = path.open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise GoalseekError(f"-o {path}: {error.strerror}", "name a file that can be written") from None
    with file:
        table = csv.writer(file)
        if path.suffix == ".csv":
            table.writerow(_COLUMNS)
        for record in records:
            count += 1
            if path.suffix == ".csv":
                table.writerow(_row(record))
            else:
                file.write(json.dumps(to_plain(record)) + "\n")
    return count


def _row(record: IterationRecord) -> list[object]:
    metric = record.metric
    first = [record.iteration, record.timestamp, record.outcome, record.reason, metric.value, metric.incumbent]
    return [*first, metric.delta, record.hypothesis_summary, record.why, record.commit_hash]
