"""``goalseek show``: one record in full, or its artifacts: patch, plan, prompts, output, files."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from goalseek import disk, humanize
from goalseek.cli.options import Options, Parser
from goalseek.cli.streams import print_bytes
from goalseek.errors import GitFailed, GoalseekError
from goalseek.git.command import git
from goalseek.git.location import locate
from goalseek.humanize import format_distinct, format_duration, format_number
from goalseek.ledger.results_file import History, Snapshot, load_standing
from goalseek.ledger.standing import Standing
from goalseek.manifest.loading import ManifestFile
from goalseek.records import IterationRecord
from goalseek.statistics.cases import compare_cases
from goalseek.statistics.guards import describe_bounds
from goalseek.values import Outcome
from goalseek.views import terminal_text
from goalseek.views.terminal_text import one_line

_DIGITS_MOST = 18
_LABEL = 11
_LEAST = 20


def arguments(parser: Parser) -> None:
    which = "an iteration, best, baseline, or settled for its pairs (default: last)"
    parser.add_argument("which", nargs="?", default="last", metavar="N|best|baseline|settled", help=which)
    parser.add_argument("--diff", action="store_true", help="print the patch")
    parser.add_argument("--all", action="store_true", help="with --diff: everything that changed since the baseline")
    parser.add_argument("--plan", action="store_true", help="print the plan")
    parser.add_argument("--prompt", action="store_true", help="print every prompt of the iteration")
    parser.add_argument("--output", action="store_true", help="print what the provider and the verifier printed")
    parser.add_argument("--cases", action="store_true", help="print each case: the incumbent's score and its own")
    files = "copy the changed files, the verifier's files and the kept outputs into DIR"
    parser.add_argument("--files", metavar="DIR", help=files)


def run(options: Options) -> None:
    manifest = options.load_manifest()
    if options.which in ("settled", "settle"):
        _show_settled(options, manifest)
        return
    record = find_record(manifest, options.which)
    if options.all and not options.diff:
        raise GoalseekError("--all goes with --diff", f"goalseek show {options.which} --diff --all")
    folder = manifest.runs / f"{record.iteration:04d}"
    if options.files is not None or options.output or options.plan or options.prompt:
        from goalseek.ledger import artifacts

        if not folder.is_dir():
            message = f"the artifacts of iteration {record.iteration} were removed; log.keep_runs limits their number"
            in_git = f"its commit is in git: git show {record.commit_hash}"
            raise GoalseekError(message, in_git if record.commit_hash else "its record stays")
    parts: dict[str, bytes] = {}
    if options.cases:
        parts["cases"] = _cases_of(manifest, record)
    if options.diff:
        parts["diff"] = patch_of(manifest, record, options.all)
    if options.plan:
        parts["plan"] = _artifact(folder, "plan.md")
    if options.prompt:
        prompts = artifacts.read_prompts(folder) or [("prompt", _artifact(folder, "prompt.md"))]
        parts["prompt"] = b"".join(f"== {name} ==\n".encode() + text for name, text in prompts)
    if options.output:
        last = ("provider_output.md", "verifier.log")
        attempts = [f"{artifacts.ATTEMPTS}/{name}" for name in artifacts.list_attempt_files(folder, last)]
        reviews = [f"{artifacts.REVIEWS}/{path.name}" for path in sorted((folder / artifacts.REVIEWS).glob("*.md"))]
        texts = []
        for name in (*attempts, *last, *reviews):
            if (folder / name).exists():
                text = (folder / name).read_bytes()
                texts += [f"== {name} ==\n".encode(), text, b"" if text.endswith(b"\n") or not text else b"\n"]
        parts["output"] = b"".join(texts)
    count = _copy_files(options, folder, Path(options.files)) if options.files is not None else 0
    if options.wants_json:
        fields: dict[str, object] = {name: text.decode("utf-8", "replace") for name, text in parts.items()}
        fields |= {"files": count, "folder": options.files} if options.files else {}
        options.print_answer(fields or record)
        return
    for name, content in parts.items():
        if sys.stdout.isatty() or options.color == "always":
            printed = terminal_text.strip_colour(content.decode("utf-8", "replace"))
            is_patch = name == "diff"
            legible = terminal_text.replace_unprintable(printed)
            print(terminal_text.paint_patch(printed, options.painter()) if is_patch else legible, end="")
            continue
        shown = terminal_text.escape_controls(content)
        print_bytes(shown)
        if shown != content:
            options.print_message(f"control characters are escaped: the files in {folder} have the raw bytes")
    if options.diff and not options.all and options.which == "best":
        standing = load_standing(manifest)
        if standing.keeps > 1 or standing.taken_back:
            command = options.with_manifest("goalseek show best --diff --all")
            options.print_message(f"only iteration {record.iteration}; from the baseline on: {command}")
    if not parts and options.files is None:
        paint, width = options.painter(), terminal_text.terminal_width(sys.stdout)
        color = terminal_text.OUTCOME_COLORS[record.outcome]
        lines = [paint(f"iteration {record.iteration}: {record.outcome}, {record.reason}", color)]
        for label, long in _rows(options, manifest, record):
            line = one_line(long)
            first, *rest = terminal_text.wrap(line, max(width - _LABEL - 2, _LEAST)) if width else [line]
            lines.append(f"  {paint(f'{one_line(label):<{_LABEL - 1}}', 'grey')} {first}")
            lines += [f"  {'':<{_LABEL}}{piece}" for piece in rest]
        print("\n".join(lines))


def _show_settled(options: Options, manifest: ManifestFile) -> None:
    names = ("diff", "all", "plan", "prompt", "output", "cases")
    if any(getattr(options, name) for name in names) or options.files is not None:
        raise GoalseekError("a settled result has pairs, but no artifacts", "goalseek show settled")
    record = load_standing(manifest).settled
    if record is None:
        raise GoalseekError("the best is not settled", "goalseek settle")
    rows: list[tuple[str, ...]] = [("pair", "baseline", "best")]
    rows += [(str(number), *format_distinct(*pair, unit=record.unit)) for number, pair in enumerate(record.pairs, 1)]
    lines = [f"{name:>6}  {before:>12}  {after:>12}" for name, before, after in rows]
    text = f"{record.metric}, settled at iteration {record.iteration}: {record.why}{record.left_in_words}"
    options.print_answer(record, text, *lines)


def find_record(manifest: ManifestFile, which: str) -> IterationRecord:
    """The record of an iteration, the best, the baseline, or the last. Raises GoalseekError if there is none."""
    history = History(manifest.results)
    record: IterationRecord | None = None
    if which == "last":
        record = load_standing(manifest).last
    elif which in ("best", "baseline"):
        standing = load_standing(manifest)
        mark = standing.best if which == "best" else standing.baseline
        record = history.iteration(mark.iteration) if mark else None
    elif which.isascii() and which.isdigit() and len(which) <= _DIGITS_MOST:
        record = history.iteration(int(which))
    else:
        raise GoalseekError(f"{which!r} is no iteration's number, best, baseline, last or settled", "see: goalseek log")
    if record is None:
        from goalseek.project.paths import fetch_hint
        from goalseek.project.picture import read_picture

        hint, picture = fetch_hint(manifest), read_picture(manifest.state)
        if not hint and which in {str(picture.iteration), *(str(one.iteration) for one in picture.under_way)}:
            message = f"iteration {which} has not ended, so it has no record yet"
            raise GoalseekError(message, "see: goalseek status")
        raise GoalseekError(f"there is no record of {which}", hint or "see: goalseek log")
    return record


def patch_of(manifest: ManifestFile, record: IterationRecord, is_whole: bool = False) -> bytes:
    """The stored patch; the one git computes if that is gone, or for all since the baseline."""
    before, after = record.parent_commit_hash, record.commit_hash
    path = manifest.runs / f"{record.iteration:04d}" / "changes.diff"
    if is_whole:
        baseline = load_standing(manifest).baseline
        before = baseline.commit if baseline and record.iteration > baseline.iteration else None
        if not before or not after:
            message = f"iteration {record.iteration} has no change since the newest baseline"
            raise GoalseekError(message, f"leave out --all: goalseek show {record.iteration} --diff")
    elif path.exists():
        return path.read_bytes()
    elif not before or not after:
        best = load_standing(manifest).best
        if record.outcome == Outcome.BASELINE and best and best.iteration == record.iteration:
            raise GoalseekError("nothing is kept yet", "goalseek log lists what was tried")
        message = f"iteration {record.iteration} has no patch"
        raise GoalseekError(message, "it changed nothing, or its artifacts were removed")
    git_dir = locate(manifest.folder / manifest.manifest.project.repo).git_dir
    how = ("-p", "--binary", "--full-index", "--no-ext-diff", "--no-textconv")
    try:
        return git("diff-tree", *how, before, after, git_dir=git_dir)
    except GitFailed as error:
        message = f"git has no such commits: {error.stderr}"
        raise GoalseekError(message, "fetch refs/goalseek/*:refs/goalseek/*") from None


def _cases_of(manifest: ManifestFile, record: IterationRecord) -> bytes:
    """A line for each case: the greatest gains first, then losses, then ties."""
    history, sign = History(manifest.results), 1 if record.metric.direction == "maximize" else -1
    before = record.base_seq if record.base_seq is not None else record.seq - 1
    state = history.replay(Snapshot(), before).noise.cases
    if record.outcome == Outcome.BASELINE or state is None or not any(run.cases for run in record.runs):
        message = f"iteration {record.iteration} was not compared case by case"
        raise GoalseekError(message, "goalseek log lists what was tried; see metric.cases: goalseek help metric.cases")
    pairs, lines = compare_cases(state, record.runs), list[str]()
    gains = {case: sign * (new - old) for case, (old, new) in pairs.items()}
    for case in sorted(gains, key=lambda case: (not gains[case], -gains[case])):
        word = "won" if gains[case] > 0 else "lost" if gains[case] else "tied"
        old, new = format_distinct(*pairs[case])
        lines.append(f"{word:<4} {old:>8} {new:>8}  {state.ids[case]}")
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def _artifact(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError:
        raise GoalseekError(f"there is no {folder / name}", "it was never written, or it was pruned") from None


def _copy_files(options: Options, folder: Path, target: Path) -> int:
    if not options.files:
        raise GoalseekError("--files needs a folder", "name a new folder")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise GoalseekError(f"--files {target}: this is not an empty folder", "name a new folder")
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GoalseekError(f"--files {target}: {error.strerror}", "name a folder that can be made") from None
    from goalseek.measurement.measure import OUTPUTS

    disk.add_own(target)
    count = 0
    for name in ("snapshot", "measurements", OUTPUTS):
        if (folder / name).is_dir():
            count += len(disk.copy_regular_files(folder / name, target / name))
    options.print_message(f"{humanize.pluralize(count, 'file')} in {target}")
    return count


def _rows(options: Options, manifest: ManifestFile, record: IterationRecord) -> Iterator[tuple[str, str]]:
    metric = record.metric
    yield "why", record.why
    if record.hypothesis_summary:
        yield "title", record.hypothesis_summary
    if record.tried:
        yield "tried", record.tried
    history = History(manifest.results)
    parents = [parent for number in record.stacked if (parent := history.iteration(number))]
    for number, parent in enumerate(parents, 1):  # drawn as the branches of a tree
        branch = "`-" if number == len(parents) else "|-"
        yield "made of", f"{branch} {parent.iteration} {parent.reason}: {parent.why}; {parent.hypothesis_summary}"
    if record.taken_back is not None:
        yield "takes back", f"iteration {record.taken_back}"
    yield "when", f"{humanize.format_age(record.timestamp, datetime.now(UTC))}, {record.timestamp}; run {record.run_id}"
    numbers, unit = [number for number in (metric.value, metric.incumbent) if number is not None], metric.unit
    texts = format_distinct(*numbers, unit=unit)
    value, *rest = texts if metric.value is not None else ("none", *texts)
    of = ", the incumbent's median in this comparison" if metric.odds or metric.needed else ""
    against = f", against {rest[0]}{of}" if rest else ""
    better = needed = ""
    if metric.delta:
        better = f": {format_number(abs(metric.delta), unit)} {humanize.better_or_worse(metric.delta)}"
    if metric.needed:
        needed = f"needed +{format_number(metric.needed, unit)}"
    yield metric.name, ", ".join(filter(None, (f"{value}{against}{better}", humanize.format_odds(metric.odds), needed)))
    if cases := metric.cases:
        cost = f"T is {cases.t:g}; all runs of both cost {cases.cost:g} full runs"
        yield "cases", f"{cases.text}, {cases.tied} tied; {cost}: goalseek show {record.iteration} --cases"
    is_in_tip = options.which in ("best", "baseline")  # nobody has taken these back
    standing = load_standing(manifest) if manifest.manifest.guard or not is_in_tip else Standing()
    bases = standing.baseline.guards if standing.baseline and standing.epoch == record.epoch else {}
    guards = {guard.name: guard for guard in manifest.manifest.guard}
    for name, amount in record.guards.items():
        guard = guards.get(name)
        bounds = f"; {describe_bounds(guard, bases.get(name))}" if guard else ""
        yield name, format_number(amount, guard.unit if guard else "") + bounds
    yield from (("changed", path) for path in record.changed_files)
    yield from (("left out", path) for path in record.dropped_files)
    hashes = (("commit", record.commit_hash), ("revert", record.rollback_commit_hash))
    yield from ((name, commit) for name, commit in hashes if commit)
    for attempt in record.attempts:
        base = f" from {attempt.base_commit_hash}" if attempt.base_commit_hash else ""
        yield "attempt", f"{attempt.commit_hash or 'no commit'}: {attempt.reason}{base}"
    if record.runs and record.base_commit_hash and any(attempt.base_commit_hash for attempt in record.attempts):
        yield "moved to", f"{record.base_commit_hash}, which it was measured against"
    of_candidate = [run for run in record.runs if run.of == "candidate" and run.value is not None]
    left_out = of_candidate[0] if len({run.value for run in of_candidate}) > 1 and not of_candidate[0].cases else None
    for run in record.runs:
        measured = "no number" if run.value is None else format_number(run.value, metric.unit)
        measured += f" on {humanize.pluralize(len(run.cases.unpacked()), 'case')}" if run.cases else ""
        counted = "; the first run is not counted" if run is left_out else ""
        yield "run", f"{run.of} {measured}, seed {run.seed}, {format_duration(run.seconds)}{counted}"
    for command in record.verify:
        leftovers = f", {command.killed} left-over processes ended" if command.killed else ""
        code = "killed at its limit" if command.exit_code is None else f"exit {command.exit_code}"
        yield "command", f"{command.name}: {code}, {format_duration(command.seconds)}{leftovers}"
    yield "provider", f"{record.provider or 'none'} {record.model}".rstrip()
    if (usage := record.usage).tokens or usage.has_cost:
        cost = f", {humanize.format_cost(usage)}" if usage.has_cost else ""
        yield "usage", f"{usage.input_tokens} tokens in, {usage.cached_tokens} cached, {usage.output_tokens} out{cost}"
    yield "isolation", f"sandbox {record.isolation.sandbox}, verifier {record.isolation.verifier}"
    yield "seconds", ", ".join(f"{name} {format_duration(spent)}" for name, spent in record.seconds.items())
    yield from (("direction", text) for text in record.directions)
    yield from (("note", text) for text in record.notes)
    if not is_in_tip and (by := standing.taken_back.get(record.iteration)) is not None:
        yield "taken back", f"by iteration {by}: goalseek show {by}"
    if not (manifest.runs / f"{record.iteration:04d}").is_dir():
        yield "artifacts", "not here: older than log.keep_runs, removed, or on another machine"
