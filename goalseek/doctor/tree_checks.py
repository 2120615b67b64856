"""Checks of repository, trees and environment: what would go wrong in the middle of the night is refused or noted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from goalseek.disk import LITTLE_FREE, check_free_space
from goalseek.doctor.subject import Subject
from goalseek.errors import GitFailed, GoalseekError
from goalseek.evaluation.measurements import sync_bench
from goalseek.git.objects import Entry, Objects
from goalseek.git.paths import SUBMODULE, quote_path
from goalseek.git.repository import Repository
from goalseek.git.trees import read_attributes
from goalseek.humanize import abbreviate
from goalseek.manifest.exposure import fixed_seed_line, named_paths
from goalseek.manifest.parallel import agents_of, benches_of
from goalseek.project.config import Config
from goalseek.project.landing import Landing
from goalseek.project.opening import refuse_foreign_logs
from goalseek.project.progress import direction_warning, guard_notice
from goalseek.sandbox import editable_installs
from goalseek.values import Finding, StopReason
from goalseek.workspace import hidden_files
from goalseek.workspace.shared_folders import MAX_FILES, refuse_unfit_gives, refuse_unfit_shares

_BLOCK = 4096  # what a file takes at least on most file systems, in bytes
_LONGEST_CODE = 200_000  # bytes of a file in which a seed is looked for
_CONVERSIONS = ("filter", "working-tree-encoding", "eol", "ident", "text")


def check_branch(subject: Subject) -> Iterator[Finding]:
    """No other ref is in the way of goalseek's own."""
    subject.project.repository.refuse_conflicting_branch()
    if mended := subject.project.ledger.mended:
        yield Finding("note", mended, place="records")


def check_own_refs(subject: Subject) -> Iterator[Finding]:
    """Tip and branch are where the records have them; what a kill left behind is moved there."""
    project = subject.project
    Landing(project).catch_up()
    where = f"HEAD, {project.repository.head()[:12]}"
    if incumbent := project.standing.incumbent:
        where = f"the incumbent of iteration {incumbent.iteration}, {incumbent.commit[:12]}"
    yield Finding("good", f"{project.repository.top}; climbs from {where}")


def check_named_files(subject: Subject) -> Iterable[Finding]:
    """Every file that the manifest names is there, and no committed one is where goalseek writes."""
    project, manifest = subject.project, subject.project.loaded.manifest
    folder = project.repository.top / project.places.prefix
    named = [("scope.share", name, "make it", Path.exists) for name in manifest.scope.share]
    named += (
        [("project.program", manifest.project.program, "write it", Path.is_file)] if manifest.project.program else []
    )
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
    return ()


def check_log_folders(subject: Subject) -> Iterable[Finding]:
    """Where records will be written, there are no files of somebody else."""
    refuse_foreign_logs(subject.project.loaded, subject.project.standing.next_iteration)
    return ()


def check_left_out_files(subject: Subject) -> Iterator[Finding]:
    """Submodules and converted files, which a command may miss in goalseek's trees."""
    project, entries = subject.project, subject.entries
    top = project.repository.top
    shared = [(top / project.places.prefix / name).resolve() for name in project.loaded.manifest.scope.share]

    def is_shared(module: Path) -> bool:
        return any(module.is_relative_to(path) or path.is_relative_to(module) for path in shared)

    modules = [path for path, entry in entries.items() if entry.mode == SUBMODULE]
    if modules := [path for path in modules if not is_shared((top / path).resolve())]:
        text = f"submodules are not in the trees: {abbreviate(modules)}"
        yield Finding("note", text, "list them in scope.share if a command needs them")
    for form, paths in converted_files(project.repository, entries).items():
        what = f"files are in the trees as git stores them, before {form}"
        what = "Git LFS files are pointers in the trees" if form == "filter=lfs" else what
        remedy = "keep what a command needs in an ignored folder and list that in scope.share"
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
    git_dir = repository.location.git_dir
    for path, values in read_attributes(repository.objects, attributes, files, _CONVERSIONS, git_dir).items():
        for name in ("filter", "working-tree-encoding"):
            if values[name] not in ("set", "unset", "unspecified"):
                files_by_attribute.setdefault(f"{name}={values[name]}", []).append(path)
        if values["eol"] == "crlf" and values["text"] != "unset":
            files_by_attribute.setdefault("eol=crlf", []).append(path)
        if values["ident"] == "set":
            files_by_attribute.setdefault("ident", []).append(path)
    return files_by_attribute


def check_ruler(subject: Subject) -> Iterator[Finding]:
    """Manifest, files and shared folders are what was pinned. A new baseline adopts what differs."""
    project, names = subject.project, subject.project.loaded.manifest.scope.share
    differences = project.differences_from_head()
    if subject.command == "baseline":
        yield from [Finding("note", f"adopts: {', '.join(differences.ruler)}")] if differences.ruler else []
    elif differences.finding:
        yield differences.finding
    starts_anew = project.began == "asked for" if subject.command != "baseline" else subject.source == "the incumbent"
    if differences.code and starts_anew:
        yield Finding("note", differences.code)
    for text in project.shares.notes(names, project.standing.epoch):
        yield Finding("note", text)
    if not project.shares.is_whole(names):
        yield Finding("note", f"of the shared folders only {MAX_FILES} files are looked at for changes")


def check_numbers(subject: Subject) -> Iterator[Finding]:
    """The incumbent meets the manifest's guards and was chosen by its direction."""
    manifest, standing = subject.project.loaded.manifest, subject.project.standing
    if text := guard_notice(manifest, standing):
        yield Finding("note", text)
    if subject.source == "the incumbent" and (text := direction_warning(manifest.metric, standing)):
        yield Finding("note", text)


def check_environment(subject: Subject) -> Iterator[Finding]:
    """No shared environment imports the user's checkout, no shared folder shows or displaces what is hidden."""
    project, config, entries = subject.project, subject.config, subject.entries
    scope, setup, prefix = config.manifest.scope, config.manifest.setup, project.places.prefix
    linked_paths = (*scope.share, *(setup.gives if setup else ()))
    hidden_files.refuse_clashes(config.trees.hidden_from, prefix, entries, linked_paths)
    notes = editable_installs.refuse_editable(config.manifest, project.confines)
    refuse_unfit_shares(project.loaded, project.repository, project.places, config.scope, entries)
    if subject.takes_ruler:
        refuse_unfit_gives(config.manifest, prefix, config.scope, entries)
    yield from notes
    if scope.share:
        hides = bool(scope.hidden or scope.hidden_from)
        text = "no shared folder imports your checkout" + ", and no path is both shared and hidden" * hides
        yield Finding("good", text)


def check_disk(subject: Subject) -> Iterator[Finding]:
    """There is room for records and trees."""
    project = subject.project
    for text in check_free_space((project.repository.own, project.loaded.folder, project.places.home)):
        yield Finding("note", text)


def check_room_for_trees(subject: Subject) -> Iterator[Finding]:
    """What copies of the tree take on disk; nothing below a GiB, and once they are there."""
    project, jobs = subject.project, subject.jobs
    manifest, places, incumbent = project.loaded.manifest, project.places, project.standing.incumbent
    agents, benches = agents_of(manifest, jobs, None, None), benches_of(manifest, jobs)
    made = sum(path.exists() for lane in places.lanes() for path in (lane.workspace, lane.bench("a")))
    if made >= agents + benches:
        return
    commit = incumbent.commit if incumbent else project.repository.head()
    listing = project.repository.objects.git("ls-tree", "-r", "-l", "--full-tree", commit)
    sizes = (line.split(b"\t")[0].split()[3] for line in listing.splitlines())
    # A submodule has no size, nor has a blob that a partial clone lacks.
    blocks = sum(-(int(size) // -_BLOCK) for size in sizes if size.isdigit())
    copies = agents + benches * (1 if manifest.metric.noise == "none" else 2)  # the incumbent has a tree of its own
    if (needed := copies * blocks * _BLOCK) >= LITTLE_FREE:
        text = f"{copies} copies of the tree take about {needed / 2**30:.1f} GiB in {places.home}"
        yield Finding("note", text, "XDG_CACHE_HOME names another disk, and fewer agents or benches need less")


def check_trees(subject: Subject) -> Iterator[Finding]:
    """Workspace and bench can be made."""
    project, incumbent = subject.project, subject.project.standing.incumbent
    try:
        commit = incumbent.commit if incumbent else project.repository.head()
        sync_bench(project, subject.config, project.repository.tree_of(commit))
        if incumbent:
            project.workspace(subject.config)
    except (GoalseekError, OSError) as error:
        remedy = f"make room, or set XDG_CACHE_HOME: they lie in {project.places.home}"
        yield Finding("wrong", str(error), remedy)
    else:
        yield Finding("good", f"made in {project.places.home}")


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
