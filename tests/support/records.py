"""Records as a climb would write them, for tests that only read them."""

from typing import Any

from msgspec.structs import replace

from goalseek.ledger.ledger import entry_message
from goalseek.records import (
    Isolation,
    IterationRecord,
    MeasurementRecord,
    MetricResult,
    RunRecord,
    SettleRecord,
    parse_record,
)
from goalseek.values import CommandRun, Usage


def ledger_message(line: str) -> str:
    """The message of the ledger's commit with this record."""
    return entry_message(parse_record(line), line)


HEAD: dict[str, Any] = {"seq": 9, "project": "demo", "run_id": "r", "epoch": 0, "timestamp": "2026-01-01T00:00:00Z"}
SETTLED = SettleRecord(
    kind="settle",
    metric="val_loss",
    direction="minimize",
    ruler="",
    baseline_commit_hash="a" * 40,
    best_commit_hash="c" * 40,
    iteration=12,
    pairs=((3.41, 3.37),),
    baseline=3.41,
    best=3.37,
    difference=0.011,
    interval=(0.008, 0.014),
    in_percent=True,
    seconds=1.0,
    why="",
    **HEAD,
)


def iteration(seq: int, number: int, outcome: str, reason: str, value: float = 0.5, **more: Any) -> IterationRecord:
    committed = outcome != "skipped"
    return IterationRecord(
        seq=seq, kind="iteration", project="digits", run_id="r", epoch=0, timestamp="", iteration=number,
        outcome=outcome, reason=reason, why="", metric=MetricResult("accuracy", "maximize", value, None, None),
        commit_hash=f"commit{seq}" if committed else None, tree_hash=f"tree{seq}" if committed else None,
        rollback_commit_hash=f"revert{seq}" if outcome == "reverted" else None, usage=Usage(10, 5, 1, 0.25),
        seconds={"PLAN": 1.0, "VERIFY": 2.0}, verify=(CommandRun("score", 0, 1.5),), digests={"ruler": f"ruler{seq}"},
        isolation=Isolation("none", "both"), run_dir="",
    ) if not more else replace(iteration(seq, number, outcome, reason, value), **more)  # fmt: skip


def run(seq: int) -> RunRecord:
    return RunRecord(
        seq=seq, kind="run", project="digits", run_id=f"run{seq}", epoch=0, timestamp=f"time{seq}", began="first",
        versions={}, sandbox="none", limits={}, ruler="ruler",
    )  # fmt: skip


def measurement(seq: int, tree: str = "t", ruler: str = "ruler") -> MeasurementRecord:
    return MeasurementRecord(
        seq=seq, kind="measurement", project="digits", run_id="r", epoch=0, timestamp="", tree=tree, ruler=ruler,
        asked_by="doctor", value=0.5, seed=1, seconds=1.0,
    )  # fmt: skip
