"""Text of somebody else's in one line: nothing in it acts, and what was cut is said to be."""

from __future__ import annotations

import pytest

from goalseek.views.terminal_text import one_line, replace_unprintable


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
