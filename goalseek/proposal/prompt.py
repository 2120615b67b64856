"""The prompts of one call: a template with its values, which ``prompt_values.jinja`` makes from the brief.

Text by others stands between two lines with the call's nonce, marked as data; nothing inside can end such a block.
"""

import contextlib
import functools
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

MAX_DIFF_BYTES = 64 * 1024
_FILES_LIMIT = 60
_BRIEF_HISTORY_BYTES = 4 * 1024
_PATH_LENGTH = 300


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
    template, review = templates[request.phase], request.review
    files = [file for file in context.files if len(file.path) <= _PATH_LENGTH]
    files.sort(key=lambda file: not file.writable)
    patch = review.patch if review else request.patch
    shown = patch[:MAX_DIFF_BYTES].decode("utf-8", "replace").rstrip("\n")
    if (rest := len(patch) - MAX_DIFF_BYTES) > 0:
        shown += f"\n(cut: {rest} bytes more; the files in the folder are complete)"
    texts = _value_texts(
        request,
        nonce,
        manifest=manifest,
        context=context,
        brief=brief,
        review=review,
        unit=manifest.metric.unit,
        run_it_too=RUN_IT_TOO,
        listed_files=files[:_FILES_LIMIT],
        history_bytes=(12 if request.phase == "plan" else 4) * 1024,
        patch=shown,
        changed_counts=review.changed.decode("utf-8", "replace") if review else "",
    )
    values = _Values(texts)

    def fill(text: str) -> str:
        prompt = fill_template(text, values)
        if values["problem"] and "$problem" not in text and "${problem}" not in text:
            prompt = f"{prompt.rstrip()}\n\n# Your last answer\n\n{values['problem']}\n"
        return prompt

    is_planned = request.plan is not None and bool(request.plan.title)
    text = template.text if is_planned or not template.unplanned else f"{template.text}\n{template.unplanned}"
    fresh, resumed = fill(text), ""
    if template.resumed and (request.phase != "plan" or request.problem):
        values |= {"writable": _text(texts.resumed_writable()), "problem": _text(texts.problem(is_resumed=True))}
        resumed = fill(template.resumed)
    return Prompts(fresh, resumed, values["files"])


def brief_text(manifest: Manifest, context: Context, brief: dict[str, Any]) -> str:
    """The brief in words, for somebody who edits in a checkout."""
    values = {"manifest": manifest, "context": context, "brief": brief, "unit": manifest.metric.unit, "review": None}
    how = {"run_it_too": RUN_IT_TOO, "history_bytes": _BRIEF_HISTORY_BYTES}
    texts = _value_texts(Request("brief"), secrets.token_hex(3).upper(), **values, **how)
    return fill_template(Path(__file__).with_name("brief.md").read_text("utf-8"), _Values(texts))


def resume_prompt(request: Request, nonce: str, edits: tuple[Edit, ...] | None) -> str:
    """The prompt for the session of a turn that was cut off; ``edits`` is None if they were undone."""
    return str(_value_texts(request, nonce).resume(edits))


def _value_texts(request: Request, nonce: str, **values: Any) -> Any:
    return _values_template().make_module({"request": request, "code": nonce, **values})


class _Values(dict[str, str]):
    """Makes the text of each placeholder when a template names it."""

    def __init__(self, texts: Any) -> None:
        self._texts = texts

    def __missing__(self, name: str) -> str:
        self[name] = text = _text(getattr(self._texts, name)())
        return text


def _text(lines: Any) -> str:
    return str(lines).removesuffix("\n")


@functools.cache
def _values_template() -> Any:
    # Commands that ask no agent do without it.
    from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined

    class Bytecode(FileSystemBytecodeCache):
        def dump_bytecode(self, bucket: Any) -> None:
            with contextlib.suppress(OSError):  # Python too does without it where it cannot be written
                super().dump_bytecode(bucket)

    folder = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # To compile the template takes 40 ms.
        bytecode_cache=None if sys.dont_write_bytecode else Bytecode(str(folder / "__pycache__")),
    )
    environment.filters |= {
        "count_bytes": lambda text: len(text.encode("utf-8", "replace")),
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
