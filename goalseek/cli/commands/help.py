"""``goalseek help``: the topics of the guide, one of its pages, or a key of the manifest."""

import re
import sys
import textwrap
from collections.abc import Sequence

from goalseek.cli.options import Options, Parser
from goalseek.cli.registry import COMMANDS, topics
from goalseek.errors import GoalseekError
from goalseek.humanize import did_you_mean, first_sentence
from goalseek.manifest.keys import find_keys, manifest_keys
from goalseek.views.terminal_text import is_coloured, terminal_width

_WIDEST = 100
OTHER_NAMES = {
    word: page
    for page, words in {
        "agents": "outage",
        "cluster": "container dask slurm worker",
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


def arguments(parser: Parser) -> None:
    keys = manifest_keys()
    names = dict.fromkeys([*topics(), *COMMANDS, *keys, *(key.last_name for key in keys.values())])

    def read(text: str) -> str:
        if not (_page_of(text) or find_keys(text) or search_guide(text)):
            near = did_you_mean(text, [*names, *OTHER_NAMES])
            hint = near or f"topics: {', '.join(topics())}; commands: goalseek --help --all"
            message = f"the guide has no page {text!r}, the manifest has no such key, and no page has that word"
            raise GoalseekError(message, hint)
        names.setdefault(text)  # argparse refuses a word that is no choice; completion offers the others
        return text

    help_text = "a topic of the guide, a command, a key of the manifest, or a word to search the guide for"
    parser.add_argument("topic", metavar="TOPIC", nargs="?", type=read, choices=names, help=help_text)
    parser.epilog = "Without a topic, it lists them. In a pipe a page is plain text: goalseek help noise | less"


def _page_of(text: str) -> str:
    return text if text in topics() else OTHER_NAMES.get(text) or OTHER_NAMES.get(text.removesuffix("s"), "")


def search_guide(text: str) -> list[dict[str, str]]:
    """The pages with the text as words of their own, best first, each with its most telling line."""
    words = re.compile(rf"(?<!\w){re.escape(text)}s?(?!\w)", re.IGNORECASE)
    found = []
    for topic, page in topics().items():
        lines = [line for line in page.read_text("utf-8").splitlines() if words.search(line)]
        lines.sort(key=lambda line: line[:1] != "#")
        score = sum(5 if line[:1] == "#" else 1 for line in lines)
        found += [(score, {"topic": topic, "summary": lines[0].strip("#*| ").replace("`", "")})] if lines else []
    return [row for _, row in sorted(found, key=lambda scored: -scored[0])]


def run(options: Options) -> None:
    if options.topic is None:
        rows = [
            {"topic": topic, "summary": first_sentence(page.read_text("utf-8")).replace("`", "")}
            for topic, page in topics().items()
        ]
        foot = (
            "",
            "goalseek --help --all lists the commands; goalseek help COMMAND shows the options of one.",
            "goalseek help KEY explains a key or a table of the manifest, such as scope.share or '[limits]'.",
        )
        _list_topics(options, rows, "goalseek help TOPIC shows one of these pages:", foot)
    elif page := _page_of(options.topic):
        text = topics()[page].read_text("utf-8")
        if page in COMMANDS:
            text += f"\nThe options of the command: `goalseek {page} --help`.\n"
        if table := manifest_keys().get(options.topic):
            text += f"\nThe keys of the table: `goalseek help '{table.header}'`.\n"
        if is_coloured(sys.stdout, options.color) and not options.wants_json:
            from rich.console import Console
            from rich.markdown import Markdown
            from rich.theme import Theme

            console = Console(file=sys.stdout, force_terminal=True, theme=Theme({"markdown.code": "cyan"}))
            markdown = Markdown(text, code_theme="ansi_light", hyperlinks=False)
            console.print(markdown, width=min(console.width, _WIDEST))
        else:
            options.print_answer({"topic": page, "text": text}, text.rstrip("\n"))
    elif keys := find_keys(options.topic):
        if len(keys) == 1 and keys[0].inner:
            (table,) = keys
            keys = [*table.inner]
            names = [key.header if key.inner else key.last_name for key in keys]
            width = max(map(len, names))
            lines = [f"  {name:<{width}}  {key.text}" for name, key in zip(names, keys, strict=True)]
            text = "\n".join([f"{table.header}\n{table.text}\n", *lines, "\ngoalseek help KEY explains one key."])
        else:
            texts = []
            for key in keys:
                example = "\n".join(filter(None, [key.header, key.example]))
                texts.append(f"{key.name}: {key.kind}\n{key.text}\n\n{example}")
            text = "\n\n\n".join(texts)
        fields = []
        for key in keys:
            row = {"key": key.name, "kind": key.kind, "text": key.text, "table": key.header}
            fields.append({**row, "example": None if key.inner else key.example})
        options.print_answer(fields, text)
    else:
        head = f"no page is called {options.topic!r}; goalseek help TOPIC shows one that has the word:"
        _list_topics(options, search_guide(options.topic), head)


def _list_topics(options: Options, rows: list[dict[str, str]], head: str, foot: Sequence[str] = ()) -> None:
    indent = 4 + max(len(topic) for topic in topics())
    columns = max(terminal_width(sys.stdout) or sys.maxsize, 2 * indent)
    lines: list[str] = []
    for row in rows:
        text = f"  {row['topic']:<{indent - 2}}{row['summary']}"
        lines += textwrap.wrap(text, columns, subsequent_indent=" " * indent)
    options.print_answer(rows, head, "", *lines, *foot)
