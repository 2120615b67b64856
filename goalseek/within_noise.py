"""Whether a number that is not the recorded one lies where runs of the same code lie: the metric moves by itself. Pure.

A metric that moves only with its seed is none of these: with the seed of then it gives the same number each time.
"""

from __future__ import annotations

import math
from dataclasses import replace

from goalseek.humanize import number, percent
from goalseek.same_again import Compared, SameAgain
from goalseek.statistics.noise_state import NoiseState
from goalseek.statistics.scale import scale_of, spread

# In sd of one run: two runs of the same code differ by less 19 times in 20 (the repeatability limit, ISO 5725).
REACH = 2.8


def may_be_noise(found: SameAgain, state: NoiseState) -> bool:
    """Whether the metric's number differs, and repeats of the same code have differed too, or were never made."""
    return bool(found.numbers) and found.numbers[0].how == "differs" and (state.differed or not state.agreed)


def among_noise(found: SameAgain, direction: str, state: NoiseState, once_more: float) -> SameAgain:
    """Judged with ``once_more``, the same measurement made again, and by the spread of the repeats that are recorded.

    Where it is ``once_more``'s number to the last bit, nothing moves by itself, and it differs.
    """
    first, *guards = found.numbers
    if once_more == first.again:
        told = f"{first.text}; measured once more it is the same again, so this is no noise"
        return _with_first(found, replace(first, text=told, once_more=once_more), guards)
    values = (first.recorded, first.again, once_more)
    scale = scale_of(direction, state.all_positive and all(value > 0 for value in values))
    reach = REACH * spread(scale, (*state.pairs, (first.again, once_more)))
    apart = abs(scale.x(first.again) - scale.x(first.recorded))
    shown = percent(math.expm1(reach)) if scale.logarithmic else number(reach)
    told = (
        f"{first.text}; measured once more {number(once_more)}: {first.name} is noisy, runs of the same code differ "
        f"here by up to about {shown}, and this one lies {'within' if apart <= reach else 'beyond'}"
    )
    how = first.how if apart > reach else "within"
    return _with_first(found, replace(first, text=told, once_more=once_more, how=how, is_noise=how == "within"), guards)


def _with_first(found: SameAgain, first: Compared, guards: list[Compared]) -> SameAgain:
    numbers = (first, *guards)
    how = max((made.how for made in numbers), key=("equal", "within", "differs").index)
    return SameAgain(how, tuple(made.text for made in numbers), numbers)
