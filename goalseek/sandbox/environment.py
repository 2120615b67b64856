"""The environment variables of a program, and the refusal to start an agent that no sandbox confines."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from goalseek.errors import GoalseekError
from goalseek.manifest.tables import Manifest, Variables
from goalseek.process import inherited_variables
from goalseek.sandbox import level
from goalseek.sandbox.redaction import is_credential_name
from goalseek.values import StopReason

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


def program_environment(variables: Variables, extra: Mapping[str, str], temporary: Path) -> dict[str, str]:
    """The environment of a program: the published list, ``pass``, ``set``, and ``extra``, which is goalseek's own.

    Raises GoalseekError if ``set`` refers to a variable that is not set.
    """
    names = (*PUBLISHED, *variables.pass_)
    environment = inherited_variables(names)
    interpreter = str(Path(sys.executable).parent)
    environment["PATH"] = os.pathsep.join([*filter(None, [environment.get("PATH", os.defpath)]), interpreter])
    environment["TMPDIR"] = str(temporary)
    for name, value in variables.set.items():
        environment[name] = _substitute(f"env: {name}", value)
    return {**environment, **extra}


def refuse_without_consent(manifest: Manifest, provider: str) -> None:
    """Raises GoalseekError if an agent would have no sandbox, unless the manifest says ``mode = "none"``."""
    sandbox = level.probe(manifest.sandbox.mode)
    if manifest.sandbox.mode == "none" or sandbox.name != "none":
        return
    why = "; ".join(sandbox.reason)
    message = f"the provider {provider!r} runs a program, and there is no sandbox to keep it in its place ({why})"
    hint = level.installation_hint("bubblewrap")
    hint += '; if you trust it with your account, say so in the manifest: sandbox.mode = "none"'
    raise GoalseekError(message, hint, StopReason.SANDBOX)


def refuse_unconfined(manifest: Manifest, provider: str) -> None:
    """Raises GoalseekError if an agent that runs every command without asking would have no sandbox."""
    if level.probe(manifest.sandbox.mode).name == "none":
        message = f"the provider {provider!r} runs every command of its model unasked, and needs a sandbox"
        raise GoalseekError(
            message, f'sandbox.mode = "auto"; {level.installation_hint("bubblewrap")}', StopReason.SANDBOX
        )


def credentials_in_manifest(variables: Variables) -> dict[str, str]:
    """Variables that a manifest passes on or sets and whose names say that they hold a credential, with values."""
    values = inherited_variables(variables.pass_)
    values |= {name: _substitute(f"env: {name}", value) for name, value in variables.set.items()}
    return {name: value for name, value in values.items() if is_credential_name(name)}


def expand_path(key: str, text: str, folder: Path) -> Path:
    """A path as people write it, with ``~`` and ``${HOME}``, relative to ``folder``.

    Raises GoalseekError for a variable that is not set.
    """
    return Path(os.path.normpath(folder / Path(_substitute(key, text)).expanduser()))


def _substitute(key: str, value: str) -> str:
    def value_of(match: re.Match[str]) -> str:
        if match[1] in os.environ:
            return os.environ[match[1]]
        raise GoalseekError(f"{key} = {value!r} names {match[1]}, which is not set", "set it, or write it out")

    return re.sub(r"\$\{(\w+)\}", value_of, value)
