"""The checks of a project that run no verifier, each with the commands that ask it.

What is wrong refuses a climb and is a cross of doctor's, in the same words; what is worth knowing is a note of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct, structs

from goalseek.doctor import project_checks
from goalseek.doctor.isolation import check_exposure, check_separation
from goalseek.doctor.project_checks import Subject
from goalseek.doctor.provider_checks import check_programs, check_provider
from goalseek.errors import GoalseekError
from goalseek.manifest.loading import with_manifest_option
from goalseek.manifest.parallel import one_bench_reason
from goalseek.providers.registry import WITHOUT_PROGRAM, manifest_commands
from goalseek.sandbox import level
from goalseek.sandbox.environment import notify_launch, program_environment
from goalseek.values import Finding


def check_confinement(subject: Subject) -> Iterator[Finding]:
    project, manifest, confines = subject.project, subject.config.manifest, subject.project.confines
    confines.refuse_unfit()
    has_agent = project.has_provider() and project.provider_table().name not in WITHOUT_PROGRAM
    has_network = confines.table.agent_network and (has_agent or manifest.review is not None)
    has_network = has_network or any(command.network for command in manifest.verify)
    has_network = has_network or (manifest.setup is not None and manifest.setup.network)
    project.watch.on_sandbox(confines.level, confines.level.not_enforced(has_network))
    if confines.table.cache and confines.level.name != "none":
        text = f"sandbox.cache: what a candidate leaves in {', '.join(confines.table.cache)}, the next one finds"
        yield Finding("note", text, "leave sandbox.cache out where a build is quick without")


def describe_confinement(subject: Subject) -> Iterator[Finding]:
    confines, manifest = subject.project.confines, subject.config.manifest
    name, reasons = confines.level.name, confines.level.reason
    for who, network in (
        ("the agent", confines.table.agent_network),
        ("a candidate's code", any(command.network for command in manifest.verify)),
    ):
        gaps = confines.level.not_enforced(network)
        text = (
            f"no sandbox: {who} runs as you, so" if name == "none" else f"{name} encloses {who}" + ", but" * bool(gaps)
        )
        remedy = "" if name == "bubblewrap" else "; ".join((*reasons, level.installation_hint("bubblewrap")))
        text = "\n".join((text + ":" * bool(gaps), *(f"  {gap}" for gap in gaps)))
        yield Finding("note" if remedy else "good", text, remedy)


def check_allowed_paths(subject: Subject) -> Iterator[Finding]:
    """Programs and paths that are shown beside the trees and the system's own folders, and why."""
    confines, manifest = subject.project.confines, subject.config.manifest
    if confines.level.name == "none":
        return
    verify, agent = (
        program_environment(variables, {}, confines.scratch) for variables in (manifest.env.verify, manifest.env.agent)
    )
    commands: list[tuple[str | Sequence[str], dict[str, str], str]]
    commands = [(command.run, verify, command.cwd) for command in manifest.verify]
    commands += [(manifest.setup.run, verify, ".")] if manifest.setup else []
    commands += [(words, agent, ".") for words in manifest_commands(subject.project.loaded)]
    reasons = {
        path: why
        for command, variables, folder in commands
        for path, why in confines.required_paths([command], variables, folder).items()
    }
    reasons |= dict.fromkeys(confines.shared, "scope.share")
    reasons |= dict.fromkeys(confines.readable(), "sandbox.read")
    reasons |= dict.fromkeys(confines.devices(), "sandbox.devices, for VERIFY only")
    lines = [f"{path} ({why})" for path, why in sorted(reasons.items())]
    text = "beside the trees and the system's own folders, programs see " + ("nothing" if not lines else "read-only:")
    yield Finding("good", "\n".join((text, *(f"  {line}" for line in lines))))


def check_cheats(subject: Subject) -> Iterator[Finding]:
    remedy = "make it again with git diff, from the tree that the climb starts from; or take it out of the manifest"
    for cheat in subject.cheats:
        if cheat.unfit:
            yield Finding("wrong", f"{cheat.patch} {cheat.unfit}", remedy)


def check_benches(subject: Subject) -> Iterator[Finding]:
    manifest, jobs = subject.config.manifest, subject.jobs
    asked = f"--jobs {jobs}" if jobs else f"parallel.benches = {manifest.parallel.benches}"
    if (jobs or manifest.parallel.benches) > 1 and (reason := one_bench_reason(manifest)):
        yield Finding("note", f"{asked}, but {reason}")


def check_notification(subject: Subject) -> Iterator[Finding]:
    launch = notify_launch(subject.project.loaded)
    if isinstance(launch, Finding):
        yield launch
    elif command := subject.project.loaded.manifest.notify.command:
        yield Finding("good", f"{command[0]} can be started")


def finding_of(error: GoalseekError, place: str = "") -> Finding:
    return Finding("wrong", error.message, error.hint, place)


class Check(Struct, frozen=True):
    """A check, the name under which ``doctor`` shows what it finds, and the commands that ask it."""

    place: str
    find: Callable[[Subject], Iterable[Finding]]
    asked_by: tuple[str, ...]


_ADVISING = ("isolation", "notify")
_CLIMBING = ("doctor", "iterate", "baseline", "revert")
_FITTING = (*_CLIMBING, "noise", "promote", "settle", "init")

CHECKS = (
    Check("trees", project_checks.check_disk, _FITTING),
    Check("repository", project_checks.check_branch, _FITTING),
    Check("repository", project_checks.check_own_refs, _CLIMBING),
    Check("globs", project_checks.check_globs, (*_FITTING, "compare")),
    Check("globs", project_checks.check_named_files, (*_FITTING, "compare")),
    Check("globs", project_checks.check_log_folders, _FITTING),
    Check("globs", project_checks.check_writable_files, ("doctor", "iterate", "baseline")),
    Check("globs", project_checks.summarize_scope, ("doctor",)),
    Check("number", project_checks.check_number, _FITTING),
    Check("committed", project_checks.check_committed_files, _FITTING),
    Check("left out", project_checks.check_left_out_files, _FITTING),
    Check("pinned", project_checks.check_ruler, _FITTING),
    Check("number", project_checks.check_numbers, _FITTING),
    Check("environment", project_checks.check_environment, (*_FITTING, "compare")),
    Check("isolation", check_separation, ("doctor",)),
    Check("isolation", check_exposure, ("doctor", "iterate", "settle", "init")),
    Check("sandbox", check_confinement, (*_FITTING, "compare")),
    Check("sandbox", describe_confinement, ("doctor",)),
    Check("allowed", check_allowed_paths, ("doctor",)),
    Check("benches", check_benches, ("doctor", "iterate")),
    Check("notify", check_notification, ("doctor", "iterate")),
    Check("cheat", check_cheats, ("doctor",)),
    Check("trees", project_checks.check_room_for_trees, ("doctor", "iterate")),
    Check("provider", check_provider, ("doctor", "iterate")),
    Check("provider", check_programs, ("doctor",)),
    Check("trees", project_checks.check_trees, ("doctor",)),
)


def _asked(subject: Subject, places: Sequence[str]) -> Iterator[Check]:
    asked = (check for check in CHECKS if subject.command in check.asked_by)
    return (check for check in asked if not places or check.place in places)


def ask_checks(subject: Subject, places: Sequence[str] = ()) -> Iterator[Finding]:
    """What the checks find that the subject's command asks, all or those of some ``places``; an error is a finding.

    A place where something is wrong is not good as well.
    """
    wrong = set()
    for check in _asked(subject, places):
        if check.find is project_checks.check_trees and "environment" in wrong:  # files would lie on one another
            continue
        try:
            for finding in check.find(subject):
                placed = finding if finding.place else structs.replace(finding, place=check.place)
                if not placed.ok:
                    wrong.add(placed.place)
                if placed.level != "good" or placed.place not in wrong:
                    yield placed
        except GoalseekError as error:
            wrong.add(check.place)
            yield finding_of(error, check.place)


def check_fit(subject: Subject, places: Sequence[str] = ()) -> None:
    """Notes what is worth knowing before the subject's command goes on. Raises GoalseekError for what is wrong.

    What is wrong with ``_ADVISING`` places is a note: it decides nothing of the climb itself.
    """
    for check in _asked(subject, places):
        for finding in check.find(subject):
            if not finding.ok and check.place not in _ADVISING:
                raise GoalseekError(finding.text, finding.remedy)
            if finding.level != "good":
                subject.project.watch.on_note(with_manifest_option(str(finding), subject.project.loaded.path))
