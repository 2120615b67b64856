"""``goalseek revert``: a kept change leaves the tip, because a person says so."""

from __future__ import annotations

import argparse

from goalseek.cli.options import load_manifest
from goalseek.cli.watch import choose_view
from goalseek.loop.ending import recording_end
from goalseek.loop.revert import revert_change
from goalseek.project.fitness import check_fit
from goalseek.project.landing import check_refs
from goalseek.project.opening import open_project, refuse_while_asking


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``revert`` takes."""
    parser.add_argument("iteration", type=int, metavar="N", help="the number of a kept iteration")
    parser.add_argument("--why", metavar="TEXT", default="", help="the reason, for the records and for the agent")
    parser.epilog = (
        "What was kept after it stays: git merges it on. The result is measured for the record, and stands whatever "
        "its number is. Your checkout is not touched."
    )


def run(options: argparse.Namespace) -> int:
    """Takes the change back; the record is printed."""
    with open_project(load_manifest(options), choose_view(options), doing="revert") as project:
        refuse_while_asking(project, "taking a change back")
        check_fit(project)
        check_refs(project)
        with recording_end(project):
            revert_change(project, options.iteration, options.why)
    return 0
