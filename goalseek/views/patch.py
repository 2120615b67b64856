"""A patch for a person's eyes: coloured, and with nothing in it that would act on the terminal."""

from __future__ import annotations

import re

from goalseek.views.harmless import harmless
from goalseek.views.style import Paint

_SIZES = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


def painted_patch(text: str, paint: Paint) -> str:
    """The patch as ``git diff`` colours it. The text keeps its length in lines."""
    old = new = 0
    shown = []
    for line in text.split("\n"):
        clean = harmless(line)
        sizes = _SIZES.match(line)
        if sizes:
            old, new = (int(size) if size else 1 for size in sizes.groups())
            shown.append(paint(clean, "cyan"))
        elif old <= 0 and new <= 0:
            shown.append(paint(clean, "bold") if clean else clean)
        else:
            old -= line[:1] not in ("+", "\\")
            new -= line[:1] not in ("-", "\\")
            color = {"+": "green", "-": "red"}.get(line[:1])
            shown.append(paint(clean, color) if color else clean)
    return "\n".join(shown)


def without_colour(text: str) -> str:
    """The text without the sequences by which a program coloured its output, and with plain line ends."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text).replace("\r\n", "\n")
