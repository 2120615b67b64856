"""Rotation: whose turn it is to propose, and what each proposer gained for its time and money.

A proposer is a provider and model, as ``ProviderTable.label`` gives them; without its session it is another one.
"""

import math
from collections.abc import Collection, Sequence

from msgspec import Struct, field, structs

from goalseek.humanize import format_number, format_percent, pluralize
from goalseek.manifest.tables import FRESH, Search
from goalseek.records import PROVIDER_FAILED, IterationRecord
from goalseek.statistics.noise import Scale
from goalseek.values import UNASKED, Number, Outcome

MAX_KEPT = 500
_HOUR = 3600.0


def author_of(provider: str, model: str, turn: str) -> str:
    """The proposer of a record: the turn if that is a fresh one of this label, else the label."""
    label = f"{provider} {model}" if model else provider
    return turn if turn == fresh_turn(label) else label


def fresh_turn(own: str) -> str:
    """Name of the turns of ``fresh``, in which the provider ``own`` is without its session."""
    return f"{own} {FRESH}"


class KeptGain(Struct, frozen=True):
    """Value minus the incumbent's, and the same of logarithms: 0 if there is none."""

    iteration: int
    author: str
    difference: float
    ratio: float


class Effort(Struct, frozen=True):
    """Sums under one ruler. ``is_priced``: the dollars of all tokens are known."""

    tried: int = 0
    kept: int = 0
    difference: float = 0.0
    ratio: float = 0.0
    seconds: Number = 0.0
    cost_usd: Number = 0.0
    is_priced: bool = True

    def with_gain(self, gain: KeptGain, count: int) -> "Effort":
        """``count`` is 1 or -1."""
        kept, difference, ratio = self.kept + count, self.difference, self.ratio
        difference, ratio = (difference + count * gain.difference, ratio + count * gain.ratio) if kept else (0.0, 0.0)
        return structs.replace(self, kept=kept, difference=difference, ratio=ratio)


class Turn(Struct, frozen=True):
    """The first of ``names`` is asked, or the next if that is closed. ``is_new``: the turn begins here."""

    names: tuple[str, ...]
    why: str = ""
    is_new: bool = False

    def in_words(self) -> str:
        """``codex: 20 iterations without a kept change``."""
        name = self.names[0] if self.names else "not known yet"
        return f"{name}: {self.why}" if self.why else name


class Rotation(Struct, frozen=True):
    """``tries`` counts those of ``turn``, which began at iteration ``began``, since the last kept change.

    ``has_kept`` is of this turn; ``after_plateau``: it began after a plateau. ``kept`` gains can be taken back.
    """

    turn: str = ""
    began: int = 0
    tries: int = 0
    has_kept: bool = False
    after_plateau: bool = False
    efforts: dict[str, Effort] = field(default_factory=dict)
    kept: tuple[KeptGain, ...] = ()

    def after(self, record: IterationRecord, incumbent: str | None = None) -> "Rotation":
        """One begun before the present turn is no try of it. ``incumbent`` is the commit before it; None ignores it."""
        turn, usage = record.turn_of or "", record.usage
        author = author_of(record.provider, record.model, turn)
        effort = self.efforts.get(author, Effort())
        is_priced = not usage.cost_is_partial and (usage.cost_usd is not None or not usage.tokens)
        seconds = effort.seconds + sum(record.seconds.values())
        totals = seconds, effort.cost_usd + (usage.cost_usd or 0.0), effort.is_priced and is_priced
        effort = Effort(effort.tried + 1, effort.kept, effort.difference, effort.ratio, *totals)
        is_of_incumbent = incumbent is None or record.first_base_commit_hash in (None, incumbent)
        is_late = turn not in ("", self.turn) and (record.iteration < self.began or not is_of_incumbent)
        following = self
        if turn not in ("", self.turn) and record.provider not in UNASKED and not is_late:
            following = Rotation(turn, record.iteration, after_plateau=self.tries > 0, kept=self.kept)
        if record.outcome != Outcome.KEPT:
            tries = following.tries + (record.reason not in PROVIDER_FAILED and not is_late)
            return structs.replace(following, tries=tries, efforts={**self.efforts, author: effort})
        if record.provider not in UNASKED and author != following.turn:  # its proposer has the turn now
            following = structs.replace(following, turn=author, began=record.iteration)
        before, after = record.metric.incumbent, record.metric.value
        difference = after - before if before is not None and after is not None else 0.0
        ratio = math.log(after) - math.log(before) if before and after and min(before, after) > 0 else 0.0
        gain = KeptGain(record.iteration, author, difference if math.isfinite(difference) else 0.0, ratio)
        efforts, kept = {**self.efforts, author: effort.with_gain(gain, 1)}, (*self.kept, gain)[-MAX_KEPT:]
        return Rotation(following.turn, following.began, has_kept=True, efforts=efforts, kept=kept)

    def without(self, iterations: Collection[int]) -> "Rotation":
        """Without the gains of these iterations, whose changes were taken back."""
        efforts = dict(self.efforts)
        for gain in self.kept if iterations else ():
            if gain.iteration in iterations:
                efforts[gain.author] = efforts[gain.author].with_gain(gain, -1)
        return structs.replace(self, efforts=efforts)

    def next_turn(self, search: Search, own: str) -> Turn:
        """``own`` is the provider's name and model.

        After a plateau the turn goes to the next in ``search.rotate``, and after the last to the provider. While one
        whose turn began so is closed, those after it are asked. Before the first plateau, and after a kept change, the
        provider alone is asked.
        """
        others = (fresh_turn(own) if label == FRESH else label for label in labels_of(search))
        names = tuple(dict.fromkeys((own, *others)))
        if len(names) == 1:
            return Turn((own,) if own else ())
        current = self.turn if self.turn in names else own

        def in_order(first: str) -> tuple[str, ...]:
            place = names.index(first)
            others = names[place + 1 :] + names[:place]
            return (first, *(name for name in others if name not in (own, fresh_turn(own))))

        if self.tries < search.plateau:
            is_same = current == self.turn
            kept = "the last change was kept in its turn; " if self.has_kept and is_same else ""
            since = f"since iteration {self.began}, " if self.began and not kept else ""
            tries = f"{self.tries} of {pluralize(search.plateau, 'iteration')} without a kept change"
            is_alone = current == own and not (self.after_plateau and is_same)
            return Turn((own,) if is_alone else in_order(current), f"{kept}{since}{tries}")
        following = names[(names.index(current) + 1) % len(names)]
        why = f"{pluralize(self.tries, 'iteration')} without a kept change"
        return Turn(in_order(following), why, is_new=True)


def labels_of(search: Search) -> tuple[str, ...]:
    return tuple(entry if isinstance(entry, str) else entry.label for entry in search.rotate)


class Proposer(Struct, frozen=True):
    """``gain`` is a share of the first incumbent if ``in_percent``, else in the metric's units.

    The rates are alike, by the hour of active time; on a logarithmic scale they are of logarithms, which add up.
    """

    name: str
    tried: int
    kept: int
    gain: float
    in_percent: bool
    gain_per_dollar: float | None
    gain_per_hour: float
    seconds: Number
    cost_usd: Number | None

    def sizes(self, unit: str) -> tuple[str, str, str]:
        """Its gain, that for a dollar, "" without a price, and that for an hour."""

        def size(gain: float | None) -> str:
            if gain is None:
                return ""
            return format_percent(gain) if self.in_percent else format_number(gain, unit)

        return size(self.gain), size(self.gain_per_dollar), size(self.gain_per_hour)

    def in_words(self, unit: str) -> str:
        """``3 kept of 20, +1.2% (+0.4%/$, +0.8%/h)``."""
        gain, per_dollar, per_hour = self.sizes(unit)
        sign = "+" * (self.gain > 0)
        dollars = f"{sign}{per_dollar}/$, " if per_dollar else ""
        rates = f", {sign}{gain} ({dollars}{sign}{per_hour}/h)" if self.gain else ""
        return f"{self.kept} kept of {self.tried}{rates}"


def proposer_lines(turn: Turn, proposers: Sequence[Proposer], unit: str) -> list[tuple[str, str]]:
    """As (label, text); nothing of one proposer alone."""
    if not turn.why and len(proposers) < 2:
        return []
    return [("proposes", turn.in_words()), *(("", f"{each.name}: {each.in_words(unit)}") for each in proposers)]


def proposers_of(rotation: Rotation, scale: Scale) -> tuple[Proposer, ...]:
    """In the order in which they first proposed."""
    proposers = []
    for name, effort in rotation.efforts.items():
        # Successive gains over each incumbent add up: of logarithms, or differences.
        gain = (-scale.sign * (effort.ratio if scale.logarithmic else effort.difference)) or 0.0
        dollars = (effort.cost_usd or None) if effort.is_priced else None  # a subscription costs none
        per_dollar = gain / dollars if dollars else None
        per_hour = gain / effort.seconds * _HOUR if effort.seconds else 0.0
        if scale.logarithmic:
            gain = -scale.sign * math.expm1(-scale.sign * min(gain, 700.0))
        numbers = (gain, scale.logarithmic, per_dollar, per_hour, effort.seconds, dollars)
        proposers.append(Proposer(name, effort.tried, effort.kept, *numbers))
    return tuple(proposers)
