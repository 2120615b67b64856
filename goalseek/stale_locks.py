"""Locks that a killed git left behind, on nothing but our own refs and folders. Only the lock's holder may look."""

from __future__ import annotations

import contextlib

from goalseek.git.repository import Repository
from goalseek.own_folders import clear
from goalseek.workspace.places import Places


def remove_stale_locks(repository: Repository, places: Places) -> None:
    """Removes what no living git can hold: whoever made them was ended before this project's lock was free."""
    for ref in (repository.tip_ref, repository.ledger_ref, repository.branch_ref):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            (repository.location.common_dir / f"{ref}.lock").unlink()
    for folder in (repository.own / "objects.git", places.workspace.with_name("workspace.git")):
        for path in folder.rglob("*.lock"):
            clear(path)
