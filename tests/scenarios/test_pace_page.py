"""The guide's page on the climb of the pace says what the ledger of that climb has."""

import re
import sys
from pathlib import Path
from typing import Any

import goalseek
from goalseek.manifest.loading import load

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/benchmarks"))
import pace_picture  # noqa: E402

PAGE = (ROOT / "goalseek/guide/pace.md").read_text()
RECORDS = goalseek.read_results(pace_picture.LEDGER)
BASELINE, *TRIES = pace_picture.read_tries()


def ended(outcome: str) -> list[dict[str, Any]]:
    return [record for record in TRIES if record["outcome"] == outcome]


def test_each_figure_is_the_ledgers() -> None:
    last = ended("kept")[-1]
    (settled,) = (record for record in RECORDS if record.kind == "settle")
    looked_better = []
    for record in TRIES:
        values = [run["value"] for run in record["runs"] if run["of"] == "candidate"]
        if values and values[0] < record["metric"]["incumbent"]:
            looked_better.append(record)
    runs = [run["of"] for record in (BASELINE, *TRIES) for run in record["runs"]]
    words = " ".join(PAGE.split())
    for said in (
        f"{len(TRIES)} tries in 46 minutes: {len(ended('kept'))} kept, {len(ended('reverted'))} reverted, "
        f"{len(ended('skipped'))} skipped",
        f"was {BASELINE['metric']['value']:.2f} at the baseline, and {last['metric']['value']:.2f} at the last kept try, "
        f"{last['iteration']}",
        f"{settled.baseline:.2f} to {settled.best:.2f}, {settled.why.split(' better')[0]} better",
        f"the mean of {len(settled.pairs)} pairs",
        f"{len(looked_better)} tries would have been kept. {sum(r['outcome'] != 'kept' for r in looked_better)} of these",
        f"{len(runs)} runs of the benchmark were made, {runs.count('incumbent')} of them of the incumbent",
        f"{sum(record['reason'] == 'within_noise' for record in TRIES)} tries ended within it",
        f"(try 54: {TRIES[53]['why'].split('%')[0].strip('+')}% better, 2.9% were needed)",
    ):
        assert said in words, said
    assert all(run["exit_code"] == 0 for record in TRIES for run in record["verify"])


def test_the_table_and_the_picture_have_what_was_kept() -> None:
    rows = [(int(number), what) for number, what in re.findall(r"^\| (\d+) \| [^|]+ \| (.+) \|$", PAGE, re.MULTILINE)]
    assert rows == [(record["iteration"], record["hypothesis_summary"]) for record in ended("kept")]
    assert (ROOT / "goalseek/guide/pace.svg").read_text() == pace_picture.draw([BASELINE, *TRIES])


def test_the_manifest_names_tests_and_a_benchmark_that_are_there() -> None:
    manifest = load(ROOT / "manifests/pace.toml").manifest
    named = [word for command in manifest.commands for word in command.text.split() if word.startswith("tests/")]
    assert len(named) > 5 and all((ROOT / word).exists() for word in named)
