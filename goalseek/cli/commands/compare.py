"""``goalseek compare``: two revisions measured alternately: which is better, by how much, how sure."""

import sys
from collections.abc import Sequence
from typing import Any

from goalseek.cli.options import Options, Parser, refuse
from goalseek.doctor.checks import check_revisions
from goalseek.errors import Interrupted, exit_code_of_interrupt
from goalseek.evaluation import compare
from goalseek.humanize import format_distinct, format_duration, format_number, pluralize, time_to_go
from goalseek.project.opening import open_project
from goalseek.statistics.intervals import PAIRS
from goalseek.statistics.noise import median
from goalseek.views.terminal_text import Color


def arguments(parser: Parser) -> None:
    before = "a commit, branch or tag; or an iteration, best or baseline (default with --dirty: HEAD)"
    parser.add_argument("before", metavar="A", nargs="?", help=before)
    parser.add_argument("after", metavar="B", nargs="?", help="the revision to compare it with (default: HEAD)")
    parser.add_argument("--dirty", action="store_true", help="compare A with the checkout, new files included")
    count = f"how many pairs (default: {PAIRS})"
    parser.add_argument("-n", dest="count", type=int, metavar="N", default=PAIRS, help=count)
    parser.epilog = (
        "The exit code is 0 whichever is better, and 1 if one of the two has no number. Nothing is recorded; checkout "
        "and index stay unchanged."
    )


def run(options: Options) -> int:
    usage = "goalseek compare A [B] compares A with B or HEAD; goalseek compare --dirty compares HEAD with the checkout"
    has_both = options.dirty and options.after is not None
    refuse(
        (options.count < 1, f"-n {options.count}: at least 1", f"-n {PAIRS}"),
        (has_both, "--dirty and B exclude each other", "goalseek compare A B, or goalseek compare A --dirty"),
        (options.before is None and not options.dirty, "compare needs a revision, or --dirty", usage),
    )
    options.apply_query({})  # a wrong one is refused before anything is measured
    manifest = options.load_manifest()
    pairs: list[compare.Pair] = []
    code = 0
    with open_project(manifest, options.line_view(), doing="compare", is_trial=True) as project:
        names = ["HEAD" if side is None else side for side in (options.before, options.after)]
        before, after = compare.revisions_to_compare(project, names[0], None if options.dirty else names[1])
        check_revisions(project, before, after)
        unit = before.config.manifest.metric.unit
        try:
            for pair in compare.measure_pairs(project, before, after, options.count):
                pairs.append(pair)
                values = ", ".join(
                    f"{side.name} {format_number(run.value, unit)} ({format_duration(run.seconds)})"
                    for side, run in zip((before, after), pair, strict=True)
                )
                seconds = median([first.seconds + second.seconds for first, second in pairs])
                to_go = time_to_go(options.count - len(pairs), seconds)
                options.print_message(f"pair {len(pairs)} of {options.count}: {values}{to_go}")
        except (KeyboardInterrupt, Interrupted) as error:
            code = exit_code_of_interrupt(error)
            count = f"{len(pairs)} of {pluralize(options.count, 'pair')}"
            options.print_message(f"compare: interrupted after {count}; nothing is recorded")
        if pairs:
            _print_pairs(options, (before, after), pairs)
        sys.stdout.flush()
    return code


def _print_pairs(options: Options, revisions: Sequence[compare.Revision], pairs: Sequence[compare.Pair]) -> None:
    manifest = revisions[0].config.manifest
    metric = manifest.metric
    comparison = compare.compare_revisions(metric, pairs)
    settled = comparison.settled
    medians = format_distinct(settled.before, settled.after, unit=metric.unit)
    titles = [f"{side.name} {side.commit[:12]}" if side.commit else side.name for side in revisions]
    columns = list(zip(*pairs, strict=True))
    fields: dict[str, Any] = {"metric": metric.name, "direction": metric.direction}
    lines = [f"{metric.name}, to {metric.direction}:"]
    for role, side, title, middle, runs in zip(("before", "after"), revisions, titles, medians, columns, strict=True):
        fields[role] = {
            **{"revision": side.name, "commit": side.commit, "tree": side.tree, "median": getattr(settled, role)},
            "runs": [{name: getattr(run, name) for name in ("value", "seed", "seconds", "guards")} for run in runs],
        }
        values = " ".join(format_number(run.value) for run in runs)
        lines.append(f"  {title:<{max(map(len, titles))}}  median {middle:<9} of {values}")
    for guard in manifest.guard:
        of_sides = (median([run.guards[guard.name] for run in runs]) for runs in columns)
        lines.append(f"  {guard.name}: {' and '.join(format_number(value, guard.unit) for value in of_sides)}")
    colors: dict[str | None, Color] = {"after": "green", "before": "red", None: "grey"}
    in_words = comparison.in_words(revisions[0].name, revisions[1].name)
    lines.append(options.painter()(in_words, colors[comparison.better]))
    fields |= {name: getattr(settled, name) for name in ("pairs", "difference", "interval", "in_percent")}
    fields |= {"better": comparison.better, "is_sure": comparison.is_exact or settled.is_sure}
    options.print_answer({**fields, "is_exact": comparison.is_exact}, *lines)
