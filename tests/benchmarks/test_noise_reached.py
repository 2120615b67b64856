"""The rule on simulated climbs whose truth is known: a short one of the benchmark, with fixed seeds, wide margins."""

from noise import PAIRS, SCENARIOS, Cell, Greedy, Rule, cell, session

SESSIONS = 8


def reached(name: str, make: type[Rule] | type[Greedy] = Rule) -> Cell:
    return cell(SCENARIOS[name], make, SESSIONS, 31)


def test_pure_noise_is_seldom_kept_and_what_is_settled_is_about_nothing() -> None:
    rule, greedy = reached("S1-60"), reached("S1-60", Greedy)
    assert rule.kept <= 1.25 < 2.5 <= greedy.kept
    assert rule.claim <= 12 < 15 <= greedy.claim
    assert abs(rule.settled) <= 5
    assert PAIRS == 5


def test_real_gains_are_found_and_few_others_kept() -> None:
    rule, greedy = reached("S2/0"), reached("S2/0", Greedy)
    assert rule.gain >= 18
    assert rule.share <= 22 < 35 <= greedy.share
    assert rule.runs <= 2.6


def test_drifting_timings_with_outliers_do_not_fool_it() -> None:
    assert reached("S3").gain >= 17
    assert reached("S3").share <= 25


def test_a_deterministic_metric_is_decided_as_greedy_does_at_hardly_more_runs() -> None:
    for seed in range(4):
        rule, greedy = session(SCENARIOS["S4"], Rule(), seed), session(SCENARIOS["S4"], Greedy(), seed)
        made = len(rule.decisions)
        assert rule.decisions == greedy.decisions[:made]
        assert made >= len(greedy.decisions) - 4
        assert rule.runs <= 1.05
