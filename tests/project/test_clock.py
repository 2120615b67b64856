"""A deadline is held against a clock that nobody can set back; no test here waits."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from project import Project, answer

import goalseek
from goalseek.loop import loop
from goalseek.loop.invocation import Invocation
from goalseek.process import seconds_with_sleep
from goalseek.project import opening, stop
from goalseek.project.activity import Observer
from goalseek.project.limits import Clock

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


class Machine:
    """A machine whose clock can be set, and which can sleep."""

    def __init__(self) -> None:
        self.wall = NOON
        self.seconds = 1000.0

    def clock(self) -> Clock:
        return Clock(self.wall, lambda: self.seconds)


@given(st.lists(st.tuples(st.timedeltas(timedelta(-9), timedelta(9)), st.integers(0, 10**6))))
def test_setting_the_machines_clock_moves_nothing_and_every_second_counts_once(
    moves: list[tuple[timedelta, int]],
) -> None:
    machine = Machine()
    clock = machine.clock()
    for jump, passed in moves:
        machine.wall += jump
        machine.seconds += passed
        assert clock.now() == NOON + timedelta(seconds=machine.seconds - 1000)


def test_it_begins_at_the_machines_now_and_counts_the_time_asleep(monkeypatch: pytest.MonkeyPatch) -> None:
    assert abs(Clock().now() - datetime.now(UTC)) < timedelta(minutes=1)
    monkeypatch.setattr(time, "CLOCK_BOOTTIME", 77, raising=False)
    monkeypatch.setattr(time, "clock_gettime", lambda which: {77: 5.0}[which])
    assert seconds_with_sleep() == 5.0
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    monkeypatch.setattr(time, "monotonic", lambda: 3.0)
    assert seconds_with_sleep() == 3.0


class Sleeper(Observer):
    """Lets the machine sleep, and sets its clock back, when the candidate is made."""

    def __init__(self, machine: Machine, asleep: float) -> None:
        self.machine, self.asleep = machine, asleep

    def on_phase(self, iteration: int, name: str) -> None:
        if (iteration, name) == (1, "COMMIT"):
            self.machine.wall -= timedelta(days=1)
            self.machine.seconds += self.asleep


@pytest.mark.parametrize(("asleep", "reason", "records"), [(7200.0, "deadline", 1), (0.0, "count", 2)])
@pytest.mark.slow
def test_a_sleep_past_the_deadline_ends_the_run_and_a_clock_set_back_does_not_lengthen_it(
    project: Project, asleep: float, reason: str, records: int
) -> None:
    project.set_manifest({"limits": {"deadline": NOON + timedelta(hours=1), "time": "1h"}})
    project.set_moves(answer(2), answer(3))
    machine = Machine()
    loaded = goalseek.load(project.manifest)
    with opening.open_project(loaded, Sleeper(machine, asleep)) as run:
        run.activity.clock = machine.clock()
        made = list(loop.iterate(Invocation(run, stop.Ends(count=1))))
        assert run.stop and (run.stop.reason, len(made)) == (reason, records)
        assert run.standing.spend.seconds < 3600, "the sleep is no active time"
        run.activity.clock = Clock(NOON, lambda: machine.seconds)
        list(loop.iterate(Invocation(run, stop.Ends(count=1))))
    assert [record["metric"]["value"] for record in project.iterations()] == [1, 2, 3][: records + 1]
