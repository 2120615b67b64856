"""Bad nights of real coding agents: limits of hours, closed endpoints, revoked keys, loops without end.

The climb runs in this process, and a clock that is moved passes its waits. After each trouble it goes on, has lost no
iteration, and is charged what the server gave.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

import pytest
from model_server.asked import Asked
from model_server.moves import Die, Edit, Loop, Move, Refuse, Tokens, plan
from model_server.server import ModelServer
from moved_clock import MovedClock
from project import Project, Projects, answer, until
from reviewing import tokens
from test_agents import AGENTS, CONFINED, FOLDER, SECRET, provider
from test_agents import server as server

import goalseek
from goalseek.errors import GoalseekError
from goalseek.values import StopReason

pytestmark = [pytest.mark.agents, pytest.mark.needs("bwrap")]
HOUR = 3600.0
WHOLE = Tokens().input + Tokens().output


class Trouble(NamedTuple):
    """What the server does instead of an answer, from question ``first`` on, for ``seconds``; to ``model`` only."""

    first: int
    move: Move
    seconds: float = 2 * HOUR
    model: str = ""


class Night:
    """A climb at the scripted server, whose model has better and better ideas, and these troubles.

    A question is a new one once the one before it was answered. ``loop`` is played in place of answers, where it is
    set; the key of a model in ``refused`` is not accepted.
    """

    def __init__(self, project: Project, server: ModelServer, clock: MovedClock, troubles: tuple[Trouble, ...]) -> None:
        self.project, self.server, self.clock = project, server, clock
        self.loop: Loop | None = None
        self.refused: set[str] = set()
        self._question = 1
        self._troubles = list(troubles)
        self._present: list[tuple[Trouble, float]] = []
        server.otherwise = self._answer

    def _answer(self, asked: Asked) -> Move:
        if asked.model in self.refused:
            return Refuse(401)
        if trouble := self._trouble(asked):
            return trouble
        self._question += 1
        newest = max((self.project.folder / ".goalseek" / "demo" / "runs").iterdir())
        is_apply = (newest / "prompts" / "apply.md").exists()
        if self.loop and is_apply:
            return self.loop
        score = int(newest.name) + 1
        return Edit({"answer.json": answer(score)}, text="done") if is_apply else plan(f"score {score}", "answer.json")

    def _trouble(self, asked: Asked) -> Move | None:
        now = self.clock.moved
        for trouble in [trouble for trouble in self._troubles if trouble.first <= self._question]:
            self._troubles.remove(trouble)
            self._present.append((trouble, now + trouble.seconds))
            if isinstance(trouble.move, Die):
                self.clock.at(trouble.seconds, self.server.reopen)
        for trouble, end in self._present:
            if now < end and trouble.model in asked.model:
                is_timed = isinstance(trouble.move, Refuse) and trouble.move.retry_after
                return replace(trouble.move, retry_after=math.ceil(end - now)) if is_timed else trouble.move
        return None

    def climb(self, iterations: int) -> list[dict[str, Any]]:
        """The records of the candidates. What happened is printed, for one who asks why."""
        try:
            list(goalseek.iterate(goalseek.load(self.project.manifest), iterations=iterations))
        finally:
            for record in self.project.iterations():
                print(*(record[key] for key in ("iteration", "outcome", "why", "seconds", "usage")), sep="; ")
                print(*record["notes"], sep="\n")
            done = [f"{len(list(same))} {name}" for name, same in groupby(self.server.done())]
            print(f"{self.clock.moved} s; {done}; {self.server.unknown}", *self.clock.seen, sep="\n")
        return self.project.iterations()[1:]

    def given(self) -> int:
        """The tokens of all answers that the server gave, asides left out."""
        return WHOLE * len([seen for seen in self.server.seen if seen.done in ("call", "answer")])

    def check(self, records: list[dict[str, Any]], count: int) -> None:
        """Nothing is lost: each iteration was measured and kept, and they are charged what the server gave."""
        told = [(record["iteration"], record["outcome"], record["reason"]) for record in records]
        assert told == [(number, "kept", "better") for number in range(1, count + 1)]
        assert sum(map(tokens, records)) == pytest.approx(self.given(), rel=0.02), "one of them rounds"
        assert sum(sum(record["seconds"].values()) for record in records) < 500, "waits are no work"
        assert self.clock.seen and all("waits until 20" in text for text in self.clock.seen)
        assert any(text.startswith("waited") for record in records for text in record["notes"])


Begin = Callable[..., Night]


@pytest.fixture
def begin(server: ModelServer, make_project: Projects, monkeypatch: pytest.MonkeyPatch) -> Begin:
    """A night of an agent, and of another one that answers where it cannot."""

    def make(name: str, *troubles: Trouble, fallback: str = "", **more: Any) -> Night:
        monkeypatch.setenv("PATH", f"{FOLDER / 'bin'}{os.pathsep}{os.environ['PATH']}")
        for agent in (AGENTS[one] for one in filter(None, (name, fallback))):
            assert (FOLDER / "bin" / agent.program).exists(), f"{agent.program} is not there; see test_agents.py"
            monkeypatch.setenv(agent.key, SECRET)
        other = {"fallback": [provider(fallback, server)]} if fallback else {}
        project = make_project()
        clock = MovedClock(monkeypatch, lambda: project.check("status"))
        monkeypatch.setattr("goalseek.proposal.call.SILENT_SECONDS", 2.0)  # codex waits by the real clock
        project.set_manifest({"provider": {**provider(name, server), **other, **more}, **CONFINED})
        return Night(project, server, clock, troubles)

    return make


def test_an_endpoint_that_is_closed_for_two_hours_costs_no_iteration(begin: Begin) -> None:
    night = begin("codex", Trouble(2, Die(None)))
    night.check(night.climb(1), 1)
    assert 2 * HOUR <= night.clock.moved < 2.5 * HOUR


def test_a_rate_limit_and_a_usage_limit_of_hours_cost_no_iteration(begin: Begin) -> None:
    limit = Refuse(429, retry_after=1)
    night = begin("claude", Trouble(1, limit), Trouble(2, replace(limit, is_spent=True), HOUR / 2))
    night.check(night.climb(1), 1)
    assert 2.5 * HOUR <= night.clock.moved < 3.5 * HOUR


def test_a_key_that_is_revoked_in_the_night_leaves_the_rest_of_it_to_the_other_one(
    begin: Begin, server: ModelServer
) -> None:
    name, fallback = "codex", "gemini"
    night = begin(name, fallback=fallback)
    night.climb(1)
    night.refused = {AGENTS[name].model}
    records = night.climb(2)
    assert [record["provider"] for record in records] == [name, fallback, fallback]
    asked = [model for model, _ in groupby(seen.asked.model for seen in server.seen)]
    assert asked == [AGENTS[name].model, AGENTS[fallback].model], "the first one is not asked again in this run"
    night.refused = {AGENTS[name].model, AGENTS[fallback].model}
    with pytest.raises(GoalseekError, match="no provider accepts its key or login") as ended:
        night.climb(1)
    assert ended.value.stop_reason == StopReason.AUTH and ended.value.exit_code == 3
    night.refused = set()
    records = night.climb(1)
    assert [(record["iteration"], record["outcome"]) for record in records] == [(n, "kept") for n in range(1, 5)]
    assert records[-1]["provider"] == name and sum(map(tokens, records)) == night.given()


def test_two_that_are_closed_in_turn_take_over_from_each_other(begin: Begin) -> None:
    first, second = AGENTS["claude"].model, AGENTS["codex"].model
    limit = Refuse(429, retry_after=1, is_spent=True)
    night = begin(
        "claude",
        Trouble(2, limit, 2 * HOUR, first),
        Trouble(4, Refuse(529), 600, second),
        Trouble(6, limit, 3 * HOUR, second),
        fallback="codex",
    )
    records = night.climb(4)
    night.check(records, 4)
    assert [record["provider"] for record in records] == ["codex", "codex", "claude", "claude"]
    assert 2 * HOUR <= night.clock.moved < 2.2 * HOUR, "the second one was asked at once, the first when it was open"


def test_a_loop_of_tools_ends_at_a_limit_and_is_charged_also_where_goalseek_is_killed(
    begin: Begin, server: ModelServer
) -> None:
    night = begin("gemini")
    night.loop = Loop()
    usual = {**provider("gemini", server), "timeout": "60s"}
    night.project.set_manifest({"provider": usual, "limits": {"tokens": 10 * WHOLE}, **CONFINED})
    assert night.climb(1) == [] and night.project.state()["stop_reason"] == "tokens"
    spent = night.given()
    assert 10 * WHOLE <= spent < 100 * WHOLE
    night.project.set_manifest({"provider": usual, **CONFINED})
    process = night.project.start("iterate", "-n", "1")
    until(lambda: night.given() > spent + 10 * WHOLE)
    process.kill()
    process.communicate(timeout=120)
    night.loop = None
    (record,) = night.climb(1)
    assert (record["iteration"], record["outcome"]) == (1, "kept")
    assert tokens(record) == pytest.approx(night.given(), abs=2 * WHOLE), "two answers may have been on their way"
