"""``goalseek init``: five questions, the number, a manifest."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from goalseek.cli.answer import say
from goalseek.cli.init_answers import answers_from
from goalseek.cli.options import start_folder
from goalseek.cli.watching import watch_in_words
from goalseek.doctor import first_run
from goalseek.doctor.first_run import Answers
from goalseek.git.command import git
from goalseek.git.location import locate
from goalseek.git.repository import Repository
from goalseek.humanize import in_words, number
from goalseek.manifest.loading import typed


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``init`` takes."""
    parser.add_argument("--yes", action="store_true", help="ask nothing: take what was found by looking")
    parser.add_argument("--name", metavar="NAME", help="of the project: a-z, 0-9 and - (the folder's)")
    parser.add_argument("--writable", metavar="GLOB", action="append", help="what may change; once for each")
    parser.add_argument("--hidden", metavar="GLOB", action="append", help="what the agent never gets; once for each")
    parser.add_argument("--run", dest="command", metavar="CMD", help="the command that measures")
    parser.add_argument("--metric", metavar="NAME", help="the metric's name, or 'maximize accuracy'")
    parser.add_argument("--regex", metavar="R", help="of what it prints, one group: 'accuracy: ([0-9.]+)'")
    parser.add_argument("--direction", choices=("maximize", "minimize"), help="what is better")
    parser.add_argument("--sees", choices=("candidate", "hidden", "both"), help="the command's tree (both)")
    parser.add_argument("--provider", metavar="P", help="who proposes")
    parser.epilog = "Here --query is the metric's: JMESPath in $GOALSEEK_RUN_DIR/metrics.json, instead of --regex."


def run(options: argparse.Namespace) -> int:
    """Asks, measures once, writes."""
    path = _path(start_folder(options), options.manifest)
    first_run.refuse_existing(path)
    answers = answers_from(options, path.parent, _committed(path.parent))
    plain = first_run.plain_manifest(answers)
    loaded = first_run.checked(path, plain)
    say(options, f"measuring once: {answers.run}")
    made = first_run.try_and_write(loaded, plain, watch_in_words(options))
    metric = loaded.manifest.metric
    if options.json:
        told = {"manifest": str(path), "metric": metric.name, "value": made.value, "seconds": made.seconds}
        print(json.dumps(told))
        return 0
    print(f"{metric.name} = {number(made.value)}, in {in_words(made.seconds)}: the number to {metric.direction}")
    print(f"written: {path}")
    print(f"next: {typed(_next(answers), path)}")
    return 0


def _next(answers: Answers) -> str:
    if answers.provider:
        return "goalseek doctor, then goalseek iterate"
    return (
        "goalseek doctor, then say who proposes: goalseek iterate --provider tune (constants marked in your files), "
        "or a [provider] table at the end of the manifest"
    )


def _path(folder: Path, asked: str | None) -> Path:
    if asked and ("/" in asked or asked.endswith(".toml")):
        return (folder / asked).resolve()
    return folder / (f"goalseek.{asked}.toml" if asked else "goalseek.toml")


def _committed(folder: Path) -> list[str]:
    """The files of HEAD below the folder. Raises GoalseekError where there is no repository or no commit."""
    repository = Repository(locate(folder), "init")
    try:
        repository.head()
        listing = git("ls-tree", "-r", "-z", "--name-only", "HEAD", folder=folder, variables=repository.both_folders())
    finally:
        repository.close()
    return [os.fsdecode(path) for path in listing.split(b"\0") if path]
