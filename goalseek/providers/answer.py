"""Reading an agent's answer: the block between two sentinel lines that carry this call's nonce, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path

from goalseek.errors import Rejected
from goalseek.own_folders import open_beneath
from goalseek.providers.preset import count, dollars
from goalseek.providers.provider import Reply
from goalseek.values import Usage

TITLE_MOST = 200
USAGE_MOST = 2**16
REASON_MOST = 500
REASONS_MOST = 40
VERDICTS = ("APPROVED", "CHANGES_REQUESTED", "REJECTED")


def block(output: str, kind: str, nonce: str) -> list[str] | None:
    """The lines between the sentinels; None where there is no such block, or more than one."""
    opening, closing = f"<<<GOALSEEK {kind} {nonce}", f"GOALSEEK {kind} {nonce}>>>"
    lines = [line.strip("\r") for line in output.split("\n")]
    begins = [place for place, line in enumerate(lines) if line.strip() == opening]
    ends = [place for place, line in enumerate(lines) if line.strip() == closing]
    if len(begins) != 1 or len(ends) != 1 or ends[0] < begins[0]:
        return None
    return lines[begins[0] + 1 : ends[0]]


def plan_of(lines: list[str]) -> tuple[str, str, tuple[str, ...]]:
    """Title, text and files of a plan block. The title is "" where the block has none."""
    while lines and not lines[0].strip():
        lines = lines[1:]
    if not lines:
        return "", "", ()
    marks = [place for place, line in enumerate(lines) if line.strip().lower() == "files:"]
    end = marks[-1] if marks else len(lines)
    files = tuple(line.strip().removeprefix("- ") for line in lines[end + 1 :] if line.strip())
    return title_of(lines[0]), "\n".join(lines[1:end]).strip(), files


def review_of(output: str, nonce: str) -> tuple[str, tuple[str, ...]]:
    """The verdict of a review, and its lines of reason; ("", ()) where there is no one block that begins with one."""
    lines = [line.strip() for line in block(output, "REVIEW", nonce) or () if line.strip()]
    if not lines or lines[0] not in VERDICTS:
        return "", ()
    return lines[0], tuple(title_of(line.removeprefix("- "), REASON_MOST) for line in lines[1 : 1 + REASONS_MOST])


def planned(reply: Reply, nonce: str) -> Reply:
    """A reply that has a plan. Raises Rejected where none was between the sentinels."""
    if reply.title:
        return reply
    why = f"the answer has no plan between the sentinels of {nonce}"
    raise Rejected("skipped", "no_plan", why, reply.output, reply.usage)


def title_of(line: str, most: int = TITLE_MOST) -> str:
    """One line of printable text, at most 200 characters unless told otherwise."""
    text = re.sub(r"\s+", " ", "".join(char if char.isprintable() else " " for char in line)).strip()
    return text if len(text) <= most else text[: most - 1] + "…"


def usage_of(path: Path) -> Usage:
    """What the program reported in ``$GOALSEEK_USAGE``: a JSON object of at most 64 KiB; nothing where it is none."""
    try:
        with open(open_beneath(path.parent, path.name), "rb") as file:  # noqa: PTH123 - a descriptor
            told = json.loads(file.read(USAGE_MOST))
    except (OSError, ValueError, RecursionError):
        return Usage()
    if not isinstance(told, dict):
        return Usage()

    return Usage(
        count(told.get("input_tokens")),
        count(told.get("cached_tokens")),
        count(told.get("output_tokens")),
        dollars(told.get("cost_usd")),
    )
