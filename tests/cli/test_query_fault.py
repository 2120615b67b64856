"""A JMESPath expression that does not parse is named with the place, in one line."""

from __future__ import annotations

import jmespath
import pytest
from project import Project

from goalseek.manifest.rules import query_fault


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("a b", "'a b' is not JMESPath: Unexpected token: b, at character 3, 'b'"),
        ("foo.bar[?", "'foo.bar[?' is not JMESPath: Incomplete expression, at its end"),
        ("a.'x", '"a.\'x" is not JMESPath: Unclosed \' delimiter, at character 3, "\'x"'),
        ("nope(@)", "'nope(@)': Unknown function: nope()"),
        ("", "'': cannot be empty."),
    ],
)
def test_the_expression_and_the_place_are_told(query: str, told: str) -> None:
    with pytest.raises(jmespath.exceptions.JMESPathError) as raised:
        jmespath.search(query, {"a": 1})
    assert query_fault(query, raised.value) == told


def test_it_is_told_of_the_manifest_and_of_the_command_line(project: Project) -> None:
    project.set_manifest({"metric": {"direction": "maximize", "query": "score size"}})
    assert (
        "'score size' is not JMESPath: Unexpected token: size, at character 7, 'size'" in project.run("status").stderr
    )
    project.set_manifest({})
    ended = project.run("--query", "status.", "status")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "--query 'status.' is not JMESPath: " in ended.stderr and "at its end" in ended.stderr
