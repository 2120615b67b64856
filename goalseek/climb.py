"""A climb in Python: it iterates and measures, and gives its records, its commits and its report."""

from __future__ import annotations

import contextlib
import functools
import html
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from goalseek.cli.commands.report import render_report
from goalseek.cli.commands.show import find_record, patch_of
from goalseek.doctor.checks import check_fit, check_revisions, subject_of
from goalseek.errors import GoalseekError
from goalseek.evaluation import compare
from goalseek.evaluation.settle import settle_on_request
from goalseek.git.location import locate
from goalseek.ledger.export import make_frame
from goalseek.ledger.results_file import History, load_standing
from goalseek.loop import invocation, loop
from goalseek.manifest.fields import MOST_AT_ONCE
from goalseek.manifest.loading import ManifestFile
from goalseek.project import opening, paths, status, stop
from goalseek.providers.function import FunctionTable
from goalseek.records import IterationRecord, Record, SettleRecord
from goalseek.values import StopReason
from goalseek.views.report.plot import draw
from goalseek.views.report.source import ReportSource

if TYPE_CHECKING:
    from git import Commit, Repo
    from matplotlib.axes import Axes
    from pandas import DataFrame


class _Records(Sequence[Record]):
    def __init__(self, history: History) -> None:
        self._history = history
        self._starts = [0]  # of the lines, and of what comes after them

    def __len__(self) -> int:
        if self._history.size() < self._starts[-1]:
            self._starts = [0]
        self._starts += [line.end for line in self._history.forward(self._starts[-1])]
        return len(self._starts) - 1

    def __getitem__(self, index: Any) -> Any:
        numbers = range(len(self))[index]
        if isinstance(numbers, range):
            return [self[number] for number in numbers]
        return self._history.parsed(next(self._history.forward(self._starts[numbers])))

    def __iter__(self) -> Iterator[Record]:
        return self._history.records()


class Climb(contextlib.AbstractContextManager["Climb"]):
    """The climb of a manifest. What it gives is read anew each time, also while a climb is at work.

    ``records`` are all records, oldest first, each read on access, which raises GoalseekError for a line that is none.
    GitPython starts git processes and keeps them: leave the ``with`` block, or ``close`` the climb.
    """

    def __init__(self, manifest: ManifestFile) -> None:
        self.manifest = manifest
        self.records: Sequence[Record] = _Records(History(manifest.results))
        self._source = ReportSource(manifest.results, manifest.runs, manifest)

    def iterate(
        self,
        iterations: int | None = None,
        *,
        seconds: float | None = None,
        until: str | None = None,
        jobs: int | None = None,
        provider: str | None = None,
        propose: Callable[[Path], str] | None = None,
    ) -> Generator[IterationRecord, None, None]:
        """Run ``iterations`` iterations, or until a limit if that is None; yields each record once it is written.

        Begins none after ``seconds``, nor once the best reaches ``until``, such as ``accuracy>=0.99``. ``propose``, in
        place of a provider, edits the files of a folder and returns a title. It runs in this process, outside of any
        sandbox, with ``jobs`` in several threads; what it raises ends the climb, as the cause of a GoalseekError.
        """
        if iterations is not None and iterations < 0:
            raise GoalseekError(f"iterations={iterations}: at least 0", "iterations=10")
        if jobs is not None and not 1 <= jobs <= MOST_AT_ONCE:
            raise GoalseekError(f"jobs={jobs}: a number from 1 to {MOST_AT_ONCE}", "jobs=4")
        if provider and propose:
            raise GoalseekError("provider and propose exclude each other", "leave one out")
        names = (self.manifest.manifest.metric.name, *(guard.name for guard in self.manifest.manifest.guard))
        try:
            goal = None if until is None else stop.parse_until(until, names)
        except ValueError as error:
            raise GoalseekError(f"until: {error}", "see: goalseek help python") from None

        def edit(folder: Path) -> str:
            assert propose
            with project.baton.let_go() if project.baton else contextlib.nullcontext():
                return propose(folder)

        table = FunctionTable(propose=edit) if propose else opening.provider_from_options(self.manifest, provider, None)
        with opening.open_project(self.manifest, provider_table=table, doing="iterate") as project:
            yield from loop.iterate(invocation.Invocation(project, stop.Ends(iterations, seconds, goal), jobs))

    def settle(self) -> SettleRecord | None:
        """Measure baseline and best afresh in turn, as ``goalseek settle`` does; None if the metric repeats exactly."""
        with opening.open_project(self.manifest, doing="settle") as project:
            check_fit(subject_of(project, "settle"))
            settle_on_request(project, project.config())
            return project.standing.settled

    def compare(self, before: str | int, after: str | int = "HEAD") -> compare.RevisionComparison:
        """Measure two revisions in turn, like ``goalseek compare``: commits, iterations, ``best`` or ``baseline``."""
        with opening.open_project(self.manifest, doing="compare", is_trial=True) as project:
            sides = compare.revisions_to_compare(project, str(before), str(after))
            check_revisions(project, *sides)
            return compare.compare_revisions(sides[0].config.manifest.metric, [*compare.measure_pairs(project, *sides)])

    @property
    def best(self) -> IterationRecord | None:
        """The record of the best commit, as ``goalseek show best`` has it; None before the first baseline."""
        best = load_standing(self.manifest).best
        return History(self.manifest.results).iteration(best.iteration) if best else None

    @property
    def status(self) -> dict[str, Any]:
        """The state of the climb, as ``goalseek status --json`` prints it."""
        return status.read_overview(paths.manifest_of_running_climb(self.manifest)).plain()

    def diff(self, iteration: int | str) -> str:
        """The patch of an iteration, of ``best`` or ``last``. Raises GoalseekError if there is none."""
        return patch_of(self.manifest, find_record(self.manifest, str(iteration))).decode("utf-8", "replace")

    @functools.cached_property
    def repo(self) -> Repo:
        """The user's repository. Raises GoalseekError if its hashes are SHA-256, which GitPython cannot read."""
        from git import Repo

        location = locate(self.manifest.folder / self.manifest.manifest.project.repo)
        if location.object_format != "sha1":
            message = f"{location.top}: GitPython cannot read {location.object_format} objects"
            raise GoalseekError(message, "goalseek show N --diff, and git itself, can", StopReason.REPOSITORY)
        return Repo(location.git_dir, expand_vars=False)  # else it takes `$X` in a folder's name for a variable

    def commit(self, record: IterationRecord) -> Commit | None:
        """The candidate; None if the iteration has none. Raises what ``Repo.commit`` raises if git has lost it."""
        return self.repo.commit(record.commit_hash) if record.commit_hash else None

    def to_pandas(self) -> DataFrame:
        """A row for each iteration, in the columns of the exports. Raises GoalseekError without pandas."""
        return make_frame(record for record in self.records if isinstance(record, IterationRecord))

    def plot(self, axes: Axes | None = None) -> Axes:
        """The report's plot by matplotlib. Raises GoalseekError without it, and before the first baseline."""
        return cast("Axes", draw(self._source.read_on().climb, axes))

    def _repr_html_(self) -> str:
        text = html.escape(render_report(self._source, "html").decode())
        return f'<iframe srcdoc="{text}" sandbox="allow-scripts" style="width: 100%; height: 45em"></iframe>'

    def close(self) -> None:
        if "repo" in self.__dict__:
            self.repo.close()

    def __exit__(self, *error: object) -> None:
        self.close()
