"""An overnight rehearsal: the model server rate-limits, dies, refuses a key, hangs, and comes back; the climb goes on."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from fake_agents import first_line
from model_server import stand_in
from model_server.asked import Asked
from model_server.moves import Cut, Die, Edit, Hang, Move, Refuse, Tokens, plan
from model_server.server import ModelServer
from project import Projects, answer, ended
from reviewing import tokens

NIGHT = 50
TOKENS = Tokens(fresh=1000, cached=400, output=200)
WHOLE = TOKENS.fresh + TOKENS.cached + TOKENS.output
DOLLARS = (1000 * 3 + 400 * 0.3 + 200 * 15) / 1e6
FIRST, SECOND = "sk-first-key", "sk-second-key"
TROUBLES: dict[int, Move] = {
    11: Refuse(429, retry_after=1),
    12: Refuse(429, retry_after=1),
    21: Die(seconds=1.0),
    31: Refuse(529),
    41: Cut(),
    72: Refuse(429, retry_after=1, is_spent=True),
    81: Hang(),
}
REFUSED = range(51, 60)
"""The questions of the night for which the first key is not accepted."""


class Night:
    """Answers a question by its number: a trouble, else a plan or the next better score."""

    def __init__(self) -> None:
        self.questions = 0
        self.score = 1

    def __call__(self, asked: Asked) -> Move:
        self.questions += 1
        if self.questions in REFUSED and asked.key == FIRST:
            return Refuse(401)
        if self.questions in TROUBLES:
            return TROUBLES[self.questions]
        if not asked.tools:
            made = plan(f"a score of {self.score + 1}", "answer.json")
            return Edit(text=made.text, tokens=TOKENS)
        self.score += 1
        return Edit({"answer.json": answer(self.score)}, text="done", tokens=TOKENS)


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_a_night_of_fifty_iterations_goes_on_past_every_trouble(
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
        told = ended(("--json", "iterate", "--forever"), project.folder, seconds=900)
        last = json.loads(told.stdout.splitlines()[-1])
        assert (told.exit_code, last["stop_reason"]) == (0, "iterations"), (last, told.stderr)

        _, *records = project.iterations()
        assert [record["iteration"] for record in records] == list(range(1, NIGHT + 1))
        outcomes = [(record["outcome"], record["reason"]) for record in records]
        assert set(outcomes) == {("kept", "better")}, "where one hangs or is refused, the other one answers"
        by_second = [record["iteration"] for record in records if record["provider"] == "command"]
        assert 1 <= len(by_second) <= len(REFUSED) + 1
        assert records[-1]["provider"] == "claude", "the first is asked again when its key is taken"

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
