"""A running call: what ends it before its own timeout, what it is charged then, and that its silence is shown."""

import json
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from project import Project, home, until

import goalseek
from goalseek.loop import loop
from goalseek.loop.invocation import Invocation
from goalseek.project.opening import open_project
from goalseek.project.stop import Ends
from goalseek.proposal import call
from goalseek.records import IterationRecord
from goalseek.values import Stop

pytestmark = pytest.mark.slow

AGENT = """\
echo "$GOALSEEK_PHASE" >> "$HOME/phases"
printf '{"input_tokens": 100, "cost_usd": 0.25}' > "$GOALSEEK_USAGE"
if [ "$GOALSEEK_PHASE" = plan ]; then
  printf '<<<GOALSEEK PLAN %s\\na title\\nGOALSEEK PLAN %s>>>\\n' "$GOALSEEK_NONCE" "$GOALSEEK_NONCE"; exit
fi
echo half > answer.json
"""
HANGS = """\
[ -e "$HOME/hung" ] || { touch "$HOME/hung"; %s; }
printf '{"score": %%s}' $((GOALSEEK_ITERATION + 1)) > answer.json
"""


@dataclass
class Climb:
    """How an invocation ended: its records, its stop, and the seconds that it took."""

    records: list[IterationRecord] = field(default_factory=list)
    stop: Stop | None = None
    seconds: float = 0.0


def climb(project: Project, **ends: Any) -> Climb:
    """Climbs in this process, so that what a test patches counts."""
    ended, began = Climb(), time.monotonic()
    with open_project(goalseek.load(project.manifest), doing="iterate") as opened:
        ended.records = list(loop.iterate(Invocation(opened, Ends(**ends))))
        ended.stop = opened.stop
    ended.seconds = time.monotonic() - began
    return ended


@pytest.fixture
def measured(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with its baseline; what a call uses is looked at often."""
    monkeypatch.setattr(call, "LOOK_SECONDS", 0.1)
    project.set_agent("true").check("baseline")
    return project


def hang(project: Project, limits: dict[str, Any], script: str = "sleep 60", **provider: Any) -> Project:
    return project.set_agent(AGENT + HANGS % script, {"limits": limits}, ask_plan=True, **provider)


def phases() -> list[str]:
    return home("phases").read_text().split()


@pytest.mark.parametrize("limit", ["for", "deadline"])
def test_a_call_is_ended_with_the_time_and_its_plan_is_used_later(measured: Project, limit: str) -> None:
    deadline = datetime.now(UTC) + timedelta(seconds=3)
    hang(measured, {"deadline": {"deadline": deadline}, "for": {}}[limit])
    ended = climb(measured, seconds=3.0 if limit == "for" else None)
    assert ended.stop and ended.stop.reason == limit and not ended.records and ended.seconds < 8
    assert (measured.folder / "answer.json").read_text() != "half\n" and phases() == ["plan", "apply"]
    hang(measured, {})
    (record,) = climb(measured, count=1).records
    assert (record.iteration, record.outcome, phases()) == (1, "kept", ["plan", "apply", "apply"])
    assert (record.usage.tokens, record.usage.cost_usd, record.usage.estimated) == (300, 0.75, False)
    why = ended.stop.why
    assert record.notes[0] == f"in APPLY_CHANGE command was ended: {why}"
    assert not any("left running" in note for note in record.notes), "its own program was ended with it"
    assert "half" not in (measured.run_folder(1) / "changes.diff").read_text(), "its edits were undone"


@pytest.mark.parametrize(
    ("limits", "reason"),
    [({"tokens": 500}, "tokens"), ({"cost_usd": 0.5}, "cost"), ({"total": {"tokens": 500}}, "tokens")],
)
def test_a_call_is_ended_when_its_use_passes_a_limit(measured: Project, limits: dict[str, Any], reason: str) -> None:
    spends = """printf '{"input_tokens": 450, "cost_usd": 0.4}' > "$GOALSEEK_USAGE"; sleep 60"""
    hang(measured, limits, spends, timeout="20s")
    ended = climb(measured, count=1)
    assert ended.stop and ended.stop.reason == reason and "is reached" in ended.stop.why and not ended.records
    assert phases() == ["plan", "apply"] and ended.seconds < 10
    again = climb(measured, count=1)
    assert again.stop and again.stop.reason == reason and phases() == ["plan", "apply"], "it was charged"
    hang(measured, {})
    (record,) = climb(measured, count=1).records
    assert (record.outcome, record.usage.tokens, record.usage.cost_usd) == ("kept", 650, 0.9)


def test_a_silent_call_is_shown_and_ended_on_request(measured: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "SILENT_SECONDS", 0.3)
    monkeypatch.setattr(call, "STOPPABLE_SECONDS", 2.0)
    monkeypatch.setattr("goalseek.project.activity.HEARTBEAT_SECONDS", 0.2)
    hang(measured, {}, "echo I think; sleep 60")
    seen: list[str] = []

    def ask_to_stop() -> None:
        until(lambda: measured.state().get("silent_since"))
        overview = json.loads(measured.check("--json", "status"))
        seen.extend((overview["silent"], measured.check("status"), measured.check("stop")))

    person = threading.Thread(target=ask_to_stop)
    person.start()
    ended = climb(measured, count=1)
    person.join(30)
    assert ended.stop and ended.stop.reason == "asked" and not ended.records and ended.seconds < 20
    silent, shown, asked = seen
    assert silent.startswith("the provider's program has printed nothing for ") and "has printed nothing for" in shown
    assert "its provider has printed nothing for " in asked and "goalseek ends its call after 5m 00s" in asked
    assert measured.state()["silent_since"] == ""
    (record,) = climb(measured, count=1).records
    assert (record.outcome, record.usage.tokens, phases()) == ("kept", 300, ["plan", "apply", "apply"])


def test_a_call_that_prints_is_not_ended_on_request(measured: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "STOPPABLE_SECONDS", 4.0)
    hang(measured, {}, "for i in $(seq 25); do echo $i; sleep 0.2; done; true")
    person = threading.Thread(target=lambda: until(lambda: home("hung").exists()) and measured.check("stop"))
    person.start()
    ended = climb(measured, count=3)
    person.join(30)
    assert [record.outcome for record in ended.records] == ["kept"], ended.stop
    assert ended.stop and ended.stop.reason == "asked" and phases() == ["plan", "apply"]


def test_a_repair_that_the_end_of_the_invocation_ends_is_made_by_the_next_one(measured: Project) -> None:
    strays = '[ "$GOALSEEK_PHASE" = repair ] || { echo x > other.txt; exit; }\n'
    measured.set_agent(AGENT + strays + HANGS % "sleep 60", ask_plan=True, repair=1)
    ended = climb(measured, seconds=3.0)
    assert ended.stop and ended.stop.reason == "for" and not ended.records
    (record,) = climb(measured, count=1).records
    assert (record.outcome, phases()) == ("kept", ["plan", "apply", "repair", "repair"])


def test_a_review_that_the_end_of_the_invocation_ends_is_made_by_the_next_one(measured: Project) -> None:
    reviewer = measured.agent.with_name("reviewer.sh")
    block = "printf '<<<GOALSEEK REVIEW %s\\nAPPROVED\\nwhy not\\nGOALSEEK REVIEW %s>>>\\n'"
    hangs = '[ -e "$HOME/hung" ] || { touch "$HOME/hung"; rm answer.json; sleep 60; }'
    reviewer.write_text(f"""{hangs}\n{block} "$GOALSEEK_NONCE" "$GOALSEEK_NONCE"\n""")
    command = {"name": "command", "command": ["sh", str(reviewer)]}
    better = """printf '{"score": 2}' > answer.json\n"""
    measured.set_agent(AGENT + better, {"review": {"provider": command, "criteria": ["short"]}}, ask_plan=True)
    ended = climb(measured, seconds=3.0)
    assert ended.stop and ended.stop.reason == "for" and not ended.records
    (record,) = climb(measured, count=1).records
    assert (record.outcome, phases()) == ("kept", ["plan", "apply"]), record.why
    assert "in REVIEW command was ended: the time of --for is over" in record.notes
