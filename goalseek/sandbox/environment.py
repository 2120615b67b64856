"""What a started program gets of the user's environment, and whether an agent may be started at all."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from goalseek.errors import UNFIT, GoalseekError
from goalseek.manifest.tables import Manifest, Variables
from goalseek.sandbox import level
from goalseek.sandbox.redaction import is_telling

PUBLISHED = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TERM",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)


def program_environment(variables: Variables, given: Mapping[str, str], temporary: Path) -> dict[str, str]:
    """The environment of a started program: the published list, ``pass``, ``set``, and what goalseek gives it.

    Raises GoalseekError where ``set`` names a variable that does not exist.
    """
    names = (*PUBLISHED, *variables.pass_)
    made = {name: os.environ[name] for name in names if name in os.environ}
    interpreter = str(Path(sys.executable).parent)
    made["PATH"] = os.pathsep.join([*filter(None, [made.get("PATH", os.defpath)]), interpreter])
    made["TMPDIR"] = str(temporary)
    for name, value in variables.set.items():
        made[name] = _with_variables(f"env: {name}", value)
    return {**made, **given}


def refuse_without_consent(manifest: Manifest, provider: str) -> None:
    """Raises GoalseekError where an agent would be started that nothing keeps in its place, and nobody said so."""
    found = level.probe(manifest.sandbox.mode)
    if manifest.sandbox.mode == "none" or found.name != "none":
        return
    why = "; ".join(found.reason)
    message = f"the provider {provider!r} runs a program, and there is no sandbox to keep it in its place ({why})"
    hint = level.how_to_get("bubblewrap")
    hint += '; if you trust it with your account, say so in the manifest: sandbox.mode = "none"'
    raise GoalseekError(message, hint, UNFIT, "sandbox")


def refuse_unconfined(manifest: Manifest, provider: str) -> None:
    """Raises GoalseekError where an agent that runs every command unasked would run with nothing to keep it."""
    if level.probe(manifest.sandbox.mode).name == "none":
        message = f"the provider {provider!r} runs every command of its model unasked, and needs a sandbox"
        raise GoalseekError(message, f'sandbox.mode = "auto"; {level.how_to_get("bubblewrap")}', UNFIT, "sandbox")


def credentials_of(names: Iterable[str]) -> dict[str, str]:
    """Variables of the user's that hold credentials, with their values."""
    return {name: os.environ[name] for name in names if name in os.environ}


def passed_credentials(variables: Variables) -> dict[str, str]:
    """Those that a manifest passes on or sets and whose names say that they hold a credential."""
    made = {**credentials_of(variables.pass_)}
    made |= {name: _with_variables(f"env: {name}", value) for name, value in variables.set.items()}
    return {name: value for name, value in made.items() if is_telling(name)}


def expanded(key: str, text: str, folder: Path) -> Path:
    """A path as people write it, with ``~`` and ``${HOME}``, relative to ``folder``.

    Raises GoalseekError for a variable that is not set.
    """
    return Path(os.path.normpath(folder / Path(_with_variables(key, text)).expanduser()))


def _with_variables(key: str, value: str) -> str:
    def known(match: re.Match[str]) -> str:
        if match[1] in os.environ:
            return os.environ[match[1]]
        raise GoalseekError(f"{key} = {value!r} names {match[1]}, which is not set", "set it, or write it out")

    return re.sub(r"\$\{(\w+)\}", known, value)
