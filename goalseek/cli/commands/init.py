"""``goalseek init``: a manifest from a few answers, after one measurement; or a complete example to start from."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from goalseek.cli import interview
from goalseek.cli.commands.demo import begin_with_template, commit_command, data_folder, templates
from goalseek.cli.options import Options, Parser, refuse
from goalseek.cli.streams import YES, ask_person
from goalseek.disk import write_atomic
from goalseek.doctor import first_manifest
from goalseek.doctor.first_manifest import Answers, WrongAnswer, guess_answers
from goalseek.doctor.isolation import describe_reading, self_reported_score
from goalseek.errors import GoalseekError, Interrupted, exit_code_of_interrupt
from goalseek.evaluation.measurements import MeasuredValue
from goalseek.git.ignore import matcher
from goalseek.humanize import format_duration, format_number
from goalseek.manifest.exposure import EXPOSED, unchecked_time
from goalseek.manifest.loading import ManifestFile, with_manifest_option
from goalseek.providers.registry import TUNE_ADVICE, advise_provider

_PROGRAM = "program.md"
_CASES = re.compile(r"\{(?=[^{}]*\bid\s*:)(?=[^{}]*\bscore\s*:)[^{}]*\}$")
_PROGRAM_PROPOSES = """\
For your own program (goalseek help providers), append these lines to the manifest, then goalseek iterate:
[provider]
name = "command"
command = ["python3", "propose.py"]"""


def answers_in_flags(options: Options, folder: Path) -> dict[str, Any]:
    given: dict[str, Any] = {"provider": options.provider} if options.provider else {}
    timed = interview.timed_command(options.score or "")
    for key, text in (("run", options.command), ("timing", timed), ("score", not timed and options.score)):
        if text:
            given[key] = "" if text == "none" else first_manifest.with_own_python(text, folder)
    for key in ("writable", "hidden"):
        if (globs := getattr(options, key)) is not None:
            given[key] = () if key in interview.MAY_BE_EMPTY and globs == ["none"] else tuple(globs)
    query, metric = options.query or "", options.metric or ""
    if re.match(r"(maximi|minimi)[sz]e[\s:]", metric):
        given["direction"], its_query, regex, name = interview.parse_reading(metric)
        name = name or its_query
        query, regex = (query, "") if query else (its_query, regex)
    else:
        regex, name, query = "", metric, query or metric
    if query or regex:
        given |= {"query": query, "regex": regex, "cases": ""}
    return given | ({"metric": name} if name else {})


def first_answers(options: Options, path: Path, is_left: bool, questions: interview.Interview) -> Answers:
    """The answers for the first measurement; without a terminal or ``--yes`` those of flags alone."""
    given = answers_in_flags(options, path.parent)
    if is_left:
        return replace(first_manifest.answers_in(path), **given)
    guess, asks = guess_answers(path.parent, questions.paths), _asks(options)
    if not (options.yes or asks):
        return replace(Answers(guess.name), **given)
    if not asks and {"run", "timing", "score"} & given.keys():
        guess = replace(guess, run="", score="", outputs=())
    if "query" in given:
        guess = replace(guess, direction="", query="", regex="")
    answers = replace(guess, **given)
    if "hidden" not in given:
        answers = replace(answers, hidden=interview.fitting_hidden(answers, questions.paths))
    answers = replace(answers, branch_prefix=interview.free_branch_prefix(path.parent, answers.branch_prefix, asks))
    return questions.ask_all(answers, given.keys()) if asks else answers


def complete_answers(answers: Answers, folder: Path, paths: list[str]) -> Answers:
    """Adds derived answers. Raises WrongAnswer naming the flags that are missing or do not fit."""
    for question in ("writable", "hidden"):
        for pattern in getattr(answers, question):
            try:
                interview.parse_globs(f'"{pattern.removeprefix("!")}"', paths, folder)
            except GoalseekError as error:
                raise WrongAnswer(question, error.message, error.hint) from None
    if _CASES.search(answers.query):
        name = answers.metric.replace(answers.query, "") or "score"
        answers = replace(answers, query="", cases=answers.query, metric=name)
    if answers.timing:
        answers = replace(answers, direction=answers.direction or "minimize")
    if not answers.outputs and first_manifest.takes_outputs(answers):
        named = interview.guess_outputs("outputs", answers, paths) if answers.run else answers.writable
        answers = replace(answers, outputs=named)

    def anchored(glob: str) -> str:  # the bare name of a committed file or folder would match at any depth
        is_name = not re.search(r"[*?\[\\!/]", glob.removesuffix("/"))
        return f"/{glob}" if is_name and any(map(matcher((f"/{glob}",)), paths)) else glob

    answers = replace(answers, writable=tuple(map(anchored, answers.writable)))
    if first_manifest.names_hidden(answers.run, answers.hidden) and answers.sees != "both":
        message = f"goalseek init: {answers.run} is hidden, and candidate code would run beside the hidden files"
        hint = "give the command that runs the candidate by --run, and this one by --score"
        both = 'leave --hidden out, and add it to the manifest, with sees = "both" in [[verify]]'
        raise WrongAnswer("run", message, f"{hint}; or, if candidate code may read them, {both}")
    reading = answers.query or answers.regex or answers.cases
    required = {
        "--writable": ("writable", answers.writable),
        "--run or --score": ("score", answers.run or answers.timing or answers.score),
        "--metric": ("reading", answers.timing or (answers.direction and reading)),
    }
    if missing := [(flag, question) for flag, (question, value) in required.items() if not value]:
        message = f"goalseek init: give {', '.join(flag for flag, _ in missing)}"
        raise WrongAnswer(missing[0][1], message, "see: goalseek init --help")
    return answers


def _asks(options: Options) -> bool:
    return sys.stdin.isatty() and not options.yes


def arguments(parser: Parser) -> None:
    parser.add_argument("--yes", action="store_true", help="ask nothing: take what the files suggest")
    parser.add_argument("--template", metavar="T", help="begin with a complete example: " + ", ".join(templates()))
    parser.add_argument("--writable", metavar="GLOB", action="append", help="files that may change; repeatable")
    parser.add_argument("--hidden", metavar="GLOB", action="append", help="files that the agent never sees; repeatable")
    parser.add_argument("--run", dest="command", metavar="CMD", help="the command that runs or builds the candidate")
    score = "the command that scores or checks, with the hidden files; or time CMD, whose run time is the number"
    parser.add_argument("--score", metavar="CMD", help=score)
    metric = "the number: 'maximize accuracy', or 'minimize /loss: ([0-9.]+)/' in the output"
    parser.add_argument("--metric", metavar="M", help=metric)
    parser.add_argument("--provider", metavar="P", help="the agent or program that proposes the changes")
    parser.epilog = (
        "In init, --query is the metric: a JMESPath in $GOALSEEK_RUN_DIR/metrics.json, of a number or of {id, score} by"
        " case. Edit other keys in the manifest; goalseek init measures a manifest without a number again."
    )


def run(options: Options) -> None:
    folder, name = options.start_folder(), options.manifest
    if options.template:
        begin_with_template(options, folder)
        return
    is_path = name and ("/" in name or name.endswith(".toml"))
    path = (folder / name).resolve() if is_path else folder / (f"goalseek.{name}.toml" if name else "goalseek.toml")
    is_left = path.exists() and first_manifest.UNMEASURED in path.read_text("utf-8", "replace")
    refuse((path.exists() and not is_left, f"{path} is there already", "edit it, or: goalseek -m NAME init"))
    questions, program = interview.Interview(path.parent, interview.committed_files(path.parent)), None
    try:
        answers = first_answers(options, path, is_left, questions)
        loaded, measurement, uncommitted = _measure_until_number(options, path, answers, questions)
    except (KeyboardInterrupt, Interrupted) as error:
        if path.exists():
            raise
        raise GoalseekError("interrupted; nothing was written", "", exit_code_of_interrupt(error)) from None
    question = f"    write {_PROGRAM}, your notes for the agent? yes or no"
    try:
        is_missing = _asks(options) and not (path.parent / _PROGRAM).exists()
        if is_missing and ask_person(question, "yes", str.lower) in YES:
            program = path.parent / _PROGRAM
            program.write_bytes((data_folder("fixtures") / "templates" / _PROGRAM).read_bytes())
    except (KeyboardInterrupt, Interrupted) as error:
        message, hint = f"interrupted; {path} is written", with_manifest_option("next: goalseek doctor", path)
        raise GoalseekError(message, hint, exit_code_of_interrupt(error)) from None
    metric = loaded.manifest.metric
    if options.json:
        fields = {"value": measurement.value, "seconds": measurement.seconds}
        print(json.dumps({"manifest": str(path), "metric": metric.name, **fields}))
        return
    value, duration = format_number(measurement.value, metric.unit), format_duration(measurement.seconds)
    print(f"{metric.name} = {value}, in {duration}: the number to {metric.direction}, {describe_reading(metric)}")
    print(f"written: {path}")
    if (note := self_reported_score(loaded.manifest)) and not unchecked_time(loaded.manifest):
        print(f"note: {note}")
    if program:
        print(f"written: {program}: fill it in; an agent reads the file on disk with every prompt")
    new_files = [os.path.relpath(file, folder) for file in (path, program, *uncommitted) if file]
    following = "goalseek iterate"
    if not loaded.manifest.provider:
        writable = (loaded.folder / file for file in filter(matcher(loaded.manifest.scope.writable), questions.paths))
        following = advise_provider(file.read_bytes() for file in filter(first_manifest.is_readable, writable))
        if following != TUNE_ADVICE:
            following = f"name a provider: {following}.\n{_PROGRAM_PROPOSES}"
    steps = f"{commit_command(new_files)}, then goalseek doctor, then {following}"
    print(f"next: {with_manifest_option(steps, path)}")


def _measure_until_number(
    options: Options, path: Path, answers: Answers, questions: interview.Interview
) -> tuple[ManifestFile, MeasuredValue, list[Path]]:
    """Leaves the manifest even without a number; at a terminal asks again for the wrong answers until there is one."""
    while True:
        text = ""  # that of the manifest, once it is written
        try:
            answers = complete_answers(answers, path.parent, questions.paths)
            if options.yes:
                hidden = " ".join(answers.hidden) or "nothing"
                options.print_message(f"may change: {' '.join(answers.writable)}; hidden: {hidden}")
            if answers.sees == "both" and answers.hidden:
                options.print_message(f"{EXPOSED}: the command that runs it sees both")
            loaded = first_manifest.check_manifest(path, answers)
            interrupted = GoalseekError("the measurement was interrupted", "goalseek init")
            text = first_manifest.text_with_problem(loaded, interrupted)
            write_atomic(path, text)
            if first_manifest.takes_outputs(answers) and not answers.outputs:
                following = answers.timing or answers.score
                message = f"no outputs are named, so {following} gets no file from {answers.run}"
                hint = 'name them in [[verify]] "run", as outputs = ["predictions.csv"]; then goalseek init'
                raise WrongAnswer("outputs", message, hint)
            commands = filter(None, (answers.run, answers.timing, answers.score))
            options.print_message(f"measuring once: {'; '.join(commands)}")
            first, uncommitted, scored = first_manifest.measure_first(loaded, options.line_view())
            if scored and not (answers.cases or answers.timing):
                options.print_message(f"scores by case: cases = {json.dumps(scored['cases'])} (goalseek help cases)")
                question = "    compare candidates case by case? yes or no"
                if ask_person(question, "yes", str.lower) in YES if _asks(options) else options.yes:
                    answers = replace(answers, **scored)
                    if not answers.query:
                        continue
                    loaded = first_manifest.check_manifest(path, answers)
            if isinstance(first, WrongAnswer):
                raise first
            write_atomic(path, loaded.text)
            return loaded, first, uncommitted
        except GoalseekError as error:
            then = "Answer again."
            if text:
                text = first_manifest.text_with_problem(loaded, error)
                write_atomic(path, text)
                options.print_message(f"{path} is written; a comment in it says what is wrong")
                then = "Answer again, or correct it first."
            if not (isinstance(error, WrongAnswer) and _asks(options)):
                raise
            options.print_message(f"{error.message}\n  {error.hint}\n  {then}")
            answers = questions.ask_again(error.question, replace(answers, share=(*answers.share, *error.share)))
            if text and path.read_text("utf-8") != text:  # edited meanwhile
                answers = first_manifest.answers_in(path)
