"""What cases gain through the command line: the same climbs with ``metric.cases`` and with the plain mean as ``query``.

    python tests/benchmarks/cases_climb.py [--climbs 6] [--candidates 40] [--seed 1] [--at-once 3]

A verifier scores 200 cases, 20 ms each; it answers the same always. A scripted agent proposes candidates whose true
effect is known: 15% help by 0.5 to 8 points, 40% harm by as much, and the others do nothing, but for those that change
some answers for others. The cases are a sample: a gain is true only on all cases that there could be, and is printed in
points of those. Both climbs of a pair have the same cases and candidates, each applied to what its climb has kept.

Printed for each climb: its time, its keeps and the false ones, its true gain and the gain on its cases; and of the plain
mean the true gain at the time at which the climb with cases has ended. The bound: in the mean twice the true gain at
equal time, or as much in half the time.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

CASES, LEVEL, SECONDS = 200, 0.65, 0.02
VERIFIER = """\
import json, os, pathlib, time
world = json.loads(pathlib.Path("hidden/world.json").read_text())
asked = os.environ.get("GOALSEEK_CASES")
cases = [int(line) for line in open(asked)] if asked else range(len(world["answers"]))
answers, scores = world["answers"], {}
for path in sorted(pathlib.Path().glob("change-*.txt")):
    mends, breaks, draws = world["changes"][path.stem]
    answers = [not answer if draw < (breaks if answer else mends) else answer for answer, draw in zip(answers, draws)]
for case in cases:
    time.sleep(world["seconds"])
    scores[case] = int(answers[case])
metrics = {"scores": scores, "accuracy": sum(scores.values()) / len(scores)}
pathlib.Path(os.environ["GOALSEEK_RUN_DIR"], "metrics.json").write_text(json.dumps(metrics))
"""
MANIFEST = """\
version = 1
project.name = "cases"
scope = {{ writable = ["change-*.txt"], hidden = ["hidden/**"] }}
metric = {{ direction = "maximize", name = "accuracy", {how}, settle = "none" }}
provider = {{ name = "scripted", script = "../moves.toml" }}
limits = {{ stagnation = "none" }}
sandbox.mode = "none"
[[verify]]
run = ["{python}", "-ISB", "hidden/verify.py"]
sees = "both"
"""
READ = {"cases": 'cases = "scores"', "mean": 'query = "accuracy"'}
FIRST = "change-000"  # it does nothing
IDENTITY = {f"GIT_{who}_{what}": "bench" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
Change = tuple[float, float, list[float]]  # the odds of mending a wrong answer and breaking a right one; draws


def change_of(draw: random.Random) -> Change:
    """Its effect is that on an incumbent whose answers are right as often as the first one's."""
    lot, size = draw.random(), math.exp(draw.uniform(math.log(0.005), math.log(0.08)))
    does_nothing = 0.15 <= lot < 0.6
    effect = 0.0 if does_nothing else size if lot < 0.15 else -size
    churn = max(draw.uniform(0.03, 0.15), 1.25 * abs(effect))
    if does_nothing and draw.random() < 0.2:
        churn = 0.0
    mends, breaks = (churn + effect) / 2 / (1 - LEVEL), (churn - effect) / 2 / LEVEL
    return mends, breaks, [round(draw.random(), 6) for _ in range(CASES)]


@dataclass(frozen=True)
class Climb:
    """``steps`` are the true gain, in points, after so many seconds; ``false`` counts keeps that gained nothing true."""

    seconds: float
    steps: list[tuple[float, float]]
    kept: int
    false: int
    of_set: float
    cost: float  # of a decision, in full runs

    @property
    def gain(self) -> float:
        return self.steps[-1][1]

    def gain_at(self, seconds: float) -> float:
        return next((gain for at, gain in reversed(self.steps) if at <= seconds), 0.0)

    def __str__(self) -> str:
        return (
            f"{self.seconds:6.0f} s  kept {self.kept:2} (false {self.false})  gain {self.gain:6.2f}"
            f"  on its cases {self.of_set:6.2f}  cost {self.cost:.2f}"
        )


def climb(how: str, seed: int, candidates: int) -> Climb:
    draw = random.Random(seed)
    answers = [draw.random() < LEVEL for _ in range(CASES)]
    changes = {FIRST: (0.0, 0.0, [1.0] * CASES)}
    changes |= {f"change-{number:03}": change_of(draw) for number in range(1, candidates + 1)}
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder, "repository")
        (top / "hidden").mkdir(parents=True)
        (top / f"{FIRST}.txt").touch()
        (top / "hidden" / "verify.py").write_text(VERIFIER)
        world = {"answers": answers, "changes": changes, "seconds": SECONDS}
        (top / "hidden" / "world.json").write_text(json.dumps(world))
        (top / "goalseek.toml").write_text(MANIFEST.format(how=READ[how], python=sys.executable))
        tables = (f'[[move]]\ntitle = "{name}"\nfiles = {{ "{name}.txt" = "1\\n" }}\n' for name in changes)
        (Path(folder) / "moves.toml").write_text("".join(list(tables)[1:]))
        variables = {**os.environ, **IDENTITY, "XDG_CACHE_HOME": str(Path(folder, "cache"))}
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
            subprocess.run(["git", *words], cwd=top, env=variables, check=True, timeout=60)
        command = [sys.executable, "-m", "goalseek", "iterate", "-n", str(candidates)]
        done = subprocess.run(command, cwd=top, env=variables, capture_output=True, text=True, timeout=3600)
        if done.returncode:
            raise SystemExit(done.stderr)
        lines = (top / ".goalseek" / "cases" / "logs" / "results.jsonl").read_text().splitlines()
    records = [record for line in lines if (record := json.loads(line))["kind"] == "iteration"]
    return _read(records, answers, changes)


def _read(records: Sequence[dict], answers: Sequence[bool], changes: dict[str, Change]) -> Climb:  # type: ignore[type-arg]
    seconds, level, kept, false = 0.0, LEVEL, list[str](), 0
    steps: list[tuple[float, float]] = []
    for record in records:
        seconds += sum(record["seconds"].values())
        if record["outcome"] == "kept":
            kept.append(record["hypothesis_summary"])
            before, level = level, LEVEL
            for name in sorted(kept):
                mends, breaks, _ = changes[name]
                level += mends * (1 - level) - breaks * level
            false += level <= before + 1e-12
        steps.append((seconds, 100 * (level - LEVEL)))
    now = list(answers)
    for name in sorted(kept):
        mends, breaks, draws = changes[name]
        now = [answer != (draw < (breaks if answer else mends)) for answer, draw in zip(now, draws, strict=True)]
    verifier = sum(command["seconds"] for record in records[1:] for command in record["verify"])
    cost = verifier / (SECONDS * CASES) / (len(records) - 1)
    return Climb(seconds, steps, len(kept), false, 100 * (sum(now) - sum(answers)) / CASES, cost)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--climbs", type=int, default=6)
    parser.add_argument("--candidates", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=3, help="climbs that wait for their verifiers side by side")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.climbs)
    pairs: list[tuple[Climb, Climb]] = []
    with ThreadPoolExecutor(options.at_once) as pool:
        jobs = {(seed, how): pool.submit(climb, how, seed, options.candidates) for seed in seeds for how in READ}
        for seed in seeds:
            cases, plain = (jobs[seed, how].result() for how in READ)
            pairs.append((cases, plain))
            print(f"climb {seed:3}  cases  {cases}")
            print(
                f"           mean   {plain}  at {cases.seconds:.0f} s: {plain.gain_at(cases.seconds):6.2f}", flush=True
            )
    gain, at_equal, at_end = (
        fmean(column)
        for column in zip(*((one.gain, other.gain_at(one.seconds), other.gain) for one, other in pairs), strict=True)
    )
    time, plain_time = (fmean(one.seconds for one in side) for side in zip(*pairs, strict=True))
    more = [one.gain - other.gain_at(one.seconds) for one, other in pairs]
    error = stdev(more) / math.sqrt(len(more)) if len(more) > 1 else math.nan
    print(
        f"true gain at equal time, {time:.0f} s: cases {gain:.2f}, mean {at_equal:.2f}; {fmean(more):+.2f} ± {error:.2f}"
    )
    print(f"at the end of each: cases {gain:.2f} in {time:.0f} s, mean {at_end:.2f} in {plain_time:.0f} s")
    reached = gain >= 2 * at_equal > 0 or gain > 0 >= at_equal or (gain >= at_end and 2 * time <= plain_time)
    print(f"twice as much at equal time, or as much in half the time: {'yes' if reached else 'MISSED'}")


if __name__ == "__main__":
    main()
