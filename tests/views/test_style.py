"""Colours that can be read on white and on black, in the palettes that terminals come with."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.style import Style

import goalseek
from goalseek.ledger.standing import MeasuredCommit, Standing
from goalseek.project.limits import BudgetUse
from goalseek.project.picture import Picture
from goalseek.project.progress import Progress
from goalseek.views.panel import Frame, panel_rows
from goalseek.views.terminal_text import CODES, LINE_DRAWING, OUTCOME_COLORS, one_line, replace_unprintable

PACKAGE = Path(goalseek.__file__).parent
# Colours 0 to 8: black, red, green, yellow, blue, magenta, cyan, white, bright black; then the two backgrounds.
PALETTES = {
    "xterm": "000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5 7f7f7f ffffff 000000",
    "console": "000000 aa0000 00aa00 aa5500 0000aa aa00aa 00aaaa aaaaaa 555555 ffffff 000000",
    "gnome": "171421 c01c28 26a269 a2734c 12488b a347ba 2aa1b3 d0cfcc 5e5c64 ffffff 171421",
    "campbell": "0c0c0c c50f1f 13a10e c19c00 0037da 881798 3a96dd cccccc 767676 ffffff 0c0c0c",
    "editor": "000000 cd3131 0dbc79 e5e510 2472c8 bc3fbc 11a8cd e5e5e5 666666 ffffff 1e1e1e",
    "solarized": "073642 dc322f 859900 b58900 268bd2 d33682 2aa198 eee8d5 002b36 fdf6e3 002b36",
}
LEAST = 1.9
WITHOUT_COLOUR = {"1", "2"}


def measured(value: float) -> MeasuredCommit:
    return MeasuredCommit(1, 1, "commit", "tree", value)


SCENE = Progress(
    project="demo",
    standing=Standing(metric="score", origin=measured(1.0), best=measured(2.0), keeps=2, tries=3, stagnation=1),
    climb=(1.0, 1.5, 2.0),
    reasons=("worse", "better"),
    usual={"VERIFY": 3.0},
    spendings=(BudgetUse("time", 99, 100, "run"), BudgetUse("tokens", 1, 100, "run")),
)
MEASURING = Frame(SCENE, Picture("running", iteration=1, phase="VERIFY"), 3.0, says="word")


def light_of(color: str) -> float:
    parts = [int(color[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(palette: str, number: int) -> float:
    """The worse of both backgrounds, as WCAG has it."""
    colors = PALETTES[palette].split()
    own = light_of(colors[number])
    return min(
        (max(own, other) + 0.05) / (min(own, other) + 0.05) for other in (light_of(colors[9]), light_of(colors[10]))
    )


def code_of(style: str) -> str:
    """What a style of the panel is on a terminal of sixteen colours."""
    return Style.parse(style).render("x").partition("m")[0].removeprefix("\x1b[")


def panel_codes() -> Iterator[str]:
    for frame in (MEASURING, Frame(SCENE, Picture("waiting", next="for a card")), Frame(SCENE, ended="done")):
        for row in panel_rows(frame, 80, LINE_DRAWING):
            for style in (row.style, *(span.style for span in row.spans)):
                yield from code_of(str(style)).split(";") if str(style) else ()


@pytest.mark.parametrize("palette", PALETTES)
def test_what_is_shown_can_be_read_on_both_backgrounds(palette: str) -> None:
    codes = {*CODES.values(), *panel_codes()} - WITHOUT_COLOUR
    assert codes
    found = {code: contrast(palette, int(code) - 30 if int(code) < 90 else int(code) - 82) for code in codes}
    assert {code: value for code, value in found.items() if value < LEAST} == {}


def test_what_matters_in_the_panel_is_not_faint() -> None:
    told = []
    for row in panel_rows(MEASURING, 80, LINE_DRAWING):
        faint = [place for span in row.spans if span.style == "dim" for place in range(span.start, span.end)]
        clear = "" if row.style else "".join(letter for place, letter in enumerate(row.plain) if place not in faint)
        told.append(clear.strip("━ ").partition("   ")[0])
    said = [
        "demo · iteration 1",
        "3s, usually 3s",
        "2 score, baseline 1, +1",
        "2 kept of 3 · 1 since the last kept change",
    ]
    assert told == [*said, "worse · better", "1m 39s of 1m 40s, run", "1 of 100, run", ""]


def test_every_colour_that_is_named_is_there() -> None:
    named = set(OUTCOME_COLORS.values())
    for path in (*(PACKAGE / "cli").rglob("*.py"), *(PACKAGE / "views").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2].strip("_") == "paint":
                given = [one for argument in node.args[1:] for one in ast.walk(argument)]
                named |= {one.value for one in given if isinstance(one, ast.Constant)}
    assert {"green", "grey", "bold", "magenta"} <= named
    assert {str(name) for name in named if name is not None} - CODES.keys() - {"after", "before"} == set()


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
