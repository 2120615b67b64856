"""Preflight checks: whether repository and manifest fit each other, before anything runs.

What would go wrong in the middle of the night is refused at the start, as a GoalseekError with a remedy, or noted.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from goalseek.errors import USAGE, GitFailed, GoalseekError
from goalseek.findings import Finding
from goalseek.git.ignore import matcher
from goalseek.git.objects import Entry
from goalseek.git.paths import SUBMODULE, quote_path
from goalseek.git.repository import Repository
from goalseek.humanize import abbreviate
from goalseek.ledger.artifacts import is_foreign
from goalseek.manifest.loading import ManifestFile, has_metric_command, with_manifest_option
from goalseek.manifest.tables import TIME_SOURCES, Manifest
from goalseek.project.config import Config
from goalseek.project.project import Project
from goalseek.values import StopReason
from goalseek.workspace import hidden_files
from goalseek.workspace.forbidden_names import needs_listing
from goalseek.workspace.scope import Scope, paths_below

_OWN_LOGS = frozenset(
    """.gitignore results.jsonl results.index standing.json state.json manifest.json manifest.schema.json directions
    output.log detached.log stop.json warned.json last_end.json questions.txt unsent.txt report.html report.md
    report.svg flight
    """.split()
)
_TEMPORARY_FILES = frozenset(name for own in _OWN_LOGS for name in (f"{own}.new", f"{Path(own).stem}.new"))
GLOBS = "globs are relative to the manifest's folder, as in .gitignore"
_CONVERSIONS = ("filter", "working-tree-encoding", "eol", "ident", "text")
_NEW_FILE_CODES = ("??", "A ", "AM", "AD", " A")  # as git status says it: HEAD does not know the file, staged or not


def refuse_unfit(project: Project, entries: Mapping[str, Entry]) -> None:
    """Raises GoalseekError for the first thing that does not fit the tree with these files; globs aside."""
    project.repository.refuse_conflicting_branch()
    manifest, folder = project.loaded.manifest, project.repository.top / project.places.prefix
    for name in manifest.scope.share:
        if not (folder / name).exists():
            raise GoalseekError(f"scope.share: there is no {folder / name}", "make it, or take it out", USAGE)
    program = manifest.project.program
    if program and not (folder / program).is_file():
        raise GoalseekError(f"project.program: there is no {folder / program}", "write it, or take it out", USAGE)
    for cheat in manifest.cheat:
        if not (folder / cheat.patch).is_file():
            raise GoalseekError(f"cheat: there is no {folder / cheat.patch}", "write it, or take it out", USAGE)
    home = manifest.log.home
    for name in ("logs", "runs") if home == "." else (home,):
        below = f"{project.places.prefix}{name}/"
        committed_path = next((path for path in entries if path.startswith(below)), None)
        if committed_path:
            message = f"log.home: {quote_path(committed_path)} is committed; goalseek would write beside it"
            raise GoalseekError(message, "choose another log.home", USAGE)
    refuse_missing_blobs(project.repository)


def time_problems(loaded: ManifestFile) -> Iterator[Finding]:
    """What makes it unclear or useless to take a command's time as a number."""
    manifest, metric = loaded.manifest, loaded.manifest.metric
    if is_time_unclear(loaded) and (names := _timeable_commands(manifest)):
        problem = f'the metric is a time (source = "{metric.source}"), and metric.command does not say which of the '
        remedy = "name it: " + ", or ".join(f'metric.command = "{name}"' for name in names)
        yield Finding("wrong", f"{problem}{len(manifest.commands)} verify commands takes it", remedy)
        return
    for reading in (metric, *manifest.guard):
        if reading.source in TIME_SOURCES and not _judges_candidate(manifest, reading.command):
            table = "metric" if reading is metric else "[[guard]]"
            why = "which neither sees the candidate nor gets `outputs` of a command that does"
            problem = f"{table}: {reading.name} is the time of {reading.command}, {why}"
            yield Finding("wrong", problem, "name a command that runs the candidate as its `command`")


def is_time_unclear(loaded: ManifestFile) -> bool:
    """Whether the metric is the time of one of several commands, and the manifest does not say of which."""
    manifest = loaded.manifest
    return manifest.metric.source in TIME_SOURCES and len(manifest.commands) > 1 and not has_metric_command(loaded)


def _timeable_commands(manifest: Manifest) -> list[str]:
    """The commands whose time may be the metric; where two run the candidate, not one that only checks beside it."""
    judging = [one for one in manifest.commands if _judges_candidate(manifest, one.name)]
    running = [one for one in judging if one.sees != "hidden" or one.outputs]
    return [one.name for one in (running if len(running) > 1 else judging) if not one.once]


def _judges_candidate(manifest: Manifest, name: str) -> bool:
    """Whether the command sees the candidate's files, or what a command before it made of them."""
    command = next(command for command in manifest.commands if command.name == name)
    return command.sees != "hidden" or bool(manifest.outputs_before(command))


def refuse_missing_home(loaded: ManifestFile) -> None:
    """Raises GoalseekError where the folder of the logs is a link to a disk that is not there, or no folder."""
    home = loaded.folder / loaded.manifest.log.home
    if os.path.lexists(home) and not home.is_dir():
        problem = f"a link to {os.readlink(home)}, which is not there" if home.is_symlink() else "no folder"
        message = f"log.home: {home} is {problem}"
        raise GoalseekError(message, "mount or make it, or take it away", StopReason.REPOSITORY)


def refuse_foreign_logs(loaded: ManifestFile, next_iteration: int) -> None:
    """Raises GoalseekError where ``logs`` or ``runs`` beside the manifest hold something that is not goalseek's.

    Before there are records that is any other file; after it, the folder of ``next_iteration`` or of a later one.
    """
    if loaded.manifest.log.home != ".":
        return
    own_names = _OWN_LOGS | _TEMPORARY_FILES
    for folder in (loaded.logs, loaded.runs):
        for path in sorted(folder.glob("*")):
            if folder == loaded.runs and path.name.isdecimal():
                if int(path.name) >= next_iteration and is_foreign(path):
                    raise _foreign_file_error(path)
            elif next_iteration == 0 and path.name not in own_names:
                raise _foreign_file_error(path)


def _foreign_file_error(path: Path) -> GoalseekError:
    message = f"log.home: {path} is not goalseek's; it would write there"
    return GoalseekError(message, "choose another log.home, or move that away", USAGE)


def glob_problems(project: Project, entries: Iterable[str], code: Iterable[str] = ()) -> Iterator[Finding]:
    """Globs of the scope that match none of the committed files ``entries``.

    A writable one may match a file of the ``code`` as well that is measured with them.
    """
    below, scope = paths_below(project.places.prefix, entries), project.loaded.manifest.scope
    for name in ("writable", "read_only", "hidden"):
        files = [*below, *paths_below(project.places.prefix, code)] if name == "writable" else below
        for pattern in _unmatched_patterns(getattr(scope, name), files, is_writable=name == "writable"):
            yield Finding("wrong", f"scope.{name}: {_no_match_text(project.loaded, pattern)}", GLOBS)


def refuse_nothing_writable(project: Project, entries: Iterable[str]) -> None:
    """Raises GoalseekError where a climb that goes on has no writable file left among those of its tree."""
    patterns = project.loaded.manifest.scope.writable
    unmatched = list(_unmatched_patterns(patterns, paths_below(project.places.prefix, entries), is_writable=True))
    if project.standing.baseline is None or unmatched != list(_positive_patterns(patterns)):
        return
    message = "scope.writable leaves no file to change in the tree that the climb starts from"
    hint = f"name files that are there: git ls-tree -r --name-only {project.repository.tip_ref}"
    if _commit_matches(project, project.repository.head(), patterns):
        hint += "; or begin again with your own code, after goalseek promote: goalseek baseline --from HEAD"
    raise GoalseekError(message, hint, StopReason.REPOSITORY)


def writable_notes(project: Project, entries: Iterable[str]) -> Iterator[Finding]:
    """A note with a remedy for each writable glob that matches none of the tree's files ``entries``.

    None before the first baseline, and for a glob that matches a file of the baseline: a keep has rightly removed it.
    """
    baseline, scope = project.standing.baseline, project.loaded.manifest.scope
    if baseline is None:
        return
    for pattern in _unmatched_patterns(scope.writable, paths_below(project.places.prefix, entries), is_writable=True):
        if _commit_matches(project, baseline.commit, (pattern,)):
            continue
        if _commit_matches(project, project.repository.head(), (pattern,)):
            problem = f"{pattern!r} matches files of HEAD, but none in the tree that the climb starts from"
            remedy = "goalseek promote, then goalseek baseline --from HEAD, brings it there"
        else:
            problem, remedy = _no_match_text(project.loaded, pattern), "commit it, or take it out"
        remedy = with_manifest_option(remedy, project.loaded.path)
        yield Finding("note", f"scope.writable: {problem}", remedy)


def _commit_matches(project: Project, commit: str, patterns: Sequence[str]) -> bool:
    """Whether one of the commit's files matches the globs."""
    return any(map(matcher(tuple(patterns)), paths_below(project.places.prefix, project.repository.files_of(commit))))


def _positive_patterns(patterns: Iterable[str]) -> Iterator[str]:
    return (pattern for pattern in patterns if not pattern.startswith("!"))


def _unmatched_patterns(patterns: Iterable[str], files: Sequence[str], is_writable: bool) -> Iterator[str]:
    """The globs that match none of the files; without writable ones that only allow a candidate to add a file."""
    for pattern in _positive_patterns(patterns):
        if not any(map(matcher((pattern,)), files)) and not (is_writable and needs_listing(pattern)):
            yield pattern


def _no_match_text(loaded: ManifestFile, pattern: str) -> str:
    path = next(filter(matcher((pattern,)), _walk_files(loaded.folder)), None)
    addition = f"; {quote_path(path)} is there, but not committed" if path else ""
    return f"{pattern!r} matches no committed file{addition}"


class UncommittedFiles(Struct, frozen=True):
    """Files of the checkout that differ from HEAD: new hidden ones, changed ones of the ruler, and writable ones."""

    hidden: tuple[str, ...]
    ruler: tuple[str, ...]
    writable: tuple[str, ...]

    @classmethod
    def read(cls, repository: Repository, scope: Scope) -> UncommittedFiles:
        """Asks git; goalseek's own files are left out."""
        hidden, ruler, writable = [], [], []
        for letters, path in repository.changed_files():
            is_new = letters in _NEW_FILE_CODES
            if scope.kind(path) == "writable":
                writable.append(quote_path(path))
            elif not scope.is_own_file(path) and is_new and scope.kind(path) == "hidden":
                hidden.append(quote_path(path))
            elif not is_new and scope.in_ruler(path):
                ruler.append(quote_path(path))
        ruler.sort(key=lambda path: not path.startswith(scope.prefix))
        return cls(tuple(hidden), tuple(ruler), tuple(writable))

    def refuse_of_ruler(self) -> None:
        """Raises GoalseekError where the baseline would not measure a file of the ruler as the checkout has it."""
        if not self.hidden and not self.ruler:
            return
        why = "tracked files that the climb may not write are uncommitted, and each may be part of the verifier"
        message, hint = f"{why}: {abbreviate(self.ruler)}", "commit or stash them"
        if self.hidden:
            message = f"hidden, but not committed: {abbreviate(self.hidden)}"
            hint = "commit them; the agent never gets them"
        if self.writable:
            message += f"\nwritable, and not committed either: {abbreviate(self.writable)}"
        hint += "; or measure what is committed: goalseek iterate --committed, goalseek baseline --committed"
        raise GoalseekError(message, hint, USAGE)

    def note(self, source: str) -> str:
        """A note of all of them, and that the baseline is that of ``source``; "" where there are none."""
        files = (*self.hidden, *self.ruler, *self.writable)
        verb = "has" if len(files) == 1 else "have"
        return f"{abbreviate(files)} {verb} uncommitted changes: the baseline is that of {source}" if files else ""


def refuse_hidden_clashes(config: Config, prefix: str, entries: Mapping[str, Entry]) -> None:
    """Raises GoalseekError where a file of ``hidden_from`` has the path of something else in the verifier's tree."""
    setup = config.manifest.setup
    linked_paths = (*config.manifest.scope.share, *(setup.gives if setup else ()))
    hidden_files.refuse_clashes(config.hidden_from, prefix, entries, linked_paths)


def refuse_missing_blobs(repository: Repository) -> None:
    """Raises GoalseekError in a partial clone whose files are not all here."""
    if not _is_partial(repository):
        return
    listing = repository.git("rev-list", "--objects", "--missing=print", repository.head() + "^{tree}")
    missing = sum(line.startswith(b"?") for line in listing.splitlines())
    if missing:
        message = f"this is a partial clone, and {missing} objects of HEAD are not here"
        raise GoalseekError(message, "fetch them: git fetch --refetch --no-filter", StopReason.REPOSITORY)


def tree_notes(project: Project, entries: Mapping[str, Entry]) -> Iterator[Finding]:
    """Notes on submodules and converted files that a command may miss in goalseek's trees, each with a remedy."""
    top, prefix = project.repository.top, project.places.prefix
    shared = [(top / prefix / name).resolve() for name in project.loaded.manifest.scope.share]

    def is_shared(module: Path) -> bool:
        return any(module.is_relative_to(path) or path.is_relative_to(module) for path in shared)

    modules = [path for path, entry in entries.items() if entry.mode == SUBMODULE]
    if modules := [path for path in modules if not is_shared((top / path).resolve())]:
        hint = "list them in scope.share if a command needs them"
        yield Finding("note", f"submodules are not in the trees: {abbreviate(modules)}", hint)
    remedy = "keep what a command needs in an ignored folder and list that in scope.share"
    for form, paths in converted_files(project.repository, entries).items():
        what = f"files are in the trees as git stores them, before {form}"
        what = "Git LFS files are pointers in the trees" if form == "filter=lfs" else what
        yield Finding("note", f"{what}: {abbreviate(paths)}", remedy)


def converted_files(repository: Repository, entries: Mapping[str, Entry]) -> dict[str, list[str]]:
    """Files that a checkout converts, by the attribute that says so, as ``filter=lfs``.

    Only attributes of this tree and of the repository count. Git is asked only where one of them could convert a file.
    """
    attributes = {path: entry for path, entry in entries.items() if path.rsplit("/", 1)[-1] == ".gitattributes"}
    contents = [repository.objects.read(entry.blob) for entry in attributes.values()]
    with contextlib.suppress(FileNotFoundError):
        contents.append((repository.location.common_dir / "info/attributes").read_bytes())
    if not any(word in content for content in contents for word in (b"filter", b"encoding", b"crlf", b"ident")):
        return {}
    files = [path for path, entry in entries.items() if entry.mode.startswith("100")]
    files_by_attribute: dict[str, list[str]] = {}
    for path, values in repository.attributes(attributes, files, _CONVERSIONS).items():
        for name in ("filter", "working-tree-encoding"):
            if values[name] not in ("set", "unset", "unspecified"):
                files_by_attribute.setdefault(f"{name}={values[name]}", []).append(path)
        if values["eol"] == "crlf" and values["text"] != "unset":
            files_by_attribute.setdefault("eol=crlf", []).append(path)
        if values["ident"] == "set":
            files_by_attribute.setdefault("ident", []).append(path)
    return files_by_attribute


def _is_partial(repository: Repository) -> bool:
    if b"promisor" not in (repository.location.common_dir / "config").read_bytes():
        return False
    try:
        listing = repository.git("config", "--type=bool", "--get-regexp", r"^remote\..*\.promisor$")
    except GitFailed:  # none is set
        return False
    return any(line.endswith(b" true") for line in listing.splitlines())


def _walk_files(folder: Path) -> Iterator[str]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for name in names:
            yield Path(parent, name).relative_to(folder).as_posix()
