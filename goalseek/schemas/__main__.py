"""Writes the published files again; after a change of a type that is published."""

from __future__ import annotations

from goalseek.manifest.json_schema import NAMES, file_of
from goalseek.schemas.made import made, to_text

if __name__ == "__main__":
    for name in NAMES:
        file_of(name).write_text(to_text(made(name)), "utf-8")
