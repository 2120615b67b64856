"""``goalseek baseline``: a new baseline, and with it a new ruler."""

from goalseek.cli.options import Options, Parser, add_committed_option
from goalseek.doctor.checks import check_fit, subject_of
from goalseek.loop.baseline import measure_baseline, resolve_source
from goalseek.loop.invocation import recording_end
from goalseek.project.opening import open_project, refuse_while_asking


def arguments(parser: Parser) -> None:
    parser.add_argument("--from", dest="source", metavar="REV", help="the code to measure (default: the incumbent's)")
    add_committed_option(parser)


def run(options: Options) -> None:
    with open_project(options.load_manifest(), options.choose_view(), doing="baseline") as project:
        refuse_while_asking(project, "a new baseline")
        project.is_committed_only = options.committed
        check_fit(subject_of(project, "baseline", source=resolve_source(project, options.source)))
        with recording_end(project):
            measure_baseline(project, options.source)
