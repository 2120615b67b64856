"""The source of a report: this project's records and patches, or a copy of ``results.jsonl`` from another machine."""

import gc
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from msgspec import Struct, field

from goalseek.errors import GoalseekError
from goalseek.git.location import locate
from goalseek.git.objects import BatchProcesses, ObjectsFailed
from goalseek.ledger.lenient import read_record
from goalseek.ledger.results_file import History, find_own_folder
from goalseek.locks import lock_holder
from goalseek.manifest.loading import RESULTS, STATE, ManifestFile
from goalseek.project.paths import fetch_hint
from goalseek.project.picture import Picture, describe_end, read_picture
from goalseek.project.status import read_overview
from goalseek.statistics.guards import describe_bounds
from goalseek.views.report.figures import ReportFigures, Try
from goalseek.views.report.pages import equal_share, escaped_size
from goalseek.views.terminal_text import one_line, replace_unprintable

_WHOLE = 600_000
_ONE_MOST = 60_000
_MARKUP = 30
_LINE_MOST = 400
_PATCH = ("diff-tree", "--stdin", "--no-commit-id", "-p", "--no-ext-diff", "--no-textconv")
_SKIPPED = ("index ", "--- ", "+++ ")


class DiffLines(Struct, frozen=True):
    """Each line with its kind: "file", "about", "hunk", "added", "removed" or "same"."""

    lines: list[tuple[str, str]]
    left_out: int


class ProjectState(Struct, frozen=True):
    """``status`` is the contract's, or "" for a copy of the records; ``bounds`` are the guards', in words.

    ``differs`` has differences from the pins, ``trouble`` an error of reading or a warning, ``shown`` the paths of
    ``scope.share`` and ``sandbox.read``; ``notes`` name readable answers and failed notifications.
    """

    status: str = ""
    phase: str = ""
    next: str = ""
    differs: tuple[str, ...] = ()
    bounds: Mapping[str, str] = field(default_factory=dict)
    trouble: str = ""
    is_live: bool = False
    shown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    turn: str = ""


class ReportSource:
    """``loaded`` is None for a copy of the records; ``figures`` are those of the records that were read."""

    def __init__(self, results: Path, runs: Path, loaded: ManifestFile | None = None) -> None:
        self.results = results
        self.figures = ReportFigures()
        self._runs = runs
        self._loaded = loaded
        self._end = 0
        self._diffs: dict[tuple[str, int, int], DiffLines | None] = {}

    def read_on(self) -> ReportFigures:
        """Adds the new complete lines; begins again if the file has become shorter."""
        history = History(self.results)
        if history.size() < self._end:
            self.figures, self._end = ReportFigures(), 0
        gc.disable()  # many objects and no cycle among them: the collector would look through them again and again
        try:
            for line in history.forward(self._end):
                self.figures.add(read_record(line.text))
                self._end = line.end
        finally:
            gc.enable()
        return self.figures

    def diffs_of(self, tries: Sequence[Try]) -> list[DiffLines | None]:
        """Reads each patch once, cut so that all fit a page; None for a missing one."""
        limit = patch_limit(len(tries))
        keys = [(try_.commit, try_.iteration, limit) for try_ in tries]
        processes: BatchProcesses | None = None
        with ExitStack() as stack:
            for key, try_ in zip(keys, tries, strict=True):
                if key in self._diffs:
                    continue
                patch = None
                try:
                    patch = (self._runs / f"{try_.iteration:04d}" / "changes.diff").read_bytes()
                except OSError:
                    if self._loaded and try_.commit and try_.parent:
                        with suppress(ObjectsFailed, GoalseekError, OSError):
                            if processes is None:
                                git_dir = locate(self._loaded.folder / self._loaded.manifest.project.repo).git_dir
                                processes = BatchProcesses(git_dir, {"GIT_DIR": str(git_dir)})
                                stack.callback(processes.close)
                            reply = processes.send(_PATCH, f"{try_.commit} {try_.parent}\nend\n".encode())
                            patch = b"\n".join(reply.lines()) or None
                self._diffs[key] = None if patch is None else diff_of(patch, limit)
        return [self._diffs[key] for key in keys]

    def state(self, is_live: bool = False) -> ProjectState:
        """For a copy, only what to do next."""
        if self._loaded is None:
            promotes = "promote applies the kept changes missing from HEAD"
            command = promotes if self.figures.climb.keeps > 0 else "status shows the next step"
            return ProjectState(next=f"in the repository, goalseek {command}", is_live=is_live)
        manifest = self._loaded.manifest
        bounds = {guard.name: describe_bounds(guard, None) for guard in manifest.guard}
        try:
            summary = read_overview(self._loaded)
        except GoalseekError as error:
            following, why = fetch_hint(self._loaded) or error.hint, error.message
            return ProjectState(*self.activity(), following, bounds=bounds, trouble=why, is_live=is_live)
        return ProjectState(
            status=describe_end(summary.picture.status, summary.picture.stop_reason),
            phase=summary.picture.phase_in_words(),
            next=summary.next,
            differs=summary.differs,
            notes=(*(note.partition("; ")[0] for note in summary.readable), *filter(None, [one_line(summary.unsent)])),
            bounds=bounds,
            trouble=summary.silent,
            is_live=is_live,
            shown=(*manifest.scope.share, *manifest.sandbox.read),
            turn=summary.turn.in_words() if summary.turn.why else "",
        )

    def activity(self) -> tuple[str, str]:
        """Status and phase, cheap enough for a call every second. A copy's ``state.json`` is trusted without a lock."""
        own = find_own_folder(self._loaded) if self._loaded else None
        picture = read_picture(self.results.with_name(STATE), is_held=not own or lock_holder(own) is not None)
        if picture == Picture() and self._loaded is None:
            return "", ""
        phase, beat = one_line(picture.phase_in_words(), 200), one_line(str(picture.heartbeat_at), 40)
        return describe_end(one_line(picture.status, 40), picture.stop_reason), f"{phase}, seen {beat}" if phase else ""


def copy_source(path: Path) -> ReportSource:
    """``path`` is the file, or the folder that holds it or its ``logs``. Raises GoalseekError if there is none."""
    candidates = [path / RESULTS, path / "logs" / RESULTS] if path.is_dir() else [path]
    results = next((file for file in candidates if file.is_file()), None)
    if results is None:
        raise GoalseekError(f"{path}: there is no {RESULTS}", "name the file, or the folder that holds it")
    beside = results.resolve().parent
    return ReportSource(results, (beside.parent if beside.name == "logs" else beside) / "runs")


def patch_limit(count: int) -> int:
    """Bytes for each patch, rounded so that they seldom change as one is added."""
    return equal_share(_WHOLE, 10 * 2 ** max(0, math.ceil(math.log2(max(1, count) / 10))), _ONE_MOST)


def diff_of(patch: bytes, limit: int) -> DiffLines:
    lines: list[tuple[str, str]] = []
    left_out = length = 0
    in_hunk = is_binary = False  # within a hunk "---" begins a removed line, not a header
    for raw in patch.decode("utf-8", "replace").split("\n"):
        text = replace_unprintable(raw if len(raw) <= _LINE_MOST else raw[: _LINE_MOST - 1] + "…")
        kind = "about"
        if text.startswith("diff --git "):
            in_hunk = is_binary = False
            kind, text = "file", text.removeprefix("diff --git ")
        elif text.startswith("@@ "):
            in_hunk = True
            kind = "hunk"
        elif in_hunk and text:
            kind = {"+": "added", "-": "removed"}.get(text[0], "same")
        elif text == "GIT binary patch":
            is_binary = True
            text = "a binary file"
        elif not text or is_binary or text.startswith(_SKIPPED):
            continue
        length += escaped_size(text) + _MARKUP
        if length > limit:
            left_out += 1
        else:
            lines.append((kind, text))
    return DiffLines(lines, left_out)
