"""The environment variables of programs, and what may not be started: an agent, or the program of ``[notify]``."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from goalseek.errors import GoalseekError
from goalseek.manifest.loading import ManifestFile
from goalseek.manifest.tables import Manifest, Variables
from goalseek.process import environment_without, inherited_variables
from goalseek.sandbox import level
from goalseek.sandbox.redaction import is_credential_name
from goalseek.sandbox.view import Launch
from goalseek.values import Finding, StopReason
from goalseek.workspace.scope import manifest_scope

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


def notify_launch(loaded: ManifestFile) -> Launch:
    """How the program of ``[notify]`` is started, unconfined: a ``~`` before it is your HOME."""
    return Launch(_notify_words(loaded), _notify_environment(), loaded.folder)


def check_notify_command(loaded: ManifestFile) -> Finding | None:
    """Why the program of ``[notify]`` cannot or may not run: it is missing, or candidates may change it; else None."""
    folder, command = loaded.folder.resolve(), _notify_words(loaded)
    kind = manifest_scope(loaded, loaded.manifest, "").kind
    for number, word in enumerate(command):
        path = Path(os.path.realpath(folder / word))
        is_here = (number > 0 or "/" in word) and os.path.isfile(path) and path.is_relative_to(folder)
        if is_here and kind(path.relative_to(folder).as_posix()) == "writable":
            text = f"{word} is not run: scope.writable lets candidates change it"
            return Finding("wrong", text, "exclude it there, or move it")
    program = str(folder / command[0]) if "/" in command[0] else command[0]
    if not command[0] or shutil.which(program, path=_notify_environment()["PATH"]):
        return None
    if "/" in command[0] and os.path.isfile(program):
        return Finding("wrong", f"{command[0]} is not executable", f"chmod +x {shlex.quote(command[0])}")
    text = f"{command[0]} does not exist{'' if '/' in command[0] else ' on PATH'}"
    return Finding("wrong", text, "correct notify.command")


def _notify_words(loaded: ManifestFile) -> tuple[str, ...]:
    program, *arguments = loaded.manifest.notify.command or ("",)
    return (os.path.expanduser(program), *arguments)


def _notify_environment() -> dict[str, str]:
    """The user's whole environment, without ``GOALSEEK_*``; on PATH no relative folder, and goalseek's own at its end.

    A relative folder would be one below the manifest's, where kept changes may be taken home to.
    """
    folders = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if Path(folder).is_absolute()]
    path = os.pathsep.join([*folders, str(Path(sys.executable).parent)])
    return environment_without("GOALSEEK_") | {"PATH": path}


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
