"""Artifact folders of iterations: pruning, archived attempts, files for people. Never touches records or commits."""

import contextlib
import functools
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from goalseek._version import __version__
from goalseek.disk import read_object, remove_if_exists
from goalseek.git.command import git
from goalseek.humanize import format_duration, format_number
from goalseek.ledger.checkpoints import Flight
from goalseek.ledger.results_file import History
from goalseek.ledger.standing import Standing
from goalseek.manifest.tables import LogTable
from goalseek.measurement.measure import OUTPUTS
from goalseek.records import IterationRecord
from goalseek.values import IN_TIP, to_indented

ATTEMPTS = "attempts"
PROMPTS = "prompts"
REVIEWS = "reviews"
_CHANGE_FILES = ("changes.diff", "snapshot")
_ATTEMPT_FILES = (*_CHANGE_FILES, "verifier.log", "metrics.json", "measurements")
_CALL_FILES = ("provider_output.md", PROMPTS, ATTEMPTS, REVIEWS)
_CALLS_IN_ORDER = ("plan", "apply", "review", "repair")
_PROMPT_NAME = re.compile(r"([a-z]+)(?:-([1-9][0-9]*))?\.md")
_CONTEXT = b'{"name":"context",'
_FILES_BEFORE_CHECKPOINTS = frozenset(("git_before.txt", "env.json", "context.json.new"))
_NAME = re.compile(r"[0-9]{4,}", re.ASCII)


def run_folders(runs: Path) -> list[Path]:
    """Oldest iteration first; symbolic links and folders with other names are left out."""
    return [runs / name for name in _run_names(runs)]


def _run_names(runs: Path) -> list[str]:
    with contextlib.suppress(FileNotFoundError), os.scandir(runs) as listing:
        names = [item.name for item in listing if _NAME.fullmatch(item.name) and item.is_dir(follow_symlinks=False)]
        return sorted(names, key=int)
    return []


def is_run_folder(folder: Path) -> bool:
    """Whether an iteration wrote it: its checkpoint or record names run and seal."""
    return any({"run_id", "seal"} <= read_object(path).keys() for path in folder.glob("*.json"))


def is_foreign(folder: Path) -> bool:
    """Whether an iteration must not write there: neither ours nor left by a kill or a power cut at its beginning."""
    if not os.path.lexists(folder):
        return False
    if folder.is_symlink() or not folder.is_dir():
        return True
    if {path.name for path in folder.iterdir()} <= _FILES_BEFORE_CHECKPOINTS or is_run_folder(folder):
        return False
    with contextlib.suppress(OSError), open(folder / "context.json", "rb") as file:  # noqa: PTH123
        beginning = file.read(len(_CONTEXT))
        return not _CONTEXT.startswith(beginning.rstrip(b"\0"))  # a power cut may leave zeros
    return True


def old_run_folders(runs: Path, newest: int | None, standing: Standing) -> list[Path]:
    """Ours beyond the ``newest`` ones, oldest first, except the baseline's, the best's and those under way."""
    if newest is None or standing.last_iteration < newest:  # each iteration asks
        return []
    marks = {mark.iteration for mark in (standing.baseline, standing.best) if mark}
    always = marks | {standing.next_iteration, *Flight(runs, None, "").numbers()}
    names = _run_names(runs)
    old = (runs / name for name in names[: max(len(names) - newest, 0)] if int(name) not in always)
    return [folder for folder in old if is_run_folder(folder)]


def prune_artifacts(runs: Path, log: LogTable, standing: Standing, history: History) -> None:
    """Remove folders and outputs that the manifest does not keep; a failed removal is tried again later."""
    last = standing.last
    if last is None:
        return
    for folder in old_run_folders(runs, log.keep_runs, standing):
        with contextlib.suppress(OSError):
            remove_if_exists(folder)
    is_new_best = log.keep_outputs == "best" and last.outcome in IN_TIP
    prune_outputs(run_folders(runs) if is_new_best else [runs / f"{last.iteration:04d}"], log, standing, history)


def prune_outputs(folders: Sequence[Path], log: LogTable, standing: Standing, history: History) -> None:
    """Remove outputs of decided iterations that ``log.keep_outputs`` does not keep."""
    folders = [folder for folder in folders if (folder / OUTPUTS).is_dir()]
    staying: set[int] = set()
    if log.keep_outputs == "best" and standing.best:
        staying = {standing.best.iteration}
    elif log.keep_outputs == "kept":
        records = (history.iteration(int(folder.name)) for folder in folders)
        staying = {record.iteration for record in records if record and record.outcome in IN_TIP}
    if folders:
        staying |= Flight(folders[0].parent, None, "").numbers() - {standing.last.iteration if standing.last else 0}
    for folder in folders:
        number = int(folder.name)
        if number <= standing.last_iteration and number not in staying and is_run_folder(folder):
            with contextlib.suppress(OSError):
                remove_if_exists(folder / OUTPUTS)


def clear_attempts(folder: Path) -> None:
    for name in frozenset(os.listdir(folder)).intersection(_CALL_FILES):
        remove_if_exists(folder / name)


def archive_attempt(folder: Path, number: int) -> None:
    """Move the files of attempt ``number``, which was no candidate: the next one writes here."""
    target = folder / ATTEMPTS / str(number)
    if target.exists():
        return
    unfinished = target.with_name(f"{number}.new")
    _move_attempt(folder, unfinished)
    unfinished.replace(target)


def publish_candidate(folder: Path, source: Path, top_attempt: int) -> None:
    """Copy a new candidate's change from ``source``; the files of ``top_attempt`` move to its own folder."""
    _move_attempt(folder, folder / ATTEMPTS / str(top_attempt))
    for name in (*_CHANGE_FILES, "plan.md"):
        remove_if_exists(folder / name)
        if (source / name).is_dir():
            shutil.copytree(source / name, folder / name)
        elif (source / name).exists():
            shutil.copyfile(source / name, folder / name)


def _move_attempt(folder: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name in _ATTEMPT_FILES:
        if (folder / name).exists() and not (target / name).exists():  # else it was moved before a kill
            (folder / name).replace(target / name)


def list_attempt_files(folder: Path, names: tuple[str, ...]) -> list[str]:
    """Those that other attempts have, such as ``1/verifier.log``, oldest attempt first."""
    numbers = sorted(int(path.name) for path in (folder / ATTEMPTS).glob("*") if path.name.isdigit())
    paths = (f"{number}/{name}" for number in numbers for name in names)
    return [path for path in paths if (folder / ATTEMPTS / path).is_file()]


def write_prompt(run_folder: Path, name: str, text: str) -> None:
    """``name`` is a call, such as ``plan-2``; ``prompt.md`` holds the newest."""
    (run_folder / PROMPTS).mkdir(exist_ok=True)
    for path in (f"{run_folder}/{PROMPTS}/{name}.md", f"{run_folder}/prompt.md"):
        with open(path, "wb") as file:  # noqa: PTH123 - Path takes as long as the writing
            file.write(text.encode("utf-8", "replace"))


def read_prompts(run_folder: Path) -> list[tuple[str, bytes]]:
    prompts = []
    for path in (run_folder / PROMPTS).glob("*.md"):
        if match := _PROMPT_NAME.fullmatch(path.name):
            order = _CALLS_IN_ORDER.index(match[1]) if match[1] in _CALLS_IN_ORDER else len(_CALLS_IN_ORDER)
            prompts.append((order, int(match[2] or 1), path))
    return [(path.stem, path.read_bytes()) for _, _, path in sorted(prompts)]


def write_summary(run_folder: Path, record: IterationRecord) -> None:
    metric = record.metric
    value = "no value" if metric.value is None else format_number(metric.value, metric.unit)
    lines = [f"# Iteration {record.iteration}: {record.outcome} ({record.reason})", "", record.why + ".", ""]
    if record.hypothesis_summary:
        lines += [f"Tried: {record.hypothesis_summary}", ""]
    lines.append(f"- {metric.name}: {value} ({metric.direction})")
    if metric.incumbent is not None:
        lines.append(f"- incumbent in this comparison: {format_number(metric.incumbent, metric.unit)}")
    lines += [f"- {name}: {format_number(guard)}" for name, guard in record.guards.items()]
    lines += [f"- changed: {path}" for path in record.changed_files]
    lines += [f"- left out: {path}" for path in record.dropped_files]
    lines += [f"- {phase}: {format_duration(spent)}" for phase, spent in record.seconds.items()]
    lines += [f"- note: {note}" for note in record.notes]
    run_folder.mkdir(parents=True, exist_ok=True)
    (run_folder / "results_discussion.md").write_text("\n".join(lines) + "\n", encoding="utf-8", errors="replace")
    (run_folder / "result.json").write_text(to_indented(record) + "\n")


def write_git_state(path: Path, refs: tuple[str | None, ...], branch: str, commits: Iterable[str]) -> None:
    tip, ledger, branch_commit = refs
    lines = [f"tip {tip}", f"ledger {ledger}", f"branch {branch} {branch_commit}", "", *commits]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="replace")


def describe_environment() -> str:
    """The text of ``env.json``."""
    return to_indented(environment_facts()) + "\n"


@functools.cache
def environment_facts() -> dict[str, str]:
    return {
        "goalseek": __version__,
        "python": sys.version.split()[0],
        "git": git("version").decode().strip().removeprefix("git version "),
        "system": platform.platform(),
        "machine": platform.machine(),
    }
