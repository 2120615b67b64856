"""A mistaken mark is told before the verifier runs for the first time, and nothing is written."""

from collections.abc import Callable

import pytest
from project import Project


@pytest.mark.parametrize(
    ("text", "said"),
    [("VALUE = 1\n", "no constant is marked"), ("VALUE = 1  # goalseek: int 5..2\n", "knobs.txt:1: the range 5..2")],
)
def test_no_baseline_is_measured_where_tune_can_turn_nothing(
    make_project: Callable[..., Project], text: str, said: str
) -> None:
    judge = 'touch "$HOME/ran"; echo "{\\"score\\": 1}" > "$GOALSEEK_RUN_DIR/metrics.json"'
    project = make_project(
        files={"knobs.txt": text, "hidden/judge.sh": judge},
        manifest={"scope": {"writable": ["knobs.txt"], "hidden": ["hidden/**"]}, "provider": {"name": "tune"}},
    )
    ended = project.run("iterate")
    assert ended.exit_code == 2 and said in ended.stderr, ended
    assert project.traces() == []
