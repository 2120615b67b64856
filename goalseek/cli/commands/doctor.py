"""``goalseek doctor``: checks of a project before it runs unattended, each failure with its remedy."""

import sys

from goalseek.cli.options import Options, Parser, add_committed_option
from goalseek.cli.streams import YES, ask_person
from goalseek.doctor.doctor import examine
from goalseek.errors import BAD_FINDING, GoalseekError
from goalseek.values import to_plain
from goalseek.views.terminal_text import Color, clean_text

_MARKS: dict[str, tuple[str, Color]] = {"good": ("✓", "green"), "note": ("!", "magenta"), "wrong": ("✗", "red")}


def arguments(parser: Parser) -> None:
    parser.add_argument("--quick", action="store_true", help="make only checks that do not run the verifier")
    parser.add_argument("--outside", action="store_true", help="run a command that failed in the sandbox outside it")
    parser.add_argument("--live", action="store_true", help="ask the provider one question; may cost a little")
    add_committed_option(parser)


def run(options: Options) -> int:
    def ask_consent(is_known: bool) -> bool:  # to run a command outside the sandbox; is the cause of its failure known?
        if options.outside or is_known or not (sys.stdin.isatty() and sys.stderr.isatty()) or options.wants_json:
            return bool(options.outside)
        question = "the verifier failed in the sandbox. Run it once outside, as you, to find the cause? y/n"
        try:
            return ask_person(question, "n", str.lower) in YES
        except GoalseekError:  # the terminal was closed: no answer is no consent
            return False

    paint = options.painter()
    is_well = True
    manifest, is_quick, is_live = options.load_manifest(), options.quick, options.live
    for finding in examine(manifest, is_quick, options.print_message, ask_consent, is_live, options.committed):
        is_well = is_well and finding.ok
        if options.wants_json:
            plain = to_plain(finding)
            row = {"name": plain.pop("place"), "ok": plain.pop("level") != "wrong"}
            options.print_json_lines([{**row, **plain}])
            sys.stdout.flush()
        else:
            first, *rest = clean_text(finding.text).split("\n")
            lines = [f"{paint(*_MARKS[finding.level])} {finding.place:<12} {first}"]
            lines += [f"  {'':<12} {line}" for line in rest]
            if finding.remedy:
                remedy = options.with_manifest(finding.remedy)
                lines.append(f"  {'':<12} {paint('→ ' + remedy, 'grey')}")
            print("\n".join(lines), flush=True)
    return 0 if is_well else BAD_FINDING
