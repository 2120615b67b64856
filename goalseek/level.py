"""Whether the incumbent's level has moved since it was kept, though its code did not change."""

from __future__ import annotations

from goalseek.humanize import amount
from goalseek.noise_state import OPENING, NoiseState
from goalseek.spread import scale_of, spread

MOVED = 3.0  # sd; the difference of two medians of five has an sd of about 0.76


def level_moved(direction: str, state: NoiseState) -> str | None:
    """One sentence where the incumbent's last five runs are not where its first five were; None where they are.

    Each five are apart from the other, and from the runs for which it was kept.
    """
    if state.incumbent_runs < 2 * OPENING:
        return None
    scale = scale_of(direction, state.all_positive)
    sd = spread(scale, state.pairs)
    then, now = scale.middle(state.opening), scale.middle([run.value for run in state.incumbent[-OPENING:]])
    if abs(scale.x(then) - scale.x(now)) <= MOVED * sd:
        return None
    gain = scale.better_by(now, then)
    moved = f"{amount(gain, then, scale.logarithmic)} {'better' if gain > 0 else 'worse'}"
    return f"the incumbent measures {moved} than when it was kept, with the same code: the machine or the data changed"
