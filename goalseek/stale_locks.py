"""Locks that a killed git left behind, on nothing but our own refs and folders. Only the lock's holder may look."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from goalseek.places import Places
from goalseek.repository import Repository


def remove_stale_locks(repository: Repository, places: Places) -> None:
    """Removes what no living git can hold: whoever made them was ended before this project's lock was free."""
    for path in _locks(repository, places):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()


def _locks(repository: Repository, places: Places) -> Iterator[Path]:
    common = repository.location.common_dir
    for ref in (repository.tip_ref, repository.ledger_ref, repository.branch_ref):
        yield common / f"{ref}.lock"
    for folder in (repository.own / "objects.git", places.workspace.with_name("workspace.git")):
        yield from folder.rglob("*.lock")
