"""``goalseek init``: a manifest from a few answers, after one measurement; or a complete example to start from.

The answers come from flags, from questions at a terminal, or from guesses by file names (``--yes``).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from goalseek.cli.commands.demo import (
    begin_with_template,
    committed_files,
    free_branch_prefix,
    next_steps,
    templates,
    write_program,
)
from goalseek.cli.options import refuse, start_folder
from goalseek.cli.output import (
    CONSENT,
    PREFIX,
    QUESTIONS,
    YES,
    american,
    ask,
    format_globs,
    guess_outputs,
    parse_globs,
    parse_name,
    parse_reading,
    print_message,
    read_command,
    reading_in_flags,
)
from goalseek.cli.watch import line_view
from goalseek.doctor import first_manifest
from goalseek.doctor.first_manifest import Answers, NotMeasured, WrongAnswer, guess_answers
from goalseek.doctor.isolation import describe_reading, scorer_to_hide
from goalseek.errors import GoalseekError, Interrupted, exit_code_of_interrupt
from goalseek.evaluation.measurements import MeasuredValue
from goalseek.files import write_atomic
from goalseek.humanize import format_duration, format_number
from goalseek.manifest.loading import ManifestFile, with_manifest_option

_TIME = re.compile("((run|wall)_?)?time")
_NONE = ("hidden", "share")  # what may be empty


class Interview:
    """The questions to a person at a terminal. ``paths`` are the committed files below the manifest's folder."""

    def __init__(self, folder: Path, paths: list[str]) -> None:
        self._folder = folder
        self.paths = paths
        self._is_time_offered = False

    def ask_all(self, answers: Answers, given: dict[str, Any]) -> Answers:
        """Asks each question whose answer is not ``given``; ``answers`` has the defaults."""
        is_given = {"score": {"score", "timing"} & given.keys(), "reading": {"direction", "query"} <= given.keys()}
        for question in ("name", "writable", "hidden", "run", "score", "outputs", "timing_outputs", "reading"):
            if not is_given.get(question, question in given) and _is_needed(question, answers):
                answers = self.ask(question, answers)
            if question == "score" and "hidden" not in given:
                answers = self._hide_scorer(answers)
        return answers

    def _hide_scorer(self, answers: Answers) -> Answers:
        """Asks once more what is hidden, where nothing is and a committed file scores."""
        script, glob = scorer_to_hide(answers.score, answers.writable, self.paths)
        if answers.hidden or not script:
            return answers
        print(f"    {script} scores, and nothing is hidden: hide {glob}?", file=sys.stderr)
        return self.ask("hidden", replace(answers, hidden=(glob,)))

    def ask_again(self, question: str, answers: Answers) -> Answers:
        """Asks one question, and those that its answer brings with it; before how the number is read, what scores."""
        is_unscored = question == "reading" and bool(answers.direction) and not (answers.score or answers.timing)
        answers = self.ask("score" if is_unscored else question, answers)
        is_open = {key for key in ("outputs", "timing_outputs") if not getattr(answers, key)}
        is_open |= {"direction"} if is_unscored else set()
        return self.ask_all(answers, {key: "" for key in asdict(answers) if key not in is_open})

    def ask(self, question: str, answers: Answers) -> Answers:
        """Asks one question; gives the answers with the new one in them."""
        if question == "reading":
            named = f"{answers.metric} /{answers.regex}/".lstrip()
            default = f"{answers.direction} {answers.query or named}" if answers.direction else ""
            direction, query, regex, name = ask(QUESTIONS[question], default, parse_reading)
            if _TIME.fullmatch(query) and (answers.score or answers.run) and not self._is_time_offered:
                return self._offer_time(answers, direction)
            name = name or ("" if answers.regex and answers.direction else answers.metric)
            return replace(answers, direction=direction, query=query, regex=regex, metric=name)
        if question == "run":
            return self._ask_run(answers)
        if question == "score":
            return self._ask_score(answers)
        if question == "name":
            return replace(answers, name=ask(QUESTIONS[question], answers.name, parse_name))
        patterns = getattr(answers, question) or guess_outputs(question, asdict(answers), self.paths)
        if question == "hidden":
            patterns = tuple(pattern for pattern in patterns if pattern not in answers.writable)
        shown = format_globs(patterns) or ("none" if question in _NONE else "")

        def read(text: str) -> tuple[str, ...]:
            self.paths = committed_files(self._folder)  # a person may commit before they answer
            committed = self.paths if question in ("writable", "hidden") else None
            return () if question in _NONE and text == "none" else parse_globs(text, committed, self._folder)

        changes: dict[str, Any] = {question: ask(QUESTIONS[question], shown, read)}
        return replace(answers, **changes)

    def _offer_time(self, answers: Answers, direction: str) -> Answers:
        """Asks again what scores where a person wants a time; once, since a file may have a key of that name."""
        self._is_time_offered = True
        timed = answers.score or answers.run
        print(f"    did you mean: time {timed}", file=sys.stderr)
        run = answers.run if answers.score else ""
        answers = self.ask_again("score", replace(answers, run=run, timing=timed, score=""))
        return replace(answers, direction=direction) if answers.timing else self.ask("reading", answers)

    def _ask_run(self, answers: Answers) -> Answers:
        while True:
            command = self._command("run", answers.run or ("none" if answers.score else ""))
            sees = "both" if first_manifest.names_hidden(command, answers.hidden) else ""
            if not sees or ask(CONSENT.format(command=command), "no", str.lower) in YES:
                return replace(answers, run=command, sees=sees)

    def _ask_score(self, answers: Answers) -> Answers:
        none = "" if answers.hidden and answers.sees != "both" else "none"
        default = f"time {answers.timing}" if answers.timing else answers.score or none
        command = self._command("score", default)
        if timing := re.fullmatch(r"time\s+(\S.*)", command):
            check = self._command("check", answers.score if answers.timing and answers.score else "none")
            direction = answers.direction or "minimize"
            answers = replace(answers, timing=timing[1], score=check, direction=direction)
            return answers if check else replace(answers, timing_outputs=())
        answers = replace(answers, score=command, timing="", timing_outputs=())
        if command and not answers.run:
            return replace(answers, outputs=answers.writable)
        return answers if command else replace(answers, outputs=())

    def _command(self, question: str, default: str) -> str:
        text = ask(QUESTIONS[question], default, lambda text: read_command(text, self._folder, question == "run"))
        return "" if text == "none" else first_manifest.with_own_python(text, self._folder)


def _is_needed(question: str, answers: Answers) -> bool:
    """Whether the other answers leave this one open."""
    if question == "outputs":
        return bool(answers.run and (answers.score or answers.timing))
    if question == "timing_outputs":
        return bool(answers.timing and answers.score)
    return question != "reading" or not answers.timing


def answers_in_flags(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The fields of the answers that flags give."""
    flags = {**vars(options), "run": options.command, "name": options.name and parse_name(options.name)}
    given: dict[str, Any] = {key: flags[key] for key in "name provider sees branch_prefix".split() if flags[key]}
    for key in ("run", "timing", "score"):
        if flags[key]:
            given[key] = "" if flags[key] == "none" else first_manifest.with_own_python(flags[key], folder)
    for key in ("writable", "hidden", "outputs", "timing_outputs", "share"):
        if flags[key] is not None:
            given[key] = () if key in _NONE and flags[key] == ["none"] else tuple(flags[key])
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
        answers = replace(answers, hidden=tuple(glob for glob in answers.hidden if glob not in answers.writable))
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
    if program:
        print(f"written: {program}: fill it in; an agent reads it with every prompt, as it stands on disk")
    files = [os.path.relpath(file, folder) for file in (path, program) if file]
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
    if not _asks(options):
        return answers
    prefix = free_branch_prefix(path.parent, answers.branch_prefix, PREFIX)
    return interview.ask_all(replace(answers, branch_prefix=prefix), given)


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
            print_message(options, "candidate code can read the hidden files: the command that runs it sees both")
        script, glob = scorer_to_hide(answers.score, answers.writable, interview.paths)
        if script and not answers.hidden:
            text = f"{script} scores, and nothing is hidden: the agent and its code can read it"
            print_message(options, f"{text}; hide {glob}, and what it compares with")
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
