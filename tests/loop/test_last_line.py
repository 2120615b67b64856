"""The last line: what a climb came to, how far to believe it, what it cost, what to type; no part that does not apply."""

import codecs
import json
import re
from typing import Any

import nights
import pytest
from msgspec import structs
from msgspec.structs import replace
from project import Project, answer, held_out
from records import HEAD, SETTLED
from shown import read_soon

from goalseek.cli.streams import ERROR_HANDLER, spell_in_ascii
from goalseek.ledger.lenient import record_of
from goalseek.ledger.standing import MeasuredCommit, Spend, Standing
from goalseek.loop.invocation import last_line
from goalseek.manifest.loading import load
from goalseek.manifest.tables import Manifest
from goalseek.records import HoldoutRecord, parse_record
from goalseek.statistics.noise import NoiseState
from goalseek.values import Usage
from goalseek.views.report.claim import format_kept
from goalseek.views.report.figures import ReportFigures

BASELINE = MeasuredCommit(0, 1, "a" * 40, "b" * 40, 3.412)
BEST = MeasuredCommit(12, 2, "c" * 40, "d" * 40, 3.371)
CLIMBED = Standing(
    metric="val_loss",
    direction="minimize",
    tries=31,
    origin=BASELINE,
    baseline=BASELINE,
    incumbent=BEST,
    best=BEST,
    keeps=2,
    outcomes={"baseline": 1, "kept": 2, "reverted": 29},
    spend=Spend(iterations=31),
)
RUN = {"sandbox": "none", "limits": {}, "ruler": ""}
NOTHING_HIDDEN = {"scope": {"writable": ["answer.json"]}}
END = "your checkout is untouched · goalseek promote"


@pytest.fixture
def manifest(project: Project) -> Manifest:
    project.set_manifest(NOTHING_HIDDEN)
    return load(project.manifest).manifest


def of(standing: Standing, manifest: Manifest, **changed: Any) -> str:
    return last_line(structs.replace(standing, **changed), manifest)


def test_all_of_it_in_one_line(manifest: Manifest) -> None:
    spend = Spend(iterations=31, usage=Usage(1000, 0, 100, 4.1))
    told = of(CLIMBED, manifest, settled=SETTLED, noise=NoiseState(differed=True), spend=spend)
    settled = "val_loss 3.41 → 3.37, settled 1.1% ± 0.3% better"
    assert told == f"{settled} · 2 kept of 31 · $4.10, $2.05 a kept change · {END}"


def test_what_does_not_apply_is_left_out_and_what_was_not_measured_afresh_says_so(manifest: Manifest) -> None:
    assert of(CLIMBED, manifest) == f"val_loss 3.412 → 3.371 · 2 kept of 31 · {END}"
    assert of(Standing(), manifest) == ""
    nothing = of(CLIMBED, manifest, best=BASELINE, keeps=0)
    assert nothing == "val_loss 3.412, nothing beat it · 0 kept of 31 · your checkout is untouched · goalseek log"
    anew = structs.replace(BASELINE, iteration=31)
    untried = of(CLIMBED, manifest, origin=anew, baseline=anew, best=anew, keeps=0, tries=0)
    assert untried == "val_loss 3.412 · your checkout is untouched · goalseek log"
    told = of(CLIMBED, manifest, noise=NoiseState(differed=True))
    assert told.startswith("val_loss 3.412 → 3.371, not settled: goalseek settle · 2 kept of 31 · ")


def test_a_gain_that_may_be_none_is_not_praised_and_a_metric_to_maximize_rises(manifest: Manifest) -> None:
    unsure = replace(SETTLED, interval=(-0.002, 0.024))
    assert "3.41 → 3.37, no gain shown: -0.2% to 2.4% (1 pair) · " in of(CLIMBED, manifest, settled=unsure)
    exact = replace(SETTLED, interval=(SETTLED.difference, SETTLED.difference))
    assert "settled 1.1% better, exactly · " in of(CLIMBED, manifest, settled=exact)
    assert "settled 1.1% better, one pair · " in of(CLIMBED, manifest, settled=replace(SETTLED, interval=None))
    settled = replace(SETTLED, direction="maximize", in_percent=False, difference=0.25, interval=(0.2, 0.3))
    assert "settled 0.25 ± 0.05 better · " in of(CLIMBED, manifest, settled=settled)


@pytest.mark.parametrize(
    ("tries", "seed", "noise"), [(31, 3, 0.01), (90, 4, 0.01), (4, 1, 0.01), (60, 5, 0.0), (0, 1, 0.01)]
)
def test_last_line_and_report_count_keeps_alike(manifest: Manifest, tries: int, seed: int, noise: float) -> None:
    standing, night = Standing(), ReportFigures()
    rows = [{**row, **({} if noise else {"runs": []})} for row in nights.night(tries, seed, noise=noise)]
    again = {"asked_by": "noise", "tree": rows[-1]["tree_hash"], "ruler": "", "value": 9.0, "seed": 1, "seconds": 1.0}
    for row in [*rows, {**HEAD, "schema": 1, "kind": "measurement", **again}]:
        standing = standing.after(parse_record(json.dumps({**RUN, **row} if row["kind"] == "run" else row)))
        night.add(record_of(row))
    told = format_kept(night.climb)
    line = last_line(standing, manifest)
    assert (told == "0 kept of 0 tries") == (not tries)
    assert not tries or f" · {told.replace(' tries', '')} · " in line


def test_dollars_that_nobody_is_billed_for_are_about(manifest: Manifest) -> None:
    guessed = Spend(iterations=31, usage=Usage(cost_usd=4.1, estimated=True))
    assert " · about $4.10, " in of(CLIMBED, manifest, spend=guessed)
    second = Spend(iterations=5, usage=Usage(cost_usd=4.1))
    assert " · $4.10 in this run · " in of(CLIMBED, manifest, spend=second, outcomes={"kept": 1})
    assert "$" not in of(CLIMBED, manifest, spend=Spend(iterations=31, usage=Usage(9, 9, 9)))
    assert " · about $4.10, " in of(CLIMBED, manifest, spend=Spend(iterations=31, usage=Usage(about_usd=4.1)))
    both = Spend(iterations=31, usage=Usage(cost_usd=1.0, about_usd=3.1))
    assert " · about $4.10, " in of(CLIMBED, manifest, spend=both)


def test_the_holdout_of_both_is_told(project: Project) -> None:
    project.set_manifest({**NOTHING_HIDDEN, **held_out("sh hidden/judge.sh")})
    manifest = load(project.manifest).manifest
    common = {"kind": "holdout", "ruler": "", "reason": "measured", **HEAD}
    before = HoldoutRecord(look=1, of="baseline", iteration=0, commit_hash="a" * 40, value=3.5, **common)
    after = HoldoutRecord(look=2, of="best", iteration=12, commit_hash="c" * 40, value=3.45, **common)
    assert " · holdout 3.5 → 3.45 · 2 kept" in of(CLIMBED, manifest, holdout=(before, after))
    older = replace(after, commit_hash="e" * 40)
    assert "holdout" not in of(CLIMBED, manifest, holdout=(before, older))
    for halves in ((before,), (after,), (before, replace(after, value=None)), (replace(before, value=None), after)):
        assert "holdout" not in of(CLIMBED, manifest, holdout=halves)


def test_it_is_the_last_on_stdout_in_the_events_and_in_the_notification(project: Project) -> None:
    notify = {"command": ["sh", "-c", f'cat > "{project.folder}/told"']}
    project.set_manifest({**NOTHING_HIDDEN, "notify": notify})
    project.set_moves(answer(2), answer(1.5), answer(3))
    ended = project.run("-q", "iterate", "-n", "2")
    line = f"score 1 → 2 · 1 kept of 2 · {END}"
    assert ended.stdout.splitlines()[-1] == line
    assert json.loads((project.folder / "told").read_text())["line"] == f"demo: 2 iterations done · {line}"
    events = [json.loads(row) for row in project.run("--json", "iterate").stdout.splitlines()]
    assert events[-1]["event"] == "stopped"
    assert events[-1]["line"] == f"score 1 → 3 · 2 kept of 3 · {END}"


@pytest.mark.slow
def test_an_interrupted_climb_has_it_too_where_something_was_recorded(project: Project) -> None:
    project.set_manifest(NOTHING_HIDDEN)
    project.set_moves(answer(2), answer(3, more='"hang": 1,\n'))
    climbing = project.start("iterate", "--forever")
    assert climbing.stdout
    shown = b""
    while not re.search(rb"\n   1  kept.*\n", shown):
        read = read_soon(climbing.stdout.fileno())
        assert read, shown
        shown += read
    climbing.terminate()
    stdout, _ = climbing.communicate(timeout=30)
    assert stdout == f"score 1 → 2 · 1 kept of 1 · {END}\n"
    assert project.run("iterate", "--until", "score>=2").stdout.count(END) == 1


def test_a_stream_without_the_signs_gets_letters() -> None:
    codecs.register_error(ERROR_HANDLER, spell_in_ascii)
    told = "a 1 → 2, settled −1% ± 2% · ä"  # noqa: RUF001
    assert told.encode("ascii", ERROR_HANDLER) == b"a 1 -> 2, settled -1% +- 2% | ?"
    assert told.encode("latin-1", ERROR_HANDLER) == "a 1 -> 2, settled -1% ± 2% · ä".encode("latin-1")
    assert "1 → \udcff".encode("utf-8", ERROR_HANDLER) == "1 → ".encode() + b"\xff"
