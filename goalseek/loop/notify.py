"""Notification of a person: the program of ``[notify]`` gets each event as JSON on its standard input."""

import contextlib
from typing import Any, Literal

from msgspec import Struct

from goalseek.disk import remove_if_exists, write_atomic
from goalseek.errors import GoalseekError
from goalseek.manifest.loading import with_manifest_option
from goalseek.project.activity import Observer
from goalseek.project.approval import Question, commands_for
from goalseek.project.project import Project
from goalseek.project.status import UNSENT
from goalseek.records import HoldoutRecord, IterationRecord, SettleRecord
from goalseek.sandbox.environment import notify_launch
from goalseek.sandbox.view import Launch
from goalseek.values import EXIT_CODES, Finding, Number, Outcome, Stop, StopReason, to_line

MAX_SECONDS = 30.0
_LAST_END = "last_end.json"
_QUESTIONS = "questions.txt"
_QUESTIONS_MOST = 100
Event = Literal["kept", "waiting", "budget", "stopped"]


class BestCommit(Struct, frozen=True):
    iteration: int
    value: Number
    commit: str


class Notification(Struct, frozen=True, kw_only=True):
    """An event as the program of ``[notify]`` gets it, one line of JSON; every event has all of these keys.

    ``why`` says in a sentence what happened, ``next`` what a person can do. ``line`` is all of it in one line, which
    begins with the project; where all is well it ends with the last line of the invocation.
    ``iteration`` and ``title`` are those of a kept or waiting candidate, ``record`` is that of a kept one.
    ``stop_reason`` is "" but at the end. ``best``, ``settled`` and ``holdout`` are the result so far.
    """

    event: Event
    project: str
    why: str
    next: str = ""
    line: str = ""
    stop_reason: str = ""
    iteration: int | None = None
    title: str = ""
    record: IterationRecord | None = None
    best: BestCommit | None = None
    settled: SettleRecord | None = None
    holdout: tuple[HoldoutRecord, ...] = ()


class Notifier(Observer):
    """Sends events to the program of ``[notify]``, which has MAX_SECONDS; the run goes on even if it fails.

    A note says what went wrong, as does ``status`` until one is sent. The program runs unconfined with the user's
    environment, so one that candidates may change is not run.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._watch = project.watch
        self._asked: dict[int, str] = {}  # the line of each question, by its iteration

    def on_budget(self, text: str) -> None:
        self._notify("budget", text, text)

    def on_record(self, record: IterationRecord | SettleRecord | HoldoutRecord) -> None:
        if isinstance(record, IterationRecord) and record.outcome == Outcome.KEPT:
            line = f"iteration {record.iteration} is kept: {record.why}; {record.hypothesis_summary}"
            about = {"iteration": record.iteration, "title": record.hypothesis_summary, "record": record}
            self._notify("kept", record.why, line, **about)

    def on_question(self, question: Question) -> None:
        """Sent once, even if it is asked again: the person may be elsewhere."""
        number, why, path = question.iteration, question.verdict.why, self._project.loaded.path
        line = f"iteration {number} waits for you ({why}): goalseek approve {number}, or decline {number}"
        self._asked[number] = line = with_manifest_option(line, path)
        if not self._is_stored(_QUESTIONS, question.decided, _QUESTIONS_MOST):
            following = with_manifest_option(commands_for(question), path)
            self._notify("waiting", why, line, iteration=number, title=question.title, next=following)

    def on_stopped(self, stop: Stop) -> None:
        """The same end with nothing recorded since is not sent again: cron may reach it every minute."""
        is_by_cron = stop.reason == StopReason.COUNT and self._project.is_by_timetable
        why, seq = stop.why.partition("\n")[0], self._project.standing.seq
        end = to_line({"end": [stop.reason, why, seq, self._project.loaded.manifest.notify]})
        if is_by_cron or self._is_stored(_LAST_END, end, 1):
            return
        asked = (line for number, line in self._asked.items() if why.startswith(f"iteration {number} waits"))
        rest = stop.line if EXIT_CODES.get(stop.reason) == 0 else stop.next
        line = next(asked, " · ".join(filter(None, (why, rest))))
        self._notify("stopped", stop.why, line, stop_reason=str(stop.reason), next=stop.next)

    def _notify(self, event: Event, why: str, line: str, **fields: Any) -> None:
        loaded = self._project.loaded
        name = loaded.manifest.project.name
        command = loaded.manifest.notify.command
        if not command:
            return
        try:
            line = f"{name}: {' '.join(line.split())}"
            standing, best = self._project.standing, self._project.standing.best
            fields["best"] = BestCommit(best.iteration, best.value, best.commit) if best else None
            fields |= {"settled": standing.settled, "holdout": standing.holdout}
            notification = Notification(event=event, project=name, why=why, line=line, **fields)
            launch, line = notify_launch(loaded), to_line(notification)
            failure = str(launch) if isinstance(launch, Finding) else self._run(command[0], launch, line)
        except (GoalseekError, OSError, ValueError) as error:
            failure = str(error)
        if failure:
            self._watch.on_note(f"notify: {failure}")
        with contextlib.suppress(OSError):  # status shows the failures since one was sent
            if failure:
                with (loaded.logs / UNSENT).open("a", encoding="utf-8") as file:
                    file.write(" ".join(failure.split()) + "\n")
            else:
                remove_if_exists(loaded.logs / UNSENT)

    def _run(self, program: str, launch: Launch, line: str) -> str:
        with self._project.make_programs() as programs:
            result = programs.run(launch, timeout=MAX_SECONDS, stdin=line.encode() + b"\n")
        if result.timed_out:
            return f"{program} ran past its limit, {MAX_SECONDS:.0f}s"
        if result.exit_code:
            lines = (result.stderr or result.stdout).decode("utf-8", "replace").strip().splitlines()
            return f"{program} ended with {result.exit_code}" + (f": {lines[-1][:200]}" if lines else "")
        return ""

    def _is_stored(self, name: str, line: str, most: int) -> bool:
        """Whether the line is one of the last ``most`` in that file, and is from now on: it was sent already."""
        path, sent = self._project.loaded.logs / name, []
        with contextlib.suppress(OSError, ValueError):
            sent = path.read_text(encoding="utf-8").splitlines()
        if line in sent:
            return True
        with contextlib.suppress(OSError):
            write_atomic(path, "\n".join([*sent, line][-most:]) + "\n")
        return False
