"""``goalseek try``: what somebody edited in their checkout, measured, and kept if it is a gain."""

import os
from pathlib import Path

from goalseek.cli.commands.show import find_record
from goalseek.cli.commands.wait import add_wait_options, await_result, wait_seconds
from goalseek.cli.options import Options, Parser, add_why_option
from goalseek.errors import GoalseekError
from goalseek.git.as_user import UsersCheckout
from goalseek.git.paths import quote_path
from goalseek.humanize import abbreviate
from goalseek.ledger.results_file import load_standing
from goalseek.manifest.loading import ManifestFile, make_log_folders
from goalseek.project import config, paths, tries
from goalseek.providers.skills import outdated_note
from goalseek.values import Outcome
from goalseek.workspace.driven import Drive


def arguments(parser: Parser) -> None:
    parser.add_argument("summary", nargs="?", default="", metavar="SUMMARY", help="a title for the records")
    add_why_option(parser)
    restoring = parser.add_mutually_exclusive_group()
    text = "write the incumbent's writable files into the checkout, in place of a try that was not kept"
    restoring.add_argument("--restore", action="store_true", help=text)
    text = "write the writable files of iteration N, to go on from them"
    restoring.add_argument("--from", dest="source", type=int, metavar="N", help=text)
    add_wait_options(parser)


def run(options: Options) -> int:
    seconds = wait_seconds(options)  # before anything is requested
    loaded = options.load_manifest()
    with config.open_repository(loaded) as repository:
        manifest = paths.manifest_of_running_climb(loaded, repository.location)
        config.refuse_missing_home(manifest)
        make_log_folders(manifest)  # goalseek's own files are no part of the checkout
        pinned, scope, _ = config.pinned_view(loaded, repository)
        if note := outdated_note(repository.top):
            options.print_message(f"note: {note.text}: {note.remedy}")
        driver = tries.find_driver(repository, os.environ)
        place: tries.Place = UsersCheckout(repository)
        if folder := os.environ.get(tries.DRIVE_VARIABLE):
            from goalseek.proposal.drive import driven_tree

            place = driven_tree(repository, pinned, scope, Drive.load(Path(folder)))
        if options.restore or options.source is not None:
            if options.summary or options.why:
                message = "--restore and --from measure nothing, so they take no summary"
                raise GoalseekError(message, "goalseek try --restore")
            commit, base, name = _find_source(manifest, options.source)
            paths_written = tries.bring_into_step(repository, scope, driver, place, commit, base)
            changed = [*map(quote_path, paths_written)]
            what = abbreviate(changed) if changed else "nothing, as they are there already"
            options.print_answer({"commit": commit, "changed": changed}, f"wrote the files of {name}: {what}")
            return 0
        trial, notes = tries.request_try(repository, scope, driver, place, options.summary, options.why)
        for text in notes:
            options.print_message(f"note: {text}")
        return await_result(options, manifest, repository, trial, seconds)


def _find_source(manifest: ManifestFile, source: int | None) -> tuple[str, str, str]:
    """The commit to restore, the one with which the checkout is in step then, and a name for people."""
    if source is None:
        incumbent = load_standing(manifest).incumbent
        if incumbent is None:
            hint = paths.fetch_hint(manifest) or "goalseek try measures the first one"
            raise GoalseekError("there is no incumbent here yet", hint)
        return incumbent.commit, incumbent.commit, f"the incumbent, iteration {incumbent.iteration}"
    record = find_record(manifest, str(source))
    if record.commit_hash is None:
        raise GoalseekError(f"iteration {record.iteration} has no commit: {record.why}", "goalseek log lists others")
    # What was not kept is still to be tried, together with the edits that follow.
    is_in_tip = record.outcome in (Outcome.KEPT, Outcome.BASELINE)
    base = record.commit_hash if is_in_tip else str(record.base_commit_hash)
    return record.commit_hash, base, f"iteration {record.iteration}"
