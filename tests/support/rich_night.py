"""A night in which everything happened, with patches beside its records: for eyes, and for tests of what is shown."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nights
from nights import Row

TITLES = (
    "Replace the two dense layers by one depthwise convolution and keep the receptive field",
    "Cosine schedule with a warm-up of 200 steps",
    "Fuse bias and activation",
    "AVeryLongNameWithoutASingleSpaceThatSomeAgentMadeUp_" * 3,
    "Cache the tokenised shards between epochs, and drop the lock around the reader, which nobody else takes any more",
)
WHYS = {
    "worse": "3.401 is worse than 3.371 by 0.03",
    "within_noise": "3.369 beats 3.371 by 0.002, odds 1.4:1, less than the 12:1 that a keep takes",
    "tie": "3.371, the same number as the incumbent's, in 4 lines more",
    "below_min_delta": "better by 0.0004, and min_delta is 0.001",
    "guard": "size_kb 531 is above its bound of 512",
    "not_valid": "-0.2 lies outside of 0 to 10",
    "verify_failed": "train ended with 1: RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x512 and 256x10)",
    "verify_timeout": "train ran longer than its timeout of 20m 00s",
    "no_metric": "metrics.json: nothing was found by val.loss",
    "not_finite": "the number is nan",
    "unmeasurable": "the verifier said 125: it cannot judge this candidate",
    "review_rejected": "gemini: the change lowers the number of evaluation batches",
    "declined": "declined by a person: not in the release branch",
    "no_change": "the agent changed nothing",
    "duplicate": "the same tree was measured in iteration 12",
    "out_of_scope": "hidden/labels.csv is not the candidate's to edit",
    "provider_failed": "claude could not answer: overloaded",
    "provider_timeout": "claude ran longer than its timeout of 30m 00s",
    "no_plan": "the agent gave no plan",
    "interrupted": "the stored answers that its candidate was made from are gone, so there was nothing to go on from",
}
SKIPPED = ("no_change", "duplicate", "out_of_scope", "provider_failed", "provider_timeout", "no_plan", "interrupted")
UNMEASURED = (*SKIPPED, "not_valid", "verify_failed", "verify_timeout", "no_metric", "not_finite", "unmeasurable")
NOTES: dict[int, tuple[str, ...]] = {
    6: ("waited 42m 00s: claude is rate limited",),
    9: ("a call in APPLY_CHANGE came to no answer; it is charged 6000 tokens, 0.25 dollars",),
    14: ("an earlier invocation ended in the middle; gone on with from its context, plan, change, candidate",),
    17: ("programs that the provider left running in APPLY_CHANGE were ended: 2",),
    21: ("in PLAN claude is overloaded; codex is asked",),
    23: ("review by gemini: APPROVED", "review: no test is weakened"),
    30: ("shared folder datasets has changed since the baseline",),
}
KEPT = {4: 0.02, 11: 0.034, 19: 0.011, 33: 0.006, 52: 0.027, 71: 0.009}
PATCH = """\
diff --git a/src/model.py b/src/model.py
index 1..2 100644
--- a/src/model.py
+++ b/src/model.py
@@ -10,6 +10,7 @@ class Model(nn.Module):
     def __init__(self, width: int = 512) -> None:
         super().__init__()
-        self.first = nn.Linear(width, width)
-        self.second = nn.Linear(width, 10)
+        self.first = nn.Conv1d(width, width, kernel_size=7, padding=3, groups=width)  # one filter a channel, as in the paper
+        self.second = nn.Linear(width, 10, bias=False)
+        self.scale = nn.Parameter(torch.ones(10))
     def forward(self, x: Tensor) -> Tensor:
"""


def rich_night(tries: int = 80, scale: float = 1.0) -> Iterator[Row]:
    """Two rulers, two runs, every reason, guards, waits, kills, resumes, two providers, two levels, all settled."""
    yield from _earlier()
    chance, at, best = random.Random(7), 5000.0, 3.412 * scale
    shuffled = [reason for reason in WHYS for _ in range(1 + chance.randrange(3))]
    chance.shuffle(shuffled)
    reasons = itertools.cycle(shuffled)
    for number in range(5, tries + 6):
        n = number - 5
        if n == 40:
            at += 9 * 3600
            yield _head(at, "run", began="asked for", versions={"goalseek": "0.0.9"})
        at += 232 + (2520 if n == 6 else 0) + (4 * 3600 if n == 60 else 0)
        outcome, reason, value = "baseline", "measured", best
        if n in KEPT:
            outcome, reason = "kept", "simpler" if n == 33 else "better"
            value = best * (1 - KEPT[n])
        elif n:
            reason = next(reasons)
            outcome = "skipped" if reason in SKIPPED else "reverted"
            value = best * (1.002 + abs(chance.gauss(0, 0.03)) * (12 if n == 27 else 1))
        found = None if reason in UNMEASURED else value
        yield _iteration(chance, at, number, n, outcome, reason, found, best if n else None)
        best = value if outcome == "kept" else best
    yield _head(
        at + 600, "holdout", look=1, of="baseline", iteration=5, reason="measured", value=3.5 * scale, seconds=30
    )
    yield {
        **nights.settled(0),
        "timestamp": nights.stamp(at + 500),
        "baseline": 3.41 * scale,
        "best": best * 1.004,
        "difference": 0.098,
        "interval": [0.091, 0.105],
        "epoch": 1,
    }
    yield _head(
        at + 700,
        "holdout",
        look=2,
        of="best",
        iteration=76,
        reason="measured",
        value=3.2 * scale,
        gap=0.041 * scale,
        seconds=30,
    )


def with_patches(folder: Path, rows: Iterator[Row]) -> Path:
    """The records in a folder with the artifacts of what was kept; gives the folder."""
    found = list(rows)
    nights.write(folder / "logs" / "results.jsonl", found)
    for row in found:
        if row.get("outcome") == "kept":
            place = folder / "runs" / f"{row['iteration']:04d}"
            place.mkdir(parents=True, exist_ok=True)
            (place / "changes.diff").write_text(PATCH)
    return folder


def _earlier() -> Iterator[Row]:
    yield {**_head(0, "run", began="first", versions={"goalseek": "0.1.0"}), "epoch": 0}
    for row in list(nights.night(4, 3))[1:]:
        yield {**row, "project": "nanogpt"}


def _head(at: float, kind: str, **more: Any) -> Row:
    return {
        "schema": 1,
        "seq": int(at),
        "kind": kind,
        "project": "nanogpt",
        "run_id": "r",
        "epoch": 1,
        "timestamp": nights.stamp(at),
        **more,
    }


def _iteration(
    chance: random.Random,
    at: float,
    number: int,
    n: int,
    outcome: str,
    reason: str,
    value: float | None,
    best: float | None,
) -> Row:
    by_codex = n % 9 == 8
    about = {"about_usd": 0.31} if by_codex else {}
    verify = 110.0 + chance.randrange(60)
    why = {"better": f"{value} beats the incumbent's", "simpler": "the same number in 7 lines fewer"}.get(reason, "")
    return _head(
        at,
        "iteration",
        iteration=number,
        outcome=outcome,
        reason=reason,
        why=why or WHYS.get(reason, ""),
        metric=nights.metric(value, best, 31.0 if reason == "better" else 1.4 if reason == "within_noise" else None),
        runs=nights.runs(chance, value, 0.012 * (best or value or 1.0) / 3.4),
        guards={"size_kb": 400.0 + n % 7, "p99_latency_ms": 12.5} if value is not None else {},
        commit_hash=None if reason in ("no_change", "no_plan") else f"{number:040x}",
        tree_hash=f"{number + 10**9:040x}",
        parent_commit_hash=f"{number - 1:040x}",
        changed_files=["src/model.py", "src/train/a_folder_with_a_long_name/schedule_of_the_learning_rate.py"][
            : 1 + n % 2
        ],
        changed_loc=3 + n % 40,
        hypothesis_summary=TITLES[n % len(TITLES)] if n and reason not in ("no_plan", "provider_failed") else "",
        provider="codex" if by_codex else "claude",
        model="gpt-5-codex" if by_codex else "opus",
        usage={
            "input_tokens": 51000,
            "cached_tokens": 420000,
            "output_tokens": 7100,
            "cost_usd": None if by_codex else 0.43,
            "estimated": False,
            **about,
        }
        if n
        else {},
        seconds={"READ_CONTEXT": 0.2, "PLAN": 14.0, "APPLY_CHANGE": 39.5, "VERIFY": verify, "DECIDE": 0.01},
        verify=[
            {"name": "train", "exit_code": 0, "seconds": verify - 4, "killed": int(n == 13)},
            {"name": "score", "exit_code": 0, "seconds": 4.0, "killed": 0},
        ],
        isolation={"sandbox": "landlock" if n > 40 else "bubblewrap", "verifier": "hidden"},
        run_dir=f"runs/{number:04d}",
        notes=list(NOTES.get(n, ())),
    )
