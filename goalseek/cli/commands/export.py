"""``goalseek export``: the iterations as a table in a file."""

from pathlib import Path

from goalseek.cli.options import Options, Parser, refuse
from goalseek.humanize import pluralize
from goalseek.ledger.export import write_table
from goalseek.ledger.results_file import History
from goalseek.project.paths import manifest_of_running_climb


def arguments(parser: Parser) -> None:
    parser.add_argument("--to", required=True, choices=("csv", "jsonl", "parquet"), help="the kind of file")
    parser.add_argument("path", metavar="PATH", help="the file")


def run(options: Options) -> None:
    refuse((not options.path, f"--to {options.to} takes a path", "export --to csv PATH"))
    history = History(manifest_of_running_climb(options.load_manifest_to_look()).results)
    count = write_table(options.to, Path(options.path), history)
    fields = {"to": options.to, "target": options.path, "iterations": count}
    options.print_answer(fields, f"{pluralize(count, 'iteration')} to {options.path}")
