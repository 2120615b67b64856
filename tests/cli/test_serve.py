"""``goalseek report --serve``: the report as a page that stays open, on loopback, read-only, for nobody who does not know it."""

import html
import http.client
import json
import select
import signal
import socket
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import nights
import pytest
from project import Project, Projects, answer

from goalseek.errors import GoalseekError
from goalseek.views.report import server as report_server
from goalseek.views.report.server import PageServer
from goalseek.views.report.source import copy_source


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return nights.write(tmp_path / "results.jsonl", [*nights.night(12, 3), nights.looked(12)])


@pytest.fixture
def server(results: Path) -> Iterator[PageServer]:
    """A server of that night, at work."""
    with PageServer(copy_source(results), 0) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join(timeout=20)
        assert not thread.is_alive()


def ask(
    server: PageServer, method: str = "GET", path: str | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of an answer; the Host is the server's own unless given."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.putrequest(method, path or server.path, skip_host=True)
    for name, value in {"Host": f"127.0.0.1:{server.server_port}", **headers}.items():
        connection.putheader(name, value)
    connection.endheaders()
    answered = connection.getresponse()
    told = answered.status, dict(answered.headers), answered.read()
    connection.close()
    return told


def by_hand(server: PageServer, request: bytes) -> bytes:
    """The whole answer to a request as it is."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


class TestPage:
    def test_it_is_the_report_and_may_ask_its_own_server_only(self, server: PageServer) -> None:
        status, headers, body = ask(server)
        assert status == 200 and b"val_loss" in body and b"data-live" in body
        for policy in (headers["Content-Security-Policy"], html.unescape(body.decode())):
            assert "default-src 'none'" in policy and "connect-src 'self'" in policy
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["X-Frame-Options"] == "DENY"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin" and headers["Cache-Control"] == "no-store"
        assert "Set-Cookie" not in headers and "Python" not in headers["Server"]

    def test_a_new_record_is_on_the_next_page(
        self, server: PageServer, results: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def dots() -> int:
            return ask(server)[2].count(b'class="dot ')

        monkeypatch.setattr(report_server, "_BUSY_SHARE", 0)
        before = json.loads(ask(server, path=f"{server.path}state")[2])["seen"]
        assert dots() == 13
        line = json.dumps(list(nights.night(13, 3))[-1])
        with results.open("a") as file:
            file.write(line[:100])
            file.flush()
            assert dots() == 13
            monkeypatch.setattr(report_server, "_BUSY_SHARE", 1000)
            file.write(line[100:] + "\n")
        assert dots() == 14
        assert json.loads(ask(server, path=f"{server.path}state")[2])["seen"] != before
        nights.write(results, nights.night(4))
        assert dots() == 14, "it has just been made"
        monkeypatch.setattr(server, "_not_before", 0.0)
        assert dots() == 5

    def test_the_picture_tells_phase_and_heartbeat(self, server: PageServer, results: Path) -> None:
        moment = {"status": "running", "phase": "VERIFY", "iteration": 13, "phase_started_at": "2026-01-01T00:00:00Z"}
        results.with_name("state.json").write_text(json.dumps({**moment, "heartbeat_at": "2026-01-01T00:00:09Z"}))
        told = json.loads(ask(server, path=f"{server.path}state")[2])
        assert (told["status"], told["at_work"]) == ("running", True)
        assert told["phase"] == "in VERIFY of iteration 13 since 2026-01-01T00:00:00Z, seen 2026-01-01T00:00:09Z"


class TestRefusals:
    def test_its_own_names_are_served_and_a_foreign_host_or_origin_refused(self, server: PageServer) -> None:
        port = server.server_port
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"):
            assert ask(server, Host=host, Origin=f"http://{host}")[0] == 200
        foreign = [f"{name}:{port}" for name in ("evil.example", "localhost.evil.example", "user@127.0.0.1", "0.0.0.0")]
        for host in (
            *foreign,
            f"[::ffff:127.0.0.1]:{port}",
            f"127.0.0.1:{port}.evil.example",
            "127.0.0.1:1",
            "127.0.0.1",
            "",
        ):
            status, _, body = ask(server, Host=host)
            assert status == 421 and b"val_loss" not in body
        for origin in ("http://evil.example", "null", "http://127.0.0.1", f"https://127.0.0.1:{port}"):
            assert ask(server, Origin=origin)[0] == 403

    def test_requests_by_hand_are_refused_without_a_number(self, server: PageServer) -> None:
        for told, status in (
            ("GET {path} HTTP/1.1", 421),
            ("GET {path} HTTP/1.0", 421),
            ("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: evil.example", 421),
            ("GET {path} HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: 127.0.0.1:{port}", 421),
            ("GET http://evil.example{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}", 404),
            ("GET http://127.0.0.1:{port}{path} HTTP/1.1\r\nHost: evil.example", 421),
            ("GET {path}../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1:{port}", 404),
            ("GET {path}%2e%2e/results.jsonl HTTP/1.1\r\nHost: 127.0.0.1:{port}", 404),
            ("GET {path}results.jsonl HTTP/1.1\r\nHost: 127.0.0.1:{port}", 404),
            ("GET {path}?x=1 HTTP/1.1\r\nHost: 127.0.0.1:{port}", 404),
            *((f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{{port}}", 404) for path in ("/", "/state", "//", "{path}x")),
            ("GET /x/..{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}", 404),
            ("POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 999999999", 405),
        ):
            request = told.format(path=server.path, port=server.server_port) + "\r\n\r\n"
            answered = by_hand(server, request.encode())
            assert answered.split(b"\r\n")[0].split()[1] == str(status).encode(), told
            assert b"val_loss" not in answered and b"root:" not in answered

    @pytest.mark.slow
    def test_many_slow_readers_do_not_keep_the_page_from_others(self, server: PageServer) -> None:
        before = threading.active_count()
        slow = [socket.create_connection(("127.0.0.1", server.server_port), timeout=10) for _ in range(150)]
        try:
            for connection in slow:
                connection.sendall(b"GET / HT")
            assert ask(server)[0] == 200
            assert threading.active_count() - before < 100
            assert slow[0].recv(10) == b"", "who came first has had its time"
        finally:
            for connection in slow:
                connection.close()
        assert ask(server)[0] == 200

    def test_records_that_cannot_be_read_are_said_and_come_back(self, server: PageServer, results: Path) -> None:
        kept = results.read_bytes()
        results.unlink()
        results.mkdir()
        status, _, body = ask(server)
        assert status == 503 and b"the records cannot be read now" in body
        results.rmdir()
        results.write_bytes(kept)
        assert ask(server)[0] == 200

    def test_it_is_read_only_and_on_loopback_only(self, server: PageServer) -> None:
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"):
            status, headers, _ = ask(server, method)
            assert (status, headers["Allow"]) == (405, "GET, HEAD")
        status, headers, body = ask(server, "HEAD")
        assert (status, body) == (200, b"") and int(headers["Content-Length"]) > 1000
        assert server.server_address[0] == "127.0.0.1"
        assert len(server.path.strip("/")) >= 20

    def test_a_nonsensical_reader_harms_nobody(self, server: PageServer, capfd: pytest.CaptureFixture[str]) -> None:
        odd = b"GET /\xff\xfe HTTP/1.0\r\nHost: \xff\r\n\r\n"
        for told in (b"", b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", odd, b"G" * 70000):
            with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as connection:
                connection.sendall(told)
        assert ask(server)[0] == 200
        assert capfd.readouterr().err == ""

    def test_a_port_that_is_taken_or_none_is_said(self, server: PageServer, results: Path, project: Project) -> None:
        for port in (server.server_port, 70000):
            with pytest.raises(GoalseekError, match=f"--port {port}"):
                PageServer(copy_source(results), port)
        for words in (["--serve", "--port", "many"], ["--port", "8000"], ["--serve", "-o", "x.html"]):
            done = project.run("report", *words)
            assert done.exit_code == 2 and words[-2] in done.stderr, done.stderr


class TestCommand:
    def page(self, url: str) -> str:
        with urllib.request.urlopen(url, timeout=20) as answered:
            return str(answered.read().decode())

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
    @pytest.mark.slow
    def test_it_prints_its_address_serves_and_ends_cleanly(self, played: Projects, number: int, code: int) -> None:
        project = played(answer(2))
        before = project.users()
        started = project.start("report", "--serve")
        try:
            assert started.stdout
            url = started.stdout.readline().strip()
            assert "score 1 → 2" in self.page(url)
            assert json.loads(self.page(f"{url}state"))["status"] == "finished as asked"
            slow = socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), timeout=20)
            slow.sendall(b"GET / HT")  # nobody's slowness keeps it from ending
        finally:
            started.send_signal(number)
            _, stderr = started.communicate(timeout=20)
        slow.close()
        assert started.returncode == code and "Traceback" not in stderr
        assert project.users() == before

    def test_before_the_first_record_it_waits_for_it(self, project: Project) -> None:
        started = project.start("report", "--serve", "--json")  # its address comes through a pipe at once
        try:
            assert started.stdout and select.select([started.stdout], [], [], 20)[0]
            assert "Nothing is measured yet" in self.page(json.loads(started.stdout.readline())["url"])
        finally:
            started.send_signal(signal.SIGINT)
            started.communicate(timeout=20)
        assert (started.returncode, project.traces()) == (0, [])


def test_a_bug_is_shown_where_the_server_runs(
    server: PageServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> bytes:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr(server, "page", fails)
    assert (
        by_hand(server, f"GET {server.path} HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n".encode()) == b""
    )
    assert "ZeroDivisionError: of ours" in capsys.readouterr().err
