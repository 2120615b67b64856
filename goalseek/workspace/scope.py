"""The scope: the kind of each path, by the manifest's globs, their precedence, and goalseek's own files."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, dropwhile
from pathlib import PurePosixPath
from typing import Any, Literal

from msgspec import Struct, field, structs

from goalseek.git.ignore import literal_pattern, matcher
from goalseek.git.paths import first_overlap
from goalseek.manifest.rules import authors_of
from goalseek.workspace.forbidden_names import instruction_part

if typing.TYPE_CHECKING:
    from goalseek.manifest.loading import ManifestFile
    from goalseek.manifest.tables import Manifest, ScopeTable, Sees
    from goalseek.workspace.listing import Listing


Kind = Literal["hidden", "read_only", "generated", "writable", "kept", "other"]

_TOOL_CACHES = """__pycache__/ .pytest_cache/ .mypy_cache/ .ruff_cache/ .hypothesis/ .ipynb_checkpoints/
    .DS_Store .aider*"""
_MOST_LINKS = 40  # as the kernel follows
is_tool_cache = matcher(tuple(_TOOL_CACHES.split()))


def parents(path: str) -> Iterator[str]:
    """Nearest first."""
    while (cut := path.rfind("/")) > 0:
        path = path[:cut]
        yield path


def paths_below(prefix: str, paths: Iterable[str]) -> list[str]:
    """Relative to the folder ``prefix``."""
    return [path.removeprefix(prefix) for path in paths if path.startswith(prefix)]


def overlap_matcher(paths: Iterable[str]) -> Callable[[str], bool]:
    """Matches these files, the folders above them, and all paths below them."""
    files = frozenset(paths)
    overlapping = files.union(*map(parents, files))
    return lambda path: path in overlapping or not files.isdisjoint(parents(path))


class Scope(Struct, frozen=True, eq=False):
    """Globs hold below ``prefix``, the manifest's folder, "" or "sub/"; ``shared`` are paths of the repository.

    ``listed`` are the writable globs as written; ``changed`` are paths that candidates changed, writable then.
    """

    prefix: str
    hidden: Callable[[str], bool]
    read_only: Callable[[str], bool]
    generated: Callable[[str], bool]
    writable: Callable[[str], bool]
    own_files: Callable[[str], bool]
    listed: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    changed: frozenset[str] = frozenset()
    proposer: frozenset[str] = frozenset()
    made_of: tuple[Any, ...] = ()  # the arguments of build_scope: its matchers are functions, which no pickle holds
    known: dict[str, Kind] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        return _remake_scope, (self.made_of, self.changed, self.proposer)

    def kind(self, path: str) -> Kind:
        """hidden > read_only, shared > generated > writable; "other" is read-only if tracked, a stray if new.

        "kept" is no candidate's and no ruler's: writable once, or agents' instructions or proposer scripts, unlisted.
        """
        if path not in self.known:
            self.known[path] = self._kind(path)
        return self.known[path]

    def _kind(self, path: str) -> Kind:
        if not path.startswith(self.prefix):
            return "other"
        below = path[len(self.prefix) :]
        if self.hidden(below):
            return "hidden"
        if self.read_only(below) or self.share_at(path):
            return "read_only"
        if self.generated(below):
            return "generated"
        if self.writable(below):
            part = self.instructions(path) or (path.rpartition("/")[2] if path in self.proposer else "")
            return "kept" if part and not self.names(path, part) else "writable"
        return "kept" if path in self.changed else "other"

    def share_at(self, path: str) -> str | None:
        """The shared path equal to ``path``, above it or below it."""
        return first_overlap(path, self.shared)

    def names(self, path: str, part: str) -> bool:
        """Whether a writable glob spells out this part of the path; a wildcard does not."""
        if not path.startswith(self.prefix):
            return False
        below = path[len(self.prefix) :]
        is_last = f"/{below}".endswith(f"/{part}")
        parts_of = ((pattern, pattern.rstrip("/").split("/")) for pattern in self.listed)
        return any(
            part in (parts[-1:] if is_last else parts) and matcher((pattern,))(below) for pattern, parts in parts_of
        )

    def instructions(self, path: str) -> str:
        return instruction_part(path.removeprefix(self.prefix))

    def unlisted_instructions(self, path: str) -> str:
        """``instructions``, if a writable glob matches the path and none spells that part out; else ""."""
        return self.instructions(path) if self.kind(path) == "kept" else ""

    def in_ruler(self, path: str) -> bool:
        """Whether the number depends on this tracked file, and it is not the candidate's."""
        return self.is_fixed(path) and not self.is_own_file(path)

    def is_fixed(self, path: str) -> bool:
        """Whether no candidate may change this tracked file, and none did."""
        return self.kind(path) in ("hidden", "read_only", "other")

    def is_own_file(self, path: str) -> bool:
        """Whether goalseek itself uses this file (manifest, program, script), so that no number depends on it."""
        return path.startswith(self.prefix) and self.own_files(path[len(self.prefix) :])

    def seen_by(self, sees: Sees | Literal["agent"]) -> Callable[[str], bool]:
        """A matcher of the tracked paths in such a tree; shared paths are in none."""
        if sees == "both":
            return lambda path: self.share_at(path) is None
        if sees == "hidden":
            return lambda path: self.is_fixed(path) and self.share_at(path) is None
        return lambda path: self.kind(path) != "hidden" and self.share_at(path) is None


def _remake_scope(made_of: tuple[Any, ...], changed: frozenset[str], proposer: frozenset[str]) -> Scope:
    return structs.replace(build_scope(*made_of), changed=changed, proposer=proposer)


def build_scope(
    prefix: str,
    table: ScopeTable,
    own_hidden: Sequence[str] = (),
    own_read_only: Sequence[str] = (),
    hidden_files: Iterable[str] = (),
) -> Scope:
    """``own_...`` are patterns of goalseek's own files; ``hidden_files`` are hidden whatever the globs say."""
    hidden_files = tuple(hidden_files)
    matches_hidden, is_hidden_file = matcher((*table.hidden, *own_hidden)), overlap_matcher(hidden_files)
    return Scope(
        prefix,
        lambda path: is_hidden_file(path) or matches_hidden(path),
        matcher((*table.read_only, *own_read_only)),
        matcher(tuple(table.generated)),
        matcher(tuple(table.writable)),
        matcher((*own_hidden, *own_read_only)),
        tuple(pattern for pattern in table.writable if not pattern.startswith("!")),
        tuple(prefix + path for path in table.share),
        made_of=(prefix, table, own_hidden, own_read_only, hidden_files),
    )


def leaves_tree(path: str, target: str) -> bool:
    steps = (-1 if part == ".." else 1 for part in target.split("/") if part not in ("", "."))
    return target.startswith("/") or min(accumulate(steps, initial=path.count("/"))) < 0


def doubles_back(target: str) -> bool:
    """Whether ``..`` follows a name in a link's target: its end then depends on what that name is a link to."""
    parts = (part for part in target.split("/") if part not in ("", "."))
    return ".." in dropwhile(lambda part: part == "..", parts)


def follow_link(path: str, target: str, read_link: Callable[[str], str | None]) -> list[str]:
    """The tree's links on the way, then the end ("" for the top); empty if the link leaves the tree or never ends."""
    steps: list[str] = []
    folder, pending = path.split("/")[:-1], target.split("/")[::-1]
    while pending:
        part = pending.pop()
        if part == ".." and not folder:
            return []
        if part == "..":
            folder.pop()
        elif part not in ("", "."):
            folder.append(part)
            if inner := read_link("/".join(folder)):
                if inner.startswith("/") or len(steps) == _MOST_LINKS:
                    return []
                steps.append("/".join(folder))
                folder.pop()
                pending += inner.split("/")[::-1]
    return [*steps, "/".join(folder)]


def manifest_scope(loaded: ManifestFile, manifest: Manifest, prefix: str, hidden_from: Listing = ()) -> Scope:
    """Whatever the globs say, hides goalseek's own files and makes program and prompts read-only: no ruler has them."""
    home = manifest.log.home
    own = ["/goalseek.toml", "/goalseek.*.toml", _file(loaded.path.name)]
    own += ["/logs/", "/runs/"] if home == "." else _folder(home)
    for table in authors_of(manifest.provider, manifest.search.rotate):
        own += [_file(table.script)] if table.name == "scripted" else []
        own += _folder(table.record or "")
    read_only = [_file(manifest.project.program or "program.md")]
    read_only += _folder(manifest.provider.prompts) if manifest.provider else []
    own += [_file(cheat.patch) for cheat in manifest.cheat]
    own += [_file(tls.key)] if (tls := manifest.parallel.tls) else []
    return build_scope(prefix, manifest.scope, own, read_only, (item.path for item in hidden_from))


def _file(path: str) -> str:
    # However the manifest writes the path, the pattern matches no other.
    return literal_pattern(str(PurePosixPath(path)))


def _folder(path: str) -> list[str]:
    pure = PurePosixPath(path)
    return [f"{_file(path)}/"] if path and not pure.is_absolute() and ".." not in pure.parts else []
