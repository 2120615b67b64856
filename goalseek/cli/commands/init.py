"""``goalseek init``: a manifest from five answers, after one measurement.

The answers come from flags, from questions at a terminal, or from guesses by file names (``--yes``).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

from goalseek.cli.options import refuse, start_folder
from goalseek.cli.output import Value, ask, print_message
from goalseek.cli.watch import line_view
from goalseek.doctor import first_manifest
from goalseek.doctor.first_manifest import Answers, Guess, guess_answers, project_name
from goalseek.errors import GoalseekError
from goalseek.git.command import git
from goalseek.git.ignore import matcher
from goalseek.git.location import locate
from goalseek.git.repository import Repository
from goalseek.humanize import format_duration, format_number
from goalseek.manifest.loading import with_manifest_option

_FORMS = "maximize NAME (JSON in $GOALSEEK_RUN_DIR/metrics.json) or maximize /REGEX/ (what it prints); or minimize"
_NO_PROVIDER = (
    "goalseek doctor, then say who proposes: goalseek iterate --provider tune (constants marked in your files), "
    "or a [provider] table at the end of the manifest"
)


def collect_answers(options: argparse.Namespace, folder: Path, paths: list[str]) -> Answers:
    """The five answers. ``paths`` are the committed files below ``folder``, where the manifest will be.

    Raises GoalseekError naming the flags that are missing where nobody can be asked.
    """
    guess = guess_answers(folder.name, paths, lambda name: _text(folder / name))
    asks = sys.stdin.isatty() and not options.yes
    if not asks and not options.yes:
        guess = Guess(guess.name)

    def answer(given: Value | None, question: str, default: Value, shown: str, read: Callable[[str], Value]) -> Value:
        """The value of the flag; else what a person answers, or the default where none is asked."""
        return given or (ask(question, shown, read) if asks else default)

    def globs(text: str) -> tuple[str, ...]:
        return _globs(text, paths)

    name = answer(options.name, "1/5 name of the project", guess.name, guess.name, _name)
    question = "2/5 what may change? files or globs, with spaces between"
    writable = tuple(answer(options.writable, question, guess.writable, _join(guess.writable), globs))
    hidden = options.hidden
    if hidden is None:
        hidden = tuple(pattern for pattern in guess.hidden if pattern not in writable)
        question = "3/5 what must stay hidden from the agent? globs, or none"
        hidden = answer(
            (), question, hidden, _join(hidden) or "none", lambda text: () if text == "none" else globs(text)
        )
    command = answer(options.command, "4/5 the command that measures", guess.run, guess.run, _not_empty)
    reading = _reading(options, "" if asks else guess.reading)
    if asks and not (reading[0] and any(reading[1:])):
        reading = ask(f"5/5 how to read the number? {_FORMS}", guess.reading, first_manifest.parse_reading)
    metric = first_manifest.parse_reading(options.metric)[1] if _is_sentence(options.metric) else options.metric or ""
    answers = Answers(
        name, writable, tuple(hidden), command, *reading, metric, options.sees or "", options.provider or ""
    )
    how = ("--query or --regex", answers.query or answers.regex)
    required = (("--writable", answers.writable), ("--run", answers.run), ("--direction", answers.direction), how)
    if not asks and (missing := [flag for flag, value in required if not value]):
        hint = "or run it at a terminal, where it asks" if options.yes else "or --yes, to take what is found by looking"
        raise GoalseekError(f"goalseek init: give {', '.join(missing)}", hint)
    if options.yes:
        shown = " ".join(answers.hidden) or "nothing"
        print_message(options, f"may change: {' '.join(answers.writable)}; hidden: {shown}")
    return answers


def _reading(options: argparse.Namespace, default: str) -> tuple[str, str, str]:
    """Direction, query and regex from the flags; what they leave open from ``default``, a text or ""."""
    direction, query, regex = options.direction or "", options.query or "", options.regex or ""
    if query and regex:
        raise GoalseekError("goalseek init: --query or --regex, not both", "a number is read in one way")
    is_sentence = _is_sentence(options.metric)
    if options.metric and not (is_sentence or query or regex):
        query = options.metric
    sentence = options.metric if is_sentence else default
    if sentence and (is_sentence or not (query or regex)):
        default_direction, name, pattern = first_manifest.parse_reading(sentence)
        direction = direction or default_direction
        query, regex = (query, regex) if query or regex else (name, pattern)
    return direction, query, regex


def _is_sentence(metric: str | None) -> bool:
    """Whether the metric is given as ``maximize accuracy``."""
    return re.match(r"(maximize|minimize)[\s:]", metric or "") is not None


def _name(text: str) -> str:
    if text != project_name(text):
        raise GoalseekError(f"{text!r}: a name is made of a-z, 0-9 and -")
    return text


def _not_empty(text: str) -> str:
    if not text:
        raise GoalseekError("there is no command in that", "python validate.py, say")
    return text


def _globs(text: str, paths: list[str]) -> tuple[str, ...]:
    """The globs of an answer, in which one with a space is in double quotes. Raises GoalseekError for a useless one."""
    patterns = tuple(quoted or plain for quoted, plain in re.findall(r'"([^"]+)"|([^\s,]+)', text))
    if not patterns:
        raise GoalseekError("name at least one", "experiment.py src/**, say")
    for pattern in patterns:
        if not any(map(matcher((pattern,)), paths)):
            raise GoalseekError(f"{pattern!r} matches no committed file")
    return patterns


def _join(patterns: tuple[str, ...]) -> str:
    return " ".join(f'"{pattern}"' if re.search(r"[\s,]", pattern) else pattern for pattern in patterns)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``init`` takes."""
    parser.add_argument("--yes", action="store_true", help="ask nothing: take what the files suggest")
    parser.add_argument("--name", metavar="NAME", help="the project's name: a-z, 0-9 and - (default: the folder's)")
    parser.add_argument("--writable", metavar="GLOB", action="append", help="what the agent may change; repeatable")
    parser.add_argument("--hidden", metavar="GLOB", action="append", help="what the agent never sees; repeatable")
    parser.add_argument("--run", dest="command", metavar="CMD", help="the command that measures")
    parser.add_argument("--metric", metavar="NAME", help="the metric's name, or 'maximize accuracy'")
    parser.add_argument("--regex", metavar="R", help="for what it prints, with one group: 'accuracy: ([0-9.]+)'")
    parser.add_argument("--direction", choices=("maximize", "minimize"), help="which way is better")
    parser.add_argument("--sees", choices=("candidate", "hidden", "both"), help="what the command sees (default: both)")
    parser.add_argument("--provider", metavar="P", help="who proposes the changes")
    parser.epilog = "Here --query is the metric's: a JMESPath in $GOALSEEK_RUN_DIR/metrics.json, in place of --regex."


def run(options: argparse.Namespace) -> int:
    """Gets the answers, measures once, and writes the manifest."""
    folder, name = start_folder(options), options.manifest
    is_path = name and ("/" in name or name.endswith(".toml"))
    path = (folder / name).resolve() if is_path else folder / (f"goalseek.{name}.toml" if name else "goalseek.toml")
    refuse((path.exists(), f"{path} is there already", "edit it, or name another: goalseek -m NAME init"))
    answers = collect_answers(options, path.parent, _committed_files(path.parent))
    plain = first_manifest.manifest_table(answers)
    loaded = first_manifest.check_manifest(path, plain)
    print_message(options, f"measuring once: {answers.run}")
    measurement = first_manifest.try_and_write(loaded, plain, line_view(options))
    metric = loaded.manifest.metric
    if options.json:
        fields = {"value": measurement.value, "seconds": measurement.seconds}
        print(json.dumps({"manifest": str(path), "metric": metric.name, **fields}))
        return 0
    value, duration = format_number(measurement.value), format_duration(measurement.seconds)
    print(f"{metric.name} = {value}, in {duration}: the number to {metric.direction}")
    print(f"written: {path}")
    next_step = "goalseek doctor, then goalseek iterate" if answers.provider else _NO_PROVIDER
    print(f"next: {with_manifest_option(next_step, path)}")
    return 0


def _committed_files(folder: Path) -> list[str]:
    """The files of HEAD below the folder. Raises GoalseekError where there is no repository or no commit."""
    with contextlib.closing(Repository(locate(folder), "init")) as repository:
        repository.head()
        variables = repository.folder_variables()
        listing = git("ls-tree", "-r", "-z", "--name-only", "HEAD", folder=folder, variables=variables)
    return [os.fsdecode(path) for path in listing.split(b"\0") if path]
