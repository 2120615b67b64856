"""The table of commands: the group of each in the help, its line there, and the module it is in."""

from __future__ import annotations

from pathlib import Path

COMMANDS = {
    "init": ("start", "ask five questions, show the number, write a manifest"),
    "doctor": ("start", "fit for the night? every cross with its remedy"),
    "demo": ("start", "a fixture as a fresh repository, a baseline and a climb"),
    "noise": ("start", "how much the metric moves when nothing changes"),
    "help": ("start", "the guide's topics, or one of its pages"),
    "iterate": ("run", "one iteration; -n N; or until a limit"),
    "step": ("run", "exactly one phase, then stop and name the next"),
    "baseline": ("run", "a new ruler from HEAD under the incumbent's code"),
    "status": ("run", "the best, the last, streaks, spend, what to do next"),
    "direct": ("run", "a direction for the agent from the next iteration on"),
    "stop": ("run", "finish this iteration, then stop; says how long that may take"),
    "approve": ("run", "the verdict that waits for a person's word takes effect"),
    "decline": ("run", "the keep that waits for a person's word is taken back"),
    "exec": ("run", "a command, or a shell, where the agent or the verifier runs"),
    "log": ("take home", "the records, a line each"),
    "show": ("take home", "one record in full"),
    "compare": ("take home", "two revisions measured afresh in turn: which is better, how sure"),
    "report": ("take home", "the morning report: a page, a plot, or text for a pull request"),
    "serve": ("take home", "the report as a live page on this machine"),
    "promote": ("take home", "the kept changes as ordinary commits; without a target, a preview"),
    "audit": ("take home", "records against git against seals"),
    "manifest": ("take home", "the manifest with its defaults, or its JSON Schema"),
    "prune": ("take home", "remove workspaces, benches and old artifacts"),
    "completion": ("take home", "a completion script for bash, zsh or fish"),
}


MODULES = {"decline": "approve"}
"""The commands that are in the module of another command of ``cli.commands``."""


def topics() -> dict[str, Path]:
    """The pages of the guide by their topics."""
    return {path.stem: path for path in sorted((Path(__file__).parents[1] / "guide").glob("*.md"))}


def help_text(version: str) -> str:
    """What ``goalseek --help`` prints."""
    lines = [
        "usage: goalseek [-C DIR] [-m MANIFEST] [-q|-v] [--json] [--query JMESPATH]",
        "                [--color auto|always|never] COMMAND ...",
        "",
        "Climbs one number in a git repository: an agent proposes, git remembers,",
        "a verifier it cannot see measures, and only a measured gain stays.",
    ]
    for group in ("start", "run", "take home"):
        lines += ["", group]
        lines += [f"  {name:<11} {text}" for name, (where, text) in COMMANDS.items() if where == group]
    lines += [
        "",
        "goalseek COMMAND --help says more of one; goalseek help lists the pages of the guide.",
        f"goalseek {version}",
    ]
    return "\n".join(lines)
