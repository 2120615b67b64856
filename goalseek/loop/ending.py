"""The end of an invocation, whatever brings it: the watch is told, and ``state.json`` shows it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import replace

from goalseek.disk import as_machine_fault
from goalseek.errors import USAGE, GoalseekError, Interrupted
from goalseek.humanize import format_distinct, format_number, percent
from goalseek.ledger.records import SettleRecord
from goalseek.ledger.standing import Standing
from goalseek.manifest.loading import with_manifest_option
from goalseek.manifest.tables import Manifest
from goalseek.project.project import Project, write_state
from goalseek.statistics.noise_report import luck_in_words
from goalseek.values import EXIT_CODES, Stop

_GO_ON = "the same command goes on"
_STATUS = {0: "completed", 1: "failed", 3: "blocked", 5: "blocked", 70: "failed"}


@contextlib.contextmanager
def reporting_end(project: Project) -> Iterator[None]:
    """Around a climb. What the machine refuses leaves it as a GoalseekError, such as one with the stop reason ``disk``.

    What ends it early tells its last line where something was recorded meanwhile.
    """
    begun = project.standing.seq
    try:
        yield
    except GeneratorExit:
        _leave(project, "completed", Stop("asked", "the caller asked for no more", _GO_ON))
        raise
    except (KeyboardInterrupt, Interrupted):
        stop = Stop("interrupted", "interrupted by a signal", _GO_ON)
        _leave(project, "interrupted", stop)
        _failed(project, stop, begun)
        raise
    except GoalseekError as error:
        _blocked(project, error, begun)
        raise
    except Exception as error:
        fault = as_machine_fault(error)
        if fault:
            _blocked(project, fault, begun)
            raise fault from error
        stop = Stop("bug", f"a bug: {type(error).__name__}: {error}", "please report it")
        _leave(project, "failed", stop)
        _failed(project, stop, begun)
        raise
    stop = project.stop or Stop("count", "done")
    stop = _typed(project, replace(stop, line=last_line(project.standing, project.loaded.manifest)))
    _leave(project, _STATUS[EXIT_CODES[stop.reason]], stop)
    project.watch.on_stopped(stop)


@contextlib.contextmanager
def shown_at_the_end(project: Project) -> Iterator[None]:
    """Around a baseline that is asked for: only ``state.json`` shows how it ended."""
    try:
        yield
    except (KeyboardInterrupt, Interrupted):
        _leave(project, "interrupted", Stop("interrupted", "interrupted by a signal", _GO_ON))
        raise
    except GoalseekError as error:
        _leave_as(project, error)
        raise
    _leave(project, "completed", _typed(project, Stop("count", "done", "goalseek iterate goes on")))


def _blocked(project: Project, error: GoalseekError, begun: int) -> None:
    _failed(project, _leave_as(project, error), begun)


def _leave_as(project: Project, error: GoalseekError) -> Stop:
    """Leaves the last picture of an error, and gives its end. A usage error has none: the one before stays."""
    stop = _typed(project, Stop(error.stop_reason, error.message, error.hint))
    if error.exit_code != USAGE or project.picture.is_shown:
        _leave(project, _STATUS.get(error.exit_code, "failed"), stop)
    return stop


def _failed(project: Project, stop: Stop, begun: int) -> None:
    line = last_line(project.standing, project.loaded.manifest) if project.standing.seq > begun else ""
    project.watch.on_failed(_typed(project, replace(stop, line=line)))


def _typed(project: Project, stop: Stop) -> Stop:
    """With the manifest named in what is to be typed, where it needs to be."""
    path = project.loaded.path
    return replace(stop, next=with_manifest_option(stop.next, path), line=with_manifest_option(stop.line, path))


def _leave(project: Project, status: str, stop: Stop) -> None:
    """The last picture; where the disk is full, the one before stays."""
    if project.standing.seq < 0:
        return
    last = project.standing.last_iteration
    with contextlib.suppress(OSError):
        write_state(project, status, last if last >= 0 else None, None, stop.reason, stop.next)


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
        return f"{name} {format_number(before)}" + (", nothing beat it" if standing.last_iteration else "")
    settled = standing.settled
    if settled:
        return f"{name} {' → '.join(format_distinct(settled.baseline, settled.best))}, {_settled(settled)}"
    is_noisy = standing.noise.differed or manifest.metric.noise == "always"
    return f"{name} {' → '.join(format_distinct(before, after))}" + (", not settled" if is_noisy else "")


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
    return percent(size) if in_percent else format_number(size)


def _holdout(standing: Standing, manifest: Manifest) -> list[str]:
    """What the holdout says of the same two commits, where it was looked at for both."""
    if manifest.holdout is None or standing.best is None:
        return []
    seen = {look.of: look for look in standing.holdout if look.value is not None}
    before, after = seen.get("baseline"), seen.get("best")
    if before is None or after is None or after.commit_hash != standing.best.commit:
        return []
    assert before.value is not None and after.value is not None
    return [f"holdout {' → '.join(format_distinct(before.value, after.value))}"]


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
