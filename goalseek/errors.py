"""Exceptions and exit codes: errors that the user can correct, and the planned early ends of work."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from goalseek.phase_values import Edit, Plan
    from goalseek.values import Stop, StopReason, Usage


BAD_FINDING = 1
USAGE = 2
UNFIT = 3
LOCKED = 4
NEEDS_HUMAN = 5
BUG = 70
PENDING = 75


class GoalseekError(Exception):
    """An error that the user can correct; ``hint`` says how.

    ``end`` is an exit code, or the reason why a run stops, which has its code. ``stop_reason`` is "" if no run stops.
    """

    stop_reason: StopReason | typing.Literal[""]

    def __init__(self, message: str, hint: str = "", end: int | StopReason = USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if isinstance(end, int):
            self.exit_code, self.stop_reason = end, ""
        else:
            from goalseek.values import EXIT_CODES

            self.exit_code, self.stop_reason = EXIT_CODES[end], end


class Rejected(Exception):
    """Ends an iteration before its measurement; the iteration is recorded like any other.

    ``output`` is the provider's (``provider_output.md``), ``usage`` its call's. ``edits`` are those within scope if the
    change can go back to its author for a repair, else None; ``plan`` has the author's title and account.
    """

    def __init__(
        self,
        outcome: str,
        reason: str,
        why: str,
        output: str = "",
        usage: Usage | None = None,
        edits: tuple[Edit, ...] | None = None,
        plan: Plan | None = None,
    ) -> None:
        from goalseek.values import Usage

        super().__init__(f"{outcome} / {reason}: {why}")
        self.outcome = outcome
        self.reason = reason
        self.why = why
        self.output = output
        self.usage = usage or Usage()
        self.edits = edits
        self.plan = plan


class Ended(BaseException):
    """The climb ends; a later invocation goes on with what this iteration has stored."""


class Interrupted(BaseException):
    """A signal ends the tool at a point from which it can go on later."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


def exit_code_of_interrupt(error: BaseException) -> int:
    """128 and the number of the signal that raised Interrupted or KeyboardInterrupt."""
    return 128 + (error.signal_number if isinstance(error, Interrupted) else 2)


class GitFailed(Exception):
    def __init__(self, arguments: tuple[str, ...], exit_code: int, stderr: bytes, stdout: bytes = b"") -> None:
        text = stderr.decode("utf-8", "replace").strip()
        super().__init__(f"git {' '.join(arguments)} ended with {exit_code}: {text}")
        self.exit_code = exit_code
        self.stderr = text
        self.stdout = stdout
        self._arguments = arguments

    def __reduce__(self) -> tuple[type[GitFailed], tuple[object, ...]]:
        return GitFailed, (self._arguments, self.exit_code, self.stderr.encode(), self.stdout)  # from a worker, say


def tampered_error(message: str, hint: str = "") -> GoalseekError:
    from goalseek.values import StopReason

    usual = "restore the state of the baseline; or adopt the present one: goalseek baseline"
    return GoalseekError(message, hint or usual, StopReason.TAMPERED)


class Paused(Exception):
    """Ends an invocation that was to run only some phases."""

    def __init__(self, following: str) -> None:
        super().__init__(following)
        self.next_phase = following


class LimitReached(Exception):
    """Ends the invocation before a phase that would spend; the next one goes on from the checkpoints."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.why)
        self.stop = stop
