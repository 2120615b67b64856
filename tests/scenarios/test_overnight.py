"""An overnight rehearsal: the model server rate-limits, dies, refuses a key, hangs, and comes back; the climb goes on."""

import json
import os
from pathlib import Path

import pytest
from fake_agents import first_line
from model_server import stand_in
from model_server.asked import Asked
from model_server.moves import Cut, Die, Edit, Hang, Move, Refuse, Tokens, plan
from model_server.server import ModelServer
from project import Projects, answer
from reviewing import tokens

NIGHT = 32
TOKENS = Tokens(fresh=1000, cached=400, output=200)
WHOLE = TOKENS.fresh + TOKENS.cached + TOKENS.output
DOLLARS = (1000 * 3 + 400 * 0.3 + 200 * 15) / 1e6
FIRST, SECOND = "sk-first-key", "sk-second-key"
EVENING, MORNING = "evening", "morning"
TROUBLES: dict[tuple[str, int], Move] = {
    (EVENING, 11): Refuse(429, retry_after=1),
    (EVENING, 12): Refuse(429, retry_after=1),
    (EVENING, 21): Die(seconds=1.0),
    (EVENING, 26): Refuse(529),
    (EVENING, 29): Cut(),
    (MORNING, 5): Refuse(429, retry_after=1, is_spent=True),
    (MORNING, 27): Hang(),
}
REVOKED = 28
"""The question of the evening from which on the first key is not accepted."""


class Night:
    """Answers a question by its number: a trouble, else a plan or the next better score."""

    def __init__(self) -> None:
        self.part = EVENING
        self.questions = 0
        self.score = 1

    def begin_morning(self) -> None:
        self.part, self.questions = MORNING, 0

    def __call__(self, asked: Asked) -> Move:
        self.questions += 1
        if self.part == EVENING and self.questions >= REVOKED and asked.key == FIRST:
            return Refuse(401)
        if trouble := TROUBLES.get((self.part, self.questions)):
            return trouble
        if "Write" not in asked.tools:
            made = plan(f"a score of {self.score + 1}", "answer.json")
            return Edit(text=made.text, tokens=TOKENS)
        self.score += 1
        return Edit({"answer.json": answer(self.score)}, text="done", tokens=TOKENS)


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_a_night_goes_on_past_every_trouble(
    make_project: Projects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "claude").write_text(f"{first_line()}\n{Path(stand_in.__file__).read_text()}")
    (programs / "claude").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ANTHROPIC_API_KEY", FIRST)
    night = Night()
    with ModelServer(otherwise=night) as server:
        other = ["sh", "-c", f"ANTHROPIC_API_KEY={SECOND} ANTHROPIC_BASE_URL={server.url} exec claude"]
        provider = {
            "name": "claude",
            "model": "stand-in",
            "endpoint": server.url,
            "timeout": "5s",
            "fallback": [{"name": "command", "command": other}],
        }
        tables = {"provider": provider, "limits": {"iterations": NIGHT}, "sandbox": {"mode": "bubblewrap"}}
        project = make_project(manifest=tables)
        evening = project.start("iterate", "-n", str(NIGHT // 2))  # a process of its own: its pauses are the real ones
        _, said = evening.communicate(timeout=900)
        assert evening.returncode == 0, said
        night.begin_morning()
        morning = project.start("--json", "iterate", "--forever")
        printed, said = morning.communicate(timeout=900)
        last = json.loads(printed.splitlines()[-1])
        assert (morning.returncode, last["stop_reason"]) == (0, "iterations"), (last, said)

        _, *records = project.iterations()
        assert [record["iteration"] for record in records] == list(range(1, NIGHT + 1))
        outcomes = [(record["outcome"], record["reason"]) for record in records]
        assert set(outcomes) == {("kept", "better")}, "where one hangs or is refused, the other one answers"
        by_second = [record["iteration"] for record in records if record["provider"] == "command"]
        assert by_second[0] < NIGHT // 2 and by_second[-1] == NIGHT, "after a refusal, and after a hang"
        assert records[NIGHT // 2]["provider"] == "claude", "the same command asks the first again"

        assert {"refuse", "die", "cut", "hang"} <= set(server.done())
        answered = [seen for seen in server.seen if seen.done in ("call", "answer")]
        assert {seen.asked.key for seen in answered} == {FIRST, SECOND}
        total = sum(map(tokens, records))
        hung = WHOLE * 3 // 2  # the usual call: of an iteration's three answers, PLAN takes one and APPLY two
        assert total == len(answered) * WHOLE + hung, "what the server answered, and nothing twice"
        assert sum(record["usage"]["estimated"] for record in records) == 1
        assert sum(record["usage"]["cost_usd"] for record in records) == pytest.approx(total / WHOLE * DOLLARS)
        status = json.loads(project.run("--json", "status").stdout)
        assert status["spend"]["usage"]["cost_usd"] == pytest.approx(total / WHOLE * DOLLARS)
        project.check("audit")
