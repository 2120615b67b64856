"""``goalseek completion``: completion scripts for bash, zsh and fish, generated from the commands' parsers."""

import argparse
import importlib

from goalseek.cli.options import Options, Parser, add_options
from goalseek.cli.registry import COMMANDS

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


def arguments(parser: Parser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell that reads the script")


def run(options: Options) -> None:
    parsers = {name: command_parser(name) for name in COMMANDS}
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell](parsers, command_parser("")), end="")


def command_parser(name: str) -> Parser:
    """With the global options; for "" only what may come before a command."""
    parser = Parser(prog=name or "goalseek")
    add_options(parser, is_top=True)
    if name:
        importlib.import_module(f"goalseek.cli.commands.{name}").arguments(parser)
    else:
        parser.add_argument("--version", action="store_true", help="say which version this is")
    return parser


def options_of(parser: Parser) -> list[argparse.Action]:
    return [action for action in parser._actions if action.option_strings]


def places_of(parser: Parser) -> list[str]:
    return [choices_of(action) for action in parser._actions if action.choices and not action.option_strings]


def choices_of(action: argparse.Action) -> str:
    return " ".join(map(str, action.choices or ()))


def _takes_file(option: argparse.Action) -> bool:
    return option.nargs != 0 and any(word in str(option.metavar) for word in ("FILE", "DIR", "MANIFEST"))


def _help(option: argparse.Action) -> str:
    return (option.help or "").replace("%%", "%")


def _bash(parsers: dict[str, Parser], top: Parser) -> str:
    values = []
    for name, parser in (("", top), *parsers.items()):
        for option in options_of(parser):
            if option.nargs != 0 and not _takes_file(option):
                patterns = "|".join(f'"{name} {word}"' for word in option.option_strings)
                words = f'compgen -W "{choices_of(option)}" -- "$current"'
                values.append(f"        {patterns}) COMPREPLY=($({words})); return ;;")
    return _BASH % {
        "valued": "|".join(word for option in options_of(top) if option.nargs != 0 for word in option.option_strings),
        "alternatives": "|".join(parsers),
        "values": "\n".join(values),
        "top": " ".join([*parsers, _words_after(top)]),
        "cases": "\n".join(f'        {name}) words="{_words_after(parser)}" ;;' for name, parser in parsers.items()),
    }


def _words_after(parser: Parser) -> str:
    words = [word for option in options_of(parser) for word in option.option_strings]
    return " ".join(dict.fromkeys([*words, *" ".join(places_of(parser)).split()]))


def _zsh(parsers: dict[str, Parser], top: Parser) -> str:
    cases = []
    for name, parser in parsers.items():
        specs = [spec for option in options_of(parser) for spec in _zsh_option(option)]
        specs += [f"'{index}: :({choices})'" for index, choices in enumerate(places_of(parser), start=1)]
        cases.append(f"                {name}) _arguments {' '.join(specs)} '*:file:_files' ;;")
    return _ZSH % {
        "described": "\n".join(f"        {_quote(f'{name}:{COMMANDS[name][0]}')}" for name in parsers),
        "top": "\n".join(f"        {spec} \\" for option in options_of(top) for spec in _zsh_option(option)),
        "cases": "\n".join(cases),
    }


def _zsh_option(option: argparse.Action) -> list[str]:
    help_text = _help(option).translate({ord(letter): "\\" + letter for letter in "[]:\\"})
    value = ":file:_files" if _takes_file(option) else f":value:({choices_of(option)})" if option.nargs != 0 else ""
    return [_quote(f"{word}[{help_text}]{value}") for word in option.option_strings]


def _fish(parsers: dict[str, Parser], top: Parser) -> str:
    lines = []
    for name, parser in parsers.items():
        lines.append(f"complete -c goalseek -n __fish_use_subcommand -f -a {name} -d {_quote(COMMANDS[name][0])}")
        condition = f"-n '__fish_seen_subcommand_from {name}'"
        lines += [f"complete -c goalseek {condition} {_fish_option(option)}" for option in options_of(parser)]
        lines += [f"complete -c goalseek {condition} -a '{choices}'" for choices in places_of(parser)]
    lines += [f"complete -c goalseek -n __fish_use_subcommand {_fish_option(option)}" for option in options_of(top)]
    return "\n".join(lines) + "\n"


def _fish_option(option: argparse.Action) -> str:
    words = [f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}" for word in option.option_strings]
    value = "-r" if _takes_file(option) else "-x" if option.nargs != 0 else ""
    choices = f"-a '{choices_of(option)}'" if option.choices else ""
    return " ".join(filter(None, [*words, value, choices, f"-d {_quote(_help(option))}" if option.help else ""]))


def _quote(text: str) -> str:
    return "'" + text.replace("'", "’") + "'"  # noqa: RUF001 - no shell ends its quotes at a typographic apostrophe
