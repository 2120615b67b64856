"""An agent's session over several calls: whether it goes on, and what each call added to the total that it tells."""

from __future__ import annotations

import re
from dataclasses import replace

from goalseek.phase_values import Session
from goalseek.providers.failures import Failed
from goalseek.providers.preset import Answer
from goalseek.values import Usage

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,199}")  # it becomes a word of a command line, and no option
_LESS = 1 - 1e-9  # sums of dollars differ by rounding


class SessionGone(Failed):
    """The program did not find the session that it was to go on with."""


def added(answer: Answer, session: Session | None) -> Usage:
    """What a call used: of a usage that tells of the whole session, what came to that which had been told before.

    A total that is smaller than the one before was begun anew, and is this call's alone.
    """
    told, before = answer.usage, session.told if session else Usage()
    totals = {name: getattr(told, name) for name in answer.whole_session if getattr(told, name) is not None}
    earlier = {name: getattr(before, name) or 0 for name in totals}
    if any(totals[name] < earlier[name] * _LESS for name in totals):
        return told
    return replace(told, **{name: max(totals[name] - earlier[name], 0) for name in totals})


def following(answer: Answer, session: Session | None, model: str) -> Session | None:
    """What the next call can go on with, after one in ``session``; None where that cannot be known to be there.

    A call that failed where it began a session may have left none.
    """
    is_same = session is not None and session.name == answer.session
    if not _is_name(answer.session) or (answer.trouble and not is_same):
        return None
    before = session.told if session else Usage()
    totals = {name: getattr(answer.usage, name) for name in answer.whole_session}
    return Session(answer.session, model, replace(before, **totals))


def _is_name(said: object) -> bool:
    return isinstance(said, str) and _NAME.fullmatch(said) is not None


def failure_of(answer: Answer, session: Session | None) -> type[Failed]:
    """How an answer with trouble is raised: a program that names no session has not found that which it was given."""
    is_over = answer.trouble is not None and answer.trouble.kind in ("crashed", "transient")
    used = answer.usage.tokens or answer.usage.cost_usd
    return SessionGone if session and is_over and not answer.session and not used else Failed
