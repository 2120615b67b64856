"""What the records add up to, for whoever only looks: a snapshot is used where its seal holds, and else read past."""

from __future__ import annotations

from pathlib import Path

from goalseek.git import GitFailed, git_text
from goalseek.history import History
from goalseek.manifest_file import Loaded
from goalseek.seal import Seal
from goalseek.standing import Standing


def believed_standing(loaded: Loaded) -> Standing:
    """The fold over all records. Without the secret here no snapshot is believed: then every record is read."""
    history = History(loaded.logs / "results.jsonl")
    if not history.has_snapshot():
        return history.standing()
    folder = loaded.folder / loaded.manifest.project.repo
    try:
        common = git_text("rev-parse", "--path-format=absolute", "--git-common-dir", folder=folder)
        seal = Seal(Path(common, "goalseek", loaded.manifest.project.name, "secret").read_bytes())
    except (GitFailed, OSError):
        return history.standing()
    return history.folded(history.snapshot(lambda found, body: seal.holds(found, "standing", body)))
