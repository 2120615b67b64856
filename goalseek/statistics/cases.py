"""The rule for a metric that is the mean of cases: a race over more and more of them, candidate against incumbent.

A candidate runs on a random eighth, quarter and half of the cases, then on all. T compares it with the incumbent on the
same cases; B = T·√t, where t is the share of the information that could be had. It is reverted once B falls below the
straight line from -h at t = 0 to z at t = 1, and kept when all cases were run and B ≥ z. Where the same code answers a
case differently from run to run, t = 1 means four runs of both on all cases, made in turn while B lies between.

* dᵢ = mean score of the candidate - mean score of the incumbent on case i, positive if better. T = Σd / √Σd². It needs
  no sd and ignores ties; it is McNemar's z for 0/1, and one wild case alone gives |T| ≤ 1. It assumes that d is
  symmetric where the candidate is no better.
* e = half the mean squared difference of successive answers of the same code to the same case. v = Σd²/m for m cases
  run. p = min(0.9 v, e (1/k + mean of 1/|own|)), with k runs of the candidate and |own| incumbent scores of the case.
  share = (v - p + min(p, 2e/4)) / v. t = (m/n) · share, and 1 after four full runs.
* Line: z·t - h·share·(1 - t), h = 0.5; z = Φ⁻¹(1 - alpha), alpha = 0.05 if the manifest has none: a learned one settled
  near its cap, and bought nothing. At 0.35 gains and false keeps both rise. There is no continuity correction.
* Scores of the incumbent: the last eight of each case, none older than 30 full runs where the verifier is noisy. After
  a noisy keep its first run is left out, as it was selected, and fresh ones are asked for only on the cases that the
  next race needs.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from goalseek.case_scores import CaseScores
from goalseek.manifest.tables import Metric
from goalseek.values import CaseResult, Side, VerifierRun, short_digest

PASSES = 4  # full runs of both, where the same code answers differently
MAX_SCORES = 8  # of the incumbent, for each case
MAX_OWN_RUNS = 96
LOOKS, FEWER_LOOKS = (0.125, 0.25, 0.5, 1.0), (0.25, 0.5, 1.0)
ALPHA = 0.05
LINE = 0.5
CHURN = 0.1  # the share of the answers that a change alters
MOST_NOISE = 0.9  # of the variance of d


class Ask(Struct, frozen=True):
    """The next run: ``cases`` are positions in the table, in the order in which the verifier gets them.

    ``so_far`` says what came of the runs before it: ``64 of 200 cases, 9 won, 3 lost``.
    """

    side: Side
    cases: tuple[int, ...]
    so_far: str = ""


class OwnRun(Struct, frozen=True):
    """A run of the incumbent; ``at`` counts the cases that were asked under this ruler up to its end."""

    scores: CaseScores
    at: int


class CaseState(Struct, frozen=True):
    """What the records say of a ruler's cases.

    ``ids`` are the baseline's. ``squares`` sums the squared differences of ``repeats`` successive answers of the same
    code to the same case. ``lowest`` and ``highest`` are of all scores. ``looks`` are the shares of the cases after
    which a race may end: all of them only, if the verifier answers all whatever it is asked.
    """

    ids: tuple[str, ...] = ()
    own: tuple[OwnRun, ...] = ()
    asked: int = 0
    squares: float = 0.0
    repeats: int = 0
    lowest: float = 0.0
    highest: float = 1.0
    looks: tuple[float, ...] = (1.0,)

    @property
    def is_share(self) -> bool:
        """Whether all scores lie between 0 and 1, so that hundredths are points."""
        return self.lowest >= 0 and self.highest <= 1

    def smallest_gain(self, alpha: float | None) -> float:
        """The least gain that shows if a change moves a tenth of the scores from one end to the other."""
        return bar(alpha) * math.sqrt(CHURN / len(self.ids)) * (self.highest - self.lowest)

    def missing_score(self, metric: Metric) -> float:
        if isinstance(metric.missing, float):
            return metric.missing
        return self.lowest if metric.direction == "maximize" else self.highest

    @property
    def noise(self) -> float:
        """e, the variance of one answer."""
        return self.squares / (2 * self.repeats) if self.repeats else 0.0

    def with_runs(self, runs: Sequence[VerifierRun]) -> "CaseState":
        """Those of the incumbent count from now on as its own, of a candidate only as repeats of its own."""
        fresh, mine = scores_of(runs, "incumbent"), ScoresByCase(scores_of(runs, "candidate"))
        missing, last = {case for run in fresh for case in run.unpacked()}, dict[int, float | None]()
        for run_before in reversed(self.own if missing else ()):
            scores = run_before.scores.unpacked()
            last.update((case, scores[case]) for case in missing & scores.keys() if scores[case] is not None)
            missing -= last.keys()
        now = ScoresByCase([CaseScores.of(last), *fresh])
        own, asked = list(self.own), self.asked
        seen = [self.lowest, self.highest]
        for run in runs:
            if run.cases:
                scores = run.cases.unpacked()
                asked += len(scores)
                seen += [score for score in scores.values() if score is not None]
                own += [OwnRun(run.cases, asked)] if run.of == "incumbent" else []
        return structs.replace(
            self,
            own=tuple(own[-MAX_OWN_RUNS:]),
            asked=asked,
            squares=self.squares + mine.squares + now.squares,
            repeats=self.repeats + mine.repeats + now.repeats,
            lowest=min(seen),
            highest=max(seen),
        )

    def with_incumbent(self, runs: Sequence[VerifierRun], is_noisy: bool) -> "CaseState":
        """After ``runs`` of a candidate that was kept: without its first full run where ``is_noisy``."""
        own, asked = list[OwnRun](), set[int]()
        for scores in scores_of(runs, "candidate"):
            cases = scores.unpacked().keys()
            if not is_noisy or cases <= asked:
                own.append(OwnRun(scores, self.asked))
            asked |= cases
        return structs.replace(self, own=tuple(own))


class ScoresByCase:
    """The scores of one code, oldest first, and the squared differences of successive ones."""

    def __init__(self, runs: Iterable[CaseScores]) -> None:
        self.scores: defaultdict[int, list[float]] = defaultdict(list)
        self.asked = Counter[int]()
        self.squares, self.repeats = 0.0, 0
        for run in runs:
            for case, score in run.unpacked().items():
                self.asked[case] += 1
                if score is None:
                    continue
                if scores := self.scores[case]:
                    self.squares += (score - scores[-1]) ** 2
                    self.repeats += 1
                scores.append(score)

    @property
    def means(self) -> dict[int, float]:
        return {case: mean(scores) for case, scores in self.scores.items() if scores}

    def needed(self, cases: Iterable[int], count: int) -> tuple[int, ...]:
        """Those of the cases that were not asked so often yet."""
        return tuple([case for case in cases if self.asked[case] < count])


class Pairing(Struct, frozen=True):
    """Candidate against incumbent, case by case: ``differences`` are positive if better, the means are of these cases.

    ``size`` is the share of all cases that were run, ``share`` that of the rule, ``z`` the bar.
    """

    cases: tuple[int, ...]
    differences: tuple[float, ...]
    candidate: float
    incumbent: float
    size: float
    share: float
    z: float

    @property
    def lost(self) -> list[int]:
        return [case for case, difference in zip(self.cases, self.differences, strict=True) if difference < 0]

    @property
    def gain(self) -> float:
        return math.fsum(self.differences) / len(self.differences)

    @property
    def needed_gain(self) -> float:
        """The mean difference that reaches the bar on all cases if they differ as these do."""
        squares = math.fsum(difference**2 for difference in self.differences)
        return self.z * math.sqrt(squares * self.size) / len(self.differences)

    def result(self, of: int, runs: Iterable[VerifierRun]) -> CaseResult:
        run, lost, tied = len(self.differences), len(self.lost), self.differences.count(0)
        asked = sum(len(run.cases.unpacked()) for run in runs if run.cases)
        return CaseResult(run - lost - tied, lost, tied, run, of, round(self.t_statistic, 4), round(asked / of, 4))

    @property
    def t_statistic(self) -> float:
        """T."""
        squares = math.fsum(difference**2 for difference in self.differences)
        return math.fsum(self.differences) / math.sqrt(squares) if squares else 0.0

    @property
    def evidence(self) -> float:
        """B."""
        return self.t_statistic * math.sqrt(self.size * self.share)

    @property
    def is_behind(self) -> bool:
        """Whether it lies below the line."""
        information = self.size * self.share
        return self.evidence < self.z * information - LINE * self.share * (1 - information)

    @property
    def is_ahead(self) -> bool:
        return self.size == 1 and self.gain > 0 and self.evidence >= self.z


class Race(Struct, frozen=True):
    """A candidate's race: ``order`` has all cases at random.

    ``confirms``: a keep is run once more, as the same code seems to answer the same always. ``waits``: an exact tie is
    told only after all cases.
    """

    metric: Metric
    state: CaseState
    order: tuple[int, ...]
    is_noisy: bool
    confirms: bool
    waits: bool

    @property
    def passes(self) -> int:
        """How many full runs it may take."""
        return min(PASSES, self.metric.max_repeats)

    def next_step(self, runs: Sequence[VerifierRun]) -> Ask | Pairing:
        """The next run, or the comparison that decides."""
        order, state, count = self.order, self.state, len(self.order)
        first = next((index for index, run in enumerate(runs) if run.of == "candidate"), len(runs))
        mine = ScoresByCase(scores_of(runs, "candidate"))
        is_noisy = self.is_noisy or mine.squares > 0
        oldest = state.asked - self.metric.window * count
        known = [run.scores for run in state.own if not is_noisy or run.at > oldest]
        if is_noisy and not self.is_noisy:  # they were taken for the only possible ones
            known = []
        own = ScoresByCase(known + scores_of(runs, "incumbent"))
        fresh = ScoresByCase(scores_of(runs[first:], "incumbent"))
        noise = state.noise or mine.squares / max(1, 2 * mine.repeats)
        done = 0
        for look in state.looks if self.metric.race == "auto" else (1.0,):
            size = math.ceil(look * count)
            ask = _ask("incumbent", own.needed(order[:size], 1)) or _ask("candidate", mine.needed(order[:size], 1))
            if ask:
                break
            done = size
        if ask and not any(mine.scores[case] and own.scores[case] for case in order[:done]):
            return ask
        rounds, own_rounds = (min([side.asked[case] for case in order]) for side in (mine, own))
        is_complete = min(rounds, own_rounds) >= self.passes
        pairing = self._pair(order[:done], mine, own, noise, is_complete)
        result = pairing.result(count, ())
        so_far = f"{result.run} of {count} cases, {result.won} won, {result.lost} lost"
        if ask:
            is_open = not pairing.is_behind or (self.waits and not is_noisy and not any(pairing.differences))
            return structs.replace(ask, so_far=so_far) if is_open else pairing
        if not is_noisy:
            again = mine.needed(order, 2) if self.confirms and pairing.is_ahead else ()
            return _ask("candidate", again, so_far) or pairing
        if pairing.is_ahead:
            return _ask("incumbent", fresh.needed(order, 1), so_far) or pairing
        if pairing.is_behind or is_complete:
            return pairing
        if own_rounds < min(self.passes, rounds + 1):
            return Ask("incumbent", own.needed(order, own_rounds + 1), so_far)
        return Ask("candidate", mine.needed(order, rounds + 1), so_far)

    def _pair(
        self, cases: Sequence[int], mine: ScoresByCase, own: ScoresByCase, noise: float, is_complete: bool
    ) -> Pairing:
        paired = [case for case in cases if mine.scores[case] and own.scores[case]]
        pairs = [(mine.scores[case], own.scores[case][-MAX_SCORES:]) for case in paired]
        candidate, incumbent = ([mean(side) for side in sides] for sides in zip(*pairs, strict=True))
        sign = 1 if self.metric.direction == "maximize" else -1
        differences = [sign * (new - old) for new, old in zip(candidate, incumbent, strict=True)]
        share, squares = 1.0, math.fsum(difference**2 for difference in differences)
        if squares and not is_complete:
            variance = squares / len(differences)
            rate = mean([1 / len(scores) + 1 / len(others) for scores, others in pairs])
            part = min(MOST_NOISE * variance, noise * rate)
            share = (variance - part + min(part, 2 * noise / self.passes)) / variance
        size, z = len(cases) / len(self.order), bar(self.metric.alpha)
        return Pairing(tuple(paired), tuple(differences), mean(candidate), mean(incumbent), size, share, z)


def looks_of(runs: Sequence[VerifierRun]) -> tuple[float, ...]:
    """The looks after these runs of the baseline: all cases at once, unless one answered only what it was asked.

    The command's start takes what is left of two runs' times if each case takes the same.
    """
    sizes = {len(run.cases.unpacked()): run.seconds for run in runs if run.cases}
    if len(sizes) < 2:
        return (1.0,)
    (few, short), (most, long) = min(sizes.items()), max(sizes.items())
    each = (long - short) / (most - few)
    return FEWER_LOOKS if short - each * few > each else LOOKS


def _ask(side: Side, cases: tuple[int, ...], so_far: str = "") -> Ask | None:
    return Ask(side, cases, so_far) if cases else None


def order_of(count: int, seed: int) -> tuple[int, ...]:
    """All cases at random; the same for the same seed, in every version of Python."""
    return tuple(sorted(range(count), key=lambda case: short_digest(f"{seed} {case}")))


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def compare_cases(state: CaseState, runs: Sequence[VerifierRun]) -> dict[int, tuple[float, float]]:
    """Mean scores of incumbent and candidate on each case that both answered, after ``runs`` at this state."""
    own = ScoresByCase([run.scores for run in state.own] + scores_of(runs, "incumbent")).means
    return {
        case: (own[case], score)
        for case, score in ScoresByCase(scores_of(runs, "candidate")).means.items()
        if case in own
    }


class CaseHistory:
    """How many candidates won and lost each case against their incumbents, and the best score it ever got."""

    def __init__(self) -> None:
        self.won, self.lost, self.best = Counter[int](), Counter[int](), dict[int, float]()

    def add(self, state: CaseState, runs: Sequence[VerifierRun], sign: int) -> None:
        for case, (before, after) in compare_cases(state, runs).items():
            self.won[case] += sign * (after - before) > 0
            self.lost[case] += sign * (after - before) < 0
            self.best[case] = sign * max(sign * before, sign * after, sign * self.best.get(case, before))

    def rows(self, ids: Sequence[str]) -> list[tuple[str, int, int, float]]:
        """Id, won, lost, best; those first that changed hands most often."""
        order = sorted(self.best, key=lambda case: -self.won[case] - self.lost[case])
        return [(ids[case], self.won[case], self.lost[case], self.best[case]) for case in order]


def scores_of(runs: Iterable[VerifierRun], side: str) -> list[CaseScores]:
    return [run.cases for run in runs if run.of == side and run.cases]


def bar(alpha: float | None) -> float:
    """z."""
    return normal_quantile(1 - (alpha or ALPHA))


def normal_quantile(probability: float) -> float:
    from statistics import NormalDist  # slow to import: readers of records do without

    return NormalDist().inv_cdf(probability)
