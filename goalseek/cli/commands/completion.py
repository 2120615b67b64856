"""``goalseek completion``: completion scripts for bash, zsh and fish, generated from the commands' parsers."""

from __future__ import annotations

import argparse
import importlib
from dataclasses import dataclass

from goalseek.cli.options import Parser, add_options
from goalseek.cli.registry import COMMANDS, module_of

_BASH = """\
_goalseek() {
    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" command="" place=1 word
    if [ "$current" = "=" ]; then
        current=""
    elif [ "$previous" = "=" ]; then
        previous="${COMP_WORDS[COMP_CWORD-2]}"
    fi
    while [ "$place" -lt "$COMP_CWORD" ]; do
        word="${COMP_WORDS[place]}"
        case "$word" in
            %(valued)s) place=$((place + 1)) ;;
            %(alternatives)s) command="$word"; break ;;
        esac
        place=$((place + 1))
    done
    case "$command $previous" in
%(values)s
    esac
    local words="%(top)s"
    case "$command" in
%(cases)s
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    if [ -n "$command" ]; then
        local IFS=$'\\n'
        COMPREPLY+=($(compgen -f -- "$current"))
    fi
}
complete -o filenames -F _goalseek goalseek
"""
_ZSH = """\
#compdef goalseek
_goalseek() {
    local context state state_descr line
    local -a commands=(
%(described)s
    )
    typeset -A opt_args
    _arguments -C \\
%(top)s
        '1: :->command' '*:: :->rest'
    case "$state" in
        command) _describe command commands ;;
        rest)
            case "$line[1]" in
%(cases)s
            esac ;;
    esac
}
compdef _goalseek goalseek
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``completion`` takes."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(options: argparse.Namespace) -> int:
    """Prints the script."""
    shapes = {name: command_shape(name) for name in COMMANDS}
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell](shapes, command_shape("")), end="")
    return 0


def _bash(shapes: dict[str, Shape], top: Shape) -> str:
    values = []
    for name, shape in (("", top), *shapes.items()):
        for option in shape.options:
            if option.takes_value and not option.takes_file:
                patterns = "|".join(f'"{name} {word}"' for word in option.words)
                choices = " ".join(option.choices)
                values.append(f'        {patterns}) COMPREPLY=($(compgen -W "{choices}" -- "$current")); return ;;')
    cases = [f'        {name}) words="{" ".join(shape.words)}" ;;' for name, shape in shapes.items()]
    return _BASH % {
        "valued": "|".join(word for option in top.options if option.takes_value for word in option.words),
        "alternatives": "|".join(shapes),
        "values": "\n".join(values),
        "top": " ".join([*shapes, *top.words]),
        "cases": "\n".join(cases),
    }


def _zsh(shapes: dict[str, Shape], top: Shape) -> str:
    cases = []
    for name, shape in shapes.items():
        specs = [spec for option in shape.options for spec in _zsh_option(option)]
        specs += [f"'{index}: :({' '.join(choices)})'" for index, choices in enumerate(shape.places, start=1)]
        cases.append(f"                {name}) _arguments {' '.join(specs)} '*:file:_files' ;;")
    return _ZSH % {
        "described": "\n".join(f"        {_quote(f'{name}:{COMMANDS[name][1]}')}" for name in shapes),
        "top": "\n".join(f"        {spec} \\" for option in top.options for spec in _zsh_option(option)),
        "cases": "\n".join(cases),
    }


def _zsh_option(option: Option) -> list[str]:
    help_text = option.help.translate({ord(letter): "\\" + letter for letter in "[]:\\"})
    value = f":{'file' if option.takes_file else 'value'}:" if option.takes_value else ""
    value += "_files" if option.takes_file else f"({' '.join(option.choices)})" if value else ""
    return [_quote(f"{word}[{help_text}]{value}") for word in option.words]


def _fish(shapes: dict[str, Shape], top: Shape) -> str:
    lines = []
    for name, shape in shapes.items():
        lines.append(f"complete -c goalseek -n __fish_use_subcommand -f -a {name} -d {_quote(COMMANDS[name][1])}")
        condition = f"-n '__fish_seen_subcommand_from {name}'"
        lines += [f"complete -c goalseek {condition} {_fish_option(option)}" for option in shape.options]
        lines += [f"complete -c goalseek {condition} -a '{' '.join(choices)}'" for choices in shape.places]
    lines += [f"complete -c goalseek -n __fish_use_subcommand {_fish_option(option)}" for option in top.options]
    return "\n".join(lines) + "\n"


def _fish_option(option: Option) -> str:
    words = [f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}" for word in option.words]
    value = "-r" if option.takes_file else "-x" if option.takes_value else ""
    choices = f"-a '{' '.join(option.choices)}'" if option.choices else ""
    return " ".join(filter(None, [*words, value, choices, f"-d {_quote(option.help)}" if option.help else ""]))


def _quote(text: str) -> str:
    """In single quotes, for all three shells; an apostrophe in it becomes a typographic one."""
    return "'" + text.replace("'", "’") + "'"  # noqa: RUF001 - a typographic apostrophe


@dataclass(frozen=True)
class Option:
    """An option: its spellings, its help, and the choices of its value where those are limited."""

    words: tuple[str, ...]
    help: str
    takes_value: bool
    takes_file: bool
    choices: tuple[str, ...]


@dataclass(frozen=True)
class Shape:
    """The options of a command, and the choices of each positional argument that has any."""

    options: tuple[Option, ...]
    places: tuple[tuple[str, ...], ...]

    @property
    def words(self) -> list[str]:
        """Every word that may follow the command, except the values of options."""
        words = [word for option in self.options for word in option.words]
        return list(dict.fromkeys([*words, *(choice for choices in self.places for choice in choices)]))


def command_shape(name: str) -> Shape:
    """The shape of a command, global options included; of what may come before a command where ``name`` is ""."""
    parser = Parser(prog=name or "goalseek")
    add_options(parser, is_top=True)
    if name:
        importlib.import_module(f"goalseek.cli.commands.{module_of(name)}").arguments(parser)
    else:
        parser.add_argument("--version", action="store_true", help="say which version this is")
    options = tuple(_option(action) for action in parser._actions if action.option_strings)
    places = (tuple(map(str, action.choices or ())) for action in parser._actions if not action.option_strings)
    return Shape(options, tuple(choices for choices in places if choices))


def _option(action: argparse.Action) -> Option:
    metavar = str(action.metavar or "")
    takes_value = action.nargs != 0
    takes_file = takes_value and any(word in metavar for word in ("FILE", "DIR", "MANIFEST"))
    help_text = (action.help or "").replace("%%", "%") if action.help is not argparse.SUPPRESS else ""
    choices = tuple(map(str, action.choices or ()))
    return Option(tuple(action.option_strings), help_text, takes_value, takes_file, choices)
