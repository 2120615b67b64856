"""``goalseek serve``: the report as a live page, reachable from this machine only."""

from __future__ import annotations

import argparse
import sys

from goalseek.cli.commands.report import report_source
from goalseek.cli.output import print_answer, print_message
from goalseek.views.report.server import PageServer


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``serve`` takes."""
    results = "a results.jsonl from elsewhere, or its folder (default: this project's)"
    parser.add_argument("results", nargs="?", metavar="RESULTS", help=results)
    parser.add_argument("--port", type=int, default=0, metavar="P", help="the port (default: any that is free)")


def run(options: argparse.Namespace) -> int:
    """Serves until ^C, which is its ordinary end."""
    with PageServer(report_source(options), options.port) as server:
        try:
            print_answer(options, {"url": server.url}, server.url)
            sys.stdout.flush()
            print_message(options, "open it in a browser on this machine; the page changes nothing; ^C ends it")
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            print_message(options, "ended")
    return 0
