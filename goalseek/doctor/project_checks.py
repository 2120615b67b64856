"""The checks of a project's files, repository and trees, so that nothing fails in the middle of the night."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from goalseek.disk import LITTLE_FREE, check_free_space
from goalseek.errors import USAGE, GitFailed, GoalseekError
from goalseek.evaluation.measurements import sync_bench
from goalseek.git.ignore import matcher
from goalseek.git.objects import Entry, Objects
from goalseek.git.paths import SUBMODULE, quote_path
from goalseek.git.repository import Repository
from goalseek.humanize import MAX_NAMES, abbreviate, pluralize
from goalseek.manifest import exposure
from goalseek.manifest.loading import ManifestFile
from goalseek.manifest.tables import TIME_SOURCES
from goalseek.project import landing, opening, progress
from goalseek.project.config import Config
from goalseek.project.project import Project
from goalseek.sandbox import editable_installs
from goalseek.values import Finding, StopReason
from goalseek.workspace import forbidden_names, hidden_files, shared_folders
from goalseek.workspace.scope import overlap_matcher, paths_below

_GLOBS = "globs are relative to the manifest's folder, as in .gitignore"
_NEW_FILE_CODES = ("??", "A ", "AM", "AD", " A")  # as git status says it: HEAD does not know the file, staged or not
_BLOCK = 4096  # bytes, the least size of a file on most file systems
_LONGEST_CODE = 200_000  # bytes of a file in which a seed is looked for
_CONVERSIONS = ("filter", "working-tree-encoding", "eol", "ident", "text")


class Subject(Struct, frozen=True):
    """The state that a command is about to measure or change."""

    project: Project
    config: Config
    command: str
    entries: Mapping[str, Entry]  # the ruler's source
    code: Mapping[str, Entry]  # the candidates' start
    source: str  # of the code, in words
    commit: str = ""
    jobs: int | None = None
    unfit_cheats: tuple[Finding, ...] = ()
    is_live: bool = False  # allows a call to the provider

    @property
    def takes_ruler(self) -> bool:
        """Whether the command pins a ruler; else it is pinned already."""
        return self.command in ("baseline", "compare") or self.project.standing.baseline is None


def check_globs(subject: Subject) -> Iterator[Finding]:
    """Before a ruler is pinned every glob matches a committed file, or for writable ones a file of code or baseline.

    Later an unmatched writable glob is a note, as a keep may have removed its files.
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


def check_writable_files(subject: Subject) -> None:
    project, patterns = subject.project, subject.project.loaded.manifest.scope.writable
    files = paths_below(project.places.prefix, subject.code)
    unmatched = list(_unmatched_patterns(patterns, files, is_writable=True))
    if project.standing.baseline is None or len(unmatched) < sum(pattern[:1] != "!" for pattern in patterns):
        return
    message = "scope.writable leaves no file to change in the tree that the climb starts from"
    hint = f"name committed files: git ls-tree -r --name-only {project.repository.tip_ref}"
    if _commit_matches(project, project.repository.head(), patterns):
        hint += "; or begin again with your own code, after goalseek promote: goalseek baseline --from HEAD"
    raise GoalseekError(message, hint, StopReason.REPOSITORY)


def summarize_scope(subject: Subject) -> Iterator[Finding]:
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
    if unlisted:
        texts.append(f"agents take instructions from it, so no candidate changes it: {abbreviate(unlisted)}")
    texts += [f"generated and never committed: {', '.join(scope.generated)}"] if scope.generated else []
    texts += [f"shared, not copied: {', '.join(scope.share)}"] if scope.share else []
    yield Finding("good", "; ".join(texts))


def _count_files(paths: Sequence[str], kind: str) -> str:
    names = f" ({', '.join(map(quote_path, paths))})" if 0 < len(paths) <= MAX_NAMES else ""
    return pluralize(len(paths), f"{kind} file") + names


def _commit_matches(project: Project, commit: str, patterns: Sequence[str]) -> bool:
    return any(map(matcher(tuple(patterns)), paths_below(project.places.prefix, project.repository.files_of(commit))))


def _unmatched_patterns(patterns: Iterable[str], files: Sequence[str], is_writable: bool) -> Iterator[str]:
    """Without writable globs that only allow new files."""
    for pattern in (pattern for pattern in patterns if not pattern.startswith("!")):
        if not any(map(matcher((pattern,)), files)) and not (is_writable and forbidden_names.needs_listing(pattern)):
            yield pattern


def _no_match_text(loaded: ManifestFile, pattern: str) -> str:
    is_match = matcher((pattern,))
    for parent, folders, names in os.walk(loaded.folder):
        folders[:] = [name for name in folders if name != ".git"]
        paths = (Path(parent, name).relative_to(loaded.folder).as_posix() for name in names)
        if path := next(filter(is_match, paths), ""):
            return f"{pattern!r} matches no committed file; {quote_path(path)} is there, but not committed"
    return f"{pattern!r} matches no committed file"


def check_timed_command(subject: Subject) -> Iterator[Finding]:
    """A time is that of a command which depends on the candidate."""
    loaded = subject.project.loaded
    manifest, metric = loaded.manifest, loaded.manifest.metric
    if not subject.takes_ruler and subject.command != "doctor":
        return
    # Where two commands run the candidate, its time is not that of one which only checks beside it.
    judging = [one for one in manifest.commands if one.sees != "hidden" or manifest.outputs_before(one)]
    running = [one for one in judging if one.sees != "hidden" or one.outputs]
    names = [one.name for one in (running if len(running) > 1 else judging) if not one.once]
    if is_time_unclear(loaded) and names:
        problem = f'the metric is a time (source = "{metric.source}"), but metric.command names none of the '
        remedy = "name it: " + ", or ".join(f'metric.command = "{name}"' for name in names)
        yield Finding("wrong", f"{problem}{len(manifest.commands)} verify commands", remedy)
        return
    for reading in (metric, *manifest.guard):
        if reading.source in TIME_SOURCES and reading.command not in [one.name for one in judging]:
            table = "metric" if reading is metric else "[[guard]]"
            why = "which neither sees the candidate nor gets `outputs` of a command that does"
            problem = f"{table}: {reading.name} is the time of {reading.command}, {why}"
            yield Finding("wrong", problem, "name a command that runs the candidate as its `command`")


def is_time_unclear(loaded: ManifestFile) -> bool:
    """Whether the manifest does not say which of several commands is timed."""
    manifest = loaded.manifest
    if manifest.metric.source not in TIME_SOURCES or len(manifest.commands) < 2:
        return False
    import tomllib

    return "command" not in tomllib.loads(loaded.text).get("metric", {})


def check_committed_files(subject: Subject) -> Iterator[Finding]:
    """All that a baseline depends on is committed; afterwards it is pinned."""
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
        why = "uncommitted changes outside scope.writable, perhaps part of the verifier"
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
        yield Finding("good", "every file that the number depends on is in HEAD")


def check_branch(subject: Subject) -> Iterator[Finding]:
    subject.project.repository.refuse_conflicting_branch()
    if mended := subject.project.ledger.mended:
        yield Finding("note", mended, place="records")


def check_own_refs(subject: Subject) -> Iterator[Finding]:
    project = subject.project
    landing.catch_up(project)  # moves tip and branch if a kill left them behind the records
    where = f"HEAD, {project.repository.head()[:12]}"
    if incumbent := project.standing.incumbent:
        where = f"the incumbent of iteration {incumbent.iteration}, {incumbent.commit[:12]}"
    yield Finding("good", f"{project.repository.top}; climbs from {where}")


def check_named_files(subject: Subject) -> None:
    """Every file that the manifest names exists, and goalseek's folders have no committed file."""
    project, manifest = subject.project, subject.project.loaded.manifest
    folder = project.repository.top / project.places.prefix
    named = [("scope.share", name, "make it", Path.exists) for name in manifest.scope.share]
    if program := manifest.project.program:
        named.append(("project.program", program, "write it", Path.is_file))
    named += [("cheat", cheat.patch, "write it", Path.is_file) for cheat in manifest.cheat]
    for key, name, remedy, is_there in named:
        if not is_there(folder / name):
            raise GoalseekError(f"{key}: there is no {folder / name}", f"{remedy}, or take it out")
    home = manifest.log.home
    for name in ("logs", "runs") if home == "." else (home,):
        below = f"{project.places.prefix}{name}/"
        if committed_path := next((path for path in subject.entries if path.startswith(below)), None):
            message = f"log.home: {quote_path(committed_path)} is committed; goalseek would write beside it"
            raise GoalseekError(message, "choose another log.home")
    repository, promisors = project.repository, b""
    if b"promisor" in (repository.location.common_dir / "config").read_bytes():
        with contextlib.suppress(GitFailed):  # none is set
            promisors = repository.git("config", "--type=bool", "--get-regexp", r"^remote\..*\.promisor$")
    if any(line.endswith(b" true") for line in promisors.splitlines()):
        listing = repository.git("rev-list", "--objects", "--missing=print", repository.head() + "^{tree}")
        if missing := sum(line.startswith(b"?") for line in listing.splitlines()):
            message = f"this is a partial clone, and {missing} objects of HEAD are not here"
            raise GoalseekError(message, "fetch them: git fetch --refetch --no-filter", StopReason.REPOSITORY)


def check_log_folders(subject: Subject) -> None:
    opening.refuse_foreign_logs(subject.project.loaded, subject.project.standing.next_iteration)


def check_left_out_files(subject: Subject) -> Iterator[Finding]:
    project, entries = subject.project, subject.entries
    top = project.repository.top
    folder, share = top / project.places.prefix, project.loaded.manifest.scope.share
    is_shared = overlap_matcher(str((folder / name).resolve()) for name in share)
    modules = [path for path, entry in entries.items() if entry.mode == SUBMODULE]
    if modules := [path for path in modules if not is_shared(str((top / path).resolve()))]:
        text = f"submodules are not in the trees: {abbreviate(modules)}"
        yield Finding("note", text, "list them in scope.share if a command needs them")
    for form, paths in converted_files(project.repository, entries).items():
        what = f"files are in the trees as git stores them, before {form}"
        what = "Git LFS files are pointers in the trees" if form == "filter=lfs" else what
        remedy = "keep the files that a command needs in an ignored folder, and list it in scope.share"
        yield Finding("note", f"{what}: {abbreviate(paths)}", remedy)


def converted_files(repository: Repository, entries: Mapping[str, Entry]) -> dict[str, list[str]]:
    """Files that a checkout converts, by attribute, as ``filter=lfs``.

    Only attributes of this tree and the repository count. git is asked only if one could convert a file.
    """
    attributes = {path: entry for path, entry in entries.items() if path.rsplit("/", 1)[-1] == ".gitattributes"}
    contents = [repository.objects.read(entry.blob) for entry in attributes.values()]
    with contextlib.suppress(FileNotFoundError):
        contents.append((repository.location.common_dir / "info/attributes").read_bytes())
    if not any(word in content for content in contents for word in (b"filter", b"encoding", b"crlf", b"ident")):
        return {}
    files = [path for path, entry in entries.items() if entry.mode.startswith("100")]
    files_by_attribute: dict[str, list[str]] = {}
    git_dir = repository.location.git_dir
    for path, values in repository.objects.read_attributes(attributes, files, _CONVERSIONS, git_dir).items():
        for name in ("filter", "working-tree-encoding"):
            if values[name] not in ("set", "unset", "unspecified"):
                files_by_attribute.setdefault(f"{name}={values[name]}", []).append(path)
        if values["eol"] == "crlf" and values["text"] != "unset":
            files_by_attribute.setdefault("eol=crlf", []).append(path)
        if values["ident"] == "set":
            files_by_attribute.setdefault("ident", []).append(path)
    return files_by_attribute


def check_ruler(subject: Subject) -> Iterator[Finding]:
    """Manifest, files and shared folders are as pinned; a new baseline adopts differences."""
    project = subject.project
    differences = project.differences_from_head()
    if subject.command == "baseline":
        yield from [Finding("note", f"adopts: {', '.join(differences.ruler)}")] if differences.ruler else []
    elif differences.finding:
        yield differences.finding
    starts_anew = project.began == "asked for" if subject.command != "baseline" else subject.source == "the incumbent"
    if differences.code and starts_anew:
        yield Finding("note", differences.code)
    shares = shared_folders.SharedFolders(project.repository.own, project.folder, project.loaded.manifest.scope.share)
    for text in shares.notes(project.standing.epoch):
        yield Finding("note", text)
    if not shares.is_whole():
        yield Finding("note", f"of the shared folders only {shared_folders.MAX_FILES} files are looked at for changes")


def check_guards_and_direction(subject: Subject) -> Iterator[Finding]:
    manifest, standing = subject.project.loaded.manifest, subject.project.standing
    if text := progress.guard_notice(manifest, standing):
        yield Finding("note", text)
    if subject.source == "the incumbent" and (text := progress.direction_warning(manifest.metric, standing)):
        yield Finding("note", text)


def check_environment(subject: Subject) -> Iterator[Finding]:
    """No shared environment imports the user's checkout; no shared folder shows or displaces hidden files."""
    project, config, entries = subject.project, subject.config, subject.entries
    scope, setup, prefix = config.manifest.scope, config.manifest.setup, project.places.prefix
    linked_paths = (*scope.share, *(setup.gives if setup else ()))
    hidden_files.refuse_clashes(config.trees.hidden_from, prefix, entries, linked_paths)
    notes = editable_installs.refuse_editable(config.manifest, project.confines)
    shared_folders.refuse_unfit_shares(project.loaded, project.repository, project.places, config.scope, entries)
    if subject.takes_ruler:
        shared_folders.refuse_unfit_gives(config.manifest, prefix, config.scope, entries)
    yield from notes
    if scope.share:
        hides = bool(scope.hidden or scope.hidden_from)
        text = "no shared folder imports your checkout" + ", and no path is both shared and hidden" * hides
        yield Finding("good", text)


def check_disk(subject: Subject) -> Iterator[Finding]:
    project = subject.project
    for text in check_free_space((project.repository.own, project.loaded.folder, project.places.home)):
        yield Finding("note", text)


def check_room_for_trees(subject: Subject) -> Iterator[Finding]:
    """The size of the trees; silent below a GiB, and once they exist."""
    project = subject.project
    manifest, places = project.loaded.manifest, project.places
    agents, benches = manifest.agents_and_benches(subject.jobs)
    made = sum(path.exists() for lane in places.lanes() for path in (lane.workspace, lane.bench("a")))
    if made >= agents + benches:
        return
    listing = project.repository.objects.git("ls-tree", "-r", "-l", "--full-tree", subject.commit)
    sizes = (line.split(b"\t")[0].split()[3] for line in listing.splitlines())
    # A submodule has no size, nor has a blob that a partial clone lacks.
    blocks = sum(-(int(size) // -_BLOCK) for size in sizes if size.isdigit())
    copies = agents + benches * (1 if manifest.metric.noise == "none" else 2)  # the incumbent has a tree of its own
    if (needed := copies * blocks * _BLOCK) >= LITTLE_FREE:
        text = f"{copies} copies of the tree take about {needed / 2**30:.1f} GiB in {places.home}"
        yield Finding("note", text, "XDG_CACHE_HOME names another disk, and fewer agents or benches need less")


def check_trees(subject: Subject) -> Iterator[Finding]:
    project = subject.project
    try:
        sync_bench(project, subject.config, project.repository.tree_of(subject.commit))
        if project.standing.incumbent:
            project.workspace(subject.config)
    except (GoalseekError, OSError) as error:
        remedy = f"make room, or set XDG_CACHE_HOME: they lie in {project.places.home}"
        yield Finding("wrong", str(error), remedy)
    else:
        yield Finding("good", f"made in {project.places.home}")


def fixed_seed_note(objects: Objects, config: Config, tree: str) -> Finding | None:
    """A note on equal numbers, if writable code, or visible code that a command names, fixes a seed; else None."""
    scope, manifest = config.scope, config.manifest
    if manifest.metric.allow_fixed_seed:
        return None
    runs_code = [command for command in manifest.commands if command.sees != "hidden"]
    named = set[str]().union(*(exposure.named_paths(command, {}) for command in runs_code))
    for path, entry in sorted(objects.files(tree).items()):
        kind, own = scope.kind(path), path.removeprefix(scope.prefix)
        if entry.mode.startswith("100") and (kind == "writable" or (kind != "hidden" and own in named)):
            text = objects.read(entry.blob)[:_LONGEST_CODE].decode("utf-8", "replace")
            if line := exposure.fixed_seed_line(text):
                text = f"the same number under every GOALSEEK_SEED: {quote_path(own)}:{line} fixes a seed"
                return Finding("note", text, "draw it from $GOALSEEK_SEED, or you will climb on that seed", "seed")
    return None
