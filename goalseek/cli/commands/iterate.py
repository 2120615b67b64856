"""``goalseek iterate``: one iteration, a number of them, or until a limit; also in the background (``--detach``)."""

import re
import sys
import time
from collections import deque

from goalseek import humanize, locks, process
from goalseek.cli.options import Options, Parser, add_committed_option, add_proposer_options
from goalseek.errors import LOCKED, GoalseekError
from goalseek.loop import invocation, loop
from goalseek.manifest.fields import MOST_AT_ONCE
from goalseek.manifest.loading import ManifestFile, make_log_folders
from goalseek.project import config, opening, stop
from goalseek.project.picture import read_picture
from goalseek.project.project import Project

_LINES_SHOWN = 20


def arguments(parser: Parser) -> None:
    many = parser.add_mutually_exclusive_group()
    count = "the number of iterations (default: 1, or the jobs); with 0 only the tries that wait"
    many.add_argument("-n", dest="count", type=int, metavar="N", help=count)
    many.add_argument("--forever", action="store_true", help="go on until a limit, the target or ^C")
    parser.add_argument("--for", dest="duration", metavar="TIME", help="begin no iteration after this time, such as 8h")
    parser.add_argument("--until", metavar="GOAL", help="a target for the metric or a guard, such as 'accuracy>=0.99'")
    parser.add_argument("--jobs", type=int, metavar="N", help="N proposals and N measurements at once")
    add_proposer_options(parser)
    parser.add_argument("--new", action="store_true", help="begin a new run, whose limits count from zero")
    add_committed_option(parser)
    parser.add_argument("--no-wait", action="store_true", help="exit with 0, silently, if another run is at work")
    parser.add_argument("--detach", action="store_true", help="climb in the background, and say how to watch")


def run(options: Options) -> int:
    manifest = options.load_manifest()
    if options.count is not None and options.count < 0:
        raise GoalseekError(f"-n {options.count}: at least 0", "-n 10, or --forever")
    if options.jobs is not None and not 1 <= options.jobs <= MOST_AT_ONCE:
        raise GoalseekError(f"--jobs {options.jobs}: a number from 1 to {MOST_AT_ONCE}", "--jobs 4")
    names = (manifest.manifest.metric.name, *(guard.name for guard in manifest.manifest.guard))
    try:
        if bare := re.fullmatch(r"\s*([\d.]+)\s*", options.duration or ""):
            raise ValueError(f"--for {bare[1]} has no unit: {bare[1]}s, {bare[1]}m or {bare[1]}h?")
        seconds = humanize.parse_duration(options.duration) if options.duration is not None else None
        until = stop.parse_until(options.until, names) if options.until is not None else None
    except ValueError as error:
        raise GoalseekError(str(error), "see: goalseek iterate --help") from None
    is_open = options.forever or seconds is not None or until is not None
    count = options.count if options.count is not None else None if is_open else options.jobs or 1
    try:
        if options.detach:
            return climb_in_background(options, manifest)
        override = opening.provider_from_options(manifest, options.provider, options.model)
        with (
            options.open_live_view() as watch,
            opening.open_project(manifest, watch, override, options.new, "iterate") as project,
        ):
            project.is_committed_only, project.is_by_timetable = options.committed, options.no_wait
            return climb(project, stop.Ends(count, seconds, until), options.jobs)
    except GoalseekError as error:
        if error.exit_code == LOCKED and options.no_wait:
            return 0
        raise


def climb(project: Project, ends: stop.Ends, jobs: int | None = None) -> int:
    # No Python code runs between two records: the loop gets every signal.
    deque(loop.iterate(invocation.Invocation(project, ends, jobs)), maxlen=0)
    return project.stop.exit_code if project.stop else 0


def climb_in_background(options: Options, manifest: ManifestFile) -> int:
    """Waits for its first phase. If it ends before, prints its output and gives its exit code."""
    with config.open_repository(manifest) as repository:
        own = repository.own
    config.refuse_missing_home(manifest)
    locks.refuse_locked(own, lambda: read_picture(manifest.state).phase_in_words(is_for=True), manifest.path.resolve())
    make_log_folders(manifest)
    log = manifest.logs / "detached.log"
    before = log.stat().st_size if log.exists() else 0
    arguments = [word for word in options.command_line if word != "--detach"]
    child = process.detach(arguments, log)
    while child.poll() is None:
        picture, holder = read_picture(manifest.state), locks.lock_holder(own)
        if picture.is_at_work and holder and picture.pid == holder.pid == child.pid:
            break
        time.sleep(0.02)
    code, picture = child.poll(), read_picture(manifest.state)
    with log.open("rb") as file:
        file.seek(before)
        printed = "\n".join(file.read().decode("utf-8", "replace").splitlines()[-_LINES_SHOWN:])
    if code:
        print(printed, file=sys.stderr)
        return code
    fields = {"pid": child.pid, "log": str(log), "ended": code is not None}
    if code == 0:
        fields |= {"stop_reason": picture.stop_reason, "next": picture.next}
        lines = [f"process {child.pid} has ended already; its output, also in {log}:", printed]
    else:
        if printed and not options.wants_json:
            print(printed, file=sys.stderr)
        words = "watch it: goalseek status, goalseek log --last 5; end it after its iteration: goalseek stop"
        lines = [f"process {child.pid} climbs in the background; its output is in {log}"]
        lines.append(options.with_manifest(words))
    options.print_answer(fields, *lines)
    return 0
