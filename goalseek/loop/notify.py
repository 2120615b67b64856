"""A person is told: a program of theirs gets the record, or the end, as JSON on its standard input."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from goalseek.errors import GoalseekError
from goalseek.ledger.records import IterationRecord
from goalseek.ledger.results_file import load_standing
from goalseek.manifest.loading import Loaded
from goalseek.project.approval import Approval, Question, commands_for
from goalseek.project.watch import Relay, Watch
from goalseek.sandbox.pipes import HeadAndTail
from goalseek.sandbox.supervisor import Supervisor
from goalseek.values import Stop, to_line, to_plain
from goalseek.workspace.scope import scope_of

SECONDS_MOST = 30.0
_LAST_END = "last_end.json"


class NotifyWatch(Relay):
    """Tells another watch everything, and the program of ``[notify]`` what its ``on`` names.

    Whatever the program does, fails or hangs, the run goes on: it gets half a minute, and a note says what was wrong.
    It is the user's own and runs as that, with their environment. One that candidates may change is not run.
    """

    def __init__(self, shown: Watch, loaded: Callable[[], Loaded], programs: Supervisor) -> None:
        """``loaded`` gives the manifest as it is now; the program is one of ``programs``."""
        super().__init__(shown)
        self._loaded = loaded
        self._programs = programs
        if why := _why_not_run(loaded()):
            shown.on_note(f"notify: {why}")

    def on_budget(self, text: str) -> None:
        """Handed on, and told on "budget"."""
        self._target.on_budget(text)
        self._tell({"budget"}, {"event": "budget", "text": text})

    def on_record(self, record: IterationRecord) -> None:
        """Handed on; the whole record of a keep is told on "kept"."""
        self._target.on_record(record)
        if record.outcome == "kept":
            self._tell({"kept"}, to_plain(record))

    def ask(self, question: Question, given: Callable[[], Approval | None]) -> Approval | None:
        """Told on "needs_human", as the person may be elsewhere, then handed on."""
        told = {"event": "waiting", "iteration": question.iteration, "title": question.title}
        self._tell({"needs_human"}, {**told, "why": question.verdict.why, "next": commands_for(question)})
        return self._target.ask(question, given)

    def on_stopped(self, stop: Stop) -> None:
        """Handed on, and told as the end."""
        self._target.on_stopped(stop)
        self._tell_end(stop)

    def on_failed(self, stop: Stop) -> None:
        """Handed on, and told as the end."""
        self._target.on_failed(stop)
        self._tell_end(stop)

    def _tell_end(self, stop: Stop) -> None:
        """The end on "stopped"; one that needs a person also where only "needs_human" is asked for. Once.

        An end that was told, with nothing recorded since, is not told again: cron may come to it every minute.
        """
        if _was_told(self._loaded(), stop):
            return
        events = {"stopped", "needs_human"} if stop.reason == "needs_human" else {"stopped"}
        told = {"event": "stopped", "stop_reason": stop.reason, "why": stop.why, "next": stop.next, "line": stop.line}
        self._tell(events, told, is_end=True)

    def _tell(self, events: set[str], told: dict[str, Any], is_end: bool = False) -> None:
        loaded = self._loaded()
        command, wanted = loaded.manifest.notify.command, loaded.manifest.notify.on
        if not command or not events & set(wanted):
            return
        try:
            more = {"project": loaded.manifest.project.name, **_result(loaded)} if is_end else {}
            wrong = _why_not_run(loaded) or self._run(command, loaded, to_line({**told, **more}))
        except (GoalseekError, OSError, ValueError) as error:
            wrong = str(error)
        if wrong:
            self._target.on_note(f"notify: {wrong}")

    def _run(self, command: tuple[str, ...], loaded: Loaded, line: str) -> str:
        """Runs the program; gives what was wrong in words, or ""."""
        stdin = line.encode() + b"\n"
        finished = self._programs.run(command, loaded.folder, _users_environment(), HeadAndTail(), SECONDS_MOST, stdin)
        if finished.timed_out:
            return f"{command[0]} ran past its limit, {SECONDS_MOST:.0f}s"
        if finished.exit_code:
            said = (finished.stderr or finished.stdout).decode("utf-8", "replace").strip().splitlines()
            return f"{command[0]} ended with {finished.exit_code}" + (f": {said[-1][:200]}" if said else "")
        return ""


def _users_environment() -> dict[str, str]:
    """The user's whole environment, without ``GOALSEEK_*``; on PATH no relative folder, and goalseek's own at its end.

    A relative folder would be one below the manifest's, where kept changes may be taken home to.
    """
    folders = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if Path(folder).is_absolute()]
    path = os.pathsep.join([*folders, str(Path(sys.executable).parent)])
    return {name: value for name, value in os.environ.items() if not name.startswith("GOALSEEK_")} | {"PATH": path}


def _why_not_run(loaded: Loaded) -> str:
    """Why the program is not run: a word of its command is a file that candidates may change. "" where none is."""
    folder = loaded.folder.resolve()
    kind = scope_of(loaded, loaded.manifest, "").kind
    for number, word in enumerate(loaded.manifest.notify.command or ()):
        path = Path(os.path.realpath(folder / word))
        is_here = (number > 0 or "/" in word) and os.path.isfile(path) and path.is_relative_to(folder)
        if is_here and kind(path.relative_to(folder).as_posix()) == "writable":
            return f"{word} is not run: scope.writable lets candidates change it; exclude it there, or move it"
    return ""


def _was_told(loaded: Loaded, stop: Stop) -> bool:
    """Whether the last end that was told is this one; from now on it is. A changed ``[notify]`` is told afresh."""
    path = loaded.logs / _LAST_END
    why = stop.why.partition("\n")[0]
    told = [stop.reason, why, load_standing(loaded).seq, loaded.manifest.notify]
    line = to_line({"end": told})
    with contextlib.suppress(OSError, ValueError):
        if path.read_text(encoding="utf-8") == line:
            return True
    with contextlib.suppress(OSError):
        temporary = path.with_suffix(".new")
        temporary.write_text(line, encoding="utf-8")
        temporary.replace(path)
    return False


def _result(loaded: Loaded) -> dict[str, Any]:
    """The best, the claim where it was settled, and what the holdout said."""
    standing = load_standing(loaded)
    best, settled = standing.best, standing.settled
    return {
        "best": {"iteration": best.iteration, "value": best.value, "commit": best.commit} if best else None,
        "settled": to_plain(settled) if settled else None,
        "holdout": [to_plain(look) for look in standing.holdout],
    }
