"""How many proposals and measurements a manifest has at once, and what each bench is told."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from goalseek.manifest.parallel import agents_of, benches_of, one_bench_reason
from goalseek.manifest.tables import Manifest
from goalseek.manifest.validation import validate

HEAD = """\
version = 1
project.name = "demo"
scope.writable = ["a.py"]
verify = [{ run = "make score" }]
"""


def manifest_of(parallel: str = "", metric: str = 'query = "score"') -> Manifest:
    text = HEAD + f'metric = {{ direction = "maximize", {metric} }}\n[parallel]\n{parallel}\n'
    return validate(Path("/goalseek.toml"), text, tomllib.loads(text))


@pytest.mark.parametrize(
    ("parallel", "jobs", "expected"),
    [
        ("", None, (1, 1)),
        ("", 4, (4, 4)),
        ("agents = 3\nbenches = 2", None, (3, 2)),
        ("agents = 3\nbenches = 2", 1, (1, 1)),
        ('agents = "auto"\nbenches = 2', 4, (4, 4)),
        ('agents = "auto"\nbenches = 2', None, (3, 2)),
    ],
)
def test_what_is_asked_for_on_the_command_line_holds_over_the_table(
    parallel: str, jobs: int | None, expected: tuple[int, int]
) -> None:
    manifest = manifest_of(parallel)
    assert (agents_of(manifest, jobs, 5.0, 10.0), benches_of(manifest, jobs)) == expected
    assert one_bench_reason(manifest) == ""


@pytest.mark.parametrize(
    ("benches", "proposal", "measurement", "agents"),
    [
        (1, 0.1, 60.0, 1),
        (1, 29.0, 60.0, 1),
        (1, 31.0, 60.0, 2),
        (2, 75.0, 60.0, 4),  # 4.5, and a half is rounded to the even number
        (2, 80.0, 60.0, 5),
        (1, 600.0, 1.0, 8),
        (1, 1.0, 1e-320, 8),
        (12, 60.0, 60.0, 12),
        (2, None, None, 2),
        (2, None, 60.0, 2),
        (2, 60.0, None, 2),
        (2, 60.0, 0.0, 2),
    ],
)
def test_auto_has_as_many_agents_as_keep_the_benches_at_work(
    benches: int, proposal: float | None, measurement: float | None, agents: int
) -> None:
    manifest = manifest_of(f'agents = "auto"\nbenches = {benches}')
    assert agents_of(manifest, None, proposal, measurement) == agents


@pytest.mark.parametrize(
    ("metric", "why"),
    [
        ('source = "wall"', "times are measured one at a time: one bench"),
        ('source = "cpu"', "times are measured one at a time: one bench"),
        (
            'query = "score", exclusive = "gpu0"',
            'metric.exclusive = "gpu0" allows one measurement at a time: one bench',
        ),
    ],
)
def test_what_must_be_measured_alone_has_one_bench_and_says_why(metric: str, why: str) -> None:
    manifest = manifest_of('agents = "auto"\nbenches = 4', metric)
    assert one_bench_reason(manifest) == why
    assert (benches_of(manifest, None), benches_of(manifest, 4)) == (1, 1)
    assert (agents_of(manifest, None, 60.0, 60.0), agents_of(manifest, 4, 60.0, 60.0)) == (2, 4)
