"""``goalseek demo``: a new repository from a fixture that comes with goalseek, a baseline and a climb in it."""

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from goalseek.cli.commands.iterate import climb
from goalseek.cli.options import Options, Parser, refuse
from goalseek.errors import UNFIT, GoalseekError
from goalseek.git.command import git
from goalseek.git.location import locate
from goalseek.humanize import first_sentence, format_duration, format_ranges, pluralize
from goalseek.manifest import loading
from goalseek.project import opening, stop
from goalseek.providers.registry import make_permitted_provider
from goalseek.providers.scripted import read_script
from goalseek.values import Outcome, Reason

DEFAULT = "digits"
_TUNE_ITERATIONS = 20
_ANSWERS = "yes writable hidden command score metric query provider manifest".split()
_NOT_COPIED = ("__pycache__", ".git", ".goalseek")
_IDENTITY = {"NAME": "goalseek demo", "EMAIL": "demo@localhost"}


def fixtures() -> dict[str, tuple[Path, Path]]:
    trees, manifests = data_folder("fixtures"), sorted(data_folder("manifests").glob("*.toml"))
    return {path.stem: (trees / path.stem, path) for path in manifests if (trees / path.stem / "README.md").is_file()}


def summary_of(folder: Path) -> str:
    return first_sentence((folder / "README.md").read_text("utf-8"))


def templates() -> list[str]:
    return sorted(path.name for path in (data_folder("fixtures") / "templates").iterdir() if path.is_dir())


def begin_with_template(options: Options, folder: Path) -> None:
    extra = next((key for key in _ANSWERS if getattr(options, key)), "")
    names = templates()
    refuse(
        (bool(extra), f"goalseek init: --template and {extra} exclude each other", "a template has all answers"),
        (options.template not in names, f"there is no template {options.template!r}", f"one of {', '.join(names)}"),
    )
    files = _copy_example(data_folder("fixtures") / "templates" / options.template, folder)
    then = "goalseek doctor, then goalseek iterate -n 20"
    try:
        locate(folder)
        then = f"{commit_command(files)}, then {then}"
        what = "commit them"
    except GoalseekError:
        _commit_files(folder, files, f"The template {options.template}")
        what = "they are the first commit of a new repository"
    answer = {"template": options.template, "files": files}
    options.print_answer(answer, f"written: {', '.join(files)}; {what}", f"next: {then}")


def _copy_example(source: Path, folder: Path) -> list[str]:
    names = sorted(path.name for path in source.iterdir() if path.name not in _NOT_COPIED)
    if taken := next((name for name in names if os.path.lexists(folder / name)), None):
        raise GoalseekError(f"{folder / taken} is there already", "take another folder: goalseek -C FOLDER")
    ignored: Callable[[str, list[str]], set[str]] = shutil.ignore_patterns(*_NOT_COPIED)
    shutil.copytree(source, folder, ignore=ignored, copy_function=shutil.copyfile, dirs_exist_ok=True)
    return names


def _commit_files(folder: Path, names: list[str], message: str) -> None:
    git("init", "--quiet", "--initial-branch=main", "--template=", str(folder))
    git("add", "--all", "--force", "--", *names, folder=folder)
    who = {f"GIT_{role}_{name}": value for role in ("AUTHOR", "COMMITTER") for name, value in _IDENTITY.items()}
    git("commit", "--quiet", "--message", message, folder=folder, variables=who)


def data_folder(name: str) -> Path:
    """Inside the installed package, or beside it in a source checkout."""
    package = Path(__file__).resolve().parents[2]
    for folder in (package / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise GoalseekError(f"this installation has no {name}", "install goalseek again, from a wheel", UNFIT)


def arguments(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", default=DEFAULT, help="the example (default: digits)")
    parser.add_argument("target", metavar="DIR", nargs="?", help="a new or empty folder (default: goalseek-demo-NAME)")
    parser.add_argument("-n", dest="count", type=int, metavar="N", help="how many iterations (default: under a minute)")
    parser.add_argument(
        "--provider", metavar="P", help="the agent or program that proposes the changes (default: the example's)"
    )
    parser.epilog = " ".join(f"{name}: {summary_of(folder)}" for name, (folder, _) in fixtures().items())


def run(options: Options) -> int:
    by_name = fixtures()
    refuse(
        (options.count is not None and options.count < 1, f"-n {options.count}: at least 1", "-n 10"),
        (options.name not in by_name, f"there is no demo {options.name!r}", f"one of {', '.join(by_name)}"),
    )
    source, manifest = by_name[options.name]
    folder = options.start_folder() / (options.target or f"goalseek-demo-{options.name}")
    path = folder / loading.FILE_NAME
    loaded = loading.ManifestFile(source / path.name, loading.load(manifest).manifest)
    override = opening.provider_from_options(loaded, options.provider, None)
    if table := override or loaded.manifest.provider:
        make_permitted_provider(loaded, table)  # it can start, or nothing is written
    git("--version")
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise GoalseekError(f"{folder} is there already", "name another folder: goalseek demo NAME DIR")
    names = _copy_example(source, folder)
    shutil.copyfile(manifest, path)
    _commit_files(folder, [*names, path.name], f"The fixture {options.name}")
    loaded = loading.load(path)
    # By default well under a minute.
    count = options.count or loaded.manifest.limits.iterations or _TUNE_ITERATIONS
    if not options.count and table and table.name == "scripted":
        count = len(read_script(folder / table.script))
    elif not options.count and table and table.name == "tune":
        count = _TUNE_ITERATIONS
    iterations = f"{pluralize(count, 'iteration')} of goalseek iterate"
    options.print_message(f"{summary_of(source)}\nThe repository is new, in {folder}. It gets {iterations}:")
    began = time.monotonic()
    with options.open_live_view() as watch, opening.open_project(loaded, watch, override, doing="iterate") as project:
        exit_code = climb(project, stop.Ends(count))
        standing, records = project.standing, [*project.ledger.recent]
    fields = {
        "event": "demo",
        "folder": str(folder),
        "metric": standing.metric,
        "from": standing.origin.value if standing.origin else None,
        "to": standing.best.value if standing.best else None,
        "iterations": standing.tried,
        "kept": standing.outcomes.get(Outcome.KEPT, 0),
    }

    def numbers_with(reason: Reason) -> str:
        found = [one.iteration for one in records if reason in [attempt.reason for attempt in one.attempts]]
        return format_ranges(sorted(found))

    lines = [""]
    if moved := numbers_with(Reason.MOVED):
        lines += [
            f"several at once: {len(records) - 1} iterations in {format_duration(time.monotonic() - began)}",
            f"  moved to a newer tip, and measured there: {moved}",
            f"  in conflict with it, and returned to the author once: {numbers_with(Reason.CONFLICT) or 'none'}",
            "",
        ]
    branch = f"goalseek/{loaded.manifest.project.name}"
    relative = os.path.relpath(folder)
    where = shlex.quote(str(folder) if relative.startswith("..") else relative)
    lines.append(f"the repository: {folder}; main is as it was, the climb is on the branch {branch}")
    program = Path(sys.executable).with_name("goalseek")
    if program.is_file() and not shutil.which("goalseek"):
        lines.append(f"not on PATH:    alias goalseek={shlex.quote(str(program))}")
    lines.append(f"look at it:     cd {where}; goalseek log; goalseek show best --diff; git log --oneline {branch}")
    lines += ["take it home:   goalseek promote", f"remove it:      rm -rf {shlex.quote(str(folder))}"]
    options.print_answer(fields, *lines)
    return exit_code


def commit_command(files: Iterable[str]) -> str:
    return f"git add {' '.join(map(shlex.quote, files))} && git commit -m 'Something to climb'"
