"""``goalseek step``: exactly one phase."""

from __future__ import annotations

import argparse
import sys

from goalseek.cli.options import loaded
from goalseek.cli.output import answer, wants_json
from goalseek.loop import loop
from goalseek.project.opening import asked_provider, opened
from goalseek.views.asking import AskingWatch
from goalseek.views.lines import ConfinedWatch
from goalseek.views.terminal_text import painter


class _StepWatch(AskingWatch, ConfinedWatch):
    """Asks at a terminal, and says the level of the sandbox."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``step`` takes."""
    parser.add_argument("--provider", metavar="P", help="who proposes, instead of the manifest's")
    parser.add_argument("--model", metavar="M", help="the provider's model")


def run(options: argparse.Namespace) -> int:
    """Does one phase, and names the next."""
    manifest = loaded(options)
    is_silent = options.quiet or wants_json(options)
    kind = ConfinedWatch if wants_json(options) else _StepWatch
    watch = kind(painter(sys.stderr, options.color), is_silent)
    asked = asked_provider(manifest, options.provider, options.model)
    with opened(manifest, watch, asked, doing="step") as opened_run:
        done, following = loop.step(opened_run)
    if wants_json(options):
        answer(options, {"done": done, "next": following})
    else:
        print(f"done: {done}; next: {following}")
    return 0
