"""``goalseek drive``: an agent that a person uses, or a shell, in the workspace and the sandbox."""

import argparse
from pathlib import Path

from goalseek.cli.options import Options, Parser
from goalseek.errors import USAGE, GoalseekError
from goalseek.humanize import abbreviate
from goalseek.manifest.loading import make_log_folders
from goalseek.manifest.tables import ProviderTable
from goalseek.project import config, paths
from goalseek.providers import registry
from goalseek.providers.coding_agent import AgentProvider
from goalseek.providers.preset import Preset


def arguments(parser: Parser) -> None:
    parser.epilog = (
        "Inside, goalseek try, wait, brief, status, log, show and direct ask the goalseek outside. Edits that are not "
        "tried yet stay in the workspace for the next drive."
    )
    agent = f"{', '.join(registry.PRESETS[:4])}, or a command after -- (default: the manifest's agent)"
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="AGENT | -- CMD", help=agent)


def run(options: Options) -> int:
    from goalseek.proposal.drive import run_drive

    manifest, arguments = paths.manifest_of_running_climb(options.load_manifest()), options.arguments
    table, agent = manifest.manifest.provider, None
    words = arguments[1:] if arguments[:1] == ["--"] else []  # none for an agent's own command line
    makers = {name: registry.load_maker(name) for name in registry.PRESETS}
    presets = {name: maker for name, maker in makers.items() if isinstance(maker, Preset)}
    if words:  # a command that names an agent's program is that agent
        programs = {preset.program: name for name, preset in presets.items()}
        name = programs.get(Path(words[0]).name, "")
    else:
        name = arguments[0] if arguments else table.name if table else ""
        if name not in registry.PRESETS or arguments[1:]:
            given = " ".join(arguments) or name
            message = f"drive takes an agent, not {given!r}" if given else "drive takes an agent, and none is named"
            raise GoalseekError(message, "goalseek drive claude; a command follows --: goalseek drive -- bash", USAGE)
    if name:
        chosen = table if table and table.name == name else ProviderTable(name=name)
        agent = AgentProvider(chosen, manifest.folder, presets[name])
        if not words:
            agent.check()
    make_log_folders(manifest)
    with config.open_repository(manifest) as repository:
        code, untried = run_drive(manifest, repository, words, agent)
    if untried:
        text = f"left in the workspace, not kept by a try: {abbreviate(untried)}; goalseek drive goes on with that"
        options.print_message(options.with_manifest(text))
    return code
