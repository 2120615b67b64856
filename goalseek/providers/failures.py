"""How a provider fails: told apart by exit status, declared fields and what is missing, never by searching prose."""

from __future__ import annotations

from typing import Literal

from goalseek.errors import Rejected
from goalseek.values import Usage

Kind = Literal["rate_limited", "auth", "transient", "timeout", "crashed"]
IN_WORDS: dict[Kind, str] = {
    "rate_limited": "is rate limited",
    "auth": "was refused: its key or login is not accepted",
    "transient": "could not reach its model",
    "timeout": "ran past its limit",
    "crashed": "failed",
}
_AUTH = (401, 402, 403, 407)
_TRANSIENT = (408, 409, 425)
RATE_LIMITED = 429


class Failed(Rejected):
    """A call that came to no answer, and why. ``reset`` is in how many seconds its limit is lifted, where it said so.

    Where nobody answers in its place it is recorded as any rejection is.
    """

    def __init__(
        self, kind: Kind, why: str, output: str = "", usage: Usage | None = None, reset: float | None = None
    ) -> None:
        reason = "provider_timeout" if kind == "timeout" else "provider_failed"
        super().__init__("skipped", reason, why, output, usage)
        self.kind = kind
        self.reset = reset


def kind_of_status(status: int) -> Kind:
    """The kind of failure that an HTTP status means."""
    if status == RATE_LIMITED:
        return "rate_limited"
    if status in _AUTH:
        return "auth"
    return "transient" if status in _TRANSIENT or 500 <= status < 600 else "crashed"
