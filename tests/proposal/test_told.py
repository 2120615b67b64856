"""What the agent may be told: of a command that sees hidden files the reason only, and how crashes ended alike."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import iteration

from goalseek.ledger.standing import CRASHED
from goalseek.manifest.tables import VerifyCommand
from goalseek.proposal.past_tries import common_ending, past_try
from goalseek.values import CommandRun

SECRET = "the label of row 7 is cat"
TRAIN = VerifyCommand(run="python train.py", name="train", sees="candidate")
SCORE = VerifyCommand(run="python score.py", name="score", sees="hidden")
BOTH = replace(SCORE, sees="both")
LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=30)


@pytest.mark.parametrize("reason", CRASHED)
@pytest.mark.parametrize("last", [SCORE, BOTH])
def test_the_sentence_of_a_crash_that_a_hidden_command_may_speak_in_is_not_told(
    reason: str, last: VerifyCommand
) -> None:
    record = iteration(
        1, 1, "reverted", reason, why=f"score ended with 3: {SECRET}", verify=(CommandRun("score", 3, 1),)
    )
    told = past_try(record, (TRAIN, last))
    assert told.why and SECRET not in told.why and "score" not in told.why and told.reason == reason
    assert SECRET in record.why


def test_the_sentence_of_a_command_that_sees_the_candidate_is_told() -> None:
    record = iteration(
        1, 1, "reverted", "verify_failed", why="train ended with 1: KeyError", verify=(CommandRun("train", 1, 1),)
    )
    assert past_try(record, (TRAIN, SCORE)).why == "train ended with 1: KeyError"
    missing = replace(record, reason="no_metric", why="accuracy: 'nan?' is not a number")
    assert past_try(missing, (TRAIN,)).why == missing.why
    assert past_try(missing, (TRAIN, SCORE)).why == "the measurement gave no metric"
    assert past_try(replace(record, verify=()), (TRAIN, SCORE)).why == "the verifier failed"


def test_every_other_sentence_is_told() -> None:
    for reason in ("worse", "tie", "duplicate", "provider_failed", "out_of_scope", "better"):
        assert past_try(iteration(1, 1, "reverted", reason, why="so it is"), (SCORE,)).why == "so it is"


@given(st.lists(LINES, min_size=1, max_size=4), LINES)
def test_a_common_ending_is_the_end_of_every_text(heads: list[list[str]], tail: list[str]) -> None:
    texts = ["\n".join([*head, *tail]) for head in heads]
    ending = common_ending(texts, 1000, 10**6)
    assert all(text.rstrip().endswith(ending) for text in texts)
    assert "\n".join(tail).strip("\n") in ending, "nothing that is common is missed"
    assert common_ending(texts) in (ending, "\n".join(ending.splitlines()[-20:]).strip("\n"))


@given(st.lists(st.text(min_size=1, max_size=300), max_size=60), st.integers(1, 20), st.integers(1, 2048))
def test_a_common_ending_is_bounded(lines: list[str], lines_most: int, bytes_most: int) -> None:
    text = "\n".join(lines)
    ending = common_ending([text, text], lines_most, bytes_most)
    assert len(ending.splitlines()) <= lines_most and len(ending.encode("utf-8", "replace")) <= bytes_most


def test_spaces_at_the_ends_of_lines_make_no_difference_and_nothing_common_is_nothing() -> None:
    assert common_ending(["one\n  KeyError: 'x'  \n\n", "two\n  KeyError: 'x'"]) == "  KeyError: 'x'"
    assert common_ending(["a", "b"]) == common_ending([]) == ""
