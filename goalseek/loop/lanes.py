"""Slots, benches and the landing, each held by one iteration at a time, the oldest first."""

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from goalseek.disk import remove_if_exists
from goalseek.humanize import format_moment
from goalseek.ledger.checkpoints import Begun, Checkpoints, Flight
from goalseek.locks import Baton
from goalseek.measurement.lane import Lane
from goalseek.project.activity import BEAT_SECONDS
from goalseek.project.approval import Question
from goalseek.project.landing import flight_of, in_flight
from goalseek.project.picture import OpenIteration
from goalseek.project.project import Project
from goalseek.proposal.launch import forget_calls
from goalseek.values import Phase
from goalseek.workspace.places import LANDING, SLOT, CachePaths

_LEAST_SHARE = 0.25  # of a side that waits, on average, is worth a word
_LEAST_SECONDS = 10.0  # before that, an average says little


class Resource:
    """Lanes of one kind, each held by one iteration at a time; ``count`` of them at once, at most all of them."""

    def __init__(self, name: str, baton: Baton, lanes: Sequence[Lane]) -> None:
        self.name = name
        self.waiting: set[int] = set()  # numbers of iterations
        self._baton = baton
        self.lanes = [*lanes]
        self.count = len(lanes)

    @property
    def in_use(self) -> int:
        return sum(lane.is_held for lane in self.lanes)

    @property
    def is_free(self) -> bool:
        """Whether a newcomer gets a lane at once."""
        return self.count - self.in_use > len(self.waiting)

    def acquire(self, iteration: int, pause: Callable[[], None]) -> Lane:
        """Wait for a free lane, calling ``pause`` meanwhile; its exception ends the wait."""
        self.waiting.add(iteration)
        try:
            self._baton.wait_until(lambda: self.in_use < self.count and iteration == min(self.waiting), pause)
            lane = next(lane for lane in self.lanes if not lane.is_held)
            lane.is_held = True
            return lane
        finally:
            self.waiting.discard(iteration)
            self._baton.notice()

    def release(self, lane: Lane) -> None:
        lane.is_held = False
        self._baton.notice()


class ActiveClock:
    """Active seconds since the last record, with those of a process that was killed."""

    def __init__(self, project: Project, flight: Flight) -> None:
        self._project = project
        self._folder = flight.folder
        self.seconds = sum(self._checkpoints().load_seconds().values(), start=0.0)
        self._counted_until = self._stored_at = time.monotonic()

    def count(self, are_idle: Iterable[bool]) -> None:
        now = time.monotonic()
        if not all(are_idle):
            self.seconds += now - self._counted_until
        self._counted_until = now
        if now - self._stored_at >= BEAT_SECONDS and self._folder.is_dir():
            self._stored_at = now
            self._checkpoints().note_seconds({"": self.seconds})

    def _checkpoints(self) -> Checkpoints:
        project, last = self._project, self._project.standing.last
        assert last
        return Checkpoints(self._folder, project.ledger.seal, project.run_id, last.seal)


class Balance:
    """Which side waits on average: agents for a bench, or benches for a candidate. Counts while every slot is taken."""

    def __init__(self, slots: Sequence[Resource], bench: Resource) -> None:
        self._slots = slots
        self._bench = bench
        self._seconds = self._waited = self._idle = 0.0
        self._counted_until = time.monotonic()

    def count(self) -> None:
        now, before = time.monotonic(), self._counted_until
        self._counted_until = now
        if all(slot.in_use for slot in self._slots) and (self._seconds or self._bench.in_use):
            self._seconds += now - before  # else benches idle because nothing more may begin
            self._waited += (now - before) * len(self._bench.waiting)
            self._idle += (now - before) * max(self._bench.count - self._bench.in_use, 0)

    def __str__(self) -> str:
        """A sentence with a remedy; "" if neither side waits much."""
        seconds, agents, benches = max(self._seconds, _LEAST_SECONDS), len(self._slots), self._bench.count
        waiting, idle = self._waited / seconds, self._idle / seconds
        if max(waiting / agents, idle / benches) < _LEAST_SHARE:
            return ""
        if waiting / agents >= idle / benches:
            return f"{waiting:.1f} of {agents} agents wait for a bench: add benches or remove agents"
        return f"{idle:.1f} of {benches} benches are idle: add agents or remove benches"


class LanePool:
    """The slots in which providers propose, the benches that measure, and the one landing.

    With one agent, one bench and nothing left of several it ``is_serial``: slot, bench and landing are the project's
    own lane, and phases count the seconds. Otherwise the first bench also serves whatever is measured alone.
    """

    def __init__(self, project: Project, agents: int, benches: int) -> None:
        self.is_serial = agents == benches == 1 and not in_flight(project)
        self.baton = baton = Baton()
        self.flight = flight_of(project)
        self.clock: ActiveClock | None = None  # of all iterations together; a queue of one has phases alone
        self.slots: list[Resource] = []
        self._project, self._own_lane = project, project.lane
        self._lanes: list[Lane] = []
        if self.is_serial:
            self.bench = self.landing = Resource("its turn", baton, [project.lane])
            self.slots.append(self.bench)
        else:
            self.clock = ActiveClock(project, self.flight)
            project.lane.close_trees()
            names = ["", *(f"bench-{number}" for number in range(1, benches))]
            bench_lanes = [project.add_lane(name, number) for number, name in enumerate(names)]
            self.bench = Resource("a bench", baton, bench_lanes)
            self._lanes += [*bench_lanes, project.add_lane(LANDING)]
            self.landing = Resource("the landing", baton, self._lanes[-1:])
            project.enter(bench_lanes[0])
        self.balance = Balance(self.slots, self.bench)
        self.add_slots(agents)

    def set_benches(self, count: int) -> None:
        """Of fewer than before, those that are held go on; a lane that is too many waits until it is needed again."""
        self.bench.count = count
        for number in range(len(self.bench.lanes), count):
            self._lanes.append(self._project.add_lane(f"bench-{number}", number))
            self.bench.lanes.append(self._lanes[-1])

    @property
    def setting(self) -> tuple[int | None, str | None]:
        """Benches and host; ``(None, None)`` when a single bench measures."""
        cluster = None if self.is_serial else self._project.cluster
        count = cluster.most_on_a_host if cluster else self.bench.count
        return (None, None) if self.is_serial else (count, os.uname().nodename)

    def add_slots(self, agents: int) -> None:
        for number in range(len(self.slots), agents):
            self._lanes.append(self._project.add_lane(f"{SLOT}{number}"))
            self.slots.append(Resource("its agent", self.baton, self._lanes[-1:]))

    def begin(self, number: int, slot: int = 0, trial: str = "") -> Begun:
        """The beginning of a new iteration at the standing of now; of one of several it is stored until ``end``."""
        standing = self._project.standing
        begun = Begun(number, standing.seq, standing.last_seal, slot, trial)
        if not self.is_serial:
            self.flight.add(begun)
        return begun

    def end(self, number: int) -> None:
        """Nothing of an iteration is resumed any more: it has its record."""
        if self.clock:
            self.clock.seconds = 0.0
            self.flight.remove(number)
        else:
            forget_calls(*self._own_lane.places.lanes())

    def close(self) -> None:
        if self.is_serial:
            return
        is_over = not self.flight.begun()
        self._project.enter(self._own_lane)
        with contextlib.ExitStack() as callbacks:
            if is_over:
                callbacks.callback(forget_calls, *self._own_lane.places.lanes())
            for lane in self._lanes:
                callbacks.callback(lane.close)


@contextlib.contextmanager
def open_pool(project: Project) -> Iterator[LanePool]:
    """The lanes of one agent and one bench, closed after the block, in which this thread has the baton."""
    pool = LanePool(project, 1, 1)
    with contextlib.closing(pool), pool.baton:
        yield pool


class HeldLanes:
    """The lanes that one iteration holds: one, or its slot while it waits for a bench.

    It releases them when it ends, when its tip has moved, and while it waits for a person.
    """

    def __init__(self, project: Project, pool: LanePool, begun: Begun) -> None:
        self.pool = pool
        self.number = begun.iteration
        self.question: Question | None = None  # set while a person is to answer it
        self._project = project
        self._slot = begun.slot
        self._held: dict[Resource, Lane] = {}
        self._awaited: Resource | None = None
        self._seen: OpenIteration | None = None

    def acquire_slot(self) -> None:
        self._acquire(self.pool.slots[self._slot % len(self.pool.slots)])

    def acquire_bench(self) -> None:
        self._acquire(self.pool.bench)

    def acquire_landing(self) -> None:
        self._acquire(self.pool.landing)

    def release(self) -> None:
        while self._held:
            resource, lane = self._held.popitem()
            resource.release(lane)

    def remove_trees(self) -> None:
        """Remove workspaces that somebody damaged; they are made again on their next use."""
        for lane in self._held.values():
            lane.close_trees()
            with contextlib.suppress(OSError):
                remove_if_exists(lane.places.workspace)

    def places_of(self, phase: str) -> CachePaths:
        places = self._project.places
        if self.pool.is_serial:
            return places
        return places.beside(LANDING if phase == Phase.REVIEW else f"{SLOT}{self._slot}")

    @property
    def is_proposing(self) -> bool:
        """Whether its author is at work or waits for the slot, and no candidate waits for a bench."""
        slots, awaited = self.pool.slots, self._awaited
        return awaited in slots or (awaited is not self.pool.bench and any(slot in self._held for slot in slots))

    @property
    def is_idle(self) -> bool:
        return bool(self._awaited or self.question or self._project.activity.is_waiting)

    def look(self, title: str) -> OpenIteration:
        picture = self._project.activity.picture
        waits = picture.waits or (f"waits for {self._awaited.name}" if self._awaited else "")
        waits = "waits for your approval" if self.question else waits
        is_measuring, is_landing = self.pool.bench in self._held, self.pool.landing in self._held
        stage = "waiting" if waits else "landing" if is_landing else "measuring" if is_measuring else "proposing"
        before = self._seen or OpenIteration(0, "", None, "", "")
        is_same = (before.stage, before.phase, before.waits) == (stage, picture.phase, waits)
        since = before.since if is_same else format_moment()
        self._seen = OpenIteration(self.number, stage, picture.phase, waits, since, title)
        return self._seen

    def _acquire(self, resource: Resource) -> None:
        """Wait for a lane, then release the held one; only a slot is held while it waits, and only for a bench."""
        if resource in self._held:
            return
        if resource is not self.pool.bench:
            self.release()
        self._awaited = resource
        try:
            lane = resource.acquire(self.number, self._project.beat)
        finally:
            self._awaited = None
        self.release()
        self._held[resource] = lane
        if not self.pool.is_serial:  # else it works in that lane already
            self._project.enter(lane)
