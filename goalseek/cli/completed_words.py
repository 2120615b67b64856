"""What a command line may hold, read off the parsers."""

from __future__ import annotations

import argparse
import importlib
from dataclasses import dataclass

from goalseek.cli.options import Parser, add_options


@dataclass(frozen=True)
class Option:
    """An option: its spellings, what it is for, and its value's choices where it takes one of so many."""

    words: tuple[str, ...]
    help: str
    takes_value: bool
    takes_file: bool
    choices: tuple[str, ...]


@dataclass(frozen=True)
class Shape:
    """The options of a command, and for each place that takes one of so many words, these."""

    options: tuple[Option, ...]
    places: tuple[tuple[str, ...], ...]

    @property
    def words(self) -> list[str]:
        """Every word that may come next, the values of options aside."""
        found = [word for option in self.options for word in option.words]
        return list(dict.fromkeys([*found, *(choice for choices in self.places for choice in choices)]))


def shape_of(name: str) -> Shape:
    """Of a command, with the options that every command takes."""
    parser = _parser(name)
    importlib.import_module(f"goalseek.cli.{name}_command").arguments(parser)
    return _shape(parser)


def top_shape() -> Shape:
    """Of what may come before the command."""
    parser = _parser("goalseek")
    parser.add_argument("--version", action="store_true", help="say which version this is")
    return _shape(parser)


def _parser(name: str) -> argparse.ArgumentParser:
    parser = Parser(prog=name)
    add_options(parser, is_top=True)
    return parser


def _shape(parser: argparse.ArgumentParser) -> Shape:
    actions = parser._actions
    options = tuple(_option(action) for action in actions if action.option_strings)
    places = (tuple(map(str, action.choices or ())) for action in actions if not action.option_strings)
    return Shape(options, tuple(choices for choices in places if choices))


def _option(action: argparse.Action) -> Option:
    metavar = str(action.metavar or "")
    takes_value = action.nargs != 0
    takes_file = takes_value and any(word in metavar for word in ("FILE", "DIR", "MANIFEST"))
    help_text = (action.help or "").replace("%%", "%") if action.help is not argparse.SUPPRESS else ""
    choices = tuple(map(str, action.choices or ()))
    return Option(tuple(action.option_strings), help_text, takes_value, takes_file, choices)
