"""The checks of a project that run no verifier: each says what it found and what would mend it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from goalseek.doctor import provider_checks
from goalseek.doctor.cheats import Cheat
from goalseek.doctor.isolation import words_about
from goalseek.errors import GoalseekError
from goalseek.git.ignore import matcher
from goalseek.git.objects import Entry
from goalseek.git.paths import quote_path
from goalseek.humanize import abbreviate, pluralize
from goalseek.project import preflight
from goalseek.project.config import Config
from goalseek.project.opening import refuse_nothing_writable, scope_notes, writable_files
from goalseek.project.preflight import Finding
from goalseek.project.project import Project
from goalseek.project.refs import check_refs
from goalseek.project.status import differing
from goalseek.providers.registry import chosen_provider, programs_of
from goalseek.sandbox import editable_installs, level
from goalseek.sandbox.environment import program_environment
from goalseek.workspace.shared_folders import refuse_unfit_gives, refuse_unfit_shares


@dataclass(frozen=True)
class DoctorContext:
    """What is looked at: the open project, what it goes by, the files of the tree that it would climb from, and its
    cheats on that tree. ``is_live`` allows a call to the provider.
    """

    run: Project
    config: Config
    tree: str
    entries: Mapping[str, Entry]
    cheats: tuple[Cheat, ...] = ()
    is_live: bool = False


Check = Callable[[DoctorContext], Iterator[Finding]]


def repository(context: DoctorContext) -> Iterator[Finding]:
    """Branch and records are as goalseek left them, and nothing is in the way."""
    run = context.run
    try:
        run.repository.refuse_branch_in_the_way()
        check_refs(run)
    except GoalseekError as error:
        yield Finding("repository", False, error.message, error.hint)
        return
    if run.ledger.mended:
        yield Finding("records", True, run.ledger.mended, "nothing to do")
    where = f"HEAD, {run.repository.head()[:12]}"
    if run.standing.incumbent:
        where = f"the incumbent of iteration {run.standing.incumbent.iteration}, {run.standing.incumbent.commit[:12]}"
    yield Finding("repository", True, f"{run.repository.top}; climbs from {where}")


def globs(context: DoctorContext) -> Iterator[Finding]:
    """Every glob matches, and what is named is there."""
    run, prefix = context.run, context.run.places.prefix
    if run.standing.baseline is None:
        problems = list(preflight.glob_problems(run.loaded, prefix, context.entries))
        for problem in problems:
            yield Finding("globs", False, problem, preflight.GLOBS)
        if problems:
            return
    try:
        notes = scope_notes(run, context.entries)
        refuse_nothing_writable(run, context.entries)
        preflight.refuse_unfit(run.loaded, run.repository, prefix, context.entries)
        preflight.refuse_foreign_logs(run.loaded, run.standing.last_iteration + 1)
    except GoalseekError as error:
        yield Finding("globs", False, error.message, error.hint)
        return
    for told in notes:
        text, _, remedy = told.rpartition("; ")
        yield Finding("globs", True, text, remedy)
    yield Finding("globs", True, _counted(context, is_whole=not notes))


def committed(context: DoctorContext) -> Iterator[Finding]:
    """What the first baseline depends on is in HEAD. Later ones were pinned."""
    if context.run.standing.baseline is not None:
        return
    try:
        preflight.refuse_uncommitted(context.run.repository, context.config.scope)
    except GoalseekError as error:
        yield Finding("committed", False, error.message, error.hint)
        return
    if changed := preflight.uncommitted_words(context.run.repository, context.config.scope, "HEAD"):
        yield Finding("committed", True, changed, "commit them, to climb from them; or stash them")
        return
    yield Finding("committed", True, "all that the number depends on is in HEAD")


def trees(context: DoctorContext) -> Iterator[Finding]:
    """Workspace and bench can be made."""
    run, setting = context.run, context.config
    try:
        for sees in dict.fromkeys(command.sees for command in setting.manifest.verify):
            if sees is not None:
                run.bench(setting).sync_to(sees, context.tree)
        if run.standing.incumbent:
            run.workspace(setting)
    except (GoalseekError, OSError) as error:
        yield Finding("trees", False, str(error), f"make room, or set XDG_CACHE_HOME: they lie in {run.places.home}")
        return
    yield Finding("trees", True, f"made in {run.places.home}")


def left_out(context: DoctorContext) -> Iterator[Finding]:
    """Files of the checkout that are not in goalseek's trees."""
    run = context.run
    for told in preflight.notes(run.loaded, run.repository, run.places.prefix, context.entries):
        text, _, remedy = told.rpartition("; ")
        yield Finding("left out", True, text, remedy)


def ruler(context: DoctorContext) -> Iterator[Finding]:
    """Manifest and files are what was pinned."""
    for name in differing(context.run.loaded, context.run.repository.location, context.run.standing):
        yield Finding("ruler", True, f"{name} differs from the pinned ruler", "goalseek baseline adopts it")


def environment(context: DoctorContext) -> Iterator[Finding]:
    """No shared environment imports the user's checkout, and no shared folder shows what is hidden."""
    run = context.run
    try:
        editable_installs.refuse_editable(run.loaded.manifest, run.confines)
        refuse_unfit_shares(run.loaded, run.repository, run.places, context.config.scope, context.entries)
        if run.standing.baseline is None:
            refuse_unfit_gives(context.config.manifest, run.places.prefix, context.config.scope, context.entries)
    except GoalseekError as error:
        yield Finding("environment", False, error.message, error.hint)
        return
    for told in editable_installs.notes(run.loaded.manifest, run.confines):
        text, _, remedy = told.partition("; ")
        yield Finding("environment", True, text, remedy)
    if context.config.manifest.scope.share:
        yield Finding("environment", True, "what is shared means the candidate, and shows nothing hidden")


def provider(context: DoctorContext) -> Iterator[Finding]:
    """Who proposes can start, and may."""
    loaded = context.run.loaded
    if loaded.manifest.provider is None:
        remedy = 'goalseek iterate --provider tune, or provider.name = "command" with provider.command in the manifest'
        yield Finding("provider", True, "the manifest names none", remedy)
        return
    try:
        chosen = chosen_provider(loaded, loaded.manifest.provider)
        chosen.check()
        told = chosen.look_over(writable_files(context.run.repository, context.config.scope, context.entries))
    except GoalseekError as error:
        yield Finding("provider", False, error.message, error.hint)
        return
    yield Finding("provider", True, f"{chosen.name} can start" + (f" and {told}" if told else ""))
    yield from provider_checks.about(context.run, context.config, context.entries, chosen, context.is_live)


def isolation(context: DoctorContext) -> Iterator[Finding]:
    """How well each command is kept apart from what it judges."""
    for words in words_about(context.config.manifest):
        yield Finding("isolation", True, words.text, words.remedy)


def confinement(context: DoctorContext) -> Iterator[Finding]:
    """The level of the sandbox, and what it does not enforce."""
    confines, manifest = context.run.confines, context.config.manifest
    try:
        confines.refuse_unfit()
    except GoalseekError as error:
        yield Finding("sandbox", False, error.message, error.hint)
        return
    name, reasons = confines.level.name, confines.level.reason
    told = {"none": "no sandbox: programs run as you"}.get(name, name)
    for who, network in (
        ("the agent", confines.table.agent_network),
        ("a candidate's code", any(command.network for command in manifest.verify)),
    ):
        gaps = confines.level.not_enforced(network)
        text = f"{told}; {who}: " + ("all is enforced" if not gaps else "not enforced:")
        remedy = "" if name == "bubblewrap" else "; ".join((*reasons, level.how_to_get("bubblewrap")))
        yield Finding("sandbox", True, "\n".join((text, *(f"  {gap}" for gap in gaps))), remedy)
    for sentence in confines.weaker():
        yield Finding("sandbox", True, sentence, "leave sandbox.cache out where a build is quick without")


def allowed(context: DoctorContext) -> Iterator[Finding]:
    """Programs and paths that are shown beside the trees and the system's own folders, and why."""
    confines, manifest = context.run.confines, context.config.manifest
    if confines.level.name == "none":
        return
    found = {}
    commands = [(command.run, command.cwd) for command in manifest.verify]
    for run, cwd in (*commands, *([(manifest.setup.run, ".")] if manifest.setup else [])):
        given = program_environment(manifest.env.verify, {}, confines.scratch)
        found.update({need.path: need.why for need in confines.needed([run], given, cwd)})
    for words in programs_of(context.run.loaded):
        given = program_environment(manifest.env.agent, {}, confines.scratch)
        found.update({need.path: need.why for need in confines.needed([words], given)})
    found.update(dict.fromkeys(confines.shared, "scope.share"))
    found.update(dict.fromkeys(confines.readable(), "sandbox.read"))
    found.update(dict.fromkeys(confines.devices(), "sandbox.devices, for VERIFY only"))
    lines = [f"{path} ({why})" for path, why in sorted(found.items())]
    text = "beside the trees and the system's own folders, programs see " + ("nothing" if not lines else "read-only:")
    yield Finding("allowed", True, "\n".join((text, *(f"  {line}" for line in lines))))


def cheats(context: DoctorContext) -> Iterator[Finding]:
    """Every cheat is a patch that applies."""
    remedy = "make it again from the tree that is climbed from, with git diff, or take it out of the manifest"
    for cheat in context.cheats:
        if cheat.unfit:
            yield Finding("cheat", False, f"{cheat.patch} {cheat.unfit}", remedy)


NEEDED: tuple[Check, ...] = (repository, globs, committed)
FURTHER: tuple[Check, ...] = (left_out, ruler, environment, provider, isolation, confinement, allowed, cheats, trees)


def _counted(context: DoctorContext, is_whole: bool) -> str:
    manifest, prefix = context.config.manifest, context.run.places.prefix
    of_kind: dict[str, list[str]] = {}
    for path in context.entries:
        of_kind.setdefault(context.config.scope.kind(path), []).append(path.removeprefix(prefix))
    hidden = of_kind.get("hidden", [])
    named = list(filter(matcher(manifest.scope.hidden), hidden)) if manifest.scope.hidden else []
    told = [pluralize(len(of_kind.get("writable", [])), "writable file")]
    told += [pluralize(len(named), "hidden file")] if manifest.scope.hidden else []
    if manifest.scope.read_only:
        is_read_only = matcher(manifest.scope.read_only)
        count = sum(is_read_only(path.removeprefix(prefix)) for path in context.entries)
        told.append(pluralize(count, "read-only file"))
    text = f"{'every one matches: ' if is_whole else ''}{', '.join(told)}"
    if own := [quote_path(path) for path in hidden if path not in named]:
        text += f"; kept from the agent as well: {abbreviate(own)}"
    if manifest.scope.generated:
        text += f"; generated and never committed: {', '.join(manifest.scope.generated)}"
    if manifest.scope.share:
        text += f"; shared, not copied: {', '.join(manifest.scope.share)}"
    return text
