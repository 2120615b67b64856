"""The scope of a project: the manifest's globs, and what goalseek itself adds to them."""

from __future__ import annotations

from pathlib import PurePosixPath

from goalseek.globs import literal
from goalseek.listing import Listing
from goalseek.manifest import Manifest
from goalseek.manifest_file import Loaded
from goalseek.scope import Scope, scope


def scope_of(loaded: Loaded, manifest: Manifest, prefix: str, hidden_from: Listing = ()) -> Scope:
    """The manifest's scope. Whatever its globs say, manifests, cheats, a provider's script and the log folder are
    hidden, and the program is read-only.

    All of these are apart: they belong to no ruler. The files of ``hidden_from`` are hidden.
    """
    table, home = manifest.scope, manifest.log.home
    program = "/" + (manifest.project.program or "program.md")
    own = ["/goalseek.toml", "/goalseek.*.toml", f"/{loaded.path.name}", "/logs/" if home == "." else f"/{home}/"]
    if manifest.provider and manifest.provider.name == "scripted":
        own.append("/" + manifest.provider.script)
    own += [literal(str(PurePosixPath(cheat.patch))) for cheat in manifest.cheat]
    return scope(
        prefix,
        table.writable,
        table.generated,
        [*table.read_only, program],
        [*table.hidden, *own],
        [*own, program],
        [item.path for item in hidden_from],
    )
