"""Whose turn it is, as records alone say it, and how the gains of kept changes add up."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from records import iteration

from goalseek.manifest.tables import Search
from goalseek.records import IterationRecord, MetricResult
from goalseek.statistics.noise import scale_of
from goalseek.statistics.rotation import MAX_KEPT, Proposer, Rotation, author_of, proposers_of
from goalseek.values import STACK, Reason, Usage

SEARCH, FRESH = Search(rotate=("b", "c"), plateau=3), Search(rotate=("fresh",), plateau=2)
LOWER, HIGHER, PLAIN = scale_of("minimize", True), scale_of("maximize", True), scale_of("maximize", False)
DOLLAR = Usage(100, 0, 10, cost_usd=1.0)


class Night:
    """A climb of the provider "a"; each iteration is proposed by whose turn it is, if no other author is named."""

    def __init__(self, search: Search = SEARCH) -> None:
        self.search, self.rotation, self.count = search, Rotation(), 0

    def turn(self) -> tuple[str, ...]:
        return self.rotation.next_turn(self.search, "a").names

    def why(self) -> str:
        return self.rotation.next_turn(self.search, "a").in_words()

    def play(self, *outcomes: str, author: str = "", **more: Any) -> str:
        """The first letters of whose turns these were."""
        played = ""
        for outcome in outcomes:
            turn = self.turn()[0]
            self.count += 1
            self.rotation = self.rotation.after(proposal(self.count, outcome, author or turn, turn, **more))
            played += turn.split()[-1][0]
        return played


def proposal(
    number: int, outcome: str, author: str, turn: str, values: tuple[float | None, float] | None = None, **more: Any
) -> IterationRecord:
    """The record of a proposal of one dollar and one hour."""
    reason = Reason.PROVIDER_FAILED if outcome == "failed" else Reason.MEASURED
    incumbent, value = values or ((10.0, 9.0) if outcome == "kept" else (10.0, 11.0))
    metric = MetricResult("m", "minimize", value, incumbent, None)
    named = {"provider": author.removesuffix(" fresh"), "turn_of": turn, "seconds": {"PLAN": 1600.0, "VERIFY": 2000.0}}
    return iteration(number, number, outcome, reason, metric=metric, usage=DOLLAR, **{**named, **more})


def worse(count: int) -> list[str]:
    return ["reverted"] * count


@pytest.mark.parametrize(
    ("search", "outcomes", "turns"),
    [
        pytest.param(SEARCH, worse(19), "aaabbbcccaaabbbccca", id="each as many before a second"),
        pytest.param(Search(plateau=3), worse(9), "a" * 9, id="one alone"),
        pytest.param(FRESH, worse(8), "aaffaaff", id="fresh"),
        pytest.param(SEARCH, [*worse(4), "kept", *worse(4)], "aaabbbbbc", id="b kept a change and stays"),
        pytest.param(SEARCH, [*worse(2), "kept", *worse(4)], "aaaaaab", id="a kept a change and stays"),
        pytest.param(SEARCH, [*worse(2), "failed", "failed", *worse(2)], "aaaaab", id="a failed call is no try"),
        pytest.param(FRESH, [*worse(2), "kept", *worse(3)], "aafffa", id="fresh kept a change and stays"),
    ],
)
def test_a_turn_lasts_until_a_plateau(search: Search, outcomes: list[str], turns: str) -> None:
    night = Night(search)
    assert night.play(*outcomes) == turns
    if search == FRESH:
        names = {"a": 0, "a fresh": outcomes.count("kept")}
        assert {each.name: each.kept for each in proposers_of(night.rotation, LOWER)} == names


def test_who_has_the_turn_has_substitutes_in_order_but_not_the_provider_before_a_plateau() -> None:
    night = Night()
    assert night.turn() == ("a",)
    night.play(*worse(3))
    assert night.turn() == ("b", "c"), "where b is closed c is asked, before the provider itself"
    night.play("kept", author="c")
    assert night.turn() == ("c", "b"), "a substitute that keeps a change has the turn"
    night.play("kept", author="a fallback")
    assert night.turn() == ("a",), "it has its fallback itself"
    night.play(*worse(1))
    assert night.turn() == ("a",)
    night.play(*worse(8))
    for _ in range(2):
        assert night.turn() == ("a", "b", "c"), "a that is closed would make all of them wait"
        night.play(*worse(1))
    night.play("kept")
    assert night.turn() == ("a",)


def test_what_was_begun_in_an_earlier_turn_leaves_the_present_one_as_it_is() -> None:
    night = Night()
    night.play(*worse(3))
    late = proposal(3, "reverted", "a", "a")
    assert night.play("reverted") == "b"
    before = night.rotation
    after = before.after(late)
    assert structs.replace(after, efforts=before.efforts) == before and after.efforts["a"].tried == 4
    beside = proposal(3, "reverted", "b", "b")
    assert before.after(beside).tries == before.tries + 1, "in the same turn, and only landed later"
    kept = before.after(structs.replace(late, outcome="kept"))
    assert kept.turn == "a"
    after_kept = kept.after(structs.replace(beside, iteration=5, base_commit_hash="older"), "kept")
    assert (after_kept.turn, after_kept.tries) == ("a", 0), "it was begun before that change was kept"


def test_a_stack_is_a_try_but_begins_no_turn_and_leaves_it_as_it_is_where_it_is_kept() -> None:
    night = Night()
    night.play(*worse(3))
    night.play("reverted", author=STACK)
    assert night.why() == "b: 4 iterations without a kept change"
    assert night.play(*worse(2)) == "bb"
    night.play("kept", author=STACK)
    assert night.turn()[0] == "b" and night.rotation.tries == 0
    assert author_of(STACK, "", "a fresh") == STACK
    assert night.play(*worse(4)) == "bbbc"


def test_who_is_asked_in_a_fresh_turn_of_a_closed_provider_proposes_under_its_own_name() -> None:
    night = Night(Search(rotate=("fresh", "c"), plateau=2))
    assert night.play(*worse(2)) == "aa" and night.turn() == ("a fresh", "c")
    assert author_of("a", "", "a fresh") == "a fresh" and author_of("c", "", "a fresh") == "c"
    assert night.play("kept", "reverted", author="c") == "fc", "who keeps a change stays"
    assert {each.name: each.tried for each in proposers_of(night.rotation, LOWER)} == {"a": 2, "c": 2}


def test_a_turn_of_a_name_that_is_gone_is_the_provider_s_and_one_that_no_record_names_counts() -> None:
    night = Night()
    night.play(*worse(3), turn_of=None)  # as an older version recorded
    assert night.turn()[0] == "b"
    night.play(*worse(1))
    night.search = Search(rotate=("c",), plateau=3)
    assert night.turn() == ("a",)
    assert night.rotation.next_turn(SEARCH, "another").names == ("b", "c")


@given(st.lists(st.floats(0.1, 1000), min_size=2, max_size=20), st.sampled_from([LOWER, HIGHER, PLAIN]))
def test_gains_of_one_change_after_another_add_up_to_that_of_all_together(values: list[float], scale: Any) -> None:
    def gained(*steps: tuple[float, float]) -> Proposer:
        night = Night()
        for step in steps:
            night.play("kept", values=step, author="a")
        (proposer,) = proposers_of(night.rotation, scale)
        return proposer

    whole, parts = gained((values[0], values[-1])), gained(*itertools.pairwise(values))
    assert parts.gain == pytest.approx(whole.gain, abs=1e-9, rel=1e-6)
    better_by = scale.better_by(values[-1], values[0])
    assert whole.gain == pytest.approx(better_by / values[0] if scale.logarithmic else better_by, abs=1e-9)
    rates = (whole.gain_per_dollar, whole.gain_per_hour)
    assert rates == (pytest.approx(scale.x(values[0]) - scale.x(values[-1])),) * 2, "of one dollar, in one hour"


def test_a_change_that_was_taken_back_does_not_count() -> None:
    night = Night()
    night.play("kept", "kept", values=(10.0, 9.0))
    assert night.rotation.without((7,)) == night.rotation
    (left,) = proposers_of(night.rotation.without((1,)), LOWER)
    assert (left.tried, left.kept, left.gain) == (2, 1, pytest.approx(0.1))
    (left,) = proposers_of(night.rotation.without((1, 2)), LOWER)
    assert (left.tried, left.kept, left.gain) == (2, 0, 0.0)


def test_values_without_a_logarithm_or_a_number_gain_nothing_on_that_scale() -> None:
    night = Night()
    night.play("kept", values=(-1.0, 2.0))
    night.play("kept", values=(None, 2.0))
    assert proposers_of(night.rotation, PLAIN)[0].gain == 3.0
    assert proposers_of(night.rotation, HIGHER)[0].gain == 0.0


def test_what_is_remembered_has_a_bound() -> None:
    night = Night()
    night.play(*["kept"] * (MAX_KEPT + 5), values=(1.0, 2.0))
    assert len(night.rotation.kept) == MAX_KEPT
    assert proposers_of(night.rotation, PLAIN)[0].gain == MAX_KEPT + 5


def test_why_it_is_somebody_s_turn_is_said() -> None:
    night = Night()
    assert night.why() == "a: 0 of 3 iterations without a kept change"
    night.play(*worse(3))
    assert night.why() == "b: 3 iterations without a kept change"
    night.play(*worse(1))
    assert night.why() == "b: since iteration 4, 1 of 3 iterations without a kept change"
    night.play("kept", *worse(2))
    assert night.why() == "b: the last change was kept in its turn; 2 of 3 iterations without a kept change"
    assert Night(Search()).why() == "a"
    assert Rotation().next_turn(Search(), "").in_words() == "not known yet"


def test_a_proposer_in_words() -> None:
    night = Night()
    night.play(*worse(2))
    (proposer,) = proposers_of(night.rotation, LOWER)
    assert proposer.in_words("") == "0 kept of 2"
    night.play("kept", values=(10.0, 9.0))
    (proposer,) = proposers_of(night.rotation, LOWER)
    assert proposer.in_words("s") == "1 kept of 3, +10% (+3.5%/$, +3.5%/h)"
    (proposer,) = proposers_of(night.rotation, scale_of("minimize", False))
    assert proposer.in_words("s") == "1 kept of 3, +1 s (+0.333333 s/$, +0.333333 s/h)"
