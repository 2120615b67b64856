"""The benches that ``[parallel]`` asks for: whether as many can measure at once, and what that does to the number."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from goalseek.evaluation.benches import Crew, side_by_side
from goalseek.evaluation.measurements import Evaluation, MeasuredValue, Target, measure_target, number_in, unused_seed
from goalseek.humanize import format_distinct, format_duration
from goalseek.manifest.parallel import benches_of, one_bench_reason
from goalseek.manifest.tables import Manifest
from goalseek.phase_values import Verdict
from goalseek.project.preflight import CheckResult
from goalseek.project.project import Project
from goalseek.statistics.scale import median

_FIRST_NUMBER = 2000  # of these measurements, after those of the broken trees


def count_benches(manifest: Manifest) -> int:
    """How many measurements are tried at once; 0 where they are made one at a time."""
    benches = benches_of(manifest, None)
    return benches if benches > 1 else 0


def check_one_bench(context: Evaluation) -> Iterator[CheckResult]:
    """Why there is one bench, where the manifest asks for several."""
    manifest = context.config.manifest
    if manifest.parallel.benches > 1 and (reason := one_bench_reason(manifest)):
        yield CheckResult("benches", True, f"parallel.benches = {manifest.parallel.benches}, but {reason}")


def try_benches(project: Project, subject: Target) -> Iterator[CheckResult]:
    """Measures once on all benches at once, which a climb would do, beside the numbers that are known."""
    count = count_benches(subject.config.manifest)
    if not count:
        return

    def measure(beside: Project, slot: int) -> MeasuredValue | Verdict:
        return number_in(subject, measure_target(beside, subject, unused_seed(project, _FIRST_NUMBER + slot)))

    crew = Crew()
    with side_by_side(project, crew, count) as projects:
        results = crew.run([functools.partial(measure, beside, slot) for slot, beside in enumerate(projects)])
    failed = [result for result in results if isinstance(result, Verdict)]
    if failed:
        text = f"of {count} measurements at once {len(failed)} failed, and alone none: {failed[0].why}"
        remedy = "give each bench its own by parallel.slots or $GOALSEEK_SLOT; or measure one at a time: benches = 1"
        yield CheckResult("benches", False, text, remedy)
        return
    yield _compare(subject, [result for result in results if isinstance(result, MeasuredValue)])


def _compare(subject: Target, at_once: Sequence[MeasuredValue]) -> CheckResult:
    alone, count = subject.known[-2:], len(at_once)
    times = [format_duration(median([run.seconds for run in runs])) for runs in (at_once, alone)]
    seconds = f"one takes {times[0]}, and {times[1]} alone"
    values = [run.value for run in (*at_once, *alone)]
    if len(set(values)) == 1:
        return CheckResult("benches", True, f"{count} measurements at once give the same number; {seconds}")
    numbers = format_distinct(*values, unit=subject.config.manifest.metric.unit)
    text = f"{count} measurements at once gave {', '.join(numbers[:count])}, and alone {' and '.join(numbers[count:])}"
    if len({run.value for run in alone}) == 1:
        text = f"the number moves where several are measured, and alone it does not: {text}"
    remedy = f"goalseek noise --jobs {count} says whether level or spread change; benches = 1 measures one at a time"
    return CheckResult("benches", True, f"{text}; {seconds}", remedy)
