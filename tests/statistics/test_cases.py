"""The rule on cases: scores in records, the looks of a race, confirming and noisy runs, missing cases, the state."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import pytest
from case_sessions import CaseSession, case_run, metric_of, next_step
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from noise_sessions import folded, update_noise
from records import measurement

from goalseek.case_scores import CaseScores
from goalseek.manifest.tables import Guard
from goalseek.phase_values import Evidence, Verdict
from goalseek.statistics.acceptance import AcceptanceRule, decide_on_baseline
from goalseek.statistics.cases import Ask, CaseState, OwnRun, bar, order_of, scores_of
from goalseek.statistics.noise import NoiseState
from goalseek.values import Side, VerifierRun, from_plain, to_line, to_plain

COUNT = 40
PARTS = [5, 5, 10, 20]  # of a race through all its looks
WRONG = [0.0] * COUNT
HALF = [float(case % 2) for case in range(COUNT)]
scores = st.none() | st.floats(width=32, allow_nan=False, allow_infinity=False)
answers = st.lists(st.sampled_from((0.0, 1.0)), min_size=COUNT, max_size=COUNT)


@dataclass
class Verifier:
    """It answers what it is asked; after the first ``steady`` runs for a candidate each answer flips with ``flips``."""

    incumbent: Sequence[float]
    flips: float = 0.0
    steady: int = 0
    has_all: bool = False
    missing: dict[str, set[int]] = field(default_factory=dict)  # cases, by side
    candidate: Sequence[float] = ()
    asked: list[tuple[str, int]] = field(default_factory=list)
    draw: Callable[[], float] = field(default_factory=lambda: random.Random(7).random)

    def __call__(self, side: str, cases: Sequence[int]) -> dict[int, float]:
        self.asked.append((side, len(cases)))
        flips = self.flips if len(self.asked) > self.steady else 0.0
        made = self.candidate if side == "candidate" else self.incumbent
        given = set(range(len(made)) if self.has_all else cases) - self.missing.get(side, set())
        return {case: 1 - made[case] if flips and self.draw() < flips else made[case] for case in sorted(given)}


@dataclass
class Climb(CaseSession):
    """``verifier`` measures the last candidate that was kept as its incumbent."""

    verifier: Verifier

    def changed(self, mended: int, broken: int = 0) -> list[float]:
        """The incumbent's answers with the first wrong and right ones of the next race turned."""
        made = list(self.verifier.incumbent)
        wrong, right = ([case for case in self.order if made[case] == score] for score in (0.0, 1.0))
        for case in wrong[:mended] + right[:broken]:
            made[case] = 1 - made[case]
        return made

    def tries(self, made: Sequence[float], lines_saved: int = 0) -> Verdict:
        self.verifier.candidate = made
        self.verifier.asked.clear()
        verdict = self.candidate(lines_saved)[-1]
        assert isinstance(verdict, Verdict)
        if verdict:
            self.verifier.incumbent = made
        return verdict

    @property
    def sizes(self) -> list[int]:
        """Of the last candidate's own runs."""
        return [size for side, size in self.verifier.asked if side == "candidate"]


def climb(verifier: Verifier, direction: str = "maximize", start: float = 0.0, **keys: object) -> Climb:
    made = Climb(verifier, len(verifier.incumbent), metric_of(direction, **keys), start)
    made.baseline()
    return made


def noisy_climb(candidates: int, seed: int, flips: float = 0.1, **keys: object) -> Climb:
    draw = random.Random(seed)
    made = climb(Verifier(HALF, flips, draw=random.Random(seed + 1).random), **keys)
    for _ in range(candidates):
        mended, broken = draw.choice(((0.1, 0.1), (0.6, 0.05), (0.1, 0.5), (0.0, 0.0)))
        made.tries([1 - old if draw.random() < (broken if old else mended) else old for old in made.verifier.incumbent])
    return made


def states_of(session: CaseSession) -> list[NoiseState]:
    """Before each record, and after the last."""
    return list(accumulate(session.records, update_noise, initial=NoiseState()))


def cases_of(run: VerifierRun) -> set[int]:
    assert run.cases
    return set(run.cases.unpacked())


def split(runs: Sequence[VerifierRun]) -> tuple[list[VerifierRun], list[VerifierRun]]:
    """The candidate's runs, and the incumbent's after the first of these."""
    first = next(place for place, run in enumerate(runs) if run.of == "candidate")
    return [run for run in runs if run.of == "candidate"], [run for run in runs[first:] if run.of == "incumbent"]


def test_scores_come_back_as_they_were() -> None:
    assert CaseScores.of({}).unpacked() == {}
    graded = {case: random.Random(case).random() for case in range(1000)}
    assert CaseScores.of(graded).unpacked() == pytest.approx(graded, rel=6e-7)
    assert CaseScores.of({0: 0.7, 1: 1 / 3}).unpacked() == {0: 0.7, 1: 0.3333333}
    with pytest.raises(OverflowError):
        CaseScores.of({0: 3.5e38})


@given(st.dictionaries(st.integers(0, 3000), scores, max_size=300))
@example({7: None, 0: 1.0, 8: -0.0})
@example({2999: None})
def test_any_scores_come_back_in_the_order_of_the_table(given: dict[int, float | None]) -> None:
    packed = CaseScores.of(given)
    seven_digits = {case: None if score is None else float(f"{score:.7g}") for case, score in given.items()}
    assert from_plain(CaseScores, to_plain(packed)).unpacked() == seven_digits
    assert list(packed.unpacked()) == sorted(given)
    assert CaseScores.of(dict(reversed(given.items()))) == packed


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_300_candidates_on_1000_graded_cases_stay_below_2_mb_of_records(noise: float) -> None:
    draw, truth = random.Random(5), dict[str, list[float]]()
    truth["incumbent"] = [draw.random() for _ in range(1000)]
    session = CaseSession(lambda side, cases: {case: truth[side][case] + draw.gauss(0, noise) for case in cases}, 1000)
    session.baseline()
    for _ in range(300):
        truth["candidate"] = [draw.random() if draw.random() < 0.2 else score for score in truth["incumbent"]]
        if session.candidate()[-1]:
            truth["incumbent"] = truth["candidate"]
    assert session.state.differed == (noise > 0)
    assert sum(len(to_line(record)) for record in session.records) < 2e6


@pytest.mark.parametrize(
    ("noise", "race", "sizes"),
    [
        ("auto", "auto", [40, 5, 35]),
        ("always", "auto", [40, 5, 35]),
        ("auto", "off", [40, 40]),
        ("none", "auto", [40, 5]),
        ("none", "off", [40]),
    ],
)
def test_a_baseline_runs_twice_and_a_part_of_it_shows_that_parts_can_be_asked(
    noise: str, race: str, sizes: list[int]
) -> None:
    made = climb(Verifier(HALF), noise=noise, race=race)
    assert [size for _, size in made.verifier.asked] == sizes
    assert made.verdicts[0].value == 0.5
    assert made.verdicts[0].why.endswith(", 40 cases" if noise == "none" else ", 40 cases twice, each the same")
    assert (made.cases.asked, len(made.cases.own), made.cases.noise) == (sum(sizes), len(sizes), 0.0)
    assert len(made.cases.looks) == (4 if race == "auto" else 1)


def test_a_baseline_outside_its_valid_range_is_rejected() -> None:
    runs = (case_run("candidate", {0: 1.0}), case_run("candidate", {0: 1.0}))
    verdict = decide_on_baseline(metric_of(valid=(0.0, 0.1)), (), "", Evidence(runs, case_ids=("a",)))
    assert isinstance(verdict, Verdict) and verdict.reason == "not_valid"


def test_a_race_runs_on_more_and_more_cases_of_a_random_order() -> None:
    made = climb(Verifier(HALF))
    order = made.order
    assert sorted(order) == list(range(COUNT)) and order != tuple(range(COUNT))
    made.tries(made.changed(10))
    assert made.verifier.asked == [("candidate", size) for size in (*PARTS, COUNT)]
    ends = list(accumulate(PARTS, initial=0))
    parts = [set(order[start:end]) for start, end in pairwise(ends)]
    assert [cases_of(run) for run in made.records[-1].runs] == [*parts, set(order)]
    assert order_of(6, 11) == order_of(6, 11) != order_of(6, 12)
    assert order != made.order


@pytest.mark.parametrize(
    ("start", "keys", "has_all", "sizes"),
    [
        (0.0, {}, False, PARTS),
        (0.9, {}, False, PARTS),
        (1.1, {}, False, [10, 10, 20]),
        (0.0, {"race": "off"}, False, [40]),
        (0.0, {}, True, [40]),
        (0.0, {"noise": "none"}, False, PARTS),
        (0.0, {"noise": "none", "race": "off"}, False, [40]),
    ],
)
def test_looks_are_fewer_if_the_start_takes_longer_than_a_case(
    start: float, keys: dict[str, object], has_all: bool, sizes: list[int]
) -> None:
    made = climb(Verifier(HALF, has_all=has_all), start=start, **keys)
    made.state = replace(made.state, confirmed=2)
    assert made.tries(made.changed(10))
    assert made.sizes == sizes
    assert next_step(metric_of(race="off"), made.state, made.order, ()) == Ask("candidate", made.order)


def test_a_verifier_that_answers_all_is_never_asked_for_parts_again() -> None:
    made = climb(Verifier(HALF, has_all=True))
    assert [size for _, size in made.verifier.asked] == [COUNT, 5]
    assert made.cases.looks == (1.0,) and made.cases.asked == 2 * COUNT
    made.verifier.flips = 0.1
    for mended in (1, 15, 3):
        verdict = made.tries(made.changed(mended))
        assert {size for _, size in made.verifier.asked} == {COUNT}
        assert verdict.cases and verdict.cases.cost == len(made.verifier.asked)
    assert made.state.differed


@pytest.mark.parametrize(("first", "run"), [(0, 5), (5, 10), (10, 20), (20, 40)])
def test_a_candidate_is_reverted_at_the_look_that_finds_it_behind(first: int, run: int) -> None:
    made = climb(Verifier([0.5] * COUNT))
    order, worse = made.order, [0.5] * COUNT
    for place, case in enumerate(order):
        worse[case] = 0.0 if place >= first else 0.5 if place else 0.6
    gain, squares = (sum((worse[case] - 0.5) ** power for case in order[:run]) for power in (1, 2))
    gain /= run
    verdict = made.tries(worse)
    assert (bool(verdict), verdict.reason) == (False, "worse")
    assert sum(made.sizes) == run
    assert verdict.cases and (verdict.cases.run, verdict.cases.of, verdict.cases.cost) == (run, COUNT, run / COUNT)
    assert (verdict.delta, verdict.value, verdict.incumbent) == pytest.approx((gain, 0.5 + gain, 0.5))
    assert verdict.needed == pytest.approx(1.644854 * math.sqrt(squares * run / COUNT) / run)  # if the others are alike


@given(answers, answers, st.integers(-1, 2), st.sampled_from((None, 0.2, 0.35)))
@settings(deadline=None)
def test_zeros_and_ones_are_decided_by_mcnemars_z_and_a_line(
    incumbent: list[float], made: list[float], lines_saved: int, alpha: float | None
) -> None:
    session, z = climb(Verifier(incumbent), alpha=alpha), {None: 1.644854, 0.2: 0.841621, 0.35: 0.385320}[alpha]
    for size in accumulate(PARTS):
        won, lost = (
            sum(sign * made[case] > sign * incumbent[case] for case in session.order[:size]) for sign in (1, -1)
        )
        t, share = (won - lost) / math.sqrt(won + lost or 1), size / COUNT
        is_ahead = t * math.sqrt(share) >= z * share - 0.5 * (1 - share)
        if not is_ahead and not (lines_saved > 0 and won == lost == 0):
            break
    verdict, is_simpler = session.tries(made, lines_saved), lines_saved > 0 and size == COUNT and won == lost == 0
    assert verdict.cases and verdict.cases.t == round(t, 4)
    assert (verdict.cases.won, verdict.cases.lost, verdict.cases.tied) == (won, lost, size - won - lost)
    assert bool(verdict) == (is_simpler or (size == COUNT and is_ahead))
    assert session.sizes[: len(PARTS)] == [
        part for part, end in zip(PARTS, accumulate(PARTS), strict=True) if end <= size
    ]
    assert (verdict.reason == "simpler") == is_simpler


@given(answers, st.integers(0, 10**6), st.sampled_from((0.0, 0.1)))
@settings(deadline=None, max_examples=40)
def test_a_metric_to_minimize_is_decided_as_its_mirror_image(made: list[float], seed: int, flips: float) -> None:
    verdicts = []
    for direction, base in (("maximize", 0.0), ("minimize", 1.0)):
        session = climb(
            Verifier([abs(base - score) for score in HALF], flips, draw=random.Random(seed).random), direction
        )
        verdicts.append(session.tries([abs(base - score) for score in made]))
    up, down = verdicts
    assert (up.outcome, up.reason, up.cases) == (down.outcome, down.reason, down.cases)
    assert (down.value, down.incumbent) == pytest.approx((1 - (up.value or 0), 1 - (up.incumbent or 0)))
    assert down.delta == pytest.approx(up.delta)


def test_one_wild_case_alone_keeps_nothing() -> None:
    made = climb(Verifier(HALF))
    wild = [1e6 if case == made.order[0] else score for case, score in enumerate(HALF)]
    assert (made.tries(wild).reason, sum(made.sizes)) == ("within_noise", COUNT)
    assert made.verdicts[-1].cases and made.verdicts[-1].cases.t == 1.0
    assert made.cases.highest == 1e6 and not made.cases.is_share


def test_a_tie_is_kept_only_with_fewer_lines_and_told_only_after_all_cases() -> None:
    made = climb(Verifier(HALF))
    assert (made.tries(HALF).reason, made.sizes) == ("within_noise", [5, 5])
    assert (made.tries(HALF, 2).reason, made.sizes[:4]) == ("simpler", PARTS)
    assert (made.tries(HALF, -2).reason, made.sizes) == ("within_noise", [5, 5])
    for race, size, reason in (("auto", 10, "within_noise"), ("off", COUNT, "tie")):
        noisy = climb(Verifier(HALF), noise="always", race=race)
        assert (noisy.tries(HALF, 2).reason, sum(noisy.sizes)) == (reason, size)


def test_the_first_two_keeps_are_run_once_more_and_later_ones_are_not() -> None:
    made = climb(Verifier(WRONG))
    for more in ([COUNT], [COUNT], [], []):
        assert made.tries(made.changed(8))
        assert made.verifier.asked == [("candidate", size) for size in (*PARTS, *more)]
        assert not made.tries(made.changed(0, 8))
        assert COUNT not in made.sizes
    assert (made.state.confirmed, made.state.differed) == (2, False)
    assert [len(own.scores.unpacked()) for own in made.cases.own] == PARTS


def test_without_noise_no_keep_is_run_once_more() -> None:
    made = climb(Verifier(WRONG), noise="none")
    assert made.tries(made.changed(8)) and made.sizes == PARTS
    assert made.state.confirmed == 0


def test_a_confirming_run_that_differs_makes_the_climb_noisy() -> None:
    made = climb(Verifier(WRONG, flips=0.05, steady=len(PARTS)))
    verdict = made.tries(made.changed(30))
    runs = made.records[-1].runs
    assert verdict and made.state.differed and made.state.confirmed == 0
    assert made.sizes[: len(PARTS) + 1] == [*PARTS, COUNT]
    assert [(run.of, len(cases_of(run))) for run in runs[len(PARTS) + 1 :]] == [("incumbent", size) for size in PARTS]
    assert [own.scores for own in made.cases.own] == [runs[len(PARTS)].cases]
    assert made.cases.noise > 0


def test_under_noise_always_a_keep_needs_a_fresh_incumbent_though_runs_agree() -> None:
    made = climb(Verifier(WRONG), noise="always")
    assert made.tries(made.changed(8))
    assert made.verifier.asked == [*(("candidate", size) for size in PARTS), ("incumbent", COUNT)]


@pytest.mark.parametrize("seed", [2, 6])
def test_a_noisy_climb_keeps_only_against_a_fresh_incumbent_in_at_most_four_passes(seed: int) -> None:
    made, everything = noisy_climb(40, seed), set(range(COUNT))
    states, kept = states_of(made), 0
    for record, after in zip(made.records[1:], states[2:], strict=True):
        mine, fresh = split(record.runs)
        passes = [sum(case in cases_of(run) for run in mine) for case in everything]
        assert max(passes) <= 4
        assert record.metric.cases
        cost = sum(len(cases_of(run)) for run in record.runs) / COUNT
        assert record.metric.cases.cost == pytest.approx(cost, abs=1e-4)
        if record.outcome == "kept":
            kept += 1
            assert record.metric.cases.run == COUNT
            assert set().union(*map(cases_of, fresh)) == everything
            assert after.cases
            assert [own.scores for own in after.cases.own] == [run.cases for run in mine[len(PARTS) :]]
    assert kept >= 2
    assert states[1].differed and states[-1].cases and 0.06 < states[-1].cases.noise < 0.12


def test_after_a_noisy_keep_fresh_runs_are_made_only_on_the_cases_that_the_race_needs() -> None:
    made = climb(Verifier(WRONG, flips=0.1))
    for mended, first in ((20, []), (18, PARTS[:1])):
        assert made.tries(made.changed(mended)) and made.sizes == PARTS
        turns = [(side, size) for size in PARTS for side in (("incumbent", "candidate") if first else ("candidate",))]
        assert made.verifier.asked == [*turns, *(("incumbent", size) for size in first or [COUNT])]
        assert made.cases.own == ()
    assert not made.tries(WRONG)
    assert made.verifier.asked == [("incumbent", 5), ("candidate", 5)]


def rule(state: CaseState, order: Sequence[int], runs: Sequence[VerifierRun], passes: int) -> Ask | bool:
    """The rule for a noisy verifier as its docstring has it: the next run, or whether the candidate is kept."""
    n, e = len(order), state.noise
    mine, fresh = split(runs) if any(run.of == "candidate" for run in runs) else ([], [])
    own = [run.scores for run in state.own if run.at > state.asked - 30 * n] + scores_of(runs, "incumbent")
    sides = [
        [run.unpacked() for run in side] for side in (own, scores_of(mine, "candidate"), scores_of(fresh, "incumbent"))
    ]
    a, b, again = (
        [[score for scores in side if (score := scores.get(case)) is not None] for case in range(n)] for side in sides
    )

    def lacking(scores: list[list[float]], cases: Sequence[int], count: int) -> tuple[int, ...]:
        return tuple(case for case in cases if len(scores[case]) < count)

    def least(scores: list[list[float]]) -> int:
        return min(map(len, scores))

    ask, m = None, 0
    for share in (0.125, 0.25, 0.5, 1.0):
        part = order[: math.ceil(share * n)]
        if of_own := lacking(a, part, 1):
            ask = Ask("incumbent", of_own)
        elif of_mine := lacking(b, part, 1):
            ask = Ask("candidate", of_mine)
        if ask:
            break
        m = len(part)
    if m == 0:
        assert ask
        return ask
    last = [scores[-8:] for scores in a]
    d = [sum(b[case]) / len(b[case]) - sum(last[case]) / len(last[case]) for case in order[:m]]
    v = sum(x * x for x in d) / m
    p = min(0.9 * v, e * sum(1 / len(b[case]) + 1 / len(last[case]) for case in order[:m]) / m)
    is_complete = m == n and min(least(a), least(b)) >= passes
    share = 1.0 if is_complete or v == 0 else (v - p + min(p, 2 * e / passes)) / v
    t = m / n * share
    evidence = sum(d) / math.sqrt(m * v or 1) * math.sqrt(t)
    if evidence < 1.644854 * t - 0.5 * share * (1 - t):
        return False
    if ask:
        return ask
    if evidence >= 1.644854:
        return Ask("incumbent", lacking(again, order, 1)) if lacking(again, order, 1) else True
    if is_complete:
        return False
    if least(a) < min(passes, least(b) + 1):
        return Ask("incumbent", lacking(a, order, least(a) + 1))
    return Ask("candidate", lacking(b, order, least(b) + 1))


@pytest.mark.parametrize(("flips", "max_repeats"), [(0.1, 8), (0.25, 8), (0.25, 2), (0.1, 1)])
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_noisy_candidate_is_measured_and_decided_as_the_rule_says(seed: int, flips: float, max_repeats: int) -> None:
    made = noisy_climb(30, seed, flips, max_repeats=max_repeats)
    for state, record, verdict in zip(states_of(made)[1:], made.records[1:], made.verdicts[1:], strict=False):
        assert state.cases and state.differed
        order, passes = order_of(COUNT, record.runs[0].seed), min(4, max_repeats)
        for count in range(len(record.runs) + 1):
            step = next_step(made.metric, state, order, record.runs[:count])
            answer = bool(step) if isinstance(step, Verdict) else replace(step, so_far="")
            assert answer == rule(state.cases, order, record.runs[:count], passes)
        assert step == verdict


def test_a_case_counts_by_its_last_eight_scores_of_the_incumbent() -> None:
    made = climb(Verifier(WRONG, flips=0.1), race="off")
    full = [CaseScores.of(dict.fromkeys(range(COUNT), score)) for score in (1.0, 1.0, *[0.0] * 8)]
    cases = replace(made.cases, own=tuple(OwnRun(scores, made.cases.asked) for scores in full))
    run = case_run("candidate", {case: float(case == 0) - float(case in (1, 2)) for case in range(COUNT)})
    verdict = next_step(made.metric, replace(made.state, cases=cases), range(COUNT), [run])
    assert isinstance(verdict, Verdict) and (verdict.incumbent, verdict.reason) == (0.0, "worse")


@pytest.mark.parametrize(
    ("flips", "window", "side"), [(0.1, 30, "incumbent"), (0.1, 31, "candidate"), (0.0, 1, "candidate")]
)
def test_scores_older_than_the_window_count_only_where_answers_never_differ(
    flips: float, window: int, side: Side
) -> None:
    made = climb(Verifier(HALF, flips=flips), window=window)
    own = tuple(replace(run, at=made.cases.asked) for run in made.cases.own)
    state = replace(made.state, cases=replace(made.cases, own=own, asked=made.cases.asked + 30 * COUNT))
    assert next_step(made.metric, state, made.order, ()) == Ask(side, made.order[:5])


@pytest.mark.parametrize(
    ("direction", "incumbent", "missing", "counts"),
    [
        ("maximize", 0.5, "worst", 0.0),
        ("maximize", -3.0, "worst", -3.0),
        ("maximize", 0.5, 0.25, 0.25),
        ("minimize", 0.5, "worst", 1.0),
        ("minimize", 7.0, "worst", 7.0),
        ("minimize", 0.5, 0.25, 0.25),
    ],
)
def test_a_missing_case_of_the_candidate_counts_as_the_worst_or_as_the_number(
    direction: str, incumbent: float, missing: object, counts: float
) -> None:
    made, sign = climb(Verifier([incumbent] * COUNT), direction, missing=missing), 1 if direction == "maximize" else -1
    made.verifier.missing = {"candidate": {made.order[0]}}
    verdict = made.tries([incumbent + sign * 0.1] * COUNT)
    gains = [0.1] * (COUNT - 1) + [sign * (counts - incumbent)]
    assert made.sizes[:2] == [5, 1]  # asked once more
    assert verdict and verdict.cases and verdict.cases.run == COUNT
    assert verdict.delta == pytest.approx(sum(gains) / COUNT)


def test_a_missing_case_of_the_incumbent_leaves_the_pairs() -> None:
    verifier = Verifier(HALF)
    verifier.missing = {"incumbent": {1, 2}}
    made = climb(verifier)
    assert sum(size for _, size in verifier.asked) == 2 * (COUNT + 2)
    verdict = made.tries([1.0] * COUNT)
    assert verdict and verdict.cases and (verdict.cases.run, verdict.cases.won) == (38, 19)
    assert (verdict.incumbent, verdict.value) == pytest.approx((19 / 38, 1.0))


@pytest.mark.parametrize("missing", ["candidate", "incumbent"])
def test_missing_cases_and_noise_together_end_in_a_verdict(missing: str) -> None:
    made = climb(Verifier(HALF, 0.1, missing={missing: {0, 3}}))
    for mended in (20, 1, 4, 10):
        made.tries(made.changed(mended))
    assert folded(made.records) == made.state


def test_a_gain_below_min_delta_is_reverted() -> None:
    made = climb(Verifier(WRONG), min_delta=0.25)
    verdict = made.tries(made.changed(8))
    assert (verdict.outcome, verdict.reason, verdict.needed) == ("reverted", "below_min_delta", 0.25)
    assert verdict.delta == pytest.approx(0.2) and verdict.why.endswith("; less than min_delta, 0.25")
    assert made.tries(made.changed(10)).reason == "better"
    made = climb(Verifier(HALF), min_delta="30%")
    assert made.tries(made.changed(5)).reason == "below_min_delta"
    assert made.tries(made.changed(7)).reason == "better"


def test_alpha_is_the_dial() -> None:
    strict, loose = (climb(Verifier(HALF), alpha=alpha) for alpha in (None, 0.1))
    assert (strict.tries(strict.changed(2)).reason, loose.tries(loose.changed(2)).reason) == ("within_noise", "better")
    assert strict.verdicts[-1].why.endswith("T is 1.41, needed 1.64")
    assert strict.verdicts[-1].needed == pytest.approx(1.644854 * math.sqrt(2) / COUNT)
    assert climb(Verifier(HALF), alpha=0.5).tries(HALF).reason == "tie"
    assert (bar(None), bar(0.35)) == pytest.approx((1.644854, 0.385320), abs=1e-6)


def test_guards_are_judged_on_runs_of_all_cases_and_so_is_the_valid_range() -> None:
    made, guards = climb(Verifier(HALF), valid=(0.0, 0.9)), (Guard(name="size", max=50.0),)
    rule = AcceptanceRule(made.metric, guards, {}, made.state, 0, made.order)
    better = {case: 1.0 if case in made.order[:12] else HALF[case] for case in range(COUNT)}
    parts = [
        case_run("candidate", {c: better[c] for c in made.order[a:b]}) for a, b in ((0, 5), (5, 10), (10, 20), (20, 40))
    ]
    evidence = Evidence((), ())
    for run, size in zip(parts, (9.0, 9.0, 60.0, 30.0), strict=True):
        assert isinstance(rule.next_step(evidence), Ask)
        evidence = evidence.plus(Evidence((run,), ({"size": size},)))
    confirming = rule.next_step(evidence)
    assert isinstance(confirming, Ask) and set(confirming.cases) == set(range(COUNT))
    known = replace(made.state, confirmed=2)  # without a confirming run a guard asks for one of all cases
    asked = AcceptanceRule(made.metric, guards, {}, known, 0, made.order).next_step(evidence)
    assert isinstance(asked, Ask) and asked.cases == tuple(made.order)
    for size, reason in ((60.0, "guard"), (40.0, "better")):
        verdict = rule.next_step(evidence.plus(Evidence((case_run("candidate", better),), ({"size": size},))))
        assert isinstance(verdict, Verdict) and verdict.reason == reason
        assert verdict.value == sum(better.values()) / COUNT
    bounded = (Guard(name="size", max=50.0, valid=(20.0, 60.0)),)
    least = AcceptanceRule(made.metric, bounded, {}, made.state, 0, made.order)
    assert isinstance(least.next_step(Evidence((parts[0],), ({"size": 9.0},))), Ask)
    out_of_range = least.next_step(evidence.plus(Evidence((case_run("candidate", better),), ({"size": 9.0},))))
    assert isinstance(out_of_range, Verdict) and out_of_range.reason == "not_valid"
    part = case_run("candidate", dict.fromkeys(made.order[:5], 1.0))
    assert isinstance(rule.next_step(Evidence((part,), ({"size": 1.0},))), Ask)
    made_whole = climb(Verifier(HALF), valid=(0.0, 0.9)).tries(dict.fromkeys(range(COUNT), 1.0))
    assert (made_whole.reason, made_whole.value) == ("not_valid", 1.0)


def test_an_incumbent_that_failed_is_run_again_first() -> None:
    made = climb(Verifier(HALF))
    assert next_step(made.metric, made.state, made.order, [VerifierRun("incumbent", None, 1, 0.0)]) == Ask(
        "candidate", made.order[:5]
    )


@pytest.mark.parametrize("keys", [{}, {"race": "off"}, {"noise": "always", "window": 2}, {"max_repeats": 2}])
def test_each_answer_follows_from_records_and_runs_alone(keys: dict[str, Any]) -> None:
    """So a killed iteration goes on where it was: each run is the one that its prefix asks for."""
    made = noisy_climb(12, 5, **keys)
    assert folded(made.records) == made.state
    for state, record, verdict in zip(states_of(made)[1:], made.records[1:], made.verdicts[1:], strict=False):
        runs = from_plain(Evidence, to_plain(Evidence(record.runs))).runs
        order = order_of(COUNT, runs[0].seed)
        for count, run in enumerate(runs):
            step = next_step(made.metric, state, order, runs[:count])
            assert isinstance(step, Ask)
            assert (step.side, set(step.cases)) == (run.of, cases_of(run))
            assert step == next_step(made.metric, state, order, record.runs[:count])
        assert next_step(made.metric, state, order, runs) == verdict


def test_the_state_folded_from_records_is_that_of_the_climb() -> None:
    made = climb(Verifier(WRONG))
    for mended in (8, 0, 8, 2):
        made.tries(made.changed(mended, 1))
    assert folded(made.records) == made.state == states_of(made)[-1]
    assert made.cases.ids == made.records[0].case_ids and not made.records[1].case_ids
    assert from_plain(CaseState, to_plain(made.cases)) == made.cases


def test_noise_is_half_the_mean_squared_difference_of_successive_answers() -> None:
    made = climb(Verifier(WRONG))
    cases = made.cases.with_runs([case_run("incumbent", {0: 1.0, 1: 0.0})])
    assert (cases.squares, cases.repeats, cases.noise) == (1.0, COUNT + 2, 1 / (2 * COUNT + 4))
    mine = [case_run("candidate", dict.fromkeys(range(4), score)) for score in (0.0, 1.0, 0.25)]
    assert made.cases.with_runs(mine).squares == 4 * (1 + 0.75**2)
    assert made.cases.with_runs(mine).own == made.cases.own


def test_a_measurement_of_the_incumbent_counts_and_one_of_another_tree_does_not() -> None:
    made, scores = climb(Verifier(HALF)), CaseScores.of(dict(enumerate(HALF)))
    mine = replace(measurement(1, "tree 0", "the ruler"), cases=scores)
    known = update_noise(made.state, mine).cases
    assert known and known.own[-1] == OwnRun(scores, made.cases.asked + COUNT)
    flipped = CaseScores.of({0: 1.0})
    known = update_noise(made.state, replace(mine, cases=flipped)).cases
    assert known and known.own == (OwnRun(flipped, made.cases.asked + 1),) and known.squares == 1.0
    other = update_noise(made.state, replace(mine, cases=flipped, tree="tree 1")).cases
    assert other and (other.own, other.squares) == (made.cases.own, made.cases.squares)


def test_a_new_baseline_begins_with_its_own_cases() -> None:
    made = noisy_climb(3, 5)
    later = CaseSession(Verifier([0.5] * 7), 7, state=made.state)
    later.baseline()
    assert (later.cases.asked, len(later.cases.ids), later.state.differed) == (14, 7, False)
