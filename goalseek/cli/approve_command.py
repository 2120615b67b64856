"""``goalseek approve``: the verdict that waits takes effect."""

from __future__ import annotations

import argparse

from goalseek.cli.giving_word import give


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``approve`` takes."""
    parser.add_argument("iteration", type=int, metavar="N", help="the iteration that waits")
    parser.epilog = "A verdict that rejects stays one: then this only lets the climb go on, as decline does."


def run(options: argparse.Namespace) -> int:
    """Gives the word."""
    return give(options, "approve")
