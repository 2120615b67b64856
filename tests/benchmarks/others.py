"""goalseek beside labloop, hca, OpenEvolve and Optuna: what each reports where no change does anything, and after kills.

    python tests/benchmarks/others.py /path/to/venv/bin [--candidates 60] [--nights 5] [--kills 10]

That environment holds the others (``pip install labloop hillclimbanything openevolve optuna``). In the first part the metric is
noise alone, normal with sd 1, and each candidate a comment: what is kept, and the gain that is reported, are luck. In
the second part the tool is killed while a measurement runs, and called again: each proposal was paid for, so those that
no measurement followed are lost. Optuna proposes no edits; its trials are numbers that the metric does not depend on. hca compares in percent, so its
metric has the mean 100.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

NOISE = 'import random, time\ntime.sleep({seconds})\nprint("score:", random.gauss(0, 1))\n'
PROPOSE = """import os, pathlib
with open(os.environ["PAID"], "a") as paid:
    paid.write("a call\\n")
idea = len(pathlib.Path(os.environ["PAID"]).read_text().splitlines())
with open("solution.py", "a") as code:
    code.write(f"# idea {idea}\\n")
print("a comment")
"""
MANIFEST = """version = 1
project.name = "noise"
scope.writable = ["solution.py"]
metric = {{ direction = "maximize", regex = 'score: (\\S+)', name = "score" }}
provider = {{ name = "command", command = ["{python}", "propose.py"] }}
env.agent.pass = ["PAID"]
limits.stagnation = "none"
sandbox.mode = "none"
[[verify]]
run = ["{python}", "run.py"]
"""
EVALUATOR = """import random
def evaluate(path):
    return {"combined_score": random.gauss(0, 1)}
"""
CONFIG = """max_iterations: {count}
checkpoint_interval: {count}
log_level: ERROR
random_seed: null
diff_based_evolution: false
llm: {{api_base: "{url}", api_key: "none", models: [{{name: "scripted", weight: 1.0}}]}}
database: {{random_seed: null, in_memory: true}}
evaluator: {{cascade_evaluation: false, parallel_evaluations: 1}}
"""
HCA = """[task]
name = "noise"
editable = ["solution.py"]
frozen = ["measure.py"]
[objective]
command = ["{python}", "measure.py"]
metric = "score"
direction = "max"
useful_effect = "2%"
"""
OPTUNA = """import random, sys, optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.create_study(direction="maximize")
study.enqueue_trial({"x": 0.5})
study.optimize(lambda t: random.gauss(0, 1) + 0 * t.suggest_float("x", 0, 1), n_trials=int(sys.argv[1]) + 1)
values = [trial.value for trial in study.trials]
bests = [max(values[: n + 1]) for n in range(len(values))]
print(sum(a < b for a, b in zip(bests, bests[1:])), study.best_value - values[0], len(values))
"""


class Model(BaseHTTPRequestHandler):
    """A model that answers each question with the same program and another comment."""

    answers = iter(range(10**6))

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": f"```python\nx = 1  # idea {next(self.answers)}\n```"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        body = json.dumps({"id": "a", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())


Result = tuple[int, float, int]  # kept, the gain that is reported, measurements made


def repository(folder: Path, seconds: float = 0.0) -> Path:
    """A repository with the noise as its metric."""
    folder.mkdir()
    files = {
        "solution.py": "",
        "run.py": NOISE.format(seconds=seconds),
        "propose.py": PROPOSE,
        "goalseek.toml": MANIFEST.format(python=sys.executable),
        ".gitignore": "labloop.jsonl*\n.goalseek\n.hca\n",
        "measure.py": 'import random\nprint(f"METRIC score={100 + random.gauss(0, 1)}")\n',
        "hca.toml": HCA.format(python=sys.executable),
        "BRIEF.md": "",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "noise"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True)
    for key, value in (("user.name", "a"), ("user.email", "a@b")):
        subprocess.run(["git", "config", key, value], cwd=folder, check=True)
    return folder


def run(words: list[str], folder: Path, paid: Path) -> str:
    """The standard output of a command that has to succeed."""
    environment = {**os.environ, "PAID": str(paid), "HOME": str(paid.parent), "XDG_CACHE_HOME": str(paid.parent / "c")}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=3600)
    if done.returncode:
        raise SystemExit(f"{words} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def goalseek_words(count: int) -> list[str]:
    return [sys.executable, "-m", "goalseek", "-q", "iterate", "-n", str(count)]


def goalseek_night(bin: Path, folder: Path, count: int) -> Result:
    """What goalseek keeps and reports: nothing where it kept nothing."""
    run(goalseek_words(count), repository(folder), folder.parent / "paid")
    records = read_goalseek(folder)
    kept = [record for record in records if record["outcome"] == "kept"]
    values = [record["metric"]["value"] for record in records if record["outcome"] in ("baseline", "kept")]
    return len(kept), values[-1] - values[0], sum(len(record["runs"]) for record in records)


def read_goalseek(folder: Path) -> list[dict]:
    lines = (folder / ".goalseek/noise/logs/results.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == "iteration"]


def labloop_words(bin: Path, verb: str, *more: str) -> list[str]:
    words = [str(bin / "labloop"), verb, "--run", f"{sys.executable} run.py", "--metric", "score"]
    return [*words, "--goal", "maximize", "--protect", "run.py", *more]


def labloop_run(bin: Path, count: int, *more: str) -> list[str]:
    propose = ["--propose", f"{sys.executable} propose.py", "--trials", str(count), "--sandbox", "none"]
    return labloop_words(bin, "run", *propose, "--budget", "60", "--give-up-after", "0", *more)


def labloop_night(bin: Path, folder: Path, count: int, *more: str) -> Result:
    """What labloop keeps and reports."""
    paid = folder.parent / "paid"
    run(labloop_words(bin, "baseline"), repository(folder), paid)
    run(labloop_run(bin, count, *more), folder, paid)
    trials = read_labloop(folder)
    kept = [trial["metric"] for trial in trials if trial["outcome"] == "kept"]  # the first is the baseline
    return len(kept) - 1, kept[-1] - kept[0], len(trials)


def read_labloop(folder: Path) -> list[dict]:
    rows = map(json.loads, (folder / "labloop.jsonl").read_text().splitlines())
    return [row for row in rows if "outcome" in row]


def labloop_confirmed(bin: Path, folder: Path, count: int) -> Result:
    return labloop_night(bin, folder, count, "--confirm")


def hca_night(bin: Path, folder: Path, count: int) -> Result:
    """What hca keeps and confirms."""
    paid = folder.parent / "paid"
    run([str(bin / "hca"), "init"], repository(folder), paid)
    for number in range(count):
        with (folder / "solution.py").open("a") as code:
            code.write(f"# idea {number}\n")
        run(["sh", "-c", f"{bin}/hca try -m 'idea {number}' || [ $? = 1 ]"], folder, paid)  # 1: reverted
    verdicts = [json.loads(path.read_text()) for path in folder.glob(".hca/attempts/*/verdict.json")]
    kept = [verdict["estimate"] for verdict in verdicts if verdict["verdict"] == "keep"]
    runs = sum(len(path.read_text().splitlines()) for path in folder.glob(".hca/**/runs.jsonl"))
    return len(kept), sum(kept), runs


def openevolve_night(bin: Path, folder: Path, count: int) -> Result:
    """What OpenEvolve reports as its best program, at a model that answers with a comment."""
    folder.mkdir()
    (folder / "first.py").write_text("# EVOLVE-BLOCK-START\nx = 1\n# EVOLVE-BLOCK-END\n")
    (folder / "evaluator.py").write_text(EVALUATOR)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    (folder / "config.yaml").write_text(CONFIG.format(count=count, url=url))
    words = [str(bin / "openevolve-run"), "first.py", "evaluator.py", "-c", "config.yaml", "-o", "out"]
    run([*words, "-i", str(count)], folder, folder.parent / "paid")
    server.shutdown()
    stored = [json.loads(path.read_text()) for path in folder.glob("out/checkpoints/*/programs/*.json")]
    scores = [p["metrics"]["combined_score"] for p in sorted(stored, key=lambda p: p["iteration_found"])]
    bests = [max(scores[: n + 1]) for n in range(len(scores))]
    return sum(a < b for a, b in pairwise(bests)), bests[-1] - scores[0], len(scores)


def optuna_night(bin: Path, folder: Path, count: int) -> Result:
    """What Optuna reports as its best trial."""
    folder.mkdir()
    kept, gain, runs = run([str(bin / "python"), "-c", OPTUNA, str(count)], folder, folder.parent / "paid").split()
    return int(kept), float(gain), int(runs)


NIGHTS: dict[str, Callable[[Path, Path, int], Result]] = {
    "goalseek": goalseek_night,
    "labloop": labloop_night,
    "labloop --confirm": labloop_confirmed,
    "hca": hca_night,
    "OpenEvolve": openevolve_night,
    "Optuna": optuna_night,
}


def killed(name: str, bin: Path, folder: Path, kills: int) -> tuple[int, int]:
    """Proposals paid for, and how many of them were measured, where so many measurements were killed."""
    paid = folder.parent / f"paid {name}"
    paid.touch()
    repository(folder, 1.0)
    is_labloop = name == "labloop"
    if is_labloop:
        run(labloop_words(bin, "baseline"), folder, paid)
    else:
        run([*goalseek_words(1)], folder, paid)
    environment = {**os.environ, "PAID": str(paid), "HOME": str(paid.parent), "XDG_CACHE_HOME": str(paid.parent / "c")}
    words = labloop_run(bin, 1) if is_labloop else goalseek_words(1)
    for _ in range(kills):
        before = len(paid.read_text().splitlines())
        program = subprocess.Popen(words, cwd=folder, env=environment, stdout=-3, stderr=-3, start_new_session=True)
        while len(paid.read_text().splitlines()) == before and program.poll() is None:
            time.sleep(0.02)
        time.sleep(0.4)
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
        if is_labloop:  # it asks for this before it goes on
            subprocess.run("git reset -q --hard && git clean -qfd", shell=True, cwd=folder, check=True)
        run(words, folder, paid)
    if is_labloop:
        measured = len([row for row in read_labloop(folder) if row["metric"] is not None]) - 1
    else:
        measured = len([record for record in read_goalseek(folder) if record["outcome"] != "baseline"])
    return len(paid.read_text().splitlines()), measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=Path)
    parser.add_argument("--candidates", type=int, default=60)
    parser.add_argument("--nights", type=int, default=5)
    parser.add_argument("--kills", type=int, default=10)
    options = parser.parse_args()
    asked = "from importlib.metadata import version as v; print(*map(v, ('labloop', 'hillclimbanything', 'openevolve', 'optuna')))"
    print("goalseek", version("goalseek"), "| labloop, hca, openevolve, optuna:", end=" ", flush=True)
    subprocess.run([options.bin / "python", "-c", asked], check=True)
    for name, night in NIGHTS.items():
        results = []
        for _ in range(options.nights):
            with tempfile.TemporaryDirectory() as folder:
                results.append(night(options.bin, Path(folder) / "repository", options.candidates))
        kept, gains, runs = (statistics.median(column) for column in zip(*results, strict=True))
        print(f"{name:20} kept {kept:g} of {options.candidates}, reports a gain of {gains:.2f} sd, {runs:g} runs")
    for name in ("goalseek", "labloop"):
        with tempfile.TemporaryDirectory() as folder:
            paid, measured = killed(name, options.bin, Path(folder) / "repository", options.kills)
        print(f"{name:20} {options.kills} kills: {paid} proposals paid for, {measured} measured")


if __name__ == "__main__":
    main()
