"""Hidden files: those of a folder outside the repository (``scope.hidden_from``), pinned by path, size and time.

And which answers candidate code can read in shared folders, by what hidden files and their commands name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import posixpath
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path

from msgspec import structs

from goalseek.errors import USAGE, GitFailed, GoalseekError, tampered_error
from goalseek.git.command import git
from goalseek.git.ignore import matcher
from goalseek.git.location import Location
from goalseek.git.objects import Entry
from goalseek.git.paths import folder_prefix, quote_path
from goalseek.humanize import MAX_NAMES, abbreviate
from goalseek.manifest.exposure import SCRIPTS, read_small, text_of, visible_scorers, words_in
from goalseek.manifest.loading import ManifestFile, base_of
from goalseek.manifest.tables import Manifest, ScopeTable
from goalseek.own_folders import read_regular
from goalseek.workspace.checkout import COPY, COPY_PROGRAM
from goalseek.workspace.scan import ListedFile, Listing, changed_paths, list_folder
from goalseek.workspace.scope import is_tool_cache, overlap_matcher, paths_below
from goalseek.workspace.shared_folders import MAX_FILES

_HIDDEN_MOST = 300  # how many hidden files are read
_COPIES_MOST = 64_000_000  # bytes that are read in search of copies
_PARTS_MOST = 4  # of a path that a script puts together


Note = tuple[str, str]  # what candidate code can read, and the remedy


def folder_of(base: Path, manifest: Manifest) -> Path | None:
    """The folder that the manifest names, if it names one; ``base`` is what its paths are relative to."""
    return base / manifest.scope.hidden_from if manifest.scope.hidden_from else None


def list_hidden(folder: Path, top: Path) -> Listing:
    """The files of the folder as they are now, but for git's own and caches.

    Raises GoalseekError where it is none, where it and the repository at ``top`` lie one in the other, and for anything
    that is no regular file.
    """
    path, repository = folder.resolve(), top.resolve()
    if path.is_relative_to(repository) or repository.is_relative_to(path):
        raise _error(f"{folder} and the repository lie one in the other", "it is a folder outside the repository")
    try:
        listing = list_folder(folder, is_skipped=_is_skipped)
    except OSError as error:
        raise _error(f"{folder} cannot be read: {error.strerror}", "name an existing folder") from None
    irregular = [quote_path(item.path) for item in listing if item.kind not in ("file", "program")]
    if irregular:
        raise _error(f"{folder} has what is no regular file: {abbreviate(irregular)}", "put the file itself there")
    if not listing:
        raise _error(f"{folder} has no files", "put the hidden files there, or take the key out")
    return listing


def refuse_clashes(listing: Listing, prefix: str, paths: Iterable[str], other_folders: Iterable[str]) -> None:
    """Raises GoalseekError where a file would lie on one of the repository's, or in one of ``other_folders``.

    ``paths`` are the repository's; ``other_folders``, below ``prefix``, are shared or given by setup.
    """
    clashes = overlap_matcher(prefix + item.path for item in listing)
    for path in filter(clashes, paths):
        raise _error(f"{quote_path(path)} is in the repository too", "a hidden file has one place: remove one")
    for name in other_folders:
        if clashes(prefix + name):
            in_the_way = overlap_matcher([name])
            path = quote_path(next(item.path for item in listing if in_the_way(item.path)))
            message = f"its {path} has the place of {quote_path(name)}, which is shared or given by setup"
            raise _error(message, f"rename {quote_path(name)}, or that file or its folder in scope.hidden_from")


def as_entries(listing: Listing, prefix: str) -> dict[str, Entry]:
    """The files as a bench holds them: entries by path in the tree, with size and time in the place of a blob."""
    return {
        prefix + item.path: Entry(COPY_PROGRAM if item.kind == "program" else COPY, f"{item.size} {item.time}")
        for item in listing
    }


def content_of(folder: Path, path: str, expected: Entry) -> bytes:
    """The content of one of the files. Raises GoalseekError where it is not the one that was pinned."""
    try:
        status = (folder / path).lstat()
        content = read_regular(folder, path, is_ours=False)
    except OSError as error:
        raise tampered_error(f"{folder / path} cannot be read: {error.strerror}") from None
    if f"{status.st_size} {status.st_mtime_ns}" != expected.blob or len(content) != status.st_size:
        raise tampered_error(f"{folder / path} is not as it was pinned")
    return content


def refuse_changed(folder: Path, pinned: Listing) -> None:
    """Raises GoalseekError, ``tampered``, where the folder is not as it was pinned."""
    if changed := [quote_path(path) for path in changed_files(folder, pinned)]:
        raise tampered_error(f"scope.hidden_from: not as it was pinned in {folder}: {abbreviate(changed)}")


def changed_files(folder: Path, pinned: Listing) -> list[str]:
    """The paths that are not as they were pinned; all of them where the folder cannot be read."""
    try:
        return changed_paths(pinned, list_folder(folder, is_skipped=_is_skipped))
    except OSError:
        return [item.path for item in pinned]


def _is_skipped(path: str) -> bool:
    return path == ".git" or path.startswith(".git/") or is_tool_cache(path)


def _error(message: str, hint: str) -> GoalseekError:
    return GoalseekError(f"scope.hidden_from: {message}", hint, USAGE)


def hidden_paths(
    folder: Path, manifest: Manifest, prefix: str, hidden_from: Listing, paths: Iterable[str]
) -> dict[str, Path]:
    """The hidden files where they lie on disk, by the path that commands find them at, below the manifest's folder.

    ``paths`` are those of a tree, ``prefix`` is that folder's in it, ``hidden_from`` are the files of that key.
    """
    files = {path: folder / path for path in filter(matcher(manifest.scope.hidden), paths_below(prefix, paths))}
    return files | {item.path: folder / (manifest.scope.hidden_from or ".") / item.path for item in hidden_from}


def shared_answers(folder: Path, manifest: Manifest, hidden: Mapping[str, Path]) -> Iterator[Note]:
    """Notes on files in shared folders, which candidate code can read, that look as if they held answers.

    A hidden file or a command beside them names them, they are copies of one, or their name says so. What
    ``scope.share`` names is relative to ``folder``; ``hidden`` are the hidden files where they lie on disk, by the path
    that commands find them at.
    """
    if not (shares := manifest.scope.share):
        return
    listing: list[ListedFile] = []
    for name in shares:
        with contextlib.suppress(OSError):  # what no command can use either
            if (folder / name).is_file():
                listing.append(ListedFile(name, (folder / name).stat().st_size, 0))
            else:
                files = list_folder(folder / name, MAX_FILES - len(listing), _is_library)
                listing += [structs.replace(item, path=f"{name}/{item.path}") for item in files]
    known = dict(sorted(hidden.items())[:_HIDDEN_MOST])
    answers = {item.path for item in listing if _is_named_answer(item.path)}
    by_name = ("and the name says that answers are in it", answers)
    said: set[str] = set()
    for remedy, reasons in (
        (_move, _files_by_reason(folder, manifest, known)),
        (_remove, _copies(folder, listing, known)),
        (_move, [by_name]),
    ):
        for why, paths in reasons:
            if new := sorted(paths - said):
                shown = abbreviate([quote_path(path) for path in new])
                yield f"candidate code can read {shown}, {why}", remedy(manifest.scope, new[:MAX_NAMES])
            said |= paths


def visible_answers(
    folder: Path, manifest: Manifest, hidden: Mapping[str, Path], paths: Iterable[str]
) -> Iterator[Note]:
    """Notes on scripts that score, and on answers in shared folders, that the agent or candidate code can read.

    ``paths`` are those of a tree, below ``folder``; see ``shared_answers``.
    """
    yield from visible_scorers(manifest, set(paths) - hidden.keys())
    yield from shared_answers(folder, manifest, hidden)


def visible_answers_at_head(loaded: ManifestFile, location: Location) -> Iterator[str]:
    """The same notes, with their remedies, on the files of HEAD."""
    manifest, folder, paths = loaded.manifest, base_of(loaded, location.top), b""
    hidden_from: Listing = ()
    with contextlib.suppress(GitFailed):  # there is no commit
        paths = git("ls-tree", "-r", "-z", "--name-only", "--full-tree", "HEAD", git_dir=location.git_dir)
    with contextlib.suppress(GoalseekError):  # a climb refuses it, and says why
        if outside := folder_of(folder, manifest):
            hidden_from = list_hidden(outside, location.top)
    prefix = folder_prefix(location.top, folder)
    names = [os.fsdecode(path) for path in paths.split(b"\0")]
    hidden = hidden_paths(folder, manifest, prefix, hidden_from, names)
    for text, remedy in visible_answers(folder, manifest, hidden, paths_below(prefix, names)):
        yield f"{text}; {remedy}"


def _remove(_scope: ScopeTable, paths: Sequence[str]) -> str:
    return f"where no run needs it: rm {_shell_words(paths)}"


def _move(scope: ScopeTable, paths: Sequence[str]) -> str:
    """The line that moves answers out of what is shared, where git ignores them, to where they are hidden."""
    names = [posixpath.basename(path) for path in paths]
    if scope.hidden_from:
        line = f"mv {_shell_words(paths)} {shlex.quote(scope.hidden_from)}"
    else:
        globs = (re.fullmatch(r"([\w./-]+)/\*\*", glob) for glob in scope.hidden)
        own = next((glob[1] for glob in globs if glob), "")
        folder = own or "hidden"
        names = [f"{folder}/{name}" for name in names]
        line = f"mkdir -p {folder} && mv {_shell_words(paths)} {folder} && git add --force {_shell_words(names)}"
        line += " && git commit -m 'Hide the answers'"
        line += "" if own else f", with scope.hidden = {json.dumps([*scope.hidden, 'hidden/**'], ensure_ascii=False)}"
    unshared = [quote_path(path) for path in paths if path in scope.share]
    line += f", take {', '.join(unshared)} out of scope.share" if unshared else ""
    return f"move it to the hidden files: {line}, and let the scorer read {', '.join(map(quote_path, names))}"


def _shell_words(paths: Iterable[str]) -> str:
    return " ".join(map(shlex.quote, paths))


def _files_by_reason(folder: Path, manifest: Manifest, hidden: Mapping[str, Path]) -> Iterator[tuple[str, set[str]]]:
    """The files in shared folders that each hidden file names, and each command that runs beside them."""
    for path, file in hidden.items():
        text, is_script = read_small(file), path.endswith(SCRIPTS)
        words = {*re.findall(r"\"([^\"\n]{1,300})\"", text), *re.findall(r"'([^'\n]{1,300})'", text)}
        words |= {word for word in words_in(text) if "/" in word} if is_script else set()
        files = _shared_files(folder, manifest, words, {"", posixpath.dirname(path)}, _PARTS_MOST if is_script else 1)
        yield f"which hidden {quote_path(path)} names", files
    for command in manifest.verify:
        if command.sees == "hidden":
            files = _shared_files(folder, manifest, words_in(text_of(command)), {command.cwd}, 1)
            programs = {path for path in files if path.endswith(SCRIPTS) or "bin" in path.split("/")}
            yield f"which the command {command.name} names", files - programs


def _copies(folder: Path, listing: Iterable[ListedFile], hidden: Mapping[str, Path]) -> Iterator[tuple[str, set[str]]]:
    """The files of a listing that are copies of hidden files; the largest are not looked at where that would be long.

    Only those of one size are read.
    """
    originals, copies = defaultdict[int, list[str]](list), defaultdict[int, list[str]](list)
    for path, file in hidden.items():
        with contextlib.suppress(OSError):
            originals[file.stat().st_size].append(path)
    for item in listing:
        if item.kind in ("file", "program"):
            copies[item.size].append(item.path)
    read_bytes = 0
    for size in sorted(originals.keys() & copies.keys() - {0}):
        read_bytes += size * len(originals[size] + copies[size])
        if read_bytes > _COPIES_MOST:
            return
        digests = {path: _digest_of(folder / path) for path in copies[size]}
        for original in originals[size]:
            digest = _digest_of(hidden[original])
            same = {path for path in copies[size] if digests[path] == digest != ""}
            yield f"a copy of hidden {quote_path(original)}", same


def _digest_of(file: Path) -> str:
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError:
        return ""


def _shared_files(folder: Path, manifest: Manifest, words: Set[str], bases: Set[str], parts: int) -> set[str]:
    """The files in shared folders that words name, or that so many ``parts`` of them join to, below one of ``bases``.

    In ``Path("data") / "labels.csv"`` there are two.
    """
    shares, found = manifest.scope.share, set[str]()
    for _ in range(parts):
        paths = {posixpath.normpath(posixpath.join(base, word)) for base in bases for word in words}
        inside = {path for path in paths if any(f"{path}/".startswith(f"{name}/") for name in shares)}
        found |= {path for path in inside if _is_file(folder / path)}
        above = {path for path in paths if any(name.startswith(f"{path}/") for name in shares)}
        bases = above | {path for path in inside - found if _is_folder(folder / path)}
    return found


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a text that can be no path
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _is_library(path: str) -> bool:
    return is_tool_cache(path) or not {"site-packages", "dist-packages", "node_modules"}.isdisjoint(path.split("/"))


def _is_named_answer(path: str) -> bool:
    name = posixpath.basename(path).lower()
    is_answer = re.search("label|answer|truth|target|solution", name)
    return bool(is_answer) and "train" not in name and not name.endswith((*SCRIPTS, ".so", ".h", ".pyi"))
