"""``goalseek revert``: a kept change leaves the tip."""

from goalseek.cli.options import Options, Parser, add_why_option
from goalseek.doctor.checks import check_fit, subject_of
from goalseek.loop.invocation import recording_end
from goalseek.loop.revert import revert_change
from goalseek.project.opening import open_project, refuse_while_asking


def arguments(parser: Parser) -> None:
    parser.add_argument("iteration", type=int, metavar="N", help="the number of a kept iteration")
    add_why_option(parser)
    parser.epilog = (
        "Later kept changes stay: git merges them. The result is measured for the record, and stays whatever its "
        "number is. Your checkout is not touched."
    )


def run(options: Options) -> None:
    with open_project(options.load_manifest(), options.choose_view(), doing="revert") as project:
        refuse_while_asking(project, "taking a change back")
        check_fit(subject_of(project, "revert"))
        with recording_end(project):
            revert_change(project, options.iteration, options.why)
