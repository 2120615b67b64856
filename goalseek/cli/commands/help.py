"""``goalseek help``: the topics of the guide, or one of its pages: rich at a terminal, as it is written in a pipe."""

from __future__ import annotations

import argparse
import difflib
import sys
import textwrap

from goalseek.cli.output import print_answer, wants_json
from goalseek.cli.registry import COMMANDS, topics
from goalseek.errors import GoalseekError
from goalseek.humanize import first_sentence
from goalseek.views.terminal_text import is_coloured, terminal_width

_WIDEST = 100
OTHER_NAMES = {
    "ablate": "promote",
    "cheat": "manifest-metric",
    "execvp": "troubleshooting",
    "fresh": "overnight",
    "guard": "manifest-metric",
    "holdout": "noise",
    "interpreter": "troubleshooting",
    "job": "parallel",
    "landing": "parallel",
    "mark": "providers",
    "notification": "overnight",
    "notify": "overnight",
    "odds": "noise",
    "outage": "agents",
    "outrun": "parallel",
    "plateau": "overnight",
    "rotate": "overnight",
    "sandbox": "security",
    "settled": "noise",
    "slot": "parallel",
    "stack": "noise",
    "tune": "providers",
}
_HEAD = ("goalseek help TOPIC shows one of these pages:", "")
_FOOT = (
    "",
    "goalseek --help lists the commands; goalseek help COMMAND shows the options of one.",
    "goalseek manifest explain lists the tables of the manifest; goalseek manifest explain KEY explains one key.",
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``help`` takes."""
    names = dict.fromkeys([*topics(), *COMMANDS])
    help_text = "a topic of the guide, or a command"
    parser.add_argument("topic", metavar="TOPIC", nargs="?", type=_read_topic, choices=names, help=help_text)
    parser.epilog = "Without a topic, it lists them. In a pipe a page is plain text: goalseek help noise | less"


def _read_topic(text: str) -> str:
    if text in topics() or text in COMMANDS:
        return text
    if page := OTHER_NAMES.get(text) or OTHER_NAMES.get(text.removesuffix("s")):
        return page
    near = difflib.get_close_matches(text, [*topics(), *COMMANDS, *OTHER_NAMES], n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"topics: {', '.join(topics())}; commands: goalseek --help"
    raise GoalseekError(f"the guide has no page {text!r}", hint)


def run(options: argparse.Namespace) -> int:
    """Prints the list of topics, or the page of one."""
    if options.topic is None:
        return _list_topics(options)
    text = topics()[options.topic].read_text("utf-8")
    if options.topic in COMMANDS:
        text += f"\nThe options of the command: `goalseek {options.topic} --help`.\n"
    if is_coloured(sys.stdout, options.color) and not wants_json(options):
        _print_rich(text)
    else:
        print_answer(options, {"topic": options.topic, "text": text}, text.rstrip("\n"))
    return 0


def _list_topics(options: argparse.Namespace) -> int:
    rows = [
        {"topic": topic, "summary": first_sentence(page.read_text("utf-8")).replace("`", "")}
        for topic, page in topics().items()
    ]
    indent = 4 + max(len(topic) for topic in topics())
    columns = max(terminal_width(sys.stdout) or sys.maxsize, 2 * indent)
    lines = [
        line
        for row in rows
        for line in textwrap.wrap(
            f"  {row['topic']:<{indent - 2}}{row['summary']}", columns, subsequent_indent=" " * indent
        )
    ]
    print_answer(options, rows, *_HEAD, *lines, *_FOOT)
    return 0


def _print_rich(text: str) -> None:
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.theme import Theme

    console = Console(file=sys.stdout, force_terminal=True, theme=Theme({"markdown.code": "cyan"}))
    page = Markdown(text, code_theme="ansi_light", hyperlinks=False)
    console.print(page, width=min(console.width, _WIDEST))
