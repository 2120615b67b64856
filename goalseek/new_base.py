"""The kept changes on a base that has moved on: base and result measured in turn with the pinned verifier."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from goalseek.comparing import Compared, Contender, compared, pairs_in_turn
from goalseek.git.objects import Entry, Objects
from goalseek.humanize import counted, in_words
from goalseek.pool import Subject
from goalseek.project.project import Run
from goalseek.statistics.bounds import broken
from goalseek.workspace.scope import Scope


@dataclass(frozen=True)
class SettledOnBase:
    """What came of it: the difference, and the guards that the result breaks against the base, a sentence each."""

    compared: Compared
    broken: tuple[str, ...]
    seconds: float

    @property
    def is_worse(self) -> bool:
        """Whether the result is surely worse than the base, or breaks a guard."""
        interval = self.compared.settled.interval
        return bool(self.broken) or (interval is not None and interval[1] < 0)


def settle_on_base(run: Run, base: str, result: str, pairs: int, tell: Callable[[str], None]) -> SettledOnBase:
    """Measures the tree ``base`` against ``result``, at most so many pairs, under the pinned ruler; records nothing.

    Raises GoalseekError where one of them has no number.
    """
    setting, standing = run.setting(), run.standing
    assert standing.baseline
    objects = run.repository.objects
    before = with_pinned(objects, setting.scope, standing.baseline.tree, base)
    after = with_pinned(objects, setting.scope, standing.baseline.tree, result)
    setting, ruler = run.setting((before, after)), standing.ruler
    if any(setting.scope.is_fixed(found.path) for found in objects.differences(standing.baseline.tree, before)):
        ruler = hashlib.sha256(f"{ruler} on {before}".encode()).hexdigest()  # what setup gives is made on this base
    subject = Subject(setting, before, ruler, standing.epoch, before)
    usual = in_words(2 * pairs * sum(standing.baseline.seconds.values()))
    tell(f"measuring {counted(pairs, 'pair')} of base and result in turn, about {usual}; nothing is recorded")
    sides = Contender("the base", None, subject), Contender("the result", None, replace(subject, tree=after))
    made = list(pairs_in_turn(run, *sides, pairs))
    first, last = made[-1]
    told = (broken(guard, last.guards[guard.name], first.guards[guard.name]) for guard in setting.manifest.guard)
    seconds = round(sum(measured.seconds for pair in made for measured in pair), 6)
    return SettledOnBase(
        compared(setting.manifest.metric.direction, made), tuple(text for text in told if text), seconds
    )


def with_pinned(objects: Objects, scope: Scope, pinned: str, tree: str) -> str:
    """The tree with the hidden and read-only files of the pinned one: these decide, whatever has become of them."""
    edits: dict[str, Entry | None] = {
        found.path: found.after
        for found in objects.differences(tree, pinned)
        if scope.kind(found.path) in ("hidden", "read_only") and not scope.is_apart(found.path)
    }
    return objects.splice(tree, edits) if edits else tree
