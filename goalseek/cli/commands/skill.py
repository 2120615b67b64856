"""``goalseek skill``: the skills for coding agents, installed where they look for them."""

from pathlib import Path

from goalseek._version import __version__
from goalseek.cli.options import Options, Parser
from goalseek.errors import GoalseekError
from goalseek.git.location import locate
from goalseek.providers.skills import skill_places, skill_text, version_of


def arguments(parser: Parser) -> None:
    parser.add_argument("action", choices=("install",), metavar="install", help="write the skills")
    parser.add_argument("--project", action="store_true", help="in this repository instead of your home")
    parser.add_argument("--remove", action="store_true", help="remove the skills that goalseek wrote")


def run(options: Options) -> None:
    above = locate(options.start_folder()).top if options.project else Path.home()
    places = list(skill_places(above))
    versions = {path: version_of(path, name) for name, path in places}
    if foreign := [str(path) for path, version in versions.items() if version is None]:
        message = f"goalseek did not write {', '.join(foreign)}: nothing is changed"
        raise GoalseekError(message, "move it away, then run the same command again")
    if options.remove:
        there = [path for path, version in versions.items() if version]
        for path in there:
            path.unlink()
            if not list(path.parent.iterdir()):
                path.parent.rmdir()
        lines = [f"removed {path}" for path in there] or ["no skill is there"]
        options.print_answer({"removed": there}, *lines)
        return
    texts = {path: skill_text(name) for name, path in places}
    news = {path: text for path, text in texts.items() if not path.exists() or path.read_text("utf-8") != text}
    backups = {path: path.with_name("SKILL.md.before") for path in news if path.exists()}
    lines = [f"{path}{f', the old one as {backups[path].name}' if path in backups else ''}" for path in news]
    options.print_message("\n".join([f"goalseek {__version__} writes:", *lines] if lines else ["nothing has changed"]))
    for path, text in news.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if path in backups:
            backups[path].write_bytes(path.read_bytes())
        path.write_text(text, "utf-8")
    options.print_answer({"version": __version__, "written": list(news)}, f"{len(texts)} skills are installed")
