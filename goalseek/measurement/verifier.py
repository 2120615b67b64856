"""The verifier: a ruler's pinned commands, how each is run on the bench, and what its exit code means."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from msgspec import Struct, structs

from goalseek import disk
from goalseek.errors import GoalseekError
from goalseek.git.paths import normalize_path
from goalseek.humanize import abbreviate, format_duration
from goalseek.manifest.tables import Manifest, Setup, VerifyCommand
from goalseek.measurement.metric import NoNumber
from goalseek.sandbox.environment import program_environment
from goalseek.sandbox.policy import ProgramAccess, SandboxPolicy
from goalseek.sandbox.supervisor import ProgramResult, Sink, Supervisor
from goalseek.sandbox.view import Terminal
from goalseek.values import CommandRun, Reason, StopReason
from goalseek.workspace.bench import Bench
from goalseek.workspace.places import CachePaths

UNJUDGEABLE = 125
STOP_THE_RUN = 127
LEAST_AUTO_TIMEOUT = 60.0
_OUTPUT_LIMIT = 4096
_SETUPS_LIMIT = 3
_SUMMARY = re.compile(r"WARNING\b|[a-z][\w.+-]*: ")  # "sha256sum: WARNING: 1 computed checksum did NOT match"
_ERROR = re.compile(r"error:|Error(?! \d)")  # make's "Error 2" only says that there was one
_FAILED_TEST = re.compile(  # as pytest and unittest, Go, TAP, GoogleTest, Rust, CTest and Unity print it
    r"FAILED [^( ]|FAIL: \S|--- FAIL: |not ok \d|\[  FAILED  \] [A-Za-z_]\w*\.|test \S+ \.\.\. FAILED"
    r"|\d+ - .+ \([A-Z][\w ]+\)$|\S+:\d+:\w+:FAIL"
)


class Verifier(Struct, frozen=True):
    """How to measure: the pinned commands and readings of ``manifest``, run on ``bench``.

    ``baseline_seconds`` are wall times by command, for ``timeout = "auto"``; empty for the baseline itself.
    ``refuse_changed`` raises GoalseekError if a source of the ruler outside the repository is not as it was pinned.
    ``turn`` is called with role and number of a run that begins, and what is known. ``pause`` waits a moment, by
    ``time.sleep`` or another ``wait``. ``slot`` counts benches from 0.
    """

    manifest: Manifest
    bench: Bench
    places: CachePaths
    programs: Supervisor
    confines: SandboxPolicy
    ruler: str
    baseline_tree: str
    baseline_seconds: Mapping[str, float]
    on_output: Callable[[bytes], None]
    waiting: Callable[[str], AbstractContextManager[object]]
    pause: Callable[..., None]
    refuse_changed: Callable[[], None]
    turn: Callable[[str, int, str], None]
    slot: int


def run_command(
    verifier: Verifier, command: VerifyCommand, root: Path, variables: Mapping[str, str], log: Sink
) -> ProgramResult:
    """A program that cannot be started is a result with exit code 126, not an exception."""
    arguments = ["sh", "-c", command.run] if isinstance(command.run, str) else list(command.run)
    log.write(f"$ {command.text}\n".encode("utf-8", "replace"))

    def on_output(chunk: bytes) -> None:
        log.write(chunk)
        verifier.on_output(chunk)

    readings = (verifier.manifest.metric, *verifier.manifest.guard)
    watches_cpu = any(reading.source == "cpu" and reading.command == command.name for reading in readings)
    try:
        access, environment = access_for(verifier, command, root), environment_for(verifier, root, variables)
        if asked := variables.get("GOALSEEK_CASES"):
            access = structs.replace(access, readable=(Path(asked),))
        folder = root / verifier.places.prefix / command.cwd
        launch = verifier.confines.launch(access, arguments, environment, folder)
        launch = structs.replace(launch, watches_cpu=watches_cpu)
        result = verifier.programs.run(launch, on_output, timeout_of(command, verifier.baseline_seconds))
    except OSError as error:
        log.write(f"[cannot start: {error}]\n".encode("utf-8", "replace"))
        return ProgramResult(STOP_THE_RUN - 1, 0.0, False, 0, b"", str(error).encode("utf-8", "replace"))
    how = "timed out" if result.timed_out else f"ended with {result.exit_code}"
    log.write(f"[{command.name} {how} after {result.seconds:.3f}s]\n".encode())
    return result


def environment_for(verifier: Verifier, root: Path, variables: Mapping[str, str]) -> dict[str, str]:
    below = str(verifier.confines.seen_at(root, root / verifier.places.prefix)).rstrip("/")
    own = {"PYTHONDONTWRITEBYTECODE": "1", "GOALSEEK_SLOT": str(verifier.slot)}
    own |= {"GOALSEEK_PROJECT_ROOT": below, **variables}
    return program_environment(verifier.manifest.env.verify, own, verifier.places.scratch / "tmp")


def access_for(verifier: Verifier, command: VerifyCommand, root: Path, terminal: Terminal = "") -> ProgramAccess:
    return ProgramAccess(
        tree=root,
        commands=[command.run],
        cwd=command.cwd,
        writable=(verifier.places.run_folders["hidden" if command.sees == "hidden" else "both"],),
        caches="ruler" if command.sees == "hidden" else "tree",
        devices=True,
        network=command.network,
        terminal=terminal,
    )


def timeout_of(command: VerifyCommand, baseline_seconds: Mapping[str, float]) -> float | None:
    """In seconds; None for no limit, as for the baseline under "auto"."""
    if command.timeout != "auto":
        return command.timeout if isinstance(command.timeout, float) else None
    if command.name not in baseline_seconds:
        return None
    return max(LEAST_AUTO_TIMEOUT, 3 * baseline_seconds[command.name])


def has_stop_code(manifest: Manifest, runs: Sequence[CommandRun]) -> bool:
    """Whether a command without candidate code ended with the exit code that stops the run."""
    sees = {command.name: command.sees for command in manifest.commands}
    return bool(runs) and runs[-1].exit_code == STOP_THE_RUN and sees.get(runs[-1].name) == "hidden"


def refuse_failed(verifier: Verifier, command: VerifyCommand, result: ProgramResult) -> None:
    """Raises NoNumber with what the command's end means for the candidate, unless it succeeded."""
    if result.exit_code == 0 and not result.timed_out:
        return
    printed = b""
    if command.sees == "candidate":  # the agent is shown this
        printed = b"\n".join(filter(None, (result.stdout.rstrip(), result.stderr.rstrip())))[-_OUTPUT_LIMIT:]
    shown = printed.decode("utf-8", "replace")
    if result.timed_out:
        limit = format_duration(timeout_of(command, verifier.baseline_seconds) or result.seconds)
        how = ' (timeout = "auto")' if command.timeout == "auto" else ""
        raise NoNumber(Reason.VERIFY_TIMEOUT, f"{command.name} took over {limit}{how}", shown)
    if command.sees == "hidden" and result.exit_code == UNJUDGEABLE:
        raise NoNumber(Reason.UNMEASURABLE, f"{command.name} says that this candidate cannot be judged")
    if command.sees == "hidden" and result.exit_code == STOP_THE_RUN:
        raise NoNumber(Reason.VERIFY_FAILED, f"{command.name} says stop (exit code 127)")
    raise NoNumber(Reason.VERIFY_FAILED, f"{command.name} ended with {result.exit_code}{_last_line(result)}", shown)


def _last_line(result: ProgramResult) -> str:
    """The failed tests that a command named, else its last line with an error, or the last line of all.

    If a program only sums up in that line, the line before is there too. Marks below a line of code do not count.
    """
    lines = [line.strip() for line in (result.stdout + b"\n" + result.stderr).decode("utf-8", "replace").splitlines()]
    lines = [line for line in lines if line.strip("|^~ \t")]
    if tests := list(dict.fromkeys(line[:200] for line in lines if _FAILED_TEST.match(line))):
        return f": {abbreviate(tests)}"
    errors = [index for index, line in enumerate(lines) if _ERROR.search(line)]
    last = lines[: errors[-1] + 1 if errors else None][-2:]
    if last and not (_SUMMARY.match(last[-1]) and result.exit_code not in (STOP_THE_RUN - 1, STOP_THE_RUN)):
        last = last[-1:]
    return f": {' | '.join(line[:200] for line in last)}" if last else ""


def run_setup(verifier: Verifier, log: Sink) -> None:
    """Once for this ruler, on the baseline's tree without the hidden files. Raises NoNumber."""
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
    disk.recreate_folder(stored)
    for name in _given_paths(setup):
        try:
            disk.copy_tree(root / verifier.places.prefix / name, stored / "gives" / name)
        except (FileNotFoundError, NotADirectoryError):
            raise NoNumber(Reason.VERIFY_FAILED, f"setup.gives: there is no folder {name} after setup") from None
    (stored / "done").touch()
    complete = [path for path in stored.parent.iterdir() if (path / "done").exists()]
    for path in sorted(complete, key=lambda path: (path / "done").stat().st_mtime_ns)[:-_SETUPS_LIMIT]:
        disk.remove_if_exists(path)  # it can be made again


def copy_given_folders(verifier: Verifier, below: Path) -> None:
    """Replaces what an earlier measurement left there."""
    if setup := verifier.manifest.setup:
        for name in _given_paths(setup):
            disk.copy_tree(_storage(verifier) / "gives" / name, below / name)


def _given_paths(setup: Setup) -> tuple[str, ...]:
    """Raises GoalseekError for a path outside of the project: old rulers could be pinned with any."""
    for path in setup.gives:
        try:
            normalize_path(path)
        except ValueError as error:
            hint = "correct setup.gives in the manifest; then goalseek baseline adopts it"
            raise GoalseekError(f"the pinned setup.gives: {error}", hint, StopReason.REPOSITORY) from None
    return setup.gives


def _storage(verifier: Verifier) -> Path:
    # A build folder is bound to its path, so each bench has its own unless trees are mounted.
    bench = "" if verifier.confines.mounts else f"-{verifier.bench.folder.name}"
    return verifier.places.setup / f"{verifier.ruler[:16]}{bench}"
