"""Notes on how well each verify command is isolated from the candidate that it judges."""

from __future__ import annotations

from collections.abc import Iterator

from goalseek.git.ignore import matcher
from goalseek.manifest.tables import Guard, Manifest, Reading, VerifyCommand
from goalseek.project.preflight import CheckResult

SPLIT = (
    'split it: a command that sees = "candidate" runs the code and leaves `outputs`, '
    'one that sees = "hidden" scores them'
)
READ_HIDDEN = 'read the number from a command that sees = "hidden" and recomputes it from `outputs`'


def isolation_notes(manifest: Manifest) -> Iterator[CheckResult]:
    """What each command sees, which numbers the candidate's own process reports, and what weakens the isolation.

    Nothing has to be mended; the remedy is "" where nothing can be better.
    """
    outputs: list[str] = []
    for command in manifest.verify:
        yield _separation(command, outputs)
        yield from _self_reports(manifest, command)
        yield from _weaknesses(command)
        outputs += command.outputs if command.sees != "hidden" else ()
    if manifest.sandbox.cache:
        caches = ", ".join(manifest.sandbox.cache)
        text = f"sandbox.cache: what one candidate writes into {caches}, the next is measured with"
        yield _note(text, "leave it out where a number could be left there")


def _note(text: str, remedy: str = "") -> CheckResult:
    return CheckResult("isolation", True, text, remedy)


def cheat_remedy(manifest: Manifest) -> str:
    """What to change where a cheat won."""
    command = _source_of(manifest, manifest.metric)
    if command is None or command.sees == "candidate":
        remedies = [f"{manifest.metric.name} is read from the candidate's own {_place(manifest.metric)}: {READ_HIDDEN}"]
    elif command.sees == "both":
        remedies = [f"{command.name} sees hidden files and candidate code together: {SPLIT}"]
    else:
        remedies = [
            f"{command.name} believes what `outputs` say: recompute the number from them, and refuse what is odd"
        ]
    if manifest.metric.valid is None:
        remedies.append("give metric.valid, the lowest and the highest number that can be true")
    else:
        remedies.append("narrow metric.valid, or add a [[guard]] on what the cheat lets slip")
    return "; ".join(remedies)


def _separation(command: VerifyCommand, outputs: list[str]) -> CheckResult:
    if command.sees == "both":
        text = "hidden files and candidate code in one process: anything the code can reach, it can read"
        return _note(f"{command.name}: {text}", SPLIT)
    if command.sees == "candidate":
        return _note(f"{command.name}: runs the candidate, without the hidden files")
    if outputs:
        text = f"sees only outputs ({', '.join(outputs)}) and hidden files: none of the candidate's code"
        return _note(f"{command.name}: {text}")
    text = "sees nothing of the candidate, not even outputs: it cannot judge it"
    return _note(f"{command.name}: {text}", "name what it needs in the outputs of a command before it")


def _self_reports(manifest: Manifest, command: VerifyCommand) -> Iterator[CheckResult]:
    """Notes on numbers that the candidate's own process reports, and on success that is only its exit code."""
    if command.sees == "hidden":
        return
    readings = [reading for reading in (manifest.metric, *manifest.guard) if _source_of(manifest, reading) == command]
    for reading in readings:
        if command.sees == "both":
            continue  # said already: the code can reach what judges it
        what = "score" if not isinstance(reading, Guard) else f"guard {reading.name}"
        if reading.source == "wall":
            text = f"{command.name}'s run time is its {what}: the code decides how much it does in that time"
            remedy = 'let a command that sees = "hidden" check in its `outputs` that all of it was done'
            yield _note(text, remedy)
            continue
        verb = "writes" if reading.source == "json" else "prints"
        text = f"{command.name} {verb} its own {what}: self-reported"
        yield _note(text, READ_HIDDEN)
    if not readings and not command.outputs:
        text = f"{command.name}: its success is an exit code, and candidate code can end the process with any"
        remedy = 'let it leave a report in `outputs`, and a command that sees = "hidden" read a [[guard]] from it'
        yield _note(text, remedy)


def _weaknesses(command: VerifyCommand) -> Iterator[CheckResult]:
    if command.keep:
        text = f"{command.name}: what one candidate leaves in {', '.join(command.keep)}, the next is measured with"
        yield _note(text, "take out keep; setup.gives gives each measurement a copy of its own")
    if command.network:
        text = f"{command.name}: has the network: it can fetch an answer, and tell what it saw"
        yield _note(text, "take out network; let setup fetch what is needed")


def _source_of(manifest: Manifest, reading: Reading) -> VerifyCommand | None:
    """The command that a number comes from; for a file in ``outputs``, the last command with it."""
    if reading.source == "json":
        for command in reversed(manifest.verify):
            if command.sees != "hidden" and matcher(command.outputs)(reading.path):
                return command
    return next((command for command in manifest.verify if command.name == reading.command), None)


def _place(reading: Reading) -> str:
    return {"json": "file", "wall": "run time"}.get(reading.source or "", "output")
