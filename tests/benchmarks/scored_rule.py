"""The rule under noise for a program that scores rules: ``make()`` gives a fresh one for each session.

A rule is ``rule(candidate, incumbent, memory)``. It says whether the candidate is kept; ``candidate()`` and
``incumbent()`` make one run each, lower is better, and ``memory`` gets what the session claims: ``base`` and ``now``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from noise_sessions import Session

from goalseek.manifest.tables import Metric

Measure = Callable[[], float]


def make() -> Callable[[Measure, Measure, dict[str, float]], bool]:
    """A rule at the beginning of a session."""
    session = Session(Metric(direction="minimize"), lambda of: 0.0)

    def rule(candidate: Measure, incumbent: Measure, memory: dict[str, float]) -> bool:
        session.draw = lambda of: incumbent() if of == "incumbent" else candidate()
        if not session.records:
            session.baseline()
            memory["base"] = memory["now"] = session.state.value or 0.0
        verdict = session.candidate()[-1]
        memory["now"] = session.state.value or 0.0
        return bool(verdict)

    return rule
