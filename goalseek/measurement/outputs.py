"""Output files of verify commands: those handed on to later commands, and those of commands with ``once = true``.

What a ``once`` command wrote is copied into later measurements of the same tree on its bench. The copy lies in the
bench's folder, so that it goes with the bench; no command can write there.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from goalseek import disk
from goalseek.disk import recreate_folder, remove_if_exists, write_atomic
from goalseek.git.ignore import matcher
from goalseek.git.paths import quote_path
from goalseek.manifest.tables import Manifest, VerifyCommand
from goalseek.measurement.metric import NoNumber, RunFolder
from goalseek.measurement.verifier import Verifier
from goalseek.values import Reason

_NO_LIMIT = 2**63
Facts = Mapping[str, tuple[int, int]]
Kind = Literal["both", "hidden"]
KINDS: tuple[Kind, ...] = ("both", "hidden")


class OnceFiles(Struct, frozen=True):
    """The stored files of the commands with ``once = true``, for one tree under one ruler (``label``).

    ``numbers`` are the guards read from what they printed or their times; None until all of them have run.
    """

    folder: Path
    label: str
    numbers: dict[str, float] | None = None
    facts: dict[tuple[Kind, str], tuple[int, int]] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        """Whether they need not be run again."""
        return self.numbers is not None

    def give(self, run_folders: Mapping[Kind, Path], kept_outputs: Path) -> None:
        """Copies the stored files to where the commands had written them."""
        for kind, run_folder in run_folders.items():
            for path in disk.copy_regular_files(self.folder / kind, run_folder, None, _NO_LIMIT):
                os.utime(run_folder / path)  # as if it had just been written: it is of this measurement
        disk.copy_regular_files(self.folder / "outputs", kept_outputs, None, _NO_LIMIT)

    def take(self, command: VerifyCommand, kind: Kind, run_folder: Path, before: Facts, kept_outputs: Path) -> None:
        """Stores what a command wrote: files of its run folder that differ from ``before``, and its outputs."""
        changed = {path: facts for path, facts in file_facts(run_folder).items() if before.get(path) != facts}
        self.facts.update({(kind, path): facts for path, facts in changed.items()})
        disk.copy_regular_files(run_folder, self.folder / kind, changed.__contains__, _NO_LIMIT)
        if command.outputs:
            disk.copy_regular_files(kept_outputs, self.folder / "outputs", matcher(command.outputs), _NO_LIMIT)

    def is_unchanged(self, path: str, kind: Kind, run_folder: Path) -> bool:
        """Whether a file of a run folder was written by one of these commands, and not changed since."""
        facts = self.facts.get((kind, path))
        return facts is not None and file_facts(run_folder).get(path) == facts

    def finish(self, numbers: Mapping[str, float]) -> None:
        """Records durably that all of them have run."""
        stored = {"label": self.label, "numbers": dict(numbers)}
        write_atomic(self.folder / "done.json", json.dumps(stored), durable=True)


def open_once_files(manifest: Manifest, folder: Path, label: str) -> OnceFiles | None:
    """The store for this label, emptied if it was for another; None if no command runs once."""
    if not any(command.once for command in manifest.commands):
        return None
    stored = disk.read_object(folder / "done.json")
    if stored.get("label") == label and "numbers" in stored:
        return OnceFiles(folder, label, stored["numbers"])
    recreate_folder(folder)
    for name in (*KINDS, "outputs"):
        (folder / name).mkdir()
    return OnceFiles(folder, label)


def file_facts(folder: Path) -> dict[str, tuple[int, int]]:
    """Inode and modification time in nanoseconds of the regular files below a folder, by path."""
    statuses = {path: (folder / path).lstat() for path in disk.regular_files(folder)}
    return {path: (status.st_ino, status.st_mtime_ns) for path, status in statuses.items()}


def collect_outputs(
    verifier: Verifier, command: VerifyCommand, tree: str, fresh: RunFolder, stale: dict[str, str]
) -> None:
    """Copies the files that the command hands on. ``stale`` gets those that this measurement did not write, and why.

    Raises NoNumber where one is missing, too large, or not the command's to make.
    """
    assert command.sees is not None
    if not command.outputs:
        return
    bench, prefix, sees, matches = verifier.bench, verifier.places.prefix, command.sees, matcher(command.outputs)

    def is_wanted(path: str) -> bool:
        is_there_anyhow = bench.is_of_ruler(sees, prefix + path) or bench.is_bytecode(tree, prefix + path)
        return matches(path) and not is_there_anyhow

    def refusal(why: str) -> NoNumber:
        return NoNumber(Reason.VERIFY_FAILED, f"{command.name}{why}")

    below = bench.root_for(sees) / prefix
    try:
        copied = disk.copy_regular_files(below, verifier.places.outputs, is_wanted, command.output_max)
    except disk.SizeExceeded as error:
        raise refusal(f": {error}; raise its output_max") from None
    except (FileNotFoundError, NotADirectoryError):
        raise refusal(" left no tree to take outputs from") from None
    for path, status in copied.items():
        if bench.would_shadow_ruler(tree, prefix + path):
            raise refusal(f": its output {quote_path(path)} is not its own to make")
        for part, why in bench.output_hazards(tree, prefix + path):
            if not any(part in pattern.split("/") and matcher((pattern,))(path) for pattern in command.outputs):
                remedy = f"list {quote_path(part)} in its outputs if it is wanted"
                raise refusal(f": its output {quote_path(path)}: {why}; {remedy}")
        stale.pop(path, None)
        if why := fresh.stale_reason(status):
            stale[path] = why
        elif bench.is_untouched(sees, prefix + path):
            stale[path] = "it is as it was committed"
    for pattern in command.outputs:
        if not any(map(matcher((pattern,)), copied)):
            raise refusal(f" left no output {pattern}")


OUTPUTS = "outputs"


def move_outputs(source: Path, folder: Path) -> None:
    """Moves the outputs of a measurement into the run folder, where they stay until the verdict."""
    remove_if_exists(folder / OUTPUTS)
    if not source.is_dir() or not any(source.iterdir()):
        return
    try:
        source.rename(folder / OUTPUTS)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        disk.copy_regular_files(source, folder / OUTPUTS, None, _NO_LIMIT)
        remove_if_exists(source)
