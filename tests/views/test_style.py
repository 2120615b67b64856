"""Texts for a terminal: colours that can be read on white and on black, cut lines, no character that acts."""

import pytest

from goalseek.views.terminal_text import CODES, OUTCOME_COLORS, one_line, replace_unprintable

# The least contrast (WCAG) with white and with black, in the palettes of xterm, the Linux console, GNOME, Windows, VS
# Code and Solarized: red 2.7, magenta 2.4, green 2.2, cyan 2.0; but blue 1.6, yellow 1.4, bright black 1.0.
READABLE = {"31", "32", "35", "36"}
BOLD_AND_FAINT = {"1", "2"}


def test_what_is_shown_can_be_read_on_both_backgrounds() -> None:
    assert {*CODES.values()} <= READABLE | BOLD_AND_FAINT and {*OUTCOME_COLORS.values()} <= CODES.keys()


@pytest.mark.parametrize(
    ("text", "most", "line"),
    [
        ("x" * 10, 10, "x" * 10),
        ("x" * 11, 10, "x" * 9 + "…"),
        ("x" * 1000, 10, "x" * 9 + "…"),
        ("x" * 1000, None, "x" * 1000),
        ("  two\n\twords ", 10, "two words"),
        ("a" + " " * 50, 10, "a"),
        ("a" + " " * 50 + "b", 10, "a…"),
        ("a " * 10, 19, "a " * 9 + "a"),
        ("a " * 10 + "b", 19, "a " * 9 + "…"),
        ("", 10, ""),
    ],
)
def test_it_is_cut_to_so_many_characters_and_says_so(text: str, most: int | None, line: str) -> None:
    assert one_line(text, most) == line


def test_what_cannot_be_printed_is_replaced_letter_by_letter() -> None:
    assert replace_unprintable("a\x1b[2J\u202eb\x00\ud800") == "a\ufffd[2J\ufffdb\ufffd\ufffd"
    assert replace_unprintable("größer\n\t改善\r") == "größer\n\t改善\ufffd"
    assert one_line("a\x1b\u2028b\r\nc") == "a\ufffd b c"
