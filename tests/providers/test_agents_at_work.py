"""Agents in whole runs: HOME, login and sessions, what they must not leave behind, and who is waited for."""

import json
import signal
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from fake_agents import ADDING, APPROVES, ASKS, EDIT, SCORES, SCORING, Fake, Fakes
from moved_clock import MovedClock
from project import Project, Projects, everything_written, until
from reviewing import tokens
from skips import levels
from test_providers import JUDGE, KNOB

import goalseek

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


KNOBS = {"knobs.txt": KNOB(1), "hidden/judge.sh": JUDGE}
STRAYS = "run open('other.txt', 'w').close()"
RESUMING = {"--resume", "resume", "--session"}


@pytest.fixture
def agents(make_project: Projects) -> Projects:
    """Makes a project with this provider, and other tables; its first file is what candidates may change."""

    def make(provider: dict[str, Any], sandbox: str = "none", files: dict[str, str] = KNOBS, **tables: Any) -> Project:
        scope = {"writable": [next(iter(files))], "hidden": ["hidden/**"]}
        manifest = {"scope": scope, "provider": provider, "sandbox": {"mode": sandbox}, **tables}
        return make_project(files=files, manifest=manifest)

    return make


@pytest.fixture
def scorers(agents: Projects) -> Projects:
    """The same for agents whose edit is a score."""
    return partial(agents, files=SCORES)


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
    fake: Fakes, agents: Projects, isolated: Path, level: str
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


@pytest.mark.parametrize("name", ["claude", pytest.param("mini-swe-agent", marks=pytest.mark.needs("bwrap"))])
def test_a_credential_never_enters_a_record_a_log_a_prompt_or_a_commit(
    fake: Fakes, agents: Projects, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    made = fake(name, apply=f"say {EDIT!r} and exec(EDIT) or 'my key is ' + environment['ANTHROPIC_API_KEY']")
    project = agents({"name": name}, "auto" if name == "mini-swe-agent" else "none")
    first = project.run("-v", "iterate")
    made.acts(edit="open('knobs.txt', 'w').write(environment['ANTHROPIC_API_KEY'])")
    second = project.run("--json", "iterate")
    records = project.iterations()
    assert first.exit_code == second.exit_code == 0
    assert (records[1]["outcome"], records[2]["reason"]) == ("kept", "out_of_scope"), records[2]["why"]
    assert "knobs.txt holds a credential" in records[2]["why"]
    assert "[credential]" in (project.run_folder(1) / "provider_output.md").read_text()
    printed = [first.stdout, first.stderr, second.stdout, second.stderr]
    assert not [text for text in printed if KEY in text]
    assert not [place for place, content in everything_written(project) if KEY.encode() in content]


def test_a_key_that_an_agent_or_a_reviewer_wrote_into_its_home_is_gone_with_the_record(
    fake: Fakes, scorers: Projects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    snapshot = (
        "[open(place, 'w').write(repr(environment)) for place in (home + '/snapshot', os.environ['GOALSEEK_USAGE'])]"
    )
    claude, codex = fake("claude"), fake("codex")
    claude.acts(always=f"run {snapshot}", edit=SCORING)
    codex.acts(review=f"{APPROVES} if {snapshot} else ''")
    table = {"name": "claude", "timeout": "2s"}
    project = scorers(table, review={"provider": "codex", "criteria": ["It is short."]})
    assert project.climb()[-1]["outcome"] == "kept"
    assert "snapshot" in claude.calls[1]["home"], "APPLY had the HOME of PLAN"
    assert not [place for place, content in everything_written(project) if KEY.encode() in content]
    row = {"type": "assistant", "message": {"id": "m", "usage": {"input_tokens": 70, "output_tokens": 10}}}
    hang = f"print(json.dumps({row!r}), flush=True); time.sleep(60)"
    claude.acts(plan=f"run {snapshot}", apply=f"run {snapshot}; {hang}", edit=SCORING)
    assert project.climb()[-1]["reason"] == "provider_timeout"
    assert not [place for place, content in everything_written(project) if KEY.encode() in content]
    assert not (project.trees() / "agent" / "home").exists() and not (project.trees() / "reviewer" / "home").exists()
    claude.acts(always=f"say {snapshot} and 'ready'")
    project.run("doctor", "--live")
    assert not [place for place, content in everything_written(project) if KEY.encode() in content]


@pytest.mark.parametrize("options", [("--for", "5s"), ()])
def test_a_key_in_the_home_of_an_agent_that_was_ended_is_gone_and_its_session_stays(
    fake: Fakes, agents: Projects, monkeypatch: pytest.MonkeyPatch, isolated: Path, options: tuple[str, ...]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    codex, begun = fake("codex"), isolated / "begun"
    leak = "[open(os.path.join(home, name), 'wb').write(sign + environment['OPENAI_API_KEY'].encode()) "
    leak += "for name, sign in (('shell.sh', b'export KEY='), ('logs.sqlite', b'SQLite\\0'))]"
    codex.acts(plan=f"run {leak}", apply=f"run {leak}; open({str(begun)!r}, 'w'); time.sleep(60)")
    project = agents({"name": "codex"})
    project.climb("baseline")
    process = project.start("iterate", *options)
    if not options:
        until(begun.exists)
        process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert not [place for place, content in everything_written(project) if KEY.encode() in content]
    home = project.trees() / "agent" / "home"
    assert (home / "shell.sh").read_bytes() == b"export KEY=[credential]" and not (home / "logs.sqlite").exists()
    assert [*(home / "sessions").iterdir()], "what a later process resumes"


def test_a_rate_limit_shows_its_end_and_costs_no_iteration_and_no_failure(fake: Fakes, agents: Projects) -> None:
    fake("claude").acts(_0="rate 4")
    project = agents({"name": "claude"})
    project.climb("baseline")
    started = project.start("iterate")
    seen = until(lambda: (state := json.loads(project.run("status", "--json").stdout))["status"] == "waiting" and state)
    _, said = started.communicate(timeout=120)
    assert started.returncode == 0 and "claude is rate limited; next try at 20" in said
    assert "rate limited; next try at" in seen["next"], seen
    _, record = project.iterations()
    assert record["outcome"] == "kept" and record["iteration"] == 1 and not record["usage"]["estimated"]
    assert any("rate limited" in note for note in record["notes"]) and record["seconds"]["PLAN"] < 4.5, (
        "a wait is no work"
    )
    waited = [note for note in record["notes"] if note.startswith("waited ")]
    assert len(waited) == 1 and waited[0].endswith("s: claude is rate limited")
    assert "- waited for the agent: 1" in project.run("report", "-o", "-", "--format", "md").stdout


def test_a_wait_ends_with_the_run_or_when_a_person_asks_and_a_refused_key_ends_the_run(
    fake: Fakes, agents: Projects
) -> None:
    fake("claude").acts(always="rate 900")
    project = agents({"name": "claude"})
    ended = project.run("iterate", "--for", "5m")
    assert ended.exit_code == 3 and "after the end of this run" in ended.stderr
    started = project.start("iterate")
    until(lambda: json.loads(project.run("status", "--json").stdout)["status"] == "waiting")
    assert started.poll() is None
    assert project.run("stop").exit_code == 0
    started.communicate(timeout=30)
    assert started.returncode == 0 and len(project.iterations()) == 1
    fake("claude").acts(always="auth")
    ended = project.run("iterate")
    assert ended.exit_code == 3 and "no provider accepts its key or login" in ended.stderr
    seen = json.loads(project.run("status", "--json").stdout)
    assert (seen["status"], seen["stop_reason"]) == ("blocked", "auth")
    fake("claude")
    assert project.climb()[-1]["iteration"] == 1, "nothing was lost"


def test_the_next_provider_edits_a_clean_tree_under_its_own_name(fake: Fakes, agents: Projects) -> None:
    fake("claude").acts(apply="run open('half.txt', 'w').close(); sys.exit(1)")
    fake("codex")
    table = {"name": "claude", "credentials": [], "fallback": [{"name": "codex", "model": "large"}]}
    project = agents(table, price=[PRICE])
    record = project.climb()[-1]
    assert (record["outcome"], record["provider"], record["model"]) == ("kept", "codex", "large")
    assert record["dropped_files"] == []
    notes = [note for note in record["notes"] if note.startswith("in APPLY_CHANGE claude gave no answer")]
    assert len(notes) == 1 and notes[0].endswith("; goalseek asks codex"), "claude is closed, so it is not tried again"
    trailer = project.git("log", "-1", "--format=%(trailers:key=Goalseek-Provider,valueonly)", record["commit_hash"])
    assert trailer.strip() == "codex"
    assert record["usage"] == {
        "input_tokens": 140, "cached_tokens": 40, "output_tokens": 20, "cost_usd": 0.251, "estimated": True,
    }  # fmt: skip


PRICE = {"model": "large", "input": 10.0, "cached": 5.0, "output": 20.0}


def test_a_night_with_a_limit_an_outage_and_a_revoked_key_loses_no_iteration(
    fake: Fakes, scorers: Projects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The climb runs in this process, on a clock that its waits move."""
    fake("claude", SCORING, _1="rate 7200"), fake("codex", SCORING, _1="transient", _4="auth")
    fallback = [{"name": "codex", "credentials": []}]
    project = scorers({"name": "claude", "credentials": [], "fallback": fallback})
    clock = MovedClock(monkeypatch, lambda: project.state()["status"])
    list(goalseek.iterate(goalseek.load(project.manifest), iterations=3))
    records = project.iterations()[1:]
    told = [(record["iteration"], record["outcome"], record["provider"]) for record in records]
    assert told == [(1, "kept", "codex"), (2, "kept", "codex"), (3, "kept", "claude")]
    assert 7200 <= clock.moved < 7500 and "waiting" in clock.seen
    assert sum(map(tokens, records)) == 600, "each answer is charged once, and a refusal is none"
    assert sum(sum(record["seconds"].values()) for record in records) < 500, "waits are no work"
    assert any(note.startswith("waited 2h") or note.startswith("waited 1h") for note in records[2]["notes"])


def test_one_that_hangs_is_charged_as_usual_and_the_next_one_answers(fake: Fakes, scorers: Projects) -> None:
    fake("claude", SCORING, _3="do time.sleep(60)"), fake("codex", SCORING)
    fallback = [{"name": "codex", "credentials": []}]
    project = scorers({"name": "claude", "credentials": [], "timeout": "5s", "fallback": fallback})
    first, second = project.climb("iterate", "-n", "2")[1:]
    assert [(record["outcome"], record["provider"]) for record in (first, second)] == [
        ("kept", "claude"),
        ("kept", "codex"),
    ]
    assert (tokens(first), tokens(second), second["usage"]["estimated"]) == (200, 300, True)


@pytest.fixture
def endpoint() -> Iterator[str]:
    """A server that knows no method: it answers, though."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
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
    fake: Fakes, agents: Projects, monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    claude = fake("claude")
    project = agents({"name": "claude", "endpoint": endpoint}, "auto", limits={"time": "10h"})
    told = "\n".join(found(project))
    assert "provider: claude: claude 9.8.7; tried with 2.1" in told
    assert "login: claude: an API key: ANTHROPIC_API_KEY" in told
    assert f"endpoint: claude: {endpoint} answers" in told and "live" not in told and claude.calls == []
    assert "sandbox: no agent searches the web" in told
    project.climb()
    assert not [call for call in claude.calls if "WebSearch,WebFetch" in call["argv"]]
    told = "\n".join(found(project, "--live"))
    assert "live: claude answers (100 tokens, $0.2500): " in told
    assert "provider: a night of 10h 00m, at the rate of the last 1: about " in told, told
    claude.acts(always="auth")
    rows = found(project, "--live")
    assert [ok for text, (ok, _) in rows.items() if text.startswith("live")] == [False]
    claude.acts(always="crash")
    rows = found(project, "--live")
    assert [remedy for text, (_, remedy) in rows.items() if "gave no answer" in text] == [
        "correct its model, its key or its endpoint: a run without any answer ends by this"
    ]
    claude.acts()
    project.manifest.write_text(project.manifest.read_text().replace("[sandbox]", "[sandbox]\nagent_search = true"))
    assert "sandbox: agents may search the web through their service" in "\n".join(found(project))
    project.climb()
    assert not [call for call in claude.calls if "WebSearch,WebFetch" not in call["argv"]]


def test_doctor_names_what_does_not_start_or_answer_and_a_login_that_is_missing_unless_none_is_needed(
    fake: Fakes, agents: Projects
) -> None:
    codex = fake("codex")
    project = agents({"name": "codex"})
    ok, remedy = found(project)["login: codex: no login was found"]
    assert not ok and "CODEX_API_KEY" in remedy and "credentials = []" in remedy
    assert project.run("doctor", "--quick").exit_code == 1
    none_is_needed = "login: codex: no login was found, and none is expected"
    project.set_manifest({"provider": {"name": "codex", "credentials": []}})
    assert found(project)[none_is_needed] == (True, "")
    codex.path.write_text("#!/bin/sh\necho no library >&2\nexit 127\n")
    project.set_manifest({"provider": {"name": "codex", "endpoint": "http://127.0.0.1:9"}})
    rows = found(project)
    wrong = [text for text, (ok, _) in rows.items() if not ok and text.startswith(("provider", "endpoint"))]
    assert len(wrong) == 2 and "does not start: no library" in wrong[0] and "does not answer" in wrong[1], wrong
    assert rows[none_is_needed] == (True, "")


@pytest.mark.needs("bwrap")
def test_doctor_finds_the_version_among_other_lines(fake: Fakes, agents: Projects) -> None:
    fake("mini-swe-agent")
    rows = found(agents({"name": "mini-swe-agent"}, "auto"))
    shown = "provider: mini-swe-agent: This is mini-swe-agent version 9.8.7.; tried with 2.4.6"
    assert rows[shown][0], rows


def calls(made: Fake) -> list[tuple[str, bool]]:
    """The phase of each call, and whether it went on with a session."""
    return [(call["phase"], bool(RESUMING & set(call["argv"]))) for call in made.calls]


@pytest.mark.parametrize("sandbox", levels("none", "bubblewrap"))
def test_a_repair_goes_on_with_its_session(fake: Fakes, scorers: Projects, sandbox: str) -> None:
    made = fake("claude", f"{SCORING}text += '\\ntried: 2 against 1' * (phase == 'apply')\n", apply=STRAYS)
    project = scorers({"name": "claude"}, sandbox)
    record = project.climb()[-1]
    assert (record["outcome"], record["metric"]["value"]) == ("kept", 3), record["why"]
    assert record["tried"] == "2 against 1", "a repair that says nothing of it leaves what the first attempt saw"
    asked = calls(made)  # in the sandbox nobody outside sees its log
    assert asked == ([] if sandbox == "bubblewrap" else [("plan", False), ("apply", True), ("repair", True)])
    assert not (project.trees() / "agent" / "home" / "sessions").exists(), "nothing of it stays"
    (attempt,) = record["attempts"]
    assert (attempt["reason"], tokens(attempt), tokens(record), record["notes"]) == ("out_of_scope", 100, 300, [])
    told = (project.run_folder(1) / "prompts" / "repair.md").read_text()
    assert "other.txt is outside scope.writable" in told and told.startswith("Your change was not accepted.")
    prompts = [(project.run_folder(1) / "prompts" / f"{phase}.md").read_text() for phase in ("plan", "apply", "repair")]
    assert prompts[1].startswith('Now make the change that you planned: "a higher rate".')
    assert [len(prompt) < 2000 for prompt in prompts] == [False, True, True], "a session has the rest already"
    sent = [call["prompt"] for call in made.calls] or prompts
    assert sent == prompts, "what is shown is what was sent"


SAYS_NO_PLAN = 'say "<<<GOALSEEK PLAN " + nonce + "\\n\\nGOALSEEK PLAN " + nonce + ">>>"'


@pytest.mark.parametrize("name", ["claude", "aider"])
def test_a_plan_that_cannot_be_used_is_asked_for_again_in_its_session_or_with_the_answer(
    fake: Fakes, scorers: Projects, name: str
) -> None:
    made = fake(name, SCORING, _0=SAYS_NO_PLAN)
    project = scorers({"name": name})
    record = project.climb()[-1]
    has_session = name == "claude"
    assert calls(made) == [("plan", False), ("plan", has_session), ("apply", has_session)]
    assert record["outcome"] == "kept" and record["hypothesis_summary"] == "a higher rate"
    again = (project.run_folder(1) / "prompts" / "plan-2.md").read_text()
    assert made.calls[1]["prompt"] == again and "the plan block of the answer has no title" in again
    assert (len(again) < 500) == has_session and ("That answer, or its end:" in again) != has_session
    first = made.calls[0]["prompt"]  # aider sends each file that is named
    assert ("- answer.json (" in first) == has_session and "# Files in this folder" in first


@pytest.mark.parametrize("lost", [False, True])
def test_another_providers_plan_and_a_lost_session_are_told_in_full(fake: Fakes, scorers: Projects, lost: bool) -> None:
    loses = {"_0": "run __import__('atexit').register(__import__('shutil').rmtree, home + '/sessions')"} if lost else {}
    planner, editor = fake("codex"), fake("claude", SCORING, **loses)
    provider = {"name": "claude"} if lost else {"name": "claude", "plan": {"name": "codex"}}
    project = scorers({**provider, "record": "recordings"})
    record = project.climb()[-1]
    assert record["outcome"] == "kept", record["why"]
    assert [phase for phase, _ in calls(planner)] == ([] if lost else ["plan"])
    sent = editor.calls[-1]["prompt"]
    assert sent.startswith("You make one change") and "because" in sent and "# Your task: make this change" in sent
    assert (project.run_folder(1) / "prompts" / "apply.md").read_text() == sent, "not the short one"
    assert json.loads((project.folder / "recordings" / "0001-apply.json").read_text())["prompt"] == sent


def test_what_a_review_asks_for_goes_back_into_the_authors_session(fake: Fakes, scorers: Projects) -> None:
    made, other = fake("claude", SCORING), fake("codex", SCORING, _0=ASKS, always=APPROVES)
    record = scorers({"name": "claude"}, review={"provider": "codex", "criteria": ["It is short."]}).climb()[-1]
    assert (record["outcome"], record["metric"]["value"]) == ("kept", 3), record["why"]
    assert calls(made) == [("plan", False), ("apply", True), ("repair", True)]
    assert calls(other) == [("review", False), ("review", False)], "a reviewer looks afresh"
    assert "why not" in made.calls[-1]["prompt"]
    (attempt,) = record["attempts"]
    assert (tokens(attempt), tokens(record)) == (200, 500)


@pytest.mark.parametrize("role", ["author", "reviewer"])
def test_a_login_that_was_renewed_before_a_kill_is_put_back_from_whose_home_it_was(
    fake: Fakes, scorers: Projects, isolated: Path, role: str
) -> None:
    file, place = log_in(isolated), isolated / "waiting"
    waits = f"{RENEW}\nopen({str(place)!r}, 'w').close()\ntime.sleep(60)"
    made, other = fake("claude", SCORING, always=f"run {waits}"), fake("codex", SCORING)
    author, reviewer = (made, other) if role == "author" else (other, made)
    review = {"provider": reviewer.name, "criteria": ["It is short."]}
    project = scorers({"name": author.name}, review=review)
    project.climb("baseline")
    project.kill_when(place, "iterate", "-n", "1")
    assert json.loads(file.read_text())["claudeAiOauth"]["refreshToken"] == SECRET
    assert "restored a login" in project.run("baseline").stderr
    assert json.loads(file.read_text())["claudeAiOauth"]["refreshToken"] == SECRET + "+"


@pytest.mark.parametrize("phase", ["apply", "repair"])
def test_after_a_kill_a_session_begins_anew_and_is_charged_once(fake: Fakes, scorers: Projects, phase: str) -> None:
    made = fake("claude", SCORING)
    project = scorers({"name": "claude"})
    project.climb()
    strays = {"apply": STRAYS} if phase == "repair" else {}
    place = project.folder.parent / "waiting"
    waits = f"run STORED.write_text('9'); open({str(place)!r}, 'w').close(); time.sleep(60)"
    made.acts(SCORING, **strays, **{phase: waits})
    project.kill_when(place, "iterate", "-n", "1")
    before = calls(made)
    made.acts(SCORING, **strays)
    record = project.climb("iterate", "-n", "1")[-1]
    assert record["outcome"] == "kept", record["why"]
    assert before[-1] == (phase, True) and calls(made) == [(phase, False)]
    killed = 100
    assert (tokens(record), record["usage"]["estimated"]) == (100 * len(before) + killed, True)
    assert record["usage"]["cost_usd"] == pytest.approx(0.25 * len(before) + 0.25)


def test_an_answer_of_megabytes_and_usage_between_megabytes_are_read_and_stored_output_is_cut(
    fake: Fakes, scorers: Projects
) -> None:
    row = {"type": "step_finish", "part": {"tokens": {"input": 1000}}}
    filler = 'print(json.dumps({"type": "tool", "text": "x" * 3_000_000}))'
    prints = f"run {filler}; print(json.dumps({row!r})); {filler}; "
    fake("opencode", SCORING, apply=f"{prints}text = ''")
    project = scorers({"name": "opencode"})
    record = project.climb()[-1]
    assert (record["outcome"], tokens(record)) == ("kept", 1200), record["why"]
    fake("opencode", SCORING, apply=f"{prints}{filler}; {filler}; sys.stdout.flush(); os.kill(os.getpid(), 9)")
    assert project.climb()[-1]["reason"] == "provider_failed"
    assert (project.run_folder(2) / "provider_output.md").stat().st_size < 7_000_000
    fake("claude", SCORING, apply="say exec(EDIT) or 'x' * 12_000_000")
    record = project.climb("iterate", "--provider", "claude")[-1]
    assert (record["outcome"], tokens(record)) == ("kept", 200), record["why"]


CUT = "do exec(EDIT); act, detail = {}"  # it has edited, and then its service is gone


HALF, PLANNED, APPLIED, REPAIRED = CUT.format("'half', ''"), ("plan", False), ("apply", True), ("repair", True)
CUTS: dict[str, tuple[dict[str, str], list[tuple[str, bool]], int, list[str]]] = {
    # what it does, its calls, the score, and what each of them is told of its edits
    "in its change, twice": (
        {"_1": HALF, "_2": CUT.format("'spent', '0'")},
        [PLANNED, APPLIED, APPLIED, APPLIED],
        4,
        ["", "", "Your edits are in the folder", "Your edits are in the folder"],
    ),
    "in a repair": (
        {"apply": STRAYS, "_2": HALF},
        [PLANNED, APPLIED, REPAIRED, REPAIRED],
        4,
        ["", "", "", "Your edits are in the folder"],
    ),
    "with its session": (
        {"_1": "do exec(EDIT); act = 'half'; STORED.unlink(); STORED = Path(home, 'sessions/lost')"},
        [PLANNED, APPLIED, APPLIED, ("apply", False)],
        2,
        ["", "", "Your edits are in the folder", "An earlier turn"],
    ),
    "with a credential": (
        {"_1": "do open('answer.json', 'w').write(environment['ANTHROPIC_API_KEY']); act, detail = 'half', ''"},
        [PLANNED, APPLIED, APPLIED],
        2,
        ["", "", "last turn was cut off, and its edits were undone"],
    ),
}


@pytest.mark.parametrize("case", CUTS)
def test_one_that_is_cut_off_goes_on_with_its_edits_unless_they_must_be_undone(
    fake: Fakes, scorers: Projects, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    acts, asked, score, told = CUTS[case]
    made = fake("claude", ADDING, **acts)
    project = scorers({"name": "claude"})
    record = project.climb()[-1]
    assert (record["iteration"], record["outcome"], record["metric"]["value"]) == (1, "kept", score), record["why"]
    assert calls(made) == asked
    prompts = [call["prompt"] for call in made.calls]
    told_of = ("Your edits are in the folder", "last turn was cut off, and its edits were undone", "An earlier turn")
    assert ["".join(text for text in told_of if text in prompt) for prompt in prompts] == told
    assert not [place for place, content in everything_written(project) if KEY.encode() in content]
    if case == "in its change, twice":
        assert tokens(record) == 400 and not record["usage"]["estimated"], "each is charged once"
        assert "Now make the change" in prompts[1] and "Now make" not in prompts[2]
        assert '"a higher rate"' in prompts[2] and all(len(prompt) < 300 for prompt in prompts[2:])


def test_edits_of_one_that_is_cut_off_outlive_a_kill(fake: Fakes, scorers: Projects) -> None:
    made = fake("claude", ADDING, _1=CUT.format("'spent', '900'"))
    project = scorers({"name": "claude"})
    started = project.start("iterate")
    until(lambda: json.loads(project.run("status", "--json").stdout)["status"] == "waiting")
    started.kill()
    started.communicate(timeout=30)
    before = made.calls
    made.acts(ADDING)
    project.climb()
    assert calls(made) == [("apply", True)] and "Your edits are in the folder" in made.calls[0]["prompt"]
    record = project.iterations()[-1]
    assert (record["iteration"], record["metric"]["value"]) == (1, 3), record["why"]
    assert tokens(record) == 100 * (len(before) + 1) and not record["usage"]["estimated"]


def test_the_next_provider_never_sees_the_edits_of_one_that_is_cut_off(fake: Fakes, scorers: Projects) -> None:
    codex = fake("codex", ADDING, _1=CUT.format("'rate', ''"))
    claude = fake("claude", ADDING, _0=CUT.format("'half', ''"))
    project = scorers({"name": "codex", "fallback": ["claude"]})
    record = project.climb()[-1]
    assert (record["outcome"], record["provider"], record["metric"]["value"]) == ("kept", "claude", 3), record["why"]
    assert len(codex.calls) == 2 and calls(claude) == [("apply", False), ("apply", True)]
    told = ["Your edits are in the folder" in call["prompt"] for call in claude.calls]
    assert told == [False, True] and tokens(record) == 300


WAITS = {
    "codex": """print('{"type":"error","message":"Reconnecting... 1/4 (last status: 429)"}', flush=True)""",
    "opencode": """print('level=ERROR message="stream error"\\nlevel=ERROR', file=sys.stderr, flush=True)""",
}


@pytest.mark.parametrize("name", WAITS)
def test_one_that_says_that_it_waits_and_then_nothing_is_not_waited_for(
    fake: Fakes, scorers: Projects, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("goalseek.proposal.call.SILENT_SECONDS", 0.5)
    fake(name, ADDING, _1=f"do exec(EDIT); {WAITS[name]}; time.sleep(60)")
    fake("claude", ADDING, _0="run print('{}', flush=True); time.sleep(1)")
    project = scorers({"name": name, "credentials": [], "fallback": ["claude"]})
    list(goalseek.iterate(goalseek.load(project.manifest), iterations=1))
    record = project.iterations()[-1]
    assert (record["provider"], record["metric"]["value"]) == ("claude", 2), record["why"]
    assert any(
        f"{name} is rate limited ({name}: it waits for its model in silence); goalseek asks claude" in note
        for note in record["notes"]
    )
    assert tokens(record) == 200 and not record["usage"]["estimated"]
