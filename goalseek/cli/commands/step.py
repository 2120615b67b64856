"""``goalseek step``: one phase of an iteration, then stop and name the next."""

from __future__ import annotations

import argparse
import sys

from goalseek.cli.options import load_manifest
from goalseek.cli.output import print_answer, wants_json
from goalseek.loop import loop
from goalseek.project.opening import open_project, provider_from_options
from goalseek.views.asking import AskingWatch
from goalseek.views.lines import SandboxWatch
from goalseek.views.terminal_text import painter


class _StepWatch(AskingWatch, SandboxWatch):
    """Asks at a terminal, and says the level of the sandbox."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``step`` takes."""
    parser.add_argument("--provider", metavar="P", help="who proposes, instead of the manifest's")
    parser.add_argument("--model", metavar="M", help="the provider's model")


def run(options: argparse.Namespace) -> int:
    """Runs one phase, and names the next."""
    manifest = load_manifest(options)
    is_silent = options.quiet or wants_json(options)
    kind = SandboxWatch if wants_json(options) else _StepWatch
    watch = kind(painter(sys.stderr, options.color), is_silent)
    override = provider_from_options(manifest, options.provider, options.model)
    with open_project(manifest, watch, override, doing="step") as project:
        phase, next_phase = loop.step(project)
    print_answer(options, {"done": phase, "next": next_phase}, f"done: {phase}; next: {next_phase}")
    return 0
