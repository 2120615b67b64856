"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass


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
