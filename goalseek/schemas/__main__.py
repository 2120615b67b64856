"""Writes the published files again; after a change of a type that is published."""

from __future__ import annotations

from pathlib import Path

from goalseek.schemas import NAMES
from goalseek.schemas.made import made, to_text

if __name__ == "__main__":
    for name in NAMES:
        Path(__file__).with_name(f"{name}.schema.json").write_text(to_text(made(name)), "utf-8")
