"""Prompt templates: the package's, or those of the user's folder; ``goalseek/guide/prompts.md`` is their manual."""

import functools
import re
import string
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, structs

from goalseek.errors import GoalseekError
from goalseek.values import short_digest

PHASES = ("plan", "apply", "repair", "review")
_COMMON = (
    "project metric better incumbent baseline best decision smallest_gain guards program writable strays read_only "
    "run_it files history families kept rejected variation under_way ideas directions stagnation crashes left minutes "
    "title plan problem nonce"
).split()
PLACEHOLDERS = {phase: {*_COMMON} for phase in PHASES}
PLACEHOLDERS["repair"] |= {"diff"}
PLACEHOLDERS["review"] |= {"criteria", "changed", "diff", "value"}
REQUIRED = {"plan": ("nonce",), "apply": (), "repair": ("problem",), "review": ("nonce", "criteria", "diff")}
_WHY_NEEDED = {
    "nonce": "goalseek finds the answer by it",
    "problem": "it says what was wrong",
    "criteria": "the reviewer judges by them",
    "diff": "the reviewer judges it",
}
_IN_WORDS = {
    "history": "(nothing was tried yet)",
    "left": "no limit is set",
    "directions": "- (none)",
    "stagnation": "",
    "crashes": "",
}
_VERSION = re.compile(r"<!--\s*version\s+(\S{1,40})\s*-->\s*\n")
_PART = re.compile(r"^<!--\s*(unplanned|resumed)\s*-->\s*\n", re.MULTILINE)
_SECTION = re.compile(r"^(?=# )", re.MULTILINE)
_LIMIT_BYTES = 2**20


class Template(Struct, frozen=True):
    text: str
    version: str  # its own number; of a user's text "own", that number and a digest
    resumed: str = ""  # for an agent in its session, which knows the rest; "" for ``text``
    unplanned: str = ""  # follows the text if nobody planned the change


Templates = Mapping[str, Template]


def fill_template(text: str, values: Mapping[str, str]) -> str:
    """The text with its values. A section or paragraph is left out if all its placeholders are empty.

    A section begins at a line with "# ". ``$nonce`` does not count. A remaining empty one gets words instead.
    """

    def is_used(part: str) -> bool:
        counted = _placeholders_in(part) - {"nonce"}
        return not counted or any(map(values.__getitem__, counted))

    sections = filter(is_used, _SECTION.split(text))
    paragraphs = (paragraph for section in sections for paragraph in re.split(r"\n{2,}", section.strip("\n")))
    filled = "\n\n".join(filter(is_used, paragraphs)) + ("\n" if text.endswith("\n") else "")
    words = {name: values[name] or _IN_WORDS.get(name, "(none)") for name in _placeholders_in(filled)}
    return string.Template(filled).substitute(words)


@functools.lru_cache(maxsize=512)
def _placeholders_in(part: str) -> frozenset[str]:
    return frozenset(string.Template(part).get_identifiers())


def load_templates(folder: Path | None) -> Templates:
    """The folder's template for each phase, or else the package's. Raises GoalseekError."""
    if folder is None:
        return _package_templates()
    if not folder.is_dir():
        hint = f"name a folder with any of {', '.join(f'{phase}.md' for phase in PHASES)}; or leave the key out"
        raise GoalseekError(f"provider.prompts: {folder} is no folder", hint)
    own = {phase: _read_own(folder / f"{phase}.md", phase) for phase in PHASES if (folder / f"{phase}.md").exists()}
    return {**_package_templates(), **own}


@functools.cache
def _package_templates() -> Templates:
    folder = Path(__file__).with_name("prompts")
    return {phase: _parse((folder / f"{phase}.md").read_text("utf-8")) for phase in PHASES}


def _parse(text: str) -> Template:
    """Raises GoalseekError if a part stands there twice."""
    version = _VERSION.match(text)
    fresh, *parts = _PART.split(text[version.end() :] if version else text)
    if len({*parts[::2]}) < len(parts[::2]):
        raise GoalseekError("a template has the same part twice", f"write <!-- {parts[0]} --> once")
    named = dict(zip(parts[::2], parts[1::2], strict=True))
    return Template(fresh, version[1] if version else "", **named)


def _read_own(path: Path, phase: str) -> Template:
    try:
        text = path.read_bytes()[:_LIMIT_BYTES].decode("utf-8")
        template = _parse(text)
    except (OSError, ValueError) as error:
        raise GoalseekError(f"{path} cannot be read: {error}", "save it as UTF-8") from None
    words = ("own", template.version, short_digest(text)[:8])
    template = structs.replace(template, version=" ".join(filter(None, words)))
    if phase == "review" and template.resumed:
        raise GoalseekError(f"{path}: a reviewer has no session to resume", "remove the line <!-- resumed -->")
    if phase != "apply" and template.unplanned:
        raise GoalseekError(f"{path}: only apply.md is asked without a plan", "remove the line <!-- unplanned -->")
    known = ", ".join(f"${name}" for name in sorted(PLACEHOLDERS[phase]))
    guide = Path(__file__).parents[1] / "guide/prompts.md"
    for part in map(string.Template, filter(None, (template.text, template.resumed, template.unplanned))):
        if not part.is_valid():
            hint = f"$$ is a dollar sign; known are {known}; the manual is {guide}"
            raise GoalseekError(f"{path}: a $ that begins no placeholder", hint)
        named = part.get_identifiers()
        if unknown := next((name for name in named if name not in PLACEHOLDERS[phase]), None):
            hint = f"known are {known}; $$ is a dollar sign; the manual is {guide}"
            raise GoalseekError(f"{path}: there is no placeholder ${unknown}", hint)
        if missing := next((name for name in REQUIRED[phase] if name not in named), None):
            hint = f"see the package's own {phase}.md; the manual is {guide}"
            raise GoalseekError(f"{path}: has no ${missing}: {_WHY_NEEDED[missing]}", hint)
    return template
