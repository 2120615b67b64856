"""Real claude, codex and gemini: what they are offered in each phase, what they declare, and what a killed one used."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from model_server.asked import Asked as Question
from model_server.moves import Edit, Loop, Move, Refuse, plan, review
from model_server.server import ModelServer
from project import Projects, answer
from test_agents import AGENTS, FOLDER, OFFLINE, QUICK, SECRET, TOKENS, asked, climb, provider, server
from test_presets import Asked

from goalseek.phase_values import Plan
from goalseek.providers.coding_agent import usage_of_call
from goalseek.providers.fallback import Failed
from goalseek.providers.preset import Printed
from goalseek.providers.registry import load_maker

__all__ = ["asked", "server"]
pytestmark = [pytest.mark.agents, pytest.mark.needs("bwrap")]
READING = {"Read", "Glob", "Grep"}
OFFERED: dict[str, tuple[set[str], set[str], set[str], set[str]]] = {
    # what PLAN, APPLY and REVIEW must have, and what REVIEW must not have
    "claude": ({"Bash", *READING}, {"Bash", "Edit", "Write", *READING}, READING, {"Bash", "Edit", "Write"}),
    "codex": ({"exec_command"}, {"exec_command"}, {"exec_command"}, set()),
    "gemini": (
        {"read_file", "glob", "grep_search", "list_directory", "run_shell_command"},
        {"read_file", "glob", "grep_search", "run_shell_command", "replace", "write_file"},
        {"read_file", "glob", "grep_search", "list_directory"},
        {"run_shell_command", "replace", "write_file", "enter_plan_mode"},
    ),
}
REVIEWERS = {"claude": "codex", "codex": "gemini", "gemini": "claude"}


def planted(url: str) -> dict[str, str]:
    """What a repository can hold that an agent would run, obey or take for its settings; AGENTS.md aside. Gemini may read GEMINI.md."""

    def tell(who: str) -> str:
        port = url.rpartition(":")[2]
        request = f"POST /planted/{who} HTTP/1.0\\r\\nContent-Length: 2\\r\\n\\r\\n{{}}"
        return f"exec 3<>/dev/tcp/127.0.0.1/{port}; printf '{request}' >&3; cat <&3"

    def hooks(agent: str, *names: str) -> dict[str, Any]:
        of = {name: {"type": "command", "command": f"bash -c {json.dumps(tell(agent + name))}"} for name in names}
        return {name: [{"matcher": "*", "hooks": [hook]}] for name, hook in of.items()}

    def server(agent: str) -> dict[str, Any]:
        return {"planted": {"command": "bash", "args": ["-c", tell(f"{agent}-server")]}}

    claude = hooks("claude", "SessionStart", "UserPromptSubmit", "PreToolUse", "Stop")
    gemini = hooks("gemini", "SessionStart", "BeforeAgent", "BeforeModel", "BeforeTool", "AfterAgent")
    codex = hooks("codex", "SessionStart", "UserPromptSubmit", "PreToolUse", "Stop")
    notify = json.dumps(["bash", "-c", tell("codex-notify")])
    skill = "---\nname: planted\ndescription: PLANTED SKILL\n---\nIt helps.\n"
    return {
        ".claude/settings.json": json.dumps({"hooks": claude, "env": {"PLANTED": "yes"}}),
        ".claude/skills/s/SKILL.md": skill,
        ".claude/rules/r.md": "PLANTED RULE\n",
        "CLAUDE.md": "PLANTED MEMORY\n",
        ".mcp.json": json.dumps({"mcpServers": server("claude")}),
        ".codex/config.toml": f'developer_instructions = "PLANTED INSTRUCTIONS"\nnotify = {notify}\n'
        f'[mcp_servers.planted]\ncommand = "bash"\nargs = {notify}\n[features]\nhooks = true\n',
        ".codex/hooks.json": json.dumps({"hooks": codex}),
        ".codex/skills/s/SKILL.md": skill,
        ".agents/skills/s/SKILL.md": skill,
        ".gemini/settings.json": json.dumps({"hooks": gemini, "mcpServers": server("gemini")}),
        ".gemini/.env": "GEMINI_SYSTEM_MD=1\n",
        ".gemini/system.md": "PLANTED SYSTEM\n",
        ".gemini/skills/s/SKILL.md": skill,
        ".env": "PLANTED=yes\n",
        "GEMINI.md": "PLANTED CONTEXT\n",
    }


@QUICK
def test_each_phase_is_offered_its_tools_and_a_projects_files_add_nothing(
    name: str, asked: Projects, server: ModelServer
) -> None:
    look = Edit(text=plan("a score of 7", "answer.json").text, commands=("env | grep PLANTED | tr A-Z a-z",))
    edit = Edit({"answer.json": answer(7)}, text="a score of 7")
    reviewer = REVIEWERS[name]
    project = asked(name, look, edit, review("APPROVED", "short: it is"), also=reviewer)
    for path, content in planted(server.url).items():
        (project.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (project.folder / path).write_text(content)
    project.commit("what an agent might obey")
    reviewed = {"provider": provider(reviewer, server), "criteria": ["It is short."]}
    sandbox, env = {"mode": "bubblewrap"}, {"agent": {"set": OFFLINE}}
    project.set_manifest({"provider": provider(name, server), "review": reviewed, "sandbox": sandbox, "env": env})
    record = climb(project)
    assert record["outcome"] == "kept", (record["why"], server.done())
    begun = [seen.asked for seen in server.seen if seen.done != "aside" and not seen.asked.results]
    planning, applying, reviewing = (set(question.tools) for question in begun)
    plan_has, apply_has = OFFERED[name][:2]
    review_has, review_lacks = OFFERED[reviewer][2:]
    assert plan_has <= planning and apply_has <= applying and review_has <= reviewing, (planning, applying, reviewing)
    assert not review_lacks & reviewing, "a reviewer reads"
    assert not {tool for tool in (*planning, *applying, *reviewing) if "web" in tool.lower()}
    assert ["a score of 7" in question.said for question in begun] == [False, True, False], (
        "APPLY goes on where PLAN was"
    )
    for question in (seen.asked for seen in server.seen):
        found = set(re.findall(r"PLANTED [A-Z]+|planted=yes", json.dumps(question.body)))
        assert found <= ({"PLANTED CONTEXT"} if question.model == AGENTS["gemini"].model else set())
    assert [path for path in server.unknown if "planted" in path] == []


def real(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, url: str, key: bool = True, **table: Any) -> Asked:
    """Calls of the real program, in a HOME of this test's."""
    agent = AGENTS[name]
    monkeypatch.setenv("PATH", f"{FOLDER / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv(agent.key, SECRET) if key else monkeypatch.delenv(agent.key, raising=False)
    for variable in {"CODEX_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "GOOGLE_API_KEY"}:
        monkeypatch.delenv(variable, raising=False)
    return Asked(folder, name, confined=True, model=agent.model, endpoint=url, **table)


@QUICK
def test_what_it_declares_is_read_and_its_retries_are_few_and_short(
    name: str, server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases: list[tuple[Refuse, str]] = [
        (Refuse(401), "auth"),
        (Refuse(429, retry_after=7200, is_spent=True), "rate_limited"),
        (Refuse(503), "transient"),
    ]
    if name != "codex":  # which announces that it waits so long by itself, and is ended when it stays silent
        cases.append((Refuse(429, retry_after=7200), "rate_limited"))
    for number, (move, kind) in enumerate(cases):
        server.otherwise, before = move, len(server.seen)
        (tmp_path / str(number)).mkdir()
        agent = real(name, tmp_path / str(number), monkeypatch, server.url)
        with pytest.raises(Failed) as caught:
            agent.chain.editors[0].apply(agent.made(), Plan("a", "b"))
        assert caught.value.kind == kind, (move, caught.value.why)
        requests = len(server.seen) - before
        most = 1 if move.is_spent and name != "claude" else {"claude": 3, "codex": 5, "gemini": 2}.get(name, 1)
        assert 1 <= requests <= most, (move, requests)
        if name == "codex" and number == 1:
            assert caught.value.reset == pytest.approx(7200, abs=60)


@QUICK
def test_without_a_key_it_is_refused(
    name: str, server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.otherwise = Refuse(401)
    agent = real(name, tmp_path, monkeypatch, server.url, key=False)
    with pytest.raises(Failed) as caught:
        agent.chain.editors[0].apply(agent.made(), Plan("a", "b"))
    assert caught.value.kind == "auth", caught.value.why


@QUICK
def test_what_a_killed_call_used_is_what_the_server_gave(
    name: str, server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def move(question: Question) -> Move:
        return Loop(tokens=TOKENS) if question.said else plan("a score of 7", "answer.json")

    server.otherwise = move
    killed = ("timeout", "-s", "KILL", "15", AGENTS[name].program)
    agent = real(name, tmp_path, monkeypatch, server.url, command=killed)
    agent.prompt = "<<<GOALSEEK PLAN " + agent.made().nonce
    planned = agent.plan()
    session = agent.sessions[name]
    assert planned.usage.input_tokens == 100 and session, "one answer"
    agent.prompt = "go on"
    with pytest.raises(Failed) as caught:
        agent.chain.editors[0].apply(agent.made(), planned)
    used = caught.value.usage
    calls = [seen for seen in server.seen if seen.done in ("call", "answer")][1:]
    assert len(calls) > 5, server.done()
    assert used.input_tokens in (100 * len(calls), 100 * (len(calls) - 1)), "the last answer may not have been stored"
    assert used.cached_tokens == used.input_tokens * 2 // 5
    assert 0 <= used.input_tokens // 5 - used.output_tokens < 20, "the last answer may have been counted at its begin"
    left = load_maker(name).read(Printed(-9, "", "", lambda pattern: agent.made().host.read_home(name, pattern)))  # type: ignore[union-attr]
    missing = used.tokens - usage_of_call(left, session).tokens
    assert 0 <= missing <= 160, "where goalseek died too, only its HOME is left, which may lack the last answer"
