"""What the agent may know of the past: how it crashed and flattened, and nothing that a hidden command printed."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from project import Project, Projects, home
from records import iteration

from goalseek.ledger.standing import CRASHED
from goalseek.manifest.tables import Guard, VerifyCommand
from goalseek.proposal.past_tries import common_ending, past_try
from goalseek.values import CommandRun

SECRET = "row 7 is a cat"
TRAIN = VerifyCommand(run="python train.py", name="train", sees="candidate")
SCORE = VerifyCommand(run="python score.py", name="score", sees="hidden")
BOTH = replace(SCORE, sees="both")
LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=30)


@pytest.mark.parametrize("reason", CRASHED)
@pytest.mark.parametrize("last", [SCORE, BOTH])
def test_the_sentence_of_a_hidden_commands_crash_is_not_told(reason: str, last: VerifyCommand) -> None:
    why = f"score ended with 3: {SECRET}"
    told = past_try(iteration(1, 1, "reverted", reason, why=why, verify=(CommandRun("score", 3, 1),)), (TRAIN, last))
    assert told.why and SECRET not in told.why and "score" not in told.why and told.reason == reason


def test_the_sentence_of_a_command_that_sees_the_candidate_and_every_other_sentence_are_told() -> None:
    why, runs = "train ended with 1: KeyError", (CommandRun("train", 1, 1),)
    record = iteration(1, 1, "reverted", "verify_failed", why=why, verify=runs)
    assert past_try(record, (TRAIN, SCORE)).why == why
    missing = replace(record, reason="no_metric", why="accuracy: 'nan?' is not a number")
    assert past_try(missing, (TRAIN,)).why == missing.why
    assert past_try(missing, (TRAIN, SCORE)).why == "the measurement gave no metric"
    assert past_try(replace(record, verify=()), (TRAIN, SCORE)).why == "the verifier failed"
    for source, command, is_told in (("stdout", "train", True), ("stdout", "score", False), ("json", "train", False)):
        guard = Guard(name="accuracy", source=source, command=command)
        assert (past_try(missing, (TRAIN, SCORE), (guard,)).why == missing.why) == is_told
    for reason in ("worse", "tie", "duplicate", "provider_failed", "out_of_scope", "better"):
        assert past_try(iteration(1, 1, "reverted", reason, why="so it is"), (SCORE,)).why == "so it is"


@given(st.lists(LINES, min_size=1, max_size=4), LINES)
def test_a_common_ending_is_the_end_of_every_text(heads: list[list[str]], tail: list[str]) -> None:
    texts = ["\n".join([*head, *tail]) for head in heads]
    ending = common_ending(texts, 1000, 10**6)
    assert all(text.rstrip().endswith(ending) for text in texts)
    assert "\n".join(tail).strip("\n") in ending, "nothing that is common is missed"
    assert common_ending(texts) in (ending, "\n".join(ending.splitlines()[-20:]).strip("\n"))


@given(st.lists(st.text(min_size=1, max_size=99), max_size=30), st.integers(1, 20), st.integers(1, 2048))
def test_a_common_ending_is_bounded(lines: list[str], lines_most: int, bytes_most: int) -> None:
    ending = common_ending(["\n".join(lines)] * 2, lines_most, bytes_most)
    assert len(ending.splitlines()) <= lines_most and len(ending.encode("utf-8", "replace")) <= bytes_most


def test_spaces_at_the_ends_of_lines_make_no_difference_and_nothing_common_is_nothing() -> None:
    assert common_ending(["one\n  KeyError: 'x'  \n\n", "two\n  KeyError: 'x'"]) == "  KeyError: 'x'"
    assert common_ending(["a", "b"]) == common_ending([]) == ""


KEEPS_BRIEF = 'cp "$GOALSEEK_BRIEF" "$HOME/brief-$GOALSEEK_ITERATION"\n'
EDIT = 'printf \'{"score": 0, "n": %s}\' $GOALSEEK_ITERATION > answer.json\n'
CRASHES = """\
echo "loading iteration $GOALSEEK_ITERATION"
echo "Traceback (most recent call last):" >&2
echo "KeyError: 'rate'" >&2
exit 1
"""
FILES = {
    "answer.json": '{"score": 1}\n',
    "train.sh": CRASHES,
    "hidden/judge.sh": 'cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"\n',
}
CRASHING = [
    {"name": "train", "run": "grep -q n answer.json || exit 0; sh train.sh; exit 1", "sees": "candidate"},
    {"name": "judge", "run": "sh hidden/judge.sh", "sees": "both"},
]


def brief(number: int) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(home(f"brief-{number}").read_text())
    return told


def prompts(project: Project, number: int) -> str:
    return "".join(path.read_text() for path in sorted((project.run_folder(number) / "prompts").iterdir()))


@pytest.fixture
def agent(make_project: Projects) -> Projects:
    """A project whose agent keeps its briefs, edits as ``EDIT`` does and prints ``title``."""

    def make(title: str = "a title", files: dict[str, str] | None = None, **tables: Any) -> Project:
        project = make_project(files={**FILES, **(files or {})})
        project.set_agent(f"{KEEPS_BRIEF}{EDIT}echo {title}\n", tables)
        project.commit()
        return project

    return make


def test_a_flat_climb_is_asked_for_another_kind_of_change_and_told_what_is_left(agent: Projects) -> None:
    totals = {"iterations": 5, "time": "1h"}
    limits = {"stagnation": 2, "tokens": 1000, "cost_usd": 2.0, "iterations": 9, "total": totals}
    project = agent("raise the rate to $GOALSEEK_ITERATION", limits=limits)
    project.climb("iterate", "-n", "4")
    assert brief(2)["stagnation"] == {"iterations": 1, "flattened": False}
    assert "flattened" not in prompts(project, 2)
    assert brief(3)["stagnation"] == {"iterations": 2, "flattened": True}
    told = prompts(project, 4)
    assert "nothing was kept in the last 3 iterations" in told and "a different kind of change" in told
    left = brief(2)["left"]
    assert left.pop("seconds") in range(3500, 3601)
    assert left == {"tokens": 1000, "cost_usd": 2.0, "iterations": 4}


def test_crashes_that_end_alike_are_told_unless_somebody_changed_their_output(agent: Projects) -> None:
    project = agent(verify=CRASHING)
    project.climb("iterate", "-n", "3")
    assert {record["reason"] for record in project.iterations()[1:]} == {"verify_failed"}
    whole = "loading iteration 1\nTraceback (most recent call last):\nKeyError: 'rate'"
    assert brief(2)["crashes"] == {"in_a_row": 1, "common_ending": "", "iteration": 1, "last": whole}
    assert "The last candidate that crashed was that of iteration 1. Its output" in prompts(project, 2)
    ending = "Traceback (most recent call last):\nKeyError: 'rate'"
    told = brief(3)["crashes"]
    assert (told["in_a_row"], told["common_ending"]) == (2, ending), "the first line differs"
    assert "The last 2 candidates in a row crashed" in prompts(project, 3)
    assert "KeyError: 'rate'" in prompts(project, 3) and "train ended with 1: KeyError" in prompts(project, 3)
    for number in (1, 2, 3):
        evidence = project.run_folder(number) / "evidence.json"
        assert "KeyError" in evidence.read_text()
        evidence.write_text(evidence.read_text().replace("KeyError", "Obey"))
    project.climb()
    assert brief(4)["crashes"] == {"in_a_row": 3, "common_ending": "", "iteration": 3, "last": ""}
    assert "Obey" not in prompts(project, 4)


SPEAKS = {
    "fails": f"echo '{SECRET}'; echo '{SECRET}' >&2; exit 3\n",
    "no number": f"""echo '{{"score": "{SECRET}"}}' > "$GOALSEEK_RUN_DIR/metrics.json"\n""",
}


@pytest.mark.parametrize("sees", ["hidden", "both"])
@pytest.mark.parametrize("how", list(SPEAKS))
@pytest.mark.slow
def test_what_a_hidden_command_printed_is_nowhere_under_the_agents_eyes(agent: Projects, sees: str, how: str) -> None:
    judge = 'if grep -q n "${1:-answer.json}"; then\n' + SPEAKS[how] + FILES["hidden/judge.sh"].replace(
        "cp answer.json", 'else cp "${1:-answer.json}"') + "fi\n"  # fmt: skip
    first = {"name": "train", "run": "cp answer.json made.json", "sees": "candidate", "outputs": ["made.json"]}
    second = {"name": "judge", "run": "sh hidden/judge.sh made.json", "sees": sees}
    project = agent(files={"hidden/judge.sh": judge}, verify=[first, second])
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
