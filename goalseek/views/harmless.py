"""Text that somebody else wrote, made fit to be shown: what would move, hide or reorder other text is taken out."""

from __future__ import annotations


def harmless(text: str) -> str:
    """The text with each character that cannot be printed replaced, but for newlines and tabs."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else "\N{REPLACEMENT CHARACTER}" for letter in text
    )


def one_line(text: str, most: int | None = None) -> str:
    """The text in one line; where ``most`` is given, what is longer is cut to so many characters and ends in ``…``."""
    is_cut = False
    if most is not None and len(text) > 2 * most:
        is_cut = not text[2 * most :].isspace()
        text = text[: 2 * most]
    line = harmless(" ".join(text.split()))
    return line if most is None or (len(line) <= most and not is_cut) else line[: most - 1] + "…"
