"""What a verify command needs and does not see: the usual first mistake in a manifest, told where it failed."""

from __future__ import annotations

from collections.abc import Sequence

from goalseek.manifest import Manifest
from goalseek.manifest_together import words_of
from goalseek.run_values import CommandRun
from goalseek.scope import scope


def out_of_sight(manifest: Manifest, runs: Sequence[CommandRun]) -> str:
    """What to change where the last of these runs failed and its command needs what it does not see; or ""."""
    failed = runs[-1].name if runs and runs[-1].exit_code else None
    command = next((command for command in manifest.verify if command.name == failed), None)
    if command is None or command.sees == "both":
        return ""
    if command.sees == "hidden":
        text = 'sees = "hidden" shows it none of the candidate\'s code: name what it needs in `outputs` before it'
        return f'{command.name}: {text}, or write sees = "both"'
    is_hidden = scope("", (), hidden=manifest.scope.hidden).hidden
    named = [word for word in words_of(command) if is_hidden(word.removeprefix("./"))]
    if not named:
        return ""
    return f'{command.name}: sees = "candidate" shows it no hidden file, and it names {named[0]}: write sees = "both"'
