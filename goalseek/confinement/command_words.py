"""The words of a command line: which of them are run, a program or a script, and which only say something to it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

_BEFORE_ANOTHER = frozenset(
    """! { if then elif else while until do exec command builtin env nice ionice nohup setsid timeout time stdbuf
    taskset chrt numactl xargs sudo unbuffer xvfb-run mpirun srun torchrun uv poetry pipenv conda run""".split()
)
_SHELL = re.compile(r"(ba|da|z|k|a|mk)?sh")
_INTERPRETER = re.compile(r"(python|pypy|node|nodejs|deno|bun|perl|ruby|Rscript|julia|lua|php|tclsh|bash|sh)[\d.]*")
_ASSIGNMENT = re.compile(r"\w+\+?=.*", re.DOTALL)
_CODE_FOLLOWS = re.compile(r"-\w*[cem]")
_INNER = re.compile(r"\$\(([^()]*)\)")
_OPERATORS = "();<>|&\n"
_NEXT = "\n"  # stands between two commands


@dataclass(frozen=True)
class Word:
    """``is_run``: it stands where a program stands, or the script of an interpreter. Others only may be a program's
    bare name, as in ``make CC=x`` or ``hyperfine 'one x'``.
    """

    text: str
    is_run: bool


def words_of(command: str | Sequence[str], is_there: Callable[[str], bool]) -> Iterator[Word]:
    """The words of a command; a string is one for ``sh -c``. ``is_there`` says whether a word is a program or file."""
    if isinstance(command, str):
        yield from _run(_split(command), is_there)
        for inner in _INNER.findall(command):
            yield from _run(_split(inner), is_there)
    else:
        yield from _run(command, is_there)


def _run(words: Iterable[str], is_there: Callable[[str], bool]) -> Iterator[Word]:
    expected, is_shell, is_before = "program", False, False
    for word in words:
        if word == _NEXT:
            expected, is_before = "program", False
        elif expected == "code":
            expected = ""
            yield from words_of(word, is_there) if is_shell else _said(word)
        elif expected == "program" and not _ASSIGNMENT.fullmatch(word) and not (is_before and word.startswith("-")):
            yield Word(word, True)
            name = PurePath(word).name
            is_before = is_before or name in _BEFORE_ANOTHER
            if name in _BEFORE_ANOTHER or (is_before and not is_there(word)):
                continue
            is_shell = _SHELL.fullmatch(name) is not None
            expected = "script" if is_shell or _INTERPRETER.fullmatch(name) else ""
        elif expected == "script" and _CODE_FOLLOWS.fullmatch(word):
            expected = "code"
        elif expected == "script" and not word.startswith("-") and is_there(word):
            expected = ""
            yield Word(word, True)
        else:
            yield from _said(word)


def _said(word: str) -> Iterator[Word]:
    """A word that is not run; of a text, each of its words."""
    yield Word(word, False)
    if any(space in word for space in " \n"):
        yield from (Word(inner, False) for inner in _split(word) if inner != _NEXT)


def _split(command: str) -> Iterator[str]:
    """The words as a shell splits them, without redirections; ``_NEXT`` wherever another command may begin."""
    lexer = shlex.shlex(command.replace("\\\n", " ").replace("`", "\n"), posix=True, punctuation_chars=_OPERATORS)
    lexer.commenters = ""
    lexer.whitespace = " \t\r"
    try:
        found = list(lexer)
    except ValueError:  # quotes that do not end, as in an apostrophe of a here-document
        text = command.replace('"', " ").replace("'", " ")
        found = [word for line in text.splitlines() for word in (*line.split(), _NEXT)]
    is_file = False
    for word in found:
        if word and all(letter in _OPERATORS for letter in word):
            is_file = word[-1] in "<>" or word.endswith((">&", "<&"))
            if not is_file:
                yield _NEXT
        elif is_file:
            is_file = False
        else:
            yield word
