"""The published JSON Schemas: as the types are, and true of what goalseek writes; each key of the manifest explained."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from key_pages import HEADS, TABLES, page_of_keys
from pages import GUIDE
from project import FILES, Project
from records import HEAD, SETTLED
from schemas import GENERATED, REASONS, build_schema, to_text

from goalseek.manifest.keys import SCHEMAS, Key, manifest_keys, published_schema, schema_text
from goalseek.records import KINDS, HoldoutRecord, parse_record
from goalseek.values import Reason, to_plain
from goalseek.views.lines import EventWatch

TAPLO = Path(sys.executable).with_name("taplo")
SHIPPED = sorted((Path(__file__).parents[2] / "manifests").glob("*.toml"))


def wrong(name: str, value: Any) -> list[str]:
    """What a published schema finds wrong with a value."""
    errors = Draft202012Validator(published_schema(name)).iter_errors(value)
    return [f"{error.json_path}: {error.message}" for error in errors]


def bare(schema: Any, is_key: bool = False) -> Any:
    """A schema without titles and the words of tables, which every version of pydantic makes a little different."""
    if isinstance(schema, list):
        return [bare(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    keys = {name: bare(node, is_key=True) for name, node in schema.get("properties", {}).items()}
    words = {"properties", "title"} | (set() if is_key else {"description"})
    return {key: bare(value) for key, value in schema.items() if key not in words} | {"properties": keys}


@pytest.mark.parametrize("name", GENERATED)
def test_what_is_published_is_what_the_types_say(name: str) -> None:
    assert bare(published_schema(name)) == bare(build_schema(name)), "write it again: python tests/support/schemas.py"


@pytest.mark.parametrize("name", SCHEMAS)
def test_what_is_published_is_a_schema(name: str) -> None:
    assert schema_text(name) == to_text(published_schema(name))
    Draft202012Validator.check_schema(published_schema(name))


def test_the_command_prints_each_and_every_reason_belongs_to_one_outcome(project: Project) -> None:
    for name in SCHEMAS:
        assert project.run("manifest", "schema", name).stdout == schema_text(name)
    assert json.loads(project.run("manifest", "schema").stdout) == published_schema("manifest")
    assert project.run("manifest", "schema", "--query", "title").stdout == '"goalseek manifest"\n'
    ended = project.run("manifest", "show", "records")
    assert ended.exit_code == 2 and "manifest schema records" in ended.stderr
    assert project.run("manifest", "schema", "other").exit_code == 2
    reasons = [reason for several in REASONS.values() for reason in several]
    assert sorted(reasons) == sorted({*Reason} - {Reason.MOVED})


def test_what_was_measured_outside_iterations_is_an_event_of_its_kind() -> None:
    look = {"look": 1, "of": "best", "iteration": 12, "commit_hash": "c" * 40, "ruler": "", "reason": "measured"}
    for record in (SETTLED, HoldoutRecord(kind="holdout", **look, **HEAD)):
        told = StringIO()
        EventWatch(told).on_record(record)
        event = json.loads(told.getvalue())
        assert event == {"event": record.kind, "record": to_plain(record)}
        assert wrong("events", event) == [] and wrong("events", {**event, "record": {}})


def test_what_is_written_in_a_climb_is_as_published_and_what_is_not_is_found(
    make_project: Callable[..., Project], tmp_path: Path
) -> None:
    """A climb with every common outcome, by an agent that keeps its brief."""
    agent = tmp_path / "agent.sh"
    agent.write_text(
        f'cp "$GOALSEEK_BRIEF" "{tmp_path}/brief-$GOALSEEK_ITERATION.json"\n'
        "case $GOALSEEK_ITERATION in\n1) score=2;; 2) score=1;; 3) echo x > other.txt; score=3;;\n"
        '4) echo "Nothing"; exit;; 5) score=fail;; *) score=$GOALSEEK_ITERATION;; esac\n'
        """printf '{"score": %s,\\n"size": 10\\n}\\n' "$score" > answer.json; echo "score $score"\n"""
    )
    tables = {"provider": {"name": "command", "command": ["sh", str(agent)]}, "limits": {"stagnation": 2, "tokens": 99}}
    project = make_project(files=FILES, manifest={**tables, "guard": [{"query": "size", "max": 20}]})
    assert "✓ sabotage" in project.run("doctor").stdout
    ended = project.run("iterate", "-n", "6", "--json")
    assert ended.exit_code == 0, ended.stderr
    records = project.records()
    assert {record["kind"] for record in records} == set(KINDS) - {"settle", "holdout"}
    assert len({record.get("outcome") for record in records}) >= 4
    for record in records:
        assert wrong("records", record) == []
        shape = published_schema("records")["$defs"][KINDS[record["kind"]].__name__]
        assert set(record) <= set(shape["properties"])
    noted = StringIO()
    EventWatch(noted).on_note("a note")
    events = [json.loads(line) for line in (*ended.stdout.splitlines(), noted.getvalue())]
    assert {event["event"] for event in events} == {"note", "sandbox", "phase", "iteration", "stopped"}
    for event in events:
        assert wrong("events", event) == []
    briefs = [json.loads((tmp_path / f"brief-{n}.json").read_text()) for n in range(1, 7)]
    strict = published_schema("brief")  # every declared key must be there, and no other may
    for shape in (strict, *strict["$defs"].values()):
        assert set(shape["required"]) == set(shape["properties"])
        shape["additionalProperties"] = False
    for brief in briefs:
        assert list(Draft202012Validator(strict).iter_errors(brief)) == []
    assert briefs[-1]["history"]
    record = project.iterations()[1]
    for change in (
        *({"kind": "other"}, {"schema": 3}, {"outcome": "lost"}, {"reason": "worse"}, {"metric": None}),
        *({"iteration": "1"}, {"changed_files": "a"}, {"usage": {"input_tokens": "many"}}),
    ):
        assert wrong("records", {**record, **change}), change
    assert wrong("records", {key: value for key, value in record.items() if key != "why"})
    assert wrong("events", {"event": "stopped", "why": "x"}) and wrong("brief", {})
    required = published_schema("records")["$defs"]["IterationRecord"]["required"]
    older = {key: value for key, value in record.items() if key in required}
    assert len(older) < len(record) and wrong("records", older) == []
    assert to_plain(parse_record(json.dumps(older)))["iteration"] == 1
    for_editors = project.folder / ".goalseek/manifest.schema.json"
    assert for_editors.read_text() == schema_text("manifest")
    for_editors.write_text("{}")
    project.climb()
    assert for_editors.read_text() == schema_text("manifest")


def test_the_editor_line_of_init_leads_to_the_schema_which_holds_and_taplo_takes(project: Project) -> None:
    manifest = project.manifest
    project.git("rm", "--quiet", "goalseek.toml")
    project.commit("no manifest")
    command = "cp answer.json $GOALSEEK_RUN_DIR/metrics.json"
    given = ["--run", command, "--metric", "maximize score", "--query", "score", "--writable", "answer.json"]
    project.check("init", "--yes", *given)
    line = manifest.read_text().splitlines()[0]
    assert line.startswith("#:schema ./")
    schema = json.loads((manifest.parent / line.removeprefix("#:schema ")).read_text())
    assert schema == published_schema("manifest")
    validator = Draft202012Validator(schema)
    written = tomllib.loads(manifest.read_text())
    assert list(validator.iter_errors(written)) == []
    assert list(validator.iter_errors({**written, "scope": {"writeable": []}}))
    assert project.git("status", "--porcelain") == "?? goalseek.toml"
    assert checked_by_taplo(manifest) == (0, "")
    manifest.write_text(manifest.read_text().replace('direction = "maximize"', 'direction = "up"'))
    code, said = checked_by_taplo(manifest)
    assert code != 0 and '"up" is not one of ["maximize","minimize"]' in said


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_manifests_are_as_published_for_python_and_for_taplo(path: Path, tmp_path: Path) -> None:
    assert wrong("manifest", tomllib.loads(path.read_text())) == []
    (tmp_path / "schema.json").write_text(schema_text("manifest"))
    (tmp_path / "goalseek.toml").write_text("#:schema ./schema.json\n" + path.read_text())
    assert checked_by_taplo(tmp_path / "goalseek.toml") == (0, "")


def checked_by_taplo(manifest: Path) -> tuple[int, str]:
    done = subprocess.run(
        [TAPLO, "check", manifest], capture_output=True, text=True, env={"RUST_LOG": "error"}, timeout=120
    )
    return done.returncode, done.stderr if done.returncode else ""


KEYS = manifest_keys()
VALUES = [key for key in KEYS.values() if not key.inner]


@pytest.mark.parametrize("key", VALUES, ids=lambda key: key.name)
def test_a_key_has_one_sentence_and_an_example_that_its_own_schema_takes(key: Key) -> None:
    assert {"description", "examples"} <= key.node.keys(), "a docstring below its field, as the others have; schemas.py"
    assert key.text.endswith(".") and ". " not in key.text and "``" not in key.text
    written = tomllib.loads(key.example)[key.last_name]
    plain = json.loads(json.dumps(written, default=lambda moment: moment.isoformat()))
    assert plain == key.node["examples"][0] or key.node["format"] == "date-time"
    node = {**key.node, "$defs": published_schema("manifest")["$defs"]}
    assert not list(Draft202012Validator(node).iter_errors(plain))
    assert plain != key.node.get("default"), "an example shows what is not so anyway"


def test_every_table_is_on_one_page_and_every_page_is_as_the_tables_say() -> None:
    assert sorted(name for names in TABLES.values() for name in names) == sorted(key for key in KEYS if "." not in key)
    for topic in HEADS:
        assert (GUIDE / f"{topic}.md").read_text() == page_of_keys(topic), "python tests/support/key_pages.py"


def test_a_key_is_explained_by_its_whole_name_its_last_and_its_table_and_a_table_in_brackets(project: Project) -> None:
    shown = project.run("help", "scope.share").stdout
    assert shown.startswith("scope.share: list of paths, default []\n")
    assert tomllib.loads(shown[shown.index("[scope]") :]) == {"scope": {"share": [".venv", "data"]}}
    assert project.run("help", "share").stdout == shown
    assert {row["key"] for row in json.loads(project.run("help", "pass", "--json").stdout)} == {
        "env.verify.pass",
        "env.agent.pass",
    }
    assert "scope.hidden_from: text, default none\n" in project.run("help", "hidden_from").stdout
    levels = '"auto", "bubblewrap", "landlock" or "none"'
    assert project.run("help", "sandbox.mode").stdout.startswith(f'sandbox.mode: {levels}, default "auto"')
    table = project.run("help", "[[verify]]").stdout
    assert table.startswith("[[verify]]\n") and "\n  timeout " in table
    assert 'setup.timeout: duration, default "30m"\n' in project.run("help", "timeout").stdout
    assert '\nverify.output_max: size, default "2GiB"\n' in "\n" + project.run("help", "output_max").stdout
    for name, shown in (("limits", "# Limits"), ("holdout", "# Noise"), ("log", "usage: goalseek log")):
        assert project.check("help", name).startswith(shown)
        assert project.check("help", f"[{name}]").startswith(f"[{name}]\n")
    assert "`goalseek help '[holdout]'`" in project.check("help", "holdout")
    ended = project.run("help", "scope.writeable")
    assert ended.exit_code == 2 and "did you mean 'scope.writable'?" in ended.stderr
