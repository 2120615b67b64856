"""The examination by ``doctor``: git, the manifest, every check, and a trial of the verifier."""

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import structs

from goalseek.doctor import diagnose, project_checks
from goalseek.doctor.cheats import AppliedCheat, apply_cheat, measure_cheats, verdict_on
from goalseek.doctor.checks import CHECKS, ask_checks, subject_of
from goalseek.doctor.isolation import describe_reading
from goalseek.errors import LOCKED, GoalseekError
from goalseek.evaluation import measurements
from goalseek.git.command import git
from goalseek.git.objects import Entry
from goalseek.git.paths import SUBMODULE
from goalseek.humanize import format_duration, format_number, pluralize
from goalseek.manifest.loading import ManifestFile, make_log_folders
from goalseek.manifest.tables import Manifest
from goalseek.measurement.metric import NoNumber, read_json
from goalseek.phase_values import Evidence, Failure, Verdict
from goalseek.project.opening import open_project
from goalseek.project.project import Project
from goalseek.statistics import guards, noise_report
from goalseek.statistics.cases import CaseState, bar
from goalseek.statistics.noise import cost_of_deciding, median
from goalseek.values import Finding, Level, Reason, StopReason, VerifierRun

LEAST_GIT = (2, 38)
_NEEDED = ("repository", "globs", "number", "committed")  # before anything is said of the trial
_ASIDE = ("provider", "login", "endpoint", "live", "isolation", "cheat")  # the verifier can be tried without
NUMBERS = 2
ASKED = 3  # cases
FEW = 100  # cases
GARBAGE = b"goalseek sabotage ((((\n"
BREAKAGES = {"filled with garbage": GARBAGE, "emptied": b"", "deleted": None}
_NOISE = 10  # how often the range of equal trees' numbers a change must be
_LEAST_GAIN = 0.05  # of a noisy number, for which the range of two says little
_NUMBERS_THAT_TELL = 3


def examine(
    loaded: ManifestFile,
    is_quick: bool,
    on_message: Callable[[str], None],
    ask_consent: Callable[[bool], bool],
    is_live: bool,
    is_committed_only: bool,
) -> Iterator[Finding]:
    """Every finding, in the order of the checks. An unfit verifier leaves the repository as it was.

    ``on_message`` gets the cost first. ``ask_consent`` is asked before a failed command is run outside the sandbox,
    with whether the cause is known. Raises GoalseekError if another run holds the lock.
    """
    try:
        text = git("--version").decode().strip()
    except GoalseekError as error:
        yield Finding("wrong", error.message, error.hint, "git")
        return
    match = re.search(r"(\d+)\.(\d+)", text)
    if match is None or (int(match[1]), int(match[2])) < LEAST_GIT:
        least = ".".join(map(str, LEAST_GIT))
        yield Finding("wrong", f"{text} is too old", f"install git {least} or newer", "git")
        return
    yield Finding("good", text, place="git")
    metric = loaded.manifest.metric
    is_unclear = project_checks.is_time_unclear(loaded)
    reading = "a time without metric.command" if is_unclear else describe_reading(metric)
    text = f"{loaded.path}: {metric.direction} {metric.name}, {reading}"
    remedy = 'name the timed command: metric.command = "..."' if is_unclear else ""
    yield Finding("wrong" if is_unclear else "good", text, remedy, "manifest")
    try:
        with open_project(loaded, doing="doctor", is_trial=True) as project:
            project.is_committed_only = is_committed_only
            make_log_folders(project.loaded)
            subject = subject_of(project, "doctor")
            tree = project.repository.tree_of(subject.commit)
            tables = subject.config.manifest.cheat
            applied = [apply_cheat(project, subject.config, tree, cheat.patch) for cheat in tables]
            cheats = [cheat for cheat in applied if isinstance(cheat, AppliedCheat)]
            unfit = tuple(finding for finding in applied if isinstance(finding, Finding))
            subject = structs.replace(subject, unfit_cheats=unfit, is_live=is_live)
            needed = list(ask_checks(subject, _NEEDED))
            is_sound = all(finding.ok for finding in needed)
            target = measurements.current_target(project, subject.config) if is_sound and not is_quick else None
            if target:
                on_message(_describe_cost(cheats, target))
            yield from needed
            for finding in ask_checks(subject, [check.place for check in CHECKS if check.place not in _NEEDED]):
                is_sound = is_sound and (finding.ok or finding.place in _ASIDE)
                yield finding
            if target and is_sound:
                yield from _try_verifier(project, target, cheats, on_message, ask_consent)
            elif not is_quick:
                yield Finding(
                    "note", "was not run: first correct the findings above", "then: goalseek doctor", "verifier"
                )
            elif cheats:
                text = f"applies: {', '.join(cheat.patch for cheat in cheats)}"
                yield Finding("note", text, "goalseek doctor shows whether it loses", "cheat")
    except GoalseekError as error:
        if error.exit_code == LOCKED:
            raise
        place = "sandbox" if error.stop_reason == StopReason.SANDBOX else "repository"
        yield Finding("wrong", error.message, error.hint, place)


def _describe_cost(cheats: Sequence[AppliedCheat], subject: measurements.Target) -> str:
    missing, breakages = max(0, NUMBERS - len(subject.known)), len(BREAKAGES)
    cheat_runs = sum(bool(cheat.tree) for cheat in cheats)
    parts = ["setup once"] if subject.config.manifest.setup else []
    parts += [f"{pluralize(missing, 'run')} of the verifier"] if missing else []
    parts.append(f"1 to {breakages} runs with every writable file broken")
    parts += [f"{cheat_runs} runs with a cheat each" if cheat_runs > 1 else "1 run with a cheat"] if cheat_runs else []
    runs = ", then ".join(parts)
    if not subject.known:
        return f"doctor: {runs}; the first will show how long one takes"
    seconds = median([measurement.seconds for measurement in subject.known])
    least, longest = (format_duration((missing + count + cheat_runs) * seconds) for count in (1, breakages))
    return f"doctor: {runs}; one takes about {format_duration(seconds)}: {least} to {longest} together"


def _try_verifier(
    project: Project,
    subject: measurements.Target,
    cheats: Sequence[AppliedCheat],
    on_message: Callable[[str], None],
    ask_consent: Callable[[bool], bool],
) -> Iterator[Finding]:
    """Run the verifier for NUMBERS numbers, then try sabotage and cheats. An interrupt loses no number."""
    manifest = subject.config.manifest
    is_fit = True
    try:
        for run in measurements.measure_in_turn(project, itertools.repeat(subject, NUMBERS - len(subject.known))):
            measurement = run.number
            if isinstance(measurement, Failure):
                is_fit = False
                folder, commands = measurements.trial_folder(project), run.evidence.verify
                remedy = diagnose.unseen_file_hint(project, manifest, commands, subject.tree, folder)
                error = measurements.baseline_error(measurement, folder, remedy=remedy)
                yield Finding("wrong", error.message, error.hint, "verifier")
                yield from diagnose.diagnose_sandbox(project, subject, ask_consent, remedy)
                return
            if not subject.known:
                least = NUMBERS + sum(bool(cheat.tree) for cheat in cheats)
                duration, most = format_duration(measurement.seconds), least + len(BREAKAGES) - 1
                on_message(f"doctor: one run takes {duration}; {least} to {most} to go")
            case_ids = run.evidence.case_ids or subject.case_ids
            subject = structs.replace(subject, known=(*subject.known, measurement), case_ids=case_ids)
        seed_note = project_checks.fixed_seed_note(project.repository.objects, subject.config, subject.tree)
        records = [record for record in project.ledger.recent if record.epoch == project.standing.epoch]
        recorded = [record.metric.value for record in records]
        yield from describe_numbers(manifest, subject.known, recorded, project.standing.noise.differed, seed_note)
        if manifest.metric.cases:
            yield from _check_cases(project, subject)
        try:
            finding = _check_sabotage(project, subject)
            is_fit = finding.ok
            yield finding
            if is_fit:
                yield from measure_cheats(project, subject, cheats)
        finally:
            measurements.sync_bench(project, subject.config, subject.tree)
        if manifest.cheat and not is_fit:
            yield Finding("note", "no cheat was tried: first correct the verifier", "then: goalseek doctor", "cheat")
    finally:
        if is_fit or project.standing.seq >= 0:  # an unfit verifier leaves no trace before the first baseline
            for measurement in subject.known:
                if not measurement.before:
                    measurements.record_measurement(project, subject, measurement, "doctor")


def describe_numbers(
    manifest: Manifest,
    known: Sequence[measurements.MeasuredValue],
    recorded: Iterable[float | None],
    has_differed: bool = False,
    seed_note: Finding | None = None,
) -> Iterator[Finding]:
    """The last two numbers, the guards, and their consequences for noise, seed, steps and cost.

    ``recorded`` are the climb's numbers, None for a candidate without one; ``seed_note`` names code that fixes a seed.
    """
    metric, values = manifest.metric, [measurement.value for measurement in known]
    is_same, seconds = len(set(values)) == 1, median([measurement.seconds for measurement in known])
    numbers = [
        f"{format_number(run.value, metric.unit)} (all in {format_duration(run.seconds)}"
        f"{', measured before' if run.before else ''})"
        for run in known[-NUMBERS:]
    ]
    yield Finding("good", f"{metric.name} = {' and '.join(numbers)}: {describe_reading(metric)}", place="verifier")
    for guard in manifest.guard:
        if (value := known[-1].guards.get(guard.name)) is not None:
            text = f"guard {guard.name} = {format_number(value, guard.unit)}: {describe_reading(guard)}"
            yield Finding("good", f"{text}; {guards.describe_bounds(guard, None)}", place="verifier")
    if metric.source == "wall" and (hint := noise_report.wall_time_hint(values)):
        yield Finding("note", hint, noise_report.CPU_TIME, "noise")
    yield _check_unchanged(manifest, *known[-2:])
    if is_same and seed_note:
        yield seed_note
    elif is_same and (hint := noise_report.fixed_seed_hint(seconds)):
        yield Finding("note", f"{len(known)} runs gave the same number", hint, "seed")
    yield Finding("good", cost_of_deciding(manifest, has_differed or not is_same, seconds), place="cost")
    # A number may be the share of a few cases, and no holdout measures others.
    distinct = {*values, *(value for value in recorded if value is not None)}
    examples = metric.examples
    count = examples if examples and examples <= noise_report.MOST_CASES else noise_report.count_cases(distinct)
    is_known = examples is not None or len(distinct) >= _NUMBERS_THAT_TELL
    if count and (examples or 0) <= noise_report.MOST_CASES and is_known and is_same and manifest.holdout is None:
        text = f"1 case of {count} is a step of {format_number(1 / count)}: it repeats, but other cases may differ"
        yield Finding("note", text, "a [holdout] measures others: goalseek help noise", "steps")


def _check_cases(project: Project, subject: measurements.Target) -> Iterator[Finding]:
    """Whether the verifier answers only what it is asked, whether the cases' mean is the number, what they can show."""
    metric, pinned = subject.config.manifest.metric, project.standing.noise.cases
    state = CaseState(subject.case_ids) if subject.case_ids or not pinned else pinned
    count, mean = len(state.ids), subject.known[-1].value
    own_file = measurements.trial_folder(project) / "measurements" / "1" / metric.path
    if metric.query and own_file.is_file() and not subject.known[-1].before:
        try:
            number = read_json(metric, own_file.read_text("utf-8", "replace"), metric.path.endswith(".jsonl"))
            text = f"the mean of the {count} cases is {format_number(mean)}, and query gives {format_number(number)}"
        except NoNumber as error:
            number, text = math.nan, str(error)
        if not math.isclose(number, mean, rel_tol=1e-6, abs_tol=1e-9):
            yield Finding("wrong", text, "correct metric.cases, or take metric.query out", "cases")
    if metric.race == "auto":
        asked = tuple(range(min(ASKED, count)))
        (run,) = measurements.measure_in_turn(project, [structs.replace(subject, seed=None, cases=asked)])
        scores, failure = run.evidence.runs[0].cases, run.evidence.failure
        text = f"asked for {len(asked)} cases of {count}, the verifier "
        if failure or not scores:
            remedy = 'answer only the cases that $GOALSEEK_CASES names, or set metric.race = "off"'
            yield Finding("wrong", f"{text}fails: {failure.why if failure else 'no case'}", remedy, "cases")
        elif len(scores.unpacked()) > len(asked):
            remedy = "one that heeds $GOALSEEK_CASES costs a third: goalseek help cases"
            yield Finding("note", f"{text}answers all: each candidate costs a full run", remedy, "cases")
        elif state is pinned and pinned.looks == (1.0,):
            yield Finding("note", f"{text}answers these alone; the baseline knew no race", "goalseek baseline", "cases")
        else:
            yield Finding("good", f"{text}answers these alone", place="cases")
    least = state.smallest_gain(metric.alpha)
    size = f"{format_number(100 * least, digits=2)} points" if state.is_share else format_number(least, digits=2)
    text = f"{pluralize(count, 'case')}: the least gain to show is {size} if a change alters one answer in ten"
    if count < bar(metric.alpha) ** 2:
        text = f"no change can be kept on {pluralize(count, 'case')}"
    level: Level = "wrong" if count < bar(metric.alpha) ** 2 else "note" if count < FEW else "good"
    remedy = "with fewer than 100, about half of the keeps are luck: add cases, or a [holdout]" if count < FEW else ""
    yield Finding(level, text, remedy, "cases")


def _check_unchanged(
    manifest: Manifest, first: measurements.MeasuredValue, second: measurements.MeasuredValue
) -> Finding:
    """Whether an unchanged candidate would win by luck: each of the two is the candidate once."""
    evidence = Evidence(guard_runs=(first.guards, second.guards))
    if warning := guards.guard_warning(manifest.guard, "the unchanged code", evidence.guards, {}):
        remedy = "correct the code, and commit; or change the bound in [[guard]]"
        return Finding("wrong", warning, remedy, "guard")

    def verdict(candidate: measurements.MeasuredValue, incumbent: measurements.MeasuredValue) -> Verdict:
        run = VerifierRun("candidate", candidate.value, candidate.seed or 0, candidate.seconds)
        evidence = Evidence((run,), (candidate.guards,), candidate.verify)
        return verdict_on(manifest, evidence, incumbent.value, incumbent.guards)

    verdicts = [verdict(second, first), verdict(first, second)]
    win = next((verdict for verdict in verdicts if verdict), None)
    if win and manifest.metric.noise == "none":
        text = f"a candidate that changes nothing can win: {win.why}. The metric is noisy, and metric.noise is none"
        gap = format_number(abs(first.value - second.value), manifest.metric.unit)
        remedy = f'take metric.noise = "none" out, or set metric.min_delta well above {gap}'
        return Finding("wrong", text, remedy, "unchanged")
    rejection = next((verdict for verdict in verdicts if verdict.reason in (Reason.GUARD, Reason.NOT_VALID)), None)
    if rejection:
        text = f"the unchanged code would be rejected: {rejection.why}"
        return Finding("note", text, "no candidate is kept until one corrects that", "unchanged")
    if first.value == second.value:
        return Finding("good", "a candidate that changes nothing does not win", place="unchanged")
    if win:
        text = "the metric is noisy: a candidate that seems better is run again, in turn with the incumbent"
        return Finding("note", text, "goalseek noise shows the noise and its cost", "noise")
    text = "a candidate that changes nothing does not win: the metric is noisy, but less than min_delta"
    return Finding("good", text, place="unchanged")


def _check_sabotage(project: Project, subject: measurements.Target) -> Finding:
    objects, manifest = project.repository.objects, subject.config.manifest
    unit, values = manifest.metric.unit, [measurement.value for measurement in subject.known]
    unnoticed = []
    for how, content in BREAKAGES.items():
        blob = objects.write_bytes(content) if content is not None else ""
        edits = {
            path: Entry("100755" if entry.mode == "100755" else "100644", blob) if blob else None
            for path, entry in objects.files(subject.tree).items()
            if entry.mode != SUBMODULE and subject.config.scope.kind(path) == "writable"
        }
        if (tree := objects.splice(subject.tree, edits)) == subject.tree:
            continue
        # With the same seed, so that a number computed from the seed alone does not change.
        broken = structs.replace(subject.variant(tree), seed=subject.known[-1].seed)
        (run,) = measurements.measure_in_turn(project, [broken])
        evidence = run.evidence
        if evidence.failure:
            return Finding("good", f"every writable file {how}: {evidence.failure.why}", place="sabotage")
        value, middle = measurements.measurement_of(evidence).value, median(values)
        spread = max(values) - min(values)
        if value in values or min(abs(value - other) for other in values) <= _NOISE * spread:
            unnoticed.append(f"{how}: {format_number(value, unit)}")
            continue
        text = f"every writable file {how}: the number goes to {format_number(value, unit)}"
        is_near = spread > 0 and abs(value - middle) < _LEAST_GAIN * abs(middle)
        if is_near or not verdict_on(manifest, evidence, middle, subject.known[-1].guards):
            return Finding("good", text, place="sabotage")
        way = f'is metric.direction = "{manifest.metric.direction}" right?'
        text = f"garbage is better than your code: {text} from {format_number(middle, unit)}"
        return Finding("wrong", text, f"{way} If it is, let the verifier refuse broken code", "sabotage")
    text = f"every writable file broken, and the number stays ({'; '.join(unnoticed)})"
    remedy = "make the verifier run or read the writable files of the tree in which it runs"
    return Finding("wrong", f"the verifier does not read the candidate: {text}", remedy, "sabotage")
