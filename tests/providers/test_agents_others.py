"""Real opencode, aider and mini-swe-agent: their tools, project files, refusals; and doctor with all six."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from model_server.moves import Edit, Refuse, review
from model_server.server import ModelServer
from project import Projects, ended
from test_agents import EACH, OFFLINE, THERE, asked, climb, provider, server, tries
from test_agents_offered import real

from goalseek.phase_values import Plan
from goalseek.providers.fallback import Failed
from goalseek.providers.registry import load_maker

__all__ = ["asked", "server"]
pytestmark = [pytest.mark.agents, pytest.mark.needs("bwrap")]


@EACH
def test_doctor_finds_its_version_and_that_it_answers(name: str, asked: Projects, server: ModelServer) -> None:
    project = asked(name)
    server.otherwise = lambda told: Edit(text="ready")
    told = ended(("--json", "doctor", "--live"), project.folder, seconds=200)
    found = [json.loads(line) for line in told.stdout.splitlines()]
    rows = {row["name"]: row for row in found if row["name"] in ("provider", "live")}
    shown = [row["text"] for row in found if row["name"] == "provider"]
    tried = load_maker(name).tried  # type: ignore[union-attr]
    assert any(tried in text and text.endswith("as tried") for text in shown), shown
    answered = "Aside" if name == "aider" else "ready"  # it offers no tools, and so is answered as a side question is
    assert rows["live"]["ok"] and rows["live"]["text"].endswith(f"): {answered}"), rows
    assert [row["name"] for row in found if not row["ok"]] == ["isolation"], "its judge sees both"


TOOLS = {
    "opencode": ({"read", "glob", "grep", "bash"}, {"read", "glob", "grep", "bash", "edit", "write"}),
    "aider": (set(), set()),
    "mini-swe-agent": ({"bash"}, {"bash"}),
}
PLANTED = {
    "AGENTS.md": "EVIL",
    "CLAUDE.md": "EVIL",
    "opencode.json": json.dumps({"agent": {"build": {"prompt": "EVIL"}, "plan": {"prompt": "EVIL"}}}),
    ".opencode/agent/plan.md": "---\ndescription: it plans\n---\nEVIL\n",
    ".claude/skills/evil/SKILL.md": "---\nname: evil\ndescription: EVIL\n---\nEVIL\n",
    ".env": "OPENAI_API_BASE=http://127.0.0.1:9/v1\nANTHROPIC_BASE_URL=http://127.0.0.1:9\nAIDER_MODEL=openai/evil\n",
    "mini.yaml": "agent:\n  system_template: EVIL\n",
}


@pytest.mark.parametrize("name", [name for name in THERE if name in TOOLS])
def test_what_plan_apply_and_review_may_use_and_that_project_files_change_nothing(
    name: str, asked: Projects, server: ModelServer
) -> None:
    planned, edit = tries(7)
    assert isinstance(planned, Edit)
    project = asked(name, replace(planned, commands=("cat /etc/os-release",)), edit)
    project.write(PLANTED)
    project.commit()
    record = climb(project)
    assert record["outcome"] == "kept", (record["why"], server.done())
    author = {"name": "command", "command": ["sh", "-c", "echo '{\"score\": 9}' > answer.json; echo a score of 9"]}
    tables = {"provider": author, "review": {"provider": provider(name, server), "criteria": ["It is short."]}}
    project.set_manifest({**tables, "sandbox": {"mode": "bubblewrap"}, "env": {"agent": {"set": OFFLINE}}})
    server.play(review("REJECTED", "short: it is not"))
    assert "rejected it" in climb(project)["why"], server.done()
    seen = [one for one in server.seen if one.done != "aside" and not one.asked.results]
    seeing, editing = TOOLS[name]
    tools = [set(one.asked.tools) for one in seen]
    assert [offered >= wanted for offered, wanted in zip(tools, (seeing, editing, seeing), strict=True)] == [True] * 3
    assert not [tool for offered in tools for tool in offered if "web" in tool]
    told = json.dumps([one.asked.body for one in server.seen])
    assert name == "aider" or "EVIL" not in told, told[max(told.find("EVIL") - 500, 0) :][:1000]  # its map shows all


@pytest.mark.parametrize("name", [name for name in THERE if name == "mini-swe-agent"])
def test_a_prompt_of_160_kilobytes_and_an_output_of_100_megabytes_lose_nothing(
    name: str, asked: Projects, server: ModelServer
) -> None:
    planned, edit = tries(7)
    assert isinstance(planned, Edit) and isinstance(edit, Edit)
    prints = "head -c 100000000 /dev/zero | tr '\\0' x"
    reads = "cat $GOALSEEK_PROMPT"
    project = asked(name, replace(planned, commands=(reads,)), replace(edit, commands=(prints,)))
    project.write({"program.md": "Try a larger score.\n" * 8000})
    project.commit()
    record = climb(project)
    assert (record["outcome"], record["metric"]["value"]) == ("kept", 7), (record["why"], server.done())
    assert record["usage"]["input_tokens"] == 100 * len([one for one in server.seen if one.done in ("call", "answer")])
    assert all("Read the file" in one.asked.prompt and len(one.asked.prompt) < 20_000 for one in server.seen)


@pytest.mark.parametrize(
    ("name", "status", "kind", "most"),
    [
        ("mini-swe-agent", 401, "auth", 1),
        ("mini-swe-agent", 403, "auth", 1),
        ("mini-swe-agent", 503, "transient", 3),
        ("mini-swe-agent", 429, "rate_limited", 3),
        ("opencode", 403, "auth", 1),
        ("opencode", 503, "transient", 6),
    ],
)
def test_what_it_declares_of_a_refusal_and_how_often_it_asks(
    name: str, status: int, kind: str, most: int, server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name not in THERE:
        pytest.skip(f"{name} is not there")
    server.otherwise = Refuse(status)
    agent = real(name, tmp_path, monkeypatch, server.url)
    for variable, value in OFFLINE.items():
        monkeypatch.setenv(variable, value)
    with pytest.raises(Failed) as caught:
        agent.chain.editors[0].apply(agent.made(), Plan("a", "b"))
    assert (caught.value.kind, caught.value.usage.tokens) == (kind, 0), caught.value.why
    assert 1 <= len(server.seen) <= most
