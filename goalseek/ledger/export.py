"""Export of records as CSV, JSON lines or Parquet; the file is replaced atomically."""

import csv
import io
import json
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import count, islice
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO

from goalseek.disk import open_export
from goalseek.errors import GoalseekError
from goalseek.records import IterationRecord
from goalseek.values import to_plain

_BATCH = 5000
_FIELDS = """iteration timestamp outcome reason metric.value metric.incumbent metric.delta metric.odds metric.needed
    hypothesis_summary why commit_hash run_id epoch stacked taken_back provider model turn_of changed_files changed_loc
    guards usage.input_tokens usage.cached_tokens usage.output_tokens usage.cost_usd seconds""".split()
_COLUMNS = [name.rpartition(".")[2].replace("hypothesis_summary", "title") for name in _FIELDS]
_values_of = attrgetter(*_FIELDS)
_INTEGERS = "iteration epoch taken_back changed_loc input_tokens cached_tokens output_tokens".split()
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_FLOATS = ("value", "incumbent", "delta", "odds", "needed", "cost_usd", "seconds")


def make_exporter(path: Path) -> Callable[[Iterable[IterationRecord]], int]:
    """Raises GoalseekError for an unknown ending or no pyarrow; the exporter, before it reads, if it cannot write."""
    kinds = {".csv": _write_csv, ".jsonl": _write_json_lines, ".parquet": _write_parquet}
    if path.suffix not in kinds:
        raise GoalseekError(f"-o {path}: unknown kind of file", "end it in .csv, .jsonl or .parquet")
    if path.suffix == ".parquet":
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            message = f"-o {path}: Parquet files are written by pyarrow, which is not installed"
            raise GoalseekError(message, "run: pip install 'goalseek[parquet]'; or end it in .csv or .jsonl") from None

    def export(records: Iterable[IterationRecord]) -> int:
        numbers = count()
        with open_export(path) as file:
            kinds[path.suffix](file, (record for record, _ in zip(records, numbers, strict=False)))
        return next(numbers)

    return export


def _row(record: IterationRecord) -> list[Any]:
    row = list(_values_of(record))
    row[_COLUMNS.index("stacked")] = " ".join(map(str, record.stacked))
    row[_COLUMNS.index("seconds")] = sum(record.seconds.values())
    return row


def _write_csv(file: BinaryIO, records: Iterable[IterationRecord]) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", errors="surrogatepass", newline="")
    table = csv.writer(text)
    table.writerow(_COLUMNS)
    table.writerows(map(_as_cell, _row(record)) for record in records)
    text.detach()


def _as_cell(value: Any) -> Any:
    cell = json.dumps(value) if isinstance(value, dict) else "\n".join(value) if isinstance(value, tuple) else value
    # Spreadsheets run such a text as a formula, and an agent writes the titles; a number below 0 is no text.
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell


def _write_json_lines(file: BinaryIO, records: Iterable[IterationRecord]) -> None:
    file.writelines(json.dumps(to_plain(record)).encode() + b"\n" for record in records)


def _write_parquet(file: BinaryIO, records: Iterable[IterationRecord]) -> None:
    import pyarrow
    import pyarrow.parquet

    kinds = {
        "timestamp": pyarrow.timestamp("ms", "UTC"),
        "changed_files": pyarrow.list_(pyarrow.string()),
        "guards": pyarrow.map_(pyarrow.string(), pyarrow.float64()),
        **dict.fromkeys(_INTEGERS, pyarrow.int64()),
        **dict.fromkeys(_FLOATS, pyarrow.float64()),
    }
    schema = pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in _COLUMNS])
    rows = map(_row, records)
    with pyarrow.parquet.ParquetWriter(file, schema) as writer:
        while batch := list(islice(rows, _BATCH)):
            named = [{name: _as_arrow(name, value) for name, value in zip(_COLUMNS, row, strict=True)} for row in batch]
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
