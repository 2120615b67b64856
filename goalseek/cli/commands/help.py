"""``goalseek help``: the topics of the guide, or one of its pages: rich at a terminal, as it is written in a pipe."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Sequence

from goalseek.cli.output import print_answer, wants_json
from goalseek.cli.registry import COMMANDS, topics
from goalseek.errors import GoalseekError
from goalseek.humanize import did_you_mean, first_sentence
from goalseek.views.terminal_text import is_coloured, terminal_width

_WIDEST = 100
OTHER_NAMES = {
    word: page
    for page, words in {
        "agents": "outage",
        "manifest-metric": "cheat guard",
        "noise": "flaky holdout odds settled stack",
        "overnight": "fresh notification notify plateau rotate",
        "parallel": "job landing outrun slot",
        "promote": "ablate pr",
        "providers": "mark tune",
        "security": "landlock sandbox",
        "troubleshooting": "execvp interpreter",
    }.items()
    for word in words.split()
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

    def read(text: str) -> str:
        topic = _read_topic(text)
        names.setdefault(topic)  # argparse refuses what is none of the choices, which completion offers
        return topic

    help_text = "a topic of the guide, a command, or a word to search the guide for"
    parser.add_argument("topic", metavar="TOPIC", nargs="?", type=read, choices=names, help=help_text)
    parser.epilog = "Without a topic, it lists them. In a pipe a page is plain text: goalseek help noise | less"


def _read_topic(text: str) -> str:
    if text in topics() or text in COMMANDS:
        return text
    if page := OTHER_NAMES.get(text) or OTHER_NAMES.get(text.removesuffix("s")):
        return page
    if search_guide(text):
        return text
    near = did_you_mean(text, [*topics(), *COMMANDS, *OTHER_NAMES])
    hint = near or f"topics: {', '.join(topics())}; commands: goalseek --help"
    raise GoalseekError(f"the guide has no page {text!r}, and no page has that word", hint)


def search_guide(text: str) -> list[dict[str, str]]:
    """The pages that have the text as words of their own, best first, each with the line that says most of it."""
    words = re.compile(rf"(?<!\w){re.escape(text)}s?(?!\w)", re.IGNORECASE)
    found = []
    for topic, page in topics().items():
        lines = [line for line in page.read_text("utf-8").splitlines() if words.search(line)]
        lines.sort(key=lambda line: line[:1] != "#")
        score = sum(5 if line[:1] == "#" else 1 for line in lines)
        found += [(score, {"topic": topic, "summary": lines[0].strip("#*| ").replace("`", "")})] if lines else []
    return [row for _, row in sorted(found, key=lambda scored: -scored[0])]


def run(options: argparse.Namespace) -> int:
    """Prints the list of topics, or the page of one."""
    if options.topic is None:
        rows = [
            {"topic": topic, "summary": first_sentence(page.read_text("utf-8")).replace("`", "")}
            for topic, page in topics().items()
        ]
        return _list_topics(options, rows, _HEAD, _FOOT)
    if options.topic not in topics():
        head = (f"no page is called {options.topic!r}; goalseek help TOPIC shows one that has the word:", "")
        return _list_topics(options, search_guide(options.topic), head)
    text = topics()[options.topic].read_text("utf-8")
    if options.topic in COMMANDS:
        text += f"\nThe options of the command: `goalseek {options.topic} --help`.\n"
    if is_coloured(sys.stdout, options.color) and not wants_json(options):
        _print_rich(text)
    else:
        print_answer(options, {"topic": options.topic, "text": text}, text.rstrip("\n"))
    return 0


def _list_topics(
    options: argparse.Namespace, rows: list[dict[str, str]], head: Sequence[str], foot: Sequence[str] = ()
) -> int:
    indent = 4 + max(len(topic) for topic in topics())
    columns = max(terminal_width(sys.stdout) or sys.maxsize, 2 * indent)
    lines = [
        line
        for row in rows
        for line in textwrap.wrap(
            f"  {row['topic']:<{indent - 2}}{row['summary']}", columns, subsequent_indent=" " * indent
        )
    ]
    print_answer(options, rows, *head, *lines, *foot)
    return 0


def _print_rich(text: str) -> None:
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.theme import Theme

    console = Console(file=sys.stdout, force_terminal=True, theme=Theme({"markdown.code": "cyan"}))
    page = Markdown(text, code_theme="ansi_light", hyperlinks=False)
    console.print(page, width=min(console.width, _WIDEST))
