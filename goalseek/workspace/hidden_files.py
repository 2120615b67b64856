"""Hidden files of a folder outside the repository (``scope.hidden_from``), pinned by path, size and time."""

from collections.abc import Iterable
from pathlib import Path

from goalseek.disk import read_regular
from goalseek.errors import USAGE, GoalseekError, tampered_error
from goalseek.git.objects import Entry
from goalseek.git.paths import quote_path
from goalseek.humanize import abbreviate
from goalseek.manifest.tables import Manifest
from goalseek.workspace.checkout import COPY, COPY_PROGRAM, TreePlan
from goalseek.workspace.listing import Listing, changed_paths, list_folder
from goalseek.workspace.scope import is_tool_cache, overlap_matcher


def folder_of(base: Path, manifest: Manifest) -> Path | None:
    return base / manifest.scope.hidden_from if manifest.scope.hidden_from else None


def list_hidden(folder: Path, top: Path) -> Listing:
    """Raises GoalseekError if the folder is unreadable, empty, overlaps ``top``, or has a file that is not regular."""
    path, repository = folder.resolve(), top.resolve()
    if path.is_relative_to(repository) or repository.is_relative_to(path):
        raise _error(f"{folder} and the repository lie one in the other", "name a folder outside the repository")
    try:
        listing = list_folder(folder, is_skipped=_is_skipped)
    except OSError as error:
        raise _error(f"{folder} cannot be read: {error.strerror}", "name an existing folder") from None
    irregular = [quote_path(item.path) for item in listing if item.kind not in ("file", "program")]
    if irregular:
        raise _error(f"{folder} has files that are not regular: {abbreviate(irregular)}", "put the file itself there")
    if not listing:
        raise _error(f"{folder} has no files", "put the hidden files there, or take the key out")
    return listing


def refuse_clashes(listing: Listing, prefix: str, paths: Iterable[str], other_folders: Iterable[str]) -> None:
    """Raises GoalseekError if a hidden file has the place of a repository file, or lies in one of ``other_folders``."""
    clashes = overlap_matcher(prefix + item.path for item in listing)
    for path in filter(clashes, paths):
        raise _error(f"{quote_path(path)} is in the repository too", "a hidden file has one place: remove one")
    for name in other_folders:
        if clashes(prefix + name):
            in_the_way = overlap_matcher([name])
            path = quote_path(next(item.path for item in listing if in_the_way(item.path)))
            message = f"its {path} has the path of {quote_path(name)}, which is shared or given by setup"
            raise _error(message, f"rename {quote_path(name)}, or that file or its folder in scope.hidden_from")


def as_entries(listing: Listing, prefix: str) -> dict[str, Entry]:
    """A bench's entries, by path in the tree; size and time stand in for the blob."""
    return {
        prefix + item.path: Entry(COPY_PROGRAM if item.kind == "program" else COPY, f"{item.size} {item.time}")
        for item in listing
    }


def content_of(folder: Path, path: str, expected: Entry) -> bytes:
    """Raises GoalseekError, ``tampered``, if the file is not the pinned one."""
    try:
        status = (folder / path).lstat()
        content = read_regular(folder, path, is_ours=False)
    except OSError as error:
        raise tampered_error(f"{folder / path} cannot be read: {error.strerror}") from None
    if f"{status.st_size} {status.st_mtime_ns}" != expected.blob or len(content) != status.st_size:
        raise tampered_error(f"{folder / path} is not as it was pinned")
    return content


def refuse_changed(plan: TreePlan) -> None:
    """Raises GoalseekError, ``tampered``, if the folder differs from its pin."""
    folder = plan.hidden_folder
    if folder and (changed := [quote_path(path) for path in changed_files(folder, plan.hidden_from)]):
        raise tampered_error(f"scope.hidden_from: not as it was pinned in {folder}: {abbreviate(changed)}")


def changed_files(folder: Path, pinned: Listing) -> list[str]:
    """Every pinned path if the folder cannot be read."""
    try:
        return changed_paths(pinned, list_folder(folder, is_skipped=_is_skipped))
    except OSError:
        return [item.path for item in pinned]


def _is_skipped(path: str) -> bool:
    return path == ".git" or path.startswith(".git/") or is_tool_cache(path)


def _error(message: str, hint: str) -> GoalseekError:
    return GoalseekError(f"scope.hidden_from: {message}", hint, USAGE)
