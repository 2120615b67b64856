"""The examination by ``doctor``: git, the manifest, every check, and then a trial of the verifier."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence

from msgspec import structs

from goalseek.doctor.cheats import AppliedCheat, apply_cheat
from goalseek.doctor.checks import CHECKS, ask_checks, finding_of
from goalseek.doctor.isolation import describe_reading
from goalseek.doctor.scope_checks import is_time_unclear
from goalseek.doctor.subject import subject_of
from goalseek.doctor.trial import BREAKAGES, NUMBERS, try_verifier
from goalseek.errors import LOCKED, GoalseekError
from goalseek.evaluation.measurements import Target, current_target
from goalseek.git.command import git
from goalseek.humanize import format_duration, pluralize
from goalseek.manifest.loading import ManifestFile, make_log_folders
from goalseek.project.opening import open_project
from goalseek.statistics.scale import median
from goalseek.values import Finding, StopReason

LEAST_GIT = (2, 38)
_NEEDED = ("repository", "globs", "number", "committed")  # before anything is said of the trial
_ASIDE = ("provider", "login", "endpoint", "live", "isolation", "cheat")  # the verifier can be tried without


class NothingToKeep(GoalseekError):
    """Raised to close an opened project without a trace in the repository, as one that is refused."""


def examine(
    loaded: ManifestFile,
    is_quick: bool,
    on_message: Callable[[str], None],
    ask_consent: Callable[[bool], bool],
    is_live: bool = False,
    is_committed_only: bool = False,
) -> Iterator[Finding]:
    """Every finding, in the order of the checks. ``on_message`` gets first what it will cost; ``is_live`` makes a small
    call to the provider; ``is_committed_only`` leaves uncommitted changes out; ``ask_consent`` is called before a
    failed command is run outside the sandbox, with whether the cause is known already.

    Raises GoalseekError where another run holds the lock; whatever else is wrong is a finding. Where the verifier does
    not fit, nothing is left in the repository.
    """
    try:
        text = git("--version").decode().strip()
    except GoalseekError as error:
        yield finding_of(error, "git")
        return
    match = re.search(r"(\d+)\.(\d+)", text)
    if match is None or (int(match[1]), int(match[2])) < LEAST_GIT:
        least = ".".join(map(str, LEAST_GIT))
        yield Finding("wrong", f"{text} is too old", f"install git {least} or newer", "git")
        return
    yield Finding("good", text, place="git")
    metric = loaded.manifest.metric
    is_unclear = is_time_unclear(loaded)
    reading = "a time of which metric.command is missing" if is_unclear else describe_reading(metric)
    text = f"{loaded.path}: {metric.direction} {metric.name}, {reading}"
    remedy = 'metric.command = "..." names the command whose time it is' if is_unclear else ""
    yield Finding("wrong" if is_unclear else "good", text, remedy, "manifest")
    try:
        with contextlib.suppress(NothingToKeep), open_project(loaded, doing="doctor") as project:
            project.is_committed_only = is_committed_only
            make_log_folders(project.loaded)
            subject = subject_of(project, "doctor")
            incumbent = project.standing.incumbent
            tree = project.repository.tree_of(incumbent.commit if incumbent else project.repository.head())
            cheats = tuple(
                apply_cheat(project, subject.config, tree, cheat.patch) for cheat in subject.config.manifest.cheat
            )
            subject = structs.replace(subject, cheats=cheats, is_live=is_live)
            needed = list(ask_checks(subject, _NEEDED))
            is_sound = all(finding.ok for finding in needed)
            target = current_target(project, subject.config) if is_sound and not is_quick else None
            if target:
                on_message(_describe_cost(cheats, target))
            yield from needed
            for finding in ask_checks(subject, [check.place for check in CHECKS if check.place not in _NEEDED]):
                is_sound = is_sound and (finding.ok or finding.place in _ASIDE)
                yield finding
            if target and is_sound:
                yield from try_verifier(project, target, cheats, on_message, ask_consent)
            elif not is_quick:
                yield Finding("note", "was not run: first correct what is above", "then: goalseek doctor", "verifier")
            elif applicable := [cheat.patch for cheat in cheats if not cheat.unfit]:
                text = f"applies: {', '.join(applicable)}"
                yield Finding("note", text, "whether it loses, goalseek doctor shows", "cheat")
            if project.standing.seq < 0:
                raise NothingToKeep("nothing was recorded")
    except GoalseekError as error:
        if error.exit_code == LOCKED:
            raise
        yield finding_of(error, "sandbox" if error.stop_reason == StopReason.SANDBOX else "repository")


def _describe_cost(cheats: Sequence[AppliedCheat], subject: Target) -> str:
    """A sentence on how many runs of the verifier there will be, and how long they take."""
    missing, breakages = max(0, NUMBERS - len(subject.known)), len(BREAKAGES)
    cheat_runs = sum(bool(cheat.tree) for cheat in cheats)
    parts = ["setup once"] if subject.config.manifest.setup else []
    parts += [f"{pluralize(missing, 'run')} of the verifier"] if missing else []
    parts.append(f"1 to {breakages} runs with every writable file broken")
    parts += [f"{cheat_runs} runs with a cheat each" if cheat_runs > 1 else "1 run with a cheat"] if cheat_runs else []
    runs = ", then ".join(parts)
    if not subject.known:
        return f"doctor: {runs}; how long one takes, the first will tell"
    seconds = median([measurement.seconds for measurement in subject.known])
    least, longest = (format_duration((missing + count + cheat_runs) * seconds) for count in (1, breakages))
    return f"doctor: {runs}; one takes about {format_duration(seconds)}: {least} to {longest} together"
