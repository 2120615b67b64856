"""Who proposes after a plateau: whose turn it is, how records, kills and a closed provider count, and what is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from project import Project

USAGE = """echo '{"input_tokens": 10, "cost_usd": %s}' > "$GOALSEEK_USAGE"\n"""
STUCK = """printf '%%s' '{"score": 0.5, "size": 10, "try": '$GOALSEEK_ITERATION'}' > answer.json; echo stuck\n"""


def reaching(score: float, cost: float = 0.5) -> str:
    """An agent that always gives this score, each time with another file."""
    return STUCK.replace('"score": 0.5', f'"score": {score}').replace("%%", "%") + USAGE % cost


def rotating(project: Project, own: str, plateau: int = 2, more: tuple[Any, ...] = (), **agents: str) -> Project:
    """The provider is the agent ``own``; those of ``agents`` take turns with it, under their names as models."""
    tables = []
    for name, script in agents.items():
        path = project.top.parent / f"{name}.sh"
        path.write_text(script)
        tables.append({"name": "command", "model": name, "command": ["sh", str(path)]})
    search = {"search": {"rotate": [*tables, *more], "plateau": plateau}, "limits": {"stagnation": "none"}}
    return project.set_agent(own, search, repair=0)


def turns(records: list[dict[str, Any]]) -> list[str]:
    return [record["turn_of"].removeprefix("command ") for record in records[1:]]


def test_after_a_plateau_the_next_takes_its_turn_and_stays_once_it_has_kept_a_change(project: Project) -> None:
    made = rotating(project, reaching(0.5), b=reaching(0.5), c=reaching(3))
    records = made.climb("iterate", "-n", "9")
    assert turns(records) == ["command", "command", "b", "b", "c", "c", "c", "command", "command"]
    assert [f"{record['provider']} {record['model']}".strip() for record in records[1:6]] == [
        "command",
        "command",
        "command b",
        "command b",
        "command c",
    ]
    assert [record["outcome"] for record in records[1:]] == [*["reverted"] * 4, "kept", *["reverted"] * 4]
    (note,) = [note for note in records[3]["notes"] if "turn" in note]
    assert note == "it is the turn of command b: 2 iterations without a kept change, and it has not proposed yet"
    assert not [note for record in records[4:5] for note in record["notes"] if "turn" in note]
    status = json.loads(made.check("--json", "status"))
    assert status["turn"]["names"][0] == "command b" and status["turn"]["is_new"]
    gains = {each["name"]: (each["tried"], each["kept"], each["gain"]) for each in status["proposers"]}
    assert gains == {"command": (4, 0, 0.0), "command b": (2, 0, 0.0), "command c": (3, 1, pytest.approx(2.0))}
