"""The seat of an iteration in the queue: which lanes it has taken, and what it waits for."""

from __future__ import annotations

from goalseek.humanize import format_moment
from goalseek.loop.lanes import Lanes, Resource
from goalseek.project.approval import Question
from goalseek.project.picture import OpenIteration
from goalseek.project.project import Lane, Project


class Seat:
    """Takes slot, bench and landing for one iteration, and leaves them to others.

    ``project`` is the iteration's own. ``question`` is what it waits for a person to answer.
    """

    def __init__(self, project: Project, lanes: Lanes, number: int, slot: int) -> None:
        self.lanes = lanes
        self.question: Question | None = None
        self._project = project
        self.number = number
        self._slot = slot
        self._held: dict[Resource, Lane] = {}
        self._seen: OpenIteration | None = None

    def take_slot(self) -> None:
        """Waits until its author may work in the workspace of its slot."""
        self._take(self.lanes.slots[self._slot % len(self.lanes.slots)])

    def take_bench(self) -> None:
        """Waits until it may be measured; until then its slot is its own, and afterwards others'."""
        self._take(self.lanes.bench)

    def take_landing(self) -> None:
        """Waits until nobody else lands."""
        self._take(self.lanes.landing)

    def leave_all(self) -> None:
        """Leaves whatever it has taken to others."""
        for resource in [*self._held]:
            resource.give_back(self._held.pop(resource))

    @property
    def held(self) -> tuple[Lane, ...]:
        """The lanes that it has."""
        return tuple(self._held.values())

    @property
    def is_proposing(self) -> bool:
        """Whether its author is at work or waits for the slot, and has no candidate to hand on yet."""
        is_in_line = any(self.number in slot.waiting for slot in self.lanes.slots)
        has_slot = any(slot in self._held for slot in self.lanes.slots)
        return is_in_line or (has_slot and self.number not in self.lanes.bench.waiting)

    @property
    def is_idle(self) -> bool:
        """Whether it waits: for another iteration, for a person, or for somebody else."""
        is_in_line = bool(self.lanes.awaited_by(self.number))
        return is_in_line or self.question is not None or self._project.activity.is_waiting

    def look(self, title: str) -> OpenIteration:
        """What the iteration of this title does now, and since when."""
        picture, awaited = self._project.activity.picture, self.lanes.awaited_by(self.number)
        waits = f"waits for {awaited}" if awaited else ""
        if self.question:
            waits = "waits for your approval"
        elif picture.waits:
            waits = picture.waits
        is_measuring, is_landing = self.lanes.bench in self._held, self.lanes.landing in self._held
        stage = "waiting" if waits else "landing" if is_landing else "measuring" if is_measuring else "proposing"
        doing = (stage, picture.phase, waits)
        before = self._seen
        is_same = before is not None and (before.stage, before.phase, before.waits) == doing
        since = before.since if before and is_same else format_moment()
        self._seen = OpenIteration(self.number, *doing, since, title)
        return self._seen

    def _take(self, resource: Resource) -> None:
        """Waits for one of these and leaves what it had; of slot and bench it has the first until it gets the other."""
        if resource in self._held:
            return
        if resource is not self.lanes.bench:
            self.leave_all()
        lane = resource.take(self.number, self._project.beat)
        self.leave_all()
        self._held[resource] = lane
        if not self.lanes.is_alone:  # else it works in that lane already
            self._project.enter(lane)
