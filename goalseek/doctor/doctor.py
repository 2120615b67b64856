"""Whether a project is fit for the night: git, the manifest, every check, and then the verifier is tried."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from goalseek.doctor.cheats import prepared, runs_owed
from goalseek.doctor.checks import FURTHER, NEEDED, DoctorContext, cheats, provider
from goalseek.doctor.trial import BREAKAGES, trial
from goalseek.errors import LOCKED, GoalseekError
from goalseek.evaluation.measurements import Target, baseline_subject, incumbent_subject
from goalseek.git.command import git_text
from goalseek.humanize import format_duration, pluralize
from goalseek.manifest.loading import Loaded, ignore_home
from goalseek.project.opening import opened
from goalseek.project.preflight import Finding
from goalseek.project.project import Project
from goalseek.statistics.scale import median

LEAST_GIT = (2, 38)


class NothingToKeep(GoalseekError):
    """Leaves an opened project as it leaves one that it refuses: without a trace in the repository."""


def examine(
    loaded: Loaded,
    is_quick: bool,
    tell: Callable[[str], None],
    may_leave: Callable[[bool], bool],
    is_live: bool = False,
) -> Iterator[Finding]:
    """Every finding, in the order of the checks. ``tell`` is told first what it will cost; ``is_live`` asks the
    provider something small; ``may_leave`` is asked before a command that failed is run outside the sandbox, and told
    whether its cause is known.

    Raises GoalseekError where another run holds the lock; whatever else is wrong is a finding. Where the verifier does
    not fit, nothing is left in the repository.
    """
    found = git_version()
    yield found
    if not found.ok:
        return
    yield Finding("manifest", True, f"{loaded.path}: {_goal(loaded)}")
    try:
        with opened(loaded, doing="doctor") as run:
            yield from _examine(run, is_quick, tell, may_leave, is_live)
            if run.standing.seq < 0:
                raise NothingToKeep("nothing was recorded")
    except NothingToKeep:
        return
    except GoalseekError as error:
        if error.exit_code == LOCKED:
            raise
        name = "sandbox" if error.stop_reason == "sandbox" else "repository"
        yield Finding(name, False, error.message, error.hint)


def git_version() -> Finding:
    """Whether git is there, and new enough."""
    try:
        text = git_text("--version")
    except GoalseekError as error:
        return Finding("git", False, error.message, error.hint)
    found = re.search(r"(\d+)\.(\d+)", text)
    if found is None or (int(found[1]), int(found[2])) < LEAST_GIT:
        least = ".".join(map(str, LEAST_GIT))
        return Finding("git", False, f"{text} is too old", f"install git {least} or newer")
    return Finding("git", True, text)


def cost(context: DoctorContext, subject: Target) -> str:
    """What the verifier's runs will cost, in words."""
    owed, most = max(0, 2 - len(subject.known)), len(BREAKAGES)
    parts = ["setup once"] if context.config.manifest.setup else []
    parts += [f"{pluralize(owed, 'run')} of the verifier"] if owed else []
    parts.append(f"1 to {most} runs with every writable file broken")
    gaming = runs_owed(context.cheats, subject.tree)
    parts += [f"{gaming} runs with a cheat each" if gaming > 1 else "1 run with a cheat"] if gaming else []
    runs = ", then ".join(parts)
    if not subject.known:
        return f"doctor: {runs}; how long one takes, the first will tell"
    took = median([made.seconds for made in subject.known])
    least, longest = format_duration((owed + 1 + gaming) * took), format_duration((owed + most + gaming) * took)
    return f"doctor: {runs}; one takes about {format_duration(took)}: {least} to {longest} together"


def _examine(
    project: Project, is_quick: bool, tell: Callable[[str], None], may_leave: Callable[[bool], bool], is_live: bool
) -> Iterator[Finding]:
    standing = project.standing
    ignore_home(project.loaded)
    commit = standing.incumbent.commit if standing.incumbent else project.repository.head()
    tree = project.repository.tree_of(commit)
    config = project.config() if standing.baseline else project.fresh_config()
    entries = project.repository.objects.files(tree)
    patient = DoctorContext(project, config, tree, entries, prepared(project, config, tree, entries), is_live)
    needed = [finding for check in NEEDED for finding in check(patient)]
    is_sound = all(finding.ok for finding in needed)
    subject = None
    if is_sound and not is_quick:
        subject = incumbent_subject(project, config) if standing.baseline else baseline_subject(project, config)
        tell(cost(patient, subject))
    yield from needed
    for check in FURTHER:
        for finding in check(patient):
            is_sound = is_sound and (finding.ok or check in (provider, cheats))
            yield finding
    if is_quick:
        yield from _untried(patient)
        return
    if subject is None or not is_sound:
        yield Finding("verifier", True, "was not run: first mend what is above", "then: goalseek doctor")
        return
    yield from trial(project, subject, patient.cheats, tell, may_leave)


def _untried(context: DoctorContext) -> Iterator[Finding]:
    fit = [cheat.patch for cheat in context.cheats if not cheat.unfit]
    if fit:
        yield Finding("cheat", True, f"applies: {', '.join(fit)}", "whether it loses, goalseek doctor shows")


def _goal(loaded: Loaded) -> str:
    metric = loaded.manifest.metric
    return f"{metric.direction} {metric.name}"
