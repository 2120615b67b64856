"""The scope of a project: the manifest's globs, and what goalseek itself adds to them."""

from __future__ import annotations

from pathlib import PurePosixPath

from goalseek.git.ignore import literal
from goalseek.manifest.loading import Loaded
from goalseek.manifest.tables import Manifest
from goalseek.workspace.listing import Listing
from goalseek.workspace.scope import Scope, scope


def scope_of(loaded: Loaded, manifest: Manifest, prefix: str, hidden_from: Listing = ()) -> Scope:
    """The manifest's scope. Whatever its globs say, manifests, cheats, a provider's script, recordings and the log
    folder are hidden, and the program and the prompts are read-only.

    All of these are apart: they belong to no ruler. The files of ``hidden_from`` are hidden.
    """
    home = manifest.log.home
    own = ["/goalseek.toml", "/goalseek.*.toml", _file(loaded.path.name)]
    own += ["/logs/", "/runs/"] if home == "." else _folder(home)
    if manifest.provider and manifest.provider.name == "scripted":
        own.append(_file(manifest.provider.script))
    read_only = [_file(manifest.project.program or "program.md")]
    if manifest.provider:
        table = manifest.provider
        read_only += _folder(table.prompts)
        own += [*_folder(table.record or ""), *_folder(table.recordings)]
    own += [_file(cheat.patch) for cheat in manifest.cheat]
    return scope(
        prefix,
        manifest.scope.writable,
        manifest.scope.generated,
        [*manifest.scope.read_only, *read_only],
        [*manifest.scope.hidden, *own],
        [*own, *read_only],
        [item.path for item in hidden_from],
        manifest.scope.share,
    )


def _file(named: str) -> str:
    """The pattern of a file that the manifest names, however it writes the path; it matches no other."""
    return literal(str(PurePosixPath(named)))


def _folder(named: str) -> list[str]:
    """The pattern of a folder that the manifest names, where it is below the manifest's own."""
    path = PurePosixPath(named)
    return [f"{_file(named)}/"] if named and not path.is_absolute() and ".." not in path.parts else []
