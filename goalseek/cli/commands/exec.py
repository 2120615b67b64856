"""``goalseek exec``: a command, or a shell, in the tree, sandbox and environment of the agent or the verifier."""

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import structs

from goalseek import disk
from goalseek.cli.commands.show import find_record
from goalseek.cli.options import Options, Parser
from goalseek.errors import BAD_FINDING, GoalseekError
from goalseek.git.ignore import matcher
from goalseek.humanize import abbreviate
from goalseek.measurement import measure, metric, verifier
from goalseek.project.config import Config
from goalseek.project.opening import open_project
from goalseek.project.project import Project
from goalseek.providers.registry import manifest_commands
from goalseek.sandbox import environment, supervisor
from goalseek.sandbox.policy import ProgramAccess


def arguments(parser: Parser) -> None:
    parser.epilog = (
        "With --as verify, it runs in the folder of the last verify command, with the files of setup, and the outputs "
        "of the earlier commands if log.keep_outputs kept them. Its files never reach a measurement."
    )
    whose, tree = "the sandbox (default: verify)", "an iteration's tree, best or baseline (default: the incumbent)"
    parser.add_argument("--as", dest="who", choices=("agent", "verify"), default="verify", help=whose)
    parser.add_argument("--at", metavar="N|best", help=tree)
    command = "the command (default: your shell)"
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- CMD", help=command)


def run(options: Options) -> int:
    manifest = options.load_manifest()
    words = options.arguments[1:] if options.arguments[:1] == ["--"] else options.arguments
    with open_project(manifest, doing="exec") as project:
        if project.standing.incumbent is None:
            raise GoalseekError("nothing is measured yet", "goalseek baseline, then again")
        config = project.config()
        tree, iteration = project.standing.incumbent.tree, project.standing.incumbent.iteration
        if options.at:
            record = find_record(manifest, options.at)
            if record.tree_hash is None:
                raise GoalseekError(f"iteration {record.iteration} has no candidate", "name one that has")
            tree, iteration = record.tree_hash, record.iteration
        command = words or [os.environ.get("SHELL", "/bin/sh")]
        # The command gets empty caches: it must not fill those of measurements.
        confines = structs.replace(project.confines, kept=project.places.scratch / "cache")
        if options.who == "verify":
            place = _verify(project, config, tree, project.run_folder(iteration) / measure.OUTPUTS)
        else:
            place = _agent(project, config, tree)
        with place as (access, variables, folder):
            access = structs.replace(access, commands=[command, *access.commands])
            try:
                return supervisor.launch_in_terminal(confines.launch(access, command, variables, folder))
            except FileNotFoundError:
                raise GoalseekError(f"there is no program {command[0]!r}", "goalseek exec -- CMD") from None


Place = tuple[ProgramAccess, dict[str, str], Path]


@contextlib.contextmanager
def _verify(project: Project, config: Config, tree: str, outputs: Path) -> Iterator[Place]:
    """The folder has what ``setup`` gives, and the kept ``outputs`` of earlier commands."""
    *earlier, command = config.manifest.commands
    standing = project.standing
    assert command.sees and standing.baseline
    prepared = project.verifier(config, standing.ruler, standing.baseline.tree, standing.baseline.seconds)
    log = supervisor.HeadAndTail()
    try:
        verifier.run_setup(prepared, log)  # unless its result for this ruler is kept
    except metric.NoNumber as error:
        printed = log.content().decode("utf-8", "replace").rstrip()
        raise GoalseekError(f"{error}\n{printed}", "correct it, then try again", BAD_FINDING) from None
    root = prepared.bench.sync_to(command.sees, tree)
    below = root / project.places.prefix
    if command.sees != "hidden":
        verifier.copy_given_folders(prepared, below)
    if patterns := tuple(pattern for other in earlier for pattern in other.outputs):
        copied = disk.copy_regular_files(outputs, below, matcher(patterns)) if outputs.is_dir() else {}
        missing = [pattern for pattern in patterns if not any(map(matcher((pattern,)), copied))]
        if missing:
            text = f"these outputs of that measurement were not kept: {abbreviate(missing)}; see log.keep_outputs"
            print(f"goalseek: {text}", file=sys.stderr)
    if any(other.keep for other in config.manifest.commands):
        prepared.bench.forget(command.sees)
    folder = project.places.run_folders["hidden" if command.sees == "hidden" else "both"]
    disk.recreate_folder(folder)
    variables = {"GOALSEEK_RUN_DIR": str(folder), "GOALSEEK_ITERATION": str(standing.next_iteration)}
    variables = verifier.environment_for(prepared, root, {**variables, "GOALSEEK_SEED": "0"})
    if earlier or sys.stderr.isatty():
        which = f", the last of {len(earlier) + 1} verify commands" if earlier else ""
        view = f"the view of {command.name}{which}: sees {command.sees}; run folder {folder}"
        print(f"goalseek: {view}", file=sys.stderr)
    yield verifier.access_for(prepared, command, root, terminal="person's"), variables, below / command.cwd


@contextlib.contextmanager
def _agent(project: Project, config: Config, tree: str) -> Iterator[Place]:
    """The folder is the workspace, or has those files of another tree that an agent may see."""
    workspace = project.workspace(config)
    root, scratch, incumbent = workspace.root, project.places.scratch, project.standing.incumbent
    if incumbent is None or tree != incumbent.tree:
        root = scratch / "tree"
        disk.remove_if_exists(root)
        objects = project.repository.objects
        objects.fill(root, objects.visible_files(tree, config.scope.seen_by("agent")))
    folder = root / project.places.prefix
    variables = {"GOALSEEK_PROJECT_ROOT": str(project.confines.seen_at(root, folder)), "GOALSEEK_PHASE": "apply"}
    network = config.manifest.sandbox.agent_network
    access = ProgramAccess(root, manifest_commands(project.loaded), network=network, terminal="person's")
    if sys.stderr.isatty():
        print("goalseek: the agent's tree; your changes are undone", file=sys.stderr)
    try:
        yield access, environment.program_environment(config.manifest.env.agent, variables, scratch / "tmp"), folder
    finally:
        if root == workspace.root:
            workspace.clean()
