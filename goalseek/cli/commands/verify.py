"""``goalseek verify``: a claim measured again, in a throw-away repository: agrees, disagrees, or cannot be compared."""

from goalseek.cli.options import Options, Parser, refuse
from goalseek.errors import BAD_FINDING, UNFIT
from goalseek.evaluation.verify import verify_claim
from goalseek.humanize import abbreviate, format_distinct
from goalseek.views.terminal_text import Color, one_line

_ANSWERS: dict[str, tuple[int, Color]] = {
    "agrees": (0, "green"),
    "disagrees": (BAD_FINDING, "red"),
    "cannot be compared": (UNFIT, "magenta"),
}


def arguments(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="the tar that goalseek claim wrote")
    parser.add_argument("--signers", metavar="FILE", help="whose signature counts: a file as git's allowed_signers")
    text = "your copies of the hidden and shared files; a hidden one counts if its hash is right"
    parser.add_argument("--hidden-from", metavar="DIR", help=text)
    text = "let its code run without a sandbox, with the network and your variables, if it asks for them"
    parser.add_argument("--trust", action="store_true", help=text)
    parser.add_argument("-n", dest="count", type=int, metavar="N", help="how many pairs (default: those of the claim)")
    parser.epilog = "The exit code is 0 if it agrees, 1 if it disagrees, 3 if it cannot be compared or is refused."


def run(options: Options) -> int:
    refuse((options.count is not None and options.count < 2, f"-n {options.count}: at least 2", "-n 5"))
    options.apply_query({})  # a wrong one is refused before anything is measured
    folder = options.start_folder()
    signers, hidden = (folder / path if path else None for path in (options.signers, options.hidden_from))
    refuse(
        (not (folder / options.file).is_file(), f"there is no file {options.file}", "name the tar of goalseek claim"),
        (signers is not None and not signers.is_file(), f"--signers: there is no file {signers}", "name one"),
        (hidden is not None and not hidden.is_dir(), f"--hidden-from: there is no folder {hidden}", "name one"),
    )
    paths = (folder / options.file, folder)
    done = verify_claim(*paths, options.line_view(), signers, hidden, options.trust, options.count)
    receipt, settled = done.receipt, done.receipt.settled
    heads = (
        f"{receipt.project}: {settled.metric}, to {settled.direction}; {receipt.kept} kept of {receipt.tries} tries",
        f"{done.signature}; {done.seals}",
        f"changed: {abbreviate(done.changed)}; sandbox: {done.sandbox}",
        *(f"warning: {text}" for text in receipt.warnings),
    )
    lines = [one_line(line) for line in heads]
    for name, found in (("claimed", done.claimed), ("measured", done.measured)):
        if found:
            medians = " → ".join(format_distinct(found.before, found.after, unit=found.unit))
            lines.append(f"  {name:<8}  {one_line(f'{medians}: {found.in_words()}')}")
    code, color = _ANSWERS[done.answer]
    painted = options.painter()(done.answer, color)
    options.print_answer(done, *lines, f"{painted}: {one_line(done.why)}")
    return code
