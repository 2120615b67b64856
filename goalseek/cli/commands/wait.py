"""``goalseek wait``: the result of a try that goes on."""

import os
import signal
import time

from msgspec import structs

from goalseek import humanize, locks, process
from goalseek.cli.options import Options, Parser
from goalseek.errors import BAD_FINDING, LOCKED, PENDING, GoalseekError
from goalseek.git.repository import Repository
from goalseek.ledger.results_file import History
from goalseek.manifest.loading import ManifestFile, make_log_folders
from goalseek.project import config, paths, progress, tries
from goalseek.project.picture import describe_end, read_picture
from goalseek.proposal.past_tries import crash_output, past_try
from goalseek.records import IterationRecord
from goalseek.values import OPEN, Outcome

_LOOK_SECONDS = 0.05
_COULD_READ = "its author could read the hidden files: isolation.driver = open"
_AFTER_KILL = "goalseek wait measures it; in an agent's own sandbox, that is for goalseek drive or goalseek mcp"
_TAIL_LINES = 5  # of what a failed command printed that sees nothing hidden
_NEXT = {
    Outcome.KEPT: "edit on, then goalseek try",
    Outcome.REVERTED: "goalseek try --restore, or improve the same edit; goalseek show {} says more",
    Outcome.SKIPPED: "change it, then goalseek try; goalseek show {} says more",
}


def arguments(parser: Parser) -> None:
    parser.add_argument("iteration", nargs="?", type=int, metavar="N", help="an iteration (default: your try)")
    add_wait_options(parser)


def add_wait_options(parser: Parser) -> None:
    wait = "end with 75 after this time, while the measurement goes on (default: 100s)"
    parser.add_argument("--wait", metavar="TIME", default="100s", help=wait)
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 if it was not kept")


def run(options: Options) -> int:
    seconds = wait_seconds(options)
    manifest = paths.manifest_of_running_climb(options.load_manifest())
    with config.open_repository(manifest) as repository:
        pending = repository.tries()
        driver = tries.find_driver(repository, os.environ)
        if options.iteration is None:
            trial = pending.get(driver.session)
            # Of its last try, or of any without a session's name.
            of_session = (record for record in tries.newest_tries(manifest) if record.model == driver.name)
            if trial is None and (last := next(of_session, None)):
                return print_result(options, manifest, last)  # it has ended meanwhile
        else:
            record = History(manifest.results).iteration(options.iteration)
            trial = record.digests.get("try", "") if record else None
            if record and trial not in pending.values():
                return print_result(options, manifest, record)
            places = {tries.find_iteration(manifest, repository, one): one for one in pending.values()}
            trial = trial or places.get(options.iteration)
        if trial is None:
            which = "of yours" if options.iteration is None else f"in iteration {options.iteration}"
            raise GoalseekError(f"no try {which} goes on", "goalseek log --last 5 lists what was measured")
        return await_result(options, manifest, repository, trial, seconds)


def wait_seconds(options: Options) -> float:
    try:
        return 0.0 if options.wait in ("0", "0s") else humanize.parse_duration(options.wait)
    except ValueError as error:
        raise GoalseekError(f"--wait: {error}", "--wait 100s") from None


def await_result(options: Options, manifest: ManifestFile, repository: Repository, trial: str, seconds: float) -> int:
    """Print the result of a try, 75 if it is not there in time. Where nobody is at work, starts who measures it.

    Raises GoalseekError, and takes the try back, if that ends without measuring it.
    """
    deadline = time.monotonic() + seconds
    worker: process.Helper | None = None
    record: IterationRecord | None = None
    size = -1
    while True:
        holder = locks.lock_holder(repository.own)  # first: who ends after this look has left a record
        code = worker.poll() if worker else None
        if size != (size := History(manifest.results).size()):
            tried = (record for record in tries.newest_tries(manifest) if record.digests["try"] == trial)
            record = next(tried, None)
        if record and trial not in repository.tries().values():  # else whoever was at work has not ended the try
            return print_result(options, manifest, record)
        if holder is None and (worker is None or code == LOCKED):
            make_log_folders(manifest)
            # It climbs nothing but tries, and outlives this process.
            worker = process.detach(["-m", str(manifest.path), "iterate", "-n", "0"], manifest.logs / "detached.log")
        elif holder is None and code is not None:
            raise _unmeasured_error(options, manifest, repository, trial, code)
        if time.monotonic() >= deadline:
            break
        time.sleep(_LOOK_SECONDS)
    number = tries.find_iteration(manifest, repository, trial)
    newest = History(manifest.results).newest_iterations()
    usual = progress.median_iteration_seconds(record for record in newest if record.metric.value is not None)
    about = f"; a measured one usually takes {humanize.format_duration(usual)}" if usual is not None else ""
    state, line, command = "waiting", "your try waits for its turn", "goalseek wait"
    if number is not None:
        state, line, command = "measuring", f"iteration {number} is being measured", f"goalseek wait {number}"
    fields = {"iteration": number, "state": state, "usual_seconds": usual}
    options.print_answer(fields, f"{line}{about}: {options.with_manifest(command)}")
    return PENDING


def print_result(options: Options, manifest: ManifestFile, record: IterationRecord) -> int:
    metric, table = record.metric, manifest.manifest
    past = past_try(record, table.commands, (table.metric, *table.guard))
    is_driven = tries.DRIVE_VARIABLE in os.environ  # its author is told no output of a command that sees hidden files
    printed = crash_output(manifest.runs, record).rstrip().splitlines()[-_TAIL_LINES:]
    values = [value for value in (metric.value, metric.incumbent) if value is not None]
    numbers = humanize.format_distinct(*values, unit=metric.unit)
    value = f"{metric.name} {' against '.join(numbers)}" if metric.value is not None else ""
    odds = humanize.format_odds(metric.odds)
    lines = [
        f"iteration {record.iteration} {record.outcome}: {past.why if is_driven else record.why}",
        *filter(None, ["; ".join(filter(None, (value, odds)))]),
        *([_COULD_READ] if record.isolation.driver == OPEN else []),
        *(f"  {line}" for line in printed),
        options.with_manifest(f"next: {_NEXT.get(Outcome(record.outcome), 'goalseek try').format(record.iteration)}"),
    ]
    # An agent is told counts: ids and scores of the cases may be those of a hidden verifier.
    runs = tuple(structs.replace(run, cases=None) for run in record.runs)
    record = structs.replace(record, runs=runs, case_ids=())
    options.print_answer(past if is_driven else record, *lines)
    return int(options.exit_code and record.outcome != Outcome.KEPT)


def _unmeasured_error(
    options: Options, manifest: ManifestFile, repository: Repository, trial: str, code: int
) -> GoalseekError:
    """Why who was to measure it ended; a try that it refused does not wait any more."""
    picture, log = read_picture(manifest.state, is_held=False), manifest.logs / "detached.log"
    why, hint = describe_end(picture.status, picture.stop_reason), picture.next
    if tries.DRIVE_VARIABLE in os.environ:
        why, hint = "goalseek status, outside of this drive, says why", ""
    elif code > 0:  # the last error that it printed, with its hint
        *_, said = f"\n{log.read_text('utf-8', 'replace')}".rpartition("\ngoalseek: ")
        why, _, hint = said.strip().partition("\n")
    if (number := tries.find_iteration(manifest, repository, trial)) is not None:
        then = options.with_manifest(f"goalseek wait {number} goes on")
        message, hint = f"iteration {number} is not finished: {why}", "\n  ".join(filter(None, (hint.strip(), then)))
        return GoalseekError(message, hint, max(code, BAD_FINDING))
    if code < 0:
        message = f"the process that was to measure your try was killed ({signal.strsignal(-code)})"
        return GoalseekError(message, options.with_manifest(_AFTER_KILL), BAD_FINDING)
    repository.tries_folder.mkdir(parents=True, exist_ok=True)  # a refused first run removed it
    repository.remove_try(trial)
    return GoalseekError(f"nothing was measured: {why}", hint.strip() or f"see {log}", max(code, BAD_FINDING))
