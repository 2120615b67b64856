"""``goalseek export`` to MLflow and TensorBoard, again and again, beside a climb; and what never leaves."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import records
from msgspec.structs import replace
from project import JUDGE, Project, Projects, answer, until

from goalseek.records import Record
from goalseek.values import Usage, to_line

SECRET = "hidden-4711"
READ_BACK = """\
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
read = EventAccumulator(sys.argv[1]).Reload()
tags = {tag: [(one.step, one.value, one.wall_time) for one in read.Scalars(tag)] for tag in read.Tags()["scalars"]}
print(json.dumps({"tags": tags, "version": read.file_version, "first": read.FirstEventTimestamp()}))
"""


class StandIn(ThreadingHTTPServer):
    """Answers as MLflow does, so far as an exporter asks, and remembers each request with its login."""

    def __init__(self, port: int = 0) -> None:
        self.asked: list[tuple[str, dict[str, Any], str | None]] = []
        self.tags: dict[str, dict[str, str]] = {}
        self.status = 200
        super().__init__(("127.0.0.1", port), Answering)
        self.uri = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, args=(0.01,)).start()

    def sent(self) -> list[tuple[int, dict[str, float]]]:
        batches = [body["metrics"] for path, body, _ in self.asked if path == "runs/log-batch"]
        return [(batch[0]["step"], {one["key"]: one["value"] for one in batch}) for batch in batches]

    def end(self) -> None:
        self.shutdown()
        self.server_close()


class Answering(BaseHTTPRequestHandler):
    server: StandIn
    log_message = print  # type: ignore[assignment]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path, known = self.path.removeprefix("/api/2.0/mlflow/"), self.server.tags
        self.server.asked.append((path, body, self.headers["Authorization"]))
        name = body.get("run_name") or body.get("run_id") or body.get("filter", "''").split("'")[1]
        if "tags" in body:
            known[name] = known.get(name, {}) | {tag["key"]: tag["value"] for tag in body["tags"]}
        tags = [{"key": key, "value": value} for key, value in known.get(name, {}).items()]
        run = {"info": {"run_id": name}, "data": {"tags": tags}}
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(json.dumps({"experiment_id": "7", "run": run, "runs": [run] * (name in known)}).encode())


@pytest.fixture
def mlflow() -> Iterator[StandIn]:
    server = StandIn()
    yield server
    server.end()


def climb() -> list[Record]:
    """Two runs: iterations 0, 1, 3 and 2, which ended later and has no number; then 4."""
    at = {"project": "demo", "timestamp": "2026-01-01T00:00:01.5Z", "run_id": "first", "provider": "claude"}
    rows: list[Record] = [replace(records.run(0), project="demo", run_id="first")]
    for number, outcome, value in ((0, "baseline", 0.5), (1, "kept", 0.75), (3, "reverted", 0.6), (2, "skipped", None)):
        made = records.iteration(len(rows), number, outcome, "", guards={"a b/c": 1e39}, **at)
        rows.append(replace(made, metric=replace(made.metric, value=value)))
    at |= {"timestamp": "2026-01-02T00:00:00Z", "run_id": "second", "provider": "codex", "model": "m"}
    rows.append(replace(records.run(5), project="demo", run_id="second"))
    return [*rows, records.iteration(6, 4, "reverted", "worse", usage=Usage(1), **at)]


def write(project: Project, rows: list[Record]) -> Project:
    project.logs.mkdir(parents=True, exist_ok=True)
    project.results.write_text("".join(to_line(row) + "\n" for row in rows))
    return project


def export(project: Project, *arguments: str) -> int:
    return int(json.loads(project.check("export", "--json", "--to", *arguments))["iterations"])


def test_mlflow_gets_the_numbers_of_each_iteration_once(project: Project, mlflow: StandIn) -> None:
    to = ("mlflow", "--uri", f"{mlflow.uri}/")
    assert [export(write(project, rows), *to) for rows in (climb()[:3], climb()[:3], climb(), climb())] == [2, 0, 3, 0]
    first = {"best/accuracy": 0.75, "guards/a_b_c": 1e39, "spend/iterations": 2, "spend/seconds": 9, "spend/tokens": 48}
    assert [step for step, _ in mlflow.sent()] == [0, 1, 3, 2, 4]
    assert mlflow.sent()[2][1] == {"accuracy": 0.6, **first, "spend/cost_usd": 0.75}
    assert mlflow.sent()[3][1].keys() == first.keys() | {"spend/cost_usd"}
    assert mlflow.sent()[4][1]["spend/tokens"] == 1 and mlflow.sent()[4][1]["best/accuracy"] == 0.75
    created = [(body["experiment_id"], body["start_time"]) for path, body, _ in mlflow.asked if path == "runs/create"]
    assert created == [("7", 1767225601500), ("7", 1767312000000)]
    told = {"run_id": "second", "project": "demo", "seq": "6", "sandbox": "none", "metric": "accuracy"}
    told |= {"direction": "maximize", "ruler": "ruler1", "agents": "claude, codex m"}
    told |= {"best_iteration": "1", "best_commit": "commit2"}
    assert mlflow.tags["second"] == {f"goalseek.{key}": value for key, value in told.items()}


def test_a_login_comes_from_mlflows_variables_and_a_refusal_is_not_asked_again(
    project: Project, mlflow: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "pass:word")
    mlflow.status, arguments = 401, ("export", "--to", "mlflow", "--uri", mlflow.uri)
    assert "HTTP 401" in project.fail(3, *arguments, "--follow")  # also before the first record
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "token")
    mlflow.status = 503
    assert "HTTP 503" in project.fail(3, *arguments)
    assert [login for _, _, login in mlflow.asked] == ["Basic bWU6cGFzczp3b3Jk", "Bearer token"]
    for wrong in (("--uri", "file:///etc"), (), ("--uri", mlflow.uri, "night.csv")):
        project.fail(2, "export", "--to", "mlflow", *wrong)


def test_a_dead_server_costs_one_warning_and_no_iteration(played: Projects, mlflow: StandIn) -> None:
    project = played(answer(2), more=(answer(3), answer(4)))
    arguments = ("export", "--to", "mlflow", "--uri", mlflow.uri)
    mlflow.end()
    assert f"MLflow at {arguments[-1]}: no answer: " in project.fail(3, *arguments)
    exporter = project.start(*arguments, "--follow")
    beside = project.start("export", "--to", "csv", "all.csv", "--follow")
    assert exporter.stderr and "warning: MLflow at" in exporter.stderr.readline()
    project.check("iterate", "-n", "1")
    server = StandIn(mlflow.server_port)
    try:
        until(lambda: len(server.sent()) == 3)
        project.check("iterate", "-n", "1")
        until(lambda: len(server.sent()) == 4 and (project.folder / "all.csv").read_text().count("\n") == 5)
    finally:
        server.end()
    for one in (beside, exporter):
        one.send_signal(signal.SIGINT)
        _, printed = one.communicate(timeout=60)
        assert (one.returncode, "warning" in printed) == (130, False)
    assert [step for step, _ in server.sent()] == [0, 1, 2, 3]


def test_tensorboard_reads_what_is_written_once_and_mended(project: Project, tmp_path: Path) -> None:
    to, file = ("tensorboard", str(tmp_path)), tmp_path / "first" / "events.out.tfevents.goalseek"
    assert export(write(project, climb()[:3]), *to) == 2
    begun = file.read_bytes()
    assert [export(project, *to), export(write(project, climb()), *to)] == [0, 3]
    whole = file.read_bytes()
    assert whole.startswith(begun)
    for torn in (whole[:-1], whole[:-150], whole[:5], b"", whole[:-1] + b"x", begun + b"of another version" * 50):
        file.write_bytes(torn)
        assert export(project, *to) > 0 and file.read_bytes() == whole
    program = [sys.executable, "-c", READ_BACK, str(file.parent)]
    read = json.loads(subprocess.run(program, capture_output=True, timeout=120, check=True).stdout)
    moment = 1767225601.5
    assert (read["version"], read["first"], (tmp_path / "second").is_dir()) == (2.0, moment, True)
    accuracies = [(step, round(value, 6), at) for step, value, at in read["tags"]["accuracy"]]
    assert accuracies == [(0, 0.5, moment), (1, 0.75, moment), (3, 0.6, moment)]
    assert [step for step, _, _ in read["tags"]["best/accuracy"]] == [0, 1, 3, 2]
    assert read["tags"]["guards/a_b_c"][0][1] > 3.4e38 and len(read["tags"]) == 7


def test_nothing_hidden_leaves(make_project: Projects, mlflow: StandIn, tmp_path: Path) -> None:
    judge = f"echo {SECRET}; echo {SECRET} >&2\n{JUDGE}"
    project = make_project(files={"answer.json": answer(1), "hidden/judge.sh": judge, "program.md": f"{SECRET}\n"})
    project.check("direct", f"prefer {SECRET}")
    project.set_moves(answer(2, more=f'"{SECRET}": 1,\n'), f'{{"{SECRET}": 1}}\n', answer(9, more='"fail": 1,\n'))
    project.check("iterate", "-n", "3")
    told = project.results.read_text()
    assert all(words in told for words in (f"it has: {SECRET}", "told to fail", f"prefer {SECRET}"))
    (tmp_path / "out").mkdir()
    for kind in ("csv", "jsonl", "parquet", "tensorboard"):
        assert export(project, kind, str(tmp_path / "out" / kind)) == 4
    assert export(project, "mlflow", "--uri", mlflow.uri) == 4
    gone = {path.name: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    gone["rows"] = repr(pyarrow.parquet.read_table(tmp_path / "out" / "parquet").to_pylist()).encode()
    gone["asked"] = json.dumps(mlflow.asked).encode()
    assert len(gone) == 6 and all(b"move 3" in gone[name] for name in ("csv", "jsonl", "rows"))
    assert not [name for name, content in gone.items() if SECRET.encode() in content or b"told to fail" in content]


@pytest.mark.slow
def test_a_real_server_has_each_iteration_once(project: Project, mlflow: StandIn, tmp_path: Path) -> None:
    mlflow.end()
    uri, words = mlflow.uri, [Path(sys.executable).with_name("mlflow"), "server", "--workers", "1"]
    words += ["--port", str(mlflow.server_port), "--backend-store-uri", "sqlite:///mlflow.db"]
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (tmp_path / "server.log").open("wb") as log:
        server = subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=log, stderr=log, process_group=0)
    deadline = time.monotonic() + 300

    def ask(path: str, **body: Any) -> Any:
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(f"{uri}/api/2.0/mlflow/{path}", data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answered:
            return json.load(answered)

    def steps(run: str, metric: str) -> list[int]:
        history = ask(f"metrics/get-history?run_id={run}&metric_key={metric}")["metrics"]
        return sorted(one.get("step", 0) for one in history)

    try:
        while project.run("export", "--to", "mlflow", "--uri", uri).exit_code:
            assert server.poll() is None and time.monotonic() < deadline, (tmp_path / "server.log").read_text()
        counts = [export(write(project, rows), "mlflow", "--uri", uri) for rows in (climb()[:3], climb(), climb())]
        assert counts == [2, 3, 0]
        wanted = "tags.`goalseek.agents` = 'claude' AND metrics.`best/accuracy` > 0.7"
        (found,) = ask("runs/search", experiment_ids=["1"], filter=wanted)["runs"]
        run, status = found["info"]["run_id"], found["info"]["status"]
        assert (status, steps(run, "accuracy"), steps(run, "best/accuracy")) == ("FINISHED", [0, 1, 3], [0, 1, 2, 3])
        ask("runs/delete-tag", run_id=run, key="goalseek.seq")  # as if the server had died before it answered
        assert export(project, "mlflow", "--uri", uri) == 4
        assert steps(run, "spend/seconds") == [0, 1, 2, 3]
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait(timeout=60)
