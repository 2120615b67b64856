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

_PUBLISHED = """PATH HOME USER LOGNAME SHELL LANG LANGUAGE LC_ALL LC_CTYPE TZ TERM
    SSL_CERT_FILE SSL_CERT_DIR""".split()


def program_environment(variables: Variables, extra: Mapping[str, str], temporary: Path) -> dict[str, str]:
    """The environment of a program: the published list, ``pass``, ``set``, and ``extra``, which is goalseek's own.

    Raises GoalseekError if ``set`` refers to a variable that is not set.
    """
    environment = inherited_variables((*_PUBLISHED, *variables.pass_))
    interpreter = str(Path(sys.executable).parent)
    environment["PATH"] = os.pathsep.join([*filter(None, [environment.get("PATH", os.defpath)]), interpreter])
    environment["TMPDIR"] = str(temporary)
    return {**environment, **_set_variables(variables), **extra}


def refuse_unconfined(manifest: Manifest, provider: str, runs_unasked: bool) -> None:
    """Raises GoalseekError if an agent would have no sandbox.

    The manifest may consent to that by ``mode = "none"``, but not where the agent runs every command without asking.
    """
    sandbox = level.probe(manifest.sandbox.mode)
    if sandbox.name != "none":
        return
    hint = level.installation_hint("bubblewrap")
    if manifest.sandbox.mode != "none":
        why = "; ".join(sandbox.reason)
        message = f"the provider {provider!r} runs a program, and there is no sandbox to keep it in its place ({why})"
        hint += '; if you trust it with your account, say so in the manifest: sandbox.mode = "none"'
        raise GoalseekError(message, hint, StopReason.SANDBOX)
    if runs_unasked:
        message = f"the provider {provider!r} runs every command of its model unasked, and needs a sandbox"
        raise GoalseekError(message, f'sandbox.mode = "auto"; {hint}', StopReason.SANDBOX)


def credentials_in_manifest(variables: Variables) -> dict[str, str]:
    """Variables that a manifest passes on or sets and whose names say that they hold a credential, with values."""
    values = {**inherited_variables(variables.pass_), **_set_variables(variables)}
    return {name: value for name, value in values.items() if is_credential_name(name)}


def expand_path(key: str, text: str, folder: Path) -> Path:
    """A path as people write it, with ``~`` and ``${HOME}``, relative to ``folder``.

    Raises GoalseekError for a variable that is not set.
    """
    return Path(os.path.normpath(folder / Path(_substitute(key, text)).expanduser()))


def _set_variables(variables: Variables) -> dict[str, str]:
    return {name: _substitute(f"env: {name}", value) for name, value in variables.set.items()}


def _substitute(key: str, value: str) -> str:
    def value_of(match: re.Match[str]) -> str:
        if match[1] in os.environ:
            return os.environ[match[1]]
        raise GoalseekError(f"{key} = {value!r} names {match[1]}, which is not set", "set it, or write it out")

    return re.sub(r"\$\{(\w+)\}", value_of, value)
