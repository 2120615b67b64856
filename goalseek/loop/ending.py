"""The end of an invocation: its last line, and how its stop or error is reported and written to ``state.json``."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from goalseek.disk import remove_if_exists
from goalseek.errors import USAGE, Interrupted
from goalseek.humanize import (
    at_least,
    better_or_worse,
    format_distinct,
    format_dollars,
    format_number,
    format_percent,
)
from goalseek.ledger.standing import Standing
from goalseek.loop.notify import Notifier
from goalseek.manifest.exposure import EXPOSED, exposing_commands
from goalseek.manifest.loading import with_manifest_option
from goalseek.manifest.tables import Manifest
from goalseek.project.activity import OUTPUT, Observers, OutputLog
from goalseek.project.opening import fault_of
from goalseek.project.project import Project
from goalseek.records import SettleRecord
from goalseek.values import EXIT_CODES, Outcome, Stop, StopReason

_GO_ON = "the same command goes on"
_STATUS = {0: "completed", 1: "failed", 3: "blocked", 5: "blocked", 70: "failed"}


@contextlib.contextmanager
def reporting_end(project: Project) -> Iterator[None]:
    """Notifies of what happens in the block of a climb, keeps its output, and reports how it ends.

    An early end has the last line only if the block recorded something.
    A fault of the machine leaves the block as a GoalseekError, with the stop reason ``disk``, say.
    """
    watch = Observers(OutputLog(project.loaded.logs / OUTPUT), project.watch, Notifier(project))
    project.watch = project.activity.observer = watch
    first_seq = project.standing.seq

    def report_failure(stop: Stop) -> None:
        line = last_line(project.standing, project.loaded.manifest) if project.standing.seq > first_seq else ""
        project.watch.on_failed(_with_manifest_named(project, replace(stop, line=line)))

    with _writing_early_end(project, report_failure):
        yield
    stop = project.stop or Stop(StopReason.COUNT, "done")
    line = last_line(project.standing, project.loaded.manifest)
    if line and (finding := project.differences_from_head().finding):
        line += f" · {finding}"
    project.watch.on_stopped(_write_final_state(project, _STATUS[EXIT_CODES[stop.reason]], replace(stop, line=line)))


@contextlib.contextmanager
def recording_end(project: Project) -> Iterator[None]:
    """Writes how the block of a requested baseline or a step ends to ``state.json``, and reports it nowhere else."""
    with _writing_early_end(project, lambda stop: None):
        yield
    _write_final_state(project, "completed", Stop(StopReason.COUNT, "done", "goalseek iterate goes on"))


@contextlib.contextmanager
def _writing_early_end(project: Project, report: Callable[[Stop], None]) -> Iterator[None]:
    """Writes an early end of the block to ``state.json``, and reports it, unless its caller asked for no more.

    A usage error before anything was written leaves the file alone.
    """
    try:
        yield
    except GeneratorExit:
        _write_final_state(project, "completed", Stop(StopReason.ASKED, "the caller asked for no more", _GO_ON))
        raise
    except (KeyboardInterrupt, Interrupted):
        stop = Stop(StopReason.INTERRUPTED, "interrupted by a signal", _GO_ON)
        report(_write_final_state(project, "interrupted", stop))
        raise
    except Exception as error:
        fault = fault_of(project, error)
        if fault is None:
            stop = Stop(StopReason.BUG, f"a bug: {type(error).__name__}: {error}", "please report it")
            report(_write_final_state(project, "failed", stop))
            raise
        stop, status = Stop(fault.stop_reason, fault.message, fault.hint), _STATUS.get(fault.exit_code, "failed")
        is_written = fault.exit_code != USAGE or project.activity.is_shown
        report(_write_final_state(project, status, stop) if is_written else stop)
        if fault is error:
            raise
        raise fault from error


def _with_manifest_named(project: Project, stop: Stop) -> Stop:
    """The stop with ``-m NAME`` added to the commands that it quotes, where they need it."""
    path = project.loaded.path
    return replace(stop, next=with_manifest_option(stop.next, path), line=with_manifest_option(stop.line, path))


def _write_final_state(project: Project, status: str, stop: Stop) -> Stop:
    stop = _with_manifest_named(project, stop)
    if project.standing.seq < 0 and not project.activity.is_shown:
        return stop
    last = project.standing.last_iteration
    try:
        project.show(status, last if last >= 0 else None, None, stop_reason=stop.reason, next=stop.next)
    except OSError:
        with contextlib.suppress(OSError):
            remove_if_exists(project.loaded.state)  # a full disk has room for the new one then
            project.activity.beat()
    return stop


def last_line(standing: Standing, manifest: Manifest) -> str:
    """``val_loss 3.412 → 3.371, settled 1.1% ± 0.3% better · 2 kept of 31 · … · goalseek promote``, about this ruler.

    What does not apply is left out; "" before the first measurement. The dollars are the run's.
    """
    if standing.origin is None or standing.best is None:
        return ""
    unit, settled, best = standing.unit, standing.settled, standing.best
    if not standing.keeps:
        why = ", nothing beat it" if standing.tries else ""
        why = ", all that was kept was taken back" if standing.taken_back else why
        result = f"{format_number(standing.origin.value, unit)}{why}"
    elif settled:
        gain = " → ".join(format_distinct(settled.baseline, settled.best, unit=unit))
        result = f"{gain}, {_format_settled(settled)}"
    else:
        is_noisy = standing.noise.differed or manifest.metric.noise == "always"
        gain = " → ".join(format_distinct(standing.origin.value, best.value, unit=unit))
        result = gain + (", not settled: goalseek settle" if is_noisy else "")
    parts = [f"{standing.metric} {result}"]
    looks = {look.of: look for look in standing.holdout if look.value is not None}
    before, after = looks.get("baseline"), looks.get("best")
    if manifest.holdout is not None and before and after and after.commit_hash == best.commit:
        assert before.value is not None and after.value is not None
        parts.append(f"holdout {' → '.join(format_distinct(before.value, after.value))}")
    if exposing_commands(manifest):
        parts.append(EXPOSED)
    if standing.tries:
        parts.append(f"{standing.keeps} kept of {standing.tries}")
    usage, kept = standing.spend.usage, standing.outcomes.get(Outcome.KEPT, 0)
    if dollars := (usage.cost_usd or 0.0) + (usage.about_usd or 0.0):
        is_subscribed = manifest.provider is not None and manifest.provider.billing == "subscription"
        about = "about " if usage.estimated or usage.about_usd or is_subscribed else ""
        of_run = " in this run" if standing.spend.iterations < standing.tries else ""
        each = f", {format_dollars(dollars / kept)} a kept change" if kept > 1 else ""
        parts.append(f"{at_least(usage)}{about}{format_dollars(dollars)}{of_run}{each}")
    following = "goalseek promote" if standing.keeps else "goalseek log"
    following = "goalseek status" if standing.worse_than_baseline else following  # which names the way back
    return " · ".join([*parts, "your checkout is untouched", following])


def _format_settled(record: SettleRecord) -> str:
    """``settled 1.1% ± 0.3% better``, or that no gain was shown."""
    if record.result.no_gain:
        return record.result.no_gain

    def amount(size: float) -> str:
        return format_percent(size) if record.in_percent else format_number(size, record.unit)

    text, better = f"settled {amount(abs(record.difference))}", better_or_worse(record.difference)
    if record.interval is None:
        return f"{text} {better}, one pair"
    low, high = record.interval
    if math.isclose(low, high, rel_tol=1e-9, abs_tol=1e-12):
        return f"{text} {better}, exactly"
    return f"{text} ± {amount((high - low) / 2)} {better}"
