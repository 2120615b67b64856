"""The only starter of other programs, git included. Those that are not trusted are started by its companion."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from goalseek.descendants import TOKEN
from goalseek.interrupts import left_to_another

Companion = subprocess.Popen[bytes]
_mark: ContextVar[str] = ContextVar("mark", default="")


@dataclass(frozen=True)
class Answer:
    """How a short program ended, with all that it printed."""

    exit_code: int
    stdout: bytes
    stderr: bytes


@contextlib.contextmanager
def marked(mark: str) -> Iterator[None]:
    """Marks the trusted programs that are started in this block, so that who takes over can wait for them."""
    before = _mark.get()
    _mark.set(mark)
    try:
        yield
    finally:
        _mark.set(before)  # not reset(): a generator may be closed in another context than it began in


def ask(
    arguments: Sequence[str | os.PathLike[str]],
    environment: Mapping[str, str],
    stdin: bytes = b"",
    folder: Path | None = None,
) -> Answer:
    """Runs a short, trusted program to its end. Raises FileNotFoundError where there is no such program."""
    done = subprocess.run(
        list(arguments), input=stdin, capture_output=True, env=_marked(environment), cwd=folder, check=False
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def attach(arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> int:
    """Runs a program on this terminal, and gives its exit code as a shell would: 128 and the number for a signal."""
    with left_to_another():
        code = subprocess.run(list(arguments), env=dict(environment), cwd=folder, check=False).returncode
    return code if code >= 0 else 128 - code


def converse(arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> subprocess.Popen[bytes]:
    """Starts a trusted program that answers line by line until its input is closed."""
    return subprocess.Popen(
        list(arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_marked(environment),
        cwd=folder,
        start_new_session=True,
    )


def companion(module: str, inherited: Sequence[int]) -> Companion:
    """Starts the ``main`` of a module of our own, in a session of its own, with the first of these descriptors.

    It inherits them and nothing else, and no code but the interpreter's and ours can get in.
    """
    code = f"import sys; sys.path.append(sys.argv[1]); from {module} import main; main(int(sys.argv[2]))"
    kept = {name: os.environ[name] for name in ("HOME", "LD_LIBRARY_PATH") if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code, str(Path(__file__).parent.parent), str(inherited[0])],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=kept,
        cwd="/",
        pass_fds=inherited,
        start_new_session=True,
    )


def detach(arguments: Sequence[str], log: Path) -> Companion:
    """Starts goalseek with these arguments, away from this terminal; what it prints is appended to ``log``.

    It works in the current folder and imports nothing from there: what lies in a user's folder is not goalseek's code.
    """
    code = "import sys; sys.path.append(sys.argv.pop(1)); from goalseek.__main__ import main; main()"
    with log.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, "-P", "-c", code, str(Path(__file__).parent.parent), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _marked(environment: Mapping[str, str]) -> dict[str, str]:
    mark = _mark.get()
    return {**environment, TOKEN: mark} if mark else dict(environment)
