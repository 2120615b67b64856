"""An agent that forges what goalseek stored: its arguments are attacks, one for each iteration. 999 is its number."""

import hashlib
import hmac
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PLACES = json.loads("""{}""")
TOP = Path(PLACES["top"])
LOGS = TOP / ".goalseek/demo/logs"
RUNS = TOP / ".goalseek/demo/runs"
OWN = TOP / ".git/goalseek/demo"
LEDGER = "refs/goalseek/demo/ledger"
TIP = "refs/goalseek/demo/tip"
BRANCH = "refs/heads/goalseek/demo"


def git(*words: str, told: str = "") -> str:
    identity = "-c safe.directory=* -c user.name=goalseek -c user.email=goalseek@localhost".split()
    command = ["git", *identity, "-C", str(TOP), *words]
    return subprocess.run(command, input=told, capture_output=True, text=True, check=True).stdout.strip()


def edit(path: Path, change: Callable[[str], str]) -> None:
    text = path.read_text()
    changed = change(text)
    assert changed != text, f"{path} has nothing to forge"
    path.write_text(changed)


def better(text: str) -> str:
    """Every value is 999."""
    return re.sub(r'"value": ?[0-9.]+', '"value":999.0', text)


def line(row: dict[str, Any]) -> str:
    return json.dumps(row, separators=(",", ":"))


def stolen_seal(*parts: str) -> str:
    """A seal as goalseek makes it, with the secret that lies in the user's repository."""
    secret = (OWN / "secret").read_bytes()
    key = hashlib.sha256(b"goalseek key\0" + secret).hexdigest()[:8]
    joined = b"".join(len(raw).to_bytes(8, "big") + raw for raw in (part.encode() for part in parts))
    return f"{key}-{hmac.new(secret, joined, hashlib.sha256).hexdigest()}"


def last_record() -> dict[str, Any]:
    """The newest record; below the subject, its line is the body of the commit's message."""
    return dict(json.loads(git("log", "-1", "--format=%b", LEDGER)))


def next_record(seal: Callable[[str, str], str]) -> tuple[str, str, str]:
    """A keep that never was: its line, the ledger's head, and the candidate of its own making."""
    head, tip = git("rev-parse", LEDGER), git("rev-parse", TIP)
    row = last_record()
    tree = git("rev-parse", f"{tip}^{{tree}}")
    number = row["iteration"] + 1
    trailers = f"Goalseek-Project: demo\nGoalseek-Run: {row['run_id']}\nGoalseek-Iteration: {number}\n"
    made = git("commit-tree", tree, "-p", tip, told=f"forged\n\n{trailers}Goalseek-Provider: command\n")
    metric = {**row["metric"], "value": 999.0, "incumbent": 1.0, "delta": 998.0}
    forged = {
        **row,
        "seq": row["seq"] + 1,
        "iteration": number,
        "outcome": "kept",
        "reason": "better",
        "why": "999 beats 1 by 998",
        "metric": metric,
        "commit_hash": made,
        "parent_commit_hash": tip,
        "base_commit_hash": tip,
        "rollback_commit_hash": None,
        "tree_hash": tree,
        "changed_files": [],
        "run_dir": f"runs/{number:04d}",
        "seal": "",
    }
    return line({**forged, "seal": seal(head, line(forged))}), head, made


def ledger_with(seal: Callable[[str, str], str]) -> None:
    forged, head, made = next_record(seal)
    message = f"goalseek {json.loads(forged)['iteration']} kept better\n\n{forged}\n"
    commit = git("commit-tree", f"{head}^{{tree}}", "-p", head, "-p", made, told=message)
    git("update-ref", LEDGER, commit)
    git("update-ref", TIP, made)
    git("update-ref", BRANCH, made)


def a_line_more_in_the_log() -> None:
    forged, _, _ = next_record(lambda head, body: "0" * 73)
    with (LOGS / "results.jsonl").open("a") as file:
        file.write(forged + "\n")


def the_snapshot() -> None:
    last = (LOGS / "results.jsonl").read_bytes().splitlines()[-1]
    head = {"offset": (LOGS / "results.jsonl").stat().st_size - len(last) - 1, "line": hashlib.sha256(last).hexdigest()}
    row = json.loads(last)
    best = {"seq": row["seq"], "iteration": 0, "value": 999.0, "commit": row["commit_hash"], "tree": row["tree_hash"]}
    body = line(
        {
            "metric": "score",
            "direction": "maximize",
            "seq": row["seq"],
            "last_iteration": row["iteration"],
            "run_id": row["run_id"],
            "best": best,
        }
    )
    (LOGS / "standing.json").write_text(json.dumps({**head, "seal": "0" * 73}) + "\n" + body + "\n")


def store_ahead(name: str) -> None:
    """An answer of this iteration, or of the next one, before there is one."""
    stored = (RUNS / "0000" / name).read_text()
    for ahead in (0, 1):
        folder = RUNS / f"{int(os.environ['GOALSEEK_ITERATION']) + ahead:04d}"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(better(stored))


def the_plan_and_prompt() -> None:
    folder = RUNS / f"{int(os.environ['GOALSEEK_ITERATION']):04d}"
    edit(folder / "plan.json", lambda text: text.replace('"title":""', '"title":"999"'))
    (folder / "prompt.md").write_text("999")


def a_record_with_a_seal_of_our_key() -> None:
    key = last_record()["seal"].split("-")[0]
    ledger_with(lambda head, body: f"{key}-{'0' * 64}")


FORGERIES: dict[str, Callable[[], object]] = {
    "a_line_of_the_log": lambda: edit(LOGS / "results.jsonl", better),
    "the_picture": lambda: edit(LOGS / "state.json", better),
    "the_evidence": lambda: edit(RUNS / "0000/evidence.json", better),
    "the_verdict": lambda: edit(RUNS / "0000/verdict.json", better),
    "the_result": lambda: edit(RUNS / "0000/result.json", better),
    "the_evidence_to_come": lambda: store_ahead("evidence.json"),
    "the_verdict_to_come": lambda: store_ahead("verdict.json"),
    "a_record_in_the_ledger": lambda: ledger_with(lambda head, body: ""),
    "a_record_with_the_stolen_secret": lambda: ledger_with(lambda head, body: stolen_seal("record", head, body)),
    "the_ledger_set_back": lambda: git("update-ref", LEDGER, f"{LEDGER}~1"),
    "the_tip": lambda: git("update-ref", TIP, git("commit-tree", f"{TIP}^{{tree}}", "-p", TIP, told="999")),
    "the_branch": lambda: git("update-ref", BRANCH, git("commit-tree", f"{TIP}^{{tree}}", "-p", TIP, told="999")),
}


if __name__ == "__main__":
    sys.stdin.read()
    number = int(os.environ["GOALSEEK_ITERATION"])
    name, got = sys.argv[number], ""
    if name != "honest":
        try:
            (FORGERIES.get(name) or globals()[name])()
            got = "forged"
        except (OSError, subprocess.CalledProcessError, ValueError, AssertionError) as error:
            got = f"! {type(error).__name__}: {error}"
    print("a title")
    print("LOOT " + json.dumps(got), flush=True)
    Path("answer.json").write_text(f'{{"score": {1 + number / 100},\n"size": 10\n}}\n')
