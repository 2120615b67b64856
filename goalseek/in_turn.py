"""Two trees measured afresh in turn with the pinned verifier, on whatever out-of-scope files they have in common."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from goalseek.decide import broken
from goalseek.errors import BAD_FINDING, GoalseekError
from goalseek.objects import Entry, Objects
from goalseek.pool import Measurement, Subject, measure_subject, measurement_of
from goalseek.run import Run, Setting
from goalseek.scope import Scope
from goalseek.settle import Settled, settle
from goalseek.units import in_words


@dataclass(frozen=True)
class SettledOnBase:
    """What came of it: the difference, and the guards that the result breaks against the base, a sentence each."""

    settled: Settled
    broken: tuple[str, ...]
    seconds: float

    @property
    def is_worse(self) -> bool:
        """Whether the result is surely worse than the base, or breaks a guard."""
        interval = self.settled.interval
        return bool(self.broken) or (interval is not None and interval[1] < 0)


def settle_on_base(run: Run, base: str, result: str, pairs: int, tell: Callable[[str], None]) -> SettledOnBase:
    """Measures the tree ``base`` against ``result``, so many pairs, each with the pinned hidden files; records nothing.

    Raises GoalseekError where one of them has no number.
    """
    setting, standing = run.setting(), run.standing
    assert standing.baseline
    objects = run.repository.objects
    before = with_pinned(objects, setting.scope, standing.baseline.tree, base)
    after = with_pinned(objects, setting.scope, standing.baseline.tree, result)
    ruler = standing.ruler
    if any(setting.scope.is_fixed(found.path) for found in objects.differences(standing.baseline.tree, before)):
        ruler = hashlib.sha256(f"{ruler} on {before}".encode()).hexdigest()  # what setup gives is made on this base
    subject = Subject(setting, before, ruler, standing.epoch, before, standing.baseline.seconds)
    usual = in_words(2 * pairs * sum(standing.baseline.seconds.values()))
    tell(f"measuring {pairs} pairs of base and result in turn, about {usual}; nothing is recorded")
    made = list(_in_turn(run, subject, {"base": before, "result": after}, pairs))
    values = [(one["base"].value, one["result"].value) for one in made]
    last = made[-1]
    guards = setting.manifest.guard
    told = (broken(guard, last["result"].guards[guard.name], last["base"].guards[guard.name]) for guard in guards)
    seconds = sum(measured.seconds for one in made for measured in one.values())
    settled = settle(setting.manifest.metric.direction, values)
    return SettledOnBase(settled, tuple(text for text in told if text), round(seconds, 6))


def with_pinned(objects: Objects, scope: Scope, pinned: str, tree: str) -> str:
    """The tree with the hidden files of the pinned one: what decides is not what somebody has made of it since."""
    edits: dict[str, Entry | None] = {
        found.path: found.after
        for found in objects.differences(tree, pinned)
        if scope.kind(found.path) == "hidden" and not scope.is_apart(found.path)
    }
    return objects.splice(tree, edits) if edits else tree


def _in_turn(run: Run, subject: Subject, trees: dict[str, str], pairs: int) -> Iterator[dict[str, Measurement]]:
    """So many pairs; every other one begins with the second tree, so that a drift counts for both."""
    folder = run.places.scratch / "in_turn"
    for pair in range(pairs):
        names = list(trees) if pair % 2 == 0 else list(trees)[::-1]
        made = {}
        for place, name in enumerate(names):
            evidence = measure_subject(run, subject, 2 * pair + place, folder, trees[name])
            measured = measurement_of(evidence)
            if measured is None:
                assert evidence.failure
                raise _no_number(name, evidence.failure.why, subject.setting)
            made[name] = measured
        yield made


def _no_number(name: str, why: str, setting: Setting) -> GoalseekError:
    hint = "the base itself is broken, or the pinned verifier does not know it" if name == "base" else ""
    return GoalseekError(f"the {name} has no {setting.manifest.metric.name}: {why}", hint, BAD_FINDING)
