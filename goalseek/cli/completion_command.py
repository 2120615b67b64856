"""``goalseek completion``: a script that completes commands, options and choices, made from the parsers themselves."""

from __future__ import annotations

import argparse
import importlib
import shlex

from goalseek.cli.commands import COMMANDS
from goalseek.cli.options import Parser, add_options

_BASH = """\
_goalseek() {
    local current="${COMP_WORDS[COMP_CWORD]}" command="" word
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case "$word" in
            %(alternatives)s) command="$word"; break ;;
        esac
    done
    local words="%(top)s"
    case "$command" in
%(cases)s
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    if [ -n "$command" ]; then
        local IFS=$'\n'
        COMPREPLY+=($(compgen -f -- "$current"))
    fi
}
complete -o filenames -F _goalseek goalseek
"""
_ZSH = """\
#compdef goalseek
_goalseek() {
    local command="" word
    for word in "${words[@]:1:$((CURRENT-2))}"; do
        case "$word" in
            %(alternatives)s) command="$word"; break ;;
        esac
    done
    case "$command" in
%(cases)s
        *) local -a commands=(%(described)s); _describe command commands; compadd -- %(top_options)s ;;
    esac
}
compdef _goalseek goalseek
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``completion`` takes."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(options: argparse.Namespace) -> int:
    """Prints the script."""
    words = {name: _words(name) for name in COMMANDS}
    top = _options(_parser("goalseek"))
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell](words, top), end="")
    return 0


def _bash(words: dict[str, list[str]], top: list[str]) -> str:
    cases = "\n".join(f'        {name}) words="{" ".join(found)}" ;;' for name, found in words.items())
    return _BASH % {"alternatives": "|".join(words), "top": " ".join([*words, *top]), "cases": cases}


def _zsh(words: dict[str, list[str]], top: list[str]) -> str:
    cases = "\n".join(f"        {name}) compadd -- {' '.join(found)}; _files ;;" for name, found in words.items())
    described = " ".join(shlex.quote(f"{name}:{COMMANDS[name][1]}") for name in words)
    return _ZSH % {
        "alternatives": "|".join(words),
        "cases": cases,
        "described": described,
        "top_options": " ".join(top),
    }


def _fish(words: dict[str, list[str]], top: list[str]) -> str:
    lines = []
    for name, found in words.items():
        about = COMMANDS[name][1].replace("'", "\\'")
        lines.append(f"complete -c goalseek -n __fish_use_subcommand -f -a {name} -d '{about}'")
        lines += [f"complete -c goalseek -n '__fish_seen_subcommand_from {name}' {_fish_word(word)}" for word in found]
    lines += [f"complete -c goalseek -n __fish_use_subcommand {_fish_word(word)}" for word in top]
    return "\n".join(lines) + "\n"


def _fish_word(word: str) -> str:
    if word.startswith("--"):
        return f"-l {word[2:]}"
    return f"-o {word[1:]}" if word.startswith("-") and len(word) > 1 else f"-a {word}"


def _words(name: str) -> list[str]:
    parser = _parser(name)
    importlib.import_module(f"goalseek.cli.{name}_command").arguments(parser)
    found = _options(parser)
    for action in parser._actions:
        found += [str(choice) for choice in action.choices or ()]
    return list(dict.fromkeys(found))


def _parser(name: str) -> argparse.ArgumentParser:
    parser = Parser(prog=name)
    add_options(parser, is_top=True)
    return parser


def _options(parser: argparse.ArgumentParser) -> list[str]:
    return [option for action in parser._actions for option in action.option_strings]
