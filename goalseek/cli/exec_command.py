"""``goalseek exec``: a command, or a shell, exactly where the agent or the verifier runs."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

from goalseek import process, sandbox
from goalseek.beneath import clear
from goalseek.chosen_provider import programs_of
from goalseek.cli.options import loaded
from goalseek.cli.show_command import find_record
from goalseek.confinement.landlock import alone
from goalseek.confines import Job
from goalseek.errors import USAGE, GoalseekError
from goalseek.opening import opened
from goalseek.run import Run
from goalseek.setting import Setting
from goalseek.trees import visible
from goalseek.verifier import job_of


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``exec`` takes."""
    parser.add_argument("--as", dest="who", choices=("agent", "verify"), default="verify", help="whose place (verify)")
    parser.add_argument("--at", metavar="N|best", help="the tree of this iteration, or of the baseline (the incumbent)")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- CMD", help="a shell, where there is none")


def run(options: argparse.Namespace) -> int:
    """Runs it on this terminal; gives its exit code. What it changes there is undone."""
    manifest = loaded(options)
    words = options.arguments[1:] if options.arguments[:1] == ["--"] else options.arguments
    with opened(manifest, doing="exec") as run_now:
        if run_now.standing.incumbent is None:
            raise GoalseekError("nothing is measured yet", "goalseek baseline, then again", USAGE)
        setting = run_now.setting()
        tree = run_now.standing.incumbent.tree
        if options.at:
            record = find_record(manifest, options.at)
            if record.tree_hash is None:
                raise GoalseekError(f"iteration {record.iteration} has no candidate", "name one that has", USAGE)
            tree = record.tree_hash
        command = words or [os.environ.get("SHELL", "/bin/sh")]
        find_place = _verify if options.who == "verify" else _agent
        job, environment, folder = find_place(run_now, setting, tree, command)
        try:
            ready = alone(run_now.confines.launch(job, command, environment, folder))
            return process.attach(ready.arguments, ready.environment, ready.folder)
        except FileNotFoundError:
            raise GoalseekError(f"there is no program {command[0]!r}", "goalseek exec -- CMD", USAGE) from None
        finally:
            if options.who == "agent" and not options.at:
                run_now.workspace(setting).clean()


def _verify(run_now: Run, setting: Setting, tree: str, words: list[str]) -> tuple[Job, dict[str, str], Path]:
    """The place of the last verify command, the environment, and the folder."""
    command = setting.manifest.verify[-1]
    assert command.sees
    root = run_now.bench(setting).stand_at(command.sees, tree)
    below = root / run_now.places.prefix
    scratch, folder = run_now.places.scratch, run_now.places.run_folder(command.sees)
    clear(folder)
    folder.mkdir(parents=True)
    given = {
        "GOALSEEK_PROJECT_ROOT": str(run_now.confines.seen_at(root, below)),
        "GOALSEEK_RUN_DIR": str(folder),
        "GOALSEEK_ITERATION": str(run_now.standing.last_iteration + 1),
        "GOALSEEK_SEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    _tell(f"{command.name}: sees {command.sees}; run folder {folder}")
    job = job_of(run_now.verifier(setting, "", "", {}), command, root, terminal=True)
    job = replace(job, commands=[*job.commands, words])
    return job, sandbox.environment(setting.manifest.env.verify, given, scratch / "tmp"), below / command.cwd


def _agent(run_now: Run, setting: Setting, tree: str, words: list[str]) -> tuple[Job, dict[str, str], Path]:
    """The agent's place, environment and folder: the workspace, or for another tree a copy of what it would see."""
    workspace = run_now.workspace(setting)
    root = workspace.root
    scratch = run_now.places.scratch
    incumbent = run_now.standing.incumbent
    if incumbent is None or tree != incumbent.tree:
        root = scratch / "tree"
        clear(root)
        objects = run_now.repository.objects
        objects.fill(root, visible(objects.files(tree), setting.scope.seen_by("agent")))
    folder = root / run_now.places.prefix
    given = {"GOALSEEK_PROJECT_ROOT": str(run_now.confines.seen_at(root, folder)), "GOALSEEK_PHASE": "apply"}
    commands = [words, *programs_of(run_now.loaded)]
    network = setting.manifest.sandbox.agent_network
    job = Job(root, commands, network=network, terminal=True)
    _tell("the agent's tree; what you change is undone")
    return job, sandbox.environment(setting.manifest.env.agent, given, scratch / "tmp"), folder


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        print(f"goalseek: {text}", file=sys.stderr)
