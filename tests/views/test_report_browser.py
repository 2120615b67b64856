"""The report and the live page in a real browser: no error, no request, every dot there, hostile text stays text.

Pictures at phone and desktop width, light and dark, are left in pytest's folder to be looked at.
"""

import contextlib
import html
import itertools
import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nights
import pytest
from needs import program
from playwright.sync_api import Browser, Page, sync_playwright
from project import ended

from goalseek.views.report import server as report_server
from goalseek.views.report.server import PageServer
from goalseek.views.report.source import copy_source

pytestmark = [pytest.mark.slow, pytest.mark.needs("chromium")]
ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
WIDTHS = {"phone": (390, 844), "desktop": (1280, 900)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all of these tests."""
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=program("chromium"), args=ARGUMENTS)
        yield made
        made.close()


class Browsing:
    """Opens pages in a test's folder; ``complaints`` and ``requests`` are those of all of them."""

    def __init__(self, browser: Browser, folder: Path, data: Path) -> None:
        self._browser, self._folder, self._data = browser, folder, data
        self._questions = (data / "questions.js").read_text().partition("\n")[2].strip()
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def open(self, url: str, width: str = "desktop", **how: Any) -> Page:
        size = dict(zip(("width", "height"), WIDTHS[width], strict=True))
        page = self._browser.new_context(viewport=size, **how).new_page()  # type: ignore[arg-type]
        page.set_default_timeout(60_000)
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(url)
        return page

    def report(self, *rows: nights.Row, copy: str = "", **how: Any) -> Page:
        return self.open(self.write(*rows, copy=copy), **how)

    def write(self, *rows: nights.Row, copy: str = "") -> str:
        """The address of the report on these rows, or on a copy of a project's records."""
        records = self._data / copy if copy else nights.write(self._folder / "results.jsonl", rows)
        done = ended(("report", str(records), "-o", "night.html"), self._folder)
        assert done.exit_code == 0, done.stderr
        return (self._folder / "night.html").as_uri()

    def ask(self, page: Page, question: str) -> Any:
        """The page's answer to one of ``questions.js``."""
        return page.evaluate(f"{self._questions}.{question}()")

    def close(self) -> None:
        for context in self._browser.contexts:
            context.close()
        assert self.complaints == []


@pytest.fixture
def browsing(browser: Browser, tmp_path: Path, shared_datadir: Path) -> Iterator[Browsing]:
    """None of the pages may have complained when the test ends."""
    with contextlib.closing(Browsing(browser, tmp_path, shared_datadir)) as opened:
        yield opened


def dots(page: Page) -> int:
    return page.locator("#stage .dot").count()


def until(page: Page, condition: str) -> None:
    """Waits until it holds. (The library's own waiting would evaluate text in the page, which its policy forbids.)"""
    deadline = time.monotonic() + 60
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, condition
        page.wait_for_timeout(50)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_night_of_all_that_can_happen_is_readable_with_everything_open(
    tmp_path: Path, browsing: Browsing, width: str, scheme: str
) -> None:
    page = browsing.report(copy="rich_night", width=width, color_scheme=scheme)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(20, 24, 28)") is (scheme == "dark")
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    until(page, "document.querySelectorAll('#rejected tbody button').length == 74")
    page.screenshot(path=str(tmp_path / f"rich-{width}-{scheme}.png"), full_page=True)
    assert (dots(page), browsing.requests) == (81, [page.url])
    assert page.evaluate("document.documentElement.scrollWidth") == WIDTHS[width][0]
    assert browsing.ask(page, "cut_off") == []
    assert {name: found for name, found in browsing.ask(page, "contrasts").items() if found < 4.5} == {}
    assert {name: found for name, found in browsing.ask(page, "marks").items() if found < 3} == {}


def test_the_structure_is_there_for_who_does_not_see_it(browsing: Browsing) -> None:
    page = browsing.report(copy="rich_night")
    levels = [int(name[1]) for name in browsing.ask(page, "headings")]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert page.evaluate("document.documentElement.lang") == "en" and "val_loss 3.41" in page.title()
    told = page.locator("#stage svg").get_attribute("aria-label") or ""
    assert (
        "lower is better: the baseline is 3.412, the best so far 3.06183, of iteration 76; 6 kept of 80 tries" in told
    )
    assert browsing.ask(page, "nameless") == []
    hint = "getComputedStyle(document.getElementById('filter'), '::placeholder').color"
    assert page.evaluate(hint) == page.locator("#matches").evaluate("one => getComputedStyle(one).color")
    style = page.evaluate("document.querySelector('style').textContent")
    assert not re.search("transition|animation|scroll-behavior", style), "nothing moves by itself"


def test_the_keyboard_alone_reaches_all_and_shows_where_it_is(browsing: Browsing) -> None:
    page = browsing.report(*nights.night(48, 3))
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        focus = browsing.ask(page, "focus")
        if focus["name"] == "BODY.":
            break
        assert focus["outline"] >= 2 and focus["seen"], focus
        reached.append(focus["name"])
    assert reached[0] == "A." and {"DIV.stage", "INPUT.filter", "SUMMARY.as-table"} <= set(reached)
    page.locator("#filter").focus()
    page.keyboard.type("warm up")
    until(page, "document.querySelectorAll('#rejected details[open] tbody button').length > 0")
    page.locator("#rejected tbody button").first.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "record"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator("#record").is_hidden() and page.evaluate("document.activeElement.id") == "stage"


@pytest.mark.parametrize("name", ["zero", "one", "equal", "outlier", "far apart", "close", "without numbers"])
def test_the_plot_can_be_read_whatever_the_numbers(tmp_path: Path, browsing: Browsing, name: str) -> None:
    rows = odd_night(name)
    page = browsing.report(*rows, width="phone")
    page.screenshot(path=str(tmp_path / "plot.png"))
    count = sum(row["kind"] == "iteration" for row in rows)
    assert dots(page) == count
    assert page.evaluate("document.documentElement.scrollWidth") == WIDTHS["phone"][0]
    if not count:
        return
    labels = page.locator(".upward span").all_inner_texts()
    assert len(set(labels)) == len(labels) >= 2
    assert browsing.ask(page, "overlapping") == []
    assert browsing.ask(page, "beyond_the_stage") == []


def odd_night(name: str) -> list[nights.Row]:
    """A night whose numbers are hard to draw."""
    rows = list(nights.night({"zero": 0, "one": 0}.get(name, 40), 3))[: 1 if name == "zero" else None]
    for row in rows[1:]:
        found = row["metric"]
        for key in ("value", "incumbent"):
            if found[key] is None:
                continue
            if name == "equal":
                found[key] = 2.5
            elif name == "outlier" and row["iteration"] == 9:
                found[key] = 1e9
            elif name == "far apart" and row["outcome"] == "kept":
                found[key] = found[key] / 10.0 ** row["iteration"]
            elif name == "close":
                found[key] = 123456.789 + (found[key] - 3) / 1000
            elif name == "without numbers" and row["iteration"]:
                found["value"] = None
    return rows


def test_a_dot_is_opened_by_pointer_and_keyboard_and_the_filter_hides_nothing_for_good(
    browsing: Browsing,
) -> None:
    page = browsing.report(*nights.night(48, 3))
    url = page.url
    kept = page.locator("#stage .dot.kept").first.bounding_box()
    assert kept
    page.mouse.move(kept["x"] + kept["width"] / 2, kept["y"] + kept["height"] / 2)
    number = page.locator("#kept .number").first.inner_text()
    assert page.locator("#tip strong").inner_text().startswith(f"{number}: ")
    page.mouse.down()
    page.mouse.up()
    assert page.locator("#record h3").inner_text() == f"Iteration {number}"
    assert page.url.endswith(f"#iteration-{number}")
    page.get_by_role("button", name="Its change").click()
    assert page.locator(f"#kept-{number}[open]").count() == 1
    page.get_by_role("button", name="Close").click()
    assert page.locator("#record").is_hidden()
    page.locator("#stage").focus()
    for key, place in (("Home", 0), ("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", 48)):
        page.keyboard.press(key)
        assert page.locator("#tip strong").inner_text().startswith(f"{place}: "), key
        assert page.locator("#readout").inner_text().startswith(f"iteration {place}: ")
    order = "[...document.querySelectorAll('#stage, #filter, #kept, #rejected')].map((one) => one.id)"
    assert page.evaluate(order) == ["stage", "filter", "kept", "rejected"]
    assert page.get_by_role("search").get_by_label("Filter the tries").count() == 1
    page.locator("#filter").fill("there is no such word")
    until(page, "document.querySelectorAll('.faint').length == 49")
    assert page.get_by_role("status").inner_text() == "0 kept and 0 not kept match; 48 hidden"
    assert page.locator("#kept details:visible, #rejected details:visible").count() == 0
    page.locator("#stage").focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowDown")
    last = page.locator("#kept .number").last.text_content()
    page.keyboard.press("Enter")
    assert page.locator("#record h3").inner_text() == f"Iteration {last}"
    assert page.evaluate("document.activeElement.id") == "record"
    page.get_by_role("button", name="Its change").click()
    assert page.locator("#kept details:visible[open]").count() == 1
    again = browsing.open(f"{url}#iteration-7")
    assert again.locator("#record h3").inner_text() == "Iteration 7"


def test_in_the_frame_of_a_notebook_a_dot_is_opened_as_well(browsing: Browsing, tmp_path: Path) -> None:
    browsing.write(*nights.night(9, 3))
    text = html.escape((tmp_path / "night.html").read_text())
    (outer := tmp_path / "notebook.html").write_text(f'<iframe srcdoc="{text}" sandbox="allow-scripts"></iframe>')
    frame = (page := browsing.open(outer.as_uri())).frame_locator("iframe")
    frame.locator("#stage").focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    assert frame.locator("#record h3").inner_text() == "Iteration 9"
    assert frame.locator(".skip").count() == 0


def test_the_filter_narrows_lists_and_dots_alike_and_says_what_it_hides(browsing: Browsing) -> None:
    rows = list(nights.night(60, 3))
    rejected = [row for row in rows if row.get("outcome") in ("reverted", "skipped")]
    kept = [row for row in rows if row.get("outcome") == "kept"]
    for row in (*rejected[::7], *kept[::3]):
        row["hypothesis_summary"] = "Rotary <b>embeddings</b>"
    page = browsing.report(*rows)
    assert page.locator("#kept h2 .count").inner_text() == str(len(kept))
    page.locator("#filter").fill("ROTARY <b>")
    until(page, "document.querySelectorAll('.faint').length > 0")
    found, left = len(rejected[::7]), len(kept[::3])
    hidden = len(rejected) + len(kept) - found - left
    assert page.get_by_role("status").inner_text() == f"{left} kept and {found} not kept match; {hidden} hidden"
    assert page.locator("#kept details:visible").count() == left
    assert page.locator("#kept h2 .count").inner_text() == f"{left} of {len(kept)}"
    assert page.locator("#rejected details:visible tbody tr").count() == found
    assert page.locator("#rejected h2 .count").inner_text() == f"{found} of {len(rejected)}"
    told = page.locator("#rejected details:visible summary .value").all_inner_texts()
    assert sum(int(text.split(" of ")[0]) for text in told) == found
    assert page.locator("#stage .dot:not(.faint)").count() == found + left
    page.locator("#as-table summary").click()
    assert page.locator("#as-table tbody tr:visible").count() == left
    page.locator("#rejected tbody button").first.click()
    assert page.locator("#record dd").first.inner_text() == "Rotary <b>embeddings</b>"
    page.locator("#filter").focus()
    page.keyboard.press("Escape")
    until(page, "document.querySelectorAll('.faint').length == 0")
    assert page.get_by_role("status").inner_text() == ""
    assert page.locator("#kept details:visible").count() == len(kept)
    assert page.locator("#kept h2 .count").inner_text() == str(len(kept))
    assert page.locator("#rejected details:visible").count() == page.locator("#rejected details").count()
    for group in page.locator("#rejected details").all():
        group.evaluate("one => { one.open = true; }")
    until(page, f"document.querySelectorAll('#rejected tbody tr').length == {len(rejected)}")


def test_hostile_text_stays_text_wherever_it_is_shown(tmp_path: Path, browsing: Browsing) -> None:
    page = browsing.report(*nights.hostile_night(60))
    for details in page.locator("details").all():
        details.evaluate("one => { one.open = true; }")
    page.locator("#stage").focus()
    page.keyboard.press("Home")
    for _ in range(60):
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        page.locator("#stage").focus()
    page.locator("#filter").fill("<script>")
    until(page, "document.querySelectorAll('.faint').length > 0")
    assert page.evaluate("window.owned") is None
    assert (
        page.evaluate("document.querySelectorAll('img, iframe, b, main script, [onerror], [onload], main a').length")
        == 0
    )
    assert page.evaluate("document.scripts.length") == 2
    assert len(browsing.requests) == 1
    page.screenshot(path=str(tmp_path / "hostile.png"), full_page=True)


def test_the_policy_holds_where_escaping_would_not_and_without_its_script_the_page_can_be_read(
    tmp_path: Path, browsing: Browsing
) -> None:
    page = browsing.report(*nights.night(48, 3), java_script_enabled=False)
    assert dots(page) == 49
    page.locator("#rejected summary").first.click()
    assert page.locator("#rejected tbody tr").first.is_visible()
    assert page.locator("#finder").is_hidden()
    path = tmp_path / "night.html"
    attack = "<script>window.owned = 1</script><img src='http://192.0.2.1/x.png' onerror='window.owned = 1'>"
    path.write_text(path.read_text().replace("<footer>", f"<footer>{attack}"))
    assert browsing.open(path.as_uri()).evaluate("window.owned") is None
    assert "Content Security Policy" in " ".join(browsing.complaints)
    browsing.complaints.clear()


def test_ten_thousand_records_open_in_a_second(tmp_path: Path, browsing: Browsing) -> None:
    url = browsing.write(*nights.night(10_000), nights.settled(10_000))
    page = browsing.open("about:blank")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})  # of the processor: a busy machine does not count
    page.goto(url)
    assert dots(page) == 10_001
    measured = {entry["name"]: entry["value"] for entry in session.send("Performance.getMetrics")["metrics"]}
    (tmp_path / "seconds.json").write_text(json.dumps(measured))
    assert measured["TaskDuration"] < 1.0
    page.locator("#rejected summary").first.click()
    until(page, "document.querySelectorAll('#rejected details[open] tbody tr').length == 300")
    page.get_by_role("button", name="Show 300 more").click()
    assert page.locator("#rejected details[open] tbody tr").count() == 600


def test_the_live_page_follows_the_records(tmp_path: Path, browsing: Browsing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_server, "_BUSY_SHARE", 0)
    path = nights.write(tmp_path / "results.jsonl", nights.night(12, 3))
    state = {"status": "running", "phase": "PLAN", "iteration": 13, "phase_started_at": "2026-01-01T00:00:00Z"}
    path.with_name("state.json").write_text(json.dumps({**state, "next": "watch it"}))
    with PageServer(copy_source(path), 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            page = browsing.open(server.url)
            until(page, "document.getElementById('phase').textContent.includes('in PLAN of iteration 13')")
            assert dots(page) == 13 and page.locator("#status").inner_text() == "running"
            page.evaluate("document.querySelector('#kept details').open = true")
            page.locator("#rejected summary").first.click()
            opened = page.locator("#rejected details").first.get_attribute("id")
            page.locator("#filter").focus()
            following = {**list(nights.night(13, 3))[-1], "hypothesis_summary": nights.HOSTILE[0]}
            with path.open("a") as file:
                file.write(json.dumps(following) + "\n")
            until(page, "document.querySelectorAll('#stage .dot').length == 14")
            assert page.locator(f"#{opened}[open]").count() == 1
            assert page.locator("#kept details[open]").count() == 1
            assert page.evaluate("document.activeElement.id") == "filter"
            assert page.evaluate("window.owned") is None
            path.with_name("state.json").write_text(json.dumps({"status": "interrupted"}))
            until(page, "document.getElementById('status').textContent.startsWith('interrupted')")
            assert {url.removeprefix(server.url) for url in browsing.requests} == {"", "state"}
            page.screenshot(path=str(tmp_path / "live.png"))
        finally:
            server.shutdown()
            thread.join(timeout=20)
            assert not thread.is_alive()
    until(page, "document.getElementById('phase').textContent.includes('has ended')")
    browsing.complaints[:] = [told for told in browsing.complaints if "ERR_CONNECTION_REFUSED" not in told]
