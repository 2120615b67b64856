"""``once = true``: what such a command left is given again to the later measurements of the same tree on its bench.

It lies in the bench's folder, so that it goes with the bench; no command can write there.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from goalseek import files
from goalseek.files import write_durably
from goalseek.git.ignore import matcher
from goalseek.git.paths import quote_path
from goalseek.manifest.tables import Manifest, Reading, VerifyCommand
from goalseek.measurement.metric import RunFolder
from goalseek.measurement.verifier import Verifier
from goalseek.own_folders import clear, make_anew
from goalseek.phase_values import Failure

_ALL = 2**63
Facts = Mapping[str, tuple[int, int]]
Kind = Literal["both", "hidden"]
KINDS: tuple[Kind, ...] = ("both", "hidden")


@dataclass(frozen=True)
class OnceLeft:
    """What the commands that run once have left for one tree under one ruler.

    ``numbers`` are the readings of their output and times; None until all of them were run.
    """

    folder: Path
    label: str
    numbers: dict[str, float] | None = None
    made: dict[tuple[Kind, str], tuple[int, int]] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        """Whether they need not be run again."""
        return self.numbers is not None

    def give(self, run_folders: Mapping[Kind, Path], kept_outputs: Path) -> None:
        """Puts what they left where they put it."""
        for kind, run_folder in run_folders.items():
            for path in files.take(self.folder / kind, run_folder, None, _ALL):
                os.utime(run_folder / path)  # as if it had just been written: it is of this measurement
        files.take(self.folder / "outputs", kept_outputs, None, _ALL)

    def take(self, command: VerifyCommand, kind: Kind, run_folder: Path, before: Facts, kept_outputs: Path) -> None:
        """Takes what a command has just left: files of its run folder that were not so ``before``, and its outputs."""
        made = {path: facts for path, facts in facts_of(run_folder).items() if before.get(path) != facts}
        self.made.update({(kind, path): facts for path, facts in made.items()})
        files.take(run_folder, self.folder / kind, made.__contains__, _ALL)
        if command.outputs:
            files.take(kept_outputs, self.folder / "outputs", matcher(command.outputs), _ALL)

    def is_as_left(self, path: str, kind: Kind, run_folder: Path) -> bool:
        """Whether a file of a run folder was written by one of them, and by nobody after."""
        made = self.made.get((kind, path))
        return made is not None and facts_of(run_folder).get(path) == made

    def finish(self, numbers: Mapping[str, float]) -> None:
        """Says durably that all of them were run."""
        told = {"label": self.label, "numbers": dict(numbers)}
        write_durably(self.folder / "done.json", json.dumps(told).encode())


def once_left(manifest: Manifest, folder: Path, label: str) -> OnceLeft | None:
    """What is there for this label, emptied where it was for another; None where no command runs once."""
    if not any(command.once for command in manifest.verify):
        return None
    try:
        told = json.loads((folder / "done.json").read_bytes())
        if told["label"] == label:
            return OnceLeft(folder, label, told["numbers"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    make_anew(folder)
    for name in (*KINDS, "outputs"):
        (folder / name).mkdir()
    return OnceLeft(folder, label)


def reads_once(manifest: Manifest, reading: Reading) -> bool:
    """Whether a number is of the output or the time of a command that runs once."""
    named = {command.name for command in manifest.verify if command.once}
    return reading.source != "json" and reading.command in named


def facts_of(folder: Path) -> dict[str, tuple[int, int]]:
    """The regular files below a folder: inode and time, by path."""
    found = {path: (folder / path).lstat() for path in files.regular_files(folder)}
    return {path: (facts.st_ino, facts.st_mtime_ns) for path, facts in found.items()}


def take_outputs(
    verifier: Verifier,
    command: VerifyCommand,
    tree: str,
    kept_outputs: Path,
    fresh: RunFolder,
    stale: dict[str, str],
) -> Failure | None:
    """Takes what the command hands on. ``stale`` gets the files that no command of this measurement made, and why."""
    assert command.sees is not None
    below = verifier.bench.root_for(command.sees) / verifier.places.prefix
    if not command.outputs:
        return None
    prefix, sees, matches = verifier.places.prefix, command.sees, matcher(command.outputs)

    def is_wanted(path: str) -> bool:
        whole = prefix + path
        is_there_anyhow = verifier.bench.is_of_ruler(sees, whole) or verifier.bench.is_bytecode(tree, whole)
        return matches(path) and not is_there_anyhow

    try:
        taken = files.take(below, kept_outputs, is_wanted, command.output_max)
    except files.TooMuch as error:
        return Failure("verify_failed", f"{command.name}: {error}; raise its output_max")
    except (FileNotFoundError, NotADirectoryError):
        return Failure("verify_failed", f"{command.name} left no tree to take outputs from")
    for path, found in taken.items():
        if verifier.bench.would_shadow_ruler(tree, prefix + path):
            return Failure("verify_failed", f"{command.name}: its output {quote_path(path)} is not its own to make")
        for part, why in verifier.bench.hijacks(tree, prefix + path):
            if not any(part in pattern.split("/") and matcher((pattern,))(path) for pattern in command.outputs):
                remedy = f"list {quote_path(part)} in its outputs if it is wanted"
                return Failure("verify_failed", f"{command.name}: its output {quote_path(path)}: {why}; {remedy}")
        stale.pop(path, None)
        if why := fresh.why_stale(found):
            stale[path] = why
        elif verifier.bench.is_untouched(command.sees, prefix + path):
            stale[path] = "it is as it was committed"
    for pattern in command.outputs:
        is_there = matcher((pattern,))
        if not any(is_there(path) for path in taken):
            return Failure("verify_failed", f"{command.name} left no output {pattern}")
    return None


OUTPUTS = "outputs"


def put_outputs(source: Path, folder: Path) -> None:
    """Moves the outputs of a measurement into the run folder, where they wait for the verdict."""
    clear(folder / OUTPUTS)
    if not source.is_dir() or not any(source.iterdir()):
        return
    try:
        source.rename(folder / OUTPUTS)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        files.take(source, folder / OUTPUTS, None, 2**63)
        clear(source)
