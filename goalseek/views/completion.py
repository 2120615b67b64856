"""The completion scripts of shells: a template for each, filled from the parsers of the commands."""

import argparse
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

Parsers = Mapping[str, argparse.ArgumentParser]


def completion_script(shell: str, top: argparse.ArgumentParser, parsers: Parsers, summaries: Mapping[str, str]) -> str:
    """``top`` has the options before a command; ``parsers`` and ``summaries`` are by command."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for function in (options_of, places_of, choices_of, takes_file, words_after, zsh_option, fish_option, quote):
        environment.globals[function.__name__] = function
    valued = [word for option in options_of(top) if option.nargs != 0 for word in option.option_strings]
    values = {"top": top, "parsers": parsers, "every": {"": top, **parsers}, "summaries": summaries}
    return environment.get_template(f"completion.{shell}.jinja").render(values, valued_words=valued)


def options_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if action.option_strings]


def places_of(parser: argparse.ArgumentParser) -> list[str]:
    return [choices_of(action) for action in parser._actions if action.choices and not action.option_strings]


def choices_of(action: argparse.Action) -> str:
    return " ".join(map(str, action.choices or ()))


def takes_file(option: argparse.Action) -> bool:
    return option.nargs != 0 and any(word in str(option.metavar) for word in ("FILE", "DIR", "MANIFEST"))


def _help(option: argparse.Action) -> str:
    return (option.help or "").replace("%%", "%")


def words_after(parser: argparse.ArgumentParser) -> str:
    words = [word for option in options_of(parser) for word in option.option_strings]
    return " ".join(dict.fromkeys([*words, *" ".join(places_of(parser)).split()]))


def zsh_option(option: argparse.Action) -> list[str]:
    help_text = _help(option).translate({ord(letter): "\\" + letter for letter in "[]:\\"})
    value = ":file:_files" if takes_file(option) else f":value:({choices_of(option)})" if option.nargs != 0 else ""
    return [quote(f"{word}[{help_text}]{value}") for word in option.option_strings]


def fish_option(option: argparse.Action) -> str:
    words = [f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}" for word in option.option_strings]
    value = "-r" if takes_file(option) else "-x" if option.nargs != 0 else ""
    choices = f"-a '{choices_of(option)}'" if option.choices else ""
    return " ".join(filter(None, [*words, value, choices, f"-d {quote(_help(option))}" if option.help else ""]))


def quote(text: str) -> str:
    return "'" + text.replace("'", "’") + "'"  # noqa: RUF001 - no shell ends its quotes at a typographic apostrophe
