"""The words of the report: the claim at its head, how far to trust it, and the labels of the records."""

from collections import Counter

from msgspec import Struct

from goalseek.humanize import better_or_worse, format_distinct, format_gain, format_number
from goalseek.records import HoldoutRecord
from goalseek.statistics.intervals import is_share
from goalseek.values import Outcome, Reason
from goalseek.views.report.figures import UNREADABLE_LINE, ClimbFigures, Label, Try


class Claim(Struct, frozen=True):
    """``before`` and ``after`` are the numbers in large type, or ""; ``unmeasured`` is shown in their place."""

    metric: str
    before: str = ""
    after: str = ""
    gain: str = ""
    settled: str = ""
    caution: str = ""
    is_warning: bool = False
    unmeasured: str = "Nothing is measured yet"

    @property
    def headline(self) -> str:
        """``accuracy 0.6467 → 0.9267``."""
        if not self.before:
            return self.unmeasured
        return f"{self.metric} {self.before}" + (f" → {self.after}" if self.after else "")


_LOST = (
    "Its record is not among these lines: some were cut off, or are no records. In the repository, "
    "goalseek audit --rebuild writes them again."
)


def claim_of(climb: ClimbFigures) -> Claim:
    baseline, best, first = climb.baseline, climb.best, climb.first
    origin = ""
    if first and first.value is not None:
        why = "before the verifier or the code changed"
        origin = f"; first baseline {format_number(first.value)} (iteration {first.iteration}, {why})"
    if baseline is None or best is None or baseline.value is None or best.value is None:
        if climb.baseline is None and (climb.tried or climb.incidents.counts[UNREADABLE_LINE]):
            lost = "The baseline's record is missing"
            return Claim(climb.metric, caution=_LOST, is_warning=True, unmeasured=lost)
        return Claim(climb.metric, caution="The first measurement of the unchanged code is still to come.")
    if best is baseline or climb.keeps < 1:
        tries = "1 try" if climb.tried == 1 else f"{climb.tried} tries"
        gain = f"nothing beat it in {tries}" if climb.tried else "the baseline, and no try yet"
        gain = "every kept change was taken back" if climb.taken_back else gain
        return Claim(climb.metric, format_number(baseline.value, climb.unit), gain=gain + origin)
    before, after = baseline.value, best.value
    gain, settled = describe_gain(before, after, climb.direction, climb.unit), ""
    if climb.settled and climb.is_settled:
        found, size = climb.settled, climb.settled.format_size
        if found.before or found.after:  # the medians of both are known
            before, after = found.before, found.after
        gain = "no difference"
        if found.difference or found.interval:
            reach = f" ± {size((found.interval[1] - found.interval[0]) / 2)}" if found.interval else ""
            gain = found.no_gain or f"{size(abs(found.difference))}{reach} {better_or_worse(found.difference)}"
        settled = f"Settled: {found.in_words()}, measured afresh in turn{climb.left}."
    before_text, after_text = format_distinct(before, after, unit=climb.unit)
    return Claim(climb.metric, before_text, after_text, gain + origin, settled, *_caution(climb))


def describe_gain(before: float | None, after: float | None, direction: str, unit: str = "") -> str:
    """``43.3% better``; near zero and below, ``better by 2``; "" if a number is missing."""
    if before is None or after is None:
        return ""
    gain = after - before if direction == "maximize" else before - after
    if gain == 0:
        return "no difference"
    word, in_percent = better_or_worse(gain), is_share(direction, before, after)
    size = format_gain(gain, before, in_percent, unit)
    return f"{size} {word}" if in_percent else f"{word} by {size}"


def format_kept(climb: ClimbFigures) -> str:
    """``3 kept of 12 tries``."""
    return f"{climb.keeps:,} kept of {climb.tried:,} {'try' if climb.tried == 1 else 'tries'}"


def format_at_once(climb: ClimbFigures) -> str:
    """``4 measured at once, 7 moved to a newer tip, 2 outrun``; "" if no iterations overlapped."""
    outrun = sum(count for label, count in climb.counts.items() if label.reason == Reason.OUTRUN)
    counts = {"measured at once": climb.benches, "moved to a newer tip": climb.moved, "outrun": outrun}
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)


def _caution(climb: ClimbFigures) -> tuple[str, bool]:
    if climb.settled and not climb.is_settled:
        text = (
            "It was settled before the newest change was kept. The number shown is the one that decided about that "
            "change: goalseek settle measures it afresh."
        )
        return text, True
    if climb.settled:
        unsure = "Zero lies within the interval, or there was only one pair: this may be no gain at all."
        return ("", False) if climb.settled.is_sure else (unsure, True)
    if climb.noise.differed:
        text = (
            "Not settled: the number that decided is the best of many noisy ones, so it overstates the gain. "
            "goalseek settle measures baseline and best afresh, in turn."
        )
        return text, True
    if climb.noise.agreed >= 2:
        text = "The same code gave the same number to the last digit each time, so there was nothing to settle."
        return text, False
    return "Not settled: this is the number that decided.", False


class RejectedGroup(Struct, frozen=True):
    label: Label
    size: int
    newest: list[Try]


def rejected_groups(climb: ClimbFigures, most: int) -> list[RejectedGroup]:
    """The largest group first, each with its ``most`` newest tries."""
    groups = {
        label: RejectedGroup(label, count, [])
        for label, count in climb.counts.most_common()
        if label.outcome in (Outcome.REVERTED, Outcome.SKIPPED)
    }
    for try_ in reversed(climb.rejected.items):
        newest = groups[try_.label].newest
        if len(newest) < most:
            newest.append(try_)
    return list(groups.values())


REASONS: dict[str, str] = {
    Reason.WORSE: "measured, and not better",
    Reason.TIE: "the same number, and no fewer lines",
    Reason.WITHIN_NOISE: "better by less than the noise",
    Reason.BELOW_MIN_DELTA: "better by less than min_delta",
    Reason.SEED_FIXED: "better with one fixed seed only",
    Reason.GUARD: "a guard's bound was broken",
    Reason.NOT_VALID: "a number outside its valid range",
    Reason.VERIFY_FAILED: "a verify command ended with an error",
    Reason.VERIFY_TIMEOUT: "a verify command ran past its timeout",
    Reason.NO_METRIC: "no number could be read",
    Reason.NOT_FINITE: "the number was not finite",
    Reason.UNMEASURABLE: "the verifier could not judge it",
    Reason.REVIEW_REJECTED: "the second opinion was against it",
    Reason.DECLINED: "a person declined it",
    Reason.OUTRUN: "other changes landed first each time",
    Reason.NO_CHANGE: "the agent changed nothing",
    Reason.CONFLICT: "it does not merge with newer kept changes",
    Reason.DUPLICATE: "the same tree was measured before",
    Reason.OUT_OF_SCOPE: "it changed a file that it may not change",
    Reason.PROVIDER_FAILED: "the agent could not answer",
    Reason.PROVIDER_TIMEOUT: "the agent ran past its time",
    Reason.NO_PLAN: "the agent gave no plan",
    Reason.INTERRUPTED: "it was never finished",
}
SANDBOXES = {
    "bubblewrap": "Programs saw their own tree, the system's programs, the folders that their commands need, and the "
    "paths in scope.share and sandbox.read: nothing else of the machine.",
    "landlock": "Files outside their tree could not be read or written; other things of the machine could be seen.",
    "none": "Programs ran as the user: nothing kept them from reading hidden files or writing anywhere.",
}
VERIFIERS = {
    "hidden": "Commands that run none of the candidate's code computed the metric.",
    "candidate": "Commands that run the candidate's code reported the metric.",
    "timed": "The program that was timed is the candidate's: it ran beside the hidden files, and could read them.",
    "both": "Candidate code could read the hidden files: a verify command ran it in one tree with them.",
}


def format_look(look: HoldoutRecord) -> str:
    head = f"Look {look.look}" + (f" at the {look.of}, iteration {look.iteration}" if look.of else "")
    if look.value is None:
        return f"{head}: {look.why.rstrip('.') or 'begun, and not measured'}."
    text = f"{head}: {format_number(look.value)}"
    if look.gap is not None:
        than = f"{format_number(abs(look.gap))} {'more' if look.gap > 0 else 'less'} than"
        text += f"; the verifier's gain is {than if look.gap else 'the same as'} the holdout's"
    return f"{text}."


def format_sandboxes(levels: Counter[tuple[str, str]]) -> str:
    """``sandbox: bubblewrap``; of several levels, each with its number of iterations."""
    counts: Counter[str] = Counter()
    for (sandbox, _), count in levels.items():
        counts[sandbox or "unknown"] += count
    if len(counts) == 1:
        return "no sandbox" if "none" in counts else f"sandbox: {next(iter(counts))}"
    return "sandbox: " + ", ".join(f"{sandbox} ({count:,})" for sandbox, count in counts.most_common())
