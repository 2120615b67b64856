"""Prompt templates: the package's files, or those of the user's folder, read again at every iteration."""

from __future__ import annotations

import functools
import hashlib
import re
import string
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from msgspec import Struct

from goalseek.errors import GoalseekError

PHASES = ("plan", "apply", "repair", "review")
_COMMON = (
    "project metric better incumbent baseline best program writable read_only files history families directions "
    "stagnation crashes left plan problem nonce"
).split()
PLACEHOLDERS = {phase: {*_COMMON} for phase in PHASES}
PLACEHOLDERS["review"] |= {"criteria", "diff", "value"}
REQUIRED = {"plan": ("nonce",), "apply": (), "repair": ("problem",), "review": ("nonce", "criteria", "diff")}
_WHY_NEEDED = {
    "nonce": "the answer is read between lines with it",
    "problem": "it says what was wrong",
    "criteria": "they are what is judged by",
    "diff": "it is what is judged",
}
_VERSION = re.compile(r"<!--\s*version\s+(\S{1,40})\s*-->\s*\n")
_LIMIT_BYTES = 2**20


class Template(Struct, frozen=True):
    """One prompt with placeholders. ``version`` is the package's, or "own" and a digest of the user's text."""

    text: str
    version: str


Templates = Mapping[str, Template]


def load_templates(folder: Path | None) -> Templates:
    """A template for each phase: the folder's own where it has one, else the package's.

    Raises GoalseekError for a path that is no folder, and for a file with a placeholder that does not exist.
    """
    if folder is None:
        return _package_templates()
    if not folder.is_dir():
        hint = f"a folder with any of {', '.join(f'{phase}.md' for phase in PHASES)}; or leave provider.prompts out"
        raise GoalseekError(f"provider.prompts: {folder} is no folder", hint)
    own = {phase: _read_own(folder / f"{phase}.md", phase) for phase in PHASES if (folder / f"{phase}.md").exists()}
    return {**_package_templates(), **own}


def versions(templates: Templates) -> str:
    """The version of each template, in one line for the record."""
    return ", ".join(f"{phase} {template.version}" for phase, template in templates.items())


@functools.cache
def _package_templates() -> Templates:
    templates = {}
    for phase in PHASES:
        text = resources.files("goalseek").joinpath("providers", "prompts", f"{phase}.md").read_text("utf-8")
        version = _VERSION.match(text)
        assert version, phase
        templates[phase] = Template(text[version.end() :], version[1])
    return templates


def _read_own(path: Path, phase: str) -> Template:
    try:
        raw = path.read_bytes()[:_LIMIT_BYTES]
        text = raw.decode("utf-8")
    except (OSError, ValueError) as error:
        raise GoalseekError(f"{path} cannot be read: {error}", "a text in UTF-8") from None
    version = _VERSION.match(text)
    text = text[version.end() :] if version else text
    template = string.Template(text)
    known = ", ".join(f"${name}" for name in sorted(PLACEHOLDERS[phase]))
    if not template.is_valid():
        raise GoalseekError(f"{path}: a $ that begins no placeholder", f"$$ is a dollar sign; known are {known}")
    unknown = [name for name in template.get_identifiers() if name not in PLACEHOLDERS[phase]]
    if unknown:
        message = f"{path}: there is no placeholder ${unknown[0]}"
        raise GoalseekError(message, f"known are {known}; $$ is a dollar sign")
    for name in REQUIRED[phase]:
        if name not in template.get_identifiers():
            raise GoalseekError(f"{path}: has no ${name}: {_WHY_NEEDED[name]}", f"see the package's own: {phase}.md")
    digest = hashlib.sha256(raw).hexdigest()[:8]
    return Template(text, f"own {version[1]} {digest}" if version else f"own {digest}")
