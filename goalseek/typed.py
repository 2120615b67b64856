"""What is to be typed, for a climb whose manifest needs to be named: without its ``-m`` it would mean another one."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

_OF_A_CLIMB = (
    "iterate|step|baseline|status|direct|stop|approve|decline|exec|log|show|report|serve|compare|promote|audit"
    "|manifest|prune|doctor|noise"
)
_COMMAND = re.compile(rf"\bgoalseek (?=(?:{_OF_A_CLIMB})\b)")
_NAMED = re.compile(r"goalseek\.([^/]+)\.toml")


def typed(text: str, manifest: Path | str | None) -> str:
    """``text`` with ``-m`` in its commands: the manifest's path, what ``-m`` was given, or None where it was not."""
    if manifest is None:
        return text
    asked = _asked(manifest) if isinstance(manifest, Path) else manifest
    return _COMMAND.sub(lambda found: f"{found[0]}-m {shlex.quote(asked)} ", text) if asked else text


def _asked(manifest: Path) -> str:
    """What ``-m`` takes for this file; "" where it is found without."""
    if manifest.name == "goalseek.toml":
        return ""
    named = _NAMED.fullmatch(manifest.name)
    return named[1] if named else str(manifest)
