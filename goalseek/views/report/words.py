"""The words of the report for reasons, sandbox levels, verifiers and looks."""

from __future__ import annotations

from collections import Counter

from goalseek.humanize import format_number
from goalseek.records import HoldoutRecord
from goalseek.values import Reason

REASONS: dict[str, str] = {
    Reason.WORSE: "measured, and not better",
    Reason.TIE: "the same number, and no fewer lines",
    Reason.WITHIN_NOISE: "better by less than the noise",
    Reason.BELOW_MIN_DELTA: "better by less than min_delta",
    Reason.SEED_FIXED: "better with one fixed seed only",
    Reason.GUARD: "a guard's bound was broken",
    Reason.NOT_VALID: "a number outside its valid range",
    Reason.VERIFY_FAILED: "a verify command ended with an error",
    Reason.VERIFY_TIMEOUT: "a verify command ran past its timeout",
    Reason.NO_METRIC: "no number could be read",
    Reason.NOT_FINITE: "the number was not finite",
    Reason.UNMEASURABLE: "the verifier could not judge it",
    Reason.REVIEW_REJECTED: "the second opinion was against it",
    Reason.DECLINED: "a person declined it",
    Reason.OUTRUN: "others landed before it, again and again",
    Reason.NO_CHANGE: "the agent changed nothing",
    Reason.CONFLICT: "it does not merge with what was kept meanwhile",
    Reason.DUPLICATE: "the same tree was measured before",
    Reason.OUT_OF_SCOPE: "it changed a file that it may not change",
    Reason.PROVIDER_FAILED: "the agent could not answer",
    Reason.PROVIDER_TIMEOUT: "the agent ran past its time",
    Reason.NO_PLAN: "the agent gave no plan",
    Reason.INTERRUPTED: "it was never finished",
}
SANDBOXES = {
    "bubblewrap": "Programs saw their own tree, the system's programs, the folders that their commands need, and what "
    "scope.share and sandbox.read name: nothing else of the machine.",
    "landlock": "Files outside their tree could not be read or written; other things of the machine could be seen.",
    "none": "Programs ran as the user: nothing kept them from reading hidden files or writing anywhere.",
}
VERIFIERS = {
    "hidden": "What decided was computed by commands that run none of the candidate's code.",
    "candidate": "The numbers were reported by commands that run the candidate's code.",
    "timed": "The program that was timed is the candidate's: it ran beside the hidden files, and could read them.",
    "both": "Candidate code could read the hidden files: a verify command ran it in one tree with them.",
}


def format_look(look: HoldoutRecord) -> str:
    """One look at the holdout in a sentence."""
    head = f"Look {look.look}" + (f" at the {look.of}" if look.of else "")
    head += f", iteration {look.iteration}" if look.of else ""
    if look.value is None:
        return f"{head}: {look.why.rstrip('.') or 'begun, and not measured'}."
    text = f"{head}: {format_number(look.value)}"
    if look.gap is not None:
        than = f"{format_number(abs(look.gap))} {'more' if look.gap > 0 else 'less'} than"
        text += f"; the verifier's gain is {than if look.gap else 'the same as'} the holdout's"
    return f"{text}."


def format_sandboxes(levels: Counter[tuple[str, str]]) -> str:
    """``sandbox: bubblewrap``; of several levels, each with its number of iterations."""
    counts: Counter[str] = Counter()
    for (sandbox, _), count in levels.items():
        counts[sandbox or "not told"] += count
    if len(counts) == 1:
        return "no sandbox" if "none" in counts else f"sandbox: {next(iter(counts))}"
    return "sandbox: " + ", ".join(f"{sandbox} ({count:,})" for sandbox, count in counts.most_common())
