"""Every key of the manifest is explained: in its schema, by ``goalseek help`` and in the pages of the guide."""

from __future__ import annotations

import json
import tomllib

import pytest
from jsonschema import Draft202012Validator
from key_pages import HEADS, TABLES, page_of_keys
from pages import GUIDE
from project import Project

from goalseek.manifest.keys import Key, manifest_keys
from goalseek.manifest.loading import published_schema

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
