"""The prompts of one call: a template with its values, which ``prompt_values.jinja`` makes from the brief.

Text by others stands between two lines with the call's nonce, marked as data; nothing inside can end such a block.
"""

import functools
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from goalseek.humanize import clean_title, format_dollars, format_duration, format_number, pluralize
from goalseek.manifest.tables import Manifest
from goalseek.phase_values import Context, Edit, Plan
from goalseek.proposal.brief import RUN_IT_TOO
from goalseek.providers.prompt_templates import Templates, fill_template
from goalseek.providers.provider import Prompts

_FILES_LIMIT = 60
_PATH_LENGTH = 300
_DATA = "<<<DATA {0}\n{1}\nDATA {0}>>>\n"


class Problem(Struct, frozen=True):
    said: str  # in goalseek's own words
    printed: str = ""  # by others, so it is data
    answer: str = ""  # that answer itself, which an agent that goes on in its session has already


class ReviewSubject(Struct, frozen=True):
    value: float
    criteria: tuple[str, ...]
    patch: bytes
    guards: Mapping[str, float] = {}  # the candidate's
    changed: bytes = b""  # git's ``--numstat``


class Request(Struct, frozen=True):
    """The ``number``-th question in this phase of the iteration, counted from 1."""

    phase: str
    number: int = 1
    plan: Plan | None = None
    problem: Problem | None = None  # with the answer before
    review: ReviewSubject | None = None
    patch: bytes = b""  # the edits so far that a repair begins with


def make_prompts(
    templates: Templates, manifest: Manifest, context: Context, brief: dict[str, Any], request: Request, nonce: str
) -> Prompts:
    """The problem follows at the end if the template has no ``$problem``."""
    template = templates[request.phase]
    files = [file for file in context.files if len(file.path) <= _PATH_LENGTH]
    files.sort(key=lambda file: not file.writable)
    given = {"manifest": manifest, "context": context, "brief": brief, "listed_files": files[:_FILES_LIMIT]}
    values = _Values(request, nonce, given)

    def fill(text: str, values: _Values) -> str:
        prompt = fill_template(text, values)
        if values["problem"] and "$problem" not in text and "${problem}" not in text:
            prompt = f"{prompt.rstrip()}\n\n# Your last answer\n\n{values['problem']}\n"
        return prompt

    def resumed() -> str:
        is_same = not template.resumed or (request.phase == "plan" and not request.problem)
        return "" if is_same else fill(template.resumed, _Values(request, nonce, {**given, "is_resumed": True}))

    is_planned = request.plan is not None and bool(request.plan.title)
    text = template.text if is_planned or not template.unplanned else f"{template.text}\n{template.unplanned}"
    return Prompts(fill(text, values), resumed, values["files"])


def brief_text(manifest: Manifest, context: Context, brief: dict[str, Any]) -> str:
    """The brief in words, for somebody who edits in a checkout."""
    given = {"manifest": manifest, "context": context, "brief": brief}
    values = _Values(Request("brief"), secrets.token_hex(3).upper(), given)
    return fill_template(Path(__file__).with_name("brief.md").read_text("utf-8"), values)


def resume_prompt(request: Request, nonce: str, edits: tuple[Edit, ...] | None) -> str:
    """The prompt for the session of a turn that was cut off; ``edits`` is None if they were undone."""
    return _Values(request, nonce, {"edits": edits})["resume"] + "\n"


class _Values(dict[str, str]):
    """Makes the text of each placeholder when a template names it."""

    def __init__(self, request: Request, nonce: str, given: Mapping[str, Any]) -> None:
        usual = {"request": request, "code": nonce, "run_it_too": RUN_IT_TOO, "is_resumed": False}
        self._context = _values_template().new_context({**usual, **given})

    def __missing__(self, name: str) -> str:
        lines = "".join(_values_template().blocks[name](self._context))
        self[name] = text = lines.removesuffix("\n")
        return text


@functools.lru_cache(maxsize=512)  # the next prompt has nearly the same
def _row_text(row: tuple[tuple[str, Any], ...], block: str, unit: str) -> str:
    return "".join(_values_template().blocks[block](_values_template().new_context({**dict(row), "unit": unit})))


@functools.cache
def _values_template() -> Any:
    # Commands that ask no agent do without it.
    from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    caches = Path(__file__).with_name("__pycache__")
    if os.access(caches, os.W_OK) and not sys.dont_write_bytecode:
        environment.bytecode_cache = FileSystemBytecodeCache(str(caches))  # to compile the template takes 40 ms
    environment.filters |= {
        "row_text": lambda row, block, unit: _row_text(tuple(row.items()), block, unit),
        "bullets": lambda lines: "".join(f"- {line}\n" for line in lines),
        "count_bytes": lambda text: len(text.encode("utf-8", "replace")),
        "data": lambda text, nonce: text and _DATA.format(nonce, text.replace(nonce, "_" * len(nonce))),
        "cut": lambda text, length: text if len(text) <= length else text[: length - 1] + "…",
        "dollars": format_dollars,
        "duration": format_duration,
        "number": format_number,
        "one_line": clean_title,
        "plain": lambda text: "".join(char if char.isprintable() or char in "\n\t" else " " for char in text),
        "pluralize": pluralize,
        "without": lambda text, nonce: text.replace(nonce, "_" * len(nonce)),
    }
    return environment.get_template("prompt_values.jinja")
