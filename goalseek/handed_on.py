"""What a command hands on to later ones: its ``outputs``, as long as they are its own to make."""

from __future__ import annotations

from pathlib import Path

from goalseek import files
from goalseek.fresh import RunFolder
from goalseek.git.ignore import matcher
from goalseek.git.paths import quote_path
from goalseek.manifest.tables import VerifyCommand
from goalseek.phase_values import Failure
from goalseek.verifier import Verifier


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
    below = verifier.bench.root(command.sees) / verifier.places.prefix
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
        if verifier.bench.is_taken(tree, prefix + path):
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
