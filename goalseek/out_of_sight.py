"""What a command needs and does not see: the usual first mistake in a manifest, told where it failed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from goalseek.git.ignore import matcher
from goalseek.git.objects import Entry
from goalseek.git.paths import quote_path
from goalseek.manifest.rules import words_of
from goalseek.manifest.tables import Manifest
from goalseek.sandbox.executables import which
from goalseek.sandbox.executables import words_of as run_words_of
from goalseek.values import CommandRun
from goalseek.workspace.scope import Scope, scope

_OUTSIDE = "or keep it outside of the repository and give its absolute path"


def out_of_sight(
    manifest: Manifest, runs: Sequence[CommandRun], folder: Path, prefix: str, entries: Mapping[str, Entry]
) -> str:
    """What to change where the last of these runs failed and its command needs what it does not see; or "".

    ``folder`` is the manifest's in the checkout, and ``prefix`` that folder in the tree of ``entries``.
    """
    failed = runs[-1].name if runs and runs[-1].exit_code else None
    command = next((command for command in manifest.verify if command.name == failed), None)
    if command is None:
        return ""
    given = (*manifest.scope.share, *(manifest.setup.gives if manifest.setup else ()))
    made = matcher((*given, *(pattern for one in manifest.verify for pattern in one.outputs)))
    script = _script_outside([command.run], folder, command.cwd, lambda path: prefix + path in entries or made(path))
    if script and manifest.scope.hidden_from is None:
        return f"{command.name}: {quote_path(script)} is in your checkout, but not committed: add it, {_OUTSIDE}"
    if command.sees == "both":
        return ""
    if command.sees == "hidden":
        text = 'sees = "hidden" shows it none of the candidate\'s code: name what it needs in `outputs` before it'
        return f'{command.name}: {text}, or write sees = "both"'
    is_hidden = scope("", (), hidden=manifest.scope.hidden).hidden
    named = [word for word in words_of(command) if is_hidden(word.removeprefix("./"))]
    if not named:
        return ""
    return f'{command.name}: sees = "candidate" shows it no hidden file, and it names {named[0]}: write sees = "both"'


def agent_out_of_sight(
    commands: Iterable[Sequence[str]], folder: Path, visible: Scope, shared: Sequence[str], entries: Mapping[str, Entry]
) -> tuple[str, str]:
    """Which script of an agent's command its tree lacks, and what would be right; ("", "") where it lacks none."""
    is_shared, is_seen = matcher(tuple(shared)), visible.seen_by("agent")

    def is_there(path: str) -> bool:
        whole = visible.prefix + path
        return is_shared(path) or (whole in entries and is_seen(whole))

    # The program itself is run from the checkout; what it is given to run is looked for in the tree.
    script = _script_outside(commands, folder, ".", is_there)
    if not script:
        return "", ""
    if visible.prefix + script in entries:
        return f"{quote_path(script)} is hidden from the agent", "name another file, or take it out of scope.hidden"
    text = f"{quote_path(script)} is in your checkout, but not committed where the agent's tree is taken from"
    return text, f"commit it, and where a climb has begun adopt it with goalseek baseline; {_OUTSIDE}"


def _script_outside(
    commands: Iterable[str | Sequence[str]], folder: Path, cwd: str, is_there: Callable[[str], bool]
) -> str:
    """The first script that a command runs by a relative path to a file of the checkout that is not there; or ""."""
    path = os.environ.get("PATH", os.defpath)

    def is_file(word: str) -> bool:
        return os.path.isfile(folder / cwd / word)

    for command in commands:
        for word in run_words_of(command, lambda text: is_file(text) or which(text, path, folder / cwd) is not None):
            script = os.path.normpath(os.path.join(cwd, word.text))
            is_program = not isinstance(command, str) and word.text == command[0]
            is_below = not is_program and not script.startswith(("/", ".."))
            if word.is_run and is_below and is_file(word.text) and not is_there(script):
                return script
    return ""
