"""JSON Schemas generated from the types that goalseek reads and writes; the published files are tested against them.

    python tests/support/schemas.py

writes the published files again, but for that of the brief, which no type declares.
"""

import ast
import inspect
import itertools
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from goalseek.case_scores import CaseScores
from goalseek.manifest import loading, tables, validation
from goalseek.manifest.keys import SCHEMAS, published_schema
from goalseek.records import KINDS, READABLE_SCHEMAS, Isolation, MetricResult
from goalseek.values import Attempt, CaseResult, CommandRun, Usage, VerifierRun

GENERATED = [name for name in SCHEMAS if name != "brief"]
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
REASONS = {
    "baseline": ["measured"],
    "kept": ["better", "simpler", "taken_back"],
    "reverted": """worse tie within_noise below_min_delta seed_fixed guard not_valid verify_failed verify_timeout no_metric
        not_finite unmeasurable review_rejected declined outrun""".split(),
    "skipped": """no_change conflict duplicate out_of_scope provider_failed provider_timeout no_plan
        interrupted""".split(),
}


def build_schema(name: str) -> dict[str, Any]:
    """The schema of this name, generated from the current types."""
    builders = {"manifest": _manifest, "records": _records, "events": _events, "receipt": _receipt}
    return builders.get(name, _notification)()


def to_text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _manifest() -> dict[str, Any]:
    text = json.dumps(validation.type_adapter().json_schema(schema_generator=_Schemas)).replace('"pass_"', '"pass"')
    schema = json.loads(text)
    _document(schema, tables.Manifest)
    for name, shape in schema["$defs"].items():
        _document(shape, getattr(tables, name))
    published = json.loads(re.sub(r'\bProjectTable"', 'Project"', json.dumps(schema)))  # its name in earlier versions
    return _with_title("goalseek manifest", published)


def _document(shape: dict[str, Any], table: type) -> None:
    """Adds the sentence and the example of each key, and takes away titles that only repeat its name."""
    for name, (sentence, example) in key_texts(table).items():
        shape["properties"][name] |= {"description": sentence, "examples": [example]}
    for name, node in shape["properties"].items():
        if name == "alpha":
            node["default"] = "auto"  # which is read as None, as "none" is for other keys
        if node.get("title") == name.replace("_", " ").title():
            del node["title"]


def key_texts(table: type) -> dict[str, tuple[str, Any]]:
    """The sentence and the example of each key of a table that has some, from the docstrings below its fields."""
    texts: dict[str, tuple[str, Any]] = {}
    for base in reversed(table.__mro__):
        if not issubclass(base, Struct) or base is Struct:
            continue
        (body,) = ast.parse(inspect.getsource(base)).body
        assert isinstance(body, ast.ClassDef)
        for field, doc in itertools.pairwise(body.body):
            if not (isinstance(field, ast.AnnAssign) and isinstance(doc, ast.Expr)):
                continue
            name = ast.unparse(field.target).removesuffix("_")
            sentence, _, example = " ".join(ast.literal_eval(doc.value).split()).partition(" Example: ")
            texts[name] = sentence, _to_json(tomllib.loads(example.strip("`"))[name])
    return texts


def _to_json(value: Any) -> Any:
    return json.loads(json.dumps(value, default=lambda moment: moment.isoformat()))


def _records() -> dict[str, Any]:
    from functools import reduce
    from operator import or_

    plain = _schema_of(reduce(or_, KINDS.values()))
    return _with_title("goalseek record: a line of results.jsonl", _with_constants(plain))


def _events() -> dict[str, Any]:
    """What the published file declares, with the records as they are now."""
    published, records = published_schema("events"), _records()["$defs"]
    return {**published, "$defs": {name: records.get(name, shape) for name, shape in published["$defs"].items()}}


def _notification() -> dict[str, Any]:
    from goalseek.loop.notify import BestCommit, Notification

    schema = _with_constants(_schema_of(Notification, BestCommit, Notification))
    return _with_title("goalseek notification: what the program of [notify] gets", schema)


def _receipt() -> dict[str, Any]:
    from goalseek.evaluation.claim import Receipt

    schema = _with_constants(_schema_of(Receipt, Receipt))
    return _with_title("goalseek receipt: the claim of a gain, as goalseek claim writes it", schema)


class _Schemas(GenerateJsonSchema):
    def encode_default(self, default: Any) -> Any:
        return super().encode_default(msgspec.to_builtins(default))


def _schema_of(kind: Any, *structs: type) -> dict[str, Any]:
    parts = (MetricResult, Isolation, Usage, VerifierRun, CommandRun, Attempt, CaseScores, CaseResult)
    for struct in (*structs, *KINDS.values(), *parts):
        validation.show_to_pydantic(struct)
    document: dict[str, Any] = TypeAdapter(kind).json_schema(schema_generator=_Schemas)
    return document


def _with_constants(schema: dict[str, Any]) -> dict[str, Any]:
    """Adds what no annotation says: each record's kind, the schema's number, and the reasons of each outcome."""
    for kind, record in KINDS.items():
        shape = schema["$defs"].get(record.__name__)
        if shape is None:
            continue
        shape["properties"]["kind"] = {"const": kind}
        shape["properties"]["schema"] = {"enum": list(READABLE_SCHEMAS)}
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
    for name in GENERATED:
        Path(loading.__file__).with_name(f"{name}.schema.json").write_text(to_text(build_schema(name)), "utf-8")
