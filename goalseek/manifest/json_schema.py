"""What goalseek reads and writes, as JSON Schema: made from the types themselves, and published as files beside this.

``python -m goalseek.cli.schemas`` writes the files again.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

NAMES = ("manifest", "records", "events", "brief")


def published(name: str) -> dict[str, Any]:
    """The schema of the manifest, a line of ``results.jsonl``, an event of ``iterate --json``, or the brief."""
    document: dict[str, Any] = json.loads(text_of(name))
    return document


@functools.cache
def text_of(name: str) -> str:
    """The same as text."""
    return file_of(name).read_text("utf-8")


def file_of(name: str) -> Path:
    """The published file."""
    return Path(__file__).with_name(f"{name}.schema.json")


def put_beside(home: Path) -> None:
    """Puts the manifest's schema into a log folder, where the line ``#:schema`` of a manifest has editors find it."""
    place, text = home / "manifest.schema.json", text_of("manifest")
    if not place.exists() or place.read_text("utf-8") != text:
        temporary = home / "manifest.schema.json.new"
        temporary.write_text(text, "utf-8")
        temporary.replace(place)
