"""The rows of the panel: what each says at every moment of a climb, and that they fit whatever is in them."""

import sys

import pytest
from msgspec.structs import replace

from goalseek.humanize import format_moment
from goalseek.ledger.standing import MeasuredCommit, Standing
from goalseek.project.limits import BudgetUse
from goalseek.project.picture import OpenIteration, Picture
from goalseek.project.progress import Progress
from goalseek.statistics.rotation import Proposer, Turn
from goalseek.views.panel import Frame, format_silence, panel_rows, sparkline
from goalseek.views.terminal_text import ASCII, LINE_DRAWING, Signs


def measured(value: float) -> MeasuredCommit:
    return MeasuredCommit(1, 1, "commit", "tree", value)


STANDING = Standing(metric="score", origin=measured(1.0), best=measured(3.0), keeps=2, tries=7, stagnation=4)
SCENE = Progress(
    "demo",
    STANDING,
    climb=(1.0, 2.0, 3.0),
    reasons=("worse", "within_noise", "better"),
    usual={"VERIFY": 62.0, "PLAN": 0.4},
)
NOW = Picture("running", iteration=8, phase="VERIFY", turn="run 2, the incumbent")
WAITING = replace(NOW, status="waiting", next="waits for gpu0")
MEASURING = Frame(SCENE, NOW, seconds=61.9, since=45.0, says="epoch 3")


TOKENS = {999.4: "999", 9999.4: "9999", 9999.6: "10k", 999_499: "999k", 999_600: "1M", 1_234_567: "1.23M"}


def shown(frame: Frame, columns: int = 80, signs: Signs = ASCII) -> list[str]:
    return [row.plain for row in panel_rows(frame, columns, signs)]


def measuring(scene: Progress) -> Frame:
    return replace(MEASURING, progress=scene)


def bar(name: str, spent: float, most: float, of: str = "", columns: int = 80) -> tuple[str, str]:
    """The row of one budget, 45 seconds after the scene was told, and the colour of its bar."""
    drawn = panel_rows(measuring(replace(SCENE, spendings=(BudgetUse(name, spent, most, of),))), columns, ASCII)[5]
    return drawn.plain, str(drawn.spans[1].style) if drawn.spans[1:] else ""


def test_where_several_propose_the_panel_says_whose_turn_it_is_and_what_each_has_gained() -> None:
    claude = Proposer("claude", 9, 2, 0.05, True, 0.025, 0.1, 900.0, 2.0)
    codex = Proposer("codex", 3, 0, 0.0, True, None, 0.0, 900.0, None)
    scene = replace(SCENE, turn=Turn(("codex", "gemini"), "3 of 20 iterations"), proposers=(claude, codex))
    assert shown(measuring(scene))[5:8] == [
        "  proposes    codex: 3 of 20 iterations",
        "              claude: 2 kept of 9, +5% (+2.5%/$, +10%/h)",
        "              codex: 0 kept of 3",
    ]


def test_each_row_says_one_thing_of_where_the_climb_stands() -> None:
    assert shown(MEASURING, signs=LINE_DRAWING) == [
        "── demo · iteration 8 " + "─" * 57,
        "  measuring   1m 01s, usually 1m 02s · run 2, the incumbent",
        "  best        3 score, baseline 1, +2   ▁▅█",
        "  tries       2 kept of 7 · 4 since the last kept change",
        "  last        worse · within_noise · better",
        "  prints      epoch 3",
    ]
    at_baseline = replace(SCENE, standing=replace(STANDING, stagnation=0, best=STANDING.origin), climb=(1.0,))
    told = ["", "  best        1 score, the baseline's", "  tries       2 kept of 7"]
    assert [row.rstrip() for row in shown(Frame(at_baseline))[1:4]] == told
    labels = [row[:14].strip() for row in shown(Frame(replace(SCENE, standing=Standing())))]
    assert labels == ["-- demo ------", "", "prints"]


def test_its_colours_can_be_read_on_both_backgrounds_and_what_matters_is_not_faint() -> None:
    spendings = (BudgetUse("time", 50.0, 100.0, "run"), BudgetUse("tokens", 1.0, 100.0, "run"))
    scene, clear, styles = replace(SCENE, spendings=spendings), [], set()
    for frame in (Frame(scene, WAITING), Frame(scene, ended="done"), measuring(scene)):
        clear = []
        for row in panel_rows(frame, 80, LINE_DRAWING):
            faint = [place for span in row.spans if span.style == "dim" for place in range(span.start, span.end)]
            text = "" if row.style else "".join(letter for place, letter in enumerate(row.plain) if place not in faint)
            clear.append(text.strip("━ ").partition("   ")[0])
            styles |= {str(style) for style in (row.style, *(span.style for span in row.spans))}
    assert styles == {"", "bold", "dim", "green", "green bold", "cyan", "magenta"}
    told = [row[14:].strip("━┄ ").partition("   ")[0] for row in shown(measuring(scene), signs=LINE_DRAWING)]
    assert clear == ["demo · iteration 8", *told[1:-1], ""], "labels, rules and what the verifier prints are faint"


def test_the_row_of_what_goes_on_has_the_phase_the_wait_or_the_end() -> None:
    assert shown(Frame(SCENE, Picture(iteration=8, phase="PLAN"), 59.9))[1] == "  planning    59s"
    assert shown(Frame(SCENE, WAITING))[1] == "  waiting     waits for gpu0"
    ended = shown(Frame(SCENE, WAITING, ended="stopped at limits.time"))
    assert ended[1] == "  ended       stopped at limits.time" and not [row for row in ended if "prints" in row]


def test_of_several_at_once_each_has_a_row_below_the_totals_and_the_side_that_waits_is_named() -> None:
    now = format_moment(0)
    under_way = (
        OpenIteration(8, "measuring", "VERIFY", "", now, "a new title"),
        OpenIteration(10, "waiting", "APPLY_CHANGE", "waits for a bench", format_moment(-62), "another"),
        OpenIteration(11, "proposing", "PLAN", "", now),
    )
    several = Picture(under_way=under_way, balance="1.2 of 2 agents wait for a bench: add benches or remove agents")
    drawn = shown(Frame(SCENE, several))
    assert [drawn[0][:8], drawn[1]] == ["-- demo ", "  at once     1 proposing, 1 measuring, 1 waiting"]
    assert drawn[4:] == [
        "  last        worse | within_noise | better",
        "  8           measuring, 0s: a new title",
        "  10          waits for a bench, 1m 02s: another",
        "  11          planning, 0s",
        "              1.2 of 2 agents wait for a bench: add benches or remove agents",
    ]


def test_a_budget_has_a_bar_as_full_as_it_is_spent_and_magenta_where_it_nearly_is() -> None:
    for spending, amounts in (
        (("iterations", 3, 40), "##......................  3 of 40"),
        (("iterations", 9, 6), "########################  9 of 6"),
        (("iterations", 1, 1, "now"), "########################  1 of 1 this time"),
        (("time", 15.5, 120.0), "############............  1m 00s of 2m 00s"),
        (("cost", 14.9, 20.0, "all runs"), "##################......  $14.90 of $20.00, all runs"),
        (("tokens", 9_994, 12_345), "###################.....  9994 of 12.3k"),
        (("tokens", 999_600, 2_000_000_000), "........................  1M of 2G"),
        (("tokens", 10_000, 999_400), "........................  10k of 999k"),
        *((("tokens", value, 1e9), f"........................  {told} of 1G") for value, told in TOKENS.items()),
    ):
        label = "-n" if "now" in spending else spending[0]
        assert bar(*spending)[0] == f"  {label:<12}{amounts}"
    assert bar("time", 15.5, 120.0, "now")[0] == "  --for       ############............  1m 00s of 2m 00s this time"
    assert [bar("iterations", spent, 4)[1] for spent in (2, 3, 4)] == ["cyan", "magenta", "magenta"]
    assert bar("iterations", 4, 4, "now")[1] == "cyan"
    assert sparkline((-sys.float_info.max, 0.0, sys.float_info.max), "abc") == "abc"


def test_on_a_narrow_terminal_bars_get_short_and_reasons_are_whole_or_missing() -> None:
    assert bar("cost", 10.0, 20.0, "all runs", columns=50)[0] == "  cost        ####...  $10.00 of $20.00, all runs"
    assert bar("cost", 10.0, 20.0, "all runs", columns=42)[0] == "  cost        $10.00 of $20.00, all runs"
    assert shown(MEASURING, 35)[4] == "  last        worse | within_noise"
    assert shown(MEASURING, 34)[4] == "  last        worse"


@pytest.mark.parametrize("columns", [1, 3, 17, 40, 80, 101, 500])
def test_no_row_is_wider_than_the_terminal_or_a_hundred_cells(columns: int) -> None:
    long = replace(
        SCENE,
        project="a-name-" * 20,
        standing=replace(STANDING, metric="改善" * 40),
        climb=tuple(map(float, range(90))),
        spendings=(BudgetUse("tokens", 1.0, 2.0, "all runs"), BudgetUse("time", 1.0, 2.0)),
    )
    drawn = panel_rows(replace(MEASURING, progress=long, says="x" * 200), columns, LINE_DRAWING)
    assert max(row.cell_len for row in drawn) <= max(min(columns - 1, 100), 1)
    assert len(drawn) == 8


def test_a_program_that_prints_nothing_for_minutes_is_said_to() -> None:
    assert [format_silence(seconds) for seconds in (0, 119.9, 440)] == ["", "", "nothing for 7m 20s"]


def test_a_budget_of_dollars_that_are_not_all_known_shows_the_least() -> None:
    dollars = BudgetUse("cost", 4.1, 20.0, is_partial=True)
    assert "at least $4.10 of $20.00" in shown(measuring(replace(SCENE, spendings=(dollars,))))[5]
