"""The bounds of guards: which one a value breaks, and what a climb that begins with a broken one should know. Pure."""

from __future__ import annotations

from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Manifest
from goalseek.statistics.bounds import guard_warning


def broken_guard_of(manifest: Manifest, standing: Standing) -> str:
    """What a person should know where the incumbent breaks a bound of a guard, which the ruler does not pin; or ""."""
    if standing.incumbent is None or standing.baseline is None:
        return ""
    who = "the baseline" if standing.incumbent == standing.baseline else "the incumbent"
    return guard_warning(manifest.guard, who, standing.incumbent.guards, standing.baseline.guards)
