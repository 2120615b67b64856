"""What stacking gains through the command line: the same climbs with ``search.stack = "none"`` and ``"auto"``.

    python tests/benchmarks/stacking.py [--climbs 6] [--runs 150] [--seed 1] [--svg goalseek/guide/stacking.svg]

A repository has 24 files, and a scripted agent sets each of them in turn to one of three options. A quarter of these
gain 0.3 to 1 sd of one run of the verifier, too little to be recognized alone; the others do nothing or harm. Both
climbs of a pair have the same landscape, moves and number of verifier runs. Printed is the true gain of what was kept;
the picture shows it over the runs.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path
from statistics import fmean, stdev

FILES, OPTIONS = 24, 3
VERIFIER = """\
import json, os, pathlib, random, sys
runs = pathlib.Path(os.environ["RUNS"])
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
if len(runs.read_text()) > int(os.environ["MOST_RUNS"]):
    sys.exit("no run is left")
effects = json.loads(pathlib.Path("hidden/effects.json").read_text())
gain = sum(row[int(pathlib.Path(f"part{number:02d}.txt").read_text())] for number, row in enumerate(effects))
noise = random.Random(int(os.environ["GOALSEEK_SEED"])).gauss(0, 1)
print("score:", 100 + gain + noise)
"""
MANIFEST = """\
version = 1
project.name = "parts"
scope = {{ writable = ["part*.txt"], hidden = ["hidden/**"] }}
metric = {{ direction = "maximize", regex = 'score: (\\S+)', name = "score", settle = "none" }}
provider = {{ name = "scripted", script = "../moves.toml" }}
search.stack = "{stack}"
env.verify = {{ pass = ["RUNS", "MOST_RUNS"] }}
limits = {{ stagnation = "none", failures = 1 }}
sandbox.mode = "none"
[[verify]]
run = ["{python}", "hidden/verify.py"]
sees = "both"
"""
IDENTITY = {f"GIT_{who}_{what}": "bench" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
Steps = list[tuple[int, float]]


def effects_of(draw: random.Random) -> list[list[float]]:
    """For each file the gain of each of its options, in sd of one run; the first is what it has at the beginning."""

    def effect() -> float:
        if draw.random() < 0.25:
            return draw.uniform(0.3, 1.0)
        return -draw.uniform(0, 2) if draw.random() < 0.6 else 0.0

    return [[0.0, *(effect() for _ in range(OPTIONS))] for _ in range(FILES)]


def climb(folder: Path, stack: str, seed: int, runs: int) -> tuple[Steps, int]:
    """One climb of so many verifier runs, or until each move was tried four times: the true gain after each kept change, and how many sets were tried."""
    effects, top = effects_of(random.Random(seed)), folder / "parts"
    (top / "hidden").mkdir(parents=True)
    for number in range(FILES):
        (top / f"part{number:02d}.txt").write_text("0\n")
    (top / "hidden" / "verify.py").write_text(VERIFIER)
    (top / "hidden" / "effects.json").write_text(json.dumps(effects))
    (top / "goalseek.toml").write_text(MANIFEST.format(stack=stack, python=sys.executable))
    moves = [(number, option) for option in range(1, OPTIONS + 1) for number in range(FILES)]
    random.Random(seed + 1).shuffle(moves)
    tables = (
        f'[[move]]\ntitle = "option {option} of part {number}"\nfiles = {{ "part{number:02d}.txt" = "{option}\\n" }}\n'
        for number, option in moves * 4
    )
    (folder / "moves.toml").write_text("".join(tables))
    variables = {**os.environ, **IDENTITY, "RUNS": str(folder / "runs"), "MOST_RUNS": str(runs)}
    commands = (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"])
    for command in (
        *(["git", *words] for words in commands),
        [sys.executable, "-m", "goalseek", "iterate", "-n", "999"],
    ):
        done = subprocess.run(command, cwd=top, env=variables, capture_output=True, text=True, timeout=3600)
        is_over = any(end in done.stderr for end in ("crashed", "no run is left", "the provider failed"))
        if done.returncode and (command[0] == "git" or not is_over):
            raise SystemExit(f"{command}: {done.stderr}")
    return _steps(top, effects)


def _steps(top: Path, effects: Sequence[Sequence[float]]) -> tuple[Steps, int]:
    lines = (top / ".goalseek" / "parts" / "logs" / "results.jsonl").read_text().splitlines()
    records = [record for line in lines if (record := json.loads(line))["kind"] == "iteration"]
    steps, runs = [(0, 0.0)], 0
    for record in records:
        runs += len(record["runs"])
        if record["outcome"] == "kept":
            names = [f"{record['commit_hash']}:part{number:02d}.txt" for number in range(FILES)]
            shown = subprocess.run(
                ["git", "show", *names], cwd=top, capture_output=True, text=True, timeout=60, check=True
            )
            options = map(int, shown.stdout.split())
            steps.append((runs, sum(row[option] for row, option in zip(effects, options, strict=True))))
    return steps, sum("stacked" in record for record in records)


def gain_at(steps: Steps, runs: int) -> float:
    """The true gain that a climb had after so many runs."""
    return next(gain for at, gain in reversed(steps) if at <= runs)


COLOURS = {"none": "#818c98", "auto": "#1a7f4b"}


def draw(climbs: dict[str, list[Steps]], runs: int) -> str:
    """The picture: the true gain over the verifier runs, a thin line for each climb and a thick one for their mean."""
    at = range(0, runs + 1, max(1, runs // 150))
    most = max(1.0, *(gain_at(steps, runs) for each in climbs.values() for steps in each))
    ticks = range(0, int(most) + 2, max(1, round(most / 5)))

    def place(count: int, gain: float) -> str:
        return f"{60 + 620 * count / runs:.1f} {320 - 270 * gain / ticks[-1]:.1f}"

    parts = [f'<path d="M{place(0, tick)}H680" stroke="#e3e7eb"/>' for tick in ticks]
    parts += [f'<text x="50" y="{place(0, tick).split()[1]}" dy="4" text-anchor="end">{tick}</text>' for tick in ticks]
    parts += [
        f'<text x="{60 + 620 * part / 5:.0f}" y="342" text-anchor="middle">{runs * part // 5}</text>'
        for part in range(6)
    ]
    for stack, each in climbs.items():
        lines = [([gain_at(steps, count) for count in at], 1, 0.3) for steps in each]
        lines.append(([fmean(gain_at(steps, count) for steps in each) for count in at], 3, 1.0))
        for gains, width, opacity in lines:
            points = " ".join(place(count, gain) for count, gain in zip(at, gains, strict=True))
            style = f'stroke="{COLOURS[stack]}" stroke-width="{width}" stroke-opacity="{opacity}"'
            parts.append(f'<polyline points="{points}" {style}/>')
    for row, (stack, colour) in enumerate(COLOURS.items()):
        label = escape(f'stack = "{stack}"', quote=False)
        parts.append(f'<path d="M76 {12 + 20 * row}h24" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<text x="108" y="{17 + 20 * row}">{label}, the mean of {len(climbs[stack])} climbs</text>')
    parts.append('<text x="680" y="364" text-anchor="end">runs of the verifier</text>')
    parts.append('<text x="60" y="364">true gain, in sd of one run</text>')
    style = "text{font:14px system-ui,sans-serif;fill:#52606d}path,polyline{fill:none}"
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 380" width="700" height="380" role="img">'
    title = f"<title>The true gain over {runs} runs of the verifier, with and without stacking</title>"
    paper = '<rect width="700" height="380" fill="#fff"/>'
    return "\n".join([head, title, f"<style>{style}</style>", paper, *parts, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--climbs", type=int, default=6)
    parser.add_argument("--runs", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--svg", type=Path, help="where to draw the picture")
    options = parser.parse_args()
    climbs: dict[str, list[Steps]] = {stack: [] for stack in COLOURS}
    for seed in range(options.seed, options.seed + options.climbs):
        for stack, each in climbs.items():
            with tempfile.TemporaryDirectory() as folder:
                steps, sets = climb(Path(folder), stack, seed, options.runs)
            each.append(steps)
            gain = gain_at(steps, options.runs)
            print(f"climb {seed} {stack:5} gain {gain:5.2f}  kept {len(steps) - 1:2}  sets {sets}", flush=True)
        if options.svg:
            options.svg.write_text(draw(climbs, options.runs))
    gains = {stack: [gain_at(steps, options.runs) for steps in each] for stack, each in climbs.items()}
    differences = [after - before for before, after in zip(*gains.values(), strict=True)]
    for name, values in {**gains, "auto more": differences}.items():
        error = stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
        print(f"{name:10} gain {fmean(values):5.2f} ± {error:.2f}")


if __name__ == "__main__":
    main()
