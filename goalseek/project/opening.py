"""Opening a project: lock, cleanup after a kill, resuming or beginning a run, refusals."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from msgspec import structs

from goalseek import process
from goalseek.disk import add_own, empty, machine_error, remove, remove_if_exists, remove_own
from goalseek.errors import USAGE, GitFailed, GoalseekError
from goalseek.git.objects import ObjectsFailed, remove_scratch_files
from goalseek.git.repository import Repository
from goalseek.ledger.artifacts import is_foreign
from goalseek.locks import LOCK, project_lock
from goalseek.manifest.loading import ManifestFile, base_of, make_log_folders
from goalseek.manifest.tables import ProviderTable
from goalseek.project.activity import Observer
from goalseek.project.approval import commands_for, open_questions
from goalseek.project.config import open_repository, refuse_missing_home
from goalseek.project.paths import save_folder
from goalseek.project.picture import read_picture
from goalseek.project.project import Project
from goalseek.sandbox.home import AgentHome
from goalseek.sandbox.supervisor import PROGRAMS_LOCK, kill_leftovers, trusted_mark
from goalseek.values import StopReason
from goalseek.workspace.places import CachePaths, cache_paths

_OWN_LOGS = frozenset(
    """.gitignore results.jsonl results.index standing.json state.json manifest.json manifest.schema.json directions
    output.log detached.log stop.json warned.json last_end.json questions.txt unsent.txt report.html report.md
    report.svg flight
    """.split()
)
_TEMPORARY_FILES = frozenset(name for own in _OWN_LOGS for name in (f"{own}.new", f"{Path(own).stem}.new"))


def provider_from_options(loaded: ManifestFile, name: str | None, model: str | None) -> ProviderTable | None:
    """None for the manifest's own."""
    table = loaded.manifest.provider
    if name is None and model is None:
        return None
    if name is None or (table and table.name == name):
        if table is None:
            raise GoalseekError("--model without a provider", "--provider NAME --model M")
        return structs.replace(table, model=model if model is not None else table.model)
    return ProviderTable(name=name, model=model or "")


@contextlib.contextmanager
def open_project(
    loaded: ManifestFile,
    watch: Observer | None = None,
    provider_table: ProviderTable | None = None,
    is_new: bool = False,
    doing: str = "",
    is_trial: bool = False,
) -> Iterator[Project]:
    """Open a project for writing, under its lock; raises GoalseekError. Others who want the lock are told ``doing``.

    A project that has no record yet is left as it was by an error; by a trial, also without one.
    """
    refuse_missing_home(loaded)
    watch = watch or Observer()
    repository = open_repository(loaded)
    places = cache_paths(repository.location, base_of(loaded, repository.top), repository.name)
    add_own(places.home)
    had_logs = loaded.logs.exists() or loaded.runs.exists()
    home = loaded.home
    paths = (loaded.logs.parent, home / ".gitignore", home / "manifest.schema.json", home)
    new_paths = tuple(path for path in paths if not os.path.lexists(path))  # others are another climb's or the user's
    try:
        repository.own.mkdir(parents=True, exist_ok=True)
        lock = project_lock(
            repository.own, lambda: read_picture(loaded.state).phase_in_words(is_for=True), doing, loaded.path.resolve()
        )
        with lock, process.marking_programs(trusted_mark(places.owner)):
            if kill_leftovers(places.owner, repository.own / PROGRAMS_LOCK):
                watch.on_note("ended programs of a killed run that were still running")
            homes = [AgentHome(home) for lane in places.lanes() for home in (lane.agent, lane.reviewer)]
            for path in (path for home in homes for path in home.collect_renewed_logins()):
                watch.on_note(f"restored a login that the agent had renewed before the kill: {path}")
            remove_stale_locks(repository, places)
            repository.objects.bring_back()
            remove_scratch_files(_own_git_folders(repository, places))
            project = Project(loaded, repository, places, watch, provider_table)
            leaves_nothing = False
            try:
                begin_or_resume_run(project, is_new)
                save_folder(loaded, repository.location)
                yield project
                leaves_nothing = is_trial
            except Exception as error:
                fault = fault_of(project, error)
                leaves_nothing = fault is not None
                if fault is None or fault is error:
                    raise
                raise fault from error
            finally:
                with contextlib.suppress(OSError, GitFailed, ObjectsFailed):  # the next invocation does so as well
                    repository.objects.bring_back()
                project.close()
                if project.standing.seq < 0 and not had_logs:
                    if leaves_nothing:
                        _remove_new_paths(loaded, repository, new_paths)
                    elif loaded.logs.exists():
                        make_log_folders(loaded)
    finally:
        repository.close()


def fault_of(project: Project, error: Exception) -> GoalseekError | None:
    """The error that names a fault of the machine, or goalseek's folders removed by somebody; None for a bug."""
    if isinstance(error, GoalseekError) and error.stop_reason != StopReason.REPOSITORY:
        return error
    for folder, inode in project.inodes.items():
        if not folder.exists() or folder.stat().st_ino != inode:
            message = f"{folder} was removed while goalseek was at work"
            return GoalseekError(message, "run the same command again", StopReason.REPOSITORY)
    return error if isinstance(error, GoalseekError) else machine_error(error)


def refuse_foreign_logs(loaded: ManifestFile, next_iteration: int) -> None:
    """Raises GoalseekError if ``logs`` or ``runs`` beside the manifest hold somebody else's files.

    Before the first record any foreign file is refused; afterwards only a run folder from ``next_iteration`` on.
    """
    if loaded.manifest.log.home != ".":
        return
    for path in (path for folder in (loaded.logs, loaded.runs) for path in sorted(folder.glob("*"))):
        if path.parent == loaded.runs and path.name.isdecimal():
            is_in_the_way = int(path.name) >= next_iteration and is_foreign(path)
        else:
            is_in_the_way = next_iteration == 0 and path.name not in _OWN_LOGS | _TEMPORARY_FILES
        if is_in_the_way:
            message = f"log.home: {path} is in the way, and goalseek did not make it"
            raise GoalseekError(message, "move it away, or choose another log.home", USAGE)


def begin_or_resume_run(project: Project, is_new: bool) -> None:
    """Resume the run of the last record, or begin one, which is recorded with its first iteration."""
    run_file, recorded = project.repository.own / "run", project.standing.run_id
    run_id = run_file.read_text().strip() if run_file.exists() else ""
    if is_new:
        refuse_while_asking(project, "a new run", run_id or recorded)
    if is_new or not recorded:
        if is_new or not run_id:
            run_id = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
            run_file.write_text(run_id + "\n")
        project.began, project.run_id = "asked for" if is_new else "first", run_id
    elif run_id == recorded:
        remove(run_file)
    elif run_id:
        project.began, project.run_id = "asked for", run_id


def refuse_while_asking(project: Project, action: str, run_id: str = "") -> None:
    """Raises GoalseekError if ``action`` would leave behind a candidate that waits for approval."""
    if questions := open_questions(project.loaded, project.standing, run_id or project.run_id):
        message = f"iteration {questions[0].iteration} waits for your approval, so {action} must wait too"
        raise GoalseekError(message, f"{commands_for(questions[0])}; then goalseek iterate, then this again", USAGE)


def _remove_new_paths(loaded: ManifestFile, repository: Repository, new_paths: tuple[Path, ...]) -> None:
    """Remove the logs of a run without a record, and the ``new_paths`` around them."""
    home = loaded.home
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
        # Last: as soon as it is gone, another process may take a lock of that name.
        remove_if_exists(repository.own / LOCK)
        repository.own.rmdir()
        repository.own.parent.rmdir()


def remove_stale_locks(repository: Repository, places: CachePaths) -> None:
    """Remove git's lock files. No process holds them: their makers ended before this project's lock was free."""
    common_dir = repository.location.common_dir
    refs = (repository.tip_ref, repository.ledger_ref, repository.branch_ref)
    for path in (*(common_dir / f"{ref}.lock" for ref in refs), *(common_dir / repository.flight_ref).rglob("*.lock")):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()
    for folder in _own_git_folders(repository, places):
        for path in folder.rglob("*.lock"):
            remove_if_exists(path)


def _own_git_folders(repository: Repository, places: CachePaths) -> tuple[Path, ...]:
    workspaces = (lane.workspace.with_name("workspace.git") for lane in places.lanes())
    return (repository.own / "objects.git", *workspaces)
