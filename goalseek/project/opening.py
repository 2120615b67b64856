"""Opening a project: its lock, cleaning up after a kill, resuming or beginning a run, and the preflight checks."""

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
from goalseek.disk import check_free_space
from goalseek.errors import GoalseekError
from goalseek.git.command import ObjectsFailed
from goalseek.git.location import locate
from goalseek.git.objects import Entry, remove_scratch_files
from goalseek.git.repository import Repository
from goalseek.locks import LOCK, project_lock
from goalseek.manifest.loading import ManifestFile, base_of, make_log_folders, with_manifest_option
from goalseek.manifest.tables import Manifest, ProviderTable
from goalseek.own_folders import add_own, empty, remove, remove_if_exists, remove_own
from goalseek.project import preflight
from goalseek.project.approval import Question, open_question, refuse_while_waiting
from goalseek.project.limits import guard_notice
from goalseek.project.observer import Observer
from goalseek.project.paths import refuse_other_folder, save_folder
from goalseek.project.project import Project
from goalseek.project.state_file import format_phase, read_state
from goalseek.project.status import ruler_differences
from goalseek.providers.provider import WritableFile
from goalseek.providers.registry import WITHOUT_PROGRAM
from goalseek.sandbox import editable_installs
from goalseek.sandbox.home import AgentHome
from goalseek.sandbox.supervisor import PROGRAMS_LOCK, kill_leftovers, trusted_mark
from goalseek.workspace.places import CachePaths, cache_paths
from goalseek.workspace.scope import Scope, manifest_scope
from goalseek.workspace.shared_folders import MAX_FILES, refuse_unfit_shares


def provider_from_options(loaded: ManifestFile, name: str | None, model: str | None) -> ProviderTable | None:
    """The provider table that the options of the command line give; None for the manifest's own."""
    table = loaded.manifest.provider
    if name is None and model is None:
        return None
    if name is None or (table and table.name == name):
        if table is None:
            raise GoalseekError("--model without a provider", "--provider NAME --model M")
        return replace(table, model=model if model is not None else table.model)
    return ProviderTable(name=name, model=model or "")


@contextlib.contextmanager
def open_project(
    loaded: ManifestFile,
    watch: Observer | None = None,
    provider_table: ProviderTable | None = None,
    is_new: bool = False,
    doing: str = "",
) -> Iterator[Project]:
    """Opens a project for writing and holds its lock. Raises GoalseekError where that cannot be.

    ``doing`` is the command that it is opened for, as others who want the lock are told.
    """
    preflight.refuse_missing_home(loaded)
    repository = open_repository(loaded)
    places = cache_paths(repository.location, base_of(loaded, repository.top), repository.name)
    add_own(places.home)
    had_logs = loaded.logs.exists() or loaded.runs.exists()
    new_paths = _paths_to_create(loaded)
    try:
        state_path = loaded.state
        repository.make_own()
        with (
            project_lock(
                repository.own,
                lambda: format_phase(read_state(state_path), datetime.now(UTC)),
                doing,
                loaded.path.resolve(),
            ),
            process.marking_programs(trusted_mark(places.owner)),
        ):
            if kill_leftovers(places.owner, repository.own / PROGRAMS_LOCK):
                (watch or Observer()).on_note("programs of a run that was killed were still at work; they were ended")
            for path in (
                *AgentHome(places.agent).collect_renewed_logins(),
                *AgentHome(places.reviewer).collect_renewed_logins(),
            ):
                (watch or Observer()).on_note(f"a login that the agent renewed before the kill was put back: {path}")
            remove_stale_locks(repository, places)
            repository.is_ours = True
            repository.objects.bring_back()
            remove_scratch_files((repository.own / "objects.git", places.workspace.with_name("workspace.git")))
            project = Project(loaded, repository, places, watch or Observer(), provider_table)
            has_failed = False
            try:
                begin_or_resume_run(project, is_new)
                save_folder(loaded, repository.location)
                yield project
            except GoalseekError:
                has_failed = True
                raise
            finally:
                with contextlib.suppress(OSError, ObjectsFailed):  # the next invocation does so as well
                    repository.objects.bring_back()
                project.close()
                if project.standing.seq < 0 and not had_logs:
                    if has_failed:
                        _remove_new_paths(loaded, repository, new_paths)
                    elif loaded.logs.exists():
                        make_log_folders(loaded)
    finally:
        repository.close()


def open_repository(loaded: ManifestFile) -> Repository:
    """The repository of the manifest. Raises GoalseekError where another folder has a climb of this name."""
    location = locate(loaded.folder / loaded.manifest.project.repo)
    refuse_other_folder(loaded, location)
    add_own(loaded.logs, loaded.runs)
    return Repository(location, loaded.manifest.project.name)


def begin_or_resume_run(project: Project, is_new: bool) -> None:
    """Resumes the run of the last record, or begins one, which is recorded with its first iteration."""
    run_file = project.repository.own / "run"
    run_id = run_file.read_text().strip() if run_file.exists() else ""
    if is_new:
        refuse_while_waiting(_open_question(project, run_id or project.standing.run_id), "a new run")
    if is_new or not project.standing.run_id:
        if is_new or not run_id:
            run_id = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
            run_file.write_text(run_id + "\n")
        project.began = "asked for" if is_new else "first"
        project.run_id = run_id
    elif run_id == project.standing.run_id:
        remove(run_file)
    elif run_id:
        project.began = "asked for"
        project.run_id = run_id


def refuse_baseline(project: Project) -> None:
    """Raises GoalseekError where a new baseline would leave a candidate behind that waits for approval."""
    refuse_while_waiting(_open_question(project, project.run_id), "a new baseline")


def _open_question(project: Project, run_id: str) -> Question | None:
    return open_question(project.loaded.manifest, project.loaded.runs, project.standing, run_id)


def check_fit(project: Project) -> Mapping[str, Entry]:
    """The preflight: raises GoalseekError where repository and manifest do not fit; notes what a command may miss.

    Gives the files of the tree that is climbed from: the incumbent's, or HEAD's before the first baseline.
    """
    incumbent = project.standing.incumbent
    entries = files_of_commit(project, incumbent.commit if incumbent else project.repository.head())
    for note in scope_notes(project, entries):
        project.watch.on_note(note)
    _check_tree(project, entries, project.config().manifest if incumbent else project.loaded.manifest)
    return entries


def check_fit_for_baseline(project: Project, code: str | None) -> None:
    """The same before a new baseline: its ruler is HEAD's and the manifest's, its code that of the commit ``code``.

    None is the incumbent's, or HEAD's before the first baseline.
    """
    head = files_of_commit(project, project.repository.head())
    if code is None and project.standing.incumbent:
        code = project.standing.incumbent.commit
    files = files_of_commit(project, code) if code else head
    baseline_files = files_of_commit(project, project.standing.baseline.commit) if project.standing.baseline else {}
    preflight.refuse_unmatched_globs(project.loaded, project.places.prefix, head, {**files, **baseline_files})
    refuse_nothing_writable(project, files)
    for note in _writable_notes(project, files):
        project.watch.on_note(note)
    _check_tree(project, head, project.loaded.manifest)


def scope_notes(project: Project, entries: Mapping[str, Entry]) -> list[str]:
    """Notes on globs that match nothing of the tree that is climbed from.

    Before the first baseline each of them has to match, which raises GoalseekError. After it hidden and read-only ones
    are pinned, and a writable one may have lost its file to a keep.
    """
    if project.standing.baseline is None:
        preflight.refuse_unmatched_globs(project.loaded, project.places.prefix, entries)
    return _writable_notes(project, entries)


def _writable_notes(project: Project, entries: Mapping[str, Entry]) -> list[str]:
    loaded, baseline = project.loaded, project.standing.baseline
    if baseline is None:
        return []
    notes = preflight.writable_notes(loaded, project.repository, project.places.prefix, entries, baseline.commit)
    return [with_manifest_option(text, loaded.path) for text in notes]


def refuse_nothing_writable(project: Project, entries: Mapping[str, Entry]) -> None:
    """Raises GoalseekError where a climb that goes on has no writable file left among those of its tree."""
    if project.standing.baseline is not None:
        preflight.refuse_nothing_writable(project.loaded, project.repository, project.places.prefix, entries)


def files_of_commit(project: Project, commit: str) -> Mapping[str, Entry]:
    """The files of a commit's tree."""
    return project.repository.objects.files(project.repository.tree_of(commit))


def _check_tree(project: Project, entries: Mapping[str, Entry], manifest: Manifest) -> None:
    """The checks of every tree. ``manifest`` is the one that programs are started by: that of a climb is pinned."""
    preflight.refuse_unfit(project.loaded, project.repository, project.places.prefix, entries)
    for note in check_free_space((project.repository.own, project.loaded.folder, project.places.home)):
        project.watch.on_note(note)
    preflight.refuse_foreign_logs(project.loaded, project.standing.next_iteration)
    check_sandbox(project, entries, manifest)
    for note in preflight.tree_notes(project.loaded, project.repository, project.places.prefix, entries):
        project.watch.on_note(note)
    if warning := guard_notice(project.loaded.manifest, project.standing):
        project.watch.on_note(warning)
    for name in ruler_differences(project.loaded, project.repository.location, project.standing):
        hint = with_manifest_option("goalseek baseline adopts it", project.loaded.path)
        project.watch.on_note(f"{name} differs from the pinned ruler; {hint}")
    names = project.loaded.manifest.scope.share
    for note in project.shares.notes(names, project.standing.epoch):
        project.watch.on_note(note)
    if not project.shares.is_whole(names):
        project.watch.on_note(f"of the shared folders only {MAX_FILES} files are looked at for changes")
    if project.ledger.mended:
        project.watch.on_note(project.ledger.mended)


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
    for note in (*confines.weakening_notes(), *editable_installs.notes(manifest, confines)):
        project.watch.on_note(note)


def _paths_to_create(loaded: ManifestFile) -> tuple[Path, ...]:
    """Paths around the logs that do not exist yet, innermost first; existing ones are another climb's or the user's."""
    home = loaded.folder / loaded.manifest.log.home
    paths = (loaded.logs.parent, home / ".gitignore", home / "manifest.schema.json", home)
    return tuple(path for path in paths if not os.path.lexists(path))


def _remove_new_paths(loaded: ManifestFile, repository: Repository, new_paths: tuple[Path, ...]) -> None:
    """Removes what a run without any record has left: its logs, and the ``new_paths`` around them."""
    home = loaded.folder / loaded.manifest.log.home
    with contextlib.suppress(OSError):
        remove_own(loaded.logs)
        remove_own(loaded.runs)
        if loaded.logs.parent in new_paths:
            loaded.logs.parent.rmdir()
        names = {path.name for path in new_paths}
        if all(path.name in names for path in home.iterdir()):  # else another climb is there by now
            for path in new_paths:
                path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        empty(repository.own, except_name=LOCK)
        remove_if_exists(
            repository.own / LOCK
        )  # last: as soon as it is gone, another process may take a lock of that name
        repository.own.rmdir()
        repository.own.parent.rmdir()


def check_provider(project: Project, entries: Mapping[str, Entry]) -> None:
    """Raises GoalseekError where the provider cannot start, or cannot edit any of these files."""
    refuse_nothing_writable(project, entries)
    project.provider().look_over(writable_files(project.repository, project.config().scope, entries))


def writable_files(repository: Repository, scope: Scope, entries: Mapping[str, Entry]) -> Iterator[WritableFile]:
    """The files of a tree that a provider may edit."""
    for path, entry in sorted(entries.items()):
        if entry.mode.startswith("100") and scope.kind(path) == "writable":
            yield WritableFile(path, functools.partial(repository.objects.read, entry.blob))


def remove_stale_locks(repository: Repository, places: CachePaths) -> None:
    """Removes lock files of git that no process holds: their makers ended before this project's lock was free."""
    for ref in (repository.tip_ref, repository.ledger_ref, repository.branch_ref):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            (repository.location.common_dir / f"{ref}.lock").unlink()
    for folder in (repository.own / "objects.git", places.workspace.with_name("workspace.git")):
        for path in folder.rglob("*.lock"):
            remove_if_exists(path)
