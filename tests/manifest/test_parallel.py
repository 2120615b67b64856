"""How many proposals and measurements a manifest has at once, and what each bench is told."""

import tomllib
from pathlib import Path

import pytest

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


ALONE = "times are measured one at a time: one bench"
AUTO = 'agents = "auto"\nbenches = '


@pytest.mark.parametrize(
    ("parallel", "jobs", "seconds", "expected"),
    [
        ("", None, (5.0, 10.0), (1, 1)),
        ("", 4, (5.0, 10.0), (4, 4)),
        ("agents = 3\nbenches = 2", None, (5.0, 10.0), (3, 2)),
        ("agents = 3\nbenches = 2", 1, (5.0, 10.0), (1, 1)),
        (f"{AUTO}2", 4, (5.0, 10.0), (4, 4)),
        (f"{AUTO}2", None, (5.0, 10.0), (3, 2)),
        (f"{AUTO}1", None, (0.1, 60.0), (1, 1)),
        (f"{AUTO}1", None, (29.0, 60.0), (1, 1)),
        (f"{AUTO}1", None, (31.0, 60.0), (2, 1)),
        (f"{AUTO}2", None, (75.0, 60.0), (4, 2)),  # 4.5, and a half is rounded to the even number
        (f"{AUTO}2", None, (80.0, 60.0), (5, 2)),
        (f"{AUTO}1", None, (600.0, 1.0), (8, 1)),
        (f"{AUTO}1", None, (1.0, 1e-320), (8, 1)),
        (f"{AUTO}12", None, (60.0, 60.0), (12, 12)),
        (f"{AUTO}2", None, (None, 60.0), (2, 2)),
        (f"{AUTO}2", None, (60.0, None), (2, 2)),
        (f"{AUTO}2", None, (60.0, 0.0), (2, 2)),
    ],
)
def test_auto_keeps_the_benches_at_work_and_the_command_line_holds_over_the_table(
    parallel: str, jobs: int | None, seconds: tuple[float | None, float | None], expected: tuple[int, int]
) -> None:
    manifest = manifest_of(parallel)
    assert manifest.agents_and_benches(jobs, *seconds) == expected
    assert manifest.one_bench_reason == ""


@pytest.mark.parametrize(
    ("metric", "why"),
    [
        ('source = "wall"', ALONE),
        ('source = "cpu"', ALONE),
        ('query = "a", exclusive = "gpu0"', 'metric.exclusive = "gpu0" allows one measurement at a time: one bench'),
    ],
)
def test_what_must_be_measured_alone_has_one_bench_and_says_why(metric: str, why: str) -> None:
    manifest = manifest_of(f"{AUTO}4", metric)
    assert manifest.one_bench_reason == why
    assert manifest.agents_and_benches(None, 60.0, 60.0) == (2, 1)
    assert manifest.agents_and_benches(4, 60.0, 60.0) == (4, 1)
