"""What a prompt says when progress flattens or everything crashes, and what it never says."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from project import Project

SECRET = "row 7 is a cat"
KEEPS_BRIEF = 'cp "$GOALSEEK_BRIEF" "$HOME/brief-$GOALSEEK_ITERATION"\n'
EDIT = 'printf \'{"score": 0, "n": %s}\' $GOALSEEK_ITERATION > answer.json\n'
TRAIN = """\
echo "loading iteration $GOALSEEK_ITERATION"
echo "Traceback (most recent call last):" >&2
echo "KeyError: 'rate'" >&2
exit 1
"""


def brief(number: int) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((Path(os.environ["HOME"]) / f"brief-{number}").read_text())
    return told


@pytest.fixture
def agent(make_project: Callable[..., Project]) -> Callable[..., Project]:
    """A project whose agent keeps its briefs, edits as ``EDIT`` does and prints ``title``."""

    def make(title: str, files: dict[str, str] | None = None, **manifest: Any) -> Project:
        project = make_project(files={**FILES, **(files or {})})
        place = project.top.parent / "agent.sh"
        place.write_text(f"{KEEPS_BRIEF}{EDIT}echo {title}\n")
        project.set_manifest({"provider": {"name": "command", "command": ["sh", str(place)]}, **manifest})
        project.commit()
        return project

    return make


FILES = {
    "answer.json": '{"score": 1}\n',
    "train.sh": TRAIN,
    "hidden/judge.sh": 'cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"\n',
}


def prompts(project: Project, number: int) -> str:
    return "".join(path.read_text() for path in sorted((project.run_folder(number) / "prompts").iterdir()))


def test_when_progress_flattens_another_kind_of_change_is_asked_for(agent: Callable[..., Project]) -> None:
    project = agent("raise the rate to $GOALSEEK_ITERATION", limits={"stagnation": 2})
    project.climb("iterate", "-n", "4")
    assert brief(2)["stagnation"] == {"iterations": 1, "flattened": False}
    assert "flattened" not in prompts(project, 2)
    assert brief(3)["stagnation"] == {"iterations": 2, "flattened": True}
    told = prompts(project, 4)
    assert "nothing was kept in the last 3 iterations" in told and "a different kind of change" in told


def crashing(train: str = "candidate") -> list[dict[str, Any]]:
    """A verifier whose first command fails on every candidate but not on the baseline."""
    runs = "grep -q n answer.json || exit 0; sh train.sh; exit 1"
    judge = {"name": "judge", "run": "sh hidden/judge.sh", "sees": "both"}
    return [{"name": "train", "run": runs, "sees": train}, judge]


def test_candidates_that_all_crash_get_their_common_ending_into_the_next_prompt(agent: Callable[..., Project]) -> None:
    project = agent("a title", verify=crashing())
    project.climb("iterate", "-n", "3")
    assert {record["reason"] for record in project.iterations()[1:]} == {"verify_failed"}
    whole = "loading iteration 1\nTraceback (most recent call last):\nKeyError: 'rate'"
    assert brief(2)["crashes"] == {"in_a_row": 1, "common_ending": "", "iteration": 1, "last": whole}
    assert "The last candidate that crashed was that of iteration 1:" in prompts(project, 2)
    ending = "Traceback (most recent call last):\nKeyError: 'rate'"
    told = brief(3)["crashes"]
    assert (told["in_a_row"], told["common_ending"]) == (2, ending), "the first line differs"
    assert "The last 2 candidates in a row crashed" in prompts(project, 3)
    assert "KeyError: 'rate'" in prompts(project, 3) and "train ended with 1: KeyError" in prompts(project, 3)


def test_stored_output_that_somebody_changed_is_not_told(agent: Callable[..., Project]) -> None:
    project = agent("a title", verify=crashing())
    project.climb("iterate", "-n", "2")
    for number in (1, 2):
        evidence = project.run_folder(number) / "evidence.json"
        assert "KeyError" in evidence.read_text()
        evidence.write_text(evidence.read_text().replace("KeyError", "Obey"))
    project.climb()
    assert brief(3)["crashes"] == {"in_a_row": 2, "common_ending": "", "iteration": 2, "last": ""}
    assert "Obey" not in prompts(project, 3)


SPEAKS = {
    "fails": f"echo '{SECRET}'; echo '{SECRET}' >&2; exit 3\n",
    "no number": f"""echo '{{"score": "{SECRET}"}}' > "$GOALSEEK_RUN_DIR/metrics.json"\n""",
}


@pytest.mark.parametrize("sees", ["hidden", "both"])
@pytest.mark.parametrize("how", list(SPEAKS))
@pytest.mark.slow
def test_what_a_command_with_hidden_files_printed_is_nowhere_under_the_agents_eyes(
    agent: Callable[..., Project], sees: str, how: str
) -> None:
    judge = 'if grep -q n "${1:-answer.json}"; then\n' + SPEAKS[how] + FILES["hidden/judge.sh"].replace(
        "cp answer.json", 'else cp "${1:-answer.json}"') + "fi\n"  # fmt: skip
    first = {"name": "train", "run": "cp answer.json made.json", "sees": "candidate", "outputs": ["made.json"]}
    second = {"name": "judge", "run": "sh hidden/judge.sh made.json", "sees": sees}
    project = agent("a title", {"hidden/judge.sh": judge}, verify=[first, second])
    project.climb("iterate", "-n", "3")
    records = project.iterations()[1:]
    assert {record["reason"] for record in records} == {"verify_failed" if how == "fails" else "no_metric"}
    assert all(SECRET in record["why"] for record in records), "people are told"
    assert len(brief(3)["history"]) == 3 and brief(3)["crashes"]["common_ending"] == ""
    seen = [prompts(project, number) for number in (2, 3)] + [json.dumps(brief(number)) for number in (2, 3)]
    workspace = project.trees() / "workspace"
    seen += [file.read_text(errors="replace") for file in workspace.rglob("*") if file.is_file()]
    seen.append(project.git("log", "--all", "--format=%B", folder=workspace))
    seen += [file.read_text() for file in (project.trees() / "call").rglob("*") if file.is_file()]
    assert len(seen) > 6 and not [text for text in seen if SECRET in text]


def test_a_brief_says_what_is_left_of_every_budget(agent: Callable[..., Project]) -> None:
    limits = {"tokens": 1000, "cost_usd": 2.0, "iterations": 9, "total": {"iterations": 3, "time": "1h"}}
    project = agent("a title", limits=limits)
    project.climb("iterate", "-n", "2")
    left = brief(2)["left"]
    assert left.pop("seconds") in range(3500, 3601)
    assert left == {"tokens": 1000, "cost_usd": 2.0, "iterations": 2}
