"""The server itself: on loopback, one thread a connection; it plays its moves in order and remembers every request."""

from __future__ import annotations

import json
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from model_server import anthropic_messages, gemini_content, own_tools
from model_server.anthropic_messages import MESSAGES
from model_server.asked import Answer, Asked, Interface
from model_server.gemini_content import CONTENT
from model_server.moves import Cut, Die, Edit, Hang, Loop, Move, Refuse
from model_server.openai_chat import CHAT
from model_server.openai_responses import RESPONSES

_NOTHING = Edit(text="There is nothing to do.")
_ASIDE = Edit(text="Aside")


@dataclass(frozen=True)
class Seen:
    """A request, and what was done about it: ``answer``, ``call``, ``aside``, or the name of a move that fails.

    ``seconds`` are of the monotonic clock.
    """

    path: str
    asked: Asked
    done: str
    seconds: float


class ModelServer:
    """Plays its moves, one for each new question, then ``otherwise`` again and again, or what it says to a question.

    A question that follows the result of a tool goes on with its move, unless ``gate`` gives another move for it, which
    is none that answers. An agent's side questions, which offer no tool (a title for the session, say), are answered
    aside. Closes and reopens at the same address where a move says so.
    """

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.unknown: list[str] = []
        self.otherwise: Move | Callable[[Asked], Move] = _NOTHING
        self.gate: Callable[[Asked], Move | None] = lambda asked: None
        self._moves: list[Move] = []
        self._playing: dict[str, Edit | Loop] = {}
        self._number = 0
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self._listening: _Listening | None = None
        self._threads: list[threading.Thread] = []
        self.port = 0
        self._open()

    def __enter__(self) -> ModelServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The address, without a path."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def moves_left(self) -> int:
        return len(self._moves)

    def play(self, *moves: Move) -> None:
        """Adds moves to the end of the script."""
        with self._lock:
            self._moves += moves

    def done(self) -> list[str]:
        """What was done about each request, asides left out."""
        return [seen.done for seen in self.seen if seen.done != "aside"]

    def close(self) -> None:
        """Ends the server; requests that hang are let go."""
        self._closing.set()
        self._shut()
        for thread in self._threads:
            thread.join(timeout=10)

    def _open(self) -> None:
        self._listening = _Listening(("127.0.0.1", self.port), self)
        self.port = self._listening.server_address[1]
        self._start(self._listening.serve_forever, 0.02)

    def _start(self, act: Callable[..., object], *arguments: float) -> None:
        thread = threading.Thread(target=act, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _shut(self) -> None:
        with self._lock:
            listening, self._listening = self._listening, None
        if listening is not None:
            listening.shutdown()
            listening.server_close()

    def die(self, seconds: float | None) -> None:
        """Refuses connections for ``seconds``, or until it is reopened."""
        listening = self._listening
        if listening is not None:
            listening.socket.shutdown(socket.SHUT_RDWR)  # refused from now on, whatever the accepting thread does

        def go() -> None:
            self._shut()
            if seconds is not None and not self._closing.wait(seconds):
                self._open()

        self._start(go)

    def reopen(self) -> None:
        """Listens again after ``die(None)``."""
        self._threads[-1].join(timeout=10)
        self._open()

    def next_move(self, asked: Asked) -> tuple[str, Move, Answer | None]:
        """What to do about a request: a word for it, the move, and the answer where there is one."""
        with self._lock:
            self._number += 1
            if own_tools.is_aside(asked):
                return "aside", _ASIDE, Answer(_ASIDE.text, None, _ASIDE.tokens, self._number)
            if barred := self.gate(asked):
                return type(barred).__name__.lower(), barred, None
            move: Move = self._playing[asked.prompt] if asked.results else self._new(asked)
            if isinstance(move, Loop):
                self._playing[asked.prompt] = move
                command = f"sleep {move.seconds}; echo {self._number}"
                return "call", move, Answer("", own_tools.run(asked, command), move.tokens, self._number)
            if not isinstance(move, Edit):
                if not isinstance(move, Cut):
                    return type(move).__name__.lower(), move, None
                return "cut", move, Answer(move.text, None, Edit().tokens, self._number)
            self._playing[asked.prompt] = move
            calls = list(own_tools.steps(asked, move)) if own_tools.can_edit(asked) else []
            if len(asked.results) < len(calls):
                return "call", move, Answer("", calls[len(asked.results)], move.tokens, self._number)
            return "answer", move, Answer(own_tools.told(asked, move), None, move.tokens, self._number)

    def wait_while_asked(self, connection: socket.socket) -> None:
        """Waits until the one who asks goes away, or the server closes."""
        while not self._closing.wait(0.05):
            if select.select([connection], [], [], 0)[0] and not connection.recv(1, socket.MSG_PEEK):
                return

    def _new(self, asked: Asked) -> Move:
        if self._moves:
            return self._moves.pop(0)
        return self.otherwise(asked) if callable(self.otherwise) else self.otherwise


class _Listening(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], owner: ModelServer) -> None:
        self.owner = owner
        super().__init__(address, _Handler)

    def handle_error(self, *_: object) -> None:
        """An agent that was killed in the middle of an answer is nothing to report."""


class _Handler(BaseHTTPRequestHandler):
    server: _Listening
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        """Requests are remembered, not printed."""

    def do_HEAD(self) -> None:
        self._send(200, {})

    def do_GET(self) -> None:
        if self.path.partition("?")[0].endswith("/models"):
            self._send(200, {"object": "list", "data": [], "models": []})
        else:
            self._send(404, {"error": {"message": "there is no such path", "type": "not_found_error"}})

    def do_POST(self) -> None:
        owner = self.server.owner
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        path = self.path.partition("?")[0]
        counter = _COUNTERS.get(path.rpartition("/")[2].rpartition(":")[2])
        if counter is not None:
            self._send(200, counter(body))
            return
        interface = next((found for mark, found in _INTERFACES.items() if mark in path), None)
        if interface is None:
            owner.unknown.append(path)
            self._send(404, {"error": {"message": "there is no such path", "type": "not_found_error"}})
            return
        asked = replace(interface.read(path, body), key=self._key())
        done, move, answer = owner.next_move(asked)
        owner.seen.append(Seen(self.path, asked, done, time.monotonic()))
        if isinstance(move, Hang):
            owner.wait_while_asked(self.connection)
            self.close_connection = True
        elif isinstance(move, Die):
            owner.die(move.seconds)
            self._reset()
        elif isinstance(move, Refuse):
            told, headers = interface.error(move)
            self._send(move.status, told, headers)
        elif answer is not None:
            self._answer(interface, asked, answer, isinstance(move, Cut))

    def _answer(self, interface: Interface, asked: Asked, answer: Answer, is_cut: bool) -> None:
        if not asked.is_streamed:
            whole = json.dumps(interface.whole(asked, answer)).encode()
            self._head(200, {"content-type": "application/json", "content-length": str(len(whole))})
            self.wfile.write(whole[: len(whole) // 2] if is_cut else whole)
        else:
            pieces = list(interface.stream(asked, answer))
            sent = b"".join(pieces)
            self._head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
            for piece in [sent[: len(sent) // 2]] if is_cut else pieces:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            if not is_cut:
                self.wfile.write(b"0\r\n\r\n")
        if is_cut:
            self.wfile.flush()
            time.sleep(0.05)  # a reset that comes too early takes what was sent with it
            self._reset()

    def _send(self, status: int, told: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        content = json.dumps(told).encode()
        more = {"content-type": "application/json", "content-length": str(len(content)), **(headers or {})}
        self._head(status, more)
        if self.command != "HEAD":
            self.wfile.write(content)

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _reset(self) -> None:
        """Breaks the connection off: the one who asks sees a reset, not an end."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def _key(self) -> str:
        signed = self.headers.get("authorization", "").removeprefix("Bearer ")
        return signed or self.headers.get("x-api-key") or self.headers.get("x-goog-api-key") or ""


_INTERFACES: dict[str, Interface] = {
    "/messages": MESSAGES,
    "/responses": RESPONSES,
    "/chat/completions": CHAT,
    "enerateContent": CONTENT,
}
_COUNTERS: dict[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
    "count_tokens": anthropic_messages.count_tokens,
    "countTokens": gemini_content.count_tokens,
}
