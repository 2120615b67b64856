"""A try: the time of ``goalseek try`` itself, and from its request to the start of its measurement.

    python tests/benchmarks/tries.py [--rounds 15]

Wanted: the client takes at most 90 ms more than ``python -c pass``; a climb with several at once, whose agents are at work,
starts to measure a try at most 30 ms later than after the phases that any iteration has before its measurement. What
is printed is milliseconds of the wall clock, the median and the least of the rounds.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MANIFEST = """\
version = 1
[project]
name = "bench"
[metric]
query = "score"
direction = "maximize"
noise = "none"
[scope]
writable = ["answer.txt"]
hidden = ["judge.sh"]
[sandbox]
mode = "none"
[provider]
name = "command"
command = ["sleep", "600"]
timeout = "11m"
[parallel]
agents = 1
benches = 2
[[verify]]
name = "judge"
run = "sh judge.sh"
sees = "both"
"""
JUDGE = """\
began=$(date +%s.%N)
printf '{"score": %s, "began": %s}\\n' "$(cat answer.txt)" "$began" > "$GOALSEEK_RUN_DIR/metrics.json"
"""
GOALSEEK = [sys.executable, "-m", "goalseek"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="goalseek-benchmark-") as place:
        home, top = Path(place, "home"), Path(place, "project")
        home.mkdir()
        identity = {f"GIT_{who}_{what}": "bench" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        os.environ.update({"HOME": str(home), **identity})
        top.mkdir()
        for name, text in (("goalseek.toml", MANIFEST), ("judge.sh", JUDGE), ("answer.txt", "0\n")):
            (top / name).write_text(text)
        for words in (["git", "init", "-q"], ["git", "add", "-A"], ["git", "commit", "-qm", "first"]):
            subprocess.run(words, cwd=top, check=True, timeout=120)
        seconds("baseline", top=top)
        climb = subprocess.Popen([*GOALSEEK, "-q", "iterate", "-n", "1"], cwd=top)
        try:
            measure(top, options.rounds)
        finally:
            climb.terminate()
            climb.wait(60)


def measure(top: Path, rounds: int) -> None:
    bare, client, beyond = list[float](), list[float](), list[float]()
    for number in range(1, rounds + 1):
        (top / "answer.txt").write_text(f"{number}\n")
        bare.append(seconds(words=[sys.executable, "-c", "pass"], top=top))
        client.append(seconds("try", "--wait", "0", top=top))
        requested = (top / ".git" / "goalseek" / "bench" / "tries").stat().st_mtime
        seconds("wait", "--wait", "60s", top=top)
        lines = (top / ".goalseek" / "bench" / "logs" / "results.jsonl").read_text().splitlines()
        record = json.loads(lines[-1])
        began = json.loads((top / ".goalseek" / "bench" / record["run_dir"] / "metrics.json").read_text())["began"]
        own = sum(record["seconds"].get(phase, 0.0) for phase in ("READ_CONTEXT", "PLAN", "APPLY_CHANGE", "COMMIT"))
        beyond.append(began - requested - own)
    for name, values in (
        ("the client, beyond python -c pass", [one - base for one, base in zip(client, bare, strict=True)]),
        ("request to measurement, beyond an iteration's own phases", beyond),
    ):
        print(f"{name}: {1000 * statistics.median(values):.0f} ms, least {1000 * min(values):.0f} ms")


def seconds(*words: str, top: Path, **given: list[str]) -> float:
    began = time.perf_counter()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(given.get("words") or [*GOALSEEK, *words], cwd=top, timeout=120, **quiet)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
