"""What luck alone would have kept, said in the same words wherever a climb is told."""

from __future__ import annotations

from goalseek.noise_report import expected_false_keeps

_COUNTED_MOST = 10**5


def luck_in_words(measured: int, has_moved: bool) -> str:
    """``luck alone would have kept about 3``; "" where nothing was measured, or the same code gave the same number.

    ``measured`` are the candidates that had a number: one that was never measured cannot be lucky.
    """
    if not measured or not has_moved:
        return ""
    expected = expected_false_keeps(min(measured, _COUNTED_MOST))
    return f"luck alone would have kept {f'about {expected:.0f}' if expected >= 1 else 'less than one'}"
