"""``goalseek step``: one phase of an iteration, then stop and name the next."""

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
    """Runs one phase, and names the next."""
    manifest = loaded(options)
    is_silent = options.quiet or wants_json(options)
    kind = ConfinedWatch if wants_json(options) else _StepWatch
    watch = kind(painter(sys.stderr, options.color), is_silent)
    override = asked_provider(manifest, options.provider, options.model)
    with opened(manifest, watch, override, doing="step") as project:
        phase, next_phase = loop.step(project)
    if wants_json(options):
        answer(options, {"done": phase, "next": next_phase})
    else:
        print(f"done: {phase}; next: {next_phase}")
    return 0
