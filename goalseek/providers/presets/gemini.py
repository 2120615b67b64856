"""The preset of the Gemini CLI, ``gemini``."""

import json
import re
from itertools import islice
from pathlib import Path

from goalseek.disk import read_object
from goalseek.providers import preset
from goalseek.providers.credentials import Credential, api_keys
from goalseek.providers.preset import Answer, Part, Preset, Printed, Trouble
from goalseek.values import Usage

_EDITING = ("replace", "write_file", "enter_plan_mode", "exit_plan_mode")
_SETTINGS = ".gemini/settings.json"
_POLICY, _WEB_POLICY = ".gemini/policies/goalseek.toml", ".gemini/policies/web.toml"
_AUTH_EXIT = 41
_TURNS_EXIT = 53
_REFUSED_EXITS = (42, 44, 52, 54)  # its input, sandbox, settings or a tool is wrong
_STATUSES = (401, 403, 429, 500, 502, 503, 504, 529)
_KNOWN_KEYS = {"response", "stats", "error"}
_OBJECTS_LIMIT = 50
_RESET = re.compile(r"^Suggested retry after (\d{1,9}(?:\.\d+)?)s\.$", re.MULTILINE)


def read(printed: Printed) -> Answer:
    """One JSON object; a failure's status is its ``error.code``, or the exit code, which is the status modulo 256."""
    document = _document(printed.stdout) or _document(printed.stderr) or {}
    models = preset.inner(document, "stats", "models")
    usage, model = Usage(), ""
    for name, stats in (models if isinstance(models, dict) else {}).items():
        usage = usage.plus(_usage(preset.inner(stats, "tokens"), "prompt", "candidates"))
        model = model or name
    if not model:
        answers: dict[str, Usage] = {}
        for row in printed.rows(".gemini/tmp/*/chats/session-*.jsonl"):
            # A call begins with a ``startTime``; one that resumes sets the session, in another minute only that.
            if row.get("startTime") or preset.inner(row, "$set", "sessionId"):
                answers = {}
            elif row.get("type") == "gemini":
                answers[str(row.get("id"))] = _usage(row.get("tokens"), "input", "output")
        usage = Usage.total(answers.values())
    session = preset.text_of(document, "session_id")
    if document and printed.exit_code in (0, _TURNS_EXIT) and not document.get("error"):
        return Answer(str(document.get("response") or ""), usage, session, model)
    message = preset.inner(document, "error", "message")
    error = preset.inner(preset.json_or_none(str(message)), "error")  # the API's, if the message is its whole answer
    why = preset.text_of(error, "message") or preset.text_of(message) or f"it ended with {printed.exit_code}"
    code, details = preset.inner(document, "error", "code"), preset.inner(error, "details")
    statuses = [code] if isinstance(code, int) and code >= 400 else []
    statuses += [status for status in _STATUSES if status % 256 == printed.exit_code]
    kind = preset.kind_of(statuses[0] if statuses else None, "refused" if printed.exit_code in _REFUSED_EXITS else "")
    reasons = [preset.inner(detail, "reason") for detail in details] if isinstance(details, list) else []
    if "API_KEY_INVALID" in reasons or _AUTH_EXIT in (code, printed.exit_code):  # the former has status 400
        kind = "auth"
    reset = _RESET.search(str(message))
    return Answer("", usage, session, model, Trouble(kind, why, float(reset[1]) if reset else None))


def _usage(tokens: object, input_name: str, output_name: str) -> Usage:
    names = (input_name, "cached", output_name, "thoughts", "tool")
    whole, cached, output, thoughts, tool = (preset.count(tokens, name) for name in names)
    return preset.usage_of(whole, cached, output + thoughts).plus(Usage(tool))


def _document(text: str) -> dict[str, object] | None:
    """The JSON object with the result, at the beginning of any line, as warnings may surround it."""
    starts = [match.start() for match in islice(re.finditer(r"^\{", text, re.MULTILINE), _OBJECTS_LIMIT)]
    for start in starts:
        try:
            document, _ = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if _KNOWN_KEYS & document.keys():
            return dict(document)
    return None


def _settings(login: str) -> str:
    """Long waits are ours; a project brings no skills, .env or names of files."""
    settings = {
        "security": {"auth": {"selectedType": login} if login else {}, "folderTrust": {"enabled": True}},
        "general": {"maxAttempts": 2},
        "advanced": {"ignoreLocalEnv": True},
        "context": {"includeDirectoryTree": False},
        "skills": {"enabled": False},
    }
    return json.dumps(settings) + "\n"


def _deny(*tools: str) -> str:
    return f'[[rule]]\ntoolName = {json.dumps(tools)}\ndecision = "deny"\npriority = 900\n'


def first_start(folder: str, has_key: bool) -> dict[str, str]:
    """Its theme and way to log in, as in the user's own HOME; the folder is trusted."""
    login = {"auth": {"selectedType": "gemini-api-key" if has_key else "oauth-personal"}}
    own = {"security": login, **read_object(Path.home() / _SETTINGS)}
    return {
        _SETTINGS: json.dumps({key: own[key] for key in ("ui", "theme", "security", "selectedAuthType") if key in own}),
        ".gemini/trustedFolders.json": json.dumps({folder: "TRUST_FOLDER"}),
    }


PRESET = Preset(
    name="gemini",
    program="gemini",
    install="npm install -g @google/gemini-cli",
    tried="0.61.0",
    parts=(
        Part(("-o", "json")),
        Part(("-m", "{model}"), ("model",)),
        Part(("--resume", "{session}"), ("session",)),
        Part(("--skip-trust",)),  # it is read after the project's settings, so these are not trusted
        Part(("--approval-mode", "yolo"), ("confined",)),
        Part(("--approval-mode", "plan"), ("plan", "unconfined")),
        Part(("--approval-mode", "auto_edit"), ("apply", "unconfined")),
    ),
    read=read,
    credentials=(
        *api_keys("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        Credential("~/.gemini/oauth_creds.json", "subscription"),
    ),
    variables=(("GEMINI_SYSTEM_MD", "false", ()), ("GOOGLE_GEMINI_BASE_URL", "{endpoint}", ("endpoint",))),
    home_files=(
        (_SETTINGS, _settings(""), ()),
        (_SETTINGS, _settings("gemini-api-key"), ("key",)),
        (_SETTINGS, _settings("oauth-personal"), ("login",)),
        (_POLICY, _deny(*_EDITING, "run_shell_command"), ("reviewer", "confined")),
        (_POLICY, _deny(*_EDITING), ("author", "plan", "confined")),
        (_POLICY, "", ("apply",)),
        (_WEB_POLICY, _deny("google_web_search", "web_fetch"), ("no_search",)),
    ),
    address="https://generativelanguage.googleapis.com",
    first_start=first_start,
)
