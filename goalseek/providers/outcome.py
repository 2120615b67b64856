"""The outcome of a call: an answer, or why there is none; and whether that ends the run or the same is asked again.

Every call without an answer raises Failed, of one kind of six. Which of them a coding agent's output means, its
preset says; what follows from it is decided here.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from goalseek.disk import full_disk_error
from goalseek.errors import GoalseekError, Rejected
from goalseek.humanize import format_duration
from goalseek.phase_values import Session
from goalseek.providers.preset import Answer, Kind
from goalseek.providers.provider import Call, LaunchSpec
from goalseek.sandbox.supervisor import ProgramResult
from goalseek.values import Outcome, Reason, StopReason, Usage

IN_WORDS: dict[Kind, str] = {
    "rate_limited": "is rate limited",
    "auth": "was refused: its key or login is not accepted",
    "transient": "could not reach its model",
    "timeout": "ran past its limit",
    "crashed": "failed",
    "undeclared": "gave no answer",
}
RATE_LIMITED = 429
_AUTH = (401, 402, 403, 407)
_TRANSIENT = (408, 409, 425)
RETRY_SECONDS = (2.0, 8.0, 30.0)
LIMIT_PAUSES = (30.0, 60.0, 120.0, 240.0, 480.0, 900.0)
_RESET_MARGIN = 1.0
_LONG_AGO = 1_000_000_000  # a larger number is no wait in seconds, but a time in seconds since 1970


class Failed(Rejected):
    """A call without an answer, and why. ``reset`` is the seconds until its limit is lifted, where it said so.

    Where no fallback answers it is recorded as any rejection is.
    """

    def __init__(
        self, kind: Kind, why: str, output: str = "", usage: Usage | None = None, reset: float | None = None
    ) -> None:
        reason = Reason.PROVIDER_TIMEOUT if kind == "timeout" else Reason.PROVIDER_FAILED
        super().__init__(Outcome.SKIPPED, reason, why, output, usage)
        self.kind = kind
        self.reset = reset


class SessionGone(Failed):
    """The program did not find the session that it should resume."""


def kind_of_status(status: int) -> Kind:
    """The kind of failure that an HTTP status means."""
    if status == RATE_LIMITED:
        return "rate_limited"
    if status in _AUTH:
        return "auth"
    return "transient" if status in _TRANSIENT or 500 <= status < 600 else "crashed"


def run_program(call: Call, spec: LaunchSpec) -> ProgramResult:
    """Runs the program to its end. Raises Failed where it cannot be started, and OSError where the disk is full."""
    try:
        return call.start(spec)
    except OSError as error:
        if full_disk_error(error):
            raise
        raise Failed("crashed", f"the provider cannot be started: {error}") from None


def refuse_timeout(result: ProgramResult, output: str, usage: Usage) -> None:
    """Raises Failed where the program ran past its limit."""
    if result.timed_out:
        raise Failed("timeout", f"the provider ran past its limit ({result.seconds:.0f}s)", output, usage)


def refuse_exit_code(result: ProgramResult, output: str, errors: str, usage: Usage) -> None:
    """Raises Failed with the program's last line where its exit code is not 0."""
    if result.exit_code:
        lines = (errors or output).strip().splitlines()
        last = f": {lines[-1][:200]}" if lines else ""
        raise Failed("crashed", f"the provider ended with {result.exit_code}{last}", output + errors, usage)


def refuse_trouble(name: str, answer: Answer, session: Session | None, output: str, usage: Usage) -> None:
    """Raises Failed for an answer with trouble: SessionGone where the program used nothing and names no session."""
    trouble = answer.trouble
    if trouble is None:
        return
    has_usage = answer.usage.tokens or answer.usage.cost_usd
    is_gone = (
        session and trouble.kind in ("crashed", "transient", "undeclared") and not answer.session and not has_usage
    )
    reset = trouble.reset
    if reset is not None and reset > _LONG_AGO:
        reset = min(max(reset - time.time(), 0.0), _LONG_AGO)
    raise (SessionGone if is_gone else Failed)(trouble.kind, f"{name}: {trouble.why}", output, usage, reset)


def pause_before_retry(failed: Failed, earlier: Sequence[Kind], is_last: bool) -> float | None:
    """Seconds to wait before the same provider is asked again, after ``earlier`` failures; None to give it up.

    The last provider is waited for as long as its limit holds.
    """
    count = earlier.count(failed.kind)
    if failed.kind == "transient" and count < len(RETRY_SECONDS):
        return RETRY_SECONDS[count]
    if failed.kind == "rate_limited" and (failed.reset or is_last or count < len(LIMIT_PAUSES)):
        return LIMIT_PAUSES[min(count, len(LIMIT_PAUSES) - 1)] if failed.reset is None else failed.reset + _RESET_MARGIN
    return None


def end_of_run(failures: Sequence[Failed]) -> Exception:
    """What the failures of all providers come to: an error that ends the run, or the last failure, to be recorded."""
    last = failures[-1]
    if all(failed.kind == "auth" for failed in failures):
        return GoalseekError(
            f"no provider accepts its key or login: {'; '.join(failed.why for failed in failures)}",
            "log in, or set another key; goalseek doctor --live shows whether it works; then: goalseek iterate",
            StopReason.AUTH,
        )
    if last.kind == "rate_limited":
        later = f" for {format_duration(last.reset)}" if last.reset else ""
        message = f"{last.why}: its limit holds{later}, longer than this run goes on"
        return GoalseekError(message, "goalseek iterate goes on later", StopReason.PROVIDER)
    return last
