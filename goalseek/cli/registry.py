"""The table of commands, the modules they are in, and the options that every command takes."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple


class Command(NamedTuple):
    """A command as the help shows it: its group, what it does, and a command line to start from."""

    group: str
    summary: str
    example: str


COMMANDS = {
    "init": Command(
        "start",
        "Ask a few questions, measure once and write the manifest",
        "goalseek init --template python",
    ),
    "doctor": Command(
        "start", "Check the project, and say what to correct before a long run", "goalseek doctor --quick"
    ),
    "demo": Command(
        "start", "Climb in a fresh repository from an example: no key, no network", "goalseek demo digits -n 8"
    ),
    "noise": Command("start", "Show how much the metric varies when nothing changes", "goalseek noise -n 10"),
    "iterate": Command(
        "run",
        "Run one iteration, N of them with -n, or run until a limit",
        "goalseek iterate --forever --for 8h --until 'accuracy>=0.99'",
    ),
    "step": Command("run", "Run one phase of an iteration, then stop and name the next", "goalseek step"),
    "baseline": Command(
        "run", "Pin the verifier of HEAD, and measure the incumbent with it", "goalseek baseline --from HEAD"
    ),
    "status": Command(
        "run", "Show the best and the last result, the cost, and what to do next", "goalseek status --watch"
    ),
    "direct": Command(
        "run",
        "Tell the agent what to try, from the next iteration on",
        "goalseek direct 'prefer fewer parameters' --from 12 --to 20",
    ),
    "stop": Command("run", "Ask a running climb to stop after its current iteration", "goalseek stop"),
    "approve": Command("run", "Accept the verdict of the iteration that waits for you", "goalseek approve 12"),
    "decline": Command("run", "Revert the change of the iteration that waits for you", "goalseek decline 12"),
    "revert": Command(
        "run",
        "Take a kept change back: what was kept after it stays",
        "goalseek revert 12 --why 'it drops the log lines'",
    ),
    "exec": Command(
        "run",
        "Run a command, or a shell, where the agent or the verifier runs",
        "goalseek exec --as verify --at best -- python score.py",
    ),
    "log": Command("take home", "List the iterations, one line each", "goalseek log --kept --since yesterday"),
    "show": Command("take home", "Show one iteration in full", "goalseek show best --diff"),
    "compare": Command(
        "take home", "Measure two revisions in turn, and say which is better", "goalseek compare main best -n 10"
    ),
    "settle": Command("take home", "Measure the baseline and the best again, for a gain to claim", "goalseek settle"),
    "report": Command(
        "take home", "Write or serve a report: a page, or Markdown for a pull request", "goalseek report -o night.html"
    ),
    "promote": Command(
        "take home",
        "Preview the kept changes as ordinary commits, or make them",
        "goalseek promote --branch faster --onto main",
    ),
    "audit": Command("take home", "Check the records against git and their seals", "goalseek audit --rerun 12"),
    "manifest": Command(
        "take home",
        "Print the manifest with every default, or a JSON Schema",
        "goalseek manifest schema records",
    ),
    "prune": Command(
        "take home", "Remove workspaces, benches and old artifacts; records stay", "goalseek prune --keep 20 --dry-run"
    ),
    "help": Command("start", "Show a page of the guide, or explain a key of the manifest", "goalseek help scope.share"),
    "completion": Command(
        "take home", "Print a completion script for bash, zsh or fish", "goalseek completion bash > goalseek.bash"
    ),
}


_GUESTS = {"approve": ("decline",), "baseline": ("revert",), "report": ("settle",)}
MODULES = {name: module for module, names in _GUESTS.items() for name in names}
"""The commands that are in the module of another command of ``cli.commands``."""

REMOVED = {
    "rejudge": "read the recorded values in results.jsonl",
    "serve": "goalseek report --serve",
    "report -o *.svg": "the HTML page has the plot, and FILE.md is for a pull request",
    "report --format svg": "the HTML page has the plot, and --format md is for a pull request",
    "init --name": "edit project.name in the manifest that it writes",
    "init --share": "edit scope.share in the manifest that it writes",
    "init --outputs": "edit outputs of [[verify]] in the manifest that it writes",
    "init --time": "goalseek init --score 'time ./app'",
    "init --time-outputs": "edit outputs of [[verify]] in the manifest that it writes",
    "init --regex": "goalseek init --metric 'minimize /loss: ([0-9.]+)/'",
    "init --direction": "goalseek init --metric 'maximize accuracy'",
    "init --sees": "edit sees of [[verify]] in the manifest that it writes",
    "init --branch-prefix": "edit log.branch_prefix in the manifest that it writes",
    "init --program": "write program.md beside the manifest; init offers one at a terminal",
    "manifest explain": "goalseek help scope.share explains a key, goalseek help '[scope]' a table",
    "noise --jobs": "with parallel.benches = 1 nothing disturbs a measurement; see goalseek help parallel",
}
"""What was a command, an option or a value of one, as it was typed, and what to do instead."""

OPTIONS = {
    "-C": ("DIR", "work in this folder"),
    "-m": ("MANIFEST", "this manifest: a path, or a name (speed: goalseek.speed.toml)"),
    "-q": ("", "print no progress messages"),
    "-v": ("", "print more progress messages"),
    "--json": ("", "answer in JSON"),
    "--query": ("JMESPATH", "answer with this part of the JSON"),
    "--color": ("WHEN", "auto, always or never (default: auto)"),
}
"""The options of every command: the name of the value, where there is one, and the help."""


def removed_words(words: list[str]) -> str:
    """What of a command line was removed, as ``REMOVED`` has it; "" where nothing was."""
    typed = [part for word in words for part in word.split("=", 1)]
    for removed in REMOVED:
        name, *rest = removed.split()
        places = range(1, len(typed) - len(rest) + 1)
        if typed[0] == name and any(all(map(_asks_for, typed[place:], rest)) for place in places):
            return removed
    return ""


def _asks_for(word: str, removed: str) -> bool:
    """Whether a word is what was removed; also where it shortens an option, which argparse took."""
    return fnmatchcase(word, removed) or (len(word) > len("--no") and removed.startswith(word))


def topics() -> dict[str, Path]:
    """The pages of the guide by their topics."""
    pages = {path.stem: path for path in (Path(__file__).parents[1] / "guide").glob("*.md")}
    return dict(sorted(pages.items()))


def help_text(version: str) -> str:
    """What ``goalseek --help`` prints."""
    lines = [
        "usage: goalseek [OPTIONS] COMMAND ...",
        "",
        "Improves one number in a git repository: an agent proposes a change, a verifier",
        "that the agent cannot see measures it, and only a measured gain is kept.",
    ]
    for group in ("start", "run", "take home"):
        lines += ["", f"{group}:"]
        lines += [f"  {name:<11} {command.summary}" for name, command in COMMANDS.items() if command.group == group]
    lines += ["", "options of every command, before or after its name:"]
    lines += [f"  {f'{name} {value}':<16} {text}" for name, (value, text) in OPTIONS.items()]
    lines += ["", "`goalseek COMMAND --help` explains one command, with an example."]
    lines += ["`goalseek help` lists the pages of the guide.", f"goalseek {version}"]
    return "\n".join(lines)
