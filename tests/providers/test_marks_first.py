"""Marks in a whole climb: a mistaken one is told before the verifier first runs, and no setting is tried again."""

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


def test_the_baselines_setting_is_not_proposed_again_after_a_keep(make_project: Callable[..., Project]) -> None:
    judge = 'echo "{\\"score\\": $(grep -o "[0-9]" knobs.txt | head -1)}" > "$GOALSEEK_RUN_DIR/metrics.json"'
    project = make_project(
        files={"knobs.txt": "VALUE = 1  # goalseek: int 1..2\n", "hidden/judge.sh": judge},
        manifest={
            "scope": {"writable": ["knobs.txt"], "hidden": ["hidden/**"]},
            "metric": {"name": "score", "direction": "maximize", "query": "score"},
            "provider": {"name": "tune"},
        },
        below="sub",
    )
    records = project.climb("iterate", "-n", "2")[1:]
    assert [(record["outcome"], record["reason"]) for record in records] == [("kept", "better"), ("skipped", "no_plan")]
