"""Agents in whole runs: their HOME and login, what they must not leave behind, and who is waited for."""

import json
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from fake_agents import EDIT, Fake
from project import Project, everything_written, until
from skips import levels
from test_providers import JUDGE, KNOB

pytestmark = pytest.mark.slow

SECRET = "planted-refresh-token-0123456789"
KEY = "sk-planted-api-key-0123456789"
RENEW = """
import pathlib
place = pathlib.Path(home, ".claude/.credentials.json")
told = json.loads(place.read_text())
told["claudeAiOauth"]["refreshToken"] += "+"
fresh = place.with_name("fresh")
fresh.write_text(json.dumps(told))
fresh.replace(place)
"""


@pytest.fixture
def agents(make_project: Callable[..., Project]) -> Callable[..., Project]:
    """Makes a project with this provider, and other tables."""

    def make(provider: dict[str, Any], sandbox: str = "none", **tables: Any) -> Project:
        return make_project(
            files={"knobs.txt": KNOB(1), "hidden/judge.sh": JUDGE},
            manifest={
                "scope": {"writable": ["knobs.txt"], "hidden": ["hidden/**"]},
                "provider": provider,
                "sandbox": {"mode": sandbox},
                **tables,
            },
        )

    return make


def log_in(home: Path) -> Path:
    """A subscription's login as Claude Code keeps it."""
    file = home / ".claude" / ".credentials.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"claudeAiOauth": {"accessToken": "a" * 30, "refreshToken": SECRET}}))
    file.chmod(0o600)
    (file.parent / "settings.json").write_text("{}")
    return file


@pytest.mark.parametrize("level", levels("bubblewrap", "landlock", "none"))
def test_a_login_is_renewed_in_its_own_place_and_nothing_else_of_home_is_there(
    fake: Callable[..., Fake], agents: Callable[..., Project], isolated: Path, level: str
) -> None:
    file, claude = log_in(isolated), fake("claude")
    claude.acts(always=f"run {RENEW}")
    project = agents({"name": "claude"}, level)
    record = project.climb("iterate", "-n", "2")[-1]
    assert record["outcome"] == "kept", record["why"]
    assert json.loads(file.read_text())["claudeAiOauth"]["refreshToken"] == SECRET + "++++", "twice an iteration"
    assert file.stat().st_mode & 0o777 == 0o600 and (file.parent / "settings.json").read_text() == "{}"
    assert record["usage"]["cost_usd"] is None and record["usage"]["about_usd"] == 0.5
    copies = [place for place in isolated.rglob("*") if place.is_file() and SECRET in place.read_text(errors="replace")]
    assert {place.resolve() for place in copies} == {file}
    if level == "none":
        homes = [call["home"] for call in claude.calls]
        assert homes[0] == homes[2] == [".claude/.credentials.json"], "every iteration begins with an empty one"
        assert [call["phase"] for call in claude.calls] == ["plan", "apply"] * 2
        resumed = ["--resume" in call["argv"] for call in claude.calls]
        assert resumed == [False, True] * 2


@pytest.mark.parametrize(
    "name", ["claude", "codex", pytest.param("mini-swe-agent", marks=pytest.mark.needs("bwrap")), "command"]
)
def test_a_credential_never_enters_a_record_a_log_a_prompt_or_a_commit(
    fake: Callable[..., Fake],
    agents: Callable[..., Project],
    isolated: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    variable = "OPENAI_API_KEY" if name == "codex" else "ANTHROPIC_API_KEY"
    monkeypatch.setenv(variable, KEY)
    say = f"say {EDIT!r} and exec(EDIT) or 'my key is ' + environment['{variable}']"
    leak = f'open("knobs.txt", "w").write(environment["{variable}"])'
    if name == "command":
        agent = isolated.parent / "agent.sh"
        agent.write_text(
            f'echo "$GOALSEEK_PHASE {"$"}{variable}"; echo {"$"}{variable} >&2\n'
            f"[ $GOALSEEK_ITERATION = 1 ] && {'echo RATE = 2 > knobs.txt'} || echo {'$'}{variable} > knobs.txt\n"
        )
        provider: dict[str, Any] = {"name": name, "command": ["sh", str(agent)], "credentials": [variable]}
    else:
        made = fake(name)
        made.acts(apply=say)
        provider = {"name": name}
    project = agents(provider, "auto" if name == "mini-swe-agent" else "none")
    first = project.run("-v", "iterate")
    if name != "command":
        made.acts(edit=leak)
    second = project.run("--json", "iterate")
    records = project.iterations()
    assert first.exit_code == second.exit_code == 0
    assert (records[1]["outcome"], records[2]["reason"]) == ("kept", "out_of_scope"), records[2]["why"]
    assert "knobs.txt holds a credential" in records[2]["why"]
    assert "[credential]" in (project.run_folder(1) / "provider_output.md").read_text()
    printed = [first.stdout, first.stderr, second.stdout, second.stderr]
    assert not [text for text in printed if KEY in text]
    assert not [place for place, content in everything_written(project) if KEY.encode() in content]


def test_a_rate_limit_shows_its_end_and_costs_no_iteration_and_no_failure(
    fake: Callable[..., Fake], agents: Callable[..., Project]
) -> None:
    fake("claude").acts(_0="rate 2")
    project = agents({"name": "claude"})
    project.climb("baseline")
    started = project.start("iterate")
    seen = {}
    deadline = time.monotonic() + 60
    while seen.get("status") != "waiting" and started.poll() is None and time.monotonic() < deadline:
        seen = json.loads(project.run("status", "--json").stdout)
    _, said = started.communicate(timeout=120)
    assert started.returncode == 0 and "claude is rate limited; waits until 20" in said
    assert seen["status"] == "waiting" and "rate limited; waits until" in seen["next"], seen
    _, record = project.iterations()
    assert record["outcome"] == "kept" and record["iteration"] == 1 and not record["usage"]["estimated"]
    assert any("rate limited" in note for note in record["notes"]) and record["seconds"]["PLAN"] < 2.5
    waited = [note for note in record["notes"] if note.startswith("waited ")]
    assert len(waited) == 1 and waited[0].endswith("s: claude is rate limited")
    assert "- waited for the agent: 1" in project.run("report", "-o", "-", "--format", "md").stdout


def test_a_wait_ends_when_a_person_asks_the_run_to_stop(
    fake: Callable[..., Fake], agents: Callable[..., Project]
) -> None:
    fake("claude").acts(always="rate 900")
    project = agents({"name": "claude"})
    project.climb("baseline")
    started = project.start("iterate")
    until(lambda: json.loads(project.run("status", "--json").stdout)["status"] == "waiting")
    assert started.poll() is None
    assert project.run("stop").exit_code == 0
    started.communicate(timeout=30)
    assert started.returncode == 0 and len(project.iterations()) == 1


def test_no_wait_outlasts_the_run_and_a_refused_key_ends_it(
    fake: Callable[..., Fake], agents: Callable[..., Project]
) -> None:
    fake("claude").acts(always="rate 900")
    project = agents({"name": "claude"}, limits={"time": "5m"})
    ended = project.run("iterate")
    assert ended.exit_code == 3 and "longer than this run goes on" in ended.stderr
    fake("claude").acts(always="auth")
    ended = project.run("iterate")
    assert ended.exit_code == 3 and "no provider accepts its key or login" in ended.stderr
    seen = json.loads(project.run("status", "--json").stdout)
    assert (seen["status"], seen["stop_reason"]) == ("blocked", "auth")
    fake("claude")
    assert project.climb()[-1]["iteration"] == 1, "nothing was lost"


def test_the_next_provider_makes_the_change_under_its_own_name_and_from_a_clean_tree(
    fake: Callable[..., Fake], agents: Callable[..., Project]
) -> None:
    fake("claude").acts(plan="crash", apply="run open('half.txt', 'w').close(); sys.exit(1)")
    fake("codex")
    project = agents({"name": "claude", "fallback": [{"name": "codex", "model": "large"}]}, price=[PRICE])
    record = project.climb()[-1]
    assert (record["outcome"], record["provider"], record["model"]) == ("kept", "codex", "large")
    assert record["dropped_files"] == [] and len(record["notes"]) == 2
    trailer = project.git("log", "-1", "--format=%(trailers:key=Goalseek-Provider,valueonly)", record["commit_hash"])
    assert trailer.strip() == "codex"
    assert record["usage"] == {
        "input_tokens": 140, "cached_tokens": 40, "output_tokens": 20, "cost_usd": 0.002, "estimated": True,
    }  # fmt: skip


PRICE = {"model": "large", "input": 10.0, "cached": 5.0, "output": 20.0}


def test_mini_swe_agent_is_refused_without_a_sandbox(fake: Callable[..., Fake], agents: Callable[..., Project]) -> None:
    mini = fake("mini-swe-agent")
    ended = agents({"name": "mini-swe-agent"}).run("iterate")
    assert ended.exit_code == 3 and "needs a sandbox" in ended.stderr and mini.calls == []


@pytest.fixture
def endpoint() -> Iterator[str]:
    """A server that refuses whatever it is asked: it answers, though."""

    class Refuse(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_error(401)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refuse) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join(timeout=20)
        assert not thread.is_alive()


def found(project: Project, *options: str) -> dict[str, tuple[bool, str]]:
    """What doctor says, by the beginning of the line."""
    lines = project.run("--json", "doctor", "--quick", *options).stdout.splitlines()
    return {f"{row['name']}: {row['text']}": (row["ok"], row["remedy"]) for row in map(json.loads, lines)}


def test_doctor_says_version_login_endpoint_and_what_a_night_costs(
    fake: Callable[..., Fake], agents: Callable[..., Project], monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    claude = fake("claude")
    project = agents({"name": "claude", "endpoint": endpoint}, "auto", limits={"time": "10h"})
    told = "\n".join(found(project))
    assert "provider: claude: claude 9.8.7; tried with 2.1" in told
    assert "login: claude: an API key: ANTHROPIC_API_KEY" in told
    assert f"endpoint: claude: {endpoint} answers" in told and "live" not in told and claude.calls == []
    project.climb()
    told = "\n".join(found(project, "--live"))
    assert "live: claude answers (100 tokens, $0.2500): " in told
    assert "provider: a night of 10h 00m, at the rate of the last 1: about " in told, told
    claude.acts(always="auth")
    rows = found(project, "--live")
    assert [ok for text, (ok, _) in rows.items() if text.startswith("live")] == [False]


def test_doctor_names_what_does_not_start_and_what_does_not_answer(
    fake: Callable[..., Fake], agents: Callable[..., Project]
) -> None:
    codex = fake("codex")
    codex.path.write_text("#!/bin/sh\necho no library >&2\nexit 127\n")
    project = agents({"name": "codex", "endpoint": "http://127.0.0.1:9"})
    rows = found(project)
    wrong = [text for text, (ok, _) in rows.items() if not ok]
    assert len(wrong) == 2 and "does not start: no library" in wrong[0] and "does not answer" in wrong[1], wrong
    assert any(text == "login: codex: no login was found" for text in rows)
