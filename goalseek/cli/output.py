"""Output of commands: answers on stdout, messages on stderr, and questions to a person at a terminal."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from goalseek.errors import GitFailed, GoalseekError
from goalseek.git.command import git
from goalseek.git.ignore import matcher
from goalseek.manifest.rules import check_expressions, query_fault
from goalseek.manifest.tables import Reading
from goalseek.process import wait_for_line
from goalseek.values import to_plain
from goalseek.views.terminal_text import replace_unprintable

YES = ("y", "yes")
_SHELL_WORDS = ". : alias case cd command eval exec export for if read set time trap ulimit umask until while".split()
_SCRIPT = re.compile(
    r"(?:\S*/)?(?:sh|bash|node|ruby|julia|perl|Rscript|python[\d.]*)(?:\s+-[uBx]+)*\s+([\w./+-]+\.\w+)(?![^\s;&|<>])"
)
QUESTIONS = {
    "name": "1/6 name of the project",
    "writable": "2/6 what may change? files or globs, with spaces between",
    "hidden": "3/6 what must stay hidden from the agent (the right answers, and who scores)? globs, or none",
    "run": "4/6 which command runs it? It leaves predictions or builds a program, and finds no hidden file. Or none",
    "score": "5/6 which command scores that? It finds the hidden files, and none of the candidate's code.\n"
    "    Or time COMMAND, where the run time of that is the number; or none, where the command of 4/6 gives the number",
    "check": "    which command checks what that leaves? It finds the hidden files. Or none",
    "outputs": "    which files does the command of 4/6 leave for the next one? globs",
    "timing_outputs": "    which files does the timed command leave for the check? globs",
    "share": "    which paths does it need that git ignores? They are shown read-only. paths, or none",
    "reading": "6/6 how is the number read? Two examples:\n"
    "    maximize accuracy               the key accuracy of the JSON in $GOALSEEK_RUN_DIR/metrics.json\n"
    "    minimize /loss: ([0-9.]+)/      what the command prints\n   ",
}
PREFIX = "    what shall the name of goalseek's branch begin with?"
CONSENT = """\
    {command} is hidden: candidate code would run beside the hidden files, and could read them.
    no asks for the command that runs the candidate, and then for this one, which scores: that is safe.
    yes lets candidate code read the hidden files. Run it beside them? yes or no"""


def wants_json(options: argparse.Namespace) -> bool:
    """Whether the answer is to be JSON."""
    return bool(options.json or options.query)


def print_json(options: argparse.Namespace, value: Any) -> None:
    """Prints one JSON value, or the part that ``--query`` selects, and flushes it: its reader may go on meanwhile."""
    print(json.dumps(apply_query(options, to_plain(value)), ensure_ascii=True), flush=True)


def print_answer(options: argparse.Namespace, value: Any, *lines: str) -> None:
    """Prints ``value`` as JSON where that is asked for, else the lines."""
    if wants_json(options):
        print_json(options, value)
    else:
        print("\n".join(lines))


def print_json_lines(options: argparse.Namespace, values: Iterable[Any]) -> None:
    """Prints each value as a line of JSON; with ``--query`` what it selects of each, null left out."""
    for value in values:
        part = apply_query(options, to_plain(value))
        if part is not None or not options.query:
            print(json.dumps(part, ensure_ascii=True))


def apply_query(options: argparse.Namespace, plain: Any) -> Any:
    """The part of a JSON value that ``--query`` selects. Raises GoalseekError for a query that does not parse."""
    if not options.query:
        return plain
    import jmespath

    try:
        return jmespath.search(options.query, plain)
    except jmespath.exceptions.JMESPathError as error:
        raise GoalseekError(f"--query {query_fault(options.query, error)}", "see https://jmespath.org") from None


def print_message(options: argparse.Namespace, text: str) -> None:
    """Prints a message on stderr; nothing with ``-q``."""
    if not options.quiet:
        print(replace_unprintable(text), file=sys.stderr)


Value = TypeVar("Value")


def ask(question: str, default: str, read: Callable[[str], Value]) -> Value:
    """Asks until ``read`` takes the answer. An empty answer is the default.

    Raises GoalseekError where the terminal is closed.
    """
    while True:
        print(f"{question}{f' [{default}]' if default else ''}: ", end="", file=sys.stderr, flush=True)
        wait_for_line()
        try:
            text = input().strip() or default
        except EOFError:
            raise GoalseekError("no answer", "answer the questions, or use flags: goalseek init --help") from None
        try:
            return read(text)
        except GoalseekError as error:
            print(f"  {error.message}" + (f"; {error.hint}" if error.hint else ""), file=sys.stderr)


def parse_globs(text: str, paths: list[str] | None, folder: Path | None = None) -> tuple[str, ...]:
    """The globs of an answer, in which one with a space is in double quotes.

    Raises GoalseekError where there is none, and for one that matches none of ``paths``, where these are given: with
    the reason, where its files are in ``folder`` and not committed.
    """
    patterns = tuple(quoted or plain for quoted, plain in re.findall(r'"([^"]+)"|([^\s,]+)', text))
    if not patterns:
        raise GoalseekError("name at least one", "experiment.py src/**, say")
    if re.match(r"(maximi|minimi)[sz]e[\s:]+\S", text):
        raise GoalseekError(f"{text!r} says how a number is read", "name files here")
    for pattern in patterns if paths is not None else ():
        if not any(map(matcher((pattern,)), paths or ())):
            raise GoalseekError(f"{pattern!r} matches no committed file", _why_uncommitted(pattern, folder))
    return patterns


def _why_uncommitted(pattern: str, folder: Path | None) -> str:
    """Why the file or folder that a glob begins with is not committed, and what to do; "" where there is none."""
    path = re.split(r"[*?[]", pattern)[0]
    path = path if path == pattern else path.rpartition("/")[0]
    if folder is None or not path or not (folder / path).exists():
        return ""
    try:
        git("check-ignore", "--quiet", "--", path.rstrip("/"), folder=folder)
    except GitFailed:
        shown = shlex.quote(path)
        return f"{path} is not committed: git add {shown} && git commit, then answer again"
    return "git ignores it; commit it, or keep it outside the repository (goalseek help recipe-hidden)"


def guess_outputs(question: str, answers: Mapping[str, Any], paths: list[str]) -> tuple[str, ...]:
    """The file that a command leaves by its text: a program that the next one starts, or what it writes; or none.

    ``question`` is ``outputs`` for the command that runs, ``timing_outputs`` for the timed one, or another.
    """
    commands = {"outputs": ("run", "timing" if answers["timing"] else "score"), "timing_outputs": ("timing", "")}
    command, following = commands.get(question, ("", ""))
    started = re.match(r"\./([\w./+-]+)", answers.get(following, ""))
    written = re.search(r"\s(?:-o\s+|>\s*)(?:\./)?(\w[\w./+-]*)", answers.get(command, ""))
    names = [match[1] for match in (started, written) if match and match[1] not in paths]
    return tuple(names[:1])


def format_globs(patterns: tuple[str, ...]) -> str:
    """The globs as one answer, as ``parse_globs`` reads it."""
    return " ".join(f'"{pattern}"' if re.search(r"[\s,]", pattern) else pattern for pattern in patterns)


def parse_name(text: str) -> str:
    """A project's name. Raises GoalseekError where it has other letters than a name may have."""
    if not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", text):
        raise GoalseekError(f"{text!r}: a name is made of a-z, 0-9 and -")
    return text


def read_command(text: str, folder: Path, is_first: bool) -> str:
    """A command whose first word is a program. The build of the first may make one in a folder, for the next.

    Raises GoalseekError where there is no such program, or not the script that it is to run.
    """
    word = (text.removeprefix("time ").split() or [""])[0]
    if not text:
        raise GoalseekError("there is no command in that", "python validate.py, say")
    if not re.fullmatch(r"[\w./+-]+", word) or word in (*_SHELL_WORDS, "none"):
        return text
    is_there = (folder / word).is_file() or not is_first if "/" in word else shutil.which(word)
    if not (is_there or word.startswith("python")):
        raise GoalseekError(f"{word} is neither a program on PATH nor a file", "name the command that runs it")
    script = _SCRIPT.match(text.removeprefix("time ").lstrip())
    if script and not (folder / script[1]).exists():
        raise GoalseekError(f"{script[1]} does not exist", "write it first, or name another")
    return text


def american(text: str) -> str:
    """``maximize`` and ``minimize``, also where a text begins with British spelling."""
    return re.sub(r"^\s*(maximi|minimi)se\b", r"\1ze", text)


def parse_reading(text: str) -> tuple[str, str, str, str]:
    """Direction, query, regex and name of ``maximize accuracy`` or ``minimize [NAME] /took ([0-9.]+)s/``.

    Raises GoalseekError where it is neither.
    """
    match = re.fullmatch(r"\s*(maximize|minimize)\s*[\s:]\s*(\S.*?)\s*", american(text))
    if not match:
        hint = "maximize accuracy (in metrics.json), or minimize /took ([0-9.]+)s/ (in what the command prints)"
        raise GoalseekError(f"{text!r} does not say how to read the number", hint)
    source = match[2]
    if re.fullmatch(r"\w+(\s+\w+)+", source):
        raise GoalseekError(f"a name has no blanks; did you mean {'_'.join(source.split())}?")
    named = re.fullmatch(r"([\w.-]+)\s+(/.+/)", source)
    name, source = (named[1], named[2]) if named else ("", source)
    is_regex = len(source) > 2 and source.startswith("/") and source.endswith("/")
    query, regex = ("", source[1:-1]) if is_regex else (source, "")
    for _, fault in check_expressions((), Reading(query=query or None, regex=regex or None)):
        raise GoalseekError(fault)
    return match[1], query, regex, name


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
