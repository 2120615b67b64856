"""What scenario tests need of goalseek's inside. They name none of it: a change within goalseek changes this file."""

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from goalseek.cli.main import run as run_here
from goalseek.disk import add_own, full_disk_error, remove_if_exists
from goalseek.errors import GitFailed, GoalseekError
from goalseek.git.objects import Objects
from goalseek.git.packing import pack_when_due
from goalseek.locks import NAMED_LOCKS_FOLDER
from goalseek.loop import invocation
from goalseek.project import landing
from goalseek.providers import fallback
from goalseek.sandbox.level import installation_hint

__all__ = ["NAMED_LOCKS_FOLDER", "GoalseekError", "installation_hint", "run_here"]

ON_ANY_DISK = "import goalseek.disk; goalseek.disk.LEAST_FREE = 0; from goalseek.__main__ import main; main()"


def start_on_any_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a climb begin on a disk that is nearly full."""
    monkeypatch.setattr("goalseek.disk.LEAST_FREE", 0)


def pack_every(monkeypatch: pytest.MonkeyPatch, iterations: int) -> None:
    """Packs what goalseek wrote after so many iterations."""
    monkeypatch.setattr(invocation, "pack_when_due", functools.partial(pack_when_due, every=iterations))


def retry_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asks an agent that failed again after a moment."""
    monkeypatch.setattr(fallback, "RETRY_SECONDS", (0.01, 0.01, 0.01))


def before_refs_move(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Acts between goalseek's last look at the refs and its moving them."""
    monkeypatch.setattr(landing, "_refuse_moved_branch", lambda project, refs: act())


def lacks_room_for_git_folder(place: Path) -> bool:
    """Whether goalseek's own git folder did not fit there. Any other error than that of a full disk is raised."""
    try:
        Objects(place / "git", place / "git" / "objects", "sha1")
    except (OSError, GitFailed) as error:
        if full_disk_error(error):
            return True
        raise
    return False


def remove_tree(folder: Path) -> None:
    """Removes a folder, if it exists, however deep and protected it is."""
    add_own(folder.parent)
    remove_if_exists(folder)
