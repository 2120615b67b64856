"""Parsing of a provider's answer: the block between two sentinel lines with this call's nonce; and the usage."""

import re
from pathlib import Path

from goalseek.disk import open_regular
from goalseek.errors import Rejected
from goalseek.humanize import clean_title
from goalseek.providers.preset import count, json_or_none, number
from goalseek.providers.provider import Reply
from goalseek.values import Outcome, Phase, Reason, Usage

USAGE_LIMIT = 2**16
REASON_LIMIT = 500
TRIED_LIMIT = 500
IDEAS_LIMIT = 10
REASONS_LIMIT = 40
APPROVED, CHANGES_REQUESTED, REJECTED = "APPROVED", "CHANGES_REQUESTED", "REJECTED"  # a review's first line


def find_blocks(output: str, kind: str, nonce: str) -> list[list[str]]:
    """The lines between the sentinels of each whole block, in order."""
    opening, closing = f"<<<GOALSEEK {kind} {nonce}", f"GOALSEEK {kind} {nonce}>>>"
    blocks: list[list[str]] = []
    block: list[str] | None = None
    for line in output.split("\n"):
        if line.strip() == opening:
            block = []
        elif line.strip() == closing and block is not None:
            blocks.append(block)
            block = None
        elif block is not None:
            block.append(line.strip("\r"))
    return blocks


def find_plan(output: str, nonce: str) -> Reply | None:
    """The last whole plan block of an answer, as earlier ones are drafts; None without one."""
    blocks = find_blocks(output, Phase.PLAN, nonce)
    if not blocks:
        return None
    text = "\n".join(blocks[-1]).strip("\n").split("\n")
    files, later = _mark(text, "files:"), _mark(text, "later:")
    ends = {files: later if later > files else len(text), later: files if files > later else len(text)}
    ideas = [clean_title(line.strip().removeprefix("- ")) for line in text[later + 1 : ends[later]] if line.strip()]
    return Reply(
        clean_title(text[0]),
        "\n".join(text[1 : min(files, later)]).strip(),
        tuple(line.strip().removeprefix("- ") for line in text[files + 1 : ends[files]] if line.strip()),
        later=tuple(ideas[:IDEAS_LIMIT]),
    )


def _mark(lines: list[str], word: str) -> int:
    """Index of the last line with only this word; the number of lines if there is none."""
    return max((index for index, line in enumerate(lines) if line.strip().lower() == word), default=len(lines))


_TRIED = re.compile(r"^[ >*_-]*tried[ *_]*:[ *_]*(\S.*)$", re.IGNORECASE | re.MULTILINE)


def find_tried(output: str) -> str:
    """The last line that begins with ``tried:``, also in a Markdown list or in bold; "" without one."""
    lines = _TRIED.findall(output)
    return clean_title(lines[-1], TRIED_LIMIT) if lines else ""


def parse_review(output: str, nonce: str) -> tuple[str, tuple[str, ...]]:
    """Verdict and reasons of a review; ("", ()) unless exactly one block begins with a verdict."""
    blocks = find_blocks(output, Phase.REVIEW, nonce)
    lines = [line.strip() for line in blocks[0] if line.strip()] if len(blocks) == 1 else []
    if not lines or lines[0] not in (APPROVED, CHANGES_REQUESTED, REJECTED):
        return "", ()
    return lines[0], tuple(clean_title(line.removeprefix("- "), REASON_LIMIT) for line in lines[1 : 1 + REASONS_LIMIT])


def require_plan(reply: Reply, nonce: str) -> Reply:
    if reply.title:
        return reply
    if find_blocks(reply.output, Phase.PLAN, nonce):
        why = "the plan block of the answer has no title"
    elif f"<<<GOALSEEK {Phase.PLAN} {nonce}" in reply.output:
        why = f"the plan block of the answer does not end with the line GOALSEEK {Phase.PLAN} {nonce}>>>"
    else:
        why = f"the answer has no plan block with the code {nonce}"
    raise Rejected(Outcome.SKIPPED, Reason.NO_PLAN, why, reply.output, reply.usage)


def read_usage(path: Path) -> Usage:
    """The report in ``$GOALSEEK_USAGE``, a JSON object of at most 64 KiB; else an empty usage."""
    try:
        with open_regular(path.parent, path.name) as file:
            report = json_or_none(file.read(USAGE_LIMIT))
    except OSError:
        return Usage()
    fresh, cached, output = (count(report, f"{name}_tokens") for name in ("input", "cached", "output"))
    return Usage(fresh, cached, output, number(report, "cost_usd"))
