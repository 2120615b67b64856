"""The checks before a climb: whether repository, manifest, sandbox and provider of the open project fit together."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping

from goalseek.disk import LITTLE_FREE, check_free_space
from goalseek.errors import GoalseekError
from goalseek.findings import Finding, refuse_wrong
from goalseek.git.objects import Entry, Objects
from goalseek.git.paths import quote_path
from goalseek.git.repository import Repository
from goalseek.manifest.exposure import fixed_seed_line, named_paths, unchecked_note
from goalseek.manifest.loading import with_manifest_option
from goalseek.manifest.parallel import agents_of, benches_of
from goalseek.manifest.tables import Manifest, ProviderTable
from goalseek.measurement.ruler import HeadDifferences, differences_of_head
from goalseek.project import preflight
from goalseek.project.config import Config
from goalseek.project.progress import direction_warning, guard_notice
from goalseek.project.project import Project
from goalseek.providers.provider import WritableFile
from goalseek.providers.registry import WITHOUT_PROGRAM, make_permitted_provider
from goalseek.sandbox import editable_installs
from goalseek.workspace import answers
from goalseek.workspace.scope import Scope, manifest_scope
from goalseek.workspace.shared_folders import MAX_FILES, refuse_unfit_shares

_BLOCK = 4096  # what a file takes at least on most file systems, in bytes
_LONGEST_CODE = 200_000  # bytes of a file in which a seed is looked for


def answer_notes(project: Project, entries: Iterable[str]) -> Iterator[str]:
    """Notes on a timed program that nothing checks, and on what it, or candidate code, can read of who judges.

    ``entries`` are the tree's files.
    """
    config = project.config() if project.standing.incumbent else project.config_for_baseline()
    folder, manifest, prefix = project.folder, config.manifest, config.scope.prefix
    if note := unchecked_note(manifest):
        yield note
    hidden = answers.hidden_paths(folder, manifest, prefix, config.hidden_from, entries)
    yield from answers.answer_notes(folder, manifest, prefix, hidden, entries)


def fixed_seed_note(objects: Objects, config: Config, tree: str) -> Finding | None:
    """A note on runs of a tree that gave one number, where code that a command runs fixes a seed; None where none does.

    That code is what is writable, and the visible files that a command names.
    """
    scope, manifest = config.scope, config.manifest
    if manifest.metric.allow_fixed_seed:
        return None
    runs_code = [command for command in manifest.commands if command.sees != "hidden"]
    named = set[str]().union(*(named_paths(command, {}) for command in runs_code))
    for path, entry in sorted(objects.files(tree).items()):
        kind, own = scope.kind(path), path.removeprefix(scope.prefix)
        if entry.mode.startswith("100") and (kind == "writable" or (kind != "hidden" and own in named)):
            text = objects.read(entry.blob)[:_LONGEST_CODE].decode("utf-8", "replace")
            if line := fixed_seed_line(text):
                text = f"the same number under every GOALSEEK_SEED: {quote_path(own)}:{line} fixes a seed"
                return Finding("note", text, "draw it from $GOALSEEK_SEED, or you will climb on that seed", "seed")
    return None


def check_fit(project: Project) -> Mapping[str, Entry]:
    """The preflight: raises GoalseekError where repository and manifest do not fit; notes what a command may miss.

    Gives the files of the tree that is climbed from: the incumbent's, or HEAD's before the first baseline.
    """
    incumbent = project.standing.incumbent
    entries = project.repository.files_of(incumbent.commit if incumbent else project.repository.head())
    for note in scope_notes(project, entries):
        project.watch.on_note(str(note))
    manifest = project.config().manifest if incumbent else project.loaded.manifest
    if text := _check_tree(project, entries, manifest, project.began == "asked for").finding:
        project.watch.on_note(with_manifest_option(str(text), project.loaded.path))
    _note_other_direction(project)
    if incumbent is None:
        _check_uncommitted(project, "HEAD")
    return entries


def check_fit_for_baseline(project: Project, code: str | None) -> None:
    """The same before a new baseline: its ruler is HEAD's and the manifest's, its code that of the commit ``code``.

    None is the incumbent's, or HEAD's before the first baseline.
    """
    head = project.repository.files_of(project.repository.head())
    source = code[:12] if code else "HEAD"
    if code is None and project.standing.incumbent:
        code, source = project.standing.incumbent.commit, "the incumbent"
        _note_other_direction(project)
    files = project.repository.files_of(code) if code else head
    baseline = project.standing.baseline
    baseline_files = project.repository.files_of(baseline.commit) if baseline else {}
    refuse_wrong(preflight.glob_problems(project, head, {**files, **baseline_files}))
    preflight.refuse_nothing_writable(project, files)
    for note in preflight.writable_notes(project, files):
        project.watch.on_note(str(note))
    differences = _check_tree(project, head, project.loaded.manifest, source == "the incumbent")
    if differences.ruler:
        project.watch.on_note(f"adopts: {', '.join(differences.ruler)}")
    _check_uncommitted(project, source)


def space_note(project: Project, jobs: int | None = None) -> Finding | None:
    """A note of what copies of the tree will take on disk; None below a GiB, and once they are there.

    ``jobs`` is what ``iterate --jobs`` asks for.
    """
    manifest, places, incumbent = project.loaded.manifest, project.places, project.standing.incumbent
    agents, benches = agents_of(manifest, jobs, None, None), benches_of(manifest, jobs)
    made = sum(path.exists() for lane in places.lanes() for path in (lane.workspace, lane.bench("a")))
    if made >= agents + benches:
        return None
    commit = incumbent.commit if incumbent else project.repository.head()
    listing = project.repository.objects.git("ls-tree", "-r", "-l", "--full-tree", commit)
    sizes = (line.split(b"\t")[0].split()[3] for line in listing.splitlines())
    # A submodule has no size, nor has a blob that a partial clone lacks.
    blocks = sum(-(int(size) // -_BLOCK) for size in sizes if size.isdigit())
    copies = agents + benches * (1 if manifest.metric.noise == "none" else 2)  # the incumbent has a tree of its own
    if (needed := copies * blocks * _BLOCK) < LITTLE_FREE:
        return None
    text = f"{copies} copies of the tree take about {needed / 2**30:.1f} GiB in {places.home}"
    return Finding("note", text, "XDG_CACHE_HOME names another disk, and fewer agents or benches need less")


def _note_other_direction(project: Project) -> None:
    if warning := direction_warning(project.loaded.manifest.metric, project.standing):
        project.watch.on_note(with_manifest_option(warning, project.loaded.path))


def _check_uncommitted(project: Project, source: str) -> None:
    """Refuses uncommitted files of the ruler, and notes that the baseline is that of ``source``, without the others."""
    scope = manifest_scope(project.loaded, project.loaded.manifest, project.places.prefix)
    files = preflight.UncommittedFiles.read(project.repository, scope)
    if not project.is_committed_only:
        files.refuse_of_ruler()
    if note := files.note(source):
        project.watch.on_note(note)


def scope_notes(project: Project, entries: Mapping[str, Entry]) -> Iterator[Finding]:
    """Notes on globs that match nothing of the tree that is climbed from.

    Before the first baseline each of them has to match, which raises GoalseekError. After it hidden and read-only ones
    are pinned, and a writable one may have lost its file to a keep.
    """
    if project.standing.baseline is None:
        refuse_wrong(preflight.glob_problems(project, entries))
    yield from preflight.writable_notes(project, entries)


def _check_tree(
    project: Project, entries: Mapping[str, Entry], manifest: Manifest, notes_code: bool
) -> HeadDifferences:
    """The checks of every tree; gives what differs from the pinned verifier.

    ``manifest`` is the one that programs are started by: that of a climb is pinned. ``notes_code`` is whether a note
    names HEAD's writable files that are not in the climb.
    """
    preflight.refuse_unfit(project, entries)
    for note in check_free_space((project.repository.own, project.loaded.folder, project.places.home)):
        project.watch.on_note(note)
    preflight.refuse_foreign_logs(project.loaded, project.standing.next_iteration)
    check_sandbox(project, entries, manifest)
    for finding in preflight.tree_notes(project, entries):
        project.watch.on_note(str(finding))
    if warning := guard_notice(project.loaded.manifest, project.standing):
        project.watch.on_note(warning)
    differences = differences_from_head(project)
    if differences.code and notes_code:
        project.watch.on_note(with_manifest_option(differences.code, project.loaded.path))
    names = project.loaded.manifest.scope.share
    for text in project.shares.notes(names, project.standing.epoch):
        project.watch.on_note(text)
    if not project.shares.is_whole(names):
        project.watch.on_note(f"of the shared folders only {MAX_FILES} files are looked at for changes")
    if project.ledger.mended:
        project.watch.on_note(project.ledger.mended)
    return differences


def check_sandbox(project: Project, entries: Mapping[str, Entry], manifest: Manifest) -> None:
    """Checks and announces the sandbox. Raises GoalseekError where something could leave it."""
    confines = project.confines
    confines.refuse_unfit()
    editable_installs.refuse_editable(manifest, confines)
    scope = manifest_scope(project.loaded, manifest, project.places.prefix)
    refuse_unfit_shares(project.loaded, project.repository, project.places, scope, entries)
    has_agent = project.has_provider() and project.provider_table().name not in WITHOUT_PROGRAM
    has_agent = has_agent or manifest.review is not None
    needs_network = any(command.network for command in manifest.verify)
    needs_network = needs_network or (manifest.setup is not None and manifest.setup.network)
    project.watch.on_sandbox(confines.level, confines.not_enforced(has_agent, needs_network))
    for note in (*confines.weakening_notes(), *map(str, editable_installs.find_on_path(manifest, confines))):
        project.watch.on_note(note)


def check_provider(project: Project, entries: Mapping[str, Entry]) -> None:
    """Raises GoalseekError where the provider cannot start, or cannot edit any of these files, the incumbent's."""
    preflight.refuse_nothing_writable(project, entries)
    provider, incumbent = project.provider(), project.standing.incumbent
    try:
        provider.look_over(writable_files(project.repository, project.config().scope, entries))
    except GoalseekError as error:
        error.message += f" (in the climb's code, {incumbent.commit[:12]}, not your checkout)" if incumbent else ""
        raise


def check_named_provider(project: Project, name: str) -> None:
    """Raises GoalseekError where ``--provider`` with this name alone could not start."""
    make_permitted_provider(project.loaded, ProviderTable(name=name))


def writable_files(repository: Repository, scope: Scope, entries: Mapping[str, Entry]) -> Iterator[WritableFile]:
    """The files of a tree that a provider may edit."""
    for path, entry in sorted(entries.items()):
        if entry.mode.startswith("100") and scope.kind(path) == "writable":
            yield WritableFile(path, functools.partial(repository.objects.read, entry.blob))


def differences_from_head(project: Project) -> HeadDifferences:
    """What a new baseline would adopt of manifest and HEAD, and whose code it could start from."""
    baseline = project.standing.baseline
    return differences_of_head(project.loaded, project.repository.location, baseline.commit if baseline else "")
