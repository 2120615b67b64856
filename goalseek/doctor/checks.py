"""The checks of a project that run no verifier; each gives findings, with a remedy where something is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import structs

from goalseek.doctor.cheats import AppliedCheat
from goalseek.doctor.isolation import isolation_notes, timing_notes
from goalseek.doctor.provider_checks import check_providers
from goalseek.errors import GoalseekError
from goalseek.evaluation.measurements import Evaluation, sync_bench
from goalseek.findings import Finding, finding_of
from goalseek.git.ignore import matcher
from goalseek.git.objects import Entry
from goalseek.git.paths import quote_path
from goalseek.humanize import MAX_NAMES, abbreviate, pluralize
from goalseek.manifest.parallel import one_bench_note
from goalseek.project import preflight
from goalseek.project.fitness import differences_from_head, scope_notes, space_note
from goalseek.project.landing import check_refs
from goalseek.providers.registry import manifest_commands
from goalseek.sandbox import editable_installs, level
from goalseek.sandbox.environment import check_notify_command, program_environment
from goalseek.workspace.answers import hidden_paths, visible_answers
from goalseek.workspace.shared_folders import refuse_unfit_gives, refuse_unfit_shares


class DoctorContext(Evaluation):
    """What is checked: also the tree that a climb would start from, and the cheats applied to it.

    ``is_live`` allows a call to the provider.
    """

    tree: str
    entries: Mapping[str, Entry]
    cheats: tuple[AppliedCheat, ...] = ()
    is_live: bool = False


Check = Callable[[DoctorContext], Iterator[Finding]]


def check_repository(context: DoctorContext) -> Iterator[Finding]:
    """Branch and records are as goalseek left them, and no other ref is in their way."""
    project = context.project
    project.repository.refuse_conflicting_branch()
    check_refs(project)
    if project.ledger.mended:
        yield Finding("note", project.ledger.mended, "nothing to do", "records")
    where = f"HEAD, {project.repository.head()[:12]}"
    if incumbent := project.standing.incumbent:
        where = f"the incumbent of iteration {incumbent.iteration}, {incumbent.commit[:12]}"
    yield Finding("good", f"{project.repository.top}; climbs from {where}")


def check_globs(context: DoctorContext) -> Iterator[Finding]:
    """Every glob matches a file, and every named file exists."""
    project = context.project
    if project.standing.baseline is None and (problems := list(preflight.glob_problems(project, context.entries))):
        yield from problems
        return
    notes = list(scope_notes(project, context.entries))
    preflight.refuse_nothing_writable(project, context.entries)
    preflight.refuse_unfit(project, context.entries)
    preflight.refuse_foreign_logs(project.loaded, project.standing.next_iteration)
    yield from notes
    yield Finding("good", _summarize_scope(context, is_whole=not notes))


def check_committed_files(context: DoctorContext) -> Iterator[Finding]:
    """Everything that the first baseline depends on is in HEAD. Not checked later, as it is pinned then."""
    if context.project.standing.baseline is not None:
        return
    uncommitted = preflight.UncommittedFiles.read(context.project.repository, context.config.scope)
    if not context.project.is_committed_only:
        uncommitted.refuse_of_ruler()
    if changed := uncommitted.note("HEAD"):
        yield Finding("note", changed, "commit them, to climb from them; or stash them")
        return
    yield Finding("good", "all that the number depends on is in HEAD")


def check_trees(context: DoctorContext) -> Iterator[Finding]:
    """Workspace and bench can be made."""
    project, config = context.project, context.config
    yield from filter(None, [space_note(project)])
    try:
        sync_bench(context, context.tree)
        if project.standing.incumbent:
            project.workspace(config)
    except (GoalseekError, OSError) as error:
        remedy = f"make room, or set XDG_CACHE_HOME: they lie in {project.places.home}"
        yield Finding("wrong", str(error), remedy)
        return
    yield Finding("good", f"made in {project.places.home}")


def check_ruler(context: DoctorContext) -> Iterator[Finding]:
    """Manifest and files are what was pinned."""
    yield from filter(None, [differences_from_head(context.project).finding])


def check_environment(context: DoctorContext) -> Iterator[Finding]:
    """No shared environment imports the user's checkout, no shared folder shows or displaces what is hidden."""
    project = context.project
    preflight.refuse_hidden_clashes(context.config, project.places.prefix, context.entries)
    editable_installs.refuse_editable(project.loaded.manifest, project.confines)
    refuse_unfit_shares(project.loaded, project.repository, project.places, context.config.scope, context.entries)
    if project.standing.baseline is None:
        refuse_unfit_gives(context.config.manifest, project.places.prefix, context.config.scope, context.entries)
    yield from editable_installs.find_on_path(project.loaded.manifest, project.confines)
    scope = context.config.manifest.scope
    if scope.share:
        hides = bool(scope.hidden or scope.hidden_from)
        text = "no shared folder imports your checkout" + ", and no path is both shared and hidden" * hides
        yield Finding("good", text)


def check_isolation(context: DoctorContext) -> Iterator[Finding]:
    """How well each command is isolated, and which answers candidate code can read."""
    manifest, folder = context.config.manifest, context.project.folder
    hidden = hidden_paths(folder, manifest, context.config.scope.prefix, context.config.hidden_from, context.entries)
    is_unclear = preflight.is_time_unclear(context.project.loaded)
    yield from isolation_notes(manifest, is_unclear)
    yield from () if is_unclear else timing_notes(manifest, hidden)
    yield from visible_answers(folder, manifest, context.config.scope.prefix, hidden, context.entries)


def check_confinement(context: DoctorContext) -> Iterator[Finding]:
    """The level of the sandbox, and what it does not enforce."""
    confines, manifest = context.project.confines, context.config.manifest
    confines.refuse_unfit()
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
        yield Finding("note", "\n".join((text + ":" * bool(gaps), *(f"  {gap}" for gap in gaps))), remedy)
    for sentence in confines.weakening_notes():
        yield Finding("note", sentence, "leave sandbox.cache out where a build is quick without")


def check_allowed_paths(context: DoctorContext) -> Iterator[Finding]:
    """Programs and paths that are shown beside the trees and the system's own folders, and why."""
    confines, manifest = context.project.confines, context.config.manifest
    if confines.level.name == "none":
        return
    verify, agent = (
        program_environment(variables, {}, confines.scratch) for variables in (manifest.env.verify, manifest.env.agent)
    )
    commands: list[tuple[str | Sequence[str], dict[str, str], str]]
    commands = [(command.run, verify, command.cwd) for command in manifest.verify]
    commands += [(manifest.setup.run, verify, ".")] if manifest.setup else []
    commands += [(words, agent, ".") for words in manifest_commands(context.project.loaded)]
    reasons = {
        need.path: need.why
        for command, variables, folder in commands
        for need in confines.required_paths([command], variables, folder)
    }
    reasons |= dict.fromkeys(confines.shared, "scope.share")
    reasons |= dict.fromkeys(confines.readable(), "sandbox.read")
    reasons |= dict.fromkeys(confines.devices(), "sandbox.devices, for VERIFY only")
    lines = [f"{path} ({why})" for path, why in sorted(reasons.items())]
    text = "beside the trees and the system's own folders, programs see " + ("nothing" if not lines else "read-only:")
    yield Finding("good", "\n".join((text, *(f"  {line}" for line in lines))))


def check_cheats(context: DoctorContext) -> Iterator[Finding]:
    """Every cheat is a patch that applies."""
    remedy = "make it again with git diff, from the tree that the climb starts from; or take it out of the manifest"
    for cheat in context.cheats:
        if cheat.unfit:
            yield Finding("wrong", f"{cheat.patch} {cheat.unfit}", remedy)


def check_benches(context: DoctorContext) -> Iterator[Finding]:
    """Why there is one bench, where the manifest asks for several."""
    manifest = context.config.manifest
    if reason := one_bench_note(manifest, None):
        yield Finding("good", f"parallel.benches = {manifest.parallel.benches}, but {reason}")


def check_notification(context: DoctorContext) -> Iterator[Finding]:
    """The program of ``[notify]`` can be started."""
    if problem := check_notify_command(context.project.loaded):
        yield problem
    elif command := context.project.loaded.manifest.notify.command:
        yield Finding("good", f"{command[0]} can be started")


REQUIRED_CHECKS: Mapping[str, Check] = {
    "repository": check_repository,
    "globs": check_globs,
    "number": lambda context: preflight.time_problems(context.project.loaded),
    "committed": check_committed_files,
}
FURTHER_CHECKS: Mapping[str, Check] = {
    "left out": lambda context: preflight.tree_notes(context.project, context.entries),
    "pinned": check_ruler,
    "environment": check_environment,
    "provider": lambda context: check_providers(context, context.entries, context.is_live),
    "isolation": check_isolation,
    "sandbox": check_confinement,
    "allowed": check_allowed_paths,
    "benches": check_benches,
    "notify": check_notification,
    "cheat": check_cheats,
    "trees": check_trees,
}


def run_check(name: str, check: Check, context: DoctorContext) -> Iterator[Finding]:
    """The findings of a check, under its name; a GoalseekError is its last."""
    try:
        for finding in check(context):
            yield finding if finding.place else structs.replace(finding, place=name)
    except GoalseekError as error:
        yield finding_of(error, name)


def _summarize_scope(context: DoctorContext, is_whole: bool) -> str:
    scope, prefix = context.config.manifest.scope, context.project.places.prefix
    by_kind: dict[str, list[str]] = {}
    for path in context.entries:
        by_kind.setdefault(context.config.scope.kind(path), []).append(path.removeprefix(prefix))
    hidden = by_kind.get("hidden", [])
    hidden_by_pattern = list(filter(matcher(scope.hidden), hidden)) if scope.hidden else []
    read_only = filter(matcher(scope.read_only), (path.removeprefix(prefix) for path in context.entries))
    parts = [_count_files(by_kind.get("writable", []), "writable")]
    parts += [_count_files(hidden_by_pattern, "hidden")] if scope.hidden else []
    parts += [_count_files(list(read_only), "read-only")] if scope.read_only else []
    own = [quote_path(path) for path in hidden if path not in hidden_by_pattern]
    text = f"{'every glob matches: ' if is_whole else ''}{', '.join(parts)}"
    text += f"; kept from the agent as well: {abbreviate(own)}" if own else ""
    unlisted = [quote_path(path) for path in context.entries if context.config.scope.unlisted_instructions(path)]
    text += (
        f"; agents take instructions from it, so no candidate changes it: {abbreviate(unlisted)}" if unlisted else ""
    )
    text += f"; generated and never committed: {', '.join(scope.generated)}" if scope.generated else ""
    return text + (f"; shared, not copied: {', '.join(scope.share)}" if scope.share else "")


def _count_files(paths: Sequence[str], kind: str) -> str:
    names = f" ({', '.join(map(quote_path, paths))})" if 0 < len(paths) <= MAX_NAMES else ""
    return pluralize(len(paths), f"{kind} file") + names
