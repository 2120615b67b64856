"""The skills: texts that tell a coding agent how to work with goalseek, where agents look for them."""

import re
from collections.abc import Iterator
from pathlib import Path

from goalseek._version import __version__
from goalseek.values import Finding

NAMES = ("goalseek", "goalseek-setup")
_FOLDERS = (".claude/skills", ".agents/skills")  # of Claude Code; of Codex, Cursor, Gemini CLI and others
_VERSION = re.compile(r'^metadata:\n  version: "(\S+)"$', re.MULTILINE)


def skill_text(name: str) -> str:
    return Path(__file__).parents[1].joinpath("skills", name, "SKILL.md").read_text("utf-8")


def skill_places(above: Path) -> Iterator[tuple[str, Path]]:
    """Each skill's name and its files below a home or a repository."""
    return ((name, above / folder / name / "SKILL.md") for folder in _FOLDERS for name in NAMES)


def version_of(path: Path, name: str) -> str | None:
    """The version of goalseek that wrote this skill; None for a file that it did not write, "" for none."""
    try:
        text = path.read_text("utf-8", "replace")
    except FileNotFoundError:
        return ""
    match = _VERSION.search(text)
    return match[1] if match and text.startswith(f"---\nname: {name}\n") else None


def outdated_note(top: Path) -> Finding | None:
    """On skills of another version in the user's home or the repository; None if there are none."""
    for above, option in ((Path.home(), ""), (top, " --project")):
        for name, path in skill_places(above):
            if (version := version_of(path, name)) not in (None, "", __version__):
                text = f"{path} is of goalseek {version}, and this is {__version__}"
                return Finding("note", text, f"goalseek skill install{option}")
    return None
