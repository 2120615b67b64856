"""What ``goalseek noise`` says and draws, for values whose figures are known."""

import io
import random
import unittest.mock

import pytest

from goalseek.cli.commands.noise import noise_page, plot_lines
from goalseek.statistics.noise_report import NoiseReport, PlannedClimb, advice, findings, noise_report, repeats_for
from goalseek.views.terminal_text import ASCII, LINE_DRAWING, choose_signs


def plain(text: str, color: str) -> str:
    return text


def marked(text: str, color: str) -> str:
    return f"<{color}>{text}</>"


def drawn(count: int, middle: float = 100.0, sd: float = 10.0, direction: str = "minimize") -> NoiseReport:
    values = random.Random(5)
    return noise_report(direction, [values.gauss(middle, sd) for _ in range(count)])


def page(
    report: NoiseReport, columns: int | None, encoding: str = "utf-8", asked: PlannedClimb | None = None
) -> list[str]:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    with unittest.mock.patch("goalseek.cli.commands.noise.terminal_width", lambda stream: columns):
        return list(noise_page("loss: 10 runs", report, asked or PlannedClimb("minimize", 1.0), stream, plain))


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize(
    "report", [drawn(10), drawn(300), drawn(5, 1e-7, 1e-9), drawn(9, 0, 1e12), noise_report("minimize", [3, 3])]
)
def test_no_line_is_wider_than_the_terminal(report: NoiseReport, columns: int) -> None:
    lines = page(report, columns)
    assert max(map(len, lines)) <= columns
    assert max(map(len, plot_lines(report, columns, LINE_DRAWING, plain)), default=0) <= 80


def test_the_width_and_the_signs_are_those_of_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [line for line in page(drawn(10), None) if line.startswith("the rule")]
    assert len(rows) == 1 and rows[0].count("by") == 4
    monkeypatch.setenv("TERM", "xterm")
    "\n".join(page(drawn(12), 80, "ascii")).encode("ascii")
    assert choose_signs(io.TextIOWrapper(io.BytesIO(), encoding="latin-1")) == ASCII
    utf_8 = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    assert choose_signs(utf_8) == LINE_DRAWING
    monkeypatch.setenv("TERM", "dumb")
    assert choose_signs(utf_8) == ASCII


def test_the_picture_shows_order_spread_median_and_outliers() -> None:
    report = noise_report("minimize", [1.0, 2.0, 3.0, 2.0, 1.5, 2.5, 30.0])
    in_order, spread = plot_lines(report, 80, ASCII, plain)
    assert in_order == "in order  1111118"
    strip = spread.split("|")[1]
    assert spread.startswith("spread    1 |") and spread.endswith("| 30")
    assert strip.count("+") == 1 and strip[-1] == "."
    assert "<magenta>8</>" in plot_lines(report, 80, ASCII, marked)[0]
    assert plot_lines(noise_report("minimize", [2.0, 2.0]), 80, LINE_DRAWING, plain) == []


def test_known_values_in_words_and_without_percents_on_both_sides_of_zero() -> None:
    report = noise_report("minimize", [100, 101, 99, 100, 102, 98, 101, 99, 100, 150])
    said = dict(findings(report, PlannedClimb("minimize", 1.0, min_delta=0.5, iterations=60)))
    assert said["outliers"] == "1 of 10: 150"
    assert said["skew"].startswith("the longer tail is on the worse side")
    assert said["drift"] == "none visible"
    assert "of 60 candidates that change nothing, keep-if-better would keep 3.7" in said["greedy"]
    needed = repeats_for(report.sd_in_units, 0.5)
    assert said["min_delta"] == f"to see a gain of 0.5, let the command give the mean of {needed} runs"
    assert needed > 10
    report = drawn(20, 0.0, 1.0)
    assert not any("%" in text.replace("90%", "") for _, text in findings(report, PlannedClimb("minimize", 1.0)))


@pytest.mark.parametrize(("direction", "said"), [("maximize", "better"), ("minimize", "worse"), (None, "higher")])
def test_a_drift_is_told_as_who_asked_sees_it(direction: str | None, said: str) -> None:
    report = noise_report(direction or "maximize", [float(value) for value in range(20, 30)])
    assert f"{said} than the first" in dict(findings(report, PlannedClimb(direction, 1.0)))["drift"]


def test_advice_is_in_order_and_names_a_timing_and_a_seed() -> None:
    firsts = [text.split(" ")[0] for text in advice(drawn(10), PlannedClimb("minimize", 1.0, source="cpu"))]
    assert firsts == ["seed", "enlarge", "repeat:", "for"]
    assert len(advice(drawn(10), PlannedClimb("minimize", 1.0))) == 3
    drawn_already = PlannedClimb("minimize", 1.0, draws_seed=True)
    assert [text.split(" ")[0] for text in advice(drawn(10), drawn_already)] == ["enlarge", "repeat:"]


def test_wall_times_that_are_far_apart_are_better_taken_as_processor_time() -> None:
    climb = PlannedClimb("minimize", 1.0, source="wall")
    near, far = noise_report("minimize", (0.30, 0.31, 0.32)), noise_report("minimize", (0.30, 0.31, 0.35))
    assert not any('metric.source = "cpu"' in text for text in advice(near, climb))
    assert advice(far, climb)[0].startswith("the wall times differ by 16.1%:")
    assert not any('metric.source = "cpu"' in text for text in advice(far, PlannedClimb("minimize", 1.0, source="cpu")))
    report = noise_report("minimize", [3.0, 3.0, 3.0])
    long, short = (advice(report, PlannedClimb("minimize", seconds)) for seconds in (600.0, 0.1))
    assert "fit that one seed" in long[-1] and "10m 00s" in long[-1]
    assert len(short) == len(long) - 1 and "never reads the candidate" in short[0]
