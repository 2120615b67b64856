"""``goalseek noise``: the spread of the metric over repeated measurements of unchanged code, or of any command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from goalseek import humanize
from goalseek.cli.options import load_manifest, start_folder
from goalseek.cli.output import apply_query, print_json, print_message, wants_json
from goalseek.cli.watch import line_view
from goalseek.errors import BAD_FINDING, USAGE, GoalseekError, Interrupted, exit_code_of_interrupt
from goalseek.evaluation.measurements import Measurement
from goalseek.evaluation.noise_runs import (
    noise_target,
    refuse_unreadable,
    repeat_measurements,
    run_command,
)
from goalseek.humanize import format_duration, format_number, pluralize
from goalseek.manifest.tables import Reading
from goalseek.phase_values import Failure
from goalseek.project.opening import open_project
from goalseek.statistics.advice import ITERATIONS, PlannedClimb, advice, costs
from goalseek.statistics.noise_report import NoiseReport, noise_report
from goalseek.statistics.scale import median
from goalseek.views.noise import noise_page
from goalseek.views.terminal_text import painter

_ONLY_WITH_RUN = ("regex", "wall", "direction", "matches", "timeout")


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``noise`` takes."""
    parser.add_argument("-n", dest="count", type=int, metavar="N", default=10, help="so many runs (10)")
    alone = parser.add_argument_group("without a manifest, in any folder, in no sandbox")
    alone.add_argument("--run", dest="command", metavar="CMD", help="the command to run, as sh takes it")
    alone.add_argument("--regex", metavar="R", help="of what it prints, one group: 'loss: ([0-9.]+)'")
    alone.add_argument("--wall", action="store_true", default=None, help="its wall time in seconds, minimized")
    alone.add_argument("--direction", choices=("maximize", "minimize"), help="what is better")
    alone.add_argument("--matches", choices=("only", "last"), help="where the regex matches more than once (only)")
    alone.add_argument("--timeout", metavar="T", help="of one run: 90s, 20m")
    parser.epilog = (
        "With --run, --query is the metric's: JMESPath in the JSON that the command prints. Runs of a project's "
        "verifier are recorded, and those made before count for -n; of a command without a manifest nothing is kept."
    )


def run(options: argparse.Namespace) -> int:
    """Measures and prints the statistics; gives 1 where a run failed."""
    if options.count < 2:
        raise GoalseekError(f"-n {options.count}: noise is seen in two runs at least", "-n 10", USAGE)
    if options.command is not None:
        return _run_command(options)
    for name in _ONLY_WITH_RUN:
        if getattr(options, name) is not None:
            raise GoalseekError(f"--{name} is for --run; here the manifest says it", "goalseek noise --run CMD", USAGE)
    if wants_json(options):
        apply_query(options, {})
    return _run_project(options)


def _run_project(options: argparse.Namespace) -> int:
    with open_project(load_manifest(options), line_view(options), doing="noise") as project:
        subject = noise_target(project)
        manifest, standing = subject.config.manifest, project.standing
        metric, limit = manifest.metric, manifest.limits.iterations
        commit = standing.incumbent.commit if standing.incumbent else project.repository.head()
        what = f"{metric.name} of {commit[:12]}, {'the incumbent' if standing.incumbent else 'HEAD'}"
        plain = {"metric": metric.name, "direction": metric.direction, "commit": commit}
        plain |= {"tree": subject.tree, "ruler": subject.ruler}
        runs = _Runs(options, repeat_measurements(project, subject, options.count))
        interrupt = runs.collect()  # completed measurements are recorded
        is_time = metric.source == "wall"
        request = PlannedClimb(metric.direction, runs.seconds, metric.min_delta, limit or ITERATIONS, is_time)
        _show(options, runs, request, what, plain)
        if interrupt:
            raise interrupt
    return BAD_FINDING if runs.failures else 0


def _run_command(options: argparse.Namespace) -> int:
    """Measures the command of ``--run``, without a manifest."""
    sources = [name for name in ("regex", "query", "wall") if getattr(options, name)]
    if len(sources) != 1:
        message = "one of --regex, --query and --wall says what the number is"
        raise GoalseekError(message, "goalseek noise --run CMD --regex 'loss: ([0-9.]+)'", USAGE)
    if options.manifest:
        raise GoalseekError("-m and --run: a manifest has its own command", "leave one of them out", USAGE)
    if options.wall and options.direction == "maximize":
        raise GoalseekError("--wall: of a time, less is better", "leave out --direction", USAGE)
    if options.matches and not options.regex:
        raise GoalseekError("--matches is for --regex", "leave it out", USAGE)
    source = {"regex": "stdout", "query": "json", "wall": "wall"}[sources[0]]
    reading = Reading(
        name="seconds" if options.wall else "the number",
        source=source,  # type: ignore[arg-type]
        path="what it printed",
        query=options.query,
        regex=options.regex,
        matches=options.matches or "only",
    )
    refuse_unreadable(reading)
    timeout = _timeout(options)
    options.query = None  # it was the metric's
    direction = "minimize" if options.wall else options.direction
    print_message(options, "noise: the command runs here, as you, in no sandbox; nothing is recorded")
    runs = _Runs(options, run_command(options.command, start_folder(options), reading, timeout, options.count))
    code = 0
    if interrupt := runs.collect():
        code = exit_code_of_interrupt(interrupt)
        count = f"{len(runs.measurements)} of {pluralize(options.count, 'run')}"
        print_message(options, f"noise: interrupted after {count}")
    request = PlannedClimb(direction, runs.seconds, is_time=bool(options.wall), is_project=False)
    what = "seconds" if options.wall else f"{options.regex or reading.query}"
    _show(options, runs, request, what, {"command": options.command, "direction": direction})
    return code or (BAD_FINDING if runs.failures else 0)


def _timeout(options: argparse.Namespace) -> float | None:
    try:
        return humanize.parse_duration(options.timeout) if options.timeout is not None else None
    except ValueError as error:
        raise GoalseekError(f"--timeout {options.timeout}: {error}", "--timeout 20m", USAGE) from None


class _Runs:
    """The measurements and failures so far; each is reported on stderr."""

    def __init__(self, options: argparse.Namespace, results: Iterator[Measurement | Failure]) -> None:
        self.measurements: list[Measurement] = []
        self.failures: list[Failure] = []
        self._options = options
        self._results = results

    def collect(self) -> BaseException | None:
        """Waits for all of them; gives the interrupt where one came first."""
        try:
            for result in self._results:
                self._add(result)
        except (KeyboardInterrupt, Interrupted) as interrupt:
            return interrupt
        return None

    def _add(self, result: Measurement | Failure) -> None:
        if isinstance(result, Failure):
            self.failures.append(result)
            print_message(self._options, f"a run failed: {result.reason}: {result.why}")
            return
        self.measurements.append(result)
        if result.before:
            return
        remaining = self._options.count - len(self.measurements)
        value, seconds = format_number(result.value), format_duration(result.seconds)
        to_go = f"; {remaining} to go, about {format_duration(remaining * self.seconds)}" if remaining else ""
        line = f"{len(self.measurements):>4} of {self._options.count}  {value:>9}  {seconds}{to_go}"
        print_message(self._options, line)

    @property
    def seconds(self) -> float:
        """The median seconds of one; 0 before the first."""
        return median([measurement.seconds for measurement in self.measurements]) if self.measurements else 0.0


def _show(options: argparse.Namespace, runs: _Runs, request: PlannedClimb, what: str, plain: dict[str, Any]) -> None:
    values = [measurement.value for measurement in runs.measurements]
    report = noise_report(request.direction or "maximize", values) if len(values) > 1 else None
    if wants_json(options):
        print_json(options, {**plain, **_figures(runs, report, request)})
        return
    if report is None:
        count = "1 run" if runs.measurements else "no run"
        print_message(options, f"noise: {count} with a number, and two at least are needed to see it")
        return
    before = sum(measurement.before for measurement in runs.measurements)
    head = f"{what}: {pluralize(len(values), 'run')}"
    head += f", {before} of them made before (-n says how many together)" if before else ""
    head += f"; one takes about {format_duration(runs.seconds)}"
    head += f"; {len(runs.failures)} failed" if runs.failures else ""
    lines = noise_page(head, report, request, sys.stdout, painter(sys.stdout, options.color))
    print("\n".join(lines), flush=True)


def _figures(runs: _Runs, report: NoiseReport | None, request: PlannedClimb) -> dict[str, Any]:
    fields = ("value", "seed", "seconds", "before")
    plain: dict[str, Any] = {
        "runs": [{name: getattr(measurement, name) for name in fields} for measurement in runs.measurements],
        "failures": [{"reason": failure.reason, "why": failure.why} for failure in runs.failures],
        "seconds": runs.seconds,
    }
    if report is None:
        return plain
    cost = costs(report, request)
    return {
        **plain,
        "deterministic": report.deterministic,
        "median": report.middle,
        "in_percent": report.in_percent,
        "sd": report.sd,
        "sd_interval": report.interval,
        **{name: getattr(report, name) for name in ("sd_in_units", "outliers", "skew", "drift")},
        "greedy": {"iterations": cost.iterations, "false_keeps": cost.false_keeps, "claimed": cost.claimed},
        "power": [{"effect": effect, "kept": share} for effect, share in cost.power],
        "min_delta": cost.wished,
        "repeats": cost.repeats,
        "advice": advice(report, request),
    }
