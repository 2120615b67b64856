"""``goalseek noise``: how much the metric moves when nothing changes; with ``--run``, of any command, in any folder."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from goalseek import humanize
from goalseek.cli.options import loaded, start_folder
from goalseek.cli.output import answer, queried, say, wants_json
from goalseek.cli.watch import watch_in_words
from goalseek.errors import BAD_FINDING, USAGE, GoalseekError, Interrupted
from goalseek.evaluation.measurements import Measurement
from goalseek.evaluation.noise_runs import (
    AloneCommand,
    alone_runs,
    refuse_unreadable,
    unchanged_runs,
    unchanged_subject,
)
from goalseek.humanize import format_duration, format_number, pluralize
from goalseek.manifest.tables import Reading
from goalseek.phase_values import Failure
from goalseek.project.opening import opened
from goalseek.statistics.advice import ITERATIONS, Asked, advice, costs, findings
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
    """Runs, and says what came of it; 1 where a run failed."""
    if options.count < 2:
        raise GoalseekError(f"-n {options.count}: noise is seen in two runs at least", "-n 10", USAGE)
    if options.command is not None:
        return _alone(options)
    for name in _ONLY_WITH_RUN:
        if getattr(options, name) is not None:
            raise GoalseekError(f"--{name} is for --run; here the manifest says it", "goalseek noise --run CMD", USAGE)
    if wants_json(options):
        queried(options, {})
    return _of_project(options)


def _of_project(options: argparse.Namespace) -> int:
    with opened(loaded(options), watch_in_words(options), doing="noise") as opened_run:
        subject = unchanged_subject(opened_run)
        manifest, standing = subject.config.manifest, opened_run.standing
        metric, limit = manifest.metric, manifest.limits.iterations
        commit = standing.incumbent.commit if standing.incumbent else opened_run.repository.head()
        what = f"{metric.name} of {commit[:12]}, {'the incumbent' if standing.incumbent else 'HEAD'}"
        plain = {"metric": metric.name, "direction": metric.direction, "commit": commit}
        plain |= {"tree": subject.tree, "ruler": subject.ruler}
        runs = _Runs(options, unchanged_runs(opened_run, subject, options.count))

        def show() -> None:
            asked = Asked(
                metric.direction, runs.seconds, metric.min_delta, limit or ITERATIONS, metric.source == "wall"
            )
            _show(options, runs, asked, what, plain)

        try:
            runs.make()
        except (KeyboardInterrupt, Interrupted):  # what was measured is recorded
            show()
            raise
        show()
    return BAD_FINDING if runs.failures else 0


def _alone(options: argparse.Namespace) -> int:
    """Of a command without a manifest."""
    ways = [name for name in ("regex", "query", "wall") if getattr(options, name)]
    if len(ways) != 1:
        said = "one of --regex, --query and --wall says what the number is"
        raise GoalseekError(said, "goalseek noise --run CMD --regex 'loss: ([0-9.]+)'", USAGE)
    if options.manifest:
        raise GoalseekError("-m and --run: a manifest has its own command", "leave one of them out", USAGE)
    if options.wall and options.direction == "maximize":
        raise GoalseekError("--wall: of a time, less is better", "leave out --direction", USAGE)
    if options.matches and not options.regex:
        raise GoalseekError("--matches is for --regex", "leave it out", USAGE)
    source = {"regex": "stdout", "query": "json", "wall": "wall"}[ways[0]]
    reading = Reading(
        name="seconds" if options.wall else "the number",
        source=source,  # type: ignore[arg-type]
        path="what it printed",
        query=options.query,
        regex=options.regex,
        matches=options.matches or "only",
    )
    refuse_unreadable(reading)
    command = AloneCommand(options.command, start_folder(options), reading, _timeout(options))
    options.query = None  # it was the metric's
    direction = "minimize" if options.wall else options.direction
    say(options, "noise: the command runs here, as you, in no sandbox; nothing is recorded")
    runs = _Runs(options, alone_runs(command, options.count))
    code = 0
    try:
        runs.make()
    except (KeyboardInterrupt, Interrupted) as error:
        code = 128 + (error.signal_number if isinstance(error, Interrupted) else 2)
        say(options, f"noise: interrupted after {len(runs.made)} of {pluralize(options.count, 'run')}")
    asked = Asked(direction, runs.seconds, is_time=bool(options.wall), is_project=False)
    what = "seconds" if options.wall else f"{options.regex or command.reading.query}"
    _show(options, runs, asked, what, {"command": options.command, "direction": direction})
    return code or (BAD_FINDING if runs.failures else 0)


def _timeout(options: argparse.Namespace) -> float | None:
    try:
        return humanize.seconds(options.timeout) if options.timeout is not None else None
    except ValueError as error:
        raise GoalseekError(f"--timeout {options.timeout}: {error}", "--timeout 20m", USAGE) from None


class _Runs:
    """The runs as they come; each is told on stderr."""

    def __init__(self, options: argparse.Namespace, coming: Iterator[Measurement | Failure]) -> None:
        self.made: list[Measurement] = []
        self.failures: list[Failure] = []
        self._options = options
        self._coming = coming

    def make(self) -> None:
        """Makes them all."""
        count = self._options.count
        for found in self._coming:
            if isinstance(found, Failure):
                self.failures.append(found)
                say(self._options, f"a run failed: {found.reason}: {found.why}")
                continue
            self.made.append(found)
            if found.before:
                continue
            left = count - len(self.made)
            told = f"{len(self.made):>4} of {count}  {format_number(found.value):>9}  {format_duration(found.seconds)}"
            say(self._options, told + (f"; {left} to go, about {format_duration(left * self.seconds)}" if left else ""))

    @property
    def values(self) -> list[float]:
        """In the order in which they were measured."""
        return [made.value for made in self.made]

    @property
    def seconds(self) -> float:
        """What one usually takes; 0 before the first."""
        return median([made.seconds for made in self.made]) if self.made else 0.0


def _show(options: argparse.Namespace, runs: _Runs, asked: Asked, what: str, plain: dict[str, Any]) -> None:
    report = noise_report(asked.direction or "maximize", runs.values) if len(runs.made) > 1 else None
    if wants_json(options):
        answer(options, {**plain, **_figures(runs, report, asked)})
        return
    if report is None:
        made = "1 run" if runs.made else "no run"
        say(options, f"noise: {made} with a number, and two at least are needed to see it")
        return
    before = sum(made.before for made in runs.made)
    made = pluralize(len(runs.made), "run") + (
        f", {before} of them made before (-n says how many together)" if before else ""
    )
    head = f"{what}: {made}; one takes about {format_duration(runs.seconds)}"
    if runs.failures:
        head += f"; {len(runs.failures)} failed"
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    paint = painter(sys.stdout, options.color)
    lines: Iterable[str] = noise_page(
        head, report, findings(report, asked), advice(report, asked), sys.stdout, columns, paint
    )
    print("\n".join(lines), flush=True)


def _figures(runs: _Runs, report: NoiseReport | None, asked: Asked) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "runs": [
            {"value": made.value, "seed": made.seed, "seconds": made.seconds, "before": made.before}
            for made in runs.made
        ],
        "failures": [{"reason": failure.reason, "why": failure.why} for failure in runs.failures],
        "seconds": runs.seconds,
    }
    if report is None:
        return plain
    cost = costs(report, asked)
    return {
        **plain,
        "deterministic": report.deterministic,
        "median": report.middle,
        "in_percent": report.in_percent,
        "sd": report.sd,
        "sd_interval": report.interval,
        "sd_in_units": report.sd_in_units,
        "outliers": report.outliers,
        "skew": report.skew,
        "drift": report.drift,
        "greedy": {"iterations": cost.iterations, "false_keeps": cost.false_keeps, "claimed": cost.claimed},
        "power": [{"effect": effect, "kept": share} for effect, share in cost.power],
        "min_delta": cost.wished,
        "repeats": cost.repeats,
        "advice": advice(report, asked),
    }
