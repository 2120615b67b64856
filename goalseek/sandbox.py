"""What a started program gets: its environment, and the level at which it is kept apart from the rest."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from goalseek.errors import UNFIT, GoalseekError
from goalseek.manifest import Manifest, Variables

LEVEL = "none"
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
NOT_ENFORCED = (
    "No sandbox: programs run as you. A program can read the repository, hidden files included, by its path; "
    "it can write wherever you can; it has the network."
)


def environment(variables: Variables, given: Mapping[str, str], temporary: Path) -> dict[str, str]:
    """The environment of a started program: the published list, ``pass``, ``set``, and what goalseek gives it.

    Raises GoalseekError where ``set`` names a variable that does not exist.
    """
    names = (*PUBLISHED, *variables.pass_)
    made = {name: os.environ[name] for name in names if name in os.environ}
    interpreter = str(Path(sys.executable).parent)
    made["PATH"] = os.pathsep.join([*filter(None, [made.get("PATH", os.defpath)]), interpreter])
    made["TMPDIR"] = str(temporary)
    for name, value in variables.set.items():
        made[name] = _expanded(name, value)
    return {**made, **given}


def refuse_without_consent(manifest: Manifest, provider: str) -> None:
    """Raises GoalseekError where a program would be started that nothing keeps in its place, and nobody said so."""
    if manifest.sandbox.mode == "none":
        return
    message = f"the provider {provider!r} runs a program, and there is no sandbox to keep it in its place"
    hint = 'if you trust it with your account, say so in the manifest: sandbox.mode = "none"'
    raise GoalseekError(message, hint, UNFIT, "sandbox")


def _expanded(name: str, value: str) -> str:
    def known(match: re.Match[str]) -> str:
        if match[1] in os.environ:
            return os.environ[match[1]]
        raise GoalseekError(f"env: {name} = {value!r} names {match[1]}, which is not set", "set it, or write it out")

    return re.sub(r"\$\{(\w+)\}", known, value)
