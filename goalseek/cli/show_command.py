"""``goalseek show``: one record in full, with its artifacts."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from goalseek import outputs
from goalseek.artifacts import OUTPUTS
from goalseek.attempts import ATTEMPTS, REVIEWS, others_in
from goalseek.believed import believed_standing
from goalseek.cli.answer import answer, say, wants_json
from goalseek.cli.options import loaded
from goalseek.errors import GoalseekError
from goalseek.fetched import way_to_fetched
from goalseek.git import GitFailed, git
from goalseek.history import History
from goalseek.manifest_file import Loaded
from goalseek.prompt_files import prompts_in
from goalseek.records import IterationRecord
from goalseek.units import in_words, number
from goalseek.views.style import OUTCOME_COLORS, Paint, painter


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``show`` takes."""
    parser.add_argument("which", nargs="?", default="last", metavar="N|best", help="an iteration, best, or the last")
    parser.add_argument("--diff", action="store_true", help="the patch")
    parser.add_argument("--plan", action="store_true", help="the plan")
    parser.add_argument("--prompt", action="store_true", help="every prompt of the iteration")
    parser.add_argument("--output", action="store_true", help="what provider and verifier printed")
    parser.add_argument(
        "--files", metavar="DIR", help="the changed files, what the verifier left, and the kept outputs, into DIR"
    )


def run(options: argparse.Namespace) -> int:
    """Shows the record, or the parts that were asked for."""
    manifest = loaded(options)
    record = find_record(manifest, options.which)
    folder = manifest.runs / f"{record.iteration:04d}"
    asked = False
    if (options.files or options.output) and not folder.is_dir():
        raise _gone(record)
    if options.files:
        _bring_files(options, folder, Path(options.files))
        asked = True
    if options.diff:
        sys.stdout.buffer.write(_diff(manifest, record, folder))
        asked = True
    if options.plan:
        sys.stdout.buffer.write(_artifact(record, folder, "plan.md"))
        asked = True
    if options.prompt:
        for name, text in prompts_in(folder) or [("prompt", _artifact(record, folder, "prompt.md"))]:
            sys.stdout.buffer.write(f"== {name} ==\n".encode() + text)
        asked = True
    if options.output:
        printed = ("provider_output.md", "verifier.log")
        reviews = [f"{REVIEWS}/{path.name}" for path in sorted((folder / REVIEWS).glob("*.md"))]
        for name in [*(f"{ATTEMPTS}/{other}" for other in others_in(folder, printed)), *printed, *reviews]:
            if (folder / name).exists():
                sys.stdout.buffer.write(f"== {name} ==\n".encode() + (folder / name).read_bytes())
        asked = True
    if asked:
        return 0
    if wants_json(options):
        answer(options, record)
    else:
        print("\n".join([*_lines(record, painter(sys.stdout, options.color)), *_told(folder)]))
    return 0


def find_record(manifest: Loaded, which: str) -> IterationRecord:
    """The record of an iteration, the best, or the last. Raises GoalseekError where there is none."""
    history = History(manifest.logs / "results.jsonl")
    found: IterationRecord | None = None
    if which == "last":
        found = believed_standing(manifest).last
    elif which == "best":
        best = believed_standing(manifest).best
        found = history.iteration(best.iteration) if best else None
    elif which.isdigit():
        found = history.iteration(int(which))
    else:
        raise GoalseekError(f"show {which}: an iteration's number, or best", "see: goalseek log")
    if found is None:
        raise GoalseekError(f"there is no record of {which}", way_to_fetched(manifest) or "see: goalseek log")
    return found


def _lines(record: IterationRecord, paint: Paint) -> list[str]:
    metric = record.metric
    head = f"iteration {record.iteration}: {record.outcome}, {record.reason}"
    lines = [paint(head, OUTCOME_COLORS[record.outcome]), f"  why        {record.why}"]
    if record.hypothesis_summary:
        lines.append(f"  title      {record.hypothesis_summary}")
    value = "none" if metric.value is None else number(metric.value)
    against = f", against {number(metric.incumbent)}" if metric.incumbent is not None else ""
    lines.append(f"  {metric.name:<10} {value}{against}")
    lines += [f"  {name:<10} {number(guard)}" for name, guard in record.guards.items()]
    lines += [f"  changed    {path}" for path in record.changed_files]
    lines += [f"  left out   {path}" for path in record.dropped_files]
    lines += [f"  {name:<10} {commit}" for name, commit in _commits(record)]
    lines += [f"  other try  {attempt.commit_hash or 'no commit'}: {attempt.reason}" for attempt in record.attempts]
    lines += [f"  run        {run.of} {run.value}, seed {run.seed}, {in_words(run.seconds)}" for run in record.runs]
    lines += [
        f"  command    {run.name}: exit {run.exit_code}, {in_words(run.seconds)}"
        + (f", {run.killed} left-over processes ended" if run.killed else "")
        for run in record.verify
    ]
    lines.append(f"  provider   {record.provider or 'none'} {record.model}".rstrip())
    lines.append(f"  isolation  sandbox {record.isolation.sandbox}, verifier {record.isolation.verifier}")
    lines.append("  seconds    " + ", ".join(f"{name} {in_words(spent)}" for name, spent in record.seconds.items()))
    lines += [f"  direction  {text}" for text in record.directions]
    lines += [f"  note       {text}" for text in record.notes]
    return lines


def _commits(record: IterationRecord) -> list[tuple[str, str]]:
    named = (("commit", record.commit_hash), ("revert", record.rollback_commit_hash))
    return [(name, commit) for name, commit in named if commit]


def _diff(manifest: Loaded, record: IterationRecord, folder: Path) -> bytes:
    """The stored patch; where the artifacts are gone, git's."""
    path = folder / "changes.diff"
    if path.exists():
        return path.read_bytes()
    if not record.commit_hash or not record.parent_commit_hash:
        raise GoalseekError(
            f"iteration {record.iteration} has no patch", "it changed nothing, or its artifacts are gone"
        )
    repository = manifest.folder / manifest.manifest.project.repo
    try:
        between = (record.parent_commit_hash, record.commit_hash)
        return git("diff-tree", "-p", "--binary", "--full-index", *between, folder=repository)
    except GitFailed as error:
        raise GoalseekError(f"git has no such commits: {error.said}", "fetch refs/goalseek/*") from None


def _told(folder: Path) -> list[str]:
    """A line about artifacts that are gone."""
    return (
        [] if folder.is_dir() else ["  artifacts  not here: older than log.keep_runs, removed, or on another machine"]
    )


def _gone(record: IterationRecord) -> GoalseekError:
    message = f"the artifacts of iteration {record.iteration} are gone: older than log.keep_runs, or removed"
    kept = f"what it committed is in git: git show {record.commit_hash}" if record.commit_hash else "its record stays"
    return GoalseekError(message, kept)


def _artifact(record: IterationRecord, folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError:
        if not folder.is_dir():
            raise _gone(record) from None
        raise GoalseekError(f"there is no {folder / name}", "its phase was not reached, or it was pruned") from None


def _bring_files(options: argparse.Namespace, folder: Path, target: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise GoalseekError(f"--files {target}: is not an empty folder", "name a new folder")
    taken = 0
    for name in ("snapshot", "measurements", OUTPUTS):
        if (folder / name).is_dir():
            taken += len(outputs.take(folder / name, target / name, None, 2**63))
    say(options, f"{taken} files in {target}")
