"""A trial of the verifier: two numbers of one tree, an unchanged candidate that must not win, sabotage, cheats."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import structs

from goalseek.doctor.cheats import AppliedCheat, count_cheat_runs, measure_cheats
from goalseek.doctor.diagnose import diagnose_sandbox, unseen_file_hint
from goalseek.doctor.isolation import describe_reading
from goalseek.doctor.tree_checks import fixed_seed_note
from goalseek.evaluation.measurements import (
    Evaluation,
    MeasuredValue,
    Target,
    baseline_error,
    measure_in_turn,
    measurement_of,
    record_measurement,
    sync_bench,
    trial_folder,
)
from goalseek.git.objects import Entry
from goalseek.git.paths import SUBMODULE
from goalseek.humanize import format_duration, format_number
from goalseek.manifest.tables import Manifest
from goalseek.phase_values import Evidence, Failure, Verdict
from goalseek.project.project import Project
from goalseek.statistics.advice import CPU_TIME, MOST_CASES, count_cases, fixed_seed_hint, wall_time_hint
from goalseek.statistics.guards import describe_bounds, guard_warning
from goalseek.statistics.noise_state import NoiseState, cost_of_deciding
from goalseek.statistics.scale import median
from goalseek.statistics.sequential_test import AcceptanceRule
from goalseek.values import Finding, Reason, VerifierRun

NUMBERS = 2


def try_verifier(
    project: Project,
    subject: Target,
    cheats: Sequence[AppliedCheat],
    on_message: Callable[[str], None],
    ask_consent: Callable[[bool], bool],
) -> Iterator[Finding]:
    """Runs the verifier until there are NUMBERS numbers, then tries sabotage and cheats.

    ``ask_consent`` is called before anything is run outside the sandbox. The numbers are recorded even if this is
    interrupted, but not before the first baseline if the verifier turns out not to fit.
    """
    manifest = subject.config.manifest
    is_fit = True
    try:
        for run in measure_in_turn(project, itertools.repeat(subject, NUMBERS - len(subject.known))):
            measurement = run.number
            if isinstance(measurement, Failure):
                is_fit = False
                remedy = unseen_file_hint(project, manifest, run.evidence.verify, subject.tree, trial_folder(project))
                error = baseline_error(measurement, trial_folder(project), remedy=remedy)
                yield Finding("wrong", error.message, error.hint, "verifier")
                yield from diagnose_sandbox(project, subject, ask_consent, remedy)
                return
            if not subject.known:
                runs = count_cheat_runs(cheats)
                least, most = NUMBERS + runs, NUMBERS - 1 + len(BREAKAGES) + runs
                on_message(f"doctor: one run takes {format_duration(measurement.seconds)}; {least} to {most} to go")
            subject = structs.replace(subject, known=(*subject.known, measurement))
        seed_note = fixed_seed_note(project.repository.objects, subject.config, subject.tree)
        yield from _describe_numbers(manifest, subject.known, project.standing.noise.differed, seed_note)
        records = [record for record in project.ledger.recent if record.epoch == project.standing.epoch]
        yield from check_steps(manifest, subject.known, [record.metric.value for record in records])
        try:
            finding = check_sabotage(project, subject)
            is_fit = finding.ok
            yield finding
            if is_fit:
                yield from measure_cheats(project, subject, cheats)
        finally:
            sync_bench(Evaluation(project, subject.config), subject.tree)
        if cheats and not is_fit:
            yield Finding("note", "no cheat was tried: first correct the verifier", "then: goalseek doctor", "cheat")
    finally:
        if is_fit or project.standing.seq >= 0:
            for measurement in subject.known:
                if not measurement.before:
                    record_measurement(project, subject, measurement, "doctor")


def _describe_numbers(
    manifest: Manifest, known: Sequence[MeasuredValue], has_differed: bool, seed_note: Finding | None
) -> Iterator[Finding]:
    """The last two numbers with their times, the guards, and what they say of the noise, the seed and the cost."""
    metric = manifest.metric
    numbers = [
        f"{format_number(run.value, metric.unit)} (all in {format_duration(run.seconds)}"
        f"{', measured before' if run.before else ''})"
        for run in known[-NUMBERS:]
    ]
    yield Finding("good", f"{metric.name} = {' and '.join(numbers)}: {describe_reading(metric)}", place="verifier")
    for guard in manifest.guard:
        if (value := known[-1].guards.get(guard.name)) is not None:
            text = f"guard {guard.name} = {format_number(value, guard.unit)}: {describe_reading(guard)}"
            yield Finding("good", f"{text}; {describe_bounds(guard, None)}", place="verifier")
    if metric.source == "wall":
        yield from check_wall_times(known)
    yield check_unchanged(manifest, known)
    yield from check_seed(known, seed_note)
    is_noisy = has_differed or len({measurement.value for measurement in known}) > 1
    seconds = median([measurement.seconds for measurement in known])
    yield Finding("good", cost_of_deciding(manifest, is_noisy, seconds), place="cost")


def check_unchanged(manifest: Manifest, known: Sequence[MeasuredValue]) -> Finding:
    """Whether a candidate that changes nothing would win by luck, in either order of the last two measurements."""
    first, second = known[-2:]
    evidence = Evidence(guard_runs=(first.guards, second.guards))
    if warning := guard_warning(manifest.guard, "the code as it is", evidence.guards, {}):
        remedy = "correct the code, and commit; or change the bound in [[guard]]"
        return Finding("wrong", warning, remedy, "guard")
    verdicts = [_as_candidate(manifest, second, first), _as_candidate(manifest, first, second)]
    win = next((verdict for verdict in verdicts if verdict), None)
    if win and manifest.metric.noise == "none":
        text = f"a candidate that changes nothing can win: {win.why}. The metric is noisy, and metric.noise is none"
        gap = format_number(abs(first.value - second.value), manifest.metric.unit)
        remedy = f'take metric.noise = "none" out, or set metric.min_delta well above {gap}'
        return Finding("wrong", text, remedy, "unchanged")
    rejection = next((verdict for verdict in verdicts if verdict.reason in (Reason.GUARD, Reason.NOT_VALID)), None)
    if rejection:
        text = f"the code as it is would be refused: {rejection.why}"
        return Finding("note", text, "no candidate is kept until one corrects that", "unchanged")
    if first.value == second.value:
        return Finding("good", "a candidate that changes nothing does not win", place="unchanged")
    if win:
        text = "the metric is noisy: a candidate that seems better is run again, in turn with the incumbent"
        return Finding("note", text, "goalseek noise shows how noisy it is, and what that costs", "noise")
    text = "a candidate that changes nothing does not win: the metric is noisy, but less than min_delta"
    return Finding("good", text, place="unchanged")


def check_wall_times(known: Sequence[MeasuredValue]) -> Iterator[Finding]:
    """Names processor time where the wall times of one tree are far apart."""
    if hint := wall_time_hint([measurement.value for measurement in known]):
        yield Finding("note", hint, CPU_TIME, "noise")


def check_seed(known: Sequence[MeasuredValue], note: Finding | None = None) -> Iterator[Finding]:
    """A finding where runs give equal numbers: by the ``note`` the code fixes a seed, or long runs let one guess it."""
    if len({measurement.value for measurement in known}) > 1:
        return
    if note:
        yield note
    elif hint := fixed_seed_hint(median([measurement.seconds for measurement in known])):
        yield Finding("note", f"{len(known)} runs gave the same number", hint, "seed")


_NUMBERS_THAT_TELL = 3


def check_steps(
    manifest: Manifest, known: Sequence[MeasuredValue], recorded: Iterable[float | None]
) -> Iterator[Finding]:
    """A finding where the number is the share of a few cases and no holdout measures others.

    ``known`` are runs of one tree, ``recorded`` the numbers of the climb, None for a candidate without one.
    """
    values = {measurement.value for measurement in known}
    numbers = {*values, *(value for value in recorded if value is not None)}
    examples = manifest.metric.examples
    count = examples if examples and examples <= MOST_CASES else count_cases(numbers)
    is_known = examples is not None or len(numbers) >= _NUMBERS_THAT_TELL
    if count and (examples or 0) <= MOST_CASES and is_known and len(values) == 1 and manifest.holdout is None:
        text = f"1 case of {count} is a step of {format_number(1 / count)}: it repeats, and says little of other cases"
        yield Finding("note", text, "a [holdout] measures others: goalseek help noise", "steps")


def _as_candidate(manifest: Manifest, candidate: MeasuredValue, incumbent: MeasuredValue) -> Verdict:
    run = VerifierRun("candidate", candidate.value, candidate.seed or 0, candidate.seconds)
    evidence = Evidence((run,), (candidate.guards,), candidate.verify)
    state = NoiseState(value=incumbent.value)
    return AcceptanceRule(manifest.metric, manifest.guard, incumbent.guards, state, 0).plain_verdict(evidence)


GARBAGE = b"goalseek sabotage ((((\n"
BREAKAGES: tuple[tuple[str, bytes | None], ...] = (
    ("filled with garbage", GARBAGE),
    ("emptied", b""),
    ("deleted", None),
)
_NOISE = 10
_LEAST_GAIN = 0.05  # of a noisy number, for which the range of two says little


def check_sabotage(project: Project, subject: Target) -> Finding:
    """Whether the verifier noticed a broken candidate, and how: one that it keeps is a cross, as is one unnoticed.

    ``subject.known`` are the unbroken numbers. The breakages are tried in turn until one is noticed. Nothing of them
    gets into a ref or a record.
    """
    unnoticed, unit = [], subject.config.manifest.metric.unit
    for run in measure_in_turn(project, _broken_trees(project, subject)):
        how, evidence = run.target.name, run.evidence
        if text := describe_notice(evidence, subject.known, unit):
            text = f"every writable file {how}: {text}"
            return _preference(subject, evidence, text) or Finding("good", text, place="sabotage")
        unnoticed.append(f"{how}: {format_number(measurement_of(evidence).value, unit)}")
    text = f"every writable file broken, and the number stays ({'; '.join(unnoticed)})"
    remedy = "make the verifier run or read the writable files of the tree in which it runs"
    return Finding("wrong", f"the verifier does not read the candidate: {text}", remedy, "sabotage")


def _preference(subject: Target, evidence: Evidence, text: str) -> Finding | None:
    """The finding where the broken candidate would be kept; None where it would not."""
    manifest, guards = subject.config.manifest, subject.known[-1].guards
    values = [measurement.value for measurement in subject.known]
    value = median(values)
    rule = AcceptanceRule(manifest.metric, manifest.guard, guards, NoiseState(value=value), 0)
    if evidence.failure or not rule.plain_verdict(evidence):
        return None
    if len(set(values)) > 1 and abs(measurement_of(evidence).value - value) < _LEAST_GAIN * abs(value):
        return None
    remedy = f'is metric.direction = "{manifest.metric.direction}" right? If it is, let the verifier refuse broken code'
    text = f"garbage is better than your code: {text} from {format_number(value, manifest.metric.unit)}"
    return Finding("wrong", text, remedy, "sabotage")


def _broken_trees(project: Project, subject: Target) -> Iterator[Target]:
    seed = subject.known[-1].seed  # so that a number computed from the seed alone does not change
    for how, content in BREAKAGES:
        tree = sabotage_tree(project, subject, content)
        if tree != subject.tree:
            yield structs.replace(subject.variant(tree), seed=seed, name=how)


def sabotage_tree(project: Project, subject: Target, content: bytes | None) -> str:
    """The subject's tree with this content in every writable file, or without them."""
    objects, scope = project.repository.objects, subject.config.scope
    blob = objects.write_bytes(content) if content is not None else ""
    edits = {
        path: Entry("100755" if entry.mode == "100755" else "100644", blob) if blob else None
        for path, entry in objects.files(subject.tree).items()
        if entry.mode != SUBMODULE and scope.kind(path) == "writable"
    }
    return objects.splice(subject.tree, edits)


def describe_notice(evidence: Evidence, known: Sequence[MeasuredValue], unit: str) -> str:
    """How the verifier noticed the breakage; "" where it did not.

    Where equal trees gave different numbers, a change counts only if it is over ten times as large as their range.
    """
    if evidence.failure:
        return evidence.failure.why
    value = evidence.runs[0].value
    assert value is not None
    values = [measurement.value for measurement in known]
    nearest = min(values, key=lambda other: abs(other - value))
    if value in values or abs(value - nearest) <= _NOISE * (max(values) - min(values)):
        return ""
    return f"the number goes to {format_number(value, unit)}"
