"""A file that is written for the user: there whole or not at all, and refused before the work where it cannot be."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from goalseek.errors import GoalseekError


def refuse_records(path: Path, records: Path) -> None:
    """Raises GoalseekError where a file that is to be written is the records themselves."""
    if path.exists() and records.exists() and path.samefile(records):
        raise GoalseekError(f"-o {path}: these are the records themselves", "name another file")


@contextlib.contextmanager
def exported(path: Path, option: str = "-o") -> Iterator[BinaryIO]:
    """Gives the file, open to be written; it takes its place when the block ends, and is not there when it fails.

    What is no plain file, such as a pipe, is written as it comes. Raises GoalseekError at once where the file cannot
    be written.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise GoalseekError(f"{option} {path}: is a folder", "name a file in it")
    is_plain = target.is_file() or not target.exists()
    temporary = target.with_name(f".{target.name}.{os.getpid()}.new") if is_plain else target
    try:
        file = temporary.open("wb")
    except OSError as error:
        raise GoalseekError(f"{option} {path}: {error.strerror}", "name a file that can be written") from None
    try:
        with file:
            yield file
            file.flush()
            if is_plain:
                os.fsync(file.fileno())
        if is_plain:
            temporary.replace(target)
    except BaseException:
        if is_plain:
            temporary.unlink(missing_ok=True)
        raise
