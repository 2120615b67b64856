"""What the records add up to, for whoever only looks: a snapshot is used where its seal holds, and else read past."""

from __future__ import annotations

from pathlib import Path

from goalseek.errors import GoalseekError
from goalseek.git.location import locate
from goalseek.history import History
from goalseek.manifest.loading import Loaded
from goalseek.seal import Seal
from goalseek.standing import Standing


def believed_standing(loaded: Loaded, own: Path | None = None) -> Standing:
    """The fold over all records; ``own`` is ``own_folder``, where that is known.

    Without the secret here no snapshot is believed: then every record is read.
    """
    history = History(loaded.results)
    if not history.has_snapshot():
        return history.standing()
    own = own or own_folder(loaded)
    if own is None:
        return history.standing()
    try:
        seal = Seal((own / "secret").read_bytes())
    except OSError:
        return history.standing()
    return history.folded(history.snapshot(lambda found, body: seal.holds(found, "standing", body)))


def own_folder(loaded: Loaded) -> Path | None:
    """The project's own folder in the common git directory; None outside a repository."""
    try:
        location = locate(loaded.folder / loaded.manifest.project.repo)
    except GoalseekError:
        return None
    return location.own(loaded.manifest.project.name)
