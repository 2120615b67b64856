"""Records that are in git and not in ``results.jsonl`` yet: in a clone that fetched them, or after a ``git clean``."""

from __future__ import annotations

from goalseek.git import GitFailed, git_text
from goalseek.manifest_file import Loaded


def way_to_fetched(loaded: Loaded) -> str:
    """What brings the records here that only git has, in words; "" where there are none."""
    if loaded.results.exists():
        return ""
    ref = f"refs/goalseek/{loaded.manifest.project.name}/ledger"
    try:
        git_text("rev-parse", "--verify", "--quiet", ref, folder=loaded.folder / loaded.manifest.project.repo)
    except (GitFailed, OSError):
        return ""
    return f"the records are in git, as {ref}: goalseek audit --rebuild writes them here"
