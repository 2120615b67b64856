"""A program made ready to be started in its place: the values that process.supervise takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_LOADERS = ("LD_", "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "NLSPATH", "MALLOC_", "DYLD_")


@dataclass(frozen=True)
class Launch:
    """What to start, with which environment, and in which folder.

    ``is_cage`` says that the first process holds all others: it ends when they do, and its end is their end at once.
    Who wants them to have time to finish must not signal it first. ``restriction`` are words for ``restrict``: what
    who starts the program keeps of its own rights, before it turns into it.
    """

    arguments: tuple[str, ...]
    environment: dict[str, str]
    folder: Path
    is_cage: bool = False
    restriction: tuple[str, ...] = ()


def split(environment: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """An environment for the keeper, and the variables that only the kept program may have.

    They say which code is loaded, and may name a folder that a candidate wrote in.
    """
    loaders = {name: value for name, value in environment.items() if name.startswith(_LOADERS)}
    return {name: value for name, value in environment.items() if name not in loaders}, loaders
