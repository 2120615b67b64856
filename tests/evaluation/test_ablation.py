"""The decision of an ablation, simulated: false kept changes among what goes home fall, and hardly any gain with them."""

import math
import random
from collections.abc import Callable, Collection, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from goalseek.evaluation import ablation
from goalseek.git.objects import Diff
from goalseek.statistics.noise import NoiseState

Truth = dict[int, float]


class Chain:
    """Kept changes with true gains, in sd of one run; a tree is the set of those that it has."""

    def __init__(self, gains: Truth, out: Collection[int] = ()) -> None:
        self.gains = gains
        self.end = frozenset(gains) - set(out)
        self.changes = [
            SimpleNamespace(
                record=SimpleNamespace(iteration=number, hypothesis_summary=f"change {number}", taken_back=None)
            )
            for number in gains
        ]


def draw_chain(draw: random.Random) -> Chain:
    """Three to twelve kept changes, of which a tenth does not help; gains are those that a rule hardly ever misses."""

    def gain() -> float:
        if draw.random() < 0.1:
            return 0.0 if draw.random() < 0.6 else -draw.uniform(0, 0.5)
        while True:
            size = draw.uniform(0.25, 3)
            if draw.random() < 0.5 * (1 + math.erf((size - 1) / 0.5 / math.sqrt(2))):
                return size

    return Chain({number: gain() for number in range(1, draw.randint(3, 12) + 1)})


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch) -> Callable[[Chain, random.Random], tuple[ablation.Ablation, int]]:
    """Runs the ablation of a chain; gives it, and how many runs it took."""

    def run(chain: Chain, draw: random.Random) -> tuple[ablation.Ablation, int]:
        repeats = tuple((300 + draw.gauss(0, 1), 300 + draw.gauss(0, 1)) for _ in range(40))
        metric = SimpleNamespace(direction="minimize", noise="auto", unit="")
        standing = SimpleNamespace(noise=NoiseState(pairs=repeats, differed=True), ruler="", baseline=SimpleNamespace())
        repository = SimpleNamespace(objects=SimpleNamespace(diff=lambda *_: Diff("", b"", 1, 1)))
        history = SimpleNamespace(newest=lambda: iter(()))
        config = SimpleNamespace(manifest=SimpleNamespace(metric=metric, guard=()))
        ledger = SimpleNamespace(history=history)
        project: Any = SimpleNamespace(standing=standing, repository=repository, ledger=ledger, config=lambda: config)
        count = 0

        def measure_in_turn(_: object, trees: Iterator[frozenset[int]], asked_by: str) -> Iterator[Any]:
            nonlocal count
            for tree in trees:
                count += 1
                truth = 300 - sum(chain.gains[number] for number in tree)
                number = ablation.MeasuredValue(truth + draw.gauss(0, 1), {}, (), 1.0)
                yield SimpleNamespace(number=number, target=SimpleNamespace(tree=tree))

        monkeypatch.setattr(ablation.measurements, "measure_in_turn", measure_in_turn)
        monkeypatch.setattr(ablation.measurements, "pinned_target", lambda standing, config, tree, bench: tree)
        monkeypatch.setattr(ablation, "leave_out", lambda _, chain, numbers: Chain(chain.gains, numbers))
        whole: Any = chain
        found = ablation.ablate(project, whole, set(chain.gains), ablation.PAIRS, lambda text: None)
        return found, count

    return run


def test_false_kept_changes_fall_and_true_ones_stay(simulate: Callable[..., tuple[ablation.Ablation, int]]) -> None:
    draw, sessions = random.Random(17), 400
    before = after = false = false_home = 0
    gain = lost = 0.0
    runs = []
    for _ in range(sessions):
        chain = draw_chain(draw)
        found, count = simulate(chain, draw)
        runs.append(count)
        home = {number: size for number, size in chain.gains.items() if number not in found.left_out}
        before, after = before + len(chain.gains), after + len(home)
        false += sum(size <= 0 for size in chain.gains.values())
        false_home += sum(size <= 0 for size in home.values())
        gain += sum(chain.gains.values())
        lost += sum(size for number, size in chain.gains.items() if number in found.left_out)
    assert 0.08 < false / before < 0.12
    assert false_home / after < 0.045
    assert lost / gain < 0.02
    assert min(runs) >= 20 and sum(runs) / sessions < 90
