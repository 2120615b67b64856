"""How a run is opened: the lock, the run that is gone on with or begun, and the preflight."""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from goalseek import process
from goalseek.disk import free_room
from goalseek.errors import GoalseekError
from goalseek.git.command import ObjectsFailed
from goalseek.git.location import locate
from goalseek.git.objects import Entry, remove_scratch_files
from goalseek.git.repository import Repository
from goalseek.locks import LOCK, only_writer
from goalseek.manifest.loading import Loaded, base_of, ignore_home, with_manifest_option
from goalseek.manifest.tables import Manifest, ProviderTable
from goalseek.own_folders import add_own, clear, empty, remove, remove_own
from goalseek.project import preflight
from goalseek.project.approval import Question, refuse_while_waiting, waiting
from goalseek.project.limits import broken_guard_of
from goalseek.project.paths import note_folder, refuse_other_folder
from goalseek.project.project import Project
from goalseek.project.state_file import phase_in_words, read_state
from goalseek.project.status import differing
from goalseek.project.watch import Watch
from goalseek.providers.provider import WritableFile
from goalseek.providers.registry import WITHOUT_PROGRAM
from goalseek.sandbox import editable_installs
from goalseek.sandbox.home import AgentHome
from goalseek.sandbox.supervisor import PROGRAMS_LOCK, kill_leftovers, trusted_mark
from goalseek.workspace.places import CachePaths, cache_paths
from goalseek.workspace.scope import Scope, scope_of
from goalseek.workspace.shared_folders import LOOKED_AT_MOST, refuse_unfit_shares


def asked_provider(loaded: Loaded, name: str | None, model: str | None) -> ProviderTable | None:
    """The provider table that the command line asks for; None for the manifest's own."""
    written = loaded.manifest.provider
    if name is None and model is None:
        return None
    if name is None or (written and written.name == name):
        if written is None:
            raise GoalseekError("--model without a provider", "--provider NAME --model M")
        return replace(written, model=model if model is not None else written.model)
    return ProviderTable(name=name, model=model or "")


@contextlib.contextmanager
def opened(
    loaded: Loaded,
    watch: Watch | None = None,
    asked: ProviderTable | None = None,
    is_new: bool = False,
    doing: str = "",
) -> Iterator[Project]:
    """Opens a project for writing, holding its lock. Raises GoalseekError where that cannot be.

    ``doing`` is the command that it is opened for, as others who want the lock are told.
    """
    preflight.refuse_missing_home(loaded)
    repository = open_repository(loaded)
    where = cache_paths(repository.location, base_of(loaded, repository.top), repository.name)
    add_own(where.home)
    existed = loaded.logs.exists() or loaded.runs.exists()
    made = _made_with_the_logs(loaded)
    try:
        picture = loaded.state
        repository.make_own()
        with (
            only_writer(
                repository.own,
                lambda: phase_in_words(read_state(picture), datetime.now(UTC)),
                doing,
                loaded.path.resolve(),
            ),
            process.marked(trusted_mark(where.owner)),
        ):
            if kill_leftovers(where.owner, repository.own / PROGRAMS_LOCK):
                (watch or Watch()).on_note("programs of a run that was killed were still at work; they were ended")
            for path in (
                *AgentHome(where.agent).collect_renewed_logins(),
                *AgentHome(where.reviewer).collect_renewed_logins(),
            ):
                (watch or Watch()).on_note(f"a login that the agent renewed before the kill was put back: {path}")
            remove_stale_locks(repository, where)
            repository.is_ours = True
            repository.objects.bring_back()
            remove_scratch_files((repository.own / "objects.git", where.workspace.with_name("workspace.git")))
            run = Project(loaded, repository, where, watch or Watch(), asked)
            is_refused = False
            try:
                begin(run, is_new)
                note_folder(loaded, repository.location)
                yield run
            except GoalseekError:
                is_refused = True
                raise
            finally:
                with contextlib.suppress(OSError, ObjectsFailed):  # the next invocation does so as well
                    repository.objects.bring_back()
                run.close()
                if run.standing.seq < 0 and not existed:
                    if is_refused:
                        _leave_nothing(loaded, repository, made)
                    elif loaded.logs.exists():
                        ignore_home(loaded)
    finally:
        repository.close()


def open_repository(loaded: Loaded) -> Repository:
    """The repository that the manifest speaks of. Raises GoalseekError where another folder climbs by this name."""
    location = locate(loaded.folder / loaded.manifest.project.repo)
    refuse_other_folder(loaded, location)
    add_own(loaded.logs, loaded.runs)
    return Repository(location, loaded.manifest.project.name)


def begin(project: Project, is_new: bool) -> None:
    """Goes on with the run that the records name, or begins one, recorded with its first iteration."""
    pending = project.repository.own / "run"
    known = pending.read_text().strip() if pending.exists() else ""
    if is_new:
        refuse_while_waiting(_waiting(project, known or project.standing.run_id), "a new run")
    if is_new or not project.standing.run_id:
        if is_new or not known:
            known = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
            pending.write_text(known + "\n")
        project.began = "asked for" if is_new else "first"
        project.run_id = known
    elif known == project.standing.run_id:
        remove(pending)
    elif known:
        project.began = "asked for"
        project.run_id = known


def refuse_baseline(project: Project) -> None:
    """Raises GoalseekError where a new baseline would leave a candidate behind that waits for a person's word."""
    refuse_while_waiting(_waiting(project, project.run_id), "a new baseline")


def _waiting(project: Project, run_id: str) -> Question | None:
    return waiting(project.loaded.manifest, project.loaded.runs, project.standing, run_id)


def check_fit(project: Project) -> Mapping[str, Entry]:
    """The preflight: repository and manifest fit each other. Raises GoalseekError; notes what a command may miss.

    Gives the files of the tree that is climbed from: the incumbent's, or HEAD's before the first baseline.
    """
    incumbent = project.standing.incumbent
    entries = files_of(project, incumbent.commit if incumbent else project.repository.head())
    for told in scope_notes(project, entries):
        project.watch.on_note(told)
    _check(project, entries, project.config().manifest if incumbent else project.loaded.manifest)
    return entries


def check_fit_for_baseline(project: Project, code: str | None) -> None:
    """The same before a new baseline: its ruler is HEAD's and the manifest's, its code that of the commit ``code``.

    None is the incumbent's, or HEAD's before the first baseline.
    """
    head = files_of(project, project.repository.head())
    if code is None and project.standing.incumbent:
        code = project.standing.incumbent.commit
    files = files_of(project, code) if code else head
    before = files_of(project, project.standing.baseline.commit) if project.standing.baseline else {}
    preflight.refuse_globs(project.loaded, project.places.prefix, head, {**files, **before})
    refuse_nothing_writable(project, files)
    for told in _writable_notes(project, files):
        project.watch.on_note(told)
    _check(project, head, project.loaded.manifest)


def scope_notes(project: Project, entries: Mapping[str, Entry]) -> list[str]:
    """What a person should know of globs that match nothing of the tree that is climbed from.

    Before the first baseline each of them has to match, which raises GoalseekError. After it hidden and read-only ones
    are pinned, and a writable one may have lost its file to a keep.
    """
    if project.standing.baseline is None:
        preflight.refuse_globs(project.loaded, project.places.prefix, entries)
    return _writable_notes(project, entries)


def _writable_notes(project: Project, entries: Mapping[str, Entry]) -> list[str]:
    loaded, baseline = project.loaded, project.standing.baseline
    if baseline is None:
        return []
    told = preflight.writable_notes(loaded, project.repository, project.places.prefix, entries, baseline.commit)
    return [with_manifest_option(text, loaded.path) for text in told]


def refuse_nothing_writable(project: Project, entries: Mapping[str, Entry]) -> None:
    """Raises GoalseekError where a climb that goes on has no writable file left among those of its tree."""
    if project.standing.baseline is not None:
        preflight.refuse_nothing_writable(project.loaded, project.repository, project.places.prefix, entries)


def files_of(project: Project, commit: str) -> Mapping[str, Entry]:
    """The files of a commit's tree."""
    return project.repository.objects.files(project.repository.tree_of(commit))


def _check(project: Project, entries: Mapping[str, Entry], manifest: Manifest) -> None:
    """What is asked of a tree whatever it is for. ``manifest`` is what programs are started by: a climb's is pinned."""
    preflight.refuse_unfit(project.loaded, project.repository, project.places.prefix, entries)
    for told in free_room((project.repository.own, project.loaded.folder, project.places.home)):
        project.watch.on_note(told)
    preflight.refuse_foreign_logs(project.loaded, project.standing.last_iteration + 1)
    check_confines(project, entries, manifest)
    for told in preflight.notes(project.loaded, project.repository, project.places.prefix, entries):
        project.watch.on_note(told)
    if broken := broken_guard_of(project.loaded.manifest, project.standing):
        project.watch.on_note(broken)
    for name in differing(project.loaded, project.repository.location, project.standing):
        adopts = with_manifest_option("goalseek baseline adopts it", project.loaded.path)
        project.watch.on_note(f"{name} differs from the pinned ruler; {adopts}")
    names = project.loaded.manifest.scope.share
    for told in project.shares.notes(names, project.standing.epoch):
        project.watch.on_note(told)
    if not project.shares.is_whole(names):
        project.watch.on_note(f"of the shared folders only {LOOKED_AT_MOST} files are looked at for changes")
    if project.ledger.mended:
        project.watch.on_note(project.ledger.mended)


def check_confines(project: Project, entries: Mapping[str, Entry], manifest: Manifest) -> None:
    """Programs can be kept in their place, which is said. Raises GoalseekError where something would get out."""
    confines = project.confines
    confines.refuse_unfit()
    editable_installs.refuse_editable(manifest, confines)
    scope = scope_of(project.loaded, manifest, project.places.prefix)
    refuse_unfit_shares(project.loaded, project.repository, project.places, scope, entries)
    is_agent = project.has_provider() and project.provider_table().name not in WITHOUT_PROGRAM
    is_agent = is_agent or manifest.review is not None
    networked = any(command.network for command in manifest.verify)
    networked = networked or (manifest.setup is not None and manifest.setup.network)
    project.watch.on_sandbox(confines.level, confines.not_enforced(is_agent, networked))
    for told in (*confines.weaker(), *editable_installs.notes(manifest, confines)):
        project.watch.on_note(told)


def _made_with_the_logs(loaded: Loaded) -> tuple[Path, ...]:
    """What is not there yet around the logs, innermost first: another climb's, or the user's own, is not ours."""
    home = loaded.folder / loaded.manifest.log.home
    around = (loaded.logs.parent, home / ".gitignore", home / "manifest.schema.json", home)
    return tuple(path for path in around if not os.path.lexists(path))


def _leave_nothing(loaded: Loaded, repository: Repository, made: tuple[Path, ...]) -> None:
    """Takes away what was made for a run that never had a record: its logs, and what is ``made`` around them."""
    home = loaded.folder / loaded.manifest.log.home
    with contextlib.suppress(OSError):
        remove_own(loaded.logs)
        remove_own(loaded.runs)
        if loaded.logs.parent in made:
            loaded.logs.parent.rmdir()
        names = {path.name for path in made}
        if all(path.name in names for path in home.iterdir()):  # else another climb is there by now
            for path in made:
                path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        empty(repository.own, except_name=LOCK)
        clear(repository.own / LOCK)  # last: as soon as it is gone, another process may take a lock of that name
        repository.own.rmdir()
        repository.own.parent.rmdir()


def check_provider(project: Project, entries: Mapping[str, Entry]) -> None:
    """The provider can start, and can do something with the files. Raises GoalseekError where it cannot."""
    refuse_nothing_writable(project, entries)
    project.provider().look_over(writable_files(project.repository, project.config().scope, entries))


def writable_files(repository: Repository, scope: Scope, entries: Mapping[str, Entry]) -> Iterator[WritableFile]:
    """The files of a tree that a provider may edit."""
    for path, entry in sorted(entries.items()):
        if entry.mode.startswith("100") and scope.kind(path) == "writable":
            yield WritableFile(path, functools.partial(repository.objects.read, entry.blob))


def remove_stale_locks(repository: Repository, places: CachePaths) -> None:
    """Removes what no living git can hold: whoever made them was ended before this project's lock was free."""
    for ref in (repository.tip_ref, repository.ledger_ref, repository.branch_ref):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            (repository.location.common_dir / f"{ref}.lock").unlink()
    for folder in (repository.own / "objects.git", places.workspace.with_name("workspace.git")):
        for path in folder.rglob("*.lock"):
            clear(path)
