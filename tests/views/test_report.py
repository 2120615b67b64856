"""``goalseek report``: what the page, the plot and the text for a pull request say, and that nothing in them runs."""

import base64
import gc
import hashlib
import json
import math
import os
import re
import sys
import tracemalloc
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nights
import pytest
from project import Ended, Project, answer, ended

from goalseek.disk import open_export
from goalseek.errors import GoalseekError
from goalseek.ledger.lenient import record_of
from goalseek.manifest.loading import load
from goalseek.records import IterationRecord
from goalseek.views.report.claim import REASONS, claim_of, describe_gain
from goalseek.views.report.figures import UNREADABLE_LINE, Label, ReportFigures, ThinnedList, try_of
from goalseek.views.report.pages import code_span, mark_commands, render_page
from goalseek.views.report.plot import Axis, count_axis, value_axis
from goalseek.views.report.source import DiffLines, ProjectState, ReportSource, copy_source, diff_of, patch_limit

LARGEST = sys.float_info.max
MOVES = (answer(2), answer(1.5), {"files": {"other.txt": "mine\n"}}, answer(3))


class Page(HTMLParser):
    """A page as a browser takes it apart: elements with their attributes, words, and what scripts and styles hold."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.raw: dict[str, str] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem:
            kind = self.elements[-1][1].get("type") or self.cdata_elem
            self.raw[kind] = self.raw.get(kind, "") + data
        else:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.raw["application/json"])  # type: ignore[no-any-return]

    def of_class(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for _, attributes in self.elements if name in (attributes.get("class") or "").split()]

    @property
    def policy(self) -> str:
        return next(str(found["content"]) for _, found in self.elements if found.get("http-equiv"))


def reported(tmp_path: Path, rows: Iterable[nights.Row], kind: str = "html") -> str:
    """The report on records that were copied here from elsewhere."""
    nights.write(tmp_path / "copy" / "results.jsonl", rows)
    done = run(tmp_path, "report", "copy/results.jsonl", "-o", f"night.{kind}")
    assert (done.exit_code, done.stdout.strip()) == (0, f"night.{kind}"), done.stderr
    return (tmp_path / f"night.{kind}").read_text("utf-8")


def figures(rows: Iterable[nights.Row]) -> ReportFigures:
    night = ReportFigures()
    for row in rows:
        night.add(record_of(row))
    return night


def page_of(rows: Iterable[nights.Row], state: ProjectState | None = None, patch: DiffLines | None = None) -> Page:
    """The page of these records, without a process; ``patch`` is that of every kept change."""
    return Page(render_page(figures(rows), state or ProjectState(), lambda tries: [patch] * len(tries)))


def iteration(fields: nights.Row) -> IterationRecord:
    """An iteration of which no more is known."""
    row = record_of({"kind": "iteration", **fields})
    assert isinstance(row, IterationRecord)
    return row


def run(folder: Path, *arguments: str) -> Ended:
    """goalseek in a folder that need not be a repository."""
    return ended(arguments, folder)


@pytest.fixture
def climbed(played: Callable[..., Project]) -> Project:
    """Two kept, one worse, one out of scope."""
    return played(*MOVES)


class TestOfAProject:
    def test_the_page_tells_claim_changes_reasons_time_isolation_and_what_to_do_next(self, climbed: Project) -> None:
        before = climbed.users()
        done = climbed.run("report", "-o", "../night.html")
        assert (done.exit_code, done.stdout.strip()) == (0, "../night.html"), done.stderr
        page = Page((climbed.top.parent / "night.html").read_text())
        for expected in (
            "score 1 → 3",
            "200% better",
            "2 kept of 4 tries",
            '+{"score": 3,',
            '-{"score": 2,',
            "3 beats 2 by 1",
            "other.txt is outside scope.writable",
            "Sandbox none, verifier both",
            "goalseek promote applies the kept changes missing from HEAD",
            "finished as asked",
            "% not reported verifier",
        ):
            assert expected in page.text, expected
        assert len(page.of_class("dot")) == len(page.data["rows"]) == 5
        assert climbed.users() == before

    def test_before_the_first_record_there_is_none_and_the_next_step_is_named(self, project: Project) -> None:
        done = project.run("report")
        assert done.exit_code == 2
        assert "there are no records yet" in done.stderr and "goalseek" in done.stderr
        assert project.traces() == []
        assert "Nothing is measured yet" in Page(project.run("report", "-o", "-").stdout).text

    def test_a_patch_comes_from_artifacts_or_git_and_numbers_of_two_rulers_are_never_compared(
        self, climbed: Project, tmp_path: Path
    ) -> None:
        done = climbed.run("report")
        assert (done.exit_code, climbed.git("status", "--porcelain")) == (0, "")
        assert Path(done.stdout.strip()) == climbed.logs / "report.html"
        (climbed.run_folder(4) / "changes.diff").unlink()
        told = json.loads(climbed.run("report", "--json", "-o", "../x.html").stdout)
        written = tmp_path / "x.html"
        fields = {"file": "../x.html", "format": "html", "records": 6, "bytes": written.stat().st_size}
        assert told == fields and '+{"score": 3,' in Page(written.read_text()).text, "one patch is git's"
        assert "The patch is not in this page" in Page(reported(tmp_path, climbed.records())).text
        climbed.set_moves(*[answer(9)] * 6)
        climbed.write({"hidden/more": "1\n"})
        climbed.commit()
        climbed.climb("baseline")
        climbed.climb("iterate")
        assert climbed.run("step").exit_code == 0
        page = Page(climbed.run("report", "-o", "-").stdout)
        assert "score 3 → 9" in page.text and "1 kept of 1 try" in page.text, "in the middle of an iteration"
        assert "200% better; first baseline 1 (iteration 0, before the verifier or the code changed)" in page.text
        assert "With earlier verifiers" in page.text and "0 to 4" in page.text
        assert len(page.of_class("dot")) == 2
        (climbed.folder / ".goalseek" / "demo").rename(tmp_path / "elsewhere")
        assert '+{"score": 9,' in Page(run(tmp_path, "report", "elsewhere", "-o", "-").stdout).text


class TestOfANight:
    def test_what_the_manifest_shows_to_programs_and_the_bounds_of_guards_are_named(self, project: Project) -> None:
        scope = {"writable": ["answer.json"], "hidden": ["hidden/**"], "share": ["data"]}
        guard = [{"name": "size_kb", "query": "size", "max": 10.5}]
        project.set_manifest({"scope": scope, "sandbox": {"read": ["~/weights"]}, "guard": guard})
        loaded = load(project.manifest)
        state = ReportSource(loaded.results, loaded.runs, loaded).state()
        assert (state.shown, state.bounds) == (("data", "~/weights"), {"size_kb": "at most 10.5"})
        for sandbox, is_named in (("bubblewrap", True), ("none", False)):
            rows = [*nights.night(3)]
            for row in rows[1:]:
                row["isolation"] = {"sandbox": sandbox, "verifier": "hidden"}
            text = page_of(rows, state).text
            assert ("The manifest shows them data, ~/weights too." in text) == is_named
            assert ("the paths in scope.share and sandbox.read" in text) == is_named
            assert "size_kb 400 400 at most 10.5" in text

    @pytest.mark.parametrize(
        ("found", "gain"),
        [
            ({}, "1.1% ± 0.3% better"),
            ({"interval": None}, "1.1% better"),
            ({"interval": [None, 0.014]}, "1.1% better"),
            ({"interval": [0.008, "x"]}, "1.1% better"),
            ({"difference": "much"}, "5.7% better"),
            ({"difference": -0.25, "interval": [-0.3, -0.2], "in_percent": False}, "0.25 ± 0.05 worse"),
            ({"difference": 0, "interval": None}, "no difference"),
            ({"difference": 0, "interval": [-0.01, 0.01]}, "no gain shown: -1% to 1% (5 pairs)"),
            ({"difference": 0.0375, "interval": None, "in_percent": None}, "0.0375 better"),
            ({"difference": 0.011, "interval": None, "in_percent": None, "best": None}, "0.011 better"),
        ],
    )
    def test_what_was_settled_is_claimed_as_its_record_has_it(self, found: nights.Row, gain: str) -> None:
        night = figures([*nights.night(31, 3), {**nights.settled(31), **found}])
        assert claim_of(night.climb).gain == gain

    def test_a_reader_is_warned_where_the_number_may_be_luck(self) -> None:
        def warned(*more: nights.Row, runs: int | None = None) -> tuple[bool, str]:
            rows = [*nights.night(31, 3), *more]
            for row in rows if runs is not None else ():
                if row["kind"] == "iteration":
                    run = {"of": "candidate", "value": row["metric"]["value"]}
                    row["runs"] = [run] * (1 if row["iteration"] else runs)
            claim = claim_of(figures(rows).climb)
            return claim.is_warning, claim.caution[:20]

        kept = next(row for row in nights.night(31, 3) if row.get("outcome") == "kept")
        settled, unsure = nights.settled(31), {**nights.settled(31), "interval": [-0.002, 0.024]}
        assert warned() == (True, "Not settled: the num")
        assert warned(settled) == (False, "")
        assert warned(unsure) == warned({**settled, "interval": None}) == (True, "Zero lies within the")
        assert warned(settled, {**kept, "iteration": 32}) == (True, "It was settled befor")
        assert warned(runs=4) == (False, "The same code gave t")
        assert warned(runs=1) == (False, "Not settled: this is")
        assert warned({**kept, "metric": nights.metric(None, 3.0, None)}) == (False, "The first measuremen")

    def test_a_gain_is_a_share_of_what_is_positive(self) -> None:
        for direction, before, after, gain in (
            ("maximize", 2.0, 3.0, "50% better"),
            ("maximize", 2.0, 1.0, "50% worse"),
            ("minimize", 2.0, 1.0, "50% better"),
            ("minimize", -1.0, -3.0, "better by 2"),
            ("maximize", 0.0, -1.5, "worse by 1.5"),
            ("maximize", -2.0, -2.0, "no difference"),
        ):
            assert describe_gain(before, after, direction) == gain

    def test_a_look_that_was_begun_and_the_noise_of_a_run_are_shown(self) -> None:
        looks = nights.looked(31, 1, None), nights.looked(31), nights.looked(31, 2, None)
        page = page_of([*nights.night(31, 3), *looks])
        assert "Look 1: 3.39; the verifier's gain is 0.004 more" in page.text and "Look 1: begun" not in page.text
        assert "Look 2: begun, and not measured" in page.text
        assert len(page.of_class("band")) == len(page.of_class("kept")) + 1

    def test_a_night_of_all_that_can_happen_is_told_word_for_word(self, shared_datadir: Path) -> None:
        """It has every reason, guards, waits, kills, resumes, and two of each: rulers, runs, agents, levels.

        ``report.txt`` has the words of its page, ``report.md`` its Markdown: whoever changes them reads them.
        """
        folder = shared_datadir / "rich_night"
        page = Page(run(folder, "report", ".", "-o", "-").stdout)
        texts = [" ".join(words.split()) for words in page.words]
        told = [text for text in texts if text and not text.startswith("Made ")]
        assert told == (folder / "report.txt").read_text().splitlines()
        assert "of goalseek 0.0.9" in page.text, "who made the records"
        assert run(folder, "report", ".", "-o", "-", "--format", "md").stdout == (folder / "report.md").read_text()
        reasons = {label[1] for label in page.data["labels"]} - {"better", "simpler", "measured"}
        assert reasons == set(REASONS) and all(f"{text} " in page.text for text in REASONS.values())
        assert len(page.of_class("dot")) == 81

    def test_what_was_waited_for_is_no_gap_and_what_was_settled_counts_once(self) -> None:
        rows = [{**row, "timestamp": nights.stamp(40 * place)} for place, row in enumerate(nights.night(3))]
        rows[-1]["timestamp"] = nights.stamp(5000)
        assert "nothing was at work" in page_of(rows).text
        rows[-1]["notes"] = ["waited 1h 21m: claude is rate limited"]
        assert "nothing was at work" not in page_of(rows).text
        rows[-1]["notes"] = []
        pair = {"asked_by": "settle", "value": 3.4, "seconds": 120.0}
        between = [nights.late(3, "measurement", 4000, **pair), nights.late(3, "measurement", 4900, **pair)]
        text = page_of([*rows[:-1], *between, rows[-1], nights.settled(3)]).text
        assert "nothing was at work" not in text and "verifier 5m 36s" in text
        text = page_of([*rows, *between, nights.settled(3)]).text
        assert "verifier 5m 36s" in text

    def test_numbers_that_differ_are_told_apart(self) -> None:
        rows = list(nights.night(40, 3))
        for row in rows[1:]:
            row["metric"] = {
                name: 123456.789 + (value - 3) / 1000 if isinstance(value, float) and name != "odds" else value
                for name, value in row["metric"].items()
            }
        page = page_of(rows)
        assert re.search(r"val_loss 123456\.789\d* → 123456\.789\d* ", page.text)
        axis = value_axis([123456.7890, 123456.7892], []).labels
        assert len(set(axis)) == len(axis) > 3

    def test_a_line_is_one_and_lines_are_more(self) -> None:
        rows = list(nights.night(40, 3))
        rows[-1] |= {"outcome": "kept", "changed_loc": 1}
        assert re.search(r"\b12 lines changed\b.*\b1 line changed\b", page_of(rows).text)

    def test_a_keep_without_a_number_does_not_move_the_line(self) -> None:
        rows = list(nights.night(40, 3))
        broken = next(row for row in rows if row.get("outcome") == "kept")
        broken["metric"]["value"] = None
        page = page_of(rows)
        line = next(str(found["d"]) for found in page.of_class("line"))
        assert (
            len(page.of_class("dot")) == 41 and "V380" not in line and line.count("V") == len(page.of_class("kept")) - 1
        )

    def test_every_mark_of_the_plot_stands_where_its_number_says(self, tmp_path: Path) -> None:
        tries = [("baseline", 0.0), ("skipped", None), ("kept", 2.0), ("reverted", 1.0), ("reverted", -80.0)]
        tries += [("kept", 4.0), *[("reverted", 3.0)] * 3]
        rows = [
            nights.late(
                0, "iteration", 60 * place, iteration=place, outcome=outcome, metric={"name": "s", "value": value}
            )
            for place, (outcome, value) in enumerate(tries)
        ]
        rows[5]["stacked"] = [3, 4, 99]
        rows.insert(3, nights.late(0, "run", 150.0, began="asked for"))
        text = reported(tmp_path, [nights.late(0, "run", 0.0), *rows])
        plot = ElementTree.fromstring(re.findall(r'<svg role="img".*?</svg>', text, re.DOTALL)[0])
        assert plot.get("viewBox") == "0 0 1000 400" and "2 kept of 8 tries" in str(plot.get("aria-label"))
        drawn = [(found.get("class"), found.get("d")) for found in plot.iter() if found.get("d")]
        places = (("skipped", 125, "380"), ("reverted", 375, "131.2"), ("reverted", 500, "350.0"))
        places += tuple(("reverted", across, "43.8") for across in (750, 875, 1000))
        assert drawn == [
            *(("grid", f"M0 {height}H1000") for height in (0.0, 87.5, 175.0, 262.5, 350.0)),
            ("run", "M312.5 0V350"),
            ("link", "M375.0 131.2L625.0 0.0"),
            ("link", "M500.0 350.0L625.0 0.0"),
            *((f"dot {outcome}", f"M{across:.1f} {height}h0") for outcome, across, height in places),
            ("line", "M0.0 175.0H250.0V87.5H625.0V0.0H1000.0"),
            ("dot baseline", "M0.0 175.0h0"),
            ("dot kept", "M250.0 87.5h0"),
            ("dot kept", "M625.0 0.0h0"),
        ]
        labels = re.search(r'<div class="upward".*?</div>.*?<div class="across".*?</div>', text, re.DOTALL)
        assert labels and re.findall("<span.*?>(.*?)</span>", labels[0]) == [
            *"4 2 0 -2 -4 none 0 1 2 3 4 5 6 7 8".split()
        ]

    def test_where_several_were_under_way_the_line_never_goes_back_and_their_time_is_the_climb_s(
        self, tmp_path: Path
    ) -> None:
        moved = [{"reason": "moved"}, {"reason": "moved"}]
        tries = [(0, "baseline", 0.0), (4, "kept", 2.0), (2, "reverted", 1.0), (3, "kept", 4.0), (1, "reverted", 3.0)]
        rows = [
            nights.late(
                0, "iteration", 60 * place, iteration=number, outcome=outcome, metric={"name": "s", "value": value},
                seconds={"VERIFY": 100.0}, active_seconds=40.0, benches=2, attempts=moved if number == 1 else [],
                reason="outrun" if number == 1 else "better",
            )
            for place, (number, outcome, value) in enumerate(tries)
        ]  # fmt: skip
        text = reported(tmp_path, rows)
        assert 'class="line" d="M0.0 350.0H1000.0V175.0H1000.0V0.0H1000.0"' in text
        assert "over iterations 0 to 4" in text and "2 kept of 4 tries" in text
        in_markdown = reported(tmp_path, rows, "md")
        assert "- 3m 20s (several iterations at once): agent 0.0s, verifier 8m 20s" in in_markdown
        assert "- 2 kept of 4 tries: 2 measured at once, 1 moved to a newer tip, 1 outrun\n" in in_markdown

    def test_kinds_keys_and_lines_that_are_not_known_do_no_harm(self, tmp_path: Path) -> None:
        odd = [{"kind": "omen"}, {"kind": "settle"}, {"kind": "holdout", "value": "x"}, {"kind": "measurement"}]
        odd += [{"kind": "measurement", "value": 10**400}]
        odd += [
            {"kind": "iteration"},
            {"kind": "iteration", "iteration": 1e400, "metric": [], "runs": {"a": 1}, "notes": [1, []]},
            {},
        ]
        path = nights.write(tmp_path / "results.jsonl", [*odd, *nights.night(5), *odd])
        with path.open("a") as file:
            file.write("[" * 100_000 + '\nnot json\n[1]\n{"kind": "iteration", "torn')
        done = run(tmp_path, "report", ".", "-o", "-")
        assert done.exit_code == 0, done.stderr
        assert "a line of results.jsonl that is no record 5" in Page(done.stdout).text

    @pytest.mark.parametrize("size", [309, 400, 4999])
    def test_a_number_beyond_every_float_is_none(self, tmp_path: Path, size: int) -> None:
        rows = [*nights.night(5)]
        rows[-1]["metric"] = {**rows[-1]["metric"], "value": "HUGE", "incumbent": "HUGE"}
        path = nights.write(tmp_path / "results.jsonl", rows)
        path.write_text(path.read_text().replace('"HUGE"', "9" * size))
        climb = copy_source(path).read_on().climb
        is_read = size <= 4300  # the most digits that Python reads
        assert (climb.last, climb.incidents.counts[UNREADABLE_LINE]) == ((5, 0) if is_read else (4, 1))
        assert not is_read or climb.rejected.items[-1].value is None

    def test_before_a_measurement_without_its_beginning_or_without_a_number_it_says_so(self, tmp_path: Path) -> None:
        whole = list(nights.night(60))
        page = page_of(whole[:1])
        assert "Nothing is measured yet" in page.text and not page.of_class("dot")
        assert "Nothing was kept" in page.text
        page = page_of(whole[2:])
        assert "The baseline's record is missing" in page.text and "Nothing is measured yet" not in page.text
        told = reported(tmp_path, whole[2:], "md")
        assert told.startswith("## The baseline's record is missing\n\n> Its record is not among these lines")
        assert "tries" in told and "### Not kept" in told
        failed = [*whole[:2], *(row for row in whole[2:] if row["metric"]["value"] is None)]
        page = page_of(failed)
        assert "nothing beat it in" in page.text and len(page.of_class("dot")) == len(failed) - 1


class TestHostile:
    def test_every_attack_is_text_the_policy_holds_and_the_script_makes_no_markup(self) -> None:
        page = page_of(nights.hostile_night(60))
        for text in nights.HOSTILE[:8]:
            assert text in page.text, text
        names = {name for name, _ in page.elements}
        assert not names & {"img", "a", "iframe", "object", "embed", "form", "base", "link"} - {"a"}
        assert [found.get("href") for name, found in page.elements if name == "a"] == ["#report"]
        assert [found.get("type") for name, found in page.elements if name == "script"] == ["application/json", None]
        assert not [
            key for _, found in page.elements for key in found if key.startswith("on") or key in ("style", "src")
        ]
        shown = page.text + json.dumps(page.data, ensure_ascii=False)
        assert not {letter for letter in shown if not letter.isprintable()}
        for kind in ("script", "style"):
            digest = base64.b64encode(hashlib.sha256(page.raw[kind].encode()).digest()).decode()
            assert f"{kind}-src 'sha256-{digest}'" in page.policy
        assert page.policy.startswith("default-src 'none';")
        assert "unsafe" not in page.policy and "http" not in page.policy and "connect-src" not in page.policy
        sinks = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(|setTimeout\(\""
        assert not re.search(sinks, page.raw["script"])

    @pytest.mark.parametrize("kind", ["html", "md"])
    @pytest.mark.slow
    def test_texts_of_megabytes_are_cut(self, tmp_path: Path, kind: str) -> None:
        text = reported(tmp_path, nights.hostile_night(3, nights.LONG), kind)
        assert len(text.encode()) < {"html": 200_000, "md": 60_000}[kind]
        assert max(map(len, re.findall(r"x{9,}", text)), default=0) <= 400

    def test_a_hostile_patch_is_text(self) -> None:
        patch = b"diff --git a/a<b>.txt b/a<b>.txt\n@@ -0,0 +1 @@\n+</pre><script>window.owned=1</script>\n"
        page = page_of(nights.night(31, 3), patch=diff_of(patch, 500))
        assert "+</pre><script>window.owned=1</script>" in page.text and "a<b>.txt" in page.text
        assert "b" not in {name for name, _ in page.elements}

    def test_in_markdown_what_an_agent_wrote_stands_in_code_only(self, tmp_path: Path) -> None:
        text = reported(tmp_path, nights.hostile_night(60), "md")
        outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
        assert not set(re.findall(r"<(?!br>)|@|\]\(|://|javascript:|!\[", outside)), outside
        cells = {line.count("|") for line in outside.splitlines() if line.startswith("|")}
        assert cells == {4, 5, 7}

    def test_what_is_no_hash_is_never_handed_to_git(self) -> None:
        good = ("0123456789abcdef" * 4)[:40]
        wrong = ("", good[1:], good + "0", good[:-1] + "g", good.upper(), "--output=x" * 4, "HEAD" * 10, None, 7)
        for text, expected in [(good, good), ("f" * 64, "f" * 64), *((text, "") for text in wrong)]:
            found = try_of(iteration({"commit_hash": text, "parent_commit_hash": text}), Label("kept", "better"))
            assert (found.commit, found.parent) == (expected, expected), text

    def test_an_iteration_is_told_in_bounds_whatever_its_record_says(self) -> None:
        row: nights.Row = {"changed_files": ["a\n", *"bcdefgh"], "why": "x" * 999, "hypothesis_summary": "y" * 400}
        row["guards"] = {f"{number}": number for number in range(200)}
        kept, rejected = (try_of(iteration(row), Label(outcome, "")) for outcome in ("kept", "reverted"))
        assert (kept.files, len(kept.why), kept.title) == (tuple("abcdefgh"), 400, "y" * 400)
        assert list(kept.guards) == [f"{number}" for number in range(100)] and rejected.guards == {}
        many = try_of(iteration({"changed_files": [1, *"abcdefghij"]}), Label("kept", ""))
        assert many.files[7:] == ("h", "and 2 more")
        night = figures([{"kind": "iteration", "outcome": "postponed", "reason": "rain"}])
        assert night.climb.counts == {Label("skipped", "rain"): 1}

    @pytest.mark.parametrize("text", ["plain", "a`b", "``", "`", "a|b\\|c", " lead", "two\nlines", "\\"])
    def test_a_code_span_ends_where_it_should(self, text: str) -> None:
        span = code_span(text)
        fence = re.match("`+", span)
        assert fence and span.endswith(fence[0]) and "|" not in span and "\n" not in span
        assert fence[0] not in re.findall("`+", span[len(fence[0]) : -len(fence[0])])


def ever_new(number: int) -> Iterator[nights.Row]:
    """Records in which no name is one that was there before."""
    outcome = "baseline" if not number or number == 300 else ("kept", "reverted", "skipped")[number % 3]
    value = None if outcome == "skipped" else 3.0 + number % 7
    texts = {name: f"{name} {number}" for name in ("reason", "why", "hypothesis_summary", "provider", "model")}
    yield nights.late(
        number,
        "iteration",
        number * 1000.0,
        iteration=number,
        outcome=outcome,
        metric=nights.metric(value, 3.0, 2.0),
        runs=[{"of": "candidate", "value": value}, {"of": "incumbent", "value": 3.0 + number % 5}],
        guards={f"guard {number}": 1.0},
        changed_files=[f"file {number}"],
        usage={"input_tokens": 1, "cost_usd": 0.1},
        seconds={f"phase {number}": 1.0},
        verify=[{"name": f"command {number}", "seconds": 1.0, "killed": 1}],
        isolation={"sandbox": f"sandbox {number}", "verifier": "hidden"},
        notes=[f"note {number}"],
        **texts,
    )
    yield nights.late(number, "run", number * 1000.0, began=f"began {number}", versions={f"name {number}": "1"})
    yield nights.late(number, "measurement", number * 1000.0, tree=f"{number}", value=3.0, seconds=1.0)
    yield nights.late(number, "holdout", number * 1000.0, look=number, value=3.0)


class TestSize:
    @pytest.mark.parametrize("text", ["<>&" * 400, "\u4e2d" * 400, "a title of the usual length, and a little more"])
    @pytest.mark.slow
    def test_ten_thousand_records_stay_under_five_megabytes(self, tmp_path: Path, text: str) -> None:
        page = reported(tmp_path, nights.night(10_000, texts=[text]))
        assert len(page.encode()) < 5_000_000
        assert page.count('class="dot ') == 10_001

    @pytest.mark.slow
    @pytest.mark.parametrize(("sign", "kept_every"), [("<", 3), ('"', 30), ("\u4e2d", 300), ("<", 30), ("\u4e2d", 3)])
    def test_so_do_many_kept_ones_with_long_texts_and_patches(self, sign: str, kept_every: int) -> None:
        text, night = sign * 400, ReportFigures()
        patch = ("diff --git a/x b/x\n@@ -1 +1,900 @@\n" + f"+{sign * 20}\n" * 900).encode()
        for place, row in enumerate(nights.night(10_000, texts=[text])):
            if row["kind"] == "iteration":
                row["changed_files"] = [text] * 12
                if place % kept_every == 2:
                    row["outcome"], row["metric"]["value"] = "kept", 3.0 - place / 10_000
            night.add(record_of(row))
        made = render_page(night, ProjectState(), lambda tries: [diff_of(patch, patch_limit(len(tries)))] * len(tries))
        assert night.climb.kept.added > 30 and len(made.encode()) < 5_000_000

    def test_beyond_so_many_dots_are_left_out_evenly_and_it_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("goalseek.views.report.figures.MAX_DOTS", 100)
        seen = figures(nights.night(300))
        text = render_page(seen, ProjectState(), lambda tries: [None] * len(tries))
        drawn = text.count('class="dot ')
        assert drawn < 120
        assert f"{301 - drawn:,} more tries are left out of the plot" in text
        assert text.count('class="dot kept') == seen.climb.kept.added > 5

    @pytest.mark.slow
    def test_what_is_remembered_of_a_night_is_bounded_whatever_its_records_say(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("goalseek.views.report.figures.MAX_DOTS", 100)
        monkeypatch.setattr("goalseek.views.report.figures.MAX_KEPT", 100)
        night, weighed = ReportFigures(), []
        tracemalloc.start()
        try:
            for number in range(1001):
                for row in ever_new(number):
                    night.add(record_of(row))
                if number in (500, 1000):
                    gc.collect()
                    ours = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/goalseek/*.py")])
                    weighed.append(sum(trace.size for trace in ours.traces))  # not what another test's thread holds
        finally:
            tracemalloc.stop()
        assert night.climb.tried > 600 and night.earlier
        assert 50_000 < weighed[1] < 1.15 * weighed[0]

    def test_names_beyond_fifty_are_told_together_and_nothing_of_them_is_lost(self) -> None:
        rows = []
        for number in range(61):
            usage = {"input_tokens": 2, "output_tokens": 1} if number % 2 else {"cost_usd": 0.5}
            verify = [{"name": f"command {number}", "seconds": 2.0}, {}]
            rows += [{**row, "usage": usage, "verify": verify} for row in ever_new(number)]
        nameless = nights.late(61, "iteration", 0, outcome="reverted", usage={"input_tokens": 7})
        night = figures([*rows, nameless])
        spending = night.climb.spending
        assert [len(spending.usage), len(spending.commands)] == [51, 51]
        assert spending.usage["others"].tokens == 5 * 3 + 7 and spending.commands["others"] == 12 * 2.0
        assert (spending.total.tokens, spending.total.cost_usd) == (30 * 3 + 7, 31 * 0.5)
        assert sum(spending.commands.values()) == 61 * 2.0
        assert spending.parts == {"agent": 0.0, "verifier": 61.0, "goalseek": 61.0}, (
            "a measurement and a phase of its own each"
        )
        incidents = night.climb.incidents
        assert incidents.counts["noted"] == 61
        assert [iteration for iteration, _ in incidents.newest["noted"]] == list(range(21, 61))
        assert figures([*ever_new(0), nameless]).climb.spending.usage["not named"].tokens == 7

    def test_a_list_is_thinned_evenly(self) -> None:
        thinned = ThinnedList(10)
        for number in range(1000):
            thinned.add(lambda number=number: number)  # type: ignore[misc]
        assert 5 <= len(thinned.items) <= 10
        steps = {after - before for before, after in zip(thinned.items, thinned.items[1:], strict=False)}
        assert len(steps) == 1 and thinned.added == 1000

    def test_a_long_patch_is_cut_by_lines_and_a_binary_one_not_shown(self) -> None:
        head = b"diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1 +1,900 @@\n--- was a rule\n"
        cut = diff_of(head + b"+line\n" * 900, 500)
        assert [kind for kind, _ in cut.lines[:4]] == ["file", "hunk", "removed", "added"]
        assert cut.left_out == 900 - sum(kind == "added" for kind, _ in cut.lines)
        binary = diff_of(b"diff --git a/x b/x\nGIT binary patch\nliteral 5\nMcmZQzfB*mh\n\n", 500)
        assert [text for _, text in binary.lines] == ["a/x b/x", "a binary file"]


class TestScale:
    @pytest.mark.parametrize(
        ("core", "others", "ticks"),
        [
            ([1.0, 3.0], [], (1.0, 1.5, 2.0, 2.5, 3.0)),
            ([5.0], [], (4.4, 4.6, 4.8, 5.0, 5.2, 5.4, 5.6)),
            ([0.0], [], (-1.0, -0.5, 0.0, 0.5, 1.0)),
            ([1.0, 29.0], [], (0.0, 10.0, 20.0, 30.0)),
            ([-1.0, 99.0], [], (-20.0, 0.0, 20.0, 40.0, 60.0, 80.0, 100.0)),
            ([1.0, 30.0], [], (1.0, 10.0, 100.0)),
            ([0.02, 5.0, 90.0], [1.0], (0.01, 0.1, 1.0, 10.0, 100.0)),
            ([1.0, 2.0, 3.0], [*[1.5] * 50, 1e6, -1e6], (1.0, 1.5, 2.0, 2.5, 3.0)),
            ([1.0], [LARGEST, -LARGEST, 2.0], (-1e300, -5e299, 0.0, 5e299, 1e300)),
            ([1e-8, 1e9], [], (1e-8, 1e-5, 1e-2, 1e1, 1e4, 1e7, 1e10)),
            ([50.0], [*[-1e6] * 5, *map(float, range(1, 91)), *[1e6] * 5], (0.0, 20.0, 40.0, 60.0, 80.0, 100.0)),
            ([40.0, 60.0], [0.0, 100.0], (20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0)),
            ([40.0, 60.0], [50.0], (40.0, 45.0, 50.0, 55.0, 60.0)),
        ],
    )
    def test_it_spans_the_climb_and_nine_tenths_of_the_rest_as_far_as_the_climb_stays_large(
        self, core: list[float], others: list[float], ticks: tuple[float, ...]
    ) -> None:
        assert value_axis(core, others).ticks == pytest.approx(ticks)

    def test_iterations_are_whole_numbers_in_even_steps(self) -> None:
        for last, ticks in ((0, (0, 1)), (8, tuple(range(9))), (9, (0, 3, 6, 9, 12)), (400, (0, 100, 200, 300, 400))):
            assert count_axis(5, 5 + last).ticks == tuple(5 + tick for tick in ticks)

    def test_a_value_has_its_place_between_the_ends_or_beyond_them(self) -> None:
        linear, logarithmic = Axis((-1.0, 0.0, 1.0)), Axis((0.01, 1.0, 100.0), logarithmic=True)
        assert [linear.place(value) for value in (-1.0, 0.0, 1.0, 3.0, -2.0)] == [0.0, 0.5, 1.0, 2.0, -0.5]
        assert [round(logarithmic.place(value), 9) for value in (0.01, 0.1, 100.0, 1e-3)] == [0.0, 0.25, 1.0, -0.25]
        assert logarithmic.place(0.0) == logarithmic.place(-5.0) == -math.inf

    @pytest.mark.parametrize(
        "values",
        [
            *([0.0], [5.0], [-3.0], [1e-300], [1e300, -1e300], [1.0, 1.0 + 2**-52]),
            *([LARGEST], [-LARGEST], [LARGEST, -LARGEST], [LARGEST, 1.0], [5e-324, 1.0]),
        ],
    )
    def test_any_values_have_an_axis(self, values: list[float]) -> None:
        axis = value_axis(values, [])
        assert len(axis.ticks) >= 2 and axis.ticks[0] < axis.ticks[-1]
        assert not any(math.isnan(axis.place(value)) for value in values)


class TestWriting:
    def test_what_cannot_be_written_is_refused_first_and_records_are_never_written_over(self, climbed: Project) -> None:
        for name, said in (
            ("x.pdf", "unknown kind"),
            ("x.svg", "has the plot"),
            ("none/x.html", "No such file"),
            (".", "unknown kind"),
        ):
            done = climbed.run("report", "-o", name)
            assert done.exit_code == 2 and said in done.stderr, done.stderr
        assert climbed.run("report", "-o", "x.pdf", "--format", "md").exit_code == 0
        assert (climbed.folder / "x.pdf").read_text().startswith("## `score` 1 → 3")
        done = climbed.run("report", "-o", "-", "--json")
        assert (done.exit_code, done.stdout) == (2, "") and "standard output" in done.stderr
        before = climbed.records()
        path = climbed.results
        done = climbed.run("report", "--format", "md", "-o", str(path))
        assert done.exit_code == 2 and "this is the file of the records" in done.stderr
        assert climbed.records() == before
        for kind, start in (("html", "<!DOCTYPE html>"), ("md", "## `score` 1 → 3")):
            assert climbed.run("report", "-o", "-", "--format", kind).stdout.startswith(start)

    def test_a_file_is_replaced_whole_or_stays(self, tmp_path: Path) -> None:
        path = tmp_path / "x.html"
        path.write_text("before")
        with pytest.raises(ZeroDivisionError), open_export(path) as file:
            file.write(b"half")
            raise ZeroDivisionError
        assert (path.read_text(), sorted(os.listdir(tmp_path))) == ("before", ["home", "x.html"])
        with open_export(path) as file:
            file.write(b"after")
        assert path.read_text() == "after"
        with pytest.raises(GoalseekError, match="is a folder"), open_export(tmp_path):
            pass


@pytest.mark.parametrize(
    "told",
    [
        "`goalseek iterate` goes on; `goalseek promote` applies the kept changes missing from HEAD",
        "`limits.iterations` = 6 is reached, 6 spent; raise it, or begin with: `goalseek iterate --new`",
        'see: `goalseek log --last 20`; say what to try: `goalseek direct "..."`; then: `goalseek iterate --new`',
        "see: `goalseek log --outcome reverted`; then",
        "`goalseek approve 5`, or `goalseek decline 5`",
        "ask `@somebody` `<b>for</b>` `[it](x)` `*now*`",
    ],
)
def test_what_is_typed_is_code_and_nothing_else_comes_to_life(told: str) -> None:
    assert mark_commands(told.replace("`", "")) == told
    assert mark_commands("www.example.com; a`b") == "`www.example.com`; `` a`b ``"
