"""Numbers of the iterations for MLflow and TensorBoard, which say what they have; no text of a program goes there."""

import base64
import json
import os
import re
import struct
from collections.abc import Iterator
from datetime import datetime
from functools import reduce
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from goalseek.errors import UNFIT, GoalseekError
from goalseek.ledger.results_file import History
from goalseek.ledger.standing import Standing
from goalseek.records import IterationRecord

_LOGIN = "a login is in MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
_TIMEOUT, _TOO_MANY_REQUESTS = 30.0, 429
_LARGEST = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]  # TensorBoard reads 32-bit floats
_CRC_32C = [reduce(lambda crc, _: crc >> 1 ^ 0x82F63B78 * (crc & 1), range(8), byte) for byte in range(256)]
Point = tuple[IterationRecord, Standing]  # the standing after it


def read_points(history: History) -> Iterator[Point | None]:
    """Endless: each iteration once, None when all are read, and then what is recorded since."""
    standing, end = Standing(), 0
    while True:
        for line in history.forward(end):
            record, end = history.parsed(line), line.end
            standing = standing.after(record)
            if isinstance(record, IterationRecord):
                yield record, standing
        yield None


def _numbers(record: IterationRecord, standing: Standing) -> dict[str, float]:
    metric, spend, best = _as_key(record.metric.name), standing.spend, standing.best
    numbers = {metric: record.metric.value, f"best/{metric}": best.value if best else None}
    numbers |= {f"guards/{_as_key(guard)}": value for guard, value in record.guards.items()}
    numbers |= {"spend/iterations": spend.iterations, "spend/seconds": spend.seconds}
    numbers |= {"spend/tokens": spend.tokens, "spend/cost_usd": spend.usage.cost_usd}
    return {name: float(value) for name, value in numbers.items() if value is not None}


def _as_key(name: str) -> str:
    """The name with ``_`` for what names of metrics and folders may not have."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name).strip(".")[:200] or "_"


def _time(record: IterationRecord) -> float:
    return datetime.fromisoformat(record.timestamp).timestamp()


class ServerDown(GoalseekError):
    """The server does not answer for now."""


class MlflowServer:
    """An experiment for the project, with a run for each of its runs; see https://mlflow.org/docs/latest/rest-api.html.

    A run's tag ``goalseek.seq`` is the last record that it has. After an error a new object must ask for it again.
    """

    def __init__(self, uri: str) -> None:
        if not uri.startswith(("http://", "https://")) or "@" in uri:
            raise GoalseekError(f"--uri {uri}: not an http or https address", f"--uri http://127.0.0.1:5000; {_LOGIN}")
        user, password, token = (os.environ.get(f"MLFLOW_TRACKING_{it}") for it in ("USERNAME", "PASSWORD", "TOKEN"))
        basic = base64.b64encode(f"{user}:{password or ''}".encode()).decode()
        self._login = f"Bearer {token}" if token else f"Basic {basic}" if user else ""
        self._uri = uri.rstrip("/")
        self._runs: dict[str, tuple[str, int]] = {}
        self._ask("experiments/search", {"max_results": 1})  # a wrong address is said before the hours of work

    def send(self, point: Point) -> bool:
        """False if the server has it. Raises ServerDown; GoalseekError if the server refuses."""
        record, standing = point
        run, seq = self._runs.get(record.run_id) or self._find_run(record)
        self._runs[record.run_id] = run, max(seq, record.seq)
        if record.seq <= seq:
            return False
        at = {"timestamp": round(_time(record) * 1000), "step": record.iteration}
        metrics = [{"key": key, "value": value, **at} for key, value in _numbers(*point).items()]
        tags = {"seq": str(record.seq), "project": record.project, "sandbox": record.isolation.sandbox}
        tags |= {"metric": standing.metric, "direction": standing.direction, "ruler": standing.ruler}
        tags["agents"] = ", ".join(standing.rotation.efforts)
        if best := standing.best:
            tags |= {"best_iteration": str(best.iteration), "best_commit": best.commit}
        pairs = [{"key": "goalseek." + key, "value": value} for key, value in tags.items()]
        self._ask("runs/log-batch", {"run_id": run, "metrics": metrics, "tags": pairs})
        return True

    def _find_run(self, first: IterationRecord) -> tuple[str, int]:
        """Its id, and its tag ``goalseek.seq``, else -1. A new one is finished at once: a killed export ends none."""
        found = self._ask("experiments/search", {"filter": f"name = '{first.project}'", "max_results": 1})
        experiments = found.get("experiments") or [self._ask("experiments/create", {"name": first.project})]
        experiment = experiments[0]["experiment_id"]
        query = f"tags.`goalseek.run_id` = '{first.run_id}'"
        runs = self._ask("runs/search", {"experiment_ids": [experiment], "filter": query, "max_results": 1}).get("runs")
        if not runs:
            head = {"experiment_id": experiment, "run_name": first.run_id, "start_time": round(_time(first) * 1000)}
            tag = {"key": "goalseek.run_id", "value": first.run_id}
            runs = [self._ask("runs/create", {**head, "tags": [tag]})["run"]]
            self._ask("runs/update", {"run_id": runs[0]["info"]["run_id"], "status": "FINISHED"})
        tags = {tag["key"]: tag["value"] for tag in runs[0]["data"].get("tags", ())}
        return runs[0]["info"]["run_id"], int(tags.get("goalseek.seq", -1))

    def _ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        request = Request(f"{self._uri}/api/2.0/mlflow/{path}", json.dumps(body).encode(), headers)
        if self._login:
            request.add_unredirected_header("Authorization", self._login)
        try:
            with urlopen(request, timeout=_TIMEOUT) as answer:
                return dict(json.load(answer))
        except HTTPError as error:
            with error:
                said = f"HTTP {error.code}: {error.read(300).decode('utf-8', 'replace')}"
            is_down = error.code >= 500 or error.code == _TOO_MANY_REQUESTS
        except (OSError, HTTPException, ValueError, TypeError) as error:
            said, is_down = f"no answer: {getattr(error, 'reason', error)}", True
        hint = "once it answers, the same command sends what it lacks" if is_down else f"check --uri; {_LOGIN}"
        raise (ServerDown if is_down else GoalseekError)(f"MLflow at {self._uri}: {said}", hint, UNFIT)


def write_event(folder: Path, ends: dict[Path, int], point: Point) -> bool:
    """False if the file of its run has it; ``ends`` has the place of the next iteration in each file.

    An iteration always gives the same bytes: so a file says itself what it lacks, and a torn end is mended. Frames are
    as in tensorflow's record_writer.h, field numbers as in tensorboard's event.proto and summary.proto.
    """
    record, summary, head = point[0], b"", b""
    path, at = folder / _as_key(record.run_id) / "events.out.tfevents.goalseek", struct.pack("<bd", 9, _time(record))
    if path not in ends:
        path.parent.mkdir(parents=True, exist_ok=True)
        head = _frame(at + _field(3, b"brain.Event:2"))  # else a lower step removes those above it in TensorBoard
    for name, number in _numbers(*point).items():
        value = struct.pack("<f", min(max(number, -_LARGEST), _LARGEST))
        summary += _field(1, _field(1, name.encode()) + b"\x15" + value)
    content = head + _frame(at + b"\x10" + _varint(record.iteration) + _field(5, summary))
    with path.open("a+b") as file:
        start = file.seek(ends.get(path, 0))
        is_new = file.read(len(content)) != content
        if is_new:
            file.truncate(start)
            file.write(content)
    ends[path] = start + len(content)
    return is_new


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _varint(number >> 7)


def _frame(event: bytes) -> bytes:
    length = struct.pack("<Q", len(event))
    return length + _masked_crc(length) + event + _masked_crc(event)


def _masked_crc(content: bytes) -> bytes:
    crc = reduce(lambda crc, byte: _CRC_32C[(crc ^ byte) & 255] ^ crc >> 8, content, 0xFFFFFFFF) ^ 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
