"""``goalseek export``: the iterations as a table in a file, or their numbers in MLflow or TensorBoard."""

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from goalseek.cli.options import Options, Parser, refuse
from goalseek.humanize import pluralize
from goalseek.ledger.export import write_table
from goalseek.ledger.results_file import History
from goalseek.ledger.trackers import MlflowServer, ServerDown, read_points, write_event
from goalseek.project.paths import manifest_of_running_climb
from goalseek.views.terminal_text import one_line

_LOOK_SECONDS = 2.0


def arguments(parser: Parser) -> None:
    kinds = ("mlflow", "tensorboard", "csv", "jsonl", "parquet")
    parser.add_argument("--to", required=True, choices=kinds, help="the tool, or the kind of file")
    parser.add_argument("path", nargs="?", metavar="PATH", help="the file; for tensorboard, the folder of its runs")
    parser.add_argument("--uri", metavar="URL", help="the server of mlflow, such as http://127.0.0.1:5000")
    parser.add_argument("--follow", action="store_true", help="export new iterations too, until ^C")


def run(options: Options) -> None:
    target = options.uri if options.to == "mlflow" else options.path
    is_wrong = not target or bool(options.uri and options.path)
    refuse((is_wrong, "--to mlflow takes --uri, the others take a path", "goalseek export --to csv night.csv"))
    history = History(manifest_of_running_climb(options.load_manifest_to_look()).results)
    export: Callable[[], int] | None = None
    size, is_down = -1, False
    while True:
        try:
            export = export or _make_exporter(options, history)
            if size != (size := history.size()) and ((count := export()) or not options.follow):
                fields = {"to": options.to, "target": target, "iterations": count}
                options.print_answer(fields, f"{pluralize(count, 'iteration')} to {target}")
            is_down = False
        except ServerDown as error:
            if not options.follow:
                raise
            if not is_down:
                print(one_line(f"warning: {error.message}; export goes on once it answers"), file=sys.stderr)
            export, size, is_down = None, -1, True
        if not options.follow:
            return
        sys.stdout.flush()
        time.sleep(_LOOK_SECONDS)


def _make_exporter(options: Options, history: History) -> Callable[[], int]:
    if options.to not in ("mlflow", "tensorboard"):
        return partial(write_table, options.to, Path(options.path), history)
    points, ends = read_points(history), dict[Path, int]()
    send = MlflowServer(options.uri).send if options.uri else partial(write_event, Path(options.path), ends)
    return lambda: sum(send(point) for point in iter(points.__next__, None))
