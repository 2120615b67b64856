"""``goalseek baseline``: a new baseline, and with it a new ruler. ``goalseek revert``: a kept change leaves the tip."""

from __future__ import annotations

import argparse

from goalseek.cli.options import add_committed_option, load_manifest
from goalseek.cli.watch import choose_view
from goalseek.doctor.checks import check_fit
from goalseek.doctor.subject import subject_of
from goalseek.loop.baseline import measure_baseline, resolve_source
from goalseek.loop.ending import recording_end
from goalseek.loop.revert import revert_change
from goalseek.project.opening import open_project, refuse_while_asking

_REVERT = "revert"


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``baseline`` takes, or ``revert``."""
    if not parser.prog.endswith(_REVERT):
        parser.add_argument(
            "--from", dest="source", metavar="REV", help="the code to measure (default: the incumbent's)"
        )
        add_committed_option(parser)
        return
    parser.add_argument("iteration", type=int, metavar="N", help="the number of a kept iteration")
    parser.add_argument("--why", metavar="TEXT", default="", help="the reason, for the records and for the agent")
    parser.epilog = (
        "What was kept after it stays: git merges it on. The result is measured for the record, and stands whatever "
        "its number is. Your checkout is not touched."
    )


def run(options: argparse.Namespace) -> int:
    """Measures a baseline, or takes a kept change back."""
    is_revert = options.command_name == _REVERT
    with open_project(load_manifest(options), choose_view(options), doing=options.command_name) as project:
        refuse_while_asking(project, "taking a change back" if is_revert else "a new baseline")
        if is_revert:
            check_fit(subject_of(project, "revert"))
        else:
            project.is_committed_only = options.committed
            check_fit(subject_of(project, "baseline", source=resolve_source(project, options.source)))
        with recording_end(project):
            if is_revert:
                revert_change(project, options.iteration, options.why)
            else:
                measure_baseline(project, options.source)
    return 0
