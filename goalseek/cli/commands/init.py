"""``goalseek init``: a manifest from a few answers, after one measurement; or a complete example to start from.

The answers come from flags, from questions at a terminal, or from guesses by file names (``--yes``).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import asdict, replace

from goalseek.cli.commands.demo import begin_with_template, commit_command, data_folder, templates
from goalseek.cli.interview import (
    MAY_BE_EMPTY,
    Interview,
    anchored,
    candidate_command,
    committed_files,
    free_branch_prefix,
    guess_outputs,
    parse_globs,
    parse_reading,
    timed_command,
)
from goalseek.cli.options import refuse, start_folder
from goalseek.cli.output import YES, ask_person, print_message
from goalseek.cli.watch import line_view
from goalseek.doctor import first_manifest
from goalseek.doctor.first_manifest import Answers, NotMeasured, WrongAnswer, guess_answers
from goalseek.doctor.isolation import describe_reading, hidden_tests, self_reported_score
from goalseek.errors import GoalseekError, Interrupted, exit_code_of_interrupt
from goalseek.evaluation.measurements import MeasuredValue
from goalseek.files import write_atomic
from goalseek.git.ignore import matcher
from goalseek.git.location import locate
from goalseek.git.paths import folder_prefix
from goalseek.git.repository import Repository
from goalseek.humanize import format_duration, format_number
from goalseek.manifest.exposure import EXPOSED, unchecked_time
from goalseek.manifest.loading import ManifestFile, with_manifest_option
from goalseek.providers.registry import TUNE_ADVICE, advise_provider
from goalseek.workspace.scope import manifest_scope

_PROGRAM = "program.md"
_PROGRAM_PROPOSES = """\
For a program of yours (goalseek help providers), put these lines at the end of the manifest, then goalseek iterate:
[provider]
name = "command"
command = ["python3", "propose.py"]"""


def answers_in_flags(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The fields of the answers that flags give."""
    given: dict[str, Any] = {"provider": options.provider} if options.provider else {}
    timed = timed_command(options.score or "")
    for key, text in (("run", options.command), ("timing", timed), ("score", not timed and options.score)):
        if text:
            given[key] = "" if text == "none" else first_manifest.with_own_python(text, folder)
    for key in ("writable", "hidden"):
        if (globs := getattr(options, key)) is not None:
            given[key] = () if key in MAY_BE_EMPTY and globs == ["none"] else tuple(globs)
    return given | reading_in_flags(options)


def first_answers(
    options: argparse.Namespace, path: Path, is_left: bool, given: dict[str, Any], interview: Interview
) -> Answers:
    """The answers to measure by first: those of a manifest that was left, or of flags, guesses and a person.

    Without ``--yes`` or a terminal, flags alone count.
    """
    if is_left:
        return replace(first_manifest.answers_in(path), **given)
    guess, asks = guess_answers(path.parent, interview.paths), _asks(options)
    if not (options.yes or asks):
        return replace(Answers(guess.name), **given)
    if not asks and {"run", "timing", "score"} & given.keys():
        guess = replace(guess, run="", score="", outputs=())
    if "query" in given:
        guess = replace(guess, direction="", query="", regex="")
    answers = replace(guess, **given)
    if "hidden" not in given:
        unfit = {*answers.writable, *hidden_tests(candidate_command(answers), answers.hidden, interview.paths)}
        answers = replace(answers, hidden=tuple(glob for glob in answers.hidden if glob not in unfit))
    answers = replace(answers, branch_prefix=free_branch_prefix(path.parent, answers.branch_prefix, asks))
    return interview.ask_all(answers, given) if asks else answers


def complete_answers(answers: Answers, folder: Path, paths: list[str]) -> Answers:
    """The answers with what follows from them. Raises WrongAnswer naming the flags that are missing or do not fit."""
    for question in ("writable", "hidden"):
        for pattern in getattr(answers, question):
            try:
                parse_globs(f'"{pattern.removeprefix("!")}"', paths, folder)
            except GoalseekError as error:
                raise WrongAnswer(question, error.message, error.hint) from None
    if answers.timing:
        answers = replace(answers, direction=answers.direction or "minimize")
    if not answers.outputs and first_manifest.takes_outputs(answers):
        named = guess_outputs("outputs", asdict(answers), paths) if answers.run else answers.writable
        answers = replace(answers, outputs=named)
    answers = replace(answers, writable=tuple(anchored(pattern, paths) for pattern in answers.writable))
    if first_manifest.names_hidden(answers.run, answers.hidden) and answers.sees != "both":
        message = f"goalseek init: {answers.run} is hidden, and candidate code would run beside the hidden files"
        hint = "give the command that runs the candidate by --run, and this one by --score"
        both = 'leave --hidden out, and add it to the manifest, with sees = "both" in [[verify]]'
        raise WrongAnswer("run", message, f"{hint}; or, where candidate code may read them, {both}")
    required = {
        "--writable": ("writable", answers.writable),
        "--run or --score": ("score", answers.run or answers.timing or answers.score),
        "--metric": ("reading", answers.timing or (answers.direction and (answers.query or answers.regex))),
    }
    if missing := [(flag, question) for flag, (question, value) in required.items() if not value]:
        message = f"goalseek init: give {', '.join(flag for flag, _ in missing)}"
        raise WrongAnswer(missing[0][1], message, "goalseek init --help says what they are")
    return answers


def _asks(options: argparse.Namespace) -> bool:
    return sys.stdin.isatty() and not options.yes


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``init`` takes."""
    parser.add_argument("--yes", action="store_true", help="ask nothing: take what the files suggest")
    parser.add_argument("--template", metavar="T", help="begin with a complete example: " + ", ".join(templates()))
    parser.add_argument("--writable", metavar="GLOB", action="append", help="what the agent may change; repeatable")
    parser.add_argument("--hidden", metavar="GLOB", action="append", help="what the agent never sees; repeatable")
    parser.add_argument("--run", dest="command", metavar="CMD", help="the command that runs or builds the candidate")
    score = "the command that scores or checks, with the hidden files; or time CMD, whose run time is the number"
    parser.add_argument("--score", metavar="CMD", help=score)
    metric = "how the number is read: 'maximize accuracy', or 'minimize /loss: ([0-9.]+)/' in what is printed"
    parser.add_argument("--metric", metavar="M", help=metric)
    parser.add_argument("--provider", metavar="P", help="who proposes the changes")
    parser.epilog = (
        "In init, --query is a JMESPath in $GOALSEEK_RUN_DIR/metrics.json: the metric. Edit the rest in the manifest; "
        "one without a number yet is measured again by goalseek init."
    )


def run(options: argparse.Namespace) -> int:
    """Gets the answers, measures once, and leaves the manifest, whether there is a number or not."""
    folder, name = start_folder(options), options.manifest
    if options.template:
        return begin_with_template(options, folder)
    is_path = name and ("/" in name or name.endswith(".toml"))
    path = (folder / name).resolve() if is_path else folder / (f"goalseek.{name}.toml" if name else "goalseek.toml")
    is_left = path.exists() and first_manifest.UNMEASURED in path.read_text("utf-8", "replace")
    refuse((path.exists() and not is_left, f"{path} is there already", "edit it, or: goalseek -m NAME init"))
    paths = committed_files(path.parent)
    interview = Interview(path.parent, paths)
    given = answers_in_flags(options, path.parent)
    try:
        answers = first_answers(options, path, is_left, given, interview)
        loaded, measurement = _measure_until_number(options, path, answers, interview)
    except (KeyboardInterrupt, Interrupted) as error:
        if path.exists():
            raise
        raise GoalseekError("interrupted; nothing was written", "", exit_code_of_interrupt(error)) from None
    try:
        program = write_program(path.parent) if _asks(options) else None
    except (KeyboardInterrupt, Interrupted) as error:
        message, hint = f"interrupted; {path} is written", with_manifest_option("next: goalseek doctor", path)
        raise GoalseekError(message, hint, exit_code_of_interrupt(error)) from None
    metric = loaded.manifest.metric
    if options.json:
        fields = {"value": measurement.value, "seconds": measurement.seconds}
        print(json.dumps({"manifest": str(path), "metric": metric.name, **fields}))
        return 0
    value, duration = format_number(measurement.value, metric.unit), format_duration(measurement.seconds)
    print(f"{metric.name} = {value}, in {duration}: the number to {metric.direction}, {describe_reading(metric)}")
    print(f"written: {path}")
    if (note := self_reported_score(loaded.manifest)) and not unchecked_time(loaded.manifest):
        print(f"note: {note}")
    if program:
        print(f"written: {program}: fill it in; an agent reads it with every prompt, as it stands on disk")
    files = [os.path.relpath(file, folder) for file in (path, program, *_uncommitted_writable_files(loaded)) if file]
    print(f"next: {with_manifest_option(next_steps(loaded, interview.paths, files), path)}")
    return 0


def _measure_until_number(
    options: argparse.Namespace, path: Path, answers: Answers, interview: Interview
) -> tuple[ManifestFile, MeasuredValue]:
    """Measures, and leaves the manifest without a number too. At a terminal asks again what was wrong, until it has."""
    while True:
        try:
            answers = complete_answers(answers, path.parent, interview.paths)
        except WrongAnswer as error:
            if not _asks(options):
                raise
            print_message(options, f"{error.message}\n  {error.hint}\n  Answer again.")
            answers = interview.ask_again(error.question, answers)
            continue
        if options.yes:
            hidden = " ".join(answers.hidden) or "nothing"
            print_message(options, f"may change: {' '.join(answers.writable)}; hidden: {hidden}")
        if answers.sees == "both" and answers.hidden:
            print_message(options, f"{EXPOSED}: the command that runs it sees both")
        plain = first_manifest.manifest_table(answers)
        loaded = first_manifest.check_manifest(path, plain)
        commands = "; ".join(command for command in (answers.run, answers.timing, answers.score) if command)
        interrupted = GoalseekError("the measurement was interrupted", "goalseek init")
        write_atomic(path, first_manifest.manifest_text(plain, interrupted))
        try:
            first_manifest.refuse_missing_outputs(answers)
            print_message(options, f"measuring once: {commands}")
            measurement = first_manifest.measure_first(loaded, line_view(options))
            write_atomic(path, first_manifest.manifest_text(plain, None))
            return loaded, measurement
        except GoalseekError as error:
            text = first_manifest.manifest_text(plain, error)
            write_atomic(path, text)
            print_message(options, f"{path} is written; a comment in it says what is wrong")
            if not (isinstance(error, NotMeasured) and _asks(options)):
                raise
            print_message(options, f"{error.message}\n  {error.hint}\n  Answer again, or correct it first.")
            answers = interview.ask_again(error.question, replace(answers, share=(*answers.share, *error.share)))
            if path.read_text("utf-8") != text:  # edited meanwhile
                answers = first_manifest.answers_in(path)


def reading_in_flags(options: argparse.Namespace) -> dict[str, str]:
    """Direction, query, regex and the metric's name, as far as flags give them; query and regex together."""
    query, metric = options.query or "", options.metric or ""
    if re.match(r"(maximi|minimi)[sz]e[\s:]", metric):
        direction, its_query, regex, name = parse_reading(metric)
        name = name or its_query
        query, regex = (query, "") if query else (its_query, regex)
    else:
        direction, regex, name, query = "", "", metric, query or metric
    given = {"query": query, "regex": regex} if query or regex else {}
    return given | {key: value for key, value in (("direction", direction), ("metric", name)) if value}


def write_program(folder: Path) -> Path | None:
    """Writes the page for agents where there is none and a person wants it."""
    path = folder / _PROGRAM
    question = f"    write {_PROGRAM}? An agent reads there what you know and it cannot see. yes or no"
    if path.exists() or ask_person(question, "yes", str.lower) not in YES:
        return None
    path.write_bytes((data_folder("fixtures") / "templates" / _PROGRAM).read_bytes())
    return path


def _uncommitted_writable_files(loaded: ManifestFile) -> list[Path]:
    """The writable files whose changes are not in HEAD, from which a climb begins."""
    location = locate(loaded.folder)
    scope = manifest_scope(loaded, loaded.manifest, folder_prefix(location.top, loaded.folder))
    with contextlib.closing(Repository(location, "init")) as repository:
        changed = [path for _, path in repository.changed_files()]
    return [location.top / path for path in changed if scope.kind(path) == "writable"]


def next_steps(loaded: ManifestFile, paths: Sequence[str], new_files: Iterable[str]) -> str:
    """What is to be done before the first climb; ``paths`` are the committed files below the manifest's folder."""
    commit = f"{commit_command(new_files)}, then "
    if loaded.manifest.provider:
        return f"{commit}goalseek doctor, then goalseek iterate"
    files = (loaded.folder / path for path in filter(matcher(loaded.manifest.scope.writable), paths))
    advice = advise_provider(file.read_bytes() for file in files if file.is_file())
    if advice == TUNE_ADVICE:
        return f"{commit}goalseek doctor, then {advice}"
    return f"{commit}goalseek doctor, then say who proposes: {advice}.\n{_PROGRAM_PROPOSES}"
