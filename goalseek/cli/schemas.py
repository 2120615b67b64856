"""The schemas, made from the types that are read and written."""

from __future__ import annotations

import json
from typing import Any

from goalseek.ledger.records import KINDS, REASONS, SCHEMA
from goalseek.manifest import validation
from goalseek.manifest.json_schema import NAMES, file_of

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def made(name: str) -> dict[str, Any]:
    """The schema of that name, as the code has it now."""
    makers = {"manifest": validation.schema, "records": _records, "events": _events, "brief": _brief}
    return makers[name]()


def to_text(schema: dict[str, Any]) -> str:
    """As it is published."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _records() -> dict[str, Any]:
    from functools import reduce
    from operator import or_

    plain = _of(reduce(or_, KINDS.values()))
    return _titled("goalseek record: a line of results.jsonl", _with_constants(plain))


def _events() -> dict[str, Any]:
    from goalseek.views.events import Event

    return _titled("goalseek event: a line of iterate --json", _with_constants(_of(Event)))


def _brief() -> dict[str, Any]:
    from goalseek.proposal.brief import Brief

    return _titled("goalseek brief: what an agent is told", _of(Brief))


def _of(kind: Any) -> dict[str, Any]:
    from pydantic import TypeAdapter

    document: dict[str, Any] = TypeAdapter(kind).json_schema()
    return document


def _with_constants(schema: dict[str, Any]) -> dict[str, Any]:
    """With what no annotation says: each kind's name, the number of this schema, the outcomes and their reasons."""
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


def _titled(title: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"$schema": _DRAFT, **schema, "title": title}


if __name__ == "__main__":
    for name in NAMES:
        file_of(name).write_text(to_text(made(name)), "utf-8")
