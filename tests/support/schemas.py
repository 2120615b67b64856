"""JSON Schemas generated from the types that goalseek reads and writes; the published files are tested against them.

    python tests/support/schemas.py

writes the published files again.
"""

from __future__ import annotations

import json
from typing import Any

from goalseek.ledger.records import KINDS, SCHEMA
from goalseek.manifest import validation
from goalseek.manifest.loading import SCHEMAS, schema_file

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
REASONS = {
    "baseline": ["measured"],
    "kept": ["better", "simpler"],
    "reverted": """worse tie within_noise below_min_delta seed_fixed guard not_valid verify_failed verify_timeout no_metric
        not_finite unmeasurable review_rejected declined""".split(),
    "skipped": "no_change duplicate out_of_scope provider_failed provider_timeout no_plan interrupted".split(),
}


def build_schema(name: str) -> dict[str, Any]:
    """The schema of this name, generated from the current types."""
    builders = {"manifest": _manifest, "records": _records, "events": _events, "brief": _brief}
    return builders[name]()


def to_text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _manifest() -> dict[str, Any]:
    text = json.dumps(validation.type_adapter().json_schema()).replace('"pass_"', '"pass"')
    return _with_title("goalseek manifest", json.loads(text))


def _records() -> dict[str, Any]:
    from functools import reduce
    from operator import or_

    plain = _schema_of(reduce(or_, KINDS.values()))
    return _with_title("goalseek record: a line of results.jsonl", _with_constants(plain))


def _events() -> dict[str, Any]:
    from goalseek.views.events import Event

    return _with_title("goalseek event: a line of iterate --json", _with_constants(_schema_of(Event)))


def _brief() -> dict[str, Any]:
    from goalseek.proposal.brief import Brief

    return _with_title("goalseek brief: what an agent is told", _schema_of(Brief))


def _schema_of(kind: Any) -> dict[str, Any]:
    from pydantic import TypeAdapter

    document: dict[str, Any] = TypeAdapter(kind).json_schema()
    return document


def _with_constants(schema: dict[str, Any]) -> dict[str, Any]:
    """Adds what no annotation says: each record's kind, the schema's number, and the reasons of each outcome."""
    for kind, record in KINDS.items():
        shape = schema["$defs"].get(record.__name__)
        if shape is None:
            continue
        shape["properties"]["kind"] = {"const": kind}
        shape["properties"]["schema"] = {"const": SCHEMA}
        shape["required"] = ["schema", *shape["required"]]
        if kind == "iteration":
            shape["properties"]["outcome"] = {"enum": list(REASONS)}
            shape["allOf"] = [
                {
                    "if": {"properties": {"outcome": {"const": outcome}}},
                    "then": {"properties": {"reason": {"enum": list(reasons)}}},
                }
                for outcome, reasons in REASONS.items()
            ]
    return schema


def _with_title(title: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"$schema": _DRAFT, **schema, "title": title}


if __name__ == "__main__":
    for name in SCHEMAS:
        schema_file(name).write_text(to_text(build_schema(name)), "utf-8")
