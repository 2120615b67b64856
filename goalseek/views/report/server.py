"""The server of the live report, on loopback: read-only, under an address with a secret in it."""

import contextlib
import json
import secrets
import socket
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from goalseek._version import __version__
from goalseek.errors import UNFIT, GoalseekError
from goalseek.project.picture import ACTIVE_STATUSES
from goalseek.views.report.pages import content_security_policy, render_page
from goalseek.views.report.source import ReportSource

ADDRESS = "127.0.0.1"
_BUSY_SHARE = 20
_READERS_MOST = 64
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class PageServer(ThreadingHTTPServer):
    """Makes one page at a time, in at most 5% of the time."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, source: ReportSource, port: int) -> None:
        """Port 0 is any free one. Raises GoalseekError if the port is in use or not allowed."""
        self._source = source
        self._making = threading.Lock()
        self._page = b""
        self._page_version = ""
        self._not_before = 0.0
        # An agent with network access reaches this server too, and must not read the holdout.
        self.path = f"/{secrets.token_urlsafe(16)}/"
        self._readers: dict[Any, None] = {}
        self._readers_lock = threading.Lock()
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as error:
            message = f"--port {port}: {getattr(error, 'strerror', None) or error}"
            raise GoalseekError(message, "leave it out for any port that is free", UNFIT) from None
        names = (ADDRESS, "localhost", "[::1]")
        self.hosts = frozenset(f"{name}:{self.server_port}" for name in names)

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.server_port}{self.path}"

    def page(self) -> bytes:
        # It is made again only if outdated and due: a measurement may need the processor.
        with self._making:
            version = self._version()
            if not self._page or (version != self._page_version and time.monotonic() >= self._not_before):
                start = time.monotonic()
                figures = self._source.read_on()
                page = render_page(figures, self._source.state(is_live=True), self._source.diffs_of)
                self._page = page.encode("utf-8", "replace")
                self._page_version = version
                end = time.monotonic()
                self._not_before = end + _BUSY_SHARE * (end - start)
            return self._page

    def state(self) -> bytes:
        """JSON, whose ``seen`` changes when there is a new page to fetch."""
        status, phase = self._source.activity()
        is_due = time.monotonic() >= self._not_before
        fields = {
            "status": status,
            "at_work": status in ACTIVE_STATUSES,
            "phase": phase,
            "seen": self._version() if is_due or not self._page_version else self._page_version,
        }
        return json.dumps(fields).encode()

    def _version(self) -> str:
        try:
            stat = self._source.results.stat()
        except OSError:
            return "none"
        return f"{stat.st_ino}-{stat.st_size}-{self._source.activity()[0]}"

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._readers_lock:
            self._readers[request] = None  # the oldest of too many connections is closed
            late = next(iter(self._readers)) if len(self._readers) > _READERS_MOST else None
            self._readers.pop(late, None)
        if late:
            with contextlib.suppress(OSError):
                late.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._readers_lock:
            self._readers.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):  # which the reader caused, by closing the connection
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    timeout = 10.0
    server_version = f"goalseek/{__version__}"
    sys_version = ""

    def do_GET(self) -> None:
        refusal = None
        hosts, origins = self.headers.get_all("Host", []), self.headers.get_all("Origin", [])
        addresses = (self.server.path, f"{self.server.path}state")
        if hosts not in [[host] for host in self.server.hosts]:
            refusal = HTTPStatus.MISDIRECTED_REQUEST
        elif any(origin not in {f"http://{host}" for host in self.server.hosts} for origin in origins):
            refusal = HTTPStatus.FORBIDDEN
        elif not any(secrets.compare_digest(self.path.encode(), address.encode()) for address in addresses):
            refusal = HTTPStatus.NOT_FOUND
        if refusal:
            self._send(refusal, refusal.phrase.encode())
            return
        is_state = self.path.endswith("state")
        try:
            body = self.server.state() if is_state else self.server.page()
        except (GoalseekError, OSError) as error:
            text = f"the records cannot be read now: {error}".encode("utf-8", "replace")
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, text)
            return
        self._send(HTTPStatus.OK, body, "application/json" if is_state else "text/html; charset=utf-8")

    do_HEAD = do_GET  # noqa: N815 - as http.server calls it

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return lambda: self._send(HTTPStatus.METHOD_NOT_ALLOWED, b"read-only", Allow="GET, HEAD")
        raise AttributeError(name)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass  # the address has the secret in it

    def _send(self, status: HTTPStatus, body: bytes, kind: str = "text/plain; charset=utf-8", **more: str) -> None:
        policy = f"{content_security_policy(is_live=True)}; frame-ancestors 'none'"
        headers = {"Content-Type": kind, "Content-Length": str(len(body)), **_HEADERS, **more}
        self.send_response(status)
        for name, value in {**headers, "Content-Security-Policy": policy}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
