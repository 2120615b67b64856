"""The README and the pages of the guide: their blocks, and the commands of goalseek that they have a person type."""

import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path

import goalseek

README = Path(__file__).parents[2] / "README.md"
GUIDE = Path(goalseek.__file__).parent / "guide"
PAGES = [README, *sorted(GUIDE.glob("*.md"))]
_NO_COMMANDS = ("toml", "python", "text", "json")
_BEFORE_A_COMMAND = r"-|run:|[*/0-9]+|\w+=.*(?<!goalseek)"  # in YAML, a crontab, or variables
_OPERATORS = ("&&", "||", ";", "|", "&", "(", ")", ";;")


def blocks(page: str) -> list[tuple[str, str]]:
    """The language and the text of each fenced block, without its indentation."""
    fenced = re.findall(r"^( *)```(\w*)\n(.*?)^\1```$", page, re.MULTILINE | re.DOTALL)
    return [(language, textwrap.dedent(body)) for _, language, body in fenced]


def blocks_in(page: str, language: str) -> list[str]:
    return [body for name, body in blocks(page) if name == language]


def block_with(page: str, language: str, words: str = "") -> str:
    """The one block of a page in this language that has these words."""
    (block,) = (body for body in blocks_in(page, language) if words in body)
    return block


def commands(page: str) -> list[list[str]]:
    """The words after ``goalseek`` of each command in a page, in blocks and between backquotes."""
    lines = [line for language, body in blocks(page) for line in _typed_lines(language, body)]
    prose = re.sub(r"^( *)```.*?^\1```$", "", page, flags=re.MULTILINE | re.DOTALL)
    lines += [" ".join(code.split()) for code in re.findall(r"`(goalseek [^`]+)`", prose)]
    return [words for line in lines if "goalseek" in line for words in _commands_of(line)]


def _typed_lines(language: str, body: str) -> list[str]:
    lines = body.replace("\\\n", " ").splitlines()
    if language == "console":
        return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [] if language in _NO_COMMANDS else lines


def _commands_of(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    try:
        tokens = [*lexer, ";"]
    except ValueError:  # a sentence with an apostrophe
        return
    for token in tokens:
        if token not in _OPERATORS:
            words.append(token)
            continue
        while words and re.fullmatch(_BEFORE_A_COMMAND, words[0]):
            del words[0]
        if words and re.fullmatch(r"(ExecStart=)?(.*/)?goalseek", words[0]):
            end = next((index for index, word in enumerate(words) if re.fullmatch(r"[0-9]?[<>]+&?", word)), None)
            yield words[1:end]
        words = []
