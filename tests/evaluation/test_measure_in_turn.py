"""The one program that measures trees outside iterations: the order, when it ends, what is recorded, and the seeds."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from goalseek.evaluation import measurements
from goalseek.evaluation.measurements import MeasuredValue, Target, alternate, measure_in_turn, pairs_in_turn
from goalseek.manifest.tables import Metric
from goalseek.measurement.measure import MeasurementSpec
from goalseek.phase_values import Evidence
from goalseek.values import VerifierRun


class Bench:
    """Counts up; its project gives the seed -(seq + 2 + number)."""

    def __init__(self, folder: Path) -> None:
        self.done: list[str] = []
        seal = SimpleNamespace(seed=lambda run_id, iteration, number: number)
        standing, places = SimpleNamespace(next_iteration=3, seq=7, ruler="another"), SimpleNamespace(scratch=folder)
        self.project: Any = SimpleNamespace(
            run_id="r", ledger=SimpleNamespace(seal=seal), standing=standing, places=places, verifier=lambda *_: None
        )
        self.project.measure = self.measure

    def measure(self, _: object, spec: MeasurementSpec, evidence: Evidence, folder: Path) -> Evidence:
        self.done.append(f"measured {spec.tree}")
        return Evidence((VerifierRun("candidate", 1.0, spec.seed, 1.0),))

    def record(self, project: object, target: Target, number: MeasuredValue, asked_by: str) -> None:
        self.done.append(f"recorded {target.tree}")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    bench = Bench(tmp_path)
    monkeypatch.setattr(measurements, "record_measurement", bench.record)
    return bench


def target(tree: str, **more: Any) -> Target:
    config: Any = SimpleNamespace(manifest=SimpleNamespace(metric=Metric(direction="minimize"), guard=()))
    return Target(config, tree, "ruler", 0, "baseline", **more)


def test_each_run_is_recorded_before_it_is_given_and_the_next_tree_is_asked_for_only_then(bench: Bench) -> None:
    def trees() -> Iterator[Target]:
        for tree in "abc":
            bench.done.append(f"asked for {tree}")
            yield target(tree)

    for run in islice(measure_in_turn(bench.project, trees(), asked_by="noise"), 2):
        bench.done.append(f"given {run.target.tree}")
    steps = ("asked for", "measured", "recorded", "given")
    assert bench.done == [f"{step} {tree}" for tree in "ab" for step in steps]


def test_no_seed_is_used_twice_but_one_that_is_asked_for(bench: Bench) -> None:
    known = (MeasuredValue(1.0, {}, (), 1.0, seed=-10),)
    trees = [target("a", known=known), target("a", known=known), target("a", seed=5), target("b", seed=5)]
    seeds = [run.target.seed for run in measure_in_turn(bench.project, trees)]
    assert seeds == [-9, -11, 5, 5], "-10 is known"


@pytest.mark.parametrize(("pairs", "order"), [(1, "ab"), (2, "abba"), (3, "abbaab")])
def test_two_alternate_so_that_drift_cancels(pairs: int, order: str) -> None:
    assert "".join(alternate("a", "b", pairs)) == order
    assert pairs_in_turn(order) == [("a", "b")] * pairs
