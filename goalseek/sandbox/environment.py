"""The environment variables of programs, refused launches, and the redaction of credentials in output."""

import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from goalseek.disk import open_regular
from goalseek.errors import GoalseekError
from goalseek.manifest.loading import ManifestFile
from goalseek.manifest.tables import Manifest, Variables
from goalseek.process import environment_without, inherited_variables
from goalseek.sandbox import level
from goalseek.sandbox.executables import which
from goalseek.sandbox.view import Launch
from goalseek.values import Finding, StopReason
from goalseek.workspace.scope import manifest_scope

_PUBLISHED = """PATH HOME USER LOGNAME SHELL LANG LANGUAGE LC_ALL LC_CTYPE TZ TERM
    SSL_CERT_FILE SSL_CERT_DIR""".split()
HIDDEN = b"[credential]"
_LEAST_LENGTH = 8
_READ_LIMIT = 2**20
_LINE_LIMIT = 2**16
_CREDENTIAL_NAME = re.compile(r"key|token|secret|password|passwd|credential|access|refresh", re.IGNORECASE)


def program_environment(variables: Variables, extra: Mapping[str, str], temporary: Path) -> dict[str, str]:
    """The published list, ``pass``, ``set``, and ``extra``. Raises GoalseekError for a variable that is not set."""
    environment = inherited_variables((*_PUBLISHED, *variables.pass_))
    interpreter = os.path.dirname(sys.executable)
    environment["PATH"] = os.pathsep.join([*filter(None, [environment.get("PATH", os.defpath)]), interpreter])
    environment["TMPDIR"] = str(temporary)
    return {**environment, **_set_variables(variables), **extra}


def refuse_unconfined(manifest: Manifest, provider: str, runs_unasked: bool) -> None:
    """Raises GoalseekError without a sandbox; ``mode = "none"`` permits that, but to no agent that ``runs_unasked``."""
    sandbox = level.probe(manifest.sandbox.mode)
    if sandbox.name != "none":
        return
    hint = level.installation_hint("bubblewrap")
    if manifest.sandbox.mode != "none":
        why = "; ".join(sandbox.reason)
        message = f"the provider {provider!r} runs a program, and there is no sandbox for it ({why})"
        hint += '; if you trust it with your account, set in the manifest: sandbox.mode = "none"'
        raise GoalseekError(message, hint, StopReason.SANDBOX)
    if runs_unasked:
        message = f"the provider {provider!r} runs every command of its model unasked, and needs a sandbox"
        raise GoalseekError(message, f'sandbox.mode = "auto"; {hint}', StopReason.SANDBOX)


def notify_launch(loaded: ManifestFile) -> Launch | Finding:
    """The unconfined launch of the program of ``[notify]``, or why it cannot or may not run."""
    folder, (program, *arguments) = loaded.folder.resolve(), loaded.manifest.notify.command or ("",)
    command = (os.path.expanduser(program), *arguments)
    # A relative folder on PATH would be one below the manifest's, where kept changes may be taken home to.
    path = [name for name in os.environ.get("PATH", os.defpath).split(os.pathsep) if Path(name).is_absolute()]
    variables = environment_without("GOALSEEK_")
    variables["PATH"] = os.pathsep.join([*path, str(Path(sys.executable).parent)])
    kind = manifest_scope(loaded, loaded.manifest, "").kind
    for number, word in enumerate(command):
        file = Path(os.path.realpath(folder / word))
        is_here = (number > 0 or "/" in word) and os.path.isfile(file) and file.is_relative_to(folder)
        if is_here and kind(file.relative_to(folder).as_posix()) == "writable":
            text = f"{word} is not run: scope.writable lets candidates change it"
            return Finding("wrong", text, "exclude it there, or move it")
    if not command[0] or which(command[0], variables["PATH"], folder):
        return Launch(command, variables, loaded.folder)
    if "/" in command[0] and os.path.isfile(folder / command[0]):
        return Finding("wrong", f"{command[0]} is not executable", f"chmod +x {shlex.quote(command[0])}")
    text = f"{command[0]} does not exist{'' if '/' in command[0] else ' on PATH'}"
    return Finding("wrong", text, "correct notify.command")


def credentials_in_manifest(variables: Variables) -> dict[str, str]:
    """Variables that the manifest passes on or sets under a credential's name."""
    values = {**inherited_variables(variables.pass_), **_set_variables(variables)}
    return {name: value for name, value in values.items() if is_credential_name(name)}


def expand_path(key: str, text: str, folder: Path) -> Path:
    """Expands ``~`` and ``${HOME}``. Raises GoalseekError for a variable that is not set."""
    return Path(os.path.normpath(folder / Path(_substitute(key, text)).expanduser()))


def _set_variables(variables: Variables) -> dict[str, str]:
    return {name: _substitute(f"env: {name}", value) for name, value in variables.set.items()}


def _substitute(key: str, value: str) -> str:
    def value_of(match: re.Match[str]) -> str:
        if match[1] in os.environ:
            return os.environ[match[1]]
        raise GoalseekError(f"{key} = {value!r} names {match[1]}, which is not set", "set it, or write it out")

    return re.sub(r"\$\{(\w+)\}", value_of, value)


class Redactor:
    def __init__(self) -> None:
        self._values: set[bytes] = set()

    def add(self, values: Iterable[str]) -> None:
        for value in values:
            for form in (value, json.dumps(value)[1:-1]):
                if len(form) >= _LEAST_LENGTH:
                    self._values.add(form.encode("utf-8", "surrogateescape"))

    def add_files(self, files: Iterable[Path]) -> None:
        """Learns credentials: of JSON files the texts under keys like "token", of others each line."""
        for file in files:
            try:
                with open_regular(file.parent, file.name, is_ours=False) as content:
                    text = content.read(_READ_LIMIT).decode("utf-8", "replace")
            except OSError:
                continue
            try:
                self.add(_secret_texts(json.loads(text)))
            except (ValueError, RecursionError):
                self.add(line.partition("=")[2].strip("'\" ") or line for line in text.splitlines())

    def contains(self, content: bytes) -> bool:
        return any(value in content for value in self._values)

    def redact(self, content: bytes) -> bytes:
        for value in sorted(self._values, key=len, reverse=True):
            content = content.replace(value, HIDDEN)
        return content

    def redact_text(self, text: str) -> str:
        return self.redact(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def stream(self, pass_on: Callable[[bytes], None]) -> Callable[[bytes], None]:
        """Redacts output and passes it on in whole lines; an empty chunk passes on the rest."""
        pending = bytearray()
        longest = max((len(value) for value in self._values), default=0)

        def take(chunk: bytes) -> None:
            pending.extend(chunk)
            end = pending.rfind(b"\n") + 1 if chunk and longest else len(pending)
            if len(pending) - end > _LINE_LIMIT:
                end = len(pending) - longest
            if end:
                pass_on(self.redact(bytes(pending[:end])))
                del pending[:end]

        return take


def is_credential_name(name: str) -> bool:
    return bool(_CREDENTIAL_NAME.search(name))


def _secret_texts(value: Any, is_secret: bool = False) -> Iterable[str]:
    if isinstance(value, dict):
        for key, inside in value.items():
            yield from _secret_texts(inside, is_secret or is_credential_name(key))
    elif isinstance(value, list):
        for inside in value:
            yield from _secret_texts(inside, is_secret)
    elif isinstance(value, str) and is_secret and len(value) >= 2 * _LEAST_LENGTH:
        yield value
