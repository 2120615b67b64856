"""The checks before a climb: whether repository, manifest, sandbox and provider of the open project fit together."""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from goalseek.disk import check_free_space
from goalseek.git.ignore import matcher
from goalseek.git.objects import Entry
from goalseek.git.paths import quote_path
from goalseek.git.repository import Repository
from goalseek.humanize import abbreviate
from goalseek.manifest.loading import ManifestFile, with_manifest_option
from goalseek.manifest.tables import TIME_SOURCES, Manifest, VerifyCommand
from goalseek.measurement.ruler import HeadDifferences, differences_of_head
from goalseek.process import environment_without
from goalseek.project import preflight
from goalseek.project.progress import direction_warning, guard_notice
from goalseek.project.project import Project
from goalseek.providers.provider import WritableFile
from goalseek.providers.registry import WITHOUT_PROGRAM
from goalseek.sandbox import editable_installs
from goalseek.workspace.hidden_files import SCRIPTS, hidden_paths, named_paths, shared_answers
from goalseek.workspace.scope import Scope, manifest_scope
from goalseek.workspace.shared_folders import MAX_FILES, refuse_unfit_shares

EXPOSED = "candidate code can read the hidden files"


def exposing_commands(manifest: Manifest) -> tuple[str, ...]:
    """The verify commands in which candidate code runs beside hidden files; none where nothing is hidden.

    A program that is only timed is not among them: see ``timed_program``.
    """
    if not manifest.scope.hidden and manifest.scope.hidden_from is None:
        return ()
    commands, timed = manifest.verify, timed_program(manifest)
    hidden = [command for command in commands if command != timed and command.sees == "hidden"]
    handed_on = [command for command in hidden if started_outputs(manifest, command)]
    return tuple(command.name for command in commands if command.sees == "both" or command in handed_on)


_PROGRAM = re.compile(r"(?:^|[;&|(])\s*([^\s;&|()]+)")


def started_outputs(manifest: Manifest, command: VerifyCommand) -> set[str]:
    """The programs that a command starts, by its own words, and that an earlier one handed on."""
    before = manifest.verify[: manifest.verify.index(command)]
    is_output = matcher([glob for other in before if other.sees != "hidden" for glob in other.outputs])
    words = _PROGRAM.findall(command.run) if isinstance(command.run, str) else command.run[:1]
    return set(filter(is_output, (word.removeprefix("./") for word in words)))


def timed_program(manifest: Manifest) -> VerifyCommand | None:
    """The command whose time is the metric, where it runs what an earlier one built beside the hidden files."""
    if manifest.metric.source not in TIME_SOURCES:
        return None
    command = next(command for command in manifest.verify if command.name == manifest.metric.command)
    return command if command.sees == "hidden" and manifest.gets_outputs(command) else None


def exposure_note(manifest: Manifest) -> str:
    """A note that candidate code can read what the manifest hides; "" where it cannot."""
    if not (names := exposing_commands(manifest)):
        return ""
    verb = "see" if len(names) > 1 else "sees"
    return f"{EXPOSED}: {' and '.join(names)} {verb} both; goalseek doctor says how to separate them"


HASH_INSTEAD = "keep its sha256 instead (goalseek help verifier)"
_CHECKSUM = re.compile(r"(?i)\w+sum\b|openssl|hashlib|sha\d|md5")
_CHECKSUM_FILE = re.compile(r"(?i)sum|sha\d|md5|hash|digest")


def answer_notes(project: Project, entries: Iterable[str]) -> Iterator[str]:
    """Notes on the answers that candidate code, or the timed program, can read. ``entries`` are the tree's files."""
    config = project.config() if project.standing.incumbent else project.config_for_baseline()
    hidden = hidden_paths(project.folder, config.manifest, config.scope.prefix, config.hidden_from, entries)
    if answers := list(readable_answers(config.manifest, hidden)):
        yield f"{abbreviate(answers)}; {HASH_INSTEAD}"
    for text, remedy in shared_answers(project.folder, config.manifest, hidden):
        yield f"{text}; {remedy}"


def readable_answers(manifest: Manifest, hidden: Mapping[str, Path]) -> Iterator[str]:
    """A note on each hidden file that a later command compares with, and that the timed program can read as well.

    ``hidden`` are the hidden files by their paths; those of them that a command runs as a script are read.
    """
    timed = timed_program(manifest)
    if timed is None:
        return
    remaining = {path for path in hidden if not path.endswith(SCRIPTS) and not _CHECKSUM_FILE.search(path)}
    remaining -= named_paths(timed, hidden)
    for command in manifest.verify[manifest.verify.index(timed) + 1 :]:
        named = named_paths(command, hidden, _CHECKSUM) if command.sees != "candidate" else set()
        for path in sorted(remaining & named):
            yield f"{timed.name}: the timed program can read {quote_path(path)}"
        remaining -= named


def check_fit(project: Project) -> Mapping[str, Entry]:
    """The preflight: raises GoalseekError where repository and manifest do not fit; notes what a command may miss.

    Gives the files of the tree that is climbed from: the incumbent's, or HEAD's before the first baseline.
    """
    incumbent = project.standing.incumbent
    entries = project.repository.files_of(incumbent.commit if incumbent else project.repository.head())
    for note in scope_notes(project, entries):
        project.watch.on_note(note)
    manifest = project.config().manifest if incumbent else project.loaded.manifest
    _check_tree(project, entries, manifest, project.began == "asked for")
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
    preflight.refuse_unmatched_globs(project, head, {**files, **baseline_files})
    preflight.refuse_nothing_writable(project, files)
    for note in preflight.writable_notes(project, files):
        project.watch.on_note(note)
    _check_tree(project, head, project.loaded.manifest, source == "the incumbent")
    _check_uncommitted(project, source)


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


def scope_notes(project: Project, entries: Mapping[str, Entry]) -> Iterator[str]:
    """Notes on globs that match nothing of the tree that is climbed from.

    Before the first baseline each of them has to match, which raises GoalseekError. After it hidden and read-only ones
    are pinned, and a writable one may have lost its file to a keep.
    """
    if project.standing.baseline is None:
        preflight.refuse_unmatched_globs(project, entries)
    yield from preflight.writable_notes(project, entries)


def _check_tree(project: Project, entries: Mapping[str, Entry], manifest: Manifest, notes_code: bool) -> None:
    """The checks of every tree. ``manifest`` is the one that programs are started by: that of a climb is pinned.

    ``notes_code`` is whether a note names HEAD's writable files that are not in the climb.
    """
    preflight.refuse_unfit(project, entries)
    for note in check_free_space((project.repository.own, project.loaded.folder, project.places.home)):
        project.watch.on_note(note)
    preflight.refuse_foreign_logs(project.loaded, project.standing.next_iteration)
    check_sandbox(project, entries, manifest)
    for note in preflight.tree_notes(project, entries):
        project.watch.on_note(note)
    if warning := guard_notice(project.loaded.manifest, project.standing):
        project.watch.on_note(warning)
    differences = differences_from_head(project)
    if differences.code and notes_code:
        project.watch.on_note(with_manifest_option(differences.code, project.loaded.path))
    for name in differences.ruler:
        hint = with_manifest_option("goalseek baseline adopts it", project.loaded.path)
        project.watch.on_note(f"{name} differs from the pinned verifier; {hint}")
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


def check_provider(project: Project, entries: Mapping[str, Entry]) -> None:
    """Raises GoalseekError where the provider cannot start, or cannot edit any of these files."""
    preflight.refuse_nothing_writable(project, entries)
    project.provider().look_over(writable_files(project.repository, project.config().scope, entries))


def writable_files(repository: Repository, scope: Scope, entries: Mapping[str, Entry]) -> Iterator[WritableFile]:
    """The files of a tree that a provider may edit."""
    for path, entry in sorted(entries.items()):
        if entry.mode.startswith("100") and scope.kind(path) == "writable":
            yield WritableFile(path, functools.partial(repository.objects.read, entry.blob))


def differences_from_head(project: Project) -> HeadDifferences:
    """What a new baseline would adopt of manifest and HEAD, and whose code it could start from."""
    baseline = project.standing.baseline
    return differences_of_head(project.loaded, project.repository.location, baseline.commit if baseline else "")


def notify_words(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command of ``[notify]`` as it is run: a ``~`` before its program is your HOME."""
    return (os.path.expanduser(command[0]), *command[1:])


def notify_environment() -> dict[str, str]:
    """The user's whole environment, without ``GOALSEEK_*``; on PATH no relative folder, and goalseek's own at its end.

    A relative folder would be one below the manifest's, where kept changes may be taken home to.
    """
    folders = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if Path(folder).is_absolute()]
    path = os.pathsep.join([*folders, str(Path(sys.executable).parent)])
    return environment_without("GOALSEEK_") | {"PATH": path}


def notify_problem(loaded: ManifestFile) -> str:
    """Why the program of ``[notify]`` cannot or may not run: it is missing, or candidates may change it; else ""."""
    folder, command = loaded.folder.resolve(), notify_words(loaded.manifest.notify.command or ("",))
    kind = manifest_scope(loaded, loaded.manifest, "").kind
    for number, word in enumerate(command):
        path = Path(os.path.realpath(folder / word))
        is_here = (number > 0 or "/" in word) and os.path.isfile(path) and path.is_relative_to(folder)
        if is_here and kind(path.relative_to(folder).as_posix()) == "writable":
            return f"{word} is not run: scope.writable lets candidates change it; exclude it there, or move it"
    program = str(folder / command[0]) if "/" in command[0] else command[0]
    if not command[0] or shutil.which(program, path=notify_environment()["PATH"]):
        return ""
    if "/" in command[0] and os.path.isfile(program):
        return f"{command[0]} is not executable; chmod +x {shlex.quote(command[0])}"
    return f"{command[0]} does not exist{'' if '/' in command[0] else ' on PATH'}; correct notify.command"
