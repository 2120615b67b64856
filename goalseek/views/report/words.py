"""The contract's outcomes, reasons and levels, explained to who reads a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from goalseek.values import Usage

REASONS = {
    "worse": "measured, and not better",
    "tie": "the same number, and no fewer lines",
    "within_noise": "better by less than the noise",
    "below_min_delta": "better by less than min_delta",
    "guard": "a guard's bound was broken",
    "not_valid": "a number outside its valid range",
    "verify_failed": "a verify command ended with an error",
    "verify_timeout": "a verify command ran past its timeout",
    "no_metric": "no number could be read",
    "not_finite": "the number was not finite",
    "unmeasurable": "the verifier could not judge it",
    "review_rejected": "the second opinion was against it",
    "declined": "a person declined it",
    "no_change": "the agent changed nothing",
    "duplicate": "the same tree was measured before",
    "out_of_scope": "it touched what is not the candidate's to edit",
    "provider_failed": "the agent could not answer",
    "provider_timeout": "the agent ran past its time",
    "no_plan": "the agent gave no plan",
    "interrupted": "it was never finished",
}
SANDBOXES = {
    "bubblewrap": "Programs saw their own tree and the system's programs, and nothing else of the machine.",
    "landlock": "Files outside their tree could not be read or written; other things of the machine could be seen.",
    "none": "Programs ran as the user: nothing kept them from reading hidden files or writing anywhere.",
}
VERIFIERS = {
    "hidden": "What decided was computed by commands that run none of the candidate's code.",
    "candidate": "The numbers were reported by commands that run the candidate's code.",
    "both": "A verify command had hidden files and the candidate's code in one place: code there could read them.",
}


def tokens_in_words(usage: Usage) -> str:
    """``1,234,567 tokens, $4.10``; nothing where nothing was reported."""
    parts = [f"{usage.tokens:,} tokens"] if usage.tokens else []
    if is_told(usage):
        parts.append(dollars(usage))
    return ", ".join(parts)


def is_told(usage: Usage) -> bool:
    """Whether somebody reported dollars."""
    return usage.cost_usd is not None or usage.about_usd is not None


def dollars(usage: Usage) -> str:
    """``$4.10``, ``about $4.10`` where estimated or a subscription pays, ``unknown`` where nobody reported it."""
    parts = []
    if usage.cost_usd is not None and (usage.cost_usd or usage.about_usd is None):
        parts.append(f"{'about ' if usage.estimated else ''}${usage.cost_usd:,.2f}")
    if usage.about_usd is not None:
        parts.append(f"about ${usage.about_usd:,.2f} by subscription")
    return " and ".join(parts) or "unknown"


def sandboxes_in_words(levels: Counter[tuple[str, str]]) -> str:
    """``sandbox: bubblewrap``; of several, each with its share of the iterations: a night is as safe as its weakest."""
    counts: Counter[str] = Counter()
    for (sandbox, _), count in levels.items():
        counts[sandbox or "not told"] += count
    if len(counts) == 1:
        return "no sandbox" if "none" in counts else f"sandbox: {next(iter(counts))}"
    return "sandbox: " + ", ".join(f"{sandbox} ({count:,})" for sandbox, count in counts.most_common())


def joined(parts: Iterable[str]) -> str:
    """The parts that are not empty, with dots between them."""
    return " · ".join(part for part in parts if part)
