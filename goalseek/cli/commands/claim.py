"""``goalseek claim``: the settled gain as one file that somebody else can measure again."""

from pathlib import Path

from goalseek.cli.options import Options, Parser
from goalseek.disk import open_export
from goalseek.doctor.checks import check_fit, subject_of
from goalseek.evaluation.claim import make_claim
from goalseek.humanize import format_distinct
from goalseek.project.opening import open_project


def arguments(parser: Parser) -> None:
    name = "the tar to write (default: gain.tar)"
    parser.add_argument("-o", dest="file", metavar="FILE", default="gain.tar", help=name)
    text = "include: the hidden files are in it; digest: only their hashes (default: digest)"
    parser.add_argument("--hidden", choices=("digest", "include"), default="digest", help=text)
    parser.epilog = (
        "It settles first, and signs with the key of git config user.signingkey and gpg.format, if there is one. "
        "goalseek verify FILE checks it, on any machine."
    )


def run(options: Options) -> None:
    loaded = options.load_manifest()
    with open_export(Path(options.file)) as file, open_project(loaded, options.line_view(), doing="claim") as project:
        check_fit(subject_of(project, "settle"))
        receipt, signature = make_claim(project, file, options.hidden == "include")
    settled, metric = receipt.settled, loaded.manifest.metric
    medians = format_distinct(settled.baseline, settled.best, unit=settled.unit)
    signed = f"signed with {signature.key}" if signature else "unsigned: git config user.signingkey names no key"
    options.print_answer(
        {"file": options.file, "signed_with": signature.key if signature else None, "receipt": receipt},
        f"{options.file}: {metric.name} {' → '.join(medians)}, {settled.why}; {receipt.kept} kept of {receipt.tries}",
        signed,
        "the hidden files are in it" if options.hidden == "include" else "of the hidden files it has only the hashes",
    )
