"""Marked constants: found in any language, refused with file, line and remedy, replaced character by character."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from project import Project, Projects

from goalseek.errors import USAGE, GoalseekError
from goalseek.providers import tunables
from goalseek.providers.tunables import Constant, Domain

DEPTHS = Domain("int", 1, 12)


def only(line: str) -> Constant:
    (constant,) = tunables.find_constants("src/x", line.encode())
    return constant


@pytest.mark.parametrize(
    ("line", "name", "value", "domain"),
    [
        ("LEARNING_RATE = 0.1  # goalseek: float 1e-4..1 log", "LEARNING_RATE", 0.1, Domain("float", 1e-4, 1.0, True)),
        ("DEPTH = 3  // goalseek: int 1..12", "DEPTH", 3, DEPTHS),
        ('K = "rbf"  # goalseek: choice "rbf" "linear"', "K", "rbf", Domain("choice", options=("rbf", "linear"))),
        ("let depth: i32 = 3; // goalseek: int 1..12", "depth", 3, DEPTHS),
        ("let depth = 3_u8; // goalseek: int 1..12", "depth", 3, DEPTHS),
        ("  depth: 3  # goalseek: int 1..13 step 2", "depth", 3, Domain("int", 1, 13, False, 2)),
        ("max-depth = 3 ; goalseek: int 1..12 log", "max-depth", 3, Domain("int", 1, 12, True)),
        ("local depth = 3 -- goalseek: int 1..12", "depth", 3, DEPTHS),
        ("SET @depth = 3; -- goalseek: int 1..12", "depth", 3, DEPTHS),
        ("const double rate = 1e-3; /* goalseek: float 1e-4..1 */", "rate", 1e-3, Domain("float", 1e-4, 1.0)),
        ("float rate = .5f; // goalseek: float 0..1", "rate", 0.5, Domain("float", 0.0, 1.0)),
        ("<depth>3</depth> <!-- goalseek: int 1..12 -->", "depth", 3, DEPTHS),
        ('  "depth": 3, // goalseek: int 1..12', "depth", 3, DEPTHS),
        ("#define DEPTH 3 // goalseek: int 1..12", "DEPTH", 3, DEPTHS),
        ("var depth int = 3 // goalseek: int 1..12", "depth", 3, DEPTHS),
        ("  --radius: 3px; /* goalseek: int 1..12 */", "radius", 3, DEPTHS),
        ("DEPTH='3' # goalseek: int 1..12", "DEPTH", 3, DEPTHS),
        ("fit(rate=0.5, depth=3, fast=True)  # goalseek: int 1..12", "depth", 3, DEPTHS),
        ("offset: int = -3  # goalseek: int -5..5", "offset", -3, Domain("int", -5, 5)),
        ("last = 10-3  # goalseek: int 1..12", "last", 3, DEPTHS),
        ("mode: fast  # goalseek: choice fast slow", "mode", "fast", Domain("choice", options=("fast", "slow"))),
        ("size = 32  # goalseek: choice 16, 32, 64", "size", "32", Domain("choice", options=("16", "32", "64"))),
        (
            "color = '#fff'  # goalseek: choice '#fff' '#000'",
            "color",
            "#fff",
            Domain("choice", options=("#fff", "#000")),
        ),
        ("größe = 3  # goalseek: int 1..12", "größe", 3, DEPTHS),
        ("- 3  # goalseek: int 1..12", "line1", 3, DEPTHS),
        ("depth = 3  // cells a side, goalseek: int 1..12", "depth", 3, DEPTHS),
        ("int depth = 3; /* sub-cells (a side): goalseek: int 1..12 */", "depth", 3, DEPTHS),
    ],
)
def test_a_mark_is_found_in_many_languages(line: str, name: str, value: tunables.Value, domain: Domain) -> None:
    constant = only(line)
    assert (constant.name, constant.value, constant.domain) == (name, value, domain)


@pytest.mark.parametrize(
    ("line", "problem", "remedy"),
    [
        ("x = 3  # goalseek: integer 1..12", "unknown kind 'integer'", "float LOW..HIGH"),
        ("x = 3  # goalseek:", "unknown kind ''", "float LOW..HIGH"),
        ("x = 3  # goalseek: int 12..1", "12..1 is empty", "lower bound first"),
        ("x = 3  # goalseek: int 3..3", "3..3 is empty", "lower bound first"),
        ("x = 0.5  # goalseek: float 0..1 log", "cannot start at 0", "above 0"),
        ("x = 3  # goalseek: int 1.5..4", "not two numbers of kind int", "int LOW..HIGH"),
        ("x = 3  # goalseek: int 1-4", "cannot read the mark", "int LOW..HIGH"),
        ("x = 3  # goalseek: int 1..4 (deep)", "cannot read the mark", "int LOW..HIGH"),
        ("x = 3  # goalseek: int 1..4 step 0", "step 0", "at least 1"),
        ("x = 0.5  # goalseek: float 0..1 step 2", "cannot read the mark", "step N"),
        ("x = 0.5  # goalseek: float 0..inf", "too wide", "finite"),
        ("x = 0.5  # goalseek: float nan..1", "too wide", "finite"),
        ("x = depth()  # goalseek: int 1..4", "no int value", "on the mark's line"),
        ("x = 0x10  # goalseek: int 1..99", "no int value", "on the mark's line"),
        ("# goalseek: int 1..4", "no int value", "on the mark's line"),
        ('x = "a"  # goalseek: choice "a"', "at least two", 'choice "A" "B"'),
        ('x = "a"  # goalseek: choice "a" "a"', "at least two", 'choice "A" "B"'),
        ('x = "a"  # goalseek: choice "a "b"', "cannot read the choices", "without quotes"),
        ('x = "c"  # goalseek: choice "a" "b"', "'c' is not among", "change the value"),
        ('x: a  # goalseek: choice a "b c"', "not a single word", "quote the value"),
    ],
)
def test_a_bad_mark_is_refused_with_file_line_and_what_would_be_right(line: str, problem: str, remedy: str) -> None:
    with pytest.raises(GoalseekError) as caught:
        tunables.find_constants("src/x", f"first\r\nsecond\n{line}\n".encode())
    assert caught.value.message.startswith("src/x:3: ")
    assert problem in caught.value.message
    assert remedy in caught.value.hint
    assert caught.value.exit_code == USAGE


def test_two_marks_on_one_line_each_have_their_own_value_and_of_one_name_are_refused() -> None:
    with pytest.raises(GoalseekError, match=r"src/x:3: a is marked in line 1 already"):
        tunables.find_constants("src/x", b"a = 1  # goalseek: int 1..3\n\na = 2  # goalseek: int 1..3\n")
    found = tunables.find_constants("x.c", b"f(a=1 /* goalseek: int 1..3 */, b=2 /* goalseek: int 1..3 */);")
    assert [(constant.name, constant.value) for constant in found] == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x = 3  # an ordinary comment\n",
        b"# goalseek: a tool that climbs\n",
        b"# as in goalseek: int 1..3\n",
        b"\xff\xfe\x00binary",
        b'"""see goalseek: it climbs"""\n',
        b"x = 3  # see goalseek: it climbs",
        "x = 3  # goalseek: int 1..4".encode("utf-16"),
    ],
)
def test_a_file_without_a_mark_has_no_constants(content: bytes) -> None:
    assert tunables.find_constants("x", content) == ()


def test_names_are_short_where_unique_and_carry_the_file_where_not() -> None:
    first = tunables.find_constants("a.py", b"RATE = 1  # goalseek: int 1..3\nDEPTH = 1  # goalseek: int 1..3\n")
    second = tunables.find_constants("sub/b.py", b"RATE = 2  # goalseek: int 1..3\n")
    assert list(tunables.by_name([*first, *second])) == ["a.py:RATE", "DEPTH", "sub/b.py:RATE"]


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        (b"let a: f64 = 0.1f64; // goalseek: float 1e-9..1\r\n", 1e-5, (b"0.1f", b"1.0e-05f")),
        (b"\xef\xbb\xbfa = 3\t# goalseek: int 1..9\r", 7, (b"3", b"7")),
        (b"\xe9\xff a = 3 # goalseek: int 1..9", 7, (b"3", b"7")),
        (b"a = 'x'  # goalseek: choice 'x' 'y'", "y", (b"= 'x'", b"= 'y'")),
        (b"3 = a = 3 /* goalseek: int 1..9 */ 3", 7, (b"a = 3", b"a = 7")),
        (b"a = 1_0.50  # goalseek: float 0..20\n", 10.5, (b"", b"")),  # there already: it keeps its spelling
    ],
)
def test_only_the_literal_is_replaced(before: bytes, value: tunables.Value, after: tuple[bytes, bytes]) -> None:
    (constant,) = tunables.find_constants("x", before)
    assert tunables.rewrite(before, {constant: value}) == before.replace(*after)


bounds = st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: float(f"{value:.6g}"))
lines = st.text(st.characters(exclude_characters="#/-;%!<(*{", exclude_categories=["Cs"]), max_size=20).map(str.encode)


@given(bounds, bounds, st.data(), lines, lines, st.sampled_from([b"\n", b"\r\n"]))
def test_a_written_number_is_read_again_and_nothing_else_has_changed(
    one: float, other: float, data: st.DataObject, before: bytes, after: bytes, ending: bytes
) -> None:
    low, high = sorted((one, other))
    if low == high:
        high = low + 1
    domain = Domain("float", low, high)
    value, new = (domain.nearest(data.draw(st.floats(low, high))) for _ in range(2))
    content = (
        before + ending + f"rate = {tunables.format_literal(value)}; // goalseek: {domain}".encode() + ending + after
    )
    (constant,) = tunables.find_constants("x", content)
    written = tunables.rewrite(content, {constant: new})
    (again,) = tunables.find_constants("x", written)
    assert (constant.value, again.value, again.domain) == (value, new, domain)
    assert tunables.rewrite(written, {again: value}) == content


@given(st.floats(1e-12, 1e12), st.floats(1e-12, 1e12), st.floats(1e-12, 1e12))
def test_a_rounded_float_stays_in_its_range_and_says_what_it_is(one: float, two: float, three: float) -> None:
    low, value, high = sorted((one, two, three))
    domain = Domain("float", low, high)
    rounded = domain.nearest(value)
    assert isinstance(rounded, float)
    assert domain.holds(rounded)
    assert float(tunables.format_literal(rounded)) == rounded
    assert abs(rounded - value) <= 1e-3 * value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_literal_always_has_a_point(value: float) -> None:
    assert re.fullmatch(r"-?\d+\.\d+(e[-+]\d+)?", tunables.format_literal(value))


@pytest.fixture
def turning(make_project: Projects) -> Projects:
    """Makes a project in which ``tune`` turns the constants of this text, whose first digit is the score."""
    judge = 'echo "{\\"score\\": $(grep -o "[0-9]" knobs.txt | head -1)}" > "$GOALSEEK_RUN_DIR/metrics.json"'
    scope = {"writable": ["knobs.txt"], "hidden": ["hidden/**"]}

    def make(text: str, **how: Any) -> Project:
        files = {"knobs.txt": text, "hidden/judge.sh": judge}
        return make_project(files=files, manifest={"scope": scope, "provider": {"name": "tune"}}, **how)

    return make


def test_no_baseline_is_measured_where_tune_can_turn_nothing(turning: Projects) -> None:
    project = turning("VALUE = 1  # goalseek: int 5..2\n")
    ended = project.run("iterate")
    assert ended.exit_code == 2 and "knobs.txt:1: the range 5..2" in ended.stderr, ended
    assert project.traces() == []


@pytest.mark.slow
def test_the_baselines_setting_is_not_proposed_again_after_a_keep(turning: Projects) -> None:
    records = turning("VALUE = 1  # goalseek: int 1..2\n", below="sub").climb("iterate", "-n", "2")[1:]
    assert [(record["outcome"], record["reason"]) for record in records] == [("kept", "better"), ("skipped", "no_plan")]


@pytest.mark.slow
def test_what_a_kept_change_made_of_a_mark_is_named_by_its_commit_or_noted(turning: Projects) -> None:
    project = turning("VALUE = 1  # goalseek: int 1..4\n")
    tables = {"scope": {"writable": ["knobs.txt"], "hidden": ["hidden/**"]}}
    moves = [
        {"files": {"knobs.txt": f"VALUE = {value}  # goalseek: int {mark}\n"}}
        for value, mark in ((6, "1..4"), (8, "5..2"))
    ]
    project.set_manifest(tables)
    project.set_moves(*moves)
    project.climb()
    project.set_manifest({**tables, "provider": {"name": "tune"}})
    project.climb()
    plan = (project.run_folder(2) / "plan.md").read_text()
    assert "knobs.txt:1: 4 is used, as 6 is outside of int 1..4" in plan
    assert "turns VALUE; knobs.txt:1: 4 is used, as 6 is outside" in project.run("doctor", "--quick").stdout
    project.set_manifest(tables)
    kept = project.climb()[-1]["commit_hash"]
    project.set_manifest({**tables, "provider": {"name": "tune"}})
    ended = project.run("iterate")
    assert ended.exit_code == 2 and f"range 5..2 is empty (in the climb's code, {kept[:12]}, not" in ended.stderr


@pytest.mark.parametrize(
    ("line", "inside"),
    [
        ("x = 1000  # goalseek: int 100..400", 400),
        ("x = 5  # goalseek: int 10..400", 10),
        ("x = 4  # goalseek: int 1..9 step 2", 3),
        ("x = 12  # goalseek: int 1..8 step 3", 7),
        (f"x = {10**400}  # goalseek: int 1..9", 9),
        ("x = 3.5  # goalseek: float 0..1", 1.0),
        ("x = 1e999  # goalseek: float 0..1", 1.0),
    ],
)
def test_a_number_outside_of_its_bounds_counts_as_the_nearest_inside(line: str, inside: float) -> None:
    (constant,) = tunables.find_constants("src/x", line.encode())
    assert not constant.domain.holds(constant.value)
    assert constant.domain.nearest(constant.value) == inside and constant.domain.holds(inside)
    assert f"x = {inside}  #" in tunables.rewrite(line.encode(), {constant: inside}).decode()
