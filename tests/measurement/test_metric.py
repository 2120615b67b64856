"""One number out of what a measurement left: finite, or refused with the contract's reason."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalseek.manifest.tables import Reading
from goalseek.measurement.metric import NoNumber, read_json, read_text, to_finite

ACCURACY = Reading(name="accuracy", source="json", query="test.accuracy")
PRINTED = Reading(name="accuracy", source="stdout", regex=r"accuracy: (\S+)")
json_values = st.recursive(
    st.none() | st.booleans() | st.text(max_size=5) | st.integers() | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def reason_of(read, *arguments) -> str:  # type: ignore[no-untyped-def]
    with pytest.raises(NoNumber) as caught:
        read(*arguments)
    assert "accuracy" in caught.value.failure.why
    return str(caught.value.failure.reason)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_finite_number_is_read_exactly(value: float) -> None:
    assert read_json(ACCURACY, json.dumps({"test": {"accuracy": value}})) == value
    assert read_text(PRINTED, f"epoch 1\naccuracy: {value!r}\ndone\n") == value


@given(json_values)
def test_whatever_is_found_is_a_finite_float_or_refused_with_a_reason(value: object) -> None:
    text = json.dumps({"test": {"accuracy": value}})
    try:
        number = read_json(ACCURACY, text)
    except NoNumber as refusal:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        assert refusal.failure.reason == ("not_finite" if is_number else "no_metric")
        return
    assert isinstance(number, float)
    assert math.isfinite(number)
    assert number == pytest.approx(value)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", "1" + "0" * 400])
def test_what_is_not_finite_is_named_so(value: str) -> None:
    assert reason_of(read_json, ACCURACY, f'{{"test": {{"accuracy": {value}}}}}') == "not_finite"
    assert reason_of(read_text, PRINTED, f"accuracy: {value}") == "not_finite"


def test_what_is_no_number_is_no_metric() -> None:
    for value in ('"0.9"', "true", "[0.9]", "{}", "null"):
        assert reason_of(read_json, ACCURACY, f'{{"test": {{"accuracy": {value}}}}}') == "no_metric"
    for text in ("", "{", "accuracy: 1", "[]", "3", "{}", "null", "[" * 100_000 + "]" * 100_000):
        assert reason_of(read_json, ACCURACY, text) == "no_metric"
    assert reason_of(read_json, ACCURACY, '{"test": {"accuracy": ' + "9" * 5000 + "}}") in ("no_metric", "not_finite")
    assert reason_of(read_json, ACCURACY, '{"test": {"accuracy": 1}, "test": {"accuracy": 2}}') == "no_metric"
    with pytest.raises(NoNumber, match='has the key "accuracy" twice; write it once'):
        read_json(ACCURACY, '{"test": {"accuracy": 1, "accuracy": 1}}')
    assert reason_of(read_json, Reading(name="accuracy", query="length(test)"), '{"test": 3}') == "no_metric"
    for printed in ("", "accuracy: high", "accuracy:0.9"):
        assert reason_of(read_text, PRINTED, printed) == "no_metric"
    optional = Reading(name="accuracy", source="stdout", regex=r"accuracy(?:: (\d+))?")
    assert reason_of(read_text, optional, "accuracy unknown") == "no_metric"
    assert to_finite("accuracy", 3) == 3.0
    others: tuple[object, ...] = (True, "3", [3], {}, None)
    for other in others:
        assert reason_of(to_finite, "accuracy", other) == "no_metric"


def test_a_comma_groups_thousands_or_is_refused() -> None:
    for printed, value in (("222,271,355", 222271355), ("-1,234.5", -1234.5), ("12,345", 12345)):
        assert read_text(PRINTED, f"accuracy: {printed}") == value
    for printed in ("0,125", "1,5", "1,2345", "1234,567", ",123", "1,234,56"):
        assert reason_of(read_text, PRINTED, f"accuracy: {printed}") == "no_metric"


def test_rows_are_a_list_whose_last_a_query_may_take_and_a_regex_may_anchor_to_a_line() -> None:
    reading = Reading(name="accuracy", path="metrics.jsonl", query="[-1].accuracy")
    assert read_json(reading, '{"accuracy": 0.1}\n\n{"accuracy": 0.9}\n', is_lines=True) == 0.9
    assert reason_of(read_json, reading, '{"accuracy": 0.1}\n{"accu', True) == "no_metric"
    reading = Reading(name="accuracy", source="stdout", regex=r"^accuracy: (\S+)$")
    assert read_text(reading, "first\naccuracy: 0.5\nvalidation accuracy: 0.7\n") == 0.5


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=5))
def test_several_matches_are_refused_unless_the_last_is_asked_for(values: list[float]) -> None:
    printed = "".join(f"accuracy: {value!r}\n" for value in values)
    assert reason_of(read_text, PRINTED, printed) == "no_metric"
    last = Reading(name="accuracy", source="stdout", regex=PRINTED.regex, matches="last")
    assert read_text(last, printed) == values[-1]
