"""``state.json``: a picture of the run for people and dashboards, never read to decide."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from goalseek.humanize import since
from goalseek.ledger.standing import MeasuredCommit, Standing
from goalseek.manifest.tables import Limits
from goalseek.values import to_plain

HEARTBEAT_SECONDS = 5.0
CALM_SECONDS = 0.1
STALE_SECONDS = 30.0
AT_WORK = ("running", "waiting")


@dataclass(frozen=True)
class Moment:
    """What the picture shows beside the standing."""

    status: str
    run_id: str
    started_at: str
    iteration: int | None = None
    phase: str | None = None
    phase_started_at: str | None = None
    stop_reason: str | None = None
    ended_at: str | None = None
    next: str = ""
    turn: str = ""


class Picture:
    """The file, and what it shows now. Not worth an fsync; where its folder is gone, nothing is written.

    A phase that follows another one within ``CALM_SECONDS`` is shown by the next beat, if it still lasts: nobody can
    read faster, and to replace a file makes the disk work.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._shown: tuple[Moment, Standing, Limits] | None = None
        self._last: Moment | None = None
        self._written = 0.0
        self._is_owed = False

    @property
    def is_shown(self) -> bool:
        """Whether this invocation has shown anything."""
        return self._shown is not None

    def show(self, moment: Moment, standing: Standing, limits: Limits) -> None:
        """Replaces the picture."""
        self._shown = (moment, standing, limits)
        self._renew(moment)

    def turned(self, turn: str) -> None:
        """Shows the same moment in its next turn: ``run 2, the candidate``."""
        if self._shown and turn:
            self._shown = (replace(self._shown[0], turn=turn), *self._shown[1:])
            self._renew(self._shown[0])

    def waiting(self, text: str) -> None:
        """Shows the same moment as one that waits, with what for; "" where the wait is over."""
        if self._shown:
            moment = self._shown[0]
            self._renew(replace(moment, status="waiting", next=text) if text else moment)

    def beat(self) -> None:
        """Renews the heartbeat, when it is time, and shows what is not shown yet."""
        if self._last and (self._is_owed or self._seconds() >= HEARTBEAT_SECONDS):
            self._write(self._last)

    def _renew(self, moment: Moment) -> None:
        goes_on = self._last is not None and self._last.status == moment.status
        self._last = moment
        if goes_on and self._seconds() < CALM_SECONDS:
            self._is_owed = True
            return
        self._write(moment)

    def _seconds(self) -> float:
        return time.monotonic() - self._written

    def _write(self, moment: Moment) -> None:
        assert self._shown
        self._is_owed, self._written = False, time.monotonic()
        if self.path.parent.is_dir():
            write_state(self.path, moment, *self._shown[1:])


def phase_in_words(picture: dict[str, Any], now: datetime | None = None) -> str:
    """``in VERIFY of iteration 3 since 2026-01-01T00:00:00Z``; "" where the picture shows nobody at work.

    With ``now``, since when is told as people say it.
    """
    if picture.get("status") not in AT_WORK or not picture.get("phase"):
        return ""
    began = str(picture.get("phase_started_at"))
    told = f"since {began}" if now is None else since(began, now)
    return f"in {picture['phase']} of iteration {picture.get('iteration')} {told}"


def seconds_since_beat(picture: dict[str, Any]) -> float | None:
    """How old the heartbeat is; None where there is none that could be read."""
    try:
        beat = datetime.fromisoformat(str(picture["heartbeat_at"]))
        return (datetime.now(UTC) - beat).total_seconds()
    except (KeyError, ValueError, TypeError):
        return None


def write_state(path: Path, moment: Moment, standing: Standing, limits: Limits) -> None:
    """Replaces the file."""
    picture: dict[str, Any] = {
        **to_plain(moment),
        "heartbeat_at": utc_now(),
        "pid": os.getpid(),
        "host": os.uname().nodename,
        "best": _marked(standing.best),
        "incumbent": _marked(standing.incumbent),
        "spend": to_plain(standing.spend),
        "limits": to_plain(limits),
    }
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(picture) + "\n")
    temporary.replace(path)


def read_state(path: Path) -> dict[str, Any]:
    """The picture, or nothing where there is none."""
    try:
        picture = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return picture if isinstance(picture, dict) else {}


def utc_now() -> str:
    """Now, UTC, to the second."""
    return datetime.now(UTC).isoformat("T", "seconds").replace("+00:00", "Z")


def _marked(mark: MeasuredCommit | None) -> dict[str, Any] | None:
    return {"iteration": mark.iteration, "value": mark.value, "commit": mark.commit} if mark else None
