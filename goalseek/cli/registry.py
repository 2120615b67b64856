"""The table of commands, and the options that every command takes."""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

_GROUPS = {  # a summary and an example of each, without the program's name
    "start": {
        "init": ("Ask a few questions, measure once and write the manifest", "init --template python"),
        "doctor": ("Check the project before a long run, and suggest corrections", "doctor --quick"),
        "skill": ("Teach the coding agents on this machine how to use goalseek", "skill install --project"),
        "demo": ("Climb in a fresh repository from an example: no key, no network", "demo digits -n 8"),
        "noise": ("Show how much the metric varies when nothing changes", "noise -n 10"),
        "help": ("Show a page of the guide, or explain a key of the manifest", "help scope.share"),
    },
    "run": {
        "iterate": (
            "Run one iteration, N of them with -n, or run until a limit",
            "iterate --forever --for 8h --until 'accuracy>=0.99'",
        ),
        "step": ("Run one phase of an iteration, then stop and name the next", "step"),
        "baseline": ("Pin the verifier of HEAD, and measure the incumbent with it", "baseline --from HEAD"),
        "status": ("Show the best and the last result, the cost and the next step", "status --watch"),
        "brief": ("Tell whoever edits here what a prompt tells the agent", "brief --json"),
        "try": (
            "Measure your own edits, and keep them if they are a gain",
            "try 'a wider cache' --why 'misses cost most'",
        ),
        "wait": ("Wait for the result of a try that goes on", "wait 14"),
        "drive": ("Work in the agent's sandbox with an agent or a shell of your own", "drive claude"),
        "mcp": ("Serve try, wait, brief and others to an agent by MCP", "mcp"),
        "direct": (
            "Tell the agent what to try, from the next iteration on",
            "direct 'prefer fewer parameters' --from 12 --to 20",
        ),
        "stop": ("Ask a running climb to stop after its current iteration", "stop"),
        "approve": ("Accept the verdict of the iteration that waits for you", "approve 12"),
        "decline": ("Revert the change of the iteration that waits for you", "decline 12"),
        "revert": ("Take a kept change back; later kept changes stay", "revert 12 --why 'it drops the log lines'"),
        "exec": (
            "Run a command or a shell in the agent's or verifier's sandbox",
            "exec --as verify --at best -- python score.py",
        ),
    },
    "take home": {
        "log": ("List the iterations, one line each", "log --outcome kept --since yesterday"),
        "show": ("Show one iteration in full", "show best --diff"),
        "compare": ("Measure two revisions in turn, and say which is better", "compare main best -n 10"),
        "settle": ("Measure the baseline and the best again, for a gain to claim", "settle"),
        "claim": ("Settle, and write the gain as a file that others can check", "claim -o gain.tar"),
        "verify": ("Measure the gain of somebody else's claim again", "verify gain.tar --signers allowed_signers"),
        "report": ("Write or serve a report: a page, or Markdown for a pull request", "report -o night.html"),
        "export": ("Write all iterations to a file, MLflow or TensorBoard", "export --to csv night.csv"),
        "promote": (
            "Preview the kept changes as ordinary commits, or make them",
            "promote --branch faster --onto main",
        ),
        "audit": ("Check the records against git and their seals", "audit --rerun 12"),
        "manifest": ("Print the manifest with every default, or a JSON Schema", "manifest schema records"),
        "prune": ("Remove workspaces, benches and old artifacts; records stay", "prune --keep 20 --dry-run"),
        "completion": ("Print a completion script for bash, zsh or fish", "completion bash > goalseek.bash"),
    },
}
_FIRST = ("init", "doctor", "iterate", "status", "log", "show", "report", "promote")
COMMANDS = {name: texts for commands in _GROUPS.values() for name, texts in commands.items()}

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
    "log --kept": "goalseek log --outcome kept",
    "log -o": "goalseek export --to csv FILE, or --to jsonl, or --to parquet",
    "show --raw": "the files in the run folder that `goalseek show` names have the bytes",
    "demo --list": "goalseek demo --help lists the examples",
    "noise --wall": "without --regex and --query, the number is the wall time",
    "noise --jobs": "with parallel.benches = 1 nothing disturbs a measurement; see goalseek help parallel",
}
"""What was a command, an option or a value of one, as it was typed, and what to do instead."""

OPTIONS: dict[str, dict[str, Any]] = {
    "-C": {"dest": "folder", "metavar": "DIR", "default": ".", "help": "work in this folder"},
    "-m": {
        "dest": "manifest",
        "metavar": "MANIFEST",
        "help": "this manifest: a path, or a name (speed: goalseek.speed.toml)",
    },
    "-q": {"dest": "quiet", "action": "store_true", "help": "print no progress messages"},
    "-v": {"dest": "verbose", "action": "store_true", "help": "print more progress messages"},
    "--json": {"action": "store_true", "help": "answer in JSON"},
    "--query": {"metavar": "JMESPATH", "help": "answer with this part of the JSON"},
    "--color": {
        "metavar": "WHEN",
        "choices": ("auto", "always", "never"),
        "default": "auto",
        "help": "auto, always or never (default: auto)",
    },
}
"""The options of every command, as argparse takes them."""


def option_usage(option: str) -> str:
    return f"{option} {OPTIONS[option].get('metavar', '')}".rstrip()


def removed_words(words: list[str]) -> str:
    """The key of ``REMOVED`` that a command line asks for, or ""."""

    def asks_for(word: str, removed: str) -> bool:  # argparse took abbreviated options, too
        return fnmatchcase(word, removed) or (len(word) > len("--no") and removed.startswith(word))

    typed = [part for word in words for part in word.split("=", 1)]
    for removed in REMOVED:
        name, *rest = removed.split()
        places = range(1, len(typed) - len(rest) + 1)
        if typed[0] == name and any(all(map(asks_for, typed[place:], rest)) for place in places):
            return removed
    return ""


def topics() -> dict[str, Path]:
    pages = {path.stem: path for path in (Path(__file__).parents[1] / "guide").glob("*.md")}
    return dict(sorted(pages.items()))


def help_text(version: str, is_whole: bool) -> str:
    """Eight commands, on a screen of 24 lines; if ``is_whole``, every command by group, and a line for each option."""
    lines = [
        "usage: goalseek [OPTIONS] COMMAND ...",
        "",
        "Improves one number in a git repository: an agent proposes a change, a verifier",
        "that the agent cannot see measures it, and only a measured gain is kept.",
    ]
    for group, names in _GROUPS.items() if is_whole else {"commands": _FIRST}.items():
        lines += ["", f"{group}:", *(f"  {name:<11} {COMMANDS[name][0]}" for name in names)]
    lines += ["", "options of every command, before or after its name:"]
    if is_whole:
        lines += [f"  {option_usage(name):<16} {settings['help']}" for name, settings in OPTIONS.items()]
        lines.append("")
    else:
        lines += [f"  {', '.join(map(option_usage, OPTIONS))}", ""]
        lines.append(f"`goalseek --help --all` lists all {len(COMMANDS)} commands, and explains these options.")
    lines.append("`goalseek COMMAND --help` explains one command, with an example.")
    return "\n".join([*lines, "`goalseek help` lists the pages of the guide.", f"goalseek {version}"])
