"""Hardened git commands: a cleaned environment, no hook, no filter, and none of the user's settings but these.

* safe.directory: where git calls a repository's owner dubious, ``locate`` asks the user's own git.
* core.sharedRepository: ``Repository.objects`` asks for it once, and it goes with every git that writes there.
* core.worktree: ``locate`` takes git's answer, but not for a tree of somebody else's; every later git is told both
  folders.
* how the repository is stored: core.repositoryFormatVersion, extensions.*, objects/info/alternates, info/attributes.

Single commands (``git``), and processes that stay open and answer one request after another (``BatchProcesses``). What
users would run themselves, ``git status`` in their checkout and the commits of ``promote``, runs under their whole
configuration instead (``git_as_user``).
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, NoReturn

from goalseek import process
from goalseek.errors import UNFIT, GitFailed, GoalseekError
from goalseek.values import StopReason

AUTHOR = ("goalseek", "goalseek@localhost")

OVERRIDDEN_SETTINGS = {
    "core.hooksPath": "/dev/null",  # programs: hooks
    "core.fsmonitor": "false",  # a program
    "core.attributesFile": "/dev/null",  # filters and drivers by name
    "core.excludesFile": "/dev/null",
    "core.sparseCheckout": "false",  # trees are whole
    "commit.gpgSign": "false",  # a program, which may ask for a password
    "core.bigFileThreshold": "1000g",  # no object is streamed into a pack: each is loose, and can be linked
    "gc.auto": "0",  # nothing is pruned, nothing is packed but by us
    "maintenance.auto": "false",
    "submodule.recurse": "false",
    "core.fsync": "committed",  # a cut power loses nothing that a ref names
    "core.quotePath": "false",
    "core.untrackedCache": "false",
    "core.splitIndex": "false",
    "protocol.allow": "never",  # nothing is fetched; GIT_ALLOW_PROTOCOL says it where one is allowed by its name
}
"""What the repository's own configuration may say, and goalseek's git does not do. Filters, text conversions, pagers,
editors, ssh commands and external diffs need no row: no command that would run one is ever called."""
HARDENED = [word for name, value in OVERRIDDEN_SETTINGS.items() for word in ("-c", f"{name}={value}")]
_USER_PREFIXES = ("GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_CONFIG", "GIT_SSH")


def environment(**variables: str) -> dict[str, str]:
    """The environment of a hardened git call: of ours, only where programs, home and temporary files are."""
    return {
        **process.inherited_variables(("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        **variables,
    }


def git_as_user(
    *arguments: str, folder: Path | None = None, stdin: bytes = b"", variables: Mapping[str, str] | None = None
) -> process.CompletedProgram:
    """A git command under the user's environment without what a calling git has set; what configures git stays."""
    inherited = process.environment_without("GIT_", but=_USER_PREFIXES)
    return process.run(["git", *arguments], {**inherited, **(variables or {})}, stdin, folder)


def git(
    *arguments: str,
    git_dir: Path | None = None,
    folder: Path | None = None,
    stdin: bytes = b"",
    variables: Mapping[str, str] | None = None,
) -> bytes:
    """The standard output of a hardened git command. Raises GitFailed where its exit code is not 0.

    Raises GoalseekError where there is no git, FileNotFoundError where no ``folder``.
    """
    git_variables = {**(variables or {}), **({"GIT_DIR": str(git_dir)} if git_dir else {})}
    try:
        answer = process.run(["git", *HARDENED, *arguments], environment(**git_variables), stdin, folder)
    except FileNotFoundError as error:
        if error.filename != "git":
            raise
        raise GoalseekError("git is not installed, or not on PATH", "install git 2.38 or newer", UNFIT) from None
    if answer.returncode:
        raise GitFailed(arguments, answer.returncode, answer.stderr, answer.stdout)
    return answer.stdout


_UNREADABLE_OBJECT = re.compile(
    r"(?:unable to (?:read|find)|bad (?:tree )?object|not a (?:tree|valid) object|missing|could not read|nonexistent)"
    r"[^\n]*?\b([0-9a-f]{40,64})\b",
    re.IGNORECASE,
)


class MissingObject(GoalseekError):
    """An object that was stored and is missing now: somebody pruned it, or the store is broken."""

    def __init__(self, name: str) -> None:
        hint = (
            "it was pruned, or the store is broken: see git fsck; where there is a clone, fetch it from there: "
            "git fetch CLONE 'refs/goalseek/*:refs/goalseek/*'; then the same command goes on"
        )
        super().__init__(f"git does not have the object {name} any more", hint, StopReason.REPOSITORY)


def missing_object_error(stderr: str) -> MissingObject | None:
    """The error to raise where git's standard error names a missing object, else None."""
    match = _UNREADABLE_OBJECT.search(stderr)
    return MissingObject(match[1]) if match else None


class ObjectsFailed(Exception):
    """A git process that was open ended by itself: a full disk, a broken store. ``stderr`` is what it printed."""

    def __init__(self, message: str, stderr: str = "") -> None:
        super().__init__(message)
        self.stderr = stderr


class BatchReply:
    """The reply of a git process to one request; ``line`` is its first line, without its end.

    ``ended`` raises MissingObject or ObjectsFailed; it is called where the process has ended.
    """

    def __init__(self, said: IO[bytes], ended: Callable[[], NoReturn]) -> None:
        self._said = said
        self._ended = ended
        self.line = self.next_line()

    def content(self, size: int) -> bytes:
        """The next ``size`` bytes, without the newline after them."""
        content = self._said.read(size + 1)
        if len(content) <= size:
            self._ended()
        return content[:-1]

    def lines(self) -> Iterator[bytes]:
        """The lines from the first one on, up to the line "end"."""
        line = self.line
        while line != b"end":
            yield line
            line = self.next_line()

    def fields(self) -> Iterator[bytes]:
        """The fields of a -z listing, up to the line "end", which marks its end."""
        field = b""
        while field != b"end\n":
            byte = self._said.read(1)
            if not byte:
                self._ended()
            if byte == b"\0":
                yield field
                field = b""
            else:
                field += byte

    def next_line(self) -> bytes:
        """The next line, without its end."""
        line = self._said.readline()
        if not line.endswith(b"\n"):
            self._ended()
        return line[:-1]


class BatchProcesses:
    """The git processes of one git directory, each started by its first request. Close it when done."""

    def __init__(self, git_dir: Path, variables: Mapping[str, str]) -> None:
        self.open: dict[tuple[str, ...], subprocess.Popen[bytes]] = {}
        self._git_dir = git_dir
        self._variables = variables

    def send(self, arguments: tuple[str, ...], request: bytes) -> BatchReply:
        """Sends a request to ``git ARGUMENTS``. Raises MissingObject or ObjectsFailed where that process has ended."""
        if arguments not in self.open:
            command = ["git", *HARDENED, *arguments]
            self.open[arguments] = process.start_batch(command, environment(**self._variables), self._git_dir)
        child = self.open[arguments]
        assert child.stdin and child.stdout
        try:
            child.stdin.write(request)
            child.stdin.flush()
        except BrokenPipeError:
            self._raise_ended(child, arguments[0])
        return BatchReply(child.stdout, lambda: self._raise_ended(child, arguments[0]))

    def close(self) -> None:
        """Ends the processes; the next request starts a new one."""
        for child in self.open.values():
            for pipe in (child.stdin, child.stdout, child.stderr):
                assert pipe is not None
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        for child in self.open.values():
            child.wait()
        self.open.clear()

    def _raise_ended(self, child: subprocess.Popen[bytes], command: str) -> NoReturn:
        assert child.stderr
        stderr = child.stderr.read().decode("utf-8", "replace").strip()
        self.close()
        raise missing_object_error(stderr) or ObjectsFailed(f"git {command} ended: {stderr}", stderr)
