"""Whether a repository fits its manifest: what would otherwise go wrong in the middle of the night."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalseek.errors import UNFIT, USAGE, GoalseekError
from goalseek.git.ignore import literal, matcher
from goalseek.git.objects import Entry
from goalseek.git.paths import SUBMODULE, quote_path
from goalseek.git.repository import Repository
from goalseek.humanize import abbreviate
from goalseek.ledger.artifacts import is_foreign
from goalseek.manifest.loading import Loaded
from goalseek.manifest.tables import Manifest
from goalseek.workspace import hidden_files
from goalseek.workspace.forbidden_names import needs_listing
from goalseek.workspace.scan import Listing
from goalseek.workspace.scope import Scope

_OWN_LOGS = frozenset(
    """.gitignore results.jsonl standing.json state.json manifest.json manifest.schema.json directions output.log
    detached.log stop.json warned.json word.json last_end.json report.html report.md report.svg""".split()
)
_HALF_WRITTEN = frozenset(name for own in _OWN_LOGS for name in (f"{own}.new", f"{Path(own).stem}.new"))
GLOBS = "globs are relative to the manifest's folder, as in .gitignore"
_OTHERWISE = ("filter", "working-tree-encoding", "eol", "ident", "text")
_NEW = ("??", "A ", "AM", "AD", " A")  # as git status says it: HEAD does not know the file, staged or not


def refuse_unfit(loaded: Loaded, repository: Repository, prefix: str, entries: Mapping[str, Entry]) -> None:
    """Raises GoalseekError for the first thing but a glob that does not fit the tree with these files."""
    repository.refuse_branch_in_the_way()
    folder = repository.top / prefix
    for name in loaded.manifest.scope.share:
        if not (folder / name).exists():
            raise GoalseekError(f"scope.share: there is no {folder / name}", "make it, or take it out", USAGE)
    program = loaded.manifest.project.program
    if program and not (folder / program).is_file():
        raise GoalseekError(f"project.program: there is no {folder / program}", "write it, or take it out", USAGE)
    for cheat in loaded.manifest.cheat:
        if not (folder / cheat.patch).is_file():
            raise GoalseekError(f"cheat: there is no {folder / cheat.patch}", "write it, or take it out", USAGE)
    home = loaded.manifest.log.home
    for name in ("logs", "runs") if home == "." else (home,):
        below = f"{prefix}{name}/"
        tracked = next((path for path in entries if path.startswith(below)), None)
        if tracked:
            message = f"log.home: {quote_path(tracked)} is committed; goalseek would write beside it"
            raise GoalseekError(message, "choose another log.home", USAGE)
    refuse_missing_blobs(repository)


def refuse_missing_home(loaded: Loaded) -> None:
    """Raises GoalseekError where the folder of the logs is a link to a disk that is not there, or no folder."""
    home = loaded.folder / loaded.manifest.log.home
    if os.path.lexists(home) and not home.is_dir():
        told = f"a link to {os.readlink(home)}, which is not there" if home.is_symlink() else "no folder"
        raise GoalseekError(f"log.home: {home} is {told}", "mount or make it, or take it away", UNFIT, "repository")


def refuse_foreign_logs(loaded: Loaded, following: int) -> None:
    """Raises GoalseekError where ``logs`` or ``runs`` beside the manifest hold something that is not goalseek's.

    That is, before there are records, anything; and the folder of iteration ``following``, or of a later one.
    """
    if loaded.manifest.log.home != ".":
        return
    own = _OWN_LOGS | _HALF_WRITTEN
    for folder in (loaded.logs, loaded.runs):
        for path in sorted(folder.glob("*")):
            if folder == loaded.runs and path.name.isdecimal():
                if int(path.name) >= following and is_foreign(path):
                    raise _foreign(path)
            elif following == 0 and path.name not in own:
                raise _foreign(path)


def _foreign(path: Path) -> GoalseekError:
    message = f"log.home: {path} is not goalseek's; it would write there"
    return GoalseekError(message, "choose another log.home, or move that away", USAGE)


def refuse_globs(loaded: Loaded, prefix: str, entries: Iterable[str], code: Iterable[str] = ()) -> None:
    """Raises GoalseekError for the first of the ``glob_problems``."""
    for problem in glob_problems(loaded, prefix, entries, code):
        raise GoalseekError(problem, GLOBS, USAGE)


def glob_problems(loaded: Loaded, prefix: str, entries: Iterable[str], code: Iterable[str] = ()) -> Iterator[str]:
    """Globs of the scope that match none of the committed files ``entries``, in words.

    A writable one may match a file of the ``code`` as well that is measured with them.
    """
    below = _below(prefix, entries)
    for name in ("writable", "read_only", "hidden"):
        files = [*below, *_below(prefix, code)] if name == "writable" else below
        for pattern in _unmatched(getattr(loaded.manifest.scope, name), files, is_writable=name == "writable"):
            yield f"scope.{name}: {_no_match(loaded, pattern)}"


def refuse_nothing_writable(loaded: Loaded, repository: Repository, prefix: str, entries: Iterable[str]) -> None:
    """Raises GoalseekError where no writable glob matches a file of the tree that is climbed from."""
    patterns = loaded.manifest.scope.writable
    if list(_unmatched(patterns, _below(prefix, entries), is_writable=True)) == [*_plain(patterns)]:
        message = "scope.writable: no file of the tree that is climbed from is left to change"
        hint = f"name files that are there: git ls-tree -r --name-only {repository.tip_ref}"
        own = _below(prefix, repository.objects.files(repository.tree_of(repository.head())))
        if any(map(matcher(tuple(patterns)), own)):
            hint += "; or begin again with your own code, after goalseek promote: goalseek baseline --from HEAD"
        raise GoalseekError(message, hint, UNFIT, "repository")


def writable_notes(
    loaded: Loaded, repository: Repository, prefix: str, entries: Iterable[str], baseline: str
) -> list[str]:
    """What a climb makes of a writable glob that matches none of its tree's files ``entries``, each with its remedy.

    Nothing is said of what a keep took away from the commit ``baseline``: it is gone by right.
    """
    told = []
    for pattern in _unmatched(loaded.manifest.scope.writable, _below(prefix, entries), is_writable=True):
        matches = matcher((pattern,))

        def has(commit: str, matches: Callable[[str], bool] = matches) -> bool:
            return any(map(matches, _below(prefix, repository.objects.files(repository.tree_of(commit)))))

        if has(baseline):
            continue
        if has(repository.head()):
            what = f"scope.writable: {pattern!r} is in HEAD, but not in the tree that is climbed from"
            told.append(f"{what}; goalseek promote, then goalseek baseline --from HEAD, brings it there")
        else:
            told.append(f"scope.writable: {_no_match(loaded, pattern)}; commit it, or take it out")
    return told


def _below(prefix: str, paths: Iterable[str]) -> list[str]:
    return [path[len(prefix) :] for path in paths if path.startswith(prefix)]


def _plain(patterns: Iterable[str]) -> Iterator[str]:
    return (pattern for pattern in patterns if not pattern.startswith("!"))


def _unmatched(patterns: Iterable[str], files: Sequence[str], is_writable: bool) -> Iterator[str]:
    """The globs that match none of the files, but for what is named only so that a candidate may add it."""
    for pattern in _plain(patterns):
        if not any(map(matcher((pattern,)), files)) and not (is_writable and needs_listing(pattern)):
            yield pattern


def _no_match(loaded: Loaded, pattern: str) -> str:
    there = next(filter(matcher((pattern,)), _uncommitted(loaded.folder)), None)
    told = f"; {quote_path(there)} is there, but not committed" if there else ""
    return f"{pattern!r} matches no committed file{told}"


def refuse_uncommitted(repository: Repository, scope: Scope) -> None:
    """Raises GoalseekError where a file of the ruler differs from HEAD: the baseline would not measure it."""
    changed, unknown = [], []
    for letters, path in repository.dirty():
        if scope.is_apart(path):
            continue
        is_new = letters in _NEW
        if is_new and scope.kind(path) == "hidden":
            unknown.append(quote_path(path))
        elif not is_new and scope.in_ruler(path):
            changed.append(quote_path(path))
    if unknown:
        message = f"hidden, but not committed: {abbreviate(unknown)}"
        raise GoalseekError(message, "commit them; the agent never gets them", USAGE)
    if changed:
        message = f"the number depends on files with uncommitted changes: {abbreviate(changed)}"
        raise GoalseekError(message, "commit or stash them, or make them writable", USAGE)


def uncommitted_words(repository: Repository, scope: Scope, measured: str) -> str:
    """Which writable files differ from HEAD, and that the baseline is that of what is ``measured``; "" for none."""
    changed = [quote_path(path) for _, path in repository.dirty() if scope.kind(path) == "writable"]
    verb = "has" if len(changed) == 1 else "have"
    return f"{abbreviate(changed)} {verb} uncommitted changes: the baseline is that of {measured}" if changed else ""


def refuse_hidden_clashes(manifest: Manifest, prefix: str, listing: Listing, entries: Mapping[str, Entry]) -> None:
    """Raises GoalseekError where a file of ``hidden_from`` would land on something else."""
    given = (*manifest.scope.share, *(manifest.setup.gives if manifest.setup else ()))
    hidden_files.refuse_clashes(listing, prefix, entries, given)


def refuse_missing_blobs(repository: Repository) -> None:
    """Raises GoalseekError in a partial clone whose files are not all here."""
    if not _is_partial(repository):
        return
    tree = repository.head() + "^{tree}"
    listing = repository.git("rev-list", "--objects", "--missing=print", tree)
    missing = sum(line.startswith(b"?") for line in listing.splitlines())
    if missing:
        message = f"this is a partial clone, and {missing} objects of HEAD are not here"
        raise GoalseekError(message, "fetch them: git fetch --refetch --no-filter", UNFIT, "repository")


def notes(loaded: Loaded, repository: Repository, prefix: str, entries: Mapping[str, Entry]) -> list[str]:
    """What a command may miss in the trees that goalseek makes, each with its remedy."""
    told = []
    shared = matcher(tuple(map(literal, loaded.manifest.scope.share)))
    modules = [path for path, entry in entries.items() if entry.mode == SUBMODULE and not shared(path[len(prefix) :])]
    if modules:
        told.append(
            f"submodules are not in the trees: {abbreviate(modules)}; list them in scope.share if a command needs them"
        )
    remedy = "keep what a command needs in an ignored folder and list that in scope.share"
    for means, files in stored_otherwise(repository, entries).items():
        files = [path for path in files if not shared(path[len(prefix) :])]
        if files and means == "filter=lfs":
            told.append(f"Git LFS files are pointers in the trees: {abbreviate(files)}; {remedy}")
        elif files:
            told.append(f"files are in the trees as git stores them, before {means}: {abbreviate(files)}; {remedy}")
    return told


def stored_otherwise(repository: Repository, entries: Mapping[str, Entry]) -> dict[str, list[str]]:
    """Files that a checkout has in another form than git, by the attribute that makes it so, as ``filter=lfs``.

    Git is asked, by the attributes of these files' tree and those of the repository alone; nobody is where none of
    these could make such a difference.
    """
    attributes = {path: entry for path, entry in entries.items() if path.rsplit("/", 1)[-1] == ".gitattributes"}
    written = [repository.objects.read(entry.blob) for entry in attributes.values()]
    with contextlib.suppress(FileNotFoundError):
        written.append((repository.location.common_dir / "info/attributes").read_bytes())
    if not any(word in content for content in written for word in (b"filter", b"encoding", b"crlf", b"ident")):
        return {}
    files = [path for path, entry in entries.items() if entry.mode.startswith("100")]
    found: dict[str, list[str]] = {}
    for path, values in repository.attributes(attributes, files, _OTHERWISE).items():
        for name in ("filter", "working-tree-encoding"):
            if values[name] not in ("set", "unset", "unspecified"):
                found.setdefault(f"{name}={values[name]}", []).append(path)
        if values["eol"] == "crlf" and values["text"] != "unset":
            found.setdefault("eol=crlf", []).append(path)
        if values["ident"] == "set":
            found.setdefault("ident", []).append(path)
    return found


def _is_partial(repository: Repository) -> bool:
    if b"promisor" not in (repository.location.common_dir / "config").read_bytes():
        return False
    import git

    with git.Repo(repository.location.common_dir) as opened, opened.config_reader("repository") as configuration:
        remotes = [section for section in configuration.sections() if section.startswith("remote ")]
        return any(configuration.get_value(remote, "promisor", False) is True for remote in remotes)


def _uncommitted(folder: Path) -> Iterator[str]:
    for inner, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for name in names:
            yield Path(inner, name).relative_to(folder).as_posix()


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. Not ``ok``: it must be mended; ``ok`` with a remedy: it is worth knowing."""

    name: str
    ok: bool
    text: str
    remedy: str = ""

    @property
    def mark(self) -> str:
        """A cross, an exclamation mark, or a tick."""
        return "✗" if not self.ok else "!" if self.remedy else "✓"
