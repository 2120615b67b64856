"""What an agent prints or leaves behind can be anything: it is read as well as it can be, and never stops the run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from fake_agents import PROGRAMS, Fakes
from project import Projects
from test_presets import Asked

from goalseek.errors import GoalseekError, Rejected
from goalseek.humanize import format_duration
from goalseek.providers.answer import read_usage
from goalseek.providers.preset import Answer, Printed
from goalseek.providers.registry import load_maker
from goalseek.sandbox.home import AgentHome
from goalseek.values import Usage

HUGE = 10**400


def read(name: str, *rows: object, exit_code: int = 0) -> Answer:
    """What a preset reads of lines of JSON, whose text is not escaped."""
    known = load_maker(name)
    assert known
    stdout = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return known.read(Printed(exit_code, stdout, "", lambda path: ""))


def test_an_answer_may_hold_any_character_that_ends_a_line_elsewhere() -> None:
    text = "first\u2028second\x85third\x1c\x0cfourth"
    assert read("claude", {"type": "result", "result": text, "session_id": "s"}).text == text
    item = {"type": "item.completed", "item": {"type": "agent_message", "text": text}}
    assert read("codex", {"type": "thread.started", "thread_id": "t"}, item, {"type": "turn.completed"}).text == text
    assert read("opencode", {"type": "text", "sessionID": "s", "part": {"text": text}}).text == text


def test_what_gemini_tells_is_found_between_warnings() -> None:
    tokens = {"prompt": 90, "cached": 20, "candidates": 10, "tool": 5}
    told = json.dumps({"response": "done", "stats": {"models": {"m": {"tokens": tokens}}}}, indent=1)
    for before in ("", "Loaded\n", "{ half\n", '{"level": "warn"}\n'):
        answer = load_maker("gemini").read(Printed(0, f"{before}{told}\nbye\n", "", lambda path: ""))  # type: ignore[union-attr]
        assert (answer.text, answer.usage, answer.model) == ("done", Usage(75, 20, 10), "m"), before


@pytest.mark.parametrize("cost", [HUGE, -1, True, "1", float("nan"), float("inf"), 1e300])
def test_a_sum_that_nobody_pays_is_none(cost: object, tmp_path: Path) -> None:
    (tmp_path / "usage.json").write_text(json.dumps({"input_tokens": HUGE, "output_tokens": 7, "cost_usd": cost}))
    assert read_usage(tmp_path / "usage.json") == Usage(0, 0, 7)
    models = {"m": {"inputTokens": HUGE, "outputTokens": 7}}
    told = read("claude", {"type": "result", "result": "", "total_cost_usd": cost, "modelUsage": models})
    assert told.usage == Usage(0, 0, 7)
    part = {"tokens": {"input": HUGE, "output": 7}, "cost": cost}
    assert read("opencode", {"type": "step_finish", "sessionID": "s", "part": part}).usage == Usage(0, 0, 7)


def test_what_makes_a_reader_stumble_is_a_failure_of_the_agent(fake: Fakes, tmp_path: Path) -> None:
    fake("aider", always=f"say 'Tokens: 9 sent, {'9' * 400} cache hit'")
    with pytest.raises(Rejected, match="its answer cannot be read"):
        Asked(tmp_path, "aider").apply()


def test_a_reset_in_the_far_future_is_a_long_wait(fake: Fakes, tmp_path: Path) -> None:
    fake("claude", _0="rate 1e14")
    asked = Asked(tmp_path, "claude")
    asked.left = float("inf")
    asked.apply()
    ((seconds, _),) = asked.waits
    assert 10**9 <= seconds < 10**9 + 10 and format_duration(seconds)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_that_is_killed_in_the_middle_of_its_work_has_not_answered(fake: Fakes, tmp_path: Path, name: str) -> None:
    said = {
        "claude": {"type": "system", "session_id": "s"},
        "codex": {"type": "thread.started", "thread_id": "s"},
        "opencode": {"type": "step_start", "sessionID": "s"},
    }.get(name, {})
    fake(name, always=f"run print({json.dumps(said)!r}, flush=True); os.kill(os.getpid(), 9)")
    asked = Asked(tmp_path, name, confined=True, credentials=())
    asked.left = 0.0
    with pytest.raises(GoalseekError, match="gave no answer"):
        asked.apply()


@pytest.mark.slow
@pytest.mark.parametrize("put", ["os.mkfifo(place)", "place.mkdir()", "place.write_text('[' * 100_000)"])
def test_whatever_stands_in_the_place_of_a_login_the_run_goes_on(
    fake: Fakes, make_project: Projects, isolated: Path, put: str
) -> None:
    real = isolated / ".claude" / ".credentials.json"
    real.parent.mkdir()
    real.write_text('{"claudeAiOauth": {"refreshToken": "planted-refresh-token-0123456789"}}')
    os.utime(real, (4e9, 4e9))  # so that what is put there is older
    edit = 'open("answer.json", "w").write(\'{"score": 2}\')'
    fake("claude", edit, always=f"run place = Path(home, '.claude/.credentials.json'); place.unlink(); {put}")
    project = make_project(manifest={"provider": {"name": "claude"}})
    started = project.start("iterate")
    try:
        _, said = started.communicate(timeout=60)
    finally:
        started.kill()
        started.communicate(timeout=120)
    assert (started.returncode, project.iterations()[-1]["outcome"]) == (0, "kept"), said
    assert "planted" in real.read_text()


def test_a_report_of_usage_without_an_end_is_none(tmp_path: Path) -> None:
    place = tmp_path / "usage.json"
    place.write_text('{"input_tokens": 7}')
    assert read_usage(place) == Usage(7)
    os.truncate(place, 2**40)
    assert read_usage(place) == Usage()


def test_a_file_of_home_without_an_end_is_not_read_into_memory(own: Path) -> None:
    home = AgentHome(own / "agent")
    home.make("1", {}, {"small": "text"})
    with (home.path / "endless").open("wb") as file:
        os.truncate(file.fileno(), 2**40)
    assert home.read("small") == b"text"
    with pytest.raises(OSError, match="File too large"):
        home.read("endless")


def test_of_the_files_of_home_that_match_the_newest_is_read_and_no_link(own: Path) -> None:
    home = AgentHome(own / "agent")
    home.make("1", {}, {"sessions/a/1.jsonl": "old", "sessions/b/2.jsonl": "new"})
    os.utime(home.path / "sessions/a/1.jsonl", (1, 1))
    assert home.read("sessions/*/*.jsonl") == home.read("sessions/**/*.jsonl") == b"new"
    (home.path / "sessions" / "3.jsonl").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic links"):
        home.read("sessions/3.*")


def test_a_file_of_home_from_before_this_call_is_not_read_as_its_own(own: Path) -> None:
    home = AgentHome(own / "agent")
    home.make("1", {}, {"sessions/1.jsonl": "of the call before"})
    os.utime(home.path / "sessions/1.jsonl", (1, 1))
    home.make("1", {}, {})
    with pytest.raises(FileNotFoundError):
        home.read("sessions/*.jsonl")
    with pytest.raises(FileNotFoundError):
        home.read("sessions/1.jsonl")


def test_a_long_tool_output_hides_neither_usage_nor_answer(own: Path) -> None:
    home = AgentHome(own / "agent")
    home.make("1", {}, {})
    outputs = [{"extra": {"raw_output": "x" * 35_000_000, "returncode": 0}}] * 2
    answer = {"role": "assistant", "content": "done", "extra": {"response": {"usage": {"prompt_tokens": 70}}}}
    trajectory = {"info": {"exit_status": "Submitted", "submission": "a title"}, "messages": [*outputs, answer]}
    (home.path / "trajectory.json").write_text(json.dumps(trajectory, indent=2))
    read_answer = load_maker("mini-swe-agent").read  # type: ignore[union-attr]
    answered = read_answer(Printed(0, "", "", lambda path: home.read(path).decode()))
    assert (answered.text, answered.usage.tokens, answered.trouble) == ("done\na title", 70, None)
