"""A verifier: the pinned commands of a ruler, each run in its place, and what their exit codes mean."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from goalseek.manifest.tables import Manifest, VerifyCommand
from goalseek.phase_values import Failure, Side
from goalseek.sandbox.environment import program_environment
from goalseek.sandbox.pipes import Sink
from goalseek.sandbox.policy import ProgramAccess, SandboxPolicy
from goalseek.sandbox.supervisor import ProgramResult, Supervisor
from goalseek.values import CommandRun
from goalseek.workspace.bench import Bench
from goalseek.workspace.places import CachePaths

UNJUDGEABLE = 125
STOP_THE_RUN = 127
LEAST_AUTO_TIMEOUT = 60.0
_PRINTED_MOST = 4096


@dataclass(frozen=True)
class Verifier:
    """The pinned way to measure: commands and readings of ``manifest``, run on ``bench``.

    ``baseline_seconds`` are those of the baseline's commands, for ``timeout = "auto"``; empty for the baseline itself.
    The command named ``own_folder`` finds its run folder empty: no file of an earlier one can be taken for its own.
    ``refuse_changed`` raises GoalseekError where what the ruler comes from is not as it was pinned. ``turn`` is told
    which run of VERIFY begins, and of whom.
    """

    manifest: Manifest
    bench: Bench
    places: CachePaths
    programs: Supervisor
    confines: SandboxPolicy
    ruler: str
    baseline_tree: str
    baseline_seconds: Mapping[str, float] = field(default_factory=dict)
    own_folder: str = ""
    on_output: Callable[[bytes], None] | None = None
    waiting: Callable[[str], AbstractContextManager[object]] = contextlib.nullcontext
    refuse_changed: Callable[[], None] = lambda: None
    turn: Callable[[Side, int], None] = lambda of, place: None


def run_command(
    verifier: Verifier,
    command: VerifyCommand,
    root: Path,
    given: Mapping[str, str],
    timeout: float | None,
    log: Sink,
) -> ProgramResult:
    """Runs one command of the verifier in a tree that stands ready."""
    confines = verifier.confines
    below = confines.seen_at(root, root / verifier.places.prefix)
    project = {"GOALSEEK_PROJECT_ROOT": str(below).rstrip("/"), **given}
    temporary = verifier.places.scratch / "tmp"
    environment = program_environment(
        verifier.manifest.env.verify, {"PYTHONDONTWRITEBYTECODE": "1", **project}, temporary
    )
    arguments = ["sh", "-c", command.run] if isinstance(command.run, str) else list(command.run)
    log.write(
        f"$ {command.run if isinstance(command.run, str) else ' '.join(command.run)}\n".encode("utf-8", "replace")
    )
    try:
        ready = confines.launch(
            job_of(verifier, command, root), arguments, environment, root / verifier.places.prefix / command.cwd
        )
        finished = verifier.programs.run(
            ready.arguments,
            ready.folder,
            ready.environment,
            log,
            timeout,
            on_output=verifier.on_output,
            is_cage=ready.is_cage,
            restriction=ready.restriction,
        )
    except OSError as error:
        log.write(f"[cannot start: {error}]\n".encode("utf-8", "replace"))
        return ProgramResult(STOP_THE_RUN - 1, 0.0, False, 0, b"", str(error).encode("utf-8", "replace"))
    how = "timed out" if finished.timed_out else f"ended with {finished.exit_code}"
    log.write(f"[{command.name} {how} after {finished.seconds:.3f}s]\n".encode())
    return finished


def job_of(verifier: Verifier, command: VerifyCommand, root: Path, terminal: bool = False) -> ProgramAccess:
    """The place of a command of the verifier: its tree and the run folder, the devices, and its own caches."""
    return ProgramAccess(
        tree=root,
        commands=[command.run],
        cwd=command.cwd,
        writable=(verifier.places.run_folder(command.sees or "both"),),
        caches="ruler" if command.sees == "hidden" else "tree",
        devices=True,
        network=command.network,
        terminal=terminal,
    )


def timeout_of(command: VerifyCommand, baseline_seconds: Mapping[str, float]) -> float | None:
    """Seconds until a command is ended; None for no limit, as for the baseline under "auto"."""
    if command.timeout != "auto":
        return command.timeout if isinstance(command.timeout, float) else None
    if command.name not in baseline_seconds:
        return None
    return max(LEAST_AUTO_TIMEOUT, 3 * baseline_seconds[command.name])


def said_stop(manifest: Manifest, runs: Sequence[CommandRun]) -> bool:
    """Whether a command without candidate code ended with the exit code that stops the run."""
    sees = {command.name: command.sees for command in manifest.verify}
    return bool(runs) and runs[-1].exit_code == STOP_THE_RUN and sees.get(runs[-1].name) == "hidden"


def failure_of(command: VerifyCommand, finished: ProgramResult) -> Failure | None:
    """What the end of a command says of the candidate; None where it is well."""
    if finished.timed_out:
        return Failure("verify_timeout", f"{command.name} ran past its timeout", _printed(command, finished))
    if finished.exit_code == 0:
        return None
    if command.sees == "hidden" and finished.exit_code == UNJUDGEABLE:
        return Failure("unmeasurable", f"{command.name} says that this candidate cannot be judged")
    if command.sees == "hidden" and finished.exit_code == STOP_THE_RUN:
        return Failure("verify_failed", f"{command.name} says stop (exit code 127)")
    why = f"{command.name} ended with {finished.exit_code}{_last_line(finished)}"
    return Failure("verify_failed", why, _printed(command, finished))


def _printed(command: VerifyCommand, finished: ProgramResult) -> str:
    """The end of what a command printed that sees no hidden file; of any other, nothing: the agent is shown it."""
    if command.sees != "candidate":
        return ""
    printed = b"\n".join(filter(None, (finished.stdout.rstrip(), finished.stderr.rstrip())))
    return printed[-_PRINTED_MOST:].decode("utf-8", "replace")


def _last_line(finished: ProgramResult) -> str:
    text = (finished.stderr or finished.stdout).decode("utf-8", "replace").strip()
    last = text.rsplit("\n", 1)[-1].strip() if text else ""
    return f": {last[:200]}" if last else ""
