"""The ways in which work ends early on purpose, and shows itself to a person."""

from __future__ import annotations

import typing

from goalseek.values import Stop

if typing.TYPE_CHECKING:
    from goalseek.phase_values import Edit
    from goalseek.values import Usage


BAD_FINDING = 1
USAGE = 2
UNFIT = 3
LOCKED = 4
NEEDS_HUMAN = 5
BUG = 70


class GoalseekError(Exception):
    """Something that the user can put right: what is wrong, what would be right, and the exit code.

    ``exit_code`` is one of the contract's codes; ``stop_reason`` names the end of a run where it ended one.
    """

    def __init__(self, message: str, hint: str = "", exit_code: int = USAGE, stop_reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code
        self.stop_reason = stop_reason


class Rejected(Exception):
    """Ends an iteration before its measurement; it is recorded like any other result.

    ``outcome`` and ``reason`` are those of the contract's table; ``why`` is one sentence for people. ``output`` is
    what a provider printed before it failed, for ``provider_output.md``; ``usage`` is what its call cost. ``edits`` are
    what the change has within its scope, where it can go back to its author; None where it cannot.
    """

    def __init__(
        self,
        outcome: str,
        reason: str,
        why: str,
        output: str = "",
        usage: Usage | None = None,
        edits: tuple[Edit, ...] | None = None,
    ) -> None:
        from goalseek.values import Usage

        super().__init__(f"{outcome} / {reason}: {why}")
        self.outcome = outcome
        self.reason = reason
        self.why = why
        self.output = output
        self.usage = usage or Usage()
        self.edits = edits


class Interrupted(BaseException):
    """A signal asked the tool to end at a place that resumes; ``signal_number`` says which one."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


class GitFailed(Exception):
    """A git command that should have worked did not."""

    def __init__(self, arguments: tuple[str, ...], exit_code: int, stderr: bytes) -> None:
        said = stderr.decode("utf-8", "replace").strip()
        super().__init__(f"git {' '.join(arguments)} ended with {exit_code}: {said}")
        self.exit_code = exit_code
        self.said = said


def tampered(message: str, hint: str = "") -> GoalseekError:
    """The error that stops a run whose ruler changed."""
    usual = "put back what was measured with, and run the same command; or goalseek baseline adopts what is there now"
    return GoalseekError(message, hint or usual, UNFIT, "tampered")


class Paused(Exception):
    """Enough was done for now; ``following`` is the phase that comes next."""

    def __init__(self, following: str) -> None:
        super().__init__(following)
        self.following = following


class LimitReached(Exception):
    """A limit ends the invocation before a phase that spends; what is stored stays, and is gone on from."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.why)
        self.stop = stop
