"""``goalseek prune``: removes workspaces, benches and old artifacts; never records or commits."""

from pathlib import Path

from goalseek.cli.options import Options, Parser
from goalseek.disk import remove, remove_own
from goalseek.errors import GoalseekError
from goalseek.ledger.artifacts import old_run_folders
from goalseek.project.config import open_repository
from goalseek.project.opening import open_project
from goalseek.workspace.driven import Drive


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
            kept = [path for path in sorted(home.glob("drive-*")) if Drive.load(path).has_edits]
            folders = [path for path in home.iterdir() if path not in kept] if kept else [home]
            removals = [*(path for path in folders if path.exists()), *old]
            for path in kept:
                options.print_message(f"kept {path}: a drive is at work there, or left edits")
            if not options.dry_run:
                for path in folders:
                    remove_own(path)
                for path in old:
                    remove(path)
    verb = "would remove" if options.dry_run else "removed"
    lines = [f"{verb} {path}" for path in removals] or ["nothing to remove"]
    options.print_answer({"removed": list(map(str, removals)), "dry_run": options.dry_run}, *lines)
