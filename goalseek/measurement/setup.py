"""``[setup]``: run once for each ruler, on the baseline's tree; each measurement gets a copy of what it gives."""

from __future__ import annotations

from pathlib import Path

from goalseek import disk
from goalseek.disk import recreate_folder, remove_if_exists
from goalseek.errors import GoalseekError
from goalseek.git.paths import normalize_path
from goalseek.manifest.tables import Setup, VerifyCommand
from goalseek.measurement.metric import NoNumber
from goalseek.measurement.verifier import Verifier, run_command
from goalseek.sandbox.supervisor import Sink
from goalseek.values import Reason, StopReason

_SETUPS_LIMIT = 3


def run_setup(verifier: Verifier, log: Sink) -> None:
    """Runs ``setup`` once for this ruler, on the baseline's tree without the hidden files.

    Raises NoNumber if it fails: nothing can be measured then.
    """
    setup, stored = verifier.manifest.setup, _storage(verifier)
    if setup is None:
        return
    if (stored / "done").exists():
        (stored / "done").touch()
        return
    command = VerifyCommand(run=setup.run, name="setup", sees="candidate", network=setup.network, timeout=setup.timeout)
    (verifier.places.scratch / "run").mkdir(parents=True, exist_ok=True)
    root = verifier.bench.sync_to("candidate", verifier.baseline_tree)
    result = run_command(verifier, command, root, {}, log)
    if result.timed_out or result.exit_code:
        how = "ran past its timeout" if result.timed_out else f"ended with {result.exit_code}"
        raise NoNumber(Reason.VERIFY_FAILED, f"setup {how}")
    recreate_folder(stored)
    for name in _given_paths(setup):
        try:
            disk.copy_tree(root / verifier.places.prefix / name, stored / "gives" / name)
        except (FileNotFoundError, NotADirectoryError):
            raise NoNumber(Reason.VERIFY_FAILED, f"setup.gives: there is no folder {name} after setup") from None
    (stored / "done").touch()
    complete = [path for path in stored.parent.iterdir() if (path / "done").exists()]
    for path in sorted(complete, key=lambda path: (path / "done").stat().st_mtime_ns)[:-_SETUPS_LIMIT]:
        remove_if_exists(path)  # it can be made again


def copy_given_folders(verifier: Verifier, below: Path) -> None:
    """Copies the folders that setup gave into a tree, in place of what an earlier measurement left there."""
    if setup := verifier.manifest.setup:
        for name in _given_paths(setup):
            disk.copy_tree(_storage(verifier) / "gives" / name, below / name)


def _given_paths(setup: Setup) -> tuple[str, ...]:
    """The folders that setup gives. Raises GoalseekError for one outside of the project.

    A ruler may have been pinned when a manifest could still name any path.
    """
    for path in setup.gives:
        try:
            normalize_path(path)
        except ValueError as error:
            hint = "correct setup.gives in the manifest; then goalseek baseline adopts it"
            raise GoalseekError(f"the pinned setup.gives: {error}", hint, StopReason.REPOSITORY) from None
    return setup.gives


def _storage(verifier: Verifier) -> Path:
    # A build folder is bound to its path, so each bench has its own where trees are not mounted.
    bench = "" if verifier.confines.mounts else f"-{verifier.bench.folder.name}"
    return verifier.places.setup / f"{verifier.ruler[:16]}{bench}"
