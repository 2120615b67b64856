"""The scope of a project: the manifest's globs, and what goalseek itself adds to them."""

from __future__ import annotations

from goalseek.manifest import Manifest
from goalseek.manifest_file import Loaded
from goalseek.scope import Scope, scope


def scope_of(loaded: Loaded, manifest: Manifest, prefix: str) -> tuple[Scope, frozenset[str]]:
    """The scope with goalseek's own additions, and the paths that belong to no ruler.

    Manifests, the script of a scripted provider and the log folder are hidden; the program is read-only.
    """
    program = manifest.project.program or "program.md"
    hidden = [*manifest.scope.hidden, "/goalseek.toml", "/goalseek.*.toml", f"/{loaded.path.name}"]
    hidden.append("/logs/" if manifest.log.home == "." else f"/{manifest.log.home}/")
    if manifest.provider and manifest.provider.name == "scripted":
        hidden.append("/" + manifest.provider.script)
    made = scope(
        prefix, manifest.scope.writable, manifest.scope.generated, [*manifest.scope.read_only, f"/{program}"], hidden
    )
    return made, frozenset({prefix + program, prefix + loaded.path.name, prefix + "goalseek.toml"})
