"""One measurement: the verify commands in order, each in the tree that it may see, and the numbers they leave."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from goalseek import outputs, sandbox
from goalseek.bench import Bench
from goalseek.beneath import clear, open_beneath
from goalseek.capture import Sink
from goalseek.confines import Confines, Job
from goalseek.fresh import RunFolder, Stale
from goalseek.full_disk import refuse_full
from goalseek.globs import matcher
from goalseek.listing import few
from goalseek.manifest import Manifest, Reading, VerifyCommand
from goalseek.metric import NoNumber, finite, from_json, from_text
from goalseek.places import Places
from goalseek.programs import Finished, Programs
from goalseek.quoting import quote_path
from goalseek.values import CommandRun, Failure

UNJUDGEABLE = 125
STOP_THE_RUN = 127
LEAST_AUTO_TIMEOUT = 60.0
_PRINTED_MOST = 4096
_ARTIFACTS_MOST = 256 * 2**20
_SETUPS_MOST = 3


@dataclass(frozen=True)
class Sample:
    """What one measurement gave: a value and guards, or a failure; ``seconds`` is the commands' time together."""

    value: float | None
    guards: dict[str, float]
    verify: tuple[CommandRun, ...]
    seed: int
    seconds: float
    failure: Failure | None = None


@dataclass(frozen=True)
class Verifier:
    """The pinned way to measure: commands and readings of ``manifest``, run on ``bench``.

    ``baseline_seconds`` are those of the baseline's commands, for ``timeout = "auto"``; empty for the baseline itself.
    ``refuse_changed`` raises GoalseekError where what the ruler comes from is not as it was pinned.
    """

    manifest: Manifest
    bench: Bench
    places: Places
    programs: Programs
    confines: Confines
    ruler: str
    baseline_tree: str
    baseline_seconds: Mapping[str, float] = field(default_factory=dict)
    on_output: Callable[[bytes], None] | None = None
    waiting: Callable[[str], AbstractContextManager[object]] = contextlib.nullcontext
    refuse_changed: Callable[[], None] = lambda: None


def measure(verifier: Verifier, tree: str, seed: int, iteration: int, log: Sink, artifacts: Path | None) -> Sample:
    """Measures a tree once. What the commands wrote into their run folder ends in ``artifacts``.

    Raises GoalseekError, ``tampered``, where the ruler is not as it was pinned, before or after, and OSError where a
    measurement failed and the disk is full.
    """
    verifier.refuse_changed()
    verifier.bench.refuse_other_ruler(verifier.baseline_tree, tree)
    run_folder, kept_outputs = verifier.places.scratch / "run", verifier.places.outputs
    fresh = RunFolder.make(run_folder)
    clear(kept_outputs)
    kept_outputs.mkdir(parents=True)
    stale: dict[str, str] = {}
    ended: dict[str, Finished] = {}
    runs: list[CommandRun] = []
    failure = None
    for command in verifier.manifest.verify:
        finished = _run(verifier, command, tree, seed, iteration, log, run_folder, kept_outputs)
        ended[command.name] = finished
        runs.append(CommandRun(command.name, finished.exit_code, round(finished.seconds, 6), finished.killed))
        failure = (
            _failure(command, finished)
            or _touched(verifier, command)
            or _take_outputs(verifier, command, tree, kept_outputs, fresh, stale)
        )
        if failure:
            break
    seconds = round(sum(run.seconds for run in runs), 6)
    value, guards = None, {}
    if failure is None:
        try:
            value = _read(verifier.manifest.metric, fresh, kept_outputs, stale, ended)
            guards = {guard.name: _read(guard, fresh, kept_outputs, stale, ended) for guard in verifier.manifest.guard}
        except NoNumber as nothing:
            value, guards = None, {}
            failure = Failure(nothing.reason, nothing.why)
    verifier.refuse_changed()
    if artifacts is not None:
        clear(artifacts)
        try:
            outputs.take(run_folder, artifacts, None, _ARTIFACTS_MOST)
        except FileNotFoundError:
            log.write(b"[the run folder is gone]\n")
        except outputs.TooMuch as error:
            log.write(f"[the run folder was not kept whole: {error}]\n".encode())
    if failure:
        for folder in filter(Path.is_dir, (run_folder, kept_outputs)):  # what the candidate itself filled the disk with
            clear(folder)
            folder.mkdir()
        refuse_full(verifier.places.scratch)
    return Sample(value, guards, tuple(runs), seed, seconds, failure)


def is_in_place(verifier: Verifier) -> bool:
    """Whether bench and run folder are still there after a measurement: both are in a cache that anybody may empty."""
    return verifier.bench.is_whole() and (verifier.places.scratch / "run").is_dir()


def run_command(
    verifier: Verifier,
    command: VerifyCommand,
    root: Path,
    given: Mapping[str, str],
    timeout: float | None,
    log: Sink,
) -> Finished:
    """Runs one command of the verifier in a tree that stands ready."""
    confines = verifier.confines
    below = confines.seen_at(root, root / verifier.places.prefix)
    project = {"GOALSEEK_PROJECT_ROOT": str(below).rstrip("/"), **given}
    temporary = verifier.places.scratch / "tmp"
    environment = sandbox.environment(
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
        finished = verifier.programs.supervise(
            ready.arguments,
            ready.folder,
            ready.environment,
            log,
            timeout,
            on_output=verifier.on_output,
            is_cage=ready.is_cage,
        )
    except OSError as error:
        log.write(f"[cannot start: {error}]\n".encode("utf-8", "replace"))
        return Finished(STOP_THE_RUN - 1, 0.0, False, 0, b"", str(error).encode("utf-8", "replace"))
    how = "timed out" if finished.timed_out else f"ended with {finished.exit_code}"
    log.write(f"[{command.name} {how} after {finished.seconds:.3f}s]\n".encode())
    return finished


def job_of(verifier: Verifier, command: VerifyCommand, root: Path, terminal: bool = False) -> Job:
    """The place of a command of the verifier: its tree and the run folder, the devices, and its own caches."""
    return Job(
        tree=root,
        commands=[command.run],
        cwd=command.cwd,
        writable=(verifier.places.scratch / "run",),
        caches="ruler" if command.sees == "hidden" else "tree",
        devices=True,
        network=command.network,
        terminal=terminal,
    )


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
    root = verifier.bench.stand_at("candidate", verifier.baseline_tree)
    finished = run_command(verifier, command, root, {}, setup.timeout, log)
    if finished.timed_out or finished.exit_code:
        how = "ran past its timeout" if finished.timed_out else f"ended with {finished.exit_code}"
        raise NoNumber("verify_failed", f"setup {how}")
    clear(given)
    given.mkdir(parents=True)
    for name in setup.gives:
        source = root / verifier.places.prefix / name
        if not source.is_dir() or source.is_symlink():
            raise NoNumber("verify_failed", f"setup.gives: there is no folder {name} after setup")
        outputs.copy_tree(source, given / "gives" / name)
    (given / "done").touch()
    _forget_old_setups(given.parent)


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


def _given(verifier: Verifier) -> Path | None:
    return verifier.places.setup / verifier.ruler[:16] if verifier.manifest.setup else None


def _forget_old_setups(folder: Path) -> None:
    """Of what ``setup`` gave for other rulers, only what was used last stays; it can be made again."""
    made = [path for path in folder.iterdir() if (path / "done").exists()]
    for path in sorted(made, key=lambda path: (path / "done").stat().st_mtime_ns)[:-_SETUPS_MOST]:
        clear(path)


def _run(
    verifier: Verifier,
    command: VerifyCommand,
    tree: str,
    seed: int,
    iteration: int,
    log: Sink,
    run_folder: Path,
    kept_outputs: Path,
) -> Finished:
    assert command.sees is not None
    root = verifier.bench.stand_at(command.sees, tree)
    below = root / verifier.places.prefix
    given = _given(verifier)
    if given is not None and command.sees != "hidden" and verifier.manifest.setup:
        for name in verifier.manifest.setup.gives:
            clear(below / name)
            outputs.copy_tree(given / "gives" / name, below / name)
    kept_outputs.mkdir(parents=True, exist_ok=True)
    outputs.take(kept_outputs, below, None, 2**63)
    variables = {
        "GOALSEEK_RUN_DIR": str(run_folder),
        "GOALSEEK_ITERATION": str(iteration),
        "GOALSEEK_SEED": str(seed),
    }
    return run_command(verifier, command, root, variables, timeout_of(command, verifier.baseline_seconds), log)


def _failure(command: VerifyCommand, finished: Finished) -> Failure | None:
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


def _printed(command: VerifyCommand, finished: Finished) -> str:
    """The end of what a command printed that sees no hidden file; of any other, nothing: the agent is shown it."""
    if command.sees != "candidate":
        return ""
    printed = b"\n".join(filter(None, (finished.stdout.rstrip(), finished.stderr.rstrip())))
    return printed[-_PRINTED_MOST:].decode("utf-8", "replace")


def _last_line(finished: Finished) -> str:
    text = (finished.stderr or finished.stdout).decode("utf-8", "replace").strip()
    last = text.rsplit("\n", 1)[-1].strip() if text else ""
    return f": {last[:200]}" if last else ""


def _touched(verifier: Verifier, command: VerifyCommand) -> Failure | None:
    """Candidate code in one tree with the ruler may write there: then no number of that tree counts."""
    if command.sees != "both":
        return None
    prefix, setup = verifier.places.prefix, verifier.manifest.setup
    given = matcher(tuple("/" + name.strip("/") for name in setup.gives)) if setup else lambda path: False
    touched = [path for path in verifier.bench.touched(command.sees) if not given(path.removeprefix(prefix))]
    if not touched:
        return None
    named = few([quote_path(path) for path in touched])
    why = f"{command.name} changed files that are not the candidate's, while it was measured: {named}"
    return Failure("verify_failed", f"{why}; files that it may write go into scope.generated")


def _take_outputs(
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
        return matches(path) and not verifier.bench.is_of_ruler(sees, prefix + path)

    try:
        taken = outputs.take(below, kept_outputs, is_wanted, command.output_max)
    except outputs.TooMuch as error:
        return Failure("verify_failed", f"{command.name}: {error}; raise its output_max")
    except FileNotFoundError:
        return Failure("verify_failed", f"{command.name} left no tree to take outputs from")
    for path, found in taken.items():
        if verifier.bench.is_taken(tree, prefix + path):
            return Failure("verify_failed", f"{command.name}: its output {quote_path(path)} is not its own to make")
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


def _read(
    reading: Reading, fresh: RunFolder, kept_outputs: Path, stale: Mapping[str, str], ended: Mapping[str, Finished]
) -> float:
    if reading.source == "wall":
        return finite(reading.name, ended[reading.command].seconds)
    if reading.source in ("stdout", "stderr"):
        raw = ended[reading.command].stdout if reading.source == "stdout" else ended[reading.command].stderr
        return from_text(reading, raw.decode("utf-8", "replace"))
    try:
        with open(_opened(reading.path, fresh, kept_outputs, stale), encoding="utf-8", errors="replace") as file:
            return from_json(reading, file.read(), is_lines=reading.path.endswith(".jsonl"))
    except Stale as told:
        why = f"{reading.name}: {reading.path} was not made by this measurement: {told}"
    except OSError:
        why = f"{reading.name}: the verifier wrote no {reading.path}"
    raise NoNumber("no_metric", why)


def _opened(path: str, fresh: RunFolder, kept_outputs: Path, stale: Mapping[str, str]) -> int:
    """A descriptor of the file that a number is read from. Raises OSError where there is none, Stale for another's."""
    try:
        return fresh.open(path)
    except OSError:
        descriptor = open_beneath(kept_outputs, path)
    if why := stale.get(path):
        os.close(descriptor)
        raise Stale(why)
    return descriptor
