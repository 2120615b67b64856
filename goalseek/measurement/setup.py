"""``[setup]``: run once for each ruler on the baseline's tree; each measurement gets its own copy of what it gives."""

from __future__ import annotations

from pathlib import Path

from goalseek import files
from goalseek.errors import UNFIT, GoalseekError
from goalseek.git.paths import normal_path
from goalseek.manifest.tables import Setup, VerifyCommand
from goalseek.measurement.metric import NoNumber
from goalseek.measurement.verifier import Verifier, run_command
from goalseek.own_folders import clear, make_anew
from goalseek.sandbox.pipes import Sink

_SETUPS_MOST = 3


def prepare(verifier: Verifier, log: Sink) -> None:
    """Runs ``setup`` once for this ruler, on the baseline's tree without the hidden files.

    Raises NoNumber where it fails: nothing can be measured then.
    """
    setup = verifier.manifest.setup
    given = _given(verifier)
    if setup is None or given is None:
        return
    if (given / "done").exists():
        (given / "done").touch()
        return
    command = VerifyCommand(run=setup.run, name="setup", sees="candidate", network=setup.network)
    (verifier.places.scratch / "run").mkdir(parents=True, exist_ok=True)
    root = verifier.bench.sync_to("candidate", verifier.baseline_tree)
    finished = run_command(verifier, command, root, {}, setup.timeout, log)
    if finished.timed_out or finished.exit_code:
        how = "ran past its timeout" if finished.timed_out else f"ended with {finished.exit_code}"
        raise NoNumber("verify_failed", f"setup {how}")
    make_anew(given)
    for name in _paths(setup):
        try:
            files.copy_tree(root / verifier.places.prefix / name, given / "gives" / name)
        except (FileNotFoundError, NotADirectoryError):
            raise NoNumber("verify_failed", f"setup.gives: there is no folder {name} after setup") from None
    (given / "done").touch()
    _forget_old_setups(given.parent)


def give(verifier: Verifier, below: Path) -> None:
    """Puts a copy of what it gave into a tree, in place of what an earlier measurement left there."""
    given = _given(verifier)
    if given is None or verifier.manifest.setup is None:
        return
    for name in _paths(verifier.manifest.setup):
        files.copy_tree(given / "gives" / name, below / name)


def _paths(setup: Setup) -> tuple[str, ...]:
    """What setup gives. A ruler may have been pinned when a manifest could name any place. Raises GoalseekError."""
    for path in setup.gives:
        try:
            normal_path(path)
        except ValueError as error:
            hint = "mend setup.gives in the manifest; then goalseek baseline adopts it"
            raise GoalseekError(f"the pinned setup.gives: {error}", hint, UNFIT, "repository") from None
    return setup.gives


def _given(verifier: Verifier) -> Path | None:
    """Where it is; a build folder is bound to its path, so that each bench has its own where trees are not mounted."""
    if verifier.manifest.setup is None:
        return None
    bench = "" if verifier.confines.mounts else f"-{verifier.bench.folder.name}"
    return verifier.places.setup / f"{verifier.ruler[:16]}{bench}"


def _forget_old_setups(folder: Path) -> None:
    """Of what ``setup`` gave for other rulers, only what was used last stays; it can be made again."""
    made = [path for path in folder.iterdir() if (path / "done").exists()]
    for path in sorted(made, key=lambda path: (path / "done").stat().st_mtime_ns)[:-_SETUPS_MOST]:
        clear(path)
