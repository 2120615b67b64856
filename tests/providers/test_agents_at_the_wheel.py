"""Real coding agents that drive a climb: from ``goalseek drive``, and from a checkout, with the skills or the server.

The scripted model calls their shell, and the tools of the server; a key that they print there is stored nowhere.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tomli_w
from model_server.moves import Edit, ToolCall
from model_server.server import ModelServer
from project import FILES, MANIFEST, Project, Projects, answer, everything_written, home
from test_agents import AGENTS, CONFINED, FOLDER, QUICK, SECRET, provider

pytestmark = [pytest.mark.agents, pytest.mark.needs("bwrap")]
TASK = "Make the score better."
LAST_WORDS = "The score is 3."
OFFER = "Improve one number of this repository"  # of the skill
INSTRUCTIONS = "goalseek climbs one number in this repository"  # of the server
SERVER: dict[str, Any] = {"command": "goalseek", "args": ["mcp"]}
TOOLS = {"claude": "mcp__goalseek__", "codex": "mcp__goalseek.", "gemini": "mcp_goalseek_"}
JUDGE = 'if grep -q slow notes.txt; then sleep 4; fi\ncp answer.json "$GOALSEEK_RUN_DIR/metrics.json"\n'
FIRST = {**FILES, "notes.txt": "quick\n", "hidden/judge.sh": JUDGE}
TABLES = {"scope": {"writable": ["answer.json", "notes.txt"], "hidden": ["hidden/**"]}, **CONFINED}
TRIED = [("baseline", "measured"), ("kept", "better"), ("reverted", "worse"), ("kept", "better")]


class Step(NamedTuple):
    """A command of the agent's, and what it is told in a drive; ``in_checkout`` if it is told something else there."""

    command: str
    in_drive: str
    in_checkout: str = ""


def scored(score: float) -> str:
    return f"printf %s '{answer(score)}' > answer.json"


STEPS = (
    Step("cat hidden/judge.sh", "hidden/judge.sh: No such file or directory", "if grep -q slow notes.txt"),
    Step(
        f"echo mine > other.txt; {scored(9)}; goalseek try; echo it ended with $?; git checkout -q other.txt",
        "nothing was measured: other.txt is outside scope.writable",
        "nothing was measured: uncommitted changes outside scope.writable, perhaps part of the verifier: other.txt",
    ),
    Step(f"{scored(2)}; goalseek try 'a score of 2' --why because", "iteration 1 kept: 2 beats 1 by 1"),
    Step("goalseek brief", "- 1: kept/better 2, +1: a score of 2"),
    Step(f"{scored(1.5)}; goalseek try", "iteration 2 reverted: 1.5 is worse than 2 by 0.5"),
    Step("goalseek try --restore", "wrote the files of the incumbent, iteration 1: answer.json"),
    Step(f"{scored(3)}; echo slow > notes.txt; goalseek try --wait 1s; echo it ended with $?", "it ended with 75"),
    Step("goalseek wait", "iteration 3 kept: 3 beats 2 by 1"),
)


class Called(NamedTuple):
    """A tool of the server, called after a command of the agent's shell, and what the model is told."""

    command: str
    tool: str
    given: dict[str, Any]
    told: str


CALLS = (
    Called(":", "brief", {}, "Do not look for the verifier"),
    Called(scored(2), "try", {"summary": "a score of 2", "why": "because"}, "1 kept: 2 beats 1 by 1"),
    Called(scored(1.5), "try", {}, "2 reverted: 1.5 is worse than 2 by 0.5"),
    Called("echo mine > other.txt", "try", {"restore": True}, "answer.json"),
    Called(":", "try", {}, "in step with the climb; what changed is not writable: other.txt"),
    Called(f"{scored(3)}; echo slow > notes.txt", "try", {"wait_seconds": 1}, "goalseek wait"),
    Called(":", "wait", {}, "iteration 3 kept: 3 beats 2 by 1"),
)


@pytest.fixture
def set_up(make_project: Projects, monkeypatch: pytest.MonkeyPatch) -> Projects:
    """Makes a project where this agent, also in a login shell, finds goalseek, its key and the server."""

    def make(name: str, server: ModelServer, *commands: str | ToolCall, **tables: object) -> Project:
        path = os.pathsep.join([str(FOLDER / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
        home(".profile").write_text(f"PATH='{path}'\n")
        addresses = {"ANTHROPIC_BASE_URL": server.url, "GOOGLE_GEMINI_BASE_URL": server.url}
        for variable, value in {"PATH": path, AGENTS[name].key: SECRET, **addresses}.items():
            monkeypatch.setenv(variable, value)
        commands = commands or tuple(step.command for step in STEPS)
        server.play(Edit(commands=(f"printenv {AGENTS[name].key}", *commands), text=LAST_WORDS))
        return make_project(files=FIRST, manifest=tomli_w.dumps({**MANIFEST, **TABLES, **tables}))

    return make


def headless(name: str, server: ModelServer) -> list[str]:
    """The command line of an agent that runs every command of its model unasked."""
    model = AGENTS[name].model
    if name == "claude":
        return [name, "-p", TASK, "--model", model]
    if name == "gemini":
        return [name, "-p", TASK, "-m", model, "--approval-mode", "yolo", "--skip-trust"]
    at = f'{{name="scripted",base_url="{server.url}/v1",wire_api="responses",env_key="{AGENTS[name].key}"}}'
    chosen = ["-c", "model_provider=scripted", "-c", f"model_providers.scripted={at}"]
    return [name, "exec", "-m", model, *chosen, "--dangerously-bypass-approvals-and-sandbox", TASK]


def set_up_gemini(**tables: object) -> None:
    home(".gemini").mkdir()
    chosen = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    home(".gemini", "settings.json").write_text(json.dumps({**chosen, **tables}))


def drive(words: Sequence[str], project: Project, server: ModelServer, offer: str = OFFER) -> list[str]:
    """What the agent's tools gave it, command by command."""
    done = subprocess.run(words, cwd=project.top, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (done.stdout, done.stderr)
    first, *_, last = [seen.asked for seen in server.seen if seen.done != "aside"]
    assert offer in json.dumps(first.body) and LAST_WORDS in done.stdout
    return list(last.results)


def assert_no_key_is_stored(project: Project) -> None:
    files = [(str(place), place.read_bytes()) for place in project.top.rglob("*") if place.is_file()]
    assert [place for place, content in (*files, *everything_written(project)) if SECRET.encode() in content] == []


@QUICK
def test_from_a_drive_it_climbs_and_sees_nothing_hidden(name: str, set_up: Projects) -> None:
    with ModelServer() as server:
        project = set_up(name, server, provider=provider(name, server))
        project.check("baseline")
        unasked = ["--dangerously-skip-permissions"] if name == "claude" else []
        words = [sys.executable, "-m", "goalseek", "drive", "--", *headless(name, server), *unasked]
        key, *told = drive(words, project, server)
    assert SECRET in key
    for step, result in zip(STEPS, told, strict=True):
        assert step.in_drive in result and JUDGE.splitlines()[0] not in result
    records = project.iterations()
    assert [(one["outcome"], one["reason"]) for one in records] == TRIED
    said = {(one["provider"], one["model"], one["isolation"]["driver"]) for one in records[1:]}
    assert said == {("driver", f"drive-1 {name}", "bubblewrap")}
    assert project.git("status", "--porcelain") == "", "the checkout is the user's"
    assert_no_key_is_stored(project)


@QUICK
def test_from_a_checkout_it_climbs_and_its_session_is_named(name: str, set_up: Projects) -> None:
    with ModelServer() as server:
        project = set_up(name, server)
        project.check("skill", "install", "--project")
        set_up_gemini()
        unasked = ["--allowedTools", "Bash"] if name == "claude" else []
        key, *told = drive([*headless(name, server), *unasked], project, server)
    assert SECRET in key
    for step, result in zip(STEPS, told, strict=True):
        assert (step.in_checkout or step.in_drive) in result
    records = project.iterations()
    assert [(one["outcome"], one["reason"]) for one in records] == TRIED
    assert {(one["provider"], one["isolation"]["driver"]) for one in records[1:]} == {("driver", "open")}
    (model,) = {one["model"] for one in records[1:]}
    agent, _, session = model.partition(" ")
    assert agent == ("" if name == "gemini" else name), "Gemini names no session"
    assert not session or list(home(f".{name}").rglob(f"*{session}.jsonl")), "it is the agent's own name for it"
    assert_no_key_is_stored(project)


@QUICK
def test_through_mcp_it_climbs(name: str, set_up: Projects) -> None:
    named = {call.tool: TOOLS[name] + call.tool for call in CALLS}
    pairs = [(call.command, ToolCall(named[call.tool], call.given)) for call in CALLS]
    loading = ToolCall("ToolSearch", {"query": f"select:{','.join(named.values())}", "max_results": 5})
    with ModelServer() as server:
        first = [loading] if name == "claude" else []
        project = set_up(name, server, *first, *(one for pair in pairs for one in pair))
        project.check("baseline")
        set_up_gemini(mcpServers={"goalseek": {**SERVER, "trust": True}})
        words = headless(name, server)
        if name == "claude":
            words += ["--mcp-config", json.dumps({"mcpServers": {"goalseek": SERVER}}), "--strict-mcp-config"]
            words += ["--allowedTools", "Bash,mcp__goalseek"]
        if name == "codex":  # it asks its model before a server that is not required has started
            table = {**SERVER, "env_vars": ["PYTHONPATH"], "required": True, "startup_timeout_sec": 60}
            words += [f"-cmcp_servers.goalseek.{key}={json.dumps(value)}" for key, value in table.items()]
        key, *told = drive(words, project, server, INSTRUCTIONS)
    assert SECRET in key
    for call, result in zip(CALLS, told[len(first) + 1 :: 2], strict=True):
        assert call.told in result
    records = project.iterations()
    assert [(one["outcome"], one["reason"]) for one in records] == TRIED
    assert {(one["provider"], one["isolation"]["driver"]) for one in records[1:]} == {("driver", "open")}
    (model,) = {one["model"] for one in records[1:]}
    assert model.partition(" ")[0] == ("claude" if name == "claude" else ""), "the others name a server no session"
    assert_no_key_is_stored(project)
