"""Git as goalseek calls it: a cleaned environment, no hook, no filter, nothing of anybody's configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from goalseek import process
from goalseek.errors import UNFIT, GoalseekError

AUTHOR = ("goalseek", "goalseek@localhost")
HARDENED = (
    "-c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.attributesFile=/dev/null "
    "-c core.excludesFile=/dev/null -c core.sparseCheckout=false -c commit.gpgSign=false "
    "-c gc.auto=0 -c maintenance.auto=false -c submodule.recurse=false -c core.fsync=committed "
    "-c core.quotePath=false -c core.untrackedCache=false -c core.splitIndex=false -c protocol.allow=never"
).split()


class GitFailed(Exception):
    """A git command that should have worked did not."""

    def __init__(self, arguments: tuple[str, ...], exit_code: int, stderr: bytes) -> None:
        said = stderr.decode("utf-8", "replace").strip()
        super().__init__(f"git {' '.join(arguments)} ended with {exit_code}: {said}")
        self.exit_code = exit_code
        self.said = said


def environment(**more: str) -> dict[str, str]:
    """The environment of a git call: nothing inherited but where programs and the home are."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH") if name in os.environ}
    return {
        **kept,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        **more,
    }


def git(
    *arguments: str,
    git_dir: Path | None = None,
    folder: Path | None = None,
    stdin: bytes = b"",
    variables: Mapping[str, str] | None = None,
) -> bytes:
    """What a hardened git command prints. Raises GitFailed where it ends with anything but 0."""
    more = dict(variables or {})
    if git_dir is not None:
        more["GIT_DIR"] = str(git_dir)
    try:
        answer = process.ask(["git", *HARDENED, *arguments], environment(**more), stdin, folder)
    except FileNotFoundError:
        raise GoalseekError("git is not installed, or not on PATH", "install git 2.38 or newer", UNFIT) from None
    if answer.exit_code:
        raise GitFailed(arguments, answer.exit_code, answer.stderr)
    return answer.stdout


def git_text(*arguments: str, folder: Path | None = None) -> str:
    """The same as text, without the last newline."""
    return git(*arguments, folder=folder).decode("utf-8", "surrogateescape").rstrip("\n")
