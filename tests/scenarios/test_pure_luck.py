"""Sixty candidates that change nothing that matters, through the real command line: luck is not kept as progress."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixture_projects import FixtureProject

pytestmark = pytest.mark.slow
CANDIDATES = 60
# Secret and run together give every seed, so that this session is the same each time.
SECRET, RUN = bytes(range(32)), "20260101T000000Z-0000"


def test_of_sixty_candidates_of_pure_noise_at_most_two_are_kept_and_the_claim_is_nothing(tmp_path: Path) -> None:
    project = FixtureProject(tmp_path / "noisy", "noisy")
    own = project.top / ".git" / "goalseek" / "noisy"
    own.mkdir(parents=True)
    (own / "secret").write_bytes(SECRET)
    (own / "run").write_text(RUN + "\n")
    text = project.manifest.read_text()
    assert "iterations = 12" in text
    project.manifest.write_text(text.replace("iterations = 12", f"iterations = {CANDIDATES}\nstagnation_stop = 1000"))
    ended = project.run("iterate", "--forever", "--provider", "tune")
    assert ended.exit_code == 0, ended.stderr
    records = project.records()
    tried = [record for record in records if record["kind"] == "iteration" and record["outcome"] != "baseline"]
    assert len(tried) == CANDIDATES
    assert {record["run_id"] for record in records} == {RUN}
    # Each is measured, and by the seeds that the secret gives: else the session would be another one.
    runs = [run for record in tried for run in record["runs"]]
    assert len({run["seed"] for run in runs}) == len(runs) >= CANDIDATES
    kept = [record for record in tried if record["outcome"] == "kept"]
    assert len(kept) <= 2
    greedy, best = 0, records[0]
    baseline = next(record for record in records if record["kind"] == "iteration")
    best = baseline["runs"][0]["value"]
    for record in tried:
        first = next(run["value"] for run in record["runs"] if run["of"] == "candidate")
        greedy, best = (greedy + 1, first) if first > best else (greedy, best)
    assert greedy > len(kept), "keep-if-better would have kept more of the same candidates"
    settled = [record for record in records if record["kind"] == "settle"]
    assert len(settled) == (1 if kept else 0)
    for record in settled:
        assert record["interval"][0] <= 0 <= record["interval"][1]
    assert project.run("audit").exit_code == 0
