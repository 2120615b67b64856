"""``goalseek noise``: the spread of the metric over repeated measurements of unchanged code, or of any command."""

import contextlib
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import Any, TextIO

from msgspec import structs

from goalseek.cli.options import Options, Parser, refuse
from goalseek.doctor.checks import check_fit, subject_of
from goalseek.doctor.project_checks import fixed_seed_note
from goalseek.errors import BAD_FINDING, GitFailed, GoalseekError, Interrupted, exit_code_of_interrupt
from goalseek.evaluation.measurements import MeasuredValue
from goalseek.evaluation.noise_runs import noise_target, repeat_command, repeat_measurements
from goalseek.humanize import format_duration, format_number, parse_duration, pluralize, time_to_go
from goalseek.manifest.rules import check_expressions
from goalseek.manifest.tables import TIME_SOURCES, Reading
from goalseek.phase_values import Failure
from goalseek.project.opening import open_project
from goalseek.statistics import noise_report
from goalseek.statistics.noise import median
from goalseek.statistics.noise_report import NoiseReport, PlannedClimb
from goalseek.views.terminal_text import Paint, Signs, choose_signs, terminal_width

MAX_COLUMNS = 80
_LABEL = 15
_NARROWEST = 40
_LEAST = 8
_MARGIN = len("in order  ")
_EXAMPLE = "goalseek noise --run CMD --regex 'loss: ([0-9.]+)'"


def arguments(parser: Parser) -> None:
    parser.add_argument("-n", dest="count", type=int, metavar="N", default=10, help="the number of runs (default: 10)")
    alone = parser.add_argument_group("without a manifest, in any folder, outside the sandbox")
    command = "the command to run, by sh -c; its number is its time"
    alone.add_argument("--run", dest="command", metavar="CMD", help=command)
    alone.add_argument("--regex", metavar="R", help="a regex for its output, with one group: 'loss: ([0-9.]+)'")
    alone.add_argument("--direction", choices=("maximize", "minimize"), help="the better direction")
    alone.add_argument(
        "--matches", choices=("only", "last"), help="only: exactly one match; last: the last one (default: only)"
    )
    alone.add_argument("--timeout", metavar="TIME", help="of one run: 90, 20m, '2 hours'")
    parser.epilog = (
        "With --run, --query is the metric: a JMESPath in the JSON that the command prints. Without --run, runs are "
        "recorded, and earlier runs of the same tree count for -n."
    )


def run(options: Options) -> int:
    refuse((options.count < 2, f"-n {options.count}: noise is seen in two runs at least", "-n 10"))
    if options.command is not None:
        return _repeat_command(options)
    for name in ("regex", "direction", "matches", "timeout"):
        is_given = getattr(options, name) is not None
        refuse((is_given, f"--{name} goes with --run, not with a manifest", "goalseek noise --run CMD"))
    options.apply_query({})  # a wrong one is refused before anything is measured
    with open_project(options.load_manifest(), options.line_view(), doing="noise") as project:
        check_fit(subject_of(project, "noise"))
        target, incumbent = noise_target(project), project.standing.incumbent
        manifest, metric = target.config.manifest, target.config.manifest.metric
        commit = incumbent.commit if incumbent else project.repository.head()
        of = f"the incumbent, recorded at {format_number(incumbent.value, metric.unit)}" if incumbent else "HEAD"
        plain = {"metric": metric.name, "direction": metric.direction, "commit": commit}
        plain |= {"tree": target.tree, "ruler": target.ruler}
        draws_seed = False
        with contextlib.suppress(GitFailed):  # it fails if nothing matches
            draws_seed = bool(project.repository.git("grep", "--name-only", "GOALSEEK_SEED", target.tree))
        climb = PlannedClimb(
            metric.direction,
            0.0,
            metric.min_delta,
            manifest.limits.iterations or noise_report.ITERATIONS,
            source=metric.source,
            fixed_seed=str(fixed_seed_note(project.repository.objects, target.config, target.tree) or ""),
            draws_seed=draws_seed,
        )
        results = repeat_measurements(project, target, options.count)
        return _report(options, results, climb, f"{metric.name} of {commit[:12]}, {of}", plain)


def _repeat_command(options: Options) -> int:
    is_time = not options.regex and not options.query
    is_maximized = is_time and options.direction == "maximize"
    refuse(
        (bool(options.regex and options.query), "--regex and --query exclude each other", _EXAMPLE),
        (bool(options.manifest), "-m and --run exclude each other", "leave out one of the two"),
        (is_maximized, "a time is always minimized", "leave out --direction"),
        (bool(options.matches and not options.regex), "--matches is for --regex", "leave it out"),
    )
    reading = Reading(
        name="seconds" if is_time else "the number",
        source="wall" if is_time else "stdout" if options.regex else "json",
        path="what it printed",
        query=options.query,
        regex=options.regex,
        matches=options.matches or "only",
    )
    hint = "--regex 'loss: ([0-9.]+)', --query test.loss, or neither for its time"
    refuse(*((True, f"--{path[-1]} {text}", hint) for path, text in check_expressions((), reading)))
    try:
        timeout = parse_duration(options.timeout) if options.timeout is not None else None
    except ValueError as error:
        raise GoalseekError(f"--timeout {options.timeout}: {error}", "--timeout 20m") from None
    options.query = None  # it was the metric's
    options.print_message("noise: the command runs here, as you, outside the sandbox; nothing is recorded")
    direction = "minimize" if is_time else options.direction
    climb = PlannedClimb(direction, 0.0, source=reading.source, is_project=False)
    what = "seconds" if is_time else f"{options.regex or reading.query}"
    plain = {"command": options.command, "direction": direction}
    results = repeat_command(options.command, options.start_folder(), reading, timeout, options.count)
    return _report(options, results, climb, what, plain)


Results = Iterator[MeasuredValue | Failure]


def _report(options: Options, results: Results, climb: PlannedClimb, what: str, plain: dict[str, Any]) -> int:
    measurements: list[MeasuredValue] = []
    failures: list[Failure] = []
    interrupt, seconds = None, 0.0
    try:
        for result in results:
            if isinstance(result, Failure):
                failures.append(result)
                options.print_message(f"a run failed: {result.reason}: {result.why}")
                continue
            measurements.append(result)
            seconds = median([measurement.seconds for measurement in measurements])
            if not result.before:
                value = format_number(result.value, "s" if climb.source in TIME_SOURCES else "")
                to_go = time_to_go(options.count - len(measurements), seconds)
                text = f"{value:>9}  {format_duration(result.seconds)}{to_go}"
                options.print_message(f"{len(measurements):>4} of {options.count}  {text}")
    except (KeyboardInterrupt, Interrupted) as error:
        interrupt = error
        if not climb.is_project:
            count = f"{len(measurements)} of {pluralize(options.count, 'run')}"
            options.print_message(f"noise: interrupted after {count}")
    climb = structs.replace(climb, seconds=seconds)
    values = [measurement.value for measurement in measurements]
    report = noise_report.noise_report(climb.direction or "maximize", values) if len(values) > 1 else None
    if options.wants_json:
        names = ("value", "seed", "seconds", "before")
        runs = [{name: getattr(measurement, name) for name in names} for measurement in measurements]
        failed = [{"reason": failure.reason, "why": failure.why} for failure in failures]
        fields = {**plain, "runs": runs, "failures": failed, "seconds": seconds}
        options.print_answer(fields | _figures(climb, report) if report else fields)
    elif report is None:
        count = "1 run" if measurements else "no run"
        options.print_message(f"noise: {count} with a number; the noise needs at least two")
    else:
        before = sum(measurement.before for measurement in measurements)
        head = f"{what}: {pluralize(len(values), 'run')}"
        head += f", {before} of them earlier (-n counts all)" if before else ""
        head += f"; one takes about {format_duration(seconds)}"
        head += f"; {len(failures)} failed" if failures else ""
        lines = noise_page(head, report, climb, sys.stdout, options.painter())
        print("\n".join(lines), flush=True)
    if interrupt and climb.is_project:  # the completed runs are recorded
        raise interrupt
    return exit_code_of_interrupt(interrupt) if interrupt else BAD_FINDING if failures else 0


def _figures(climb: PlannedClimb, report: NoiseReport) -> dict[str, Any]:
    count, wished = climb.iterations, climb.wished_gain(report.middle)
    claimed = noise_report.false_gain(report.sd, count)
    false_keeps = 0.0 if report.deterministic else noise_report.expected_false_keeps(count)
    return {
        "deterministic": report.deterministic,
        "median": report.middle,
        "in_percent": report.in_percent,
        "sd": report.sd,
        "sd_interval": report.interval,
        **{name: getattr(report, name) for name in ("sd_in_units", "outliers", "skew", "drift")},
        "greedy": {"iterations": count, "false_keeps": false_keeps, "claimed": claimed},
        "power": [{"effect": effect * report.sd, "kept": share} for effect, share in noise_report.POWER],
        "min_delta": wished,
        "repeats": noise_report.repeats_for(report.sd_in_units, wished) if wished else None,
        "advice": noise_report.advice(report, climb),
    }


def noise_page(head: str, report: NoiseReport, climb: PlannedClimb, stream: TextIO, paint: Paint) -> Iterator[str]:
    """No line is wider than the terminal; for a file or a pipe nothing is wrapped."""
    signs, columns = choose_signs(stream), terminal_width(stream)
    yield from _wrap(head, columns, 0)
    if plot := plot_lines(report, columns or MAX_COLUMNS, signs, paint):
        yield ""
        yield from plot
        legend = f"{signs.middle} is the median, {signs.heights[0]} lowest to {signs.heights[-1]} highest"
        yield paint(" " * _MARGIN + legend, "grey")
    yield ""
    entries = [(f"{name:<{_LABEL}}{text}", _LABEL) for name, text in noise_report.findings(report, climb)]
    for number, text in enumerate(noise_report.advice(report, climb), start=1):
        entries.append((f"{'advice' if number == 1 else '':<{_LABEL}}{number}. {text}", _LABEL + 3))
    for entry, indent in entries:
        first, *rest = _wrap(entry, columns, indent)
        yield paint(first[:_LABEL], "bold") + first[_LABEL:]
        yield from rest


def _wrap(text: str, columns: int | None, indent: int) -> list[str]:
    if columns is None:
        return [text]
    return textwrap.wrap(text, max(columns, _NARROWEST), subsequent_indent=" " * indent, break_on_hyphens=False)


def plot_lines(report: NoiseReport, columns: int, signs: Signs, paint: Paint) -> list[str]:
    """Two lines of at most ``columns``, the first with the last runs that fit; none if all values are equal."""
    if report.deterministic:
        return []
    room = min(columns, MAX_COLUMNS) - _MARGIN
    low, high = min(report.values), max(report.values)

    def bin_of(value: float, count: int) -> int:
        share = (value / 2 - low / 2) / (high / 2 - low / 2)  # halves: the difference of two large numbers stays finite
        return min(count - 1, int(share * count))

    bars = []
    for value in report.values[-max(_LEAST, room) :]:
        bar = signs.heights[bin_of(value, len(signs.heights))]
        bars.append(paint(bar, "magenta") if value in report.outliers else bar)
    first, last = format_number(low), format_number(high)
    width = max(_LEAST, room - len(first) - len(last) - 4)
    counts = Counter(bin_of(value, width) for value in report.values)
    dots = signs.rule + signs.runs
    strip = [dots[min(counts[index], len(signs.runs))] for index in range(width)]
    strip[bin_of(report.middle, width)] = paint(signs.middle, "green")
    return [
        "in order  " + "".join(bars),
        f"spread    {first} {signs.ends[0]}{''.join(strip)}{signs.ends[1]} {last}",
    ]
