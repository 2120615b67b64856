"""``goalseek decline``: the keep that waits is taken back."""

from __future__ import annotations

import argparse

from goalseek.cli.commands.approve import give


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``decline`` takes."""
    parser.add_argument("iteration", type=int, metavar="N", help="the iteration that waits")
    parser.epilog = "A verdict that rejects stays one: then this only lets the climb go on, as approve does."


def run(options: argparse.Namespace) -> int:
    """Gives the word."""
    return give(options, "decline")
