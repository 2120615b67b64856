"""JSON Schemas of what goalseek reads and writes: generated from its types and published as files in this folder.

``python tests/support/schemas.py`` writes the files again.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from goalseek.files import write_atomic

NAMES = ("manifest", "records", "events", "brief")


def published_schema(name: str) -> dict[str, Any]:
    """The schema of the manifest, a line of ``results.jsonl``, an event of ``iterate --json``, or the brief."""
    document: dict[str, Any] = json.loads(schema_text(name))
    return document


@functools.cache
def schema_text(name: str) -> str:
    """The text of a published schema."""
    return schema_file(name).read_text("utf-8")


def schema_file(name: str) -> Path:
    """The file of a published schema."""
    return Path(__file__).with_name(f"{name}.schema.json")


def write_manifest_schema(home: Path) -> None:
    """Puts the manifest's schema into a log folder, where editors find it by the manifest's line ``#:schema``."""
    path, text = home / "manifest.schema.json", schema_text("manifest")
    if not path.exists() or path.read_text("utf-8") != text:
        write_atomic(path, text)
