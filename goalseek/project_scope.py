"""The scope of a project: the manifest's globs, and what goalseek itself adds to them."""

from __future__ import annotations

from pathlib import PurePosixPath

from goalseek.globs import literal
from goalseek.listing import Listing
from goalseek.manifest import Manifest
from goalseek.manifest_file import Loaded
from goalseek.scope import Scope, scope


def scope_of(loaded: Loaded, manifest: Manifest, prefix: str, hidden_from: Listing = ()) -> Scope:
    """The manifest's scope. Whatever its globs say, manifests, cheats, a provider's script, recordings and the log
    folder are hidden, and the program and the prompts are read-only.

    All of these are apart: they belong to no ruler. The files of ``hidden_from`` are hidden.
    """
    home = manifest.log.home
    program = "/" + (manifest.project.program or "program.md")
    own = ["/goalseek.toml", "/goalseek.*.toml", f"/{loaded.path.name}", "/logs/" if home == "." else f"/{home}/"]
    if manifest.provider and manifest.provider.name == "scripted":
        own.append("/" + manifest.provider.script)
    read_only = [program]
    if manifest.provider:
        table = manifest.provider
        read_only += _folder(table.prompts)
        own += [*_folder(table.record or ""), *_folder(table.recordings)]
    own += [literal(str(PurePosixPath(cheat.patch))) for cheat in manifest.cheat]
    return scope(
        prefix,
        manifest.scope.writable,
        manifest.scope.generated,
        [*manifest.scope.read_only, *read_only],
        [*manifest.scope.hidden, *own],
        [*own, *read_only],
        [item.path for item in hidden_from],
    )


def _folder(named: str) -> list[str]:
    """The pattern of a folder that the manifest names, where it is below the manifest's own."""
    path = PurePosixPath(named)
    return [literal(str(path)) + "/"] if named and not path.is_absolute() and ".." not in path.parts else []
