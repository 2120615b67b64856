"""Checks of the manifest against the files that git has: globs, named paths, times, and what is not committed."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from goalseek.doctor.subject import Subject
from goalseek.errors import USAGE, GoalseekError
from goalseek.git.ignore import matcher
from goalseek.git.paths import quote_path
from goalseek.humanize import MAX_NAMES, abbreviate, pluralize
from goalseek.manifest.loading import ManifestFile
from goalseek.manifest.tables import TIME_SOURCES, Manifest
from goalseek.project.project import Project
from goalseek.values import Finding, StopReason
from goalseek.workspace.forbidden_names import needs_listing
from goalseek.workspace.scope import paths_below

_GLOBS = "globs are relative to the manifest's folder, as in .gitignore"
_NEW_FILE_CODES = ("??", "A ", "AM", "AD", " A")  # as git status says it: HEAD does not know the file, staged or not


def check_globs(subject: Subject) -> Iterator[Finding]:
    """Before a ruler is taken every glob matches a committed file; a writable one, a file of the code or the baseline.

    After it, a writable glob that matches nothing is worth a note: a keep may have rightly removed its files.
    """
    project = subject.project
    baseline, below = project.standing.baseline, paths_below(project.places.prefix, subject.entries)
    if subject.takes_ruler:
        before = project.repository.files_of(baseline.commit) if baseline else ()
        code = paths_below(project.places.prefix, (*subject.code, *before))
        for name, files in (("writable", (*below, *code)), ("read_only", below), ("hidden", below)):
            patterns = getattr(project.loaded.manifest.scope, name)
            for pattern in _unmatched_patterns(patterns, files, is_writable=name == "writable"):
                yield Finding("wrong", f"scope.{name}: {_no_match_text(project.loaded, pattern)}", _GLOBS)
    yield from _lost_globs(subject)


def _lost_globs(subject: Subject) -> Iterator[Finding]:
    """A note for each writable glob that matches no file of the code, nor one of the baseline."""
    project = subject.project
    baseline, patterns = project.standing.baseline, project.loaded.manifest.scope.writable
    if baseline is None:
        return
    for pattern in _unmatched_patterns(patterns, paths_below(project.places.prefix, subject.code), is_writable=True):
        if _commit_matches(project, baseline.commit, (pattern,)):
            continue
        if _commit_matches(project, project.repository.head(), (pattern,)):
            problem = f"{pattern!r} matches files of HEAD, but none in the tree that the climb starts from"
            remedy = "goalseek promote, then goalseek baseline --from HEAD, brings it there"
        else:
            problem, remedy = _no_match_text(project.loaded, pattern), "commit it, or take it out"
        yield Finding("note", f"scope.writable: {problem}", remedy)


def check_writable_files(subject: Subject) -> Iterable[Finding]:
    """A climb that goes on has a writable file left."""
    project, patterns = subject.project, subject.project.loaded.manifest.scope.writable
    files = paths_below(project.places.prefix, subject.code)
    unmatched = list(_unmatched_patterns(patterns, files, is_writable=True))
    if project.standing.baseline is None or unmatched != list(_positive_patterns(patterns)):
        return ()
    message = "scope.writable leaves no file to change in the tree that the climb starts from"
    hint = f"name files that are there: git ls-tree -r --name-only {project.repository.tip_ref}"
    if _commit_matches(project, project.repository.head(), patterns):
        hint += "; or begin again with your own code, after goalseek promote: goalseek baseline --from HEAD"
    raise GoalseekError(message, hint, StopReason.REPOSITORY)


def summarize_scope(subject: Subject) -> Iterator[Finding]:
    """The files of each kind."""
    scope, prefix = subject.config.manifest.scope, subject.project.places.prefix
    by_kind: dict[str, list[str]] = {}
    for path in subject.entries:
        by_kind.setdefault(subject.config.scope.kind(path), []).append(path.removeprefix(prefix))
    hidden = by_kind.get("hidden", [])
    hidden_by_pattern = list(filter(matcher(scope.hidden), hidden)) if scope.hidden else []
    read_only = filter(matcher(scope.read_only), (path.removeprefix(prefix) for path in subject.entries))
    parts = [_count_files(by_kind.get("writable", []), "writable")]
    parts += [_count_files(hidden_by_pattern, "hidden")] if scope.hidden else []
    parts += [_count_files(list(read_only), "read-only")] if scope.read_only else []
    own = [quote_path(path) for path in hidden if path not in hidden_by_pattern]
    unlisted = [quote_path(path) for path in subject.entries if subject.config.scope.unlisted_instructions(path)]
    texts = [f"{'' if any(_lost_globs(subject)) else 'every glob matches: '}{', '.join(parts)}"]
    texts += [f"kept from the agent as well: {abbreviate(own)}"] if own else []
    texts += (
        [f"agents take instructions from it, so no candidate changes it: {abbreviate(unlisted)}"] if unlisted else []
    )
    texts += [f"generated and never committed: {', '.join(scope.generated)}"] if scope.generated else []
    texts += [f"shared, not copied: {', '.join(scope.share)}"] if scope.share else []
    yield Finding("good", "; ".join(texts))


def _count_files(paths: Sequence[str], kind: str) -> str:
    names = f" ({', '.join(map(quote_path, paths))})" if 0 < len(paths) <= MAX_NAMES else ""
    return pluralize(len(paths), f"{kind} file") + names


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
    is_match = matcher((pattern,))
    for parent, folders, names in os.walk(loaded.folder):
        folders[:] = [name for name in folders if name != ".git"]
        paths = (Path(parent, name).relative_to(loaded.folder).as_posix() for name in names)
        if path := next(filter(is_match, paths), ""):
            return f"{pattern!r} matches no committed file; {quote_path(path)} is there, but not committed"
    return f"{pattern!r} matches no committed file"


def check_number(subject: Subject) -> Iterator[Finding]:
    """A number that is a time is that of a command which says something about the candidate."""
    loaded = subject.project.loaded
    manifest, metric = loaded.manifest, loaded.manifest.metric
    if not subject.takes_ruler and subject.command != "doctor":
        return
    # Where two commands run the candidate, its time is not that of one which only checks beside it.
    judging = [one for one in manifest.commands if _judges_candidate(manifest, one.name)]
    running = [one for one in judging if one.sees != "hidden" or one.outputs]
    names = [one.name for one in (running if len(running) > 1 else judging) if not one.once]
    if is_time_unclear(loaded) and names:
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
    is_one_of_several = manifest.metric.source in TIME_SOURCES and len(manifest.commands) > 1
    return is_one_of_several and "command" not in tomllib.loads(loaded.text).get("metric", {})


def _judges_candidate(manifest: Manifest, name: str) -> bool:
    """Whether the command sees the candidate's files, or what a command before it made of them."""
    command = next(command for command in manifest.commands if command.name == name)
    return command.sees != "hidden" or bool(manifest.outputs_before(command))


def check_committed_files(subject: Subject) -> Iterator[Finding]:
    """Everything that a baseline depends on is committed. Not asked later, as it is pinned then."""
    project, scope = subject.project, subject.config.scope
    if not subject.takes_ruler:
        return
    hidden, ruler, writable = [], [], []
    for letters, path in project.repository.changed_files():
        is_new = letters in _NEW_FILE_CODES
        if scope.kind(path) == "writable":
            writable.append(quote_path(path))
        elif not scope.is_own_file(path) and is_new and scope.kind(path) == "hidden":
            hidden.append(quote_path(path))
        elif not is_new and scope.in_ruler(path):
            ruler.append(quote_path(path))
    ruler.sort(key=lambda path: not path.startswith(scope.prefix))
    if (hidden or ruler) and not project.is_committed_only:
        why = "tracked files that the climb may not write are uncommitted, and each may be part of the verifier"
        message, hint = f"{why}: {abbreviate(ruler)}", "commit or stash them"
        if hidden:
            message = f"hidden, but not committed: {abbreviate(hidden)}"
            hint = "commit them; the agent never gets them"
        if writable:
            message += f"\nwritable, and not committed either: {abbreviate(writable)}"
        hint += "; or measure what is committed: goalseek iterate --committed, goalseek baseline --committed"
        raise GoalseekError(message, hint, USAGE)
    if files := (*hidden, *ruler, *writable):
        verb = "has" if len(files) == 1 else "have"
        text = f"{abbreviate(files)} {verb} uncommitted changes: the baseline is that of {subject.source}"
        is_measured = subject.source == "HEAD"
        yield Finding("note", text, "commit them, to climb from them; or stash them" if is_measured else "")
    else:
        yield Finding("good", "all that the number depends on is in HEAD")
