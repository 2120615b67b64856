"""``goalseek exec``: a command, or a shell, exactly where the agent or the verifier runs."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

from goalseek import files, process
from goalseek.cli.commands.show import find_record
from goalseek.cli.options import loaded
from goalseek.errors import BAD_FINDING, USAGE, GoalseekError
from goalseek.git.ignore import matcher
from goalseek.git.objects import visible
from goalseek.humanize import abbreviate
from goalseek.measurement.metric import NoNumber
from goalseek.measurement.outputs import OUTPUTS
from goalseek.measurement.setup import give, prepare
from goalseek.measurement.verifier import Verifier, job_of
from goalseek.own_folders import clear, make_anew
from goalseek.project.config import Config
from goalseek.project.opening import opened
from goalseek.project.project import Project
from goalseek.providers.registry import programs_of
from goalseek.sandbox import environment
from goalseek.sandbox.landlock import standalone_command
from goalseek.sandbox.pipes import HeadAndTail
from goalseek.sandbox.policy import ProgramAccess


def arguments(parser: argparse.ArgumentParser) -> None:
    """What ``exec`` takes."""
    parser.epilog = (
        "verify is the place of the last verify command: with what setup gives, and the outputs of the commands before "
        "it where they are kept (log.keep_outputs). What is left there reaches no measurement."
    )
    parser.add_argument("--as", dest="who", choices=("agent", "verify"), default="verify", help="whose place (verify)")
    parser.add_argument("--at", metavar="N|best", help="the tree of this iteration, or of the baseline (the incumbent)")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- CMD", help="a shell, where there is none")


def run(options: argparse.Namespace) -> int:
    """Runs it on this terminal; gives its exit code. What it changes there is undone."""
    manifest = loaded(options)
    words = options.arguments[1:] if options.arguments[:1] == ["--"] else options.arguments
    with opened(manifest, doing="exec") as project:
        if project.standing.incumbent is None:
            raise GoalseekError("nothing is measured yet", "goalseek baseline, then again", USAGE)
        config = project.config()
        tree, iteration = project.standing.incumbent.tree, project.standing.incumbent.iteration
        if options.at:
            record = find_record(manifest, options.at)
            if record.tree_hash is None:
                raise GoalseekError(f"iteration {record.iteration} has no candidate", "name one that has", USAGE)
            tree, iteration = record.tree_hash, record.iteration
        command = words or [os.environ.get("SHELL", "/bin/sh")]
        # The caches that measurements keep are not the command's to fill: it gets empty ones.
        confines = replace(project.confines, kept=project.places.scratch / "cache")
        if options.who == "verify":
            made = project.loaded.runs / f"{iteration:04d}" / OUTPUTS
            job, environment, folder = _verify(project, config, tree, command, made)
        else:
            job, environment, folder = _agent(project, config, tree, command)
        try:
            ready = standalone_command(confines.launch(job, command, environment, folder))
            return process.run_in_terminal(ready.arguments, ready.environment, ready.folder)
        except FileNotFoundError:
            raise GoalseekError(f"there is no program {command[0]!r}", "goalseek exec -- CMD", USAGE) from None
        finally:
            if options.who == "agent" and not options.at:
                project.workspace(config).clean()


def _verify(
    project: Project, config: Config, tree: str, words: list[str], made: Path
) -> tuple[ProgramAccess, dict[str, str], Path]:
    """The place of the last verify command, the environment, and the folder.

    What ``setup`` gives is there, and what commands before it ``made`` when this tree was measured, where that is kept.
    """
    *earlier, command = config.manifest.verify
    standing, bench = project.standing, project.bench(config)
    assert command.sees and standing.baseline
    verifier = project.verifier(config, standing.ruler, standing.baseline.tree, standing.baseline.seconds)
    _set_up(verifier)
    root = bench.sync_to(command.sees, tree)
    below = root / project.places.prefix
    if command.sees != "hidden":
        give(verifier, below)
    if wanted := tuple(pattern for one in earlier for pattern in one.outputs):
        taken = files.take(made, below, matcher(wanted), 2**63) if made.is_dir() else {}
        missing = [pattern for pattern in wanted if not any(map(matcher((pattern,)), taken))]
        if missing:
            told = f"not kept of that measurement, and not here: {abbreviate(missing)}; see log.keep_outputs"
            print(f"goalseek: {told}", file=sys.stderr)
    if any(one.keep for one in config.manifest.verify):
        bench.forget(command.sees)
    scratch, folder = project.places.scratch, project.places.run_folder(command.sees)
    make_anew(folder)
    given = {
        "GOALSEEK_PROJECT_ROOT": str(project.confines.seen_at(root, below)),
        "GOALSEEK_RUN_DIR": str(folder),
        "GOALSEEK_ITERATION": str(project.standing.last_iteration + 1),
        "GOALSEEK_SEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    _tell(f"{command.name}: sees {command.sees}; run folder {folder}")
    job = job_of(verifier, command, root, terminal=True)
    job = replace(job, commands=[*job.commands, words])
    return (
        job,
        environment.program_environment(config.manifest.env.verify, given, scratch / "tmp"),
        below / command.cwd,
    )


def _set_up(verifier: Verifier) -> None:
    """Runs ``setup`` where what it gave to this ruler is gone. Raises GoalseekError where it fails."""
    log = HeadAndTail()
    try:
        prepare(verifier, log)
    except NoNumber as failed:
        printed = log.content().decode("utf-8", "replace").rstrip()
        raise GoalseekError(f"{failed.why}\n{printed}", "mend it, then the same again", BAD_FINDING) from None


def _agent(project: Project, config: Config, tree: str, words: list[str]) -> tuple[ProgramAccess, dict[str, str], Path]:
    """The agent's place, environment and folder: the workspace, or for another tree a copy of what it would see."""
    workspace = project.workspace(config)
    root = workspace.root
    scratch = project.places.scratch
    incumbent = project.standing.incumbent
    if incumbent is None or tree != incumbent.tree:
        root = scratch / "tree"
        clear(root)
        objects = project.repository.objects
        objects.fill(root, visible(objects.files(tree), config.scope.seen_by("agent")))
    folder = root / project.places.prefix
    given = {"GOALSEEK_PROJECT_ROOT": str(project.confines.seen_at(root, folder)), "GOALSEEK_PHASE": "apply"}
    commands = [words, *programs_of(project.loaded)]
    network = config.manifest.sandbox.agent_network
    job = ProgramAccess(root, commands, network=network, terminal=True)
    _tell("the agent's tree; what you change is undone")
    return job, environment.program_environment(config.manifest.env.agent, given, scratch / "tmp"), folder


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        print(f"goalseek: {text}", file=sys.stderr)
