"""``goalseek prune``: removes workspaces, benches and old artifacts; never records or commits."""

from pathlib import Path

from goalseek.cli.options import Options, Parser
from goalseek.disk import remove, remove_own
from goalseek.errors import GoalseekError
from goalseek.ledger.artifacts import old_run_folders
from goalseek.project.opening import open_project, open_repository


def arguments(parser: Parser) -> None:
    help_text = (
        "keep the newest N artifact folders (default: log.keep_runs); the baseline's and the best's stay in any case"
    )
    parser.add_argument("--keep", type=int, metavar="N", help=help_text)
    parser.add_argument("--dry-run", action="store_true", help="only list what would be removed")


def run(options: Options) -> None:
    if options.keep is not None and options.keep < 0:
        raise GoalseekError(f"--keep {options.keep}: 0 or more", "--keep 500")
    manifest = options.load_manifest()
    with open_repository(manifest) as repository:
        has_run = repository.own.exists()
    removals: list[Path] = []
    if has_run:
        with open_project(manifest, doing="prune") as project:
            home = project.places.home
            newest = manifest.manifest.log.keep_runs if options.keep is None else options.keep
            old = old_run_folders(manifest.runs, newest, project.standing)
            removals = [*([home] if home.exists() else []), *old]
            if not options.dry_run:
                remove_own(home)
                for path in old:
                    remove(path)
    verb = "would remove" if options.dry_run else "removed"
    lines = [f"{verb} {path}" for path in removals] or ["nothing to remove"]
    options.print_answer({"removed": list(map(str, removals)), "dry_run": options.dry_run}, *lines)
