"""Where a report comes from: this project's records, or a copy of ``results.jsonl`` from another machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from goalseek._version import __version__
from goalseek.errors import GoalseekError
from goalseek.humanize import format_number
from goalseek.ledger.results_file import History, own_folder
from goalseek.locks import holder_of
from goalseek.manifest.loading import RESULTS, STATE, Loaded
from goalseek.manifest.tables import Guard
from goalseek.project.paths import fetch_hint
from goalseek.project.state_file import AT_WORK, phase_in_words, read_state
from goalseek.project.status import overview
from goalseek.views.report.aggregate import Night
from goalseek.views.report.diffs import Diff, diff_of, most_for, patches
from goalseek.views.report.rows import Try, rows_from
from goalseek.views.terminal_text import one_line


@dataclass(frozen=True)
class Source:
    """The records, and beside them, where they are here, the artifacts and the project."""

    results: Path
    runs: Path
    loaded: Loaded | None = None

    @property
    def repository(self) -> Path | None:
        """A folder of the project's repository."""
        return self.loaded.folder / self.loaded.manifest.project.repo if self.loaded else None

    @property
    def state(self) -> Path:
        """The picture of a run at work."""
        return self.results.with_name(STATE)


def of_project(loaded: Loaded) -> Source:
    """The records of this project."""
    return Source(loaded.results, loaded.runs, loaded)


def of_copy(path: Path) -> Source:
    """A ``results.jsonl``, or the folder in which it or its ``logs`` is. Raises GoalseekError where there is none."""
    candidates = [path / RESULTS, path / "logs" / RESULTS] if path.is_dir() else [path]
    results = next((place for place in candidates if place.is_file()), None)
    if results is None:
        raise GoalseekError(f"{path}: there is no {RESULTS}", "name the file, or the folder that holds it")
    beside = results.resolve().parent
    return Source(results, (beside.parent if beside.name == "logs" else beside) / "runs")


class Reader:
    """A night that is read on as its file grows."""

    def __init__(self, source: Source) -> None:
        self.night = Night()
        self._history = History(source.results)
        self._end = 0
        self._patch_of = patches(source.runs, source.repository)
        self._diffs: dict[tuple[str, int, int], Diff | None] = {}

    def read_on(self) -> Night:
        """The night with all records that are there by now; from the beginning where the file was written again."""
        if self._history.size() < self._end:
            self.night, self._end = Night(), 0
        for placed in rows_from(self._history, self._end):
            self.night.add(placed.row)
            self._end = placed.end
        return self.night

    def diff_of(self, done: Try, count: int) -> Diff | None:
        """The patch of a kept try, where so many are shown; None where it is not here. Read once."""
        most = most_for(count)
        key = (done.commit, done.iteration, most)
        if key not in self._diffs:
            patch = self._patch_of(done)
            self._diffs[key] = None if patch is None else diff_of(patch, most)
        return self._diffs[key]


def surroundings(source: Source, has_kept: bool, is_live: bool = False) -> Surroundings:
    """What is known beside the records, now. Of a copy nothing is, but whether something was kept."""
    made_at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    if source.loaded is None:
        told = "where the repository is, goalseek "
        told += "promote takes the kept changes home" if has_kept else "status says what comes next"
        return Surroundings(next=told, made_at=made_at, version=__version__, is_live=is_live)
    bounds = {guard.name: ", ".join(_bounds(guard)) for guard in source.loaded.manifest.guard}
    try:
        seen = overview(source.loaded)
    except GoalseekError as error:
        status, phase = at_work(source)
        following = fetch_hint(source.loaded) or error.hint
        return Surroundings(status, phase, following, (), bounds, error.message, made_at, __version__, is_live)
    why = f" ({seen.stop_reason})" if seen.stop_reason and seen.stop_reason != seen.status else ""
    return Surroundings(
        status=f"{seen.status}{why}",
        phase=phase_in_words(read_state(source.state)) if seen.phase else "",
        next=seen.next,
        differs=seen.differs,
        bounds=bounds,
        trouble=seen.silent,
        made_at=made_at,
        version=__version__,
        is_live=is_live,
    )


def at_work(source: Source) -> tuple[str, str]:
    """Status and phase from the picture alone, cheap enough to be asked every second; "" where there is none."""
    picture = read_state(source.state)
    status = one_line(str(picture.get("status") or ("pending" if source.loaded else "")), 40)
    if status not in AT_WORK:
        why = one_line(str(picture.get("stop_reason") or ""), 40)
        return f"{status} ({why})" if why and why != status else status, ""
    if not _is_held(source):
        return "interrupted", ""
    phase, beat = phase_in_words(picture), one_line(str(picture.get("heartbeat_at")), 40)
    return status, f"{one_line(phase, 200)}, seen {beat}" if phase else ""


def _is_held(source: Source) -> bool:
    """Whether somebody holds the project's lock; of a copy nobody can tell here, and its picture is believed."""
    own = own_folder(source.loaded) if source.loaded else None
    return own is None or holder_of(own) is not None


def _bounds(guard: Guard) -> Iterator[str]:
    """A guard's bounds in words."""
    if guard.min is not None:
        yield f"at least {format_number(guard.min)}"
    if guard.max is not None:
        yield f"at most {format_number(guard.max)}"
    for word, most in (("above", guard.max_increase), ("below", guard.max_decrease)):
        if most is not None:
            yield f"at most {most} {word} the baseline"


@dataclass(frozen=True)
class Surroundings:
    """``status`` is the contract's, or "" where only the records are here; ``bounds`` are guards' bounds in words.

    ``phase`` says in words what is going on, ``differs`` what is not as it was pinned, ``trouble`` what could not be
    read. ``is_live`` is a page that stays open.
    """

    status: str = ""
    phase: str = ""
    next: str = ""
    differs: tuple[str, ...] = ()
    bounds: Mapping[str, str] = field(default_factory=dict)
    trouble: str = ""
    made_at: str = ""
    version: str = ""
    is_live: bool = False
