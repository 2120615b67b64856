"""The words of a command line, and the rules that guess from them the programs and files that it runs or names."""

import functools
import posixpath
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Literal

from msgspec import Struct, structs

SCRIPTS = tuple(".py .sh .bash .pl .rb .js .ts .R .jl .lua .awk".split())
_PREFIXES = frozenset(  # programs and words of a shell that another program follows
    """! { if then elif else while until do exec command builtin env nice ionice nohup setsid timeout time stdbuf
    taskset chrt numactl xargs sudo unbuffer xvfb-run mpirun srun torchrun uv poetry pipenv conda run""".split()
)
_SHELL = re.compile(r"(ba|da|z|k|a|mk)?sh")
_INTERPRETER = re.compile(r"(python|pypy|node|nodejs|deno|bun|perl|ruby|Rscript|julia|lua|php|tclsh|bash|sh)[\d.]*")
_SOURCES = ("source", ".")
_SHELL_CODE, _CODE, _MODULE = (re.compile(rf"-\w*[{letters}]") for letters in ("c", "ce", "m"))
_ASSIGNMENT = re.compile(r"\w+\+?=.*", re.DOTALL)
_SUBSTITUTION = re.compile(r"\$\(([^()]*)\)")
_OPERATORS = "();<>|&\n"
_END_OF_WORD = re.compile(r"""(?:\$\w+|[\s;|&<>()'"`=:,{}$])+""")


class Word(Struct, frozen=True):
    """A word of a command, which may name a program without the ``role``: ``hyperfine 'one x'``.

    A script ``is_guess`` unless an interpreter in a program's position reads it by its path: it is sourced, a module,
    or named after an interpreter elsewhere.
    """

    text: str
    role: Literal["", "program", "script"] = ""
    is_guess: bool = False

    @property
    def is_run(self) -> bool:
        return self.role != "" and not self.is_guess


class CommandWords(Struct, frozen=True):
    plain: tuple[str, ...]  # with the shell's operators
    commands: tuple[tuple[str, ...], ...]  # those that a shell starts, without redirections

    def words(self, find: Callable[[str], object] = lambda word: not word[:1].isdigit()) -> Iterator[Word]:
        """The words by position; ``find`` returns the program or file of a word: none for 60 in ``timeout 60 x.py``."""
        after = ""  # the interpreter that the next word may be a script of
        for word in (word for command in self.commands for word in _words_by_position(command, find)):
            if word.role:
                after = word.text if word.text in _SOURCES else ""
                yield word
            elif after and not word.text.startswith("-"):
                after = ""
                yield structs.replace(word, role="script", is_guess=True)
            else:
                after = word.text if _is_interpreter(PurePath(word.text).name) else after
                yield word

    def scripts(self) -> set[str]:
        """Paths of scripts that an interpreter may run; of a module, its possible paths."""
        words = {word.text for word in self.words() if word.role == "script"}
        return words | {f"{word.replace('.', '/')}.py" for word in words if not word.endswith(SCRIPTS)}

    def files(self, cwd: str) -> list[str]:
        """Paths that it may run in this folder: programs, and words with a script's suffix."""
        paths = []
        for word in self.words():
            if word.text.endswith(SCRIPTS) or (word.role == "program" and "/" in word.text):
                paths.append(posixpath.normpath(posixpath.join(cwd, word.text)))
        return paths

    def names(self, is_hidden: Callable[[str], bool]) -> bool:
        return any(is_hidden(word.removeprefix("./")) for word in self.plain)


def parse_command(run: str | Sequence[str]) -> CommandWords:
    """A string is a command for ``sh -c``, a list of words runs as it is."""
    return _parse(run if isinstance(run, str) else tuple(run))


@functools.lru_cache(maxsize=256)
def _parse(run: str | tuple[str, ...]) -> CommandWords:
    if not isinstance(run, str):
        return CommandWords(run, (run,))
    try:
        plain = shlex.split(run)
    except ValueError:
        plain = run.split()
    texts = (run, *_SUBSTITUTION.findall(run))
    return CommandWords(tuple(plain), tuple(command for text in texts for command in _split(text)))


def words_in(text: str) -> set[str]:
    """As a shell or a language divides them."""
    return set(filter(None, _END_OF_WORD.split(text)))


def _words_by_position(command: Iterable[str], find: Callable[[str], object]) -> Iterator[Word]:
    expected, is_shell, before = "program", False, ""
    for word in command:
        if expected == "code":
            expected = ""
            yield from parse_command(word).words(find) if is_shell else _plain_words(word)
        elif expected == "module":
            expected = ""
            yield Word(word, "script", is_guess=True)
        elif expected == "program" and not _ASSIGNMENT.fullmatch(word) and not (before and word.startswith("-")):
            name = PurePath(word).name
            yield Word(word, "script" if before == "run" and name.endswith(SCRIPTS) else "program")
            before = name if name in _PREFIXES else before
            if name in _PREFIXES or (before and not find(word)):
                continue
            is_shell = _SHELL.fullmatch(name) is not None
            expected = "script" if _is_interpreter(name) else ""
        elif expected == "script" and (_SHELL_CODE if is_shell else _CODE).fullmatch(word):
            expected = "code"
        elif expected == "script" and not is_shell and _MODULE.fullmatch(word):
            expected = "module"
        elif expected == "script" and not word.startswith("-") and find(word):
            expected = ""
            yield Word(word, "script")
        else:
            yield from _plain_words(word)


def _is_interpreter(name: str) -> bool:
    return bool(_SHELL.fullmatch(name) or _INTERPRETER.fullmatch(name))


def _plain_words(word: str) -> Iterator[Word]:
    """A word that is not run, then each word inside it."""
    yield Word(word)
    if any(space in word for space in " \n"):
        yield from (Word(inner) for command in _split(word) for inner in command)


def _split(text: str) -> Iterator[tuple[str, ...]]:
    """The words as a shell splits them, without redirections, by commands: one begins after each operator."""
    lexer = shlex.shlex(text.replace("\\\n", " ").replace("`", "\n"), posix=True, punctuation_chars=_OPERATORS)
    lexer.commenters = ""
    lexer.whitespace_split = True
    lexer.whitespace = " \t\r"
    try:
        words = list(lexer)
    except ValueError:  # quotes that do not end, as in an apostrophe of a here-document
        lines = text.replace('"', " ").replace("'", " ").splitlines()
        words = [word for line in lines for word in (*line.split(), "\n")]
    is_file = False
    command: list[str] = []
    for word in (*words, "\n"):
        if word and all(letter in _OPERATORS for letter in word):
            is_file = word[-1] in "<>" or word.endswith((">&", "<&"))
            if command and not is_file:
                yield tuple(command)
                command = []
        elif is_file:
            is_file = False
        else:
            command.append(word)
