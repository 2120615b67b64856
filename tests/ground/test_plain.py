"""What is stored comes back as it was, and what does not fit is refused."""

import json
from datetime import UTC, datetime
from typing import Any, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct, structs
from msgspec.structs import replace

from goalseek.phase_values import Candidate, Change, Context, Evidence, Plan, Verdict
from goalseek.records import (
    Isolation,
    IterationRecord,
    MeasurementRecord,
    MetricResult,
    Record,
    RunRecord,
    parse_record,
)
from goalseek.values import Attempt, CommandRun, Usage, VerifierRun, from_plain, to_indented, to_line, to_plain


class Held(Struct, frozen=True):
    moment: datetime
    pair: tuple[str, float]


text = st.text(max_size=8) | st.binary(max_size=6).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
number = st.floats(allow_nan=False, allow_infinity=False)
st.register_type_strategy(str, text)
st.register_type_strategy(float, number)


def strategy_of(kind: type, /, **known: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    drawn = {field.name: st.from_type(hints[field.name]) for field in structs.fields(kind) if field.name not in known}
    return st.builds(kind, **drawn, **known)


for kind in (Usage, Attempt, CommandRun, Isolation, MetricResult, VerifierRun):
    st.register_type_strategy(kind, strategy_of(kind))
schemas = st.sampled_from([1, 2])
limits = st.dictionaries(text, st.none() | number | text | st.integers(), max_size=3)
run_records = strategy_of(RunRecord, schema=schemas, kind=st.just("run"), limits=limits)
measurement_records = strategy_of(MeasurementRecord, schema=schemas, kind=st.just("measurement"))
iteration_records = strategy_of(IterationRecord, schema=schemas, kind=st.just("iteration"))
records = st.one_of(run_records, measurement_records, iteration_records)
values = st.one_of(*(st.from_type(kind) for kind in (Plan, Change, Candidate, Context, Evidence, Verdict, Usage)))


@settings(max_examples=25, deadline=None)
@given(values)
def test_what_a_phase_hands_on_comes_back_equal(value: Any) -> None:
    assert from_plain(type(value), json.loads(to_line(value))) == value


@settings(max_examples=25, deadline=None)
@given(records)
def test_a_record_comes_back_equal_from_its_line_which_is_ascii_in_the_order_of_the_fields(record: Record) -> None:
    line = to_line(record)
    assert parse_record(line) == record
    assert parse_record(line.encode()) == record
    assert to_line(parse_record(line)) == line
    assert line.isascii()
    assert "\n" not in line
    optional = ("base_commit_hash", "taken_back", "stacked", "not_stacked", "turn_of", "active_seconds")
    optional = (*optional, "benches", "host", "machine", "base_seq", "usage_before_run", "tried", "cases", "case_ids")
    defaults = {"stacked": (), "not_stacked": (), "tried": "", "case_ids": ()}
    absent = [name for name in optional if getattr(record, name, None) == defaults.get(name)]
    assert list(json.loads(line)) == [field.name for field in structs.fields(record) if field.name not in absent]


@settings(max_examples=25, deadline=None)
@given(iteration_records, st.data())
def test_a_field_that_an_older_line_lacks_takes_its_default(record: IterationRecord, data: st.DataObject) -> None:
    row = to_plain(record)
    name = data.draw(st.sampled_from(["seal", "notes", "usage", "attempts", "guards", "commit_hash"]))
    del row[name]
    defaults = IterationRecord(
        seq=0, kind="iteration", project="", run_id="", epoch=0, timestamp="", iteration=0, outcome="", reason="",
        why="", metric=record.metric, isolation=record.isolation, run_dir="",
    )  # fmt: skip
    assert parse_record(json.dumps(row)) == replace(record, **{name: getattr(defaults, name)})


@settings(max_examples=25, deadline=None)
@given(iteration_records, st.sampled_from(["seq", "outcome", "metric", "isolation", "run_dir"]), st.data())
def test_a_line_that_is_torn_or_lacks_a_field_without_default_is_refused(
    record: IterationRecord, name: str, data: st.DataObject
) -> None:
    row = to_plain(record)
    del row[name]
    with pytest.raises(ValueError, match=name):
        parse_record(json.dumps(row))
    with pytest.raises(ValueError):
        parse_record(to_line(record)[: data.draw(st.integers(0, len(to_line(record)) - 1))])


@pytest.mark.parametrize("line", ["", "{", "[]", "3", "{}", '{"kind":"other","schema":1}', '{"kind":"run","schema":3}'])
def test_a_line_that_is_no_record_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        parse_record(line)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_json_does_not_know_is_never_written(value: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        to_line(Verdict("kept", "better", "", value))


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (Usage, []), (Usage, "input_tokens"), (Usage, None), (Usage, {"input_tokens": "many"}),
        (Usage, {"cost_usd": "1"}), (Plan, {"title": 3, "text": ""}), (Plan, {"title": "", "text": "", "files": "ab"}),
        (Plan, {"title": "", "text": "", "files": [3]}), (Evidence, {"runs": {}}), (Evidence, {"guard_runs": {}}),
        (Evidence, {"runs": [{"of": "candidate"}]}), (Evidence, {"failure": []}),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(kind: type, plain: object) -> None:
    with pytest.raises(ValueError, match=f"not a {kind.__name__}"):
        from_plain(kind, plain)


def test_what_is_unknown_is_left_out_and_moments_and_pairs_come_back_with_their_types() -> None:
    assert from_plain(Usage, {"input_tokens": 3, "newer": True}) == Usage(3)
    held = Held(datetime(2026, 12, 1, 7, tzinfo=UTC), ("a", 0.5))
    assert from_plain(Held, json.loads(to_line(held))) == held


@pytest.mark.parametrize(
    "value",
    [{}, [], {"a": [], "b": {}}, [[1, -0.0, 1e16, 5e-324, 0.1, True, None]], {"é\u2028\x7f": '"\\/\n😀'}, ["a\ud800b"]],
)
def test_indented_json_has_the_bytes_of_the_standard_library(value: object) -> None:
    assert to_indented(value) == json.dumps(value, indent=1)
    assert to_indented([value], indent=3) == json.dumps([value], indent=3)
