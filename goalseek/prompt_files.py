"""The prompts of an iteration in its run folder: each call's own, and the last one as ``prompt.md``."""

from __future__ import annotations

import re
from pathlib import Path

PROMPTS = "prompts"
_ORDER = ("plan", "apply", "review", "repair")
_NAME = re.compile(r"([a-z]+)(?:-([1-9][0-9]*))?\.md")


def write_prompt(run_folder: Path, name: str, text: str) -> None:
    """Writes the prompt of a call, ``plan-2`` say."""
    (run_folder / PROMPTS).mkdir(exist_ok=True)
    for path in (run_folder / PROMPTS / f"{name}.md", run_folder / "prompt.md"):
        path.write_text(text, encoding="utf-8", errors="replace")


def prompts_in(run_folder: Path) -> list[tuple[str, bytes]]:
    """Name and text of every prompt, in the order in which they were made."""
    found = []
    for path in (run_folder / PROMPTS).glob("*.md"):
        match = _NAME.fullmatch(path.name)
        if match:
            place = _ORDER.index(match[1]) if match[1] in _ORDER else len(_ORDER)
            found.append((place, int(match[2] or 1), path.stem, path.read_bytes()))
    return [(name, text) for _, _, name, text in sorted(found)]
