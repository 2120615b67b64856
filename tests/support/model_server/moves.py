"""The moves of a script: what the model server does when it is asked something new."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Tokens:
    """What one answer is said to have used; ``fresh`` was not in the cache, ``written`` was put into it."""

    fresh: int = 100
    cached: int = 40
    written: int = 0
    output: int = 20

    @property
    def input(self) -> int:
        """All that was read."""
        return self.fresh + self.cached + self.written


@dataclass(frozen=True)
class ToolCall:
    """A tool to call, ``namespace.name`` if it is in one. ``arguments`` are a text for a tool that takes no JSON."""

    name: str
    arguments: Mapping[str, Any] | str


@dataclass(frozen=True)
class Edit:
    """Writes whole files with the agent's own tools, one call each, then says ``text``.

    ``commands`` are run first, in the agent's own shell; a call among them is made as it is. In ``text``, ``{nonce}``
    is the prompt's nonce.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    text: str = "an edit"
    commands: tuple[str | ToolCall, ...] = ()
    tokens: Tokens = Tokens()


@dataclass(frozen=True)
class Refuse:
    """An error instead of an answer. ``retry_after`` are seconds, told in the ways that each interface has.

    ``is_spent`` says that a subscription's allowance is used up until then.
    """

    status: int
    retry_after: int | None = None
    is_spent: bool = False


@dataclass(frozen=True)
class Hang:
    """No answer at all, until the server is closed or the agent goes away."""


@dataclass(frozen=True)
class Cut:
    """Half of a streamed answer, in the middle of an event, then the connection is reset."""

    text: str = "this answer is cut off"


@dataclass(frozen=True)
class Die:
    """The server goes away at once, without an answer; connections are refused for ``seconds``, then it is back.

    Where ``seconds`` is None it stays away until the test reopens it.
    """

    seconds: float | None = 1.0


@dataclass(frozen=True)
class Loop:
    """The agent's own shell is called for ever, with another command each time; no answer is the last one."""

    seconds: float = 0.2
    tokens: Tokens = Tokens()


Move = Edit | Refuse | Hang | Cut | Die | Loop


def plan(title: str, files: str, kind: str = "PLAN") -> Edit:
    """A plan between the sentinels of the prompt's nonce; it edits nothing."""
    text = f"<<<GOALSEEK {kind} {{nonce}}\n{title}\nIt may help.\nfiles:\n{files}\nGOALSEEK {kind} {{nonce}}>>>"
    return Edit(text=text)


def review(verdict: str, reason: str) -> Edit:
    return Edit(text=f"<<<GOALSEEK REVIEW {{nonce}}\n{verdict}\n{reason}\nGOALSEEK REVIEW {{nonce}}>>>")
