"""The calls that the next record pays for, as they are stored: what each is charged, and in which session it was."""

from pathlib import Path

from goalseek.ledger.checkpoints import Checkpoints
from goalseek.ledger.seal import Seal
from goalseek.phase_values import Session
from goalseek.proposal.usage import UsageLog
from goalseek.values import Usage

USUAL = Usage(50, 20, 10, 0.1)
NOTHING = Usage()
SESSION = Session("s", "large", Usage(300, 60, 30, 0.75))


def made(folder: Path, reported: Usage = NOTHING) -> UsageLog:
    """As another process finds them."""
    calls = UsageLog(Checkpoints(folder, Seal(b"secret"), "", "follows"), lambda: reported, lambda calls_each: USUAL)
    calls.current_step = "change"
    return calls


def test_a_session_outlasts_the_process_and_is_that_of_the_last_call_in_its_home(tmp_path: Path) -> None:
    calls = made(tmp_path)
    assert calls.session("1 claude") is None
    calls.begin("PLAN", "1 claude")
    calls.set_session(SESSION)
    calls.begin("REVIEW", "1 review claude")
    assert made(tmp_path).session("1 claude") == SESSION
    assert made(tmp_path).session("1 review claude") is None
    calls.begin("APPLY_CHANGE", "1 claude")
    assert made(tmp_path).session("1 claude") is None, "that call may have died in it"


def test_a_call_whose_answer_was_not_stored_is_charged_and_its_session_is_left(tmp_path: Path) -> None:
    calls = made(tmp_path)
    calls.begin("APPLY_CHANGE", "1 claude")
    calls.set_session(SESSION)
    calls.settle(["change"])
    assert calls.session("1 claude") == SESSION and calls.charged == Usage()
    again = made(tmp_path, Usage(70))
    again.settle([])
    assert again.session("1 claude") is None and again.charged == Usage(70, 20, 10, 0.1, True)


def test_a_failed_call_is_charged_what_it_told_and_one_past_its_time_the_usual_at_least(tmp_path: Path) -> None:
    calls = made(tmp_path)
    calls.begin("APPLY_CHANGE")
    calls.ended(0, timed_out=False)
    calls.failed("APPLY_CHANGE", "it crashed", Usage(1))
    assert calls.charged == Usage(1)
    calls.begin("APPLY_CHANGE")
    calls.ended(2, timed_out=True)
    calls.failed("APPLY_CHANGE", "its time was up", Usage(80))
    assert calls.charged == Usage(81, 20, 10, 0.1, True)
    calls.failed("APPLY_CHANGE", "there is no program", Usage())
    assert calls.charged == Usage(81, 20, 10, 0.1, True), "the one past its time is charged once"


def test_a_failure_without_a_call_is_told_under_its_own_phase(tmp_path: Path) -> None:
    calls = made(tmp_path)
    calls.current_step = "plan"
    calls.begin("PLAN")
    calls.current_step = "change"
    calls.failed("APPLY_CHANGE", "there is no program", Usage())
    assert made(tmp_path).notes == ("in APPLY_CHANGE there is no program",) and calls.charged == Usage()
    calls.settle(["plan"])
    assert calls.charged == Usage()
