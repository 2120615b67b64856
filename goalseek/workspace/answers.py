"""Notes on hidden answers in shared folders, and on scoring scripts, that candidate code can read."""

import contextlib
import csv
import itertools
import json
import os
import posixpath
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path

from msgspec import Struct, structs

from goalseek.errors import GitFailed, GoalseekError
from goalseek.git.command import git
from goalseek.git.ignore import matcher
from goalseek.git.location import Location
from goalseek.git.paths import folder_prefix, quote_path
from goalseek.humanize import MAX_NAMES, abbreviate
from goalseek.manifest import exposure
from goalseek.manifest.command_words import SCRIPTS, words_in
from goalseek.manifest.loading import ManifestFile, base_of
from goalseek.manifest.tables import Manifest, ScopeTable, VerifyCommand
from goalseek.values import Finding
from goalseek.workspace.hidden_files import folder_of, list_hidden
from goalseek.workspace.listing import ListedFile, Listing, content_digest, list_folder
from goalseek.workspace.scope import is_tool_cache, paths_below
from goalseek.workspace.shared_folders import MAX_FILES

_HIDDEN_MOST = 300  # how many hidden files are read
_COPIES_MOST = 64_000_000  # bytes that are read in search of copies
_PARTS_MOST = 4  # of a path that a script puts together
_SPLIT = "split it: the features stay"
_ANSWER = re.compile("(?i)label|answer|truth|target|solution")
_LEAST_ROWS = 8
_SUFFIXES = (".csv", ".tsv", ".txt", ".data")
_FILES_MOST = 300  # of shared ones, whose first lines are read
_SIZE_MOST = 8_000_000  # bytes of a file that is read to its end
_LONGEST_LINE = 100_000

Column = tuple[str, ...]


def hidden_paths(
    folder: Path, manifest: Manifest, prefix: str, hidden_from: Listing, paths: Iterable[str]
) -> dict[str, Path]:
    """Maps the path at which commands find a hidden file to its place on disk; ``paths`` are those of a tree."""
    files = {path: folder / path for path in filter(matcher(manifest.scope.hidden), paths_below(prefix, paths))}
    return files | {item.path: folder / (manifest.scope.hidden_from or ".") / item.path for item in hidden_from}


def answer_notes(
    folder: Path, manifest: Manifest, prefix: str, hidden: Mapping[str, Path], paths: Iterable[str]
) -> Iterator[Finding]:
    """``paths`` are those of a tree, with the manifest's folder at ``prefix``; ``hidden`` is from ``hidden_paths``."""
    if finding := exposure.readable_answers(manifest, hidden):
        yield finding
    own = paths_below(prefix, paths)
    yield from exposure.visible_scorers(manifest, set(own) - hidden.keys())
    if manifest.scope.share:
        is_hidden, is_writable = matcher(manifest.scope.hidden), matcher(manifest.scope.writable)
        code = (path for path in own if path.endswith(SCRIPTS) or is_writable(path))
        yield from _shared_answers(folder, manifest, hidden, [path for path in code if not is_hidden(path)])


def _shared_answers(
    folder: Path, manifest: Manifest, hidden: Mapping[str, Path], code: Iterable[str]
) -> Iterator[Finding]:
    """``code`` are the writable files and scripts below ``folder``; a shared file that they name must not move."""
    listing: list[ListedFile] = []
    for name in manifest.scope.share:
        with contextlib.suppress(OSError):  # no command can use it either
            if (folder / name).is_file():
                listing.append(ListedFile(name, (folder / name).stat().st_size, 0))
            else:
                files = list_folder(folder / name, MAX_FILES - len(listing), _is_library)
                listing += [structs.replace(item, path=f"{name}/{item.path}") for item in files]
    known = dict(sorted(hidden.items())[:_HIDDEN_MOST])
    copies = list(_copies(folder, listing, known))
    copied = set[str]().union(*(paths for _, paths in copies))
    said: set[str] = set()
    others = {item.path: folder / item.path for item in listing if item.path not in copied}
    for column in find_answer_columns(others, known):
        what = f"column {quote_path(column.name)} of {quote_path(column.path)}"
        remedy = _remove([column.path]) if column.is_whole else f"{_SPLIT}, that column goes to the hidden files"
        text = f"candidate code can read {what}, a column of the hidden file {quote_path(column.hidden)} too"
        yield Finding("note", text, remedy)
        said.add(column.path)
    named = _NamedFiles(folder, manifest)
    reasons = [(False, f"which hidden {quote_path(path)} names", named.in_file(path, known[path])) for path in known]
    for command in manifest.commands:
        if command.sees == "hidden":
            paths = named.in_command(command)
            programs = {path for path in paths if path.endswith(SCRIPTS) or "bin" in path.split("/")}
            reasons.append((False, f"which the command {command.name} names", paths - programs))
    reasons += [(True, *copy) for copy in copies]
    reasons.append((False, "and the name says that answers are in it", set(filter(_is_named_answer, others))))
    found: list[tuple[bool, str, list[str]]] = []
    for is_copy, why, paths in reasons:
        found.append((is_copy, why, sorted(paths - said)))
        said |= paths
    needed: set[str] = set()  # by the code of a candidate, or by a command that runs it
    if any(paths for _, _, paths in found):
        needed.update(*(named.in_file(path, folder / path) for path in sorted(code)[:_HIDDEN_MOST]))
        needed.update(*(named.in_command(command) for command in manifest.commands if command.sees != "hidden"))
    for is_copy, why, candidates in found:
        own = [path for path in candidates if path not in needed or is_copy]
        if own:
            remedy = _remove(own[:MAX_NAMES]) if is_copy else _move(manifest.scope, own[:MAX_NAMES])
            yield Finding("note", f"candidate code can read {_names(own)}, {why}", remedy)
        if mixed := [path for path in candidates if path not in own]:
            remedy = f"{_SPLIT}, the answers go to the hidden files"
            yield Finding("note", f"candidate code can read {_names(mixed)}, {why}", remedy)


def _is_library(path: str) -> bool:
    return is_tool_cache(path) or not {"site-packages", "dist-packages", "node_modules"}.isdisjoint(path.split("/"))


def _is_named_answer(path: str) -> bool:
    name = posixpath.basename(path).lower()
    is_answer = _ANSWER.search(name)
    return bool(is_answer) and "train" not in name and not name.endswith((*SCRIPTS, ".so", ".h", ".pyi"))


def _names(paths: Iterable[str]) -> str:
    return abbreviate([quote_path(path) for path in paths])


def answer_notes_at_head(loaded: ManifestFile, location: Location) -> Iterator[Finding]:
    manifest = loaded.manifest
    if not exposure.may_show_answers(manifest):
        return
    folder, paths = base_of(loaded, location.top), b""
    hidden_from: Listing = ()
    with contextlib.suppress(GitFailed):  # there is no commit
        paths = git("ls-tree", "-r", "-z", "--name-only", "--full-tree", "HEAD", git_dir=location.git_dir)
    with contextlib.suppress(GoalseekError):  # a climb refuses it, and says why
        if outside := folder_of(folder, manifest):
            hidden_from = list_hidden(outside, location.top)
    prefix = folder_prefix(location.top, folder)
    names = list(map(os.fsdecode, paths.split(b"\0")))
    hidden = hidden_paths(folder, manifest, prefix, hidden_from, names)
    yield from answer_notes(folder, manifest, prefix, hidden, names)


def _remove(paths: Sequence[str]) -> str:
    return f"if no run needs it: rm {shlex.join(paths)}"


def _move(scope: ScopeTable, paths: Sequence[str]) -> str:
    names = [posixpath.basename(path) for path in paths]
    if scope.hidden_from:
        line = f"mv {shlex.join(paths)} {shlex.quote(scope.hidden_from)}"
    else:
        globs = (re.fullmatch(r"([\w./-]+)/\*\*", glob) for glob in scope.hidden)
        own = next((glob[1] for glob in globs if glob), "")
        folder = own or "hidden"
        names = [f"{folder}/{name}" for name in names]
        line = f"mkdir -p {folder} && mv {shlex.join(paths)} {folder} && git add --force {shlex.join(names)}"
        line += " && git commit -m 'Hide the answers'"
        line += "" if own else f", with scope.hidden = {json.dumps([*scope.hidden, 'hidden/**'], ensure_ascii=False)}"
    unshared = [quote_path(path) for path in paths if path in scope.share]
    line += f", take {', '.join(unshared)} out of scope.share" if unshared else ""
    return f"move it to the hidden files: {line}, and let the scorer read {', '.join(map(quote_path, names))}"


class _NamedFiles(Struct, frozen=True):
    folder: Path
    manifest: Manifest

    def in_command(self, command: VerifyCommand) -> set[str]:
        return self._joined(words_in(command.text), {command.cwd}, 1)

    def in_file(self, path: str, file: Path) -> set[str]:
        """``path`` is where commands find ``file``."""
        text, is_script = exposure.read_small(file), path.endswith(SCRIPTS)
        words = {*re.findall(r"\"([^\"\n]{1,300})\"", text), *re.findall(r"'([^'\n]{1,300})'", text)}
        words |= {word for word in words_in(text) if "/" in word} if is_script else set()
        return self._joined(words, {"", posixpath.dirname(path)}, _PARTS_MOST if is_script else 1)

    def _joined(self, words: Set[str], bases: Set[str], parts: int) -> set[str]:
        """Joins up to ``parts`` words to a path: two in ``Path("data") / "labels.csv"``."""
        shares, found = self.manifest.scope.share, set[str]()
        for _ in range(parts):
            paths = {posixpath.normpath(posixpath.join(base, word)) for base in bases for word in words}
            inside = {path for path in paths if any(f"{path}/".startswith(f"{name}/") for name in shares)}
            # os.path: a text that can be no path is no error
            found |= {path for path in inside if os.path.isfile(self.folder / path)}
            above = {path for path in paths if any(name.startswith(f"{path}/") for name in shares)}
            bases = above | {path for path in inside - found if os.path.isdir(self.folder / path)}
        return found


def _copies(folder: Path, listing: Iterable[ListedFile], hidden: Mapping[str, Path]) -> Iterator[tuple[str, set[str]]]:
    """Reads only files of equal size, the smallest first, until ``_COPIES_MOST`` bytes."""
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
        digests = {path: content_digest(folder / path) for path in copies[size]}
        for original in originals[size]:
            digest = content_digest(hidden[original])
            same = {path for path in copies[size] if digests[path] == digest != ""}
            yield f"a copy of hidden {quote_path(original)}", same


class AnswerColumn(Struct, frozen=True):
    """``is_whole``: the hidden file has every column of the shared one."""

    name: str
    path: str
    hidden: str
    is_whole: bool


def find_answer_columns(shared: Mapping[str, Path], hidden: Mapping[str, Path]) -> Iterator[AnswerColumn]:
    """Shared columns with the values of a hidden one: at least 8 values, not all equal.

    Columns with an answer's name count; without one, the last column does if all hidden columns are shared.
    """
    heads = {path: head for path, file in hidden.items() if (head := _read_columns(file, _LEAST_ROWS + 1))}
    tables = (path for path in shared if path.lower().endswith(_SUFFIXES))
    for path in itertools.islice(tables, _FILES_MOST if heads else 0):
        head = _read_columns(shared[path], _LEAST_ROWS + 1)
        for hidden_path, hidden_head in heads.items():
            if not _same_columns(head, hidden_head, _LEAST_ROWS - 1):
                continue
            answers = _read_columns(hidden[hidden_path])
            columns = _read_columns(shared[path], len(answers[0]) + 2) if answers else []
            same = _same_columns(columns, answers)
            varied = [other for other, column in enumerate(answers) if len(set(column[1:])) > 1]
            names = {}
            for other, index in same.items():
                head_cell, *cells = columns[index]
                is_header = head_cell and not re.fullmatch(r"[-+.\deE]+", head_cell) and head_cell not in cells
                names[other] = head_cell if is_header else str(index + 1)
            found = [name for other, name in names.items() if _ANSWER.search(name + answers[other][0])]
            if not found and varied and same.keys() >= set(varied):
                found = [names[varied[-1]]]
            is_whole = len(set(same.values())) == len(columns)
            yield from (AnswerColumn(name, path, hidden_path, is_whole) for name in found)
            if found:
                break


def _same_columns(columns: list[Column], others: list[Column], rows: int | None = None) -> dict[int, int]:
    """Maps indexes of ``others`` to equal columns, under a header or none; given ``rows``, constant ones match too."""
    indexes = dict[Column, int]()
    for start in (1, 0):
        for index, column in enumerate(columns):
            values = column[start:][:rows]
            if rows or (len(values) >= _LEAST_ROWS and len(set(column[1:])) > 1):
                indexes.setdefault(values, index)
    starts = ((other, column[start:][:rows]) for start in (0, 1) for other, column in enumerate(others))
    return {other: indexes[values] for other, values in starts if values in indexes}


def _read_columns(file: Path, rows: int | None = None) -> list[Column]:
    """Empty if rows differ in length, or the file is binary or too large."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as text:
            first = text.readline(_LONGEST_LINE)
            is_odd = len(first) == _LONGEST_LINE or file.stat().st_size > _SIZE_MOST
            if is_odd or "\0" in first:
                return []
            delimiter = max("\t;,", key=first.count)
            lines = csv.reader(itertools.chain([first], text), delimiter=delimiter, skipinitialspace=True)
            table = [row for row in itertools.islice(lines, rows) if row]
    except (OSError, ValueError, csv.Error):
        return []
    if len({len(row) for row in table}) != 1:
        return []
    return [tuple(value.strip() for value in column) for column in zip(*table, strict=True)]
