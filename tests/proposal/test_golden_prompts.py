"""The prompts of one night, as a person has read them: the folder of this name has each of them.

They are written anew by ``python tests/proposal/test_golden_prompts.py``; read the difference before it is committed.
"""

import itertools
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace
from records import iteration

from goalseek.ledger.standing import MeasuredCommit, Spend, Standing
from goalseek.manifest import tables
from goalseek.phase_values import Ahead, Context, PastIteration, Plan, VisibleFile
from goalseek.proposal.brief import make_brief
from goalseek.proposal.past_tries import Archive, read_history
from goalseek.proposal.prompt import Problem, Prompts, Request, ReviewSubject, make_prompts
from goalseek.providers.prompt_templates import load_templates
from goalseek.statistics.noise import NoiseState, TimedRun
from goalseek.values import CommandRun, Usage
from goalseek.workspace.scope import build_scope

NONCE = "5F3A9C"
MANIFEST = tables.Manifest(
    version=1,
    project=tables.ProjectTable(name="digits"),
    scope=tables.ScopeTable(writable=("train.py", "model/**"), read_only=("data/**",), hidden=("judge/**",)),
    metric=tables.Metric(name="accuracy", direction="maximize", query="accuracy", min_delta=0.001, valid=(0.0, 1.0)),
    verify=(
        tables.VerifyCommand(
            run="python train.py --epochs 3", name="train", sees="candidate", outputs=("predictions.csv",)
        ),
        tables.VerifyCommand(run="python judge/score.py predictions.csv", name="score", sees="hidden", timeout=30.0),
    ),
    guard=(
        tables.Guard(name="parameters", query="parameters", max=50000.0),
        tables.Guard(name="seconds", max_increase="20%"),
    ),
    provider=tables.ProviderTable(name="claude"),
    limits=tables.Limits(tokens=2_000_000, cost_usd=10.0, stagnation=2),
)
PROGRAM = """\
# Digits

Train a classifier of 8x8 digits in `train.py`; it writes `predictions.csv`. Keep it in plain numpy.

LOOP FOREVER: commit each experiment, and note it in results.tsv."""
CRASH = 'Traceback (most recent call last):\n  File "train.py", line 41, in <module>\nValueError: shapes (64,32) and (64,10)'
PLAN = Plan(
    "Decay the learning rate by a cosine",
    "The loss still jumps in the last epoch: the step is too large there. A cosine decay from 0.1 to 0 over all steps "
    "should remove that. Expected: +0.01.",
    ("train.py",),
)
PATCH = b"""\
diff --git a/train.py b/train.py
--- a/train.py
+++ b/train.py
@@ -12,2 +12,2 @@
-    step = 0.1
+    step = 0.05 * (1 + math.cos(math.pi * number / total))
"""
TRIES: tuple[tuple[str, str, float | None, str, str], ...] = (
    ("skipped", "provider_failed", None, "", "claude failed: API Error 529 overloaded"),
    ("skipped", "out_of_scope", None, "Learn from the test set too", "data/test.csv is outside scope.writable"),
    ("reverted", "guard", 0.931, "Two hidden layers", "parameters is 81034, above its maximum, 50000"),
    ("reverted", "verify_failed", None, "Batch normalization", "train ended with 1: ValueError: shapes (64,32) and (64,10)"),
    ("reverted", "within_noise", 0.9131, "A larger batch", "+0.12% (8 v 8 runs, odds 1:2), needed +2.1%"),
    ("kept", "better", 0.912, "Scale the inputs to 0 to 1", "+3.5% (3 v 5 runs, odds > 9:1)"),
    ("baseline", "measured", 0.8812, "", "measured at 0123456789ab, 5 runs"),
)  # fmt: skip
DIFFS = {
    4: ("-    hidden = 32\n+    hidden = 64\n",),
    3: ("-    x = layer(x)\n+    x = normalize(layer(x))\n",),
    2: ("-    batch = 16\n+    batch = 64\n", "-7 8 1\n+7 8 2\n"),
}
IDEAS = {
    4: "The loss stops falling at epoch 2 with one layer of 32: the model is too small. Add one of 64. Expected: +0.02.",
    2: "The gradient of a batch of 16 is noisy. 64 should lower the variance. Expected: +0.003.",
}


SEEN = {2: "held back 10% of the training data: 0.9142 with 64, 0.913 with 16 (three seeds each); 128 gave 0.9098"}


def history(runs: Path) -> tuple[PastIteration, ...]:
    """The tries of the night, newest first; ``runs`` has what is left of the run folders."""
    for number, text in IDEAS.items():
        folder = runs / f"{number:04d}"
        folder.mkdir()
        stored = {"value": {"title": "t", "text": text}, "seal": ""}
        (folder / "plan.json").write_text(json.dumps(stored))
    for number, hunks in DIFFS.items():
        folder = runs / f"{number:04d}"
        folder.mkdir(exist_ok=True)
        parts = zip(("train.py", "judge/labels.txt"), hunks, strict=False)
        text = "".join(
            f"diff --git a/{path} b/{path}\nindex 1234567..89abcde 100644\n--- a/{path}\n+++ b/{path}\n@@ -8 +8 @@\n{hunk}"
            for path, hunk in parts
        )
        (folder / "changes.diff").write_text(text)
    records = []
    for number, (outcome, reason, value, title, why) in zip(range(6, -1, -1), TRIES, strict=True):
        verify = (CommandRun("train", 1, 2.0),) if reason == "verify_failed" else ()
        record = iteration(number, number, outcome, reason, why=why, hypothesis_summary=title, verify=verify)
        count = len(DIFFS.get(number, "1")) if outcome != "skipped" and number else 0
        files = ("train.py", "judge/labels.txt")[:count]
        gain = None if value is None else round(value - (0.8812 if number == 1 else 0.912), 4)
        needed = 0.019 if reason == "within_noise" else None
        metric = structs.replace(record.metric, value=value, delta=gain, needed=needed)
        seen = SEEN.get(number, "")
        records.append(structs.replace(record, metric=metric, changed_files=files, changed_loc=4 * number, tried=seen))
    nothing: Any = None
    archive = Archive(Standing(epoch=0), records, nothing, nothing, runs)
    return read_history(archive, 1, MANIFEST, build_scope("", MANIFEST.scope))


def prompts(
    request: Request, program: str = PROGRAM, history_length: int = 1, manifest: tables.Manifest = MANIFEST, **more: Any
) -> Prompts:
    """The prompts of iteration 7."""
    values = (0.9121, 0.9008, 0.9203, 0.9119, 0.9155)
    guards, seconds = {"parameters": 2410.0, "seconds": 12.25}, {"train": 12.25, "score": 0.75}
    baseline = MeasuredCommit(0, 1, "b", "b", 0.8812, {"parameters": 2410.0, "seconds": 11.5}, seconds)
    standing = Standing(
        baseline=baseline,
        incumbent=MeasuredCommit(1, 2, "i", "i", 0.912, guards, seconds),
        noise=NoiseState(
            pairs=tuple(itertools.pairwise(values)),
            incumbent=tuple(TimedRun(value, at) for at, value in enumerate(values, 1)),
            value=0.912,
            differed=True,
        ),
        spend=Spend(6, 5400.0, Usage(700_000, 300_000, 50_000, 5.04973)),
    )
    usual: dict[str, Any] = {
        "iteration": 7, "attempt": 6, "moment": 0, "incumbent_commit": "i", "incumbent_value": 0.912,
        "baseline_value": 0.8812, "best_value": 0.912, "stagnation": 4, "flattened": True, "program": program,
        "directions": ("prefer changes that make training faster",),
        "files": (VisibleFile("train.py", 2310, "", True), VisibleFile("data/train.csv", 481204, "", False)),
        "files_total": 2, "commits": (), "crashes": 1, "crashed_in": 3, "last_crash": CRASH, "best_iteration": 1,
        "ideas": ("Average the weights of the last epochs", "Shift the images by one pixel"),
    }  # fmt: skip
    context = Context(**{**usual, **more})
    scope = build_scope("", manifest.scope)
    with tempfile.TemporaryDirectory() as runs:
        tries = history(Path(runs)) * history_length
    brief = {**make_brief(context, tries, manifest, standing, scope), "minutes": 30}
    return make_prompts(load_templates(None), manifest, context, brief, request, NONCE)


def night() -> dict[str, str]:
    """Each prompt of the night by the name of its file."""
    no_plan = Problem("Your answer could not be used: the plan block of the answer has no title.", answer="I would\n")
    crash = Problem("A command of the measurement that runs your change failed. How it ended, and the last lines that it printed:", CRASH)  # fmt: skip
    subject = ReviewSubject(
        0.9304, ("No test is weakened.", "It stays plain numpy."), PATCH, {"parameters": 2410.0, "seconds": 13.1},
        b"1\t1\ttrain.py\n",
    )  # fmt: skip
    asked = {
        "plan": Request("plan"),
        "plan-again": Request("plan", 2, problem=no_plan),
        "apply": Request("apply", plan=PLAN),
        "apply-unplanned": Request("apply", plan=Plan("", "")),
        "repair": Request("repair", plan=PLAN, problem=crash, patch=PATCH),
        "review": Request("review", plan=PLAN, review=subject),
    }
    texts = {}
    for name, request in asked.items():
        sent = prompts(request)
        texts[f"{name}.md"] = sent.fresh
        if sent.resumed() and name != "apply-unplanned":
            texts[f"{name}-resumed.md"] = sent.resumed()
    return texts


@pytest.mark.parametrize("name", sorted(night()))
def test_a_prompt_is_the_one_that_was_read(name: str, datadir: Path) -> None:
    assert night()[name] == (datadir / name).read_text("utf-8")


def test_nothing_else_is_golden_and_no_hidden_fact_is_in_it(datadir: Path) -> None:
    texts = night()
    assert sorted(path.name for path in datadir.iterdir()) == sorted(texts)
    for name, text in texts.items():
        assert "score.py" not in text and "30s" not in text, name
        assert "529" not in text and "provider_failed" not in text and "baseline/" not in text, name


def test_the_prompt_says_what_becomes_of_a_new_file_outside_the_scope_in_this_project() -> None:
    strict = replace(MANIFEST, scope=replace(MANIFEST.scope, strays="reject"))
    for manifest, expected in ((MANIFEST, "is left out, and the rest is measured"), (strict, "rejects it too")):
        for request in (Request("plan"), Request("apply", plan=PLAN), Request("repair", plan=PLAN)):
            assert f"A new file elsewhere {expected}.\n" in prompts(request, manifest=manifest).fresh
        resumed = prompts(Request("apply", plan=PLAN), manifest=manifest).resumed()
        assert f"A new file elsewhere {expected}.\n" in resumed


def test_what_is_under_way_beside_it_is_told_by_title_and_files_and_no_hidden_file_is_named() -> None:
    ahead = (Ahead(5), Ahead(6, "A larger batch", ("judge/labels.txt", "train.py")))
    for request in (Request("plan"), Request("apply", plan=PLAN)):
        section = f"# Under way now, by others\n\nOthers try these at the same time, and nothing of it is in this folder. Leave it to them.\n\n<<<DATA {NONCE}\n- 6: A larger batch (train.py)\nDATA {NONCE}>>>\n\n"  # fmt: skip
        text = prompts(request, ahead=ahead).fresh
        assert text.replace(section, "") == prompts(request).fresh == prompts(request, ahead=ahead[:1]).fresh
        assert section in text


def test_a_resumed_apply_late_in_a_long_night_with_a_long_program_is_short() -> None:
    sent = prompts(Request("apply", plan=PLAN), PROGRAM * 300, 40)
    fresh, resumed = sent.fresh, sent.resumed()
    assert len(fresh) > 55_000 and len(resumed.encode()) < 2048
    assert "- train.py\n- model/**" in resumed and "30 minutes" in resumed and PLAN.title in resumed
    for told_before in ("plain numpy", "parameters", "data/train.csv"):
        assert told_before in fresh and told_before not in resumed


if __name__ == "__main__":
    folder = Path(__file__).with_suffix("")
    for file in folder.glob("*.md"):
        file.unlink()
    for file_name, prompt in night().items():
        (folder / file_name).write_text(prompt, "utf-8")
