"""``goalseek settle``: baseline and best measured afresh in turn; their difference is what may be claimed."""

from goalseek.cli.options import Options, Parser
from goalseek.doctor.checks import check_fit, subject_of
from goalseek.evaluation.settle import settle_on_request
from goalseek.project.activity import Observer
from goalseek.project.opening import open_project


def arguments(parser: Parser) -> None:
    parser.epilog = (
        "The numbers that decided are the best of many, so they overstate the gain. The runs of settle decide nothing: "
        "their difference is the gain of the kept changes. metric.settle is the number of pairs (default: 5)."
    )


def run(options: Options, watch: Observer | None = None) -> None:
    with open_project(options.load_manifest(), watch or options.choose_view(), doing="settle") as project:
        check_fit(subject_of(project, "settle"))
        settle_on_request(project, project.config())
