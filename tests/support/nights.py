"""Records of nights that never were, by the contract's names: for views that must hold with any number of them."""

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]
HOSTILE = (
    "</script><script>window.owned=1</script>",
    "<img src=x onerror=window.owned=1>",
    '"><svg onload=window.owned=1>',
    "javascript:window.owned=1",
    "<!--<script>",
    "]]><script>window.owned=1</script>",
    "'onmouseover='window.owned=1",
    "{{constructor.constructor('window.owned=1')()}}",
    "\u202eexe.txt \u2028 \x1b[2J \ud800 \x00 \u2066",
    "[a](javascript:window.owned=1) ![x](http://192.0.2.1/x.png) @everyone #1 `` ` ``` |",
    "</style><style>@import 'http://192.0.2.1/x.css'",
    '"a\\nb\\302\\240<b>c</b>"',
)
LONG = ("x" * 1_000_000, "<b>" * 400_000, "\u202e" + "\U0001f600" * 300_000, "word " * 200_000)
_REASONS = (
    ("reverted", "worse"),
    ("reverted", "within_noise"),
    ("reverted", "tie"),
    ("reverted", "guard"),
    ("reverted", "verify_failed"),
    ("reverted", "verify_timeout"),
    ("skipped", "no_change"),
    ("skipped", "out_of_scope"),
    ("skipped", "provider_timeout"),
)
_UNMEASURED = ("verify_failed", "verify_timeout", "no_change", "out_of_scope", "provider_timeout")
_IDEAS = ("A wider first layer", "Warm up the learning rate", "Drop the last norm", "Smaller batches, more of them")


def night(tries: int, seed: int = 0, texts: Iterable[str] = (), noise: float = 0.01) -> Iterator[Row]:
    """A run, its baseline and so many tries of a metric to minimize that moves by ``noise``; texts go everywhere."""
    chance, titles = random.Random(seed), list(texts)
    truth = best = 3.412
    head = {"schema": 1, "project": "night", "run_id": "r", "epoch": 0}
    yield {**head, "seq": 0, "kind": "run", "timestamp": stamp(0), "began": "first", "versions": {"goalseek": "0.1.0"}}
    for number in range(tries + 1):
        outcome, reason = ("baseline", "measured") if not number else chance.choice(_REASONS)
        value: float | None = best
        if number:
            value = truth * (1 + abs(chance.gauss(0, 0.03))) + chance.gauss(0, noise)
            if chance.random() < 6 / (number + 12):
                outcome, reason = "kept", "better"
                truth *= 1 - chance.random() * 0.02
                value = truth + chance.gauss(0, noise / 3)
        if reason in _UNMEASURED:
            value = None
        title = titles[number % len(titles)] if titles else f"{chance.choice(_IDEAS)}, {number}"
        yield {
            **head,
            "seq": number + 1,
            "kind": "iteration",
            "timestamp": stamp(1 + number * 40 + (3600 if number > tries / 2 else 0)),
            "iteration": number,
            "outcome": outcome,
            "reason": reason,
            "why": titles[-1 - number % len(titles)] if titles else f"{number}: {reason} by so much",
            "metric": metric(value, best if number else None, 9.5 if outcome == "kept" else None),
            "runs": runs(chance, value, noise),
            "guards": {"size_kb": 400.0 + number % 7} if value is not None else {},
            "commit_hash": f"{number:040x}",
            "tree_hash": f"{number + 10**9:040x}",
            "parent_commit_hash": f"{max(0, number - 1):040x}",
            "changed_files": [titles[number % len(titles)]] if titles else ["src/model.py"],
            "changed_loc": 12,
            "hypothesis_summary": title if number else "",
            "provider": "claude",
            "model": "large",
            "usage": {"input_tokens": 5000, "cached_tokens": 900, "output_tokens": 700, "cost_usd": 0.13},
            "seconds": {"READ_CONTEXT": 0.2, "PLAN": 4.0, "APPLY_CHANGE": 9.5, "VERIFY": 24.0, "DECIDE": 0.01},
            "verify": [{"name": "train", "exit_code": 0, "seconds": 23.0, "killed": int(number == 3)}],
            "isolation": {"sandbox": "bubblewrap", "verifier": "hidden"},
            "run_dir": f"runs/{number:04d}",
            "notes": ["a call in APPLY_CHANGE came to no answer; it is charged 6000 tokens"] if number == 4 else [],
        }
        best = value if outcome == "kept" and value is not None else best


def settled(number: int) -> Row:
    """Baseline and best measured afresh after so many iterations."""
    found = {
        "pairs": [[3.41, 3.3725]] * 5,
        "difference": 0.011,
        "interval": [0.008, 0.014],
        "baseline": 3.41,
        "best": 3.3725,
    }
    return {**_late(number), "kind": "settle", **found, "in_percent": True, "seconds": 240.0}


def looked(number: int, look: int = 1, value: float | None = 3.39) -> Row:
    return {**_late(number), "kind": "holdout", "look": look, "value": value, "gap": 0.004}


def hostile_night(tries: int, texts: tuple[str, ...] = HOSTILE) -> Iterator[Row]:
    """A night whose every text, of whatever field, was written by somebody who means harm."""

    def text(number: int) -> str:
        return texts[number % len(texts)]

    for place, row in enumerate(night(tries, texts=texts)):
        row["project"] = text(0)
        if row["kind"] == "run":
            yield {**row, "began": text(1), "versions": {text(2): text(3)}, "run_id": text(4)}
            continue
        row["metric"]["name"] = text(1)
        row["guards"] = {text(2): 1.0, text(3): 2.0}
        row["provider"], row["model"] = text(place), text(place + 1)
        row["isolation"] = {"sandbox": text(4), "verifier": text(5)}
        row["verify"] = [{"name": text(place + number), "seconds": 1.0, "killed": 2} for number in range(2)]
        row["notes"] = [text(place), f"waited 3m 00s: {text(place)}", f"review: {text(place + 1)}"]
        row["seconds"] = {**row["seconds"], text(place): 1.0}
        row["changed_files"] = [text(place + number) for number in range(12)]
        if place % 2:
            row["reason"], row["commit_hash"], row["timestamp"] = text(2), text(3), text(6)
        yield row
    yield {**settled(tries), "why": text(0), "metric": text(1)}
    yield {**looked(tries), "of": text(2), "why": text(3), "reason": "failed", "value": None}
    yield {**looked(tries, 2), "of": text(4)}


def late(number: int, kind: str, at: float, **more: Any) -> Row:
    """Another record, so many seconds into the night."""
    return {**_late(number), "kind": kind, "timestamp": stamp(at), **more}


def write(path: Path, rows: Iterable[Row]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        file.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    return path


def stamp(seconds: float) -> str:
    minutes, days = int(seconds // 60), int(seconds // 86400)
    return f"2026-{1 + days // 28 % 12:02d}-{1 + days % 28:02d}T{minutes // 60 % 24:02d}:{minutes % 60:02d}:{int(seconds % 60):02d}Z"


def metric(value: float | None, incumbent: float | None, odds: float | None) -> Row:
    delta = incumbent - value if value is not None and incumbent is not None else None
    return {
        "name": "val_loss",
        "direction": "minimize",
        "value": value,
        "incumbent": incumbent,
        "delta": delta,
        "odds": odds,
    }


def runs(chance: random.Random, value: float | None, noise: float) -> list[Row]:
    """One run of the candidate, and some of it and of the incumbent."""
    if value is None:
        return []
    made = [{"of": "candidate", "value": value, "seed": 1, "seconds": 24.0}]
    for of in ("candidate", "incumbent", "incumbent"):
        made.append({"of": of, "value": value + chance.gauss(0, noise), "seed": 2, "seconds": 24.0})
    return made


def _late(number: int) -> Row:
    seconds = 4000 + number * 40
    return {"schema": 1, "seq": 10**6, "project": "night", "run_id": "r", "epoch": 0, "timestamp": stamp(seconds)}
