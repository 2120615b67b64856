"""Notes on how well each verify command is isolated from the candidate that it judges."""

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from goalseek.doctor.project_checks import Subject, is_time_unclear
from goalseek.git.ignore import matcher
from goalseek.manifest import exposure
from goalseek.manifest.command_words import parse_command
from goalseek.manifest.tables import TIME_SOURCES, Guard, Manifest, Metric, Reading, VerifyCommand
from goalseek.values import Finding
from goalseek.workspace.answers import answer_notes, hidden_paths

_TEST_RUNNERS = ("pytest", "py.test", "unittest")
_TEST_FILE = re.compile(r"(^|/)(test_[^/]*|[^/]*_test)\.py$")
READ_HIDDEN = 'read the number from a command that sees = "hidden" and recomputes it from `outputs`'


def check_separation(subject: Subject) -> Iterator[Finding]:
    if not is_time_unclear(subject.project.loaded):
        yield from describe_separation(subject.config.manifest, _hidden_files(subject))


def describe_separation(manifest: Manifest, hidden: Mapping[str, Path]) -> Iterator[Finding]:
    """The files that each command sees, numbers that the candidate's own process reports, and gaps of the isolation.

    The remedy is "" if nothing can be better. ``hidden`` maps tree paths to files on disk.
    """
    timed, started = exposure.timed_program(manifest), exposure.started_outputs
    before: list[str] = []  # the outputs of the commands before
    for command in manifest.commands:
        name = command.name
        if name in exposure.exposing_commands(manifest):
            pass
        elif command == timed:
            text = f"{name}: runs the candidate's program beside the hidden files, which it can read"
            check = exposure.later_check(manifest, command)
            checked = f", and the command {check} checks its output" if check else ""
            yield Finding("good", f"{text}; its time is the score{checked}")
        elif command.sees != "hidden":
            yield Finding("good", f"{name}: runs the candidate, without the hidden files")
        elif before:
            text = f"sees only outputs ({', '.join(before)}) and hidden files: none of the candidate's code"
            yield Finding("good", f"{name}: {text}")
        else:
            text = f"{name}: sees nothing of the candidate, not even outputs: it cannot judge it"
            yield Finding("note", text, "name its input in the outputs of an earlier command")
        yield from _self_reports(manifest, command)
        if command.keep:
            text = f"{name}: a candidate is measured with the files of the one before in {', '.join(command.keep)}"
            yield Finding("note", text, "take out keep; setup.gives gives each measurement a copy of its own")
        if command.network:
            text = f"{name}: has the network: it can fetch an answer, and send files out"
            yield Finding("note", text, "take out network; let setup fetch what is needed")
        before += command.outputs if command.sees != "hidden" or before else ()
    runners = {command.name: started(manifest, command) for command in manifest.commands if command != timed}
    programs = set().union(*runners.values())
    if timed and programs and programs.isdisjoint(started(manifest, timed) | exposure.named_paths(timed, hidden)):
        text = f"{timed.name}: its own time is the score, and it does not run {' or '.join(sorted(programs))}"
        names = " or ".join(f'metric.command = "{name}"' for name, own in runners.items() if own)
        yield Finding("note", text, f"time the program itself: {names}")


def check_exposure(subject: Subject) -> Iterator[Finding]:
    """Candidate code cannot read what judges it, and the output of a timed program is judged."""
    config, folder = subject.config, subject.project.folder
    yield from exposure.exposures(config.manifest)
    if not is_time_unclear(subject.project.loaded) and (finding := exposure.unchecked_time(config.manifest)):
        yield finding
    yield from answer_notes(folder, config.manifest, config.scope.prefix, _hidden_files(subject), subject.entries)


def _hidden_files(subject: Subject) -> dict[str, Path]:
    config = subject.config
    prefix = config.scope.prefix
    return hidden_paths(subject.project.folder, config.manifest, prefix, config.trees.hidden_from, subject.entries)


def self_reported_score(manifest: Manifest) -> Finding | None:
    command = _source_of(manifest, manifest.metric)
    return next((one for one in _self_reports(manifest, command) if one.remedy), None) if command else None


def hidden_tests(command: VerifyCommand, hidden: Sequence[str], paths: Collection[str]) -> tuple[str, ...]:
    """The globs that hide every test of the committed ``paths`` from a Python test runner; else none."""
    tests = [path for path in paths if _TEST_FILE.search(path)]
    is_runner = any(posixpath.basename(word) in _TEST_RUNNERS for word in parse_command(command.run).plain)
    if command.sees != "candidate" or not is_runner or not all(map(matcher(tuple(hidden)), tests)):
        return ()
    return tuple(pattern for pattern in hidden if any(map(matcher((pattern,)), tests)))


def cheat_remedy(manifest: Manifest) -> str:
    metric, command = manifest.metric, _source_of(manifest, manifest.metric)
    if metric.source in TIME_SOURCES:
        text = "keep a checksum of the answer, not the answer, beside the timed program; and hide its input"
        is_checked = command is None or command.sees != "candidate" or exposure.later_check(manifest, command)
        return text if is_checked else f"{exposure.CHECK_OUTPUT}; {text}"
    if command is None or command.sees == "candidate":
        what = "file" if metric.source == "json" else "output"
        remedy = f"{metric.name} is read from the candidate's own {what}: {READ_HIDDEN}"
    elif command.sees == "both":
        remedy = f"{command.name} sees hidden files and candidate code together: {exposure.SPLIT}"
    else:
        remedy = f"{command.name} trusts its `outputs`: recompute the number from them, and refuse odd ones"
    if metric.valid is None:
        return f"{remedy}; give metric.valid, the lowest and the highest number that can be true"
    return f"{remedy}; narrow metric.valid, or add a [[guard]] on what the cheat lets slip"


def _self_reports(manifest: Manifest, command: VerifyCommand) -> Iterator[Finding]:
    if command.sees == "hidden":
        return
    readings = [reading for reading in (manifest.metric, *manifest.guard) if _source_of(manifest, reading) == command]
    for reading in readings if command.sees == "candidate" else ():  # of "both" it is said already
        what = f"guard {reading.name}" if isinstance(reading, Guard) else "score"
        if reading.source in TIME_SOURCES:
            text = f"{command.name}'s run time is its {what}"
            if check := exposure.later_check(manifest, command):
                yield Finding("good", f"{text}, and the command {check} checks what it left")
            elif isinstance(reading, Guard):  # of the score it is told by unchecked_time
                yield Finding("note", f"{text}: the code decides how much it does in that time", exposure.CHECK_OUTPUT)
            walls = [guard.command for guard in manifest.guard if guard.source == "wall"]
            if reading.source == "cpu" and command.name not in walls:
                text = f"{command.name}: very short processes that nobody waits for are not in its processor time"
                remedy = f'add a [[guard]] with source = "wall" and command = "{command.name}": it counts them'
                yield Finding("note", text, remedy)
        else:
            verb = "writes" if reading.source == "json" else "prints"
            yield Finding("note", f"{command.name} {verb} its own {what}: self-reported", READ_HIDDEN)
    if not readings and not command.outputs:
        text = f"{command.name}: its success is an exit code, and candidate code can end the process with any"
        remedy = 'let it leave a report in `outputs`, and a command that sees = "hidden" read a [[guard]] from it'
        yield Finding("note", text, remedy)


_READ_FROM = {
    "json": "{0.query} in {0.path} of the command {0.command}",
    "stdout": "/{0.regex}/ in the output of the command {0.command}",
    "stderr": "/{0.regex}/ in the stderr of the command {0.command}",
    "wall": "wall time of the command {0.command}",
    "cpu": "processor time of the command {0.command} and its children",
}


def describe_reading(reading: Reading) -> str:
    """The source of a number, as ``wall time of the command check``."""
    has_cases = isinstance(reading, Metric) and reading.cases
    number = "the mean of {0.cases}" if has_cases else "{0.query}"
    return _READ_FROM[reading.source or "json"].replace("{0.query}", number).format(reading)


def _source_of(manifest: Manifest, reading: Reading) -> VerifyCommand | None:
    if reading.source == "json":  # of commands that hand this file on, the last wrote it
        for command in reversed(manifest.commands):
            if command.sees != "hidden" and matcher(command.outputs)(reading.path):
                return command
    return next((command for command in manifest.commands if command.name == reading.command), None)
