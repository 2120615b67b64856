"""The door of a drive: answers the ``goalseek`` inside the sandbox by the one outside, with what an agent may know."""

import contextlib
import hmac
import json
import secrets
import select
import shlex
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from goalseek import process
from goalseek.disk import open_folder, remove_if_exists
from goalseek.errors import BUG, USAGE, GoalseekError
from goalseek.humanize import clean_title
from goalseek.manifest.loading import ManifestFile, load
from goalseek.project import tries
from goalseek.sandbox.environment import Redactor
from goalseek.workspace.driven import Drive

_ASKED_OUTSIDE = ("try", "wait", "brief", "direct")
_COMMANDS = (*_ASKED_OUTSIDE, "status", "log", "show")  # these tell a part of the brief
_OPTIONS = "--why --wait --from --to --restore --exit-code --json --query".split()
_REQUEST_BYTES = 64 * 1024
_REQUEST_SECONDS = 10.0
_SHOWN = 60  # characters of a request that is refused


class Door(contextlib.AbstractContextManager["Door"]):
    """Answers one request after the other, in a thread of its own.

    A request is a list of words as JSON, at most 64 KiB: the ``token``, then a command line that names no path outside.
    ``get_secrets`` gives the credentials that no word may store.
    """

    def __init__(self, loaded: ManifestFile, drive: Drive, get_secrets: Callable[[], Redactor]) -> None:
        self.path = drive.folder / "socket"
        self.token = secrets.token_hex(16)  # under Landlock other programs reach the socket too
        self._loaded = loaded
        self._drive = drive
        self._get_secrets = get_secrets
        self._listener = socket.socket(socket.AF_UNIX)
        remove_if_exists(self.path)
        with open_folder(drive.folder) as folder:
            self._listener.bind(f"/proc/self/fd/{folder}/socket")  # the name of a socket may have 107 bytes
        self._listener.listen()
        self._is_over = False
        self._thread: threading.Thread | None = None

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._listener.shutdown(socket.SHUT_RDWR)  # who accepts from it is woken
        if self._thread:
            self._thread.join()
        self._listener.close()
        remove_if_exists(self.path)

    def open(self) -> None:
        """From now on it answers; before, there is no other thread, so that this process can fork."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, daemon=True)
            self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                channel, _ = self._listener.accept()
            except OSError:  # over
                return
            with channel, contextlib.suppress(OSError):  # who asked has gone
                channel.settimeout(_REQUEST_SECONDS)
                request, deadline = b"", time.monotonic() + _REQUEST_SECONDS
                while len(request) <= _REQUEST_BYTES and time.monotonic() < deadline and (part := channel.recv(65536)):
                    request += part
                channel.settimeout(None)
                try:
                    answer = self._answer(request, channel)
                except Exception as error:  # the next request is to be answered all the same
                    answer = BUG, "", f"goalseek: this is a bug: {type(error).__name__}\n"
                channel.sendall(json.dumps(answer).encode())

    def _answer(self, request: bytes, channel: socket.socket) -> tuple[int, str, str]:
        """Exit code, standard output and error."""
        try:
            given: Any = json.loads(request) if len(request) <= _REQUEST_BYTES else None
            token, name, *rest = [word.encode().decode() for word in given]
        except (ValueError, RecursionError, TypeError, AttributeError):
            return USAGE, "", "goalseek: a request is a list of at most 64 KiB of words\n"
        if not hmac.compare_digest(token.encode(), self.token.encode()) or "\0" in "".join((name, *rest)):
            return USAGE, "", "goalseek: this is no request of this drive\n"
        if name not in _COMMANDS or any(word.startswith("-") and word.split("=")[0] not in _OPTIONS for word in rest):
            text = f"in a drive there are {', '.join(_COMMANDS)}, with {', '.join(_OPTIONS)}\n"
            if name in ("--help", "-h", "help"):
                return 0, text, ""
            return USAGE, "", f"goalseek: not {clean_title(shlex.join((name, *rest)), _SHOWN)}: {text}"
        try:
            load(self._loaded.path)  # the error of a command outside would quote it
        except GoalseekError:
            return USAGE, "", "goalseek: the manifest is invalid now; goalseek status outside of this drive says why\n"
        if name in _ASKED_OUTSIDE:
            redact = self._get_secrets().redact_text
            return self._run([name, *map(redact, rest)], channel)
        code, printed, said = self._run(["--json", "brief"], channel)
        return (code, printed, said) if code else _tell_from_brief(json.loads(printed), name, rest)

    def _run(self, words: list[str], channel: socket.socket) -> tuple[int, str, str]:
        """A command of goalseek's own, outside; it is ended if who asked has gone, and a try goes on."""
        own = ["-m", str(self._loaded.path)]
        variables = {**process.environment_without("GOALSEEK_"), tries.DRIVE_VARIABLE: str(self._drive.folder)}
        gone = select.poll()
        gone.register(channel, 0)
        command = process.own_command([*own, *words])
        done = process.run_while(lambda: not (self._is_over or gone.poll(0)), command, variables, self._loaded.folder)
        given = f" {shlex.join(own)}"  # commands that are named lack it inside, as all do there
        printed, said = (text.decode("utf-8", "replace").replace(given, "") for text in (done.stdout, done.stderr))
        return done.returncode, printed, said


def _tell_from_brief(brief: dict[str, Any], name: str, rest: Sequence[str]) -> tuple[int, str, str]:
    """What ``status``, ``log`` and ``show N`` tell an author: the brief's part of it, no output of a hidden command."""
    rows = {str(row["iteration"]): row for row in reversed(brief["history"])}
    answer: Any = {key: brief[key] for key in ("metric", "incumbent", "baseline", "best", "left", "under_way")}
    metric, value, left = brief["metric"]["name"], brief["incumbent"], brief["left"]
    text = f"{metric} {value} is to beat; {brief['baseline']} at the baseline; left of the budget: {left or 'all'}\n"
    if name == "log":
        answer = list(rows.values())
        text = "".join("{iteration:>5} {outcome:<9} {title}: {why}\n".format(**row) for row in answer)
    elif name == "show":
        number = next((word for word in rest if not word.startswith("-")), next(reversed(rows), ""))
        if number not in rows:
            return USAGE, "", f"goalseek: there is no try {number}\n"
        answer = rows[number]
        text = "".join(f"{key}: {value}\n" for key, value in answer.items() if value not in (None, "", []))
    return 0, json.dumps(answer) + "\n" if "--json" in rest else text, ""
