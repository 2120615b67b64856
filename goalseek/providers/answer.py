"""Parsing of a provider's answer: the block between two sentinel lines with this call's nonce, and reported usage."""

from __future__ import annotations

import json
import re
from pathlib import Path

from goalseek.errors import Rejected
from goalseek.own_folders import open_regular
from goalseek.providers.preset import count, dollars
from goalseek.providers.provider import Reply
from goalseek.values import Outcome, Phase, Reason, Usage

TITLE_LIMIT = 200
USAGE_LIMIT = 2**16
REASON_LIMIT = 500
REASONS_LIMIT = 40
APPROVED, CHANGES_REQUESTED, REJECTED = "APPROVED", "CHANGES_REQUESTED", "REJECTED"  # a review's first line


def find_block(output: str, kind: str, nonce: str) -> list[str] | None:
    """The lines between the sentinels; None where there is no such block, or more than one."""
    opening, closing = f"<<<GOALSEEK {kind} {nonce}", f"GOALSEEK {kind} {nonce}>>>"
    lines = [line.strip("\r") for line in output.split("\n")]
    starts = [index for index, line in enumerate(lines) if line.strip() == opening]
    ends = [index for index, line in enumerate(lines) if line.strip() == closing]
    if len(starts) != 1 or len(ends) != 1 or ends[0] < starts[0]:
        return None
    return lines[starts[0] + 1 : ends[0]]


def parse_plan(lines: list[str]) -> tuple[str, str, tuple[str, ...]]:
    """Title, text and files of a plan block. The title is "" where the block has none."""
    while lines and not lines[0].strip():
        lines = lines[1:]
    if not lines:
        return "", "", ()
    marks = [index for index, line in enumerate(lines) if line.strip().lower() == "files:"]
    end = marks[-1] if marks else len(lines)
    files = tuple(line.strip().removeprefix("- ") for line in lines[end + 1 :] if line.strip())
    return clean_title(lines[0]), "\n".join(lines[1:end]).strip(), files


def parse_review(output: str, nonce: str) -> tuple[str, tuple[str, ...]]:
    """The verdict of a review, and its lines of reason; ("", ()) unless exactly one block begins with one."""
    lines = [line.strip() for line in find_block(output, Phase.REVIEW, nonce) or () if line.strip()]
    if not lines or lines[0] not in (APPROVED, CHANGES_REQUESTED, REJECTED):
        return "", ()
    return lines[0], tuple(clean_title(line.removeprefix("- "), REASON_LIMIT) for line in lines[1 : 1 + REASONS_LIMIT])


def require_plan(reply: Reply, nonce: str) -> Reply:
    """The reply. Raises Rejected where it has no plan between the sentinels."""
    if reply.title:
        return reply
    why = f"the answer has no plan between the sentinels of {nonce}"
    raise Rejected(Outcome.SKIPPED, Reason.NO_PLAN, why, reply.output, reply.usage)


def clean_title(line: str, limit: int = TITLE_LIMIT) -> str:
    """One line of printable text, cut to ``limit`` characters."""
    text = re.sub(r"\s+", " ", "".join(char if char.isprintable() else " " for char in line)).strip()
    return text if len(text) <= limit else text[: limit - 1] + "…"


def read_usage(path: Path) -> Usage:
    """What the program reported in ``$GOALSEEK_USAGE``: a JSON object of at most 64 KiB; an empty usage otherwise."""
    try:
        with open(open_regular(path.parent, path.name), "rb") as file:  # noqa: PTH123 - a descriptor
            report = json.loads(file.read(USAGE_LIMIT))
    except (OSError, ValueError, RecursionError):
        return Usage()
    if not isinstance(report, dict):
        return Usage()

    return Usage(
        count(report.get("input_tokens")),
        count(report.get("cached_tokens")),
        count(report.get("output_tokens")),
        dollars(report.get("cost_usd")),
    )
