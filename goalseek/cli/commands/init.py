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
from dataclasses import replace
from pathlib import Path
from typing import Any

from goalseek.cli.commands.demo import begin_with_template, commit_command, data_folder, templates
from goalseek.cli.interview import (
    MAY_BE_EMPTY,
    Interview,
    american,
    anchored,
    committed_files,
    free_branch_prefix,
    parse_globs,
    parse_name,
    parse_reading,
    run_command,
)
from goalseek.cli.options import refuse, start_folder
from goalseek.cli.output import YES, ask, print_message
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
from goalseek.manifest.exposure import EXPOSED, unchecked_note
from goalseek.manifest.loading import ManifestFile, with_manifest_option
from goalseek.project.paths import refuse_name_of_other_folder
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
    flags = {**vars(options), "run": options.command, "name": options.name and parse_name(options.name)}
    given: dict[str, Any] = {key: flags[key] for key in "name provider sees branch_prefix".split() if flags[key]}
    for key in ("run", "timing", "score"):
        if flags[key]:
            given[key] = "" if flags[key] == "none" else first_manifest.with_own_python(flags[key], folder)
    for key in ("writable", "hidden", "outputs", "timing_outputs", "share"):
        if flags[key] is not None:
            given[key] = () if key in MAY_BE_EMPTY and flags[key] == ["none"] else tuple(flags[key])
    return given | reading_in_flags(options)


def first_answers(options: argparse.Namespace, folder: Path, paths: list[str], given: dict[str, Any]) -> Answers:
    """The answers that flags and guesses give together: without ``--yes`` or a terminal, flags alone."""
    guess = guess_answers(folder, paths)
    if not (options.yes or _asks(options)):
        return replace(Answers(guess.name), **given)
    if not _asks(options) and {"run", "timing", "score", "outputs"} & given.keys():
        guess = replace(guess, run="", score="", outputs=())
    if "query" in given:
        guess = replace(guess, direction="", query="", regex="")
    answers = replace(guess, **given)
    if "hidden" not in given:
        unfit = {*answers.writable, *hidden_tests(run_command(answers), answers.hidden, paths)}
        answers = replace(answers, hidden=tuple(glob for glob in answers.hidden if glob not in unfit))
    return answers


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
    last = answers.timing or answers.score
    takes_outputs = bool(last) and (not answers.timing or first_manifest.names_hidden(last, answers.hidden))
    if takes_outputs and not (answers.run or answers.outputs):
        answers = replace(answers, outputs=answers.writable)
    answers = replace(answers, writable=tuple(anchored(pattern, paths) for pattern in answers.writable))
    if first_manifest.names_hidden(answers.run, answers.hidden) and answers.sees != "both":
        message = f"goalseek init: {answers.run} is hidden, and candidate code would run beside the hidden files"
        hint = "give the command that runs the candidate by --run and --outputs, and this one by --score"
        raise WrongAnswer("run", message, f"{hint}; or, where candidate code may read them, --sees both")
    is_checked = bool(answers.timing and answers.score)
    required = {
        "--writable": ("writable", answers.writable),
        "--run, --time or --score": ("score", answers.run or answers.timing or answers.score),
        "--outputs": ("outputs", answers.outputs or not (answers.run and takes_outputs)),
        "--time-outputs": ("timing_outputs", answers.timing_outputs or not is_checked),
        "--direction": ("reading", answers.direction),
        "--query or --regex": ("reading", answers.query or answers.regex or answers.timing),
    }
    if missing := [(flag, question) for flag, (question, value) in required.items() if not value]:
        message = f"goalseek init: give {', '.join(flag for flag, _ in missing)}"
        raise WrongAnswer(missing[0][1], message, "goalseek init --help says what they are")
    if (answers.outputs and not last) or (answers.timing_outputs and not is_checked):
        raise WrongAnswer("score", "goalseek init: no command takes these outputs", "give the one that does: --score")
    return answers


def _asks(options: argparse.Namespace) -> bool:
    return sys.stdin.isatty() and not options.yes


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``init`` takes."""
    parser.add_argument("--yes", action="store_true", help="ask nothing: take what the files suggest")
    parser.add_argument("--template", metavar="T", help="begin with a complete example: " + ", ".join(templates()))
    parser.add_argument("--name", metavar="NAME", help="the project's name: a-z, 0-9 and - (default: the folder's)")
    parser.add_argument("--writable", metavar="GLOB", action="append", help="what the agent may change; repeatable")
    parser.add_argument("--hidden", metavar="GLOB", action="append", help="what the agent never sees; repeatable")
    parser.add_argument("--share", metavar="PATH", action="append", help="what git ignores and runs need; repeatable")
    parser.add_argument("--run", dest="command", metavar="CMD", help="the command that runs or builds the candidate")
    parser.add_argument("--outputs", metavar="GLOB", action="append", help="what --run leaves for the next command")
    parser.add_argument("--time", dest="timing", metavar="CMD", help="the command whose run time is the number")
    outputs = "what --time leaves for --score"
    parser.add_argument("--time-outputs", dest="timing_outputs", metavar="GLOB", action="append", help=outputs)
    parser.add_argument("--score", metavar="CMD", help="the command that scores or checks, with the hidden files")
    parser.add_argument("--metric", metavar="NAME", help="the metric's name, or 'maximize accuracy'")
    parser.add_argument("--regex", metavar="R", help="for what it prints, with one group: 'accuracy: ([0-9.]+)'")
    parser.add_argument("--direction", type=american, choices=("maximize", "minimize"), help="which way is better")
    parser.add_argument("--sees", choices=("candidate", "hidden", "both"), help="what --run sees (default: candidate)")
    parser.add_argument("--provider", metavar="P", help="who proposes the changes")
    parser.add_argument("--branch-prefix", metavar="P", help="what the name of goalseek's branch begins with")
    parser.add_argument("--program", action="store_true", help="write program.md too, which tells an agent what to do")
    parser.epilog = "In init, --query is a JMESPath in $GOALSEEK_RUN_DIR/metrics.json: the metric, in place of --regex."


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
    if "name" in given and not is_left:
        refuse_name_of_other_folder(given["name"], path.parent)
    try:
        answers = _first_answers_of(options, path, is_left, given, interview)
        loaded, measurement = _measure(options, path, answers, interview)
    except (KeyboardInterrupt, Interrupted) as error:
        if path.exists():
            raise
        raise GoalseekError("interrupted; nothing was written", "", exit_code_of_interrupt(error)) from None
    try:
        program = write_program(path.parent, options.program, _asks(options))
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
    if (note := self_reported_score(loaded.manifest)) and not unchecked_note(loaded.manifest):
        print(f"note: {note}")
    if program:
        print(f"written: {program}: fill it in; an agent reads it with every prompt, as it stands on disk")
    files = [os.path.relpath(file, folder) for file in (path, program, *_uncommitted_writable_files(loaded)) if file]
    print(f"next: {with_manifest_option(next_steps(loaded, interview.paths, files), path)}")
    return 0


def _first_answers_of(
    options: argparse.Namespace, path: Path, is_left: bool, given: dict[str, Any], interview: Interview
) -> Answers:
    """The answers to measure by first: those of a manifest that was left, or of flags, guesses and a person."""
    if is_left:
        answers = first_manifest.answers_in(path)
        if "share" in given:
            given["share"] = tuple(dict.fromkeys((*answers.share, *given["share"])))
        return replace(answers, **given)
    answers = first_answers(options, path.parent, interview.paths, given)
    if not (_asks(options) or (options.yes and "branch_prefix" not in given)):
        return answers
    answers = replace(answers, branch_prefix=free_branch_prefix(path.parent, answers.branch_prefix, _asks(options)))
    return interview.ask_all(answers, given) if _asks(options) else answers


def _measure(
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
        print_message(options, f"measuring once: {commands}")
        try:
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
    query, regex, direction, name = (getattr(options, key) or "" for key in ("query", "regex", "direction", "metric"))
    if query and regex:
        raise GoalseekError("goalseek init: --query or --regex, not both", "a number is read in one way")
    if re.match(r"(maximize|minimize)[\s:]", american(name)):
        its_direction, its_query, pattern, its_name = parse_reading(name)
        direction, name = direction or its_direction, its_name or its_query
        query, regex = (query, regex) if query or regex else (its_query, pattern)
    elif name and not regex:
        query = query or name
    given = {"query": query, "regex": regex} if query or regex else {}
    return given | {key: value for key, value in (("direction", direction), ("metric", name)) if value}


def write_program(folder: Path, is_wanted: bool, asks: bool) -> Path | None:
    """Writes the page for agents where it is wanted and there is none."""
    path = folder / _PROGRAM
    question = f"    write {_PROGRAM}? An agent reads there what you know and it cannot see. yes or no"
    if path.exists() or not (is_wanted or (asks and ask(question, "yes", str.lower) in YES)):
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
