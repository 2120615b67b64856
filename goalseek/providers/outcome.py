"""The meaning of a failed call: its provider is closed for now, refuses us, or has failed.

A preset tells the kind of failure from an agent's output; ``fallback`` acts on its meaning.
"""

from __future__ import annotations

import time
from enum import Enum

from goalseek.disk import full_disk_error
from goalseek.errors import Rejected
from goalseek.providers.preset import Kind
from goalseek.providers.provider import Call, LaunchSpec, Provider
from goalseek.sandbox.supervisor import ProgramResult
from goalseek.values import Outcome, Reason, Usage


class Meaning(Enum):
    CLOSED = "closed"  # by a limit or an outage: the next is asked, or the run waits; it costs no iteration
    REFUSED = "refused"  # its key or login is missing or not accepted: the next is asked, or else the run ends
    FAILED = "failed"  # asked three times more, unless it ran past its limit; then the next, or the iteration ends


IN_WORDS: dict[Kind, str] = {
    "rate_limited": "is rate limited",
    "auth": "was refused: its key or login is not accepted",
    "transient": "could not reach its model",
    "later": "asks to be called later",
    "timeout": "ran past its limit",
    "crashed": "failed",
    "undeclared": "gave no answer",
}
_DECLARED: dict[Kind, Meaning] = {
    "rate_limited": Meaning.CLOSED,
    "auth": Meaning.REFUSED,
    "transient": Meaning.CLOSED,
    "later": Meaning.CLOSED,
    "crashed": Meaning.FAILED,
}
PAST_LIMIT = "the provider ran past its limit ({:.0f}s)"
RATE_LIMITED = 429
_AUTH = (401, 402, 403, 407)
_TRANSIENT = (408, 409, 425)
RETRY_SECONDS = (2.0, 8.0, 30.0)
LOOK_SECONDS = (60.0, 120.0, 240.0, 480.0, 900.0)
SHORT_WAIT = 60.0
_RESET_MARGIN = 1.0
_LONG_AGO = 1_000_000_000  # a larger number is no wait in seconds, but a time in seconds since 1970


class Failed(Rejected):
    """A call without an answer, recorded like any rejection if no fallback answers."""

    def __init__(
        self, kind: Kind, why: str, output: str = "", usage: Usage | None = None, reset: float | None = None
    ) -> None:
        if reset is not None and reset > _LONG_AGO:
            reset = min(max(reset - time.time(), 0.0), _LONG_AGO)
        reason = Reason.PROVIDER_TIMEOUT if kind == "timeout" else Reason.PROVIDER_FAILED
        super().__init__(Outcome.SKIPPED, reason, why, output, usage)
        self.kind = kind
        self.reset = reset  # seconds until its limit is lifted
        self.meaning = Meaning.FAILED


class SessionGone(Failed):
    """The program did not find the session to resume."""


def kind_of_status(status: int) -> Kind:
    if status == RATE_LIMITED:
        return "rate_limited"
    if status in _AUTH:
        return "auth"
    return "transient" if status in _TRANSIENT or 500 <= status < 600 else "crashed"


def run_program(call: Call, spec: LaunchSpec) -> ProgramResult:
    """Raises Failed if the program cannot be started, and OSError if the disk is full."""
    try:
        return call.host.start(call, spec)
    except OSError as error:
        if full_disk_error(error):
            raise
        raise Failed("crashed", f"the provider cannot be started: {error}") from None


def interpret(failed: Failed, provider: Provider, has_answered: bool) -> None:
    """Set the meaning of a failure; ``has_answered``: the provider did so earlier in this invocation."""
    # Where nothing was declared and no token was used, no model was reached. Without a login that is why.
    has_usage = failed.usage.tokens or failed.usage.cost_usd or failed.usage.about_usd
    has_login = has_answered or provider.has_login
    if failed.kind in ("transient", "timeout", "undeclared") and not has_usage and not has_login:
        failed.kind = "auth"
        failed.why += "; no login was found (credentials = [] in its table says that none is needed)"
    is_unreached = not has_usage and provider.reports_usage
    failed.meaning = _DECLARED.get(failed.kind, Meaning.CLOSED if is_unreached else Meaning.FAILED)


def seconds_before_retry(failed: Failed, count: int, looks: int, has_next: bool) -> float | None:
    """Seconds until the same provider is asked again, after ``count`` retries; None if it is not.

    A provider that ``looks`` earlier calls found closed is asked once a look. If another is open (``has_next``), a
    closed one is asked again only if it opens within a minute.
    """
    is_closed = failed.meaning is Meaning.CLOSED
    if count >= len(RETRY_SECONDS) or failed.meaning is Meaning.REFUSED or (is_closed and looks):
        return None
    if is_closed and failed.reset is not None:
        return failed.reset + _RESET_MARGIN if failed.reset <= SHORT_WAIT else None
    if is_closed and has_next:
        return None
    return None if failed.kind in ("rate_limited", "timeout") else RETRY_SECONDS[count]


def seconds_closed(failed: Failed, looks: int) -> float:
    """Seconds until a closed provider is asked again, after ``looks`` earlier calls found it closed."""
    # A reset that was told is taken at its word once: one that has come, and changed nothing, may never be true.
    growing = (0.0, *LOOK_SECONDS) if failed.reset is not None else LOOK_SECONDS
    least = growing[min(looks, len(growing) - 1)]
    return least if failed.reset is None else max(failed.reset + _RESET_MARGIN, least)
