"""The preset of the Gemini CLI, ``gemini``."""

from __future__ import annotations

import json
import re
from itertools import islice

from goalseek.providers.credentials import Source, api_keys
from goalseek.providers.outcome import kind_of_status
from goalseek.providers.preset import Answer, Kind, Part, Preset, Printed, Trouble, count, inner, text_of
from goalseek.values import Usage

_SETTINGS = '{"security": {"auth": {"selectedType": "%s"}}}\n'
_AUTH_EXIT = 41
_TURNS_EXIT = 53
_LEAST_STATUS = 400
_KNOWN_KEYS = {"response", "stats", "error"}
_OBJECTS_LIMIT = 50


def read(printed: Printed) -> Answer:
    """One JSON object; a failure's status is its ``error.code``, or the exit code, which is the status modulo 256."""
    document = _document(printed.stdout) or _document(printed.stderr) or {}
    models = inner(document, "stats", "models")
    usage, model = Usage(), ""
    for name, stats in (models if isinstance(models, dict) else {}).items():
        tokens = inner(stats, "tokens")
        cached = count(inner(tokens, "cached"))
        thought = count(inner(tokens, "thoughts"))
        fresh = max(count(inner(tokens, "prompt")) - cached, 0) + count(inner(tokens, "tool"))
        usage = usage.plus(Usage(fresh, cached, count(inner(tokens, "candidates")) + thought))
        model = model or name
    if printed.exit_code in (0, _TURNS_EXIT) and not document.get("error"):
        return Answer(str(document.get("response") or ""), usage, "", model)
    why = text_of(inner(document, "error", "message")) or f"it ended with {printed.exit_code}"
    return Answer("", usage, "", model, Trouble(_kind(inner(document, "error", "code"), printed.exit_code), why))


def _document(text: str) -> dict[str, object] | None:
    """The JSON object with the result, at the beginning of any line: warnings may be before and after it."""
    starts = [match.start() for match in islice(re.finditer(r"^\{", text, re.MULTILINE), _OBJECTS_LIMIT)]
    for start in starts:
        try:
            document, _ = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if _KNOWN_KEYS & document.keys():
            return dict(document)
    return None


def _kind(code: object, exit_code: int) -> Kind:
    if code == _AUTH_EXIT or exit_code == _AUTH_EXIT:
        return "auth"
    statuses = [code] if isinstance(code, int) and code >= _LEAST_STATUS else []
    statuses += [status for status in (401, 403, 429, 500, 502, 503, 504, 529) if status % 256 == exit_code]
    return kind_of_status(statuses[0]) if statuses else "crashed"


PRESET = Preset(
    name="gemini",
    program="gemini",
    install="npm install -g @google/gemini-cli",
    tried="0.61.0",
    parts=(
        Part(("-o", "json", "--skip-trust")),
        Part(("-m", "{model}"), ("model",)),
        Part(("--approval-mode", "plan"), ("plan",)),
        Part(("--approval-mode", "yolo"), ("apply", "confined")),
        Part(("--approval-mode", "auto_edit"), ("apply", "unconfined")),
    ),
    read=read,
    credentials=(
        *api_keys("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        Source("~/.gemini/oauth_creds.json", "subscription"),
    ),
    variables=(("GOOGLE_GEMINI_BASE_URL", "{endpoint}", ("endpoint",)),),
    home_files=(
        (".gemini/settings.json", _SETTINGS % "gemini-api-key", ("key",)),
        (".gemini/settings.json", _SETTINGS % "oauth-personal", ("login",)),
    ),
    address="https://generativelanguage.googleapis.com",
)
