"""Tries: edits that somebody made in a checkout, each a commit that waits until the loop takes it.

``refs/goalseek/<name>/try/<session>`` is a try from its request to its record. Its tree has the writable files of the
checkout; its parent is the commit with which they were last in step, kept as ``refs/goalseek/<name>/base/<checkout>``:
at first what HEAD shares with the climb, then each try that was kept, or what was written into the checkout.
``refs/goalseek/<name>/tried/<checkout>`` is its last try, or what was written into it since: it may be overwritten.
"""

import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from goalseek.errors import BAD_FINDING, LOCKED, UNFIT, GoalseekError
from goalseek.git.as_user import UsersCheckout
from goalseek.git.merge import Conflicts, merge_trees
from goalseek.git.objects import Difference, TreeReader
from goalseek.git.paths import SUBMODULE
from goalseek.git.repository import Commit, RefMove, RefMoved, Repository, with_trailers
from goalseek.humanize import abbreviate, clean_title
from goalseek.ledger.checkpoints import Checkpoints, under_way
from goalseek.ledger.results_file import History, load_standing
from goalseek.manifest.loading import ManifestFile
from goalseek.project.stop import read_pending_run
from goalseek.records import IterationRecord
from goalseek.values import OPEN, Outcome, short_digest
from goalseek.workspace.driven import Drive, DrivenTree
from goalseek.workspace.scope import Scope

DRIVE_VARIABLE = "GOALSEEK_DRIVE"  # the folder of the drive that a command is run for
_UNDO = "git checkout -- FILE"
_SESSION_VARIABLES = {"claude": "CLAUDE_CODE_SESSION_ID", "codex": "CODEX_THREAD_ID"}


class Driver(Struct, frozen=True):
    """Who tries: ``session`` and ``checkout`` are the last parts of refs, ``name`` is for people.

    ``isolation`` is the sandbox in which its author worked, ``OPEN`` in a checkout.
    """

    session: str
    checkout: str
    name: str = ""
    isolation: str = OPEN


Place = UsersCheckout | DrivenTree
"""What holds the edits."""


def find_driver(repository: Repository, variables: Mapping[str, str]) -> Driver:
    """The drive or the agent's session that these environment variables name, else the checkout."""
    if folder := variables.get(DRIVE_VARIABLE):
        return driver_of(Drive.load(Path(folder)))
    checkout = short_digest(str(repository.location.git_dir.resolve()))
    for agent, variable in _SESSION_VARIABLES.items():
        if session := variables.get(variable):
            return Driver(short_digest(session), checkout, clean_title(f"{agent} {session}"))
    return Driver(checkout, checkout)


def driver_of(drive: Drive) -> Driver:
    key = short_digest(str(drive.folder))
    return Driver(key, key, drive.name, drive.level)


def mark_in_step(repository: Repository, checkout: str, written: str, base: str | None) -> None:
    """The checkout has the files of ``written``, which are stored so, and is in step with ``base``."""
    commits = {_ref(repository, "tried", checkout): written, _ref(repository, "base", checkout): base}
    moves = [RefMove(ref, repository.position(ref), commit) for ref, commit in commits.items() if commit]
    repository.move([move for move in moves if move.before != move.after])


def untried(repository: Repository, scope: Scope, driver: Driver, place: Place) -> list[str]:
    """Files that were edited since the place was last in step, and why others are refused."""
    base = repository.position(_ref(repository, "base", driver.checkout))
    tree, refused = place.read()
    differences = repository.objects.differences(repository.tree_of(base), tree) if base else []
    return [each.path for each in _of_writable_files(scope, differences)] + refused


def request_try(
    repository: Repository, scope: Scope, driver: Driver, place: Place, title: str, text: str
) -> tuple[str, list[str]]:
    """Commit what changed in the writable files since the checkout was last in step, and leave it to the loop.

    Gives the commit, and notes on what people may have overlooked. Touches neither HEAD, index, files nor stash. Raises
    GoalseekError if the session has a try already, nothing changed, the edits conflict with the tip, or git cannot be
    written.
    """
    if not os.access(repository.location.common_dir, os.W_OK):
        message = f"{repository.location.common_dir} cannot be written from here, as in the sandbox of an agent"
        hint = "run it outside of that sandbox; goalseek drive and goalseek mcp are doors for agents"
        raise GoalseekError(message, hint, UNFIT)
    if driver.session in repository.tries():
        raise _undecided_error()
    objects, tip = repository.objects, repository.position(repository.tip_ref)
    base_ref = _ref(repository, "base", driver.checkout)
    old_base = repository.position(base_ref)
    base = old_base or _shared_with(repository, tip)
    before = repository.tree_of(base)
    tree, refused = place.read()
    if refused:
        message = f"nothing was measured: {abbreviate(refused)}"
        raise GoalseekError(message, f"take that back ({_UNDO}), then goalseek try", BAD_FINDING)
    differences = objects.differences(before, tree)
    edits = {each.path: each.after for each in _of_writable_files(scope, differences)}
    if not edits:
        seen = [each.path for each in differences if scope.kind(each.path) != "hidden"]
        why = f"; what changed is not writable: {abbreviate(seen)}" if seen else ""
        message = f"no writable file has changed since this checkout was in step with the climb{why}"
        raise GoalseekError(message, "edit a file of scope.writable, then goalseek try", BAD_FINDING)
    tree = objects.splice(before, edits)
    tip_tree = repository.tree_of(tip) if tip else before
    try:
        is_new = merge_trees(objects, before, tip_tree, tree) != tip_tree
    except Conflicts as conflicts:
        message = f"changes kept meanwhile conflict with yours in {', '.join(conflicts.files)}: nothing is measured"
        hint = f"{_UNDO}, then goalseek try --restore, and make your change again on these files"
        raise GoalseekError(message, hint, BAD_FINDING) from None
    if not is_new:
        raise GoalseekError("the tip of the climb has all of these edits", "edit on, then goalseek try", BAD_FINDING)
    title = clean_title(title) or f"edits of {abbreviate([path.rpartition('/')[2] for path in edits])}"
    # Without the nonce, the same edits tried again within a second would be the same commit.
    trailers = {"Session": driver.name, "Checkout": driver.checkout, "Isolation": driver.isolation}
    message = with_trailers("\n\n".join(filter(None, (title, text))), **trailers, Nonce=secrets.token_hex(8))
    commit = objects.write_commit(tree, (base,), message, int(time.time()))
    moves = [RefMove(f"{repository.try_ref}/{driver.session}", None, commit)]
    moves += [RefMove(base_ref, None, base)] if old_base is None else []
    repository.tries_folder.mkdir(exist_ok=True)
    try:
        repository.move(moves)
    except RefMoved:  # another process of the session was quicker
        raise _undecided_error() from None
    os.utime(repository.tries_folder)
    others = [each.path for each in differences if each.before and scope.kind(each.path) not in ("writable", "hidden")]
    notes = [f"left out, as it is not writable: {abbreviate(others)}"] if others else []
    head = TreeReader(objects, repository.tree_of(repository.position("HEAD") or base))
    if old := [path for path, entry in edits.items() if head.entry(path) == entry and driver.isolation == OPEN]:
        notes.append(f"as in HEAD, older than what was kept: {abbreviate(old)}; goalseek try --restore writes that")
    return commit, notes


def request_of(commit: Commit) -> tuple[str, str, str, str]:
    """Title and text of a try, its session's name, and its author's sandbox, ``OPEN`` for a checkout."""
    title, _, rest = commit.message.partition("\n\n")
    trailers = commit.trailers
    return title, rest.rpartition("\n\n")[0], trailers.get("Session", ""), trailers.get("Isolation", OPEN)


def end_try(repository: Repository, record: IterationRecord) -> None:
    """The try of this record waits no more; where it was kept, its checkout is in step with it.

    Doing so again is harmless.
    """
    if (trial := record.digests.get("try", "")) in repository.tries().values():
        checkout, is_kept = repository.load_commit(trial).trailers["Checkout"], record.outcome == Outcome.KEPT
        mark_in_step(repository, checkout, trial, trial if is_kept else None)
        repository.remove_try(trial)


def bring_into_step(
    repository: Repository, scope: Scope, driver: Driver, place: Place, commit: str, base: str
) -> list[str]:
    """Write the writable files of ``commit`` into the checkout, which is in step with ``base`` then; the changed paths.

    Raises GoalseekError, and writes nothing, if a file would be lost: what is there must be in HEAD or in a try.
    """
    if driver.session in repository.tries():  # if it is kept, the checkout must be in step with it
        raise _undecided_error()
    objects = repository.objects
    own = (repository.position(_ref(repository, kind, driver.checkout)) for kind in ("base", "tried"))
    stored = [repository.head(), commit, *filter(None, own)]
    trees = [TreeReader(objects, repository.tree_of(one)) for one in stored]
    differences = objects.differences(place.read()[0], repository.tree_of(commit))
    writable = _of_writable_files(scope, differences)
    lost = [
        each.path for each in writable if each.before and all(tree.entry(each.path) != each.before for tree in trees)
    ]
    lost += place.unseen({each.path: each.before for each in writable})
    if lost:
        message = f"neither HEAD nor your last try has what is in {abbreviate(lost)}: nothing is written"
        raise GoalseekError(message, f"goalseek try measures it; {_UNDO} drops it, then this again", BAD_FINDING)
    place.write({each.path: each.after for each in writable})
    mark_in_step(repository, driver.checkout, commit, base)
    return [each.path for each in writable]


def newest_tries(manifest: ManifestFile) -> Iterator[IterationRecord]:
    return (record for record in History(manifest.results).newest_iterations() if "try" in record.digests)


def find_iteration(manifest: ManifestFile, repository: Repository, trial: str) -> int | None:
    """The iteration that has taken the try, and has no record; None before one has."""
    standing = load_standing(manifest)
    run_id = read_pending_run(repository.own) or standing.run_id
    for begun in under_way(manifest.runs, standing, run_id):
        stored = Checkpoints(manifest.runs / f"{begun.iteration:04d}", None, run_id, begun.follows).stored()
        if any(name.answer == "plan" and one.value.get("trial") == trial for name, one in stored.items()):
            return begun.iteration
    return None


def _of_writable_files(scope: Scope, differences: Sequence[Difference]) -> list[Difference]:
    def is_submodule(each: Difference) -> bool:
        return any(entry and entry.mode == SUBMODULE for entry in (each.before, each.after))

    return [each for each in differences if scope.kind(each.path) == "writable" and not is_submodule(each)]


def _undecided_error() -> GoalseekError:
    return GoalseekError("a try of this session is not decided yet", "goalseek wait shows its result", LOCKED)


def _shared_with(repository: Repository, tip: str | None) -> str:
    head = repository.head()
    if tip is None:
        return head
    shared = repository.git("merge-base", "--all", head, tip).decode().split()
    if not shared:
        message = "HEAD shares no commit with the climb"
        raise GoalseekError(message, f"git switch to a branch that does, for example {repository.branch}", BAD_FINDING)
    return shared[0]


def _ref(repository: Repository, kind: str, checkout: str) -> str:
    return f"refs/goalseek/{repository.name}/{kind}/{checkout}"
