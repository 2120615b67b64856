"""What ``status`` tells: the standing, the picture of a run at work, and what has come to differ from the ruler."""

from __future__ import annotations

import os
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from goalseek.errors import GitFailed
from goalseek.git.command import git
from goalseek.git.location import Location, locate
from goalseek.git.paths import prefix_below, quote_path
from goalseek.humanize import format_duration, pluralize
from goalseek.ledger.checkpoints import all_unrecorded
from goalseek.ledger.records import HoldoutRecord, SettleRecord
from goalseek.ledger.results_file import load_standing
from goalseek.ledger.standing import MeasuredCommit, Spend, Standing
from goalseek.locks import Holder, holder_of
from goalseek.manifest.loading import Loaded, base_of, with_manifest_option
from goalseek.manifest.tables import Manifest
from goalseek.measurement.ruler import Ruler, differing_keys
from goalseek.project.limits import broken_guard_of, why_stop
from goalseek.project.paths import fetch_hint
from goalseek.project.progress import small_set
from goalseek.project.state_file import AT_WORK, STALE_SECONDS, read_state, seconds_since_beat
from goalseek.project.stop import pending_run
from goalseek.statistics.noise_state import cost_of_deciding, level_moved
from goalseek.values import Usage
from goalseek.workspace.scope import scope_of
from goalseek.workspace.shared_folders import Shares

if typing.TYPE_CHECKING:
    from goalseek.project.approval import Approval, Question


@dataclass(frozen=True)
class Overview:
    """All that ``status`` shows."""

    project: str
    status: str
    metric: str
    direction: str
    run_id: str
    iteration: int
    phase: str | None
    phase_started_at: str | None
    heartbeat_at: str | None
    silent: str
    stop_reason: str | None
    baseline: MeasuredCommit | None
    best: MeasuredCommit | None
    last: dict[str, Any] | None
    stagnation: int
    outcomes: dict[str, int]
    spend: Spend
    differs: tuple[str, ...]
    warnings: tuple[str, ...]
    settled: SettleRecord | None
    holdout: tuple[HoldoutRecord, ...]
    cost: str
    waits: Question | None
    word: Approval | None
    next: str
    folder: str


def overview(loaded: Loaded, location: Location | None = None) -> Overview:
    """Reads records and the picture; asks git only what differs from the ruler. Holds no lock.

    ``location`` is that of the repository, where it is known. Raises GoalseekError outside a repository.
    """
    location = location or locate(loaded.folder / loaded.manifest.project.repo)
    own = location.own(loaded.manifest.project.name)
    standing = load_standing(loaded, own)
    picture = read_state(loaded.state)
    holder = holder_of(own)
    status = str(picture.get("status", "pending"))
    if status in AT_WORK and holder is None:
        status = "interrupted"
    is_at_work = status in AT_WORK
    run_id = pending_run(own) or standing.run_id
    waits, word = _asked(loaded, standing, run_id)
    unrecorded = all_unrecorded(loaded.runs, own, standing, run_id)
    over = "" if is_at_work else _over(loaded, standing.of_run(run_id).spending(unrecorded, Usage()))
    told = _next_word(waits, word, holder) if waits else _next(status, standing, str(picture.get("next", "")), over)
    last = standing.last
    return Overview(
        project=loaded.manifest.project.name,
        status=status,
        metric=standing.metric or loaded.manifest.metric.name,
        direction=standing.direction or loaded.manifest.metric.direction,
        run_id=standing.run_id,
        iteration=standing.last_iteration,
        phase=picture.get("phase") if is_at_work else None,
        phase_started_at=picture.get("phase_started_at") if is_at_work else None,
        heartbeat_at=picture.get("heartbeat_at") if is_at_work else None,
        silent=_silent(picture, holder) if is_at_work and holder else "",
        stop_reason=picture.get("stop_reason"),
        baseline=standing.baseline,
        best=standing.best,
        last={"iteration": last.iteration, "outcome": last.outcome, "reason": last.reason, "why": last.why}
        if last
        else None,
        stagnation=standing.stagnation,
        outcomes=standing.outcomes,
        spend=standing.spend.and_more(unrecorded, Usage()),
        differs=(*differing(loaded, location, standing), *_shared(loaded, location, own, standing)),
        warnings=tuple(warnings(loaded.manifest, standing)),
        settled=standing.settled,
        holdout=standing.holdout,
        cost=_cost(loaded, standing),
        waits=waits,
        word=word,
        next=with_manifest_option(fetch_hint(loaded, location) or told, loaded.path),
        folder=str(loaded.folder),
    )


def _asked(loaded: Loaded, standing: Standing, run_id: str) -> tuple[Question | None, Approval | None]:
    """What waits for a person's word, and the word where it was given already."""
    if loaded.manifest.approve.before == "never":
        return None, None
    from goalseek.project.approval import waiting, word_on

    waits = waiting(loaded.manifest, loaded.runs, standing, run_id)
    return waits, word_on(loaded.logs, waits) if waits else None


def warnings(manifest: Manifest, standing: Standing) -> Iterator[str]:
    """What a person should know about the numbers themselves."""
    metric = manifest.metric
    if broken := broken_guard_of(manifest, standing):
        yield broken
    if moved := level_moved(standing.direction or metric.direction, standing.noise):
        yield moved
    if worn := small_set(metric, standing):
        yield worn


def _cost(loaded: Loaded, standing: Standing) -> str:
    if standing.baseline is None:
        return ""
    seconds = sum(standing.baseline.seconds.values())
    return cost_of_deciding(loaded.manifest, standing.noise.differed, seconds)


def _shared(loaded: Loaded, location: Location, own: Path, standing: Standing) -> tuple[str, ...]:
    return Shares(own / "share.json", base_of(loaded, location.top)).notes(loaded.manifest.scope.share, standing.epoch)


def _next_word(waits: Question, word: Approval | None, holder: Holder | None) -> str:
    if word is None:
        from goalseek.project.approval import commands_for

        return commands_for(waits) + ("" if holder else "; then goalseek iterate")
    return f"iteration {waits.iteration} has its word, {word}: {holder or 'goalseek iterate'} goes on"


def _over(loaded: Loaded, standing: Standing) -> str:
    """The limit that ends the run, with what to do, where ``iterate`` would do no more than say so; or ""."""
    manifest = loaded.manifest
    stop = why_stop(manifest.limits, manifest.metric, standing, datetime.now(UTC))
    return f"{stop.why}; {stop.next}" if stop else ""


def _next(status: str, standing: Standing, told: str, over: str) -> str:
    if status == "waiting":
        return told
    if status == "running":
        return "watch it: goalseek log --last 5"
    if standing.baseline is None:
        return "goalseek doctor, then goalseek iterate"
    if status in ("failed", "blocked") and told:
        return told
    home = _home(standing)
    if over:
        return f"{over}; {home}" if home and "goalseek promote" not in over else over
    return f"goalseek iterate goes on; {home or 'nothing is kept yet'}"


def _home(standing: Standing) -> str:
    """What can be taken home, in words; "" for nothing. The keeps of an earlier ruler go along."""
    if standing.best != standing.baseline:
        return "goalseek promote takes the kept changes home"
    return "goalseek promote takes home what an earlier ruler kept and is not there yet" if standing.epoch else ""


def _silent(picture: dict[str, Any], holder: Holder) -> str:
    """What to make of a heartbeat that has gone stale, or ""."""
    age = seconds_since_beat(picture)
    if age is None or age < STALE_SECONDS:
        return ""
    return f"no heartbeat for {format_duration(age)}: {holder}, may be stopped, asleep or stuck"


_NAMED_MOST = 5


def differing(loaded: Loaded, location: Location, standing: Standing) -> list[str]:
    """What a new baseline would adopt: keys of the manifest, and files of HEAD, in words."""
    if standing.baseline is None:
        return []
    try:
        pinned, head = _pinned_and_head(location, loaded.manifest.project.name)
        changed = _changed(location, standing.baseline.commit, head)
    except GitFailed:
        return []
    scope = scope_of(loaded, loaded.manifest, prefix_below(location.top, loaded.folder))
    ruler = Ruler.from_json(pinned)
    told = [f"key {key}" for key in differing_keys(loaded.manifest, ruler)]
    hidden = _hidden(loaded, base_of(loaded, location.top), ruler)
    told += [f"file {loaded.manifest.scope.hidden_from}/{quote_path(path)}" for path in hidden]
    files = [path for path in changed if scope.in_ruler(path)]
    return told + [f"file {quote_path(path)}" for path in files[:_NAMED_MOST]] + _more(len(files) - _NAMED_MOST)


def _pinned_and_head(location: Location, name: str) -> tuple[str, str]:
    """The ruler's text and the commit of HEAD, in one question. Raises GitFailed where one of them is not there."""
    asked = (f"refs/goalseek/{name}/ledger:ruler.json", "HEAD")
    told = git("cat-file", "--batch", git_dir=location.git_dir, stdin="".join(f"{one}\n" for one in asked).encode())
    first, _, rest = told.partition(b"\n")
    facts = first.split(b" ")
    if facts[1:2] != [b"blob"]:
        raise GitFailed(("cat-file", asked[0]), 1, first)
    size = int(facts[2])
    head, kind, *_ = rest[size + 1 :].partition(b"\n")[0].split(b" ")
    if kind != b"commit":
        raise GitFailed(("cat-file", asked[1]), 1, head)
    return rest[:size].decode(), head.decode()


def _changed(location: Location, before: str, after: str) -> list[str]:
    """The files on which two commits differ."""
    if before == after:
        return []
    listing = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", before, after)
    told = git(*listing, git_dir=location.git_dir)
    return [os.fsdecode(path) for path in told.split(b"\0") if path]


def _hidden(loaded: Loaded, base: Path, ruler: Ruler) -> list[str]:
    """What differs in the folder of ``hidden_from``; where the manifest names another one now, its key does."""
    named = loaded.manifest.scope.hidden_from
    if not named or named != ruler.keys["scope"].get("hidden_from"):
        return []
    from goalseek.workspace import hidden_files

    return hidden_files.differing_files(base / named, ruler.hidden_from)[:_NAMED_MOST]


def _more(count: int) -> list[str]:
    return [f"and {pluralize(count, 'more file')}"] if count > 0 else []
