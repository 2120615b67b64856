"""Scratch files beside object stores, whose process was killed before it could remove them."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from goalseek.own_folders import clear

_NAMES = re.compile(r"(?:index-)?([0-9]+)(?:-[0-9]+)?(?:\.lock)?", re.ASCII)


def remove_scratch_files(git_dirs: Iterable[Path]) -> None:
    """Removes the scratch files of processes that live no more; those of others at work stay."""
    for git_dir in git_dirs:
        with contextlib.suppress(FileNotFoundError):
            for path in list((git_dir / "scratch").iterdir()):
                owner = _NAMES.fullmatch(path.name)
                if owner and not is_alive(int(owner[1])):
                    clear(path)


def is_alive(pid: int) -> bool:
    """Whether there is a process of that number, whosever it is."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
