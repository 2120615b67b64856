"""Families of ideas: every try is in one, by what its title says without numbers, quotes and paths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalseek.phase_values import PastIteration
from goalseek.proposal.brief import MAX_FAMILIES, families, family_name

OUTCOMES = st.sampled_from(["kept", "reverted", "skipped"])
WORDS = st.sampled_from("raise lower rate depth prune cache layer width dropout seed".split())
TITLES = st.lists(WORDS, max_size=5).map(" ".join) | st.text(max_size=30)


def tried(
    title: str, number: int = 1, outcome: str = "reverted", value: float | None = 0.5, files: tuple[str, ...] = ()
) -> PastIteration:
    return PastIteration(number, outcome, "worse", value, files, title, "why")


HISTORIES = st.lists(st.builds(tried, TITLES, st.just(1), OUTCOMES, st.none() | st.floats(-9, 9)), max_size=40)


@given(HISTORIES, st.sampled_from(["maximize", "minimize"]))
def test_every_try_is_in_exactly_one_family(history: list[PastIteration], direction: str) -> None:
    found = families(history, direction, limit=1000)
    assert sum(family.tries for family in found) == len(history)
    assert sum(family.kept for family in found) == sum(past.outcome == "kept" for past in history)
    assert len({family.name for family in found}) == len(found)
    values = [past.value for past in history if past.value is not None]
    bests = [family.best for family in found if family.best is not None]
    best_of = max if direction == "maximize" else min
    assert best_of(values, default=None) == best_of(bests, default=None)
    for family in found:
        assert family.example in {past.title[:120] for past in history if family_name(past) == family.name}


@given(HISTORIES)
def test_they_are_few_and_the_largest_come_first(history: list[PastIteration]) -> None:
    found, all_of_them = families(history, "maximize"), families(history, "maximize", limit=1000)
    assert found == all_of_them[:MAX_FAMILIES]
    sizes = [family.tries for family in all_of_them]
    assert sizes == sorted(sizes, reverse=True)


@given(
    st.lists(WORDS, min_size=1, max_size=3, unique=True), st.integers(0, 99), st.sampled_from("`x.py` src/a.py".split())
)
def test_case_numbers_quotes_and_paths_make_no_other_family(words: list[str], count: int, path: str) -> None:
    plain = " ".join(words)
    varied = f"{plain.upper()} to {count}.5 in {path}, the 'quoted {count}' way: \"so\""
    assert family_name(tried(plain)).split() == words
    assert family_name(tried(varied)).split()[: len(words)] == words
    assert family_name(tried(f"{plain} {count}")) == family_name(tried(f"{plain} {count + 1}"))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("RATE = 0.1, DEPTH = 5", "RATE = 0.25, DEPTH = 9", True),
        ("Raise the learning rate to 0.1", "raise learning rate by 2x", True),
        ("Raise the learning rate", "Prune the tree", False),
        ("don't shuffle the data", "don't shuffle data", True),
        ("42", "43", True),
    ],
)
def test_titles_that_say_the_same_are_of_one_family(one: str, other: str, same: bool) -> None:
    assert (family_name(tried(one)) == family_name(tried(other))) == same


def test_without_words_the_files_name_the_family_and_a_baseline_is_no_try() -> None:
    assert family_name(tried("1 + 1", files=("src/a.py",))) == "src/a.py"
    assert family_name(tried("")) == "(untitled)"
    assert families([tried("a baseline", outcome="baseline")], "maximize") == ()


def test_the_example_is_the_newest_and_bounded() -> None:
    (family,) = families([tried("shuffle 2 " + "x" * 500, 2), tried("shuffle 2 " + "x" * 500 + "y", 1)][:1], "minimize")
    assert family.example.startswith("shuffle 2 ") and len(family.example) == 120
