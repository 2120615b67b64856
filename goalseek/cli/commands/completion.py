"""``goalseek completion``: a script that completes commands, options and their values, made from the parsers."""

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
    shapes = {name: shape_of(name) for name in COMMANDS}
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell](shapes, top_shape()), end="")
    return 0


def _bash(shapes: dict[str, Shape], top: Shape) -> str:
    values = []
    for name, shape in (("", top), *shapes.items()):
        for option in shape.options:
            if option.takes_value and not option.takes_file:
                patterns = "|".join(f'"{name} {word}"' for word in option.words)
                chosen = " ".join(option.choices)
                values.append(f'        {patterns}) COMPREPLY=($(compgen -W "{chosen}" -- "$current")); return ;;')
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
        specs += [f"'{place}: :({' '.join(choices)})'" for place, choices in enumerate(shape.places, start=1)]
        cases.append(f"                {name}) _arguments {' '.join(specs)} '*:file:_files' ;;")
    return _ZSH % {
        "described": "\n".join(f"        {_single(f'{name}:{COMMANDS[name][1]}')}" for name in shapes),
        "top": "\n".join(f"        {spec} \\" for option in top.options for spec in _zsh_option(option)),
        "cases": "\n".join(cases),
    }


def _zsh_option(option: Option) -> list[str]:
    told = option.help.translate({ord(letter): "\\" + letter for letter in "[]:\\"})
    value = f":{'file' if option.takes_file else 'value'}:" if option.takes_value else ""
    value += "_files" if option.takes_file else f"({' '.join(option.choices)})" if value else ""
    return [_single(f"{word}[{told}]{value}") for word in option.words]


def _fish(shapes: dict[str, Shape], top: Shape) -> str:
    lines = []
    for name, shape in shapes.items():
        lines.append(f"complete -c goalseek -n __fish_use_subcommand -f -a {name} -d {_single(COMMANDS[name][1])}")
        seen = f"-n '__fish_seen_subcommand_from {name}'"
        lines += [f"complete -c goalseek {seen} {_fish_option(option)}" for option in shape.options]
        lines += [f"complete -c goalseek {seen} -a '{' '.join(choices)}'" for choices in shape.places]
    lines += [f"complete -c goalseek -n __fish_use_subcommand {_fish_option(option)}" for option in top.options]
    return "\n".join(lines) + "\n"


def _fish_option(option: Option) -> str:
    named = [f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}" for word in option.words]
    value = "-r" if option.takes_file else "-x" if option.takes_value else ""
    chosen = f"-a '{' '.join(option.choices)}'" if option.choices else ""
    return " ".join(filter(None, [*named, value, chosen, f"-d {_single(option.help)}" if option.help else ""]))


def _single(text: str) -> str:
    """In single quotes, for all three shells: none of them needs a quote of its own in a help text."""
    return "'" + text.replace("'", "’") + "'"  # noqa: RUF001 - that is the point of it


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
    importlib.import_module(f"goalseek.cli.commands.{module_of(name)}").arguments(parser)
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
