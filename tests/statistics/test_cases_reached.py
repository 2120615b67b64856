"""The rule on cases on simulated climbs whose truth is known: a short one of the benchmark, wide margins."""

from collections.abc import Sequence

import pytest
from cases import SCENARIOS, Cell, cell, make, make_greedy

SESSIONS = 8


def reached(name: str, sessions: int = SESSIONS) -> Cell:
    return cell(SCENARIOS[name], make, sessions, 31)


def greedy(name: str) -> Cell:
    return cell(SCENARIOS[name], make_greedy, SESSIONS, 31)


def test_luck_of_the_cases_is_seldom_kept() -> None:
    rule, plain = reached("N200", 4), greedy("N200")
    assert rule.kept <= 4 < 10 <= plain.kept
    assert rule.false == rule.kept and rule.cost <= 0.36


def test_real_gains_are_found_for_a_third_of_a_run_and_few_others_kept() -> None:
    rule, plain = reached("B200"), greedy("B200")
    assert rule.gain >= 13
    assert rule.share <= 30 < 42 <= plain.share
    assert rule.cost <= 0.36


def test_answers_that_flip_cost_half_a_run_more() -> None:
    rule, plain = reached("B200f5", 6), greedy("B200f5")
    assert rule.gain >= 7
    assert rule.share <= 42 < 47 <= plain.share
    assert 0.33 <= rule.cost <= 0.55


@pytest.mark.slow
def test_graded_wild_missing_and_proposed_cases_are_no_different() -> None:
    assert reached("G200").gain >= 19
    assert reached("G200").share <= 25
    assert reached("G200f20").gain >= 13
    assert reached("H200").gain >= 6
    assert reached("M200f5", 4).gain >= 6
    assert reached("B1000", 2).share <= 25
    assert reached("NH200").false <= 4
    assert reached("N200f20").false <= 4


def test_a_program_that_scores_rules_gets_decisions_and_claims() -> None:
    cases, memory, rule = range(100, 140), dict[str, float](), make()

    def incumbent(asked: Sequence[int]) -> dict[int, float]:
        return dict.fromkeys(asked, 0.0)

    assert rule(lambda asked: dict.fromkeys(asked, 0.25), incumbent, cases, memory)
    assert memory == {"base": 0.0, "now": 0.25}
    assert not rule(lambda asked: dict.fromkeys(asked, 0.125), incumbent, cases, memory)
    assert memory == {"base": 0.0, "now": 0.25}
