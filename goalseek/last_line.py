"""The last line of an invocation: what the climb came to, how far to believe it, its cost, and what to type next."""

from __future__ import annotations

import math

from goalseek.humanize import apart, number, percent
from goalseek.ledger.records import SettleRecord
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import Manifest
from goalseek.statistics.noise_report import luck_in_words


def last_line(standing: Standing, manifest: Manifest) -> str:
    """``val_loss 3.412 → 3.371, settled -1.1% ± 0.3% · 2 kept of 31 · … · goalseek promote``, about this epoch.

    What does not apply is left out; "" before the first measurement. The dollars are the run's.
    """
    if standing.baseline is None or standing.best is None:
        return ""
    tried = standing.last_iteration - standing.baseline.iteration
    kept = standing.best != standing.baseline
    parts = [_claim(standing, manifest), *_holdout(standing, manifest)]
    if tried:
        parts.append(f"{standing.keeps} kept of {tried}")
    if luck := luck_in_words(standing.measured, standing.noise.differed):
        parts.append(luck)
    parts += _spent(standing, manifest, tried)
    return " · ".join([*parts, "your checkout is untouched", "goalseek promote" if kept else "goalseek log"])


def _claim(standing: Standing, manifest: Manifest) -> str:
    assert standing.baseline and standing.best
    name, before, after = standing.metric, standing.baseline.value, standing.best.value
    if standing.best == standing.baseline:
        return f"{name} {number(before)}" + (", nothing beat it" if standing.last_iteration else "")
    settled = standing.settled
    if settled:
        return f"{name} {' → '.join(apart(settled.baseline, settled.best))}, {_settled(settled)}"
    is_noisy = standing.noise.differed or manifest.metric.noise == "always"
    return f"{name} {' → '.join(apart(before, after))}" + (", not settled" if is_noisy else "")


def _settled(record: SettleRecord) -> str:
    """``settled -1.1% ± 0.3%``, with a true minus: the change of the number itself, whichever way is better."""
    up = 1 if record.direction == "maximize" else -1
    told = f"settled {_signed(up * record.difference, record.in_percent)}"
    if record.interval is None:
        return f"{told}, one pair"
    low, high = record.interval
    is_exact = math.isclose(low, high, rel_tol=1e-9, abs_tol=1e-12)
    told += ", exactly" if is_exact else f" ± {_amount((high - low) / 2, record.in_percent)}"
    return told if low > 0 or high < 0 else f"{told}, which may be luck"


def _signed(change: float, in_percent: bool) -> str:
    sign = "−" if change < 0 else "+"  # noqa: RUF001 - a minus
    return f"{sign}{_amount(abs(change), in_percent)}"


def _amount(size: float, in_percent: bool) -> str:
    return percent(size) if in_percent else number(size)


def _holdout(standing: Standing, manifest: Manifest) -> list[str]:
    """What the holdout says of the same two commits, where it was looked at for both."""
    if manifest.holdout is None or standing.best is None:
        return []
    seen = {look.of: look for look in standing.holdout if look.value is not None}
    before, after = seen.get("baseline"), seen.get("best")
    if before is None or after is None or after.commit_hash != standing.best.commit:
        return []
    assert before.value is not None and after.value is not None
    return [f"holdout {' → '.join(apart(before.value, after.value))}"]


def _spent(standing: Standing, manifest: Manifest, tried: int) -> list[str]:
    """The run's dollars, and what each kept change of it took; "about" where no bill says so."""
    usage, kept = standing.spend.usage, standing.outcomes.get("kept", 0)
    dollars = (usage.cost_usd or 0.0) + (usage.about_usd or 0.0)
    if not dollars:
        return []
    is_subscribed = manifest.provider is not None and manifest.provider.billing == "subscription"
    about = "about " if usage.estimated or usage.about_usd or is_subscribed else ""
    of_run = " in this run" if standing.spend.iterations < tried else ""
    each = f", ${dollars / kept:.2f} a kept change" if kept > 1 else ""
    return [f"{about}${dollars:.2f}{of_run}{each}"]
