"""A patch that a provider has ready, applied to the files of a folder."""

from __future__ import annotations

from pathlib import Path

from goalseek import process
from goalseek.git.command import environment


def apply_patch(patch: Path | bytes, folder: Path) -> str:
    """Applies a patch, or the one in a file, all of it or nothing; what git says against it, or ""."""
    name, sent = (str(patch), b"") if isinstance(patch, Path) else ("-", patch)
    answer = process.ask(["git", "apply", "--whitespace=nowarn", name], environment(), sent, folder)
    if not answer.exit_code:
        return ""
    return answer.stderr.decode("utf-8", "replace").strip() or f"git apply ended with {answer.exit_code}"
