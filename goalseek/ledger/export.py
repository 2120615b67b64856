"""Export of iterations as CSV, JSON lines or Parquet, without programs' words; the file is replaced atomically."""

import csv
import io
import json
from collections.abc import Iterable
from datetime import datetime
from itertools import count, islice
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO

from goalseek.disk import open_export, refuse_records
from goalseek.errors import GoalseekError
from goalseek.ledger.results_file import History
from goalseek.ledger.standing import CRASHED
from goalseek.records import IterationRecord
from goalseek.values import Outcome, Reason

_BATCH = 5000
_FIELDS = """iteration timestamp outcome reason metric.value metric.incumbent metric.delta metric.odds metric.needed
    hypothesis_summary why commit_hash run_id epoch stacked taken_back provider model turn_of changed_files changed_loc
    guards usage.input_tokens usage.cached_tokens usage.output_tokens usage.cost_usd seconds""".split()
_COLUMNS = [name.rpartition(".")[2].replace("hypothesis_summary", "title") for name in _FIELDS]
_values_of = attrgetter(*_FIELDS)
_QUOTING = (*CRASHED, Reason.REVIEW_REJECTED)  # as in skipped iterations, ``why`` may have a program's words
_INTEGERS = "iteration epoch taken_back changed_loc input_tokens cached_tokens output_tokens".split()
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_FLOATS = ("value", "incumbent", "delta", "odds", "needed", "cost_usd", "seconds")


def write_table(kind: str, path: Path, history: History) -> int:
    """The number of rows. Raises GoalseekError before it reads if the file cannot be written, or pyarrow is missing."""
    option, writers = f"--to {kind}", {"csv": _write_csv, "jsonl": _write_json_lines, "parquet": _write_parquet}
    refuse_records(path, history.path, option)
    numbers = count()
    with open_export(path, option) as file:
        records = (record for record in history.records() if isinstance(record, IterationRecord))
        writers[kind](file, (_row(record) for record, _ in zip(records, numbers, strict=False)))
    return next(numbers)


def _row(record: IterationRecord) -> dict[str, Any]:
    is_quoting = record.outcome == Outcome.SKIPPED or record.reason in _QUOTING
    derived = {"stacked": " ".join(map(str, record.stacked)), "seconds": sum(record.seconds.values())}
    return dict(zip(_COLUMNS, _values_of(record), strict=True)) | derived | ({"why": ""} if is_quoting else {})


def _write_csv(file: BinaryIO, rows: Iterable[dict[str, Any]]) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", errors="surrogatepass", newline="")
    table = csv.writer(text)
    table.writerow(_COLUMNS)
    table.writerows(map(_as_cell, row.values()) for row in rows)
    text.detach()


def _as_cell(value: Any) -> Any:
    cell = json.dumps(value) if isinstance(value, dict) else "\n".join(value) if isinstance(value, tuple) else value
    # Spreadsheets run such a text as a formula, and an agent writes the titles; a number below 0 is no text.
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell


def _write_json_lines(file: BinaryIO, rows: Iterable[dict[str, Any]]) -> None:
    file.writelines(json.dumps(row).encode() + b"\n" for row in rows)


def _write_parquet(file: BinaryIO, rows: Iterable[dict[str, Any]]) -> None:
    try:
        import pyarrow.parquet
    except ImportError:
        message = "--to parquet: Parquet files are written by pyarrow, which is not installed"
        raise GoalseekError(message, "run: pip install 'goalseek[parquet]'; or --to csv") from None

    kinds = {
        "timestamp": pyarrow.timestamp("ms", "UTC"),
        "changed_files": pyarrow.list_(pyarrow.string()),
        "guards": pyarrow.map_(pyarrow.string(), pyarrow.float64()),
        **dict.fromkeys(_INTEGERS, pyarrow.int64()),
        **dict.fromkeys(_FLOATS, pyarrow.float64()),
    }
    schema = pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in _COLUMNS])
    rows = iter(rows)
    with pyarrow.parquet.ParquetWriter(file, schema) as writer:
        while batch := list(islice(rows, _BATCH)):
            named = [{name: _as_arrow(name, value) for name, value in row.items()} for row in batch]
            writer.write_table(pyarrow.Table.from_pylist(named, schema))


def _as_arrow(name: str, value: Any) -> Any:
    if name == "timestamp":
        return datetime.fromisoformat(value)
    if isinstance(value, dict):
        return [(_as_utf8(key), number) for key, number in value.items()]
    if isinstance(value, tuple):
        return [_as_utf8(item) for item in value]
    return _as_utf8(value) if isinstance(value, str) else value


def _as_utf8(text: str) -> str:
    """Parquet requires valid UTF-8: a lone surrogate becomes ``?``."""
    return text.encode("utf-8", "replace").decode()


def make_frame(records: Iterable[IterationRecord]) -> Any:
    """A pandas DataFrame in the columns of the other exports. Raises GoalseekError without pandas."""
    try:
        import pandas
    except ImportError:
        raise GoalseekError("pandas is not installed", "pip install 'goalseek[notebook]'") from None
    frame = pandas.DataFrame(map(_row, records), columns=_COLUMNS)
    kinds = {**dict.fromkeys(_INTEGERS, "Int64"), **dict.fromkeys(_FLOATS, "float64")}
    return frame.assign(timestamp=pandas.to_datetime(frame["timestamp"], utc=True, format="ISO8601")).astype(kinds)
