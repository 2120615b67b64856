"""Git processes that stay open: each is told something again and again, and answers."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

from goalseek import process
from goalseek.git.command import HARDENED, environment, missing_in


class ObjectsFailed(Exception):
    """A git process of an object store ended by itself: a full disk, a broken store."""


@dataclass(frozen=True)
class Answer:
    """What a git process says next. Reading it raises ObjectsFailed where the process ended before that."""

    said: IO[bytes]
    ended: Callable[[], NoReturn]

    def line(self) -> bytes:
        """The next line, without its end."""
        line = self.said.readline()
        if not line.endswith(b"\n"):
            self.ended()
        return line[:-1]

    def content(self, size: int) -> bytes:
        """So many bytes, after which a line ends."""
        content = self.said.read(size + 1)
        if len(content) <= size:
            self.ended()
        return content[:-1]

    def field(self) -> bytes | None:
        """The next field of a -z listing; None at the line "end", which marks its end."""
        field = bytearray()
        while (byte := self.said.read(1)) != b"\0":
            field += byte
            if field == b"end\n":
                return None
            if not byte:
                self.ended()
        return bytes(field)


class Conversations:
    """The git processes of one object store, each started when it is first told something. Close it when done."""

    def __init__(self, git_dir: Path, variables: Mapping[str, str]) -> None:
        self.open: dict[tuple[str, ...], subprocess.Popen[bytes]] = {}
        self._git_dir = git_dir
        self._variables = variables

    def tell(self, arguments: tuple[str, ...], words: bytes) -> Answer:
        """Tells ``git ARGUMENTS`` something. Raises Missing or ObjectsFailed where it has ended."""
        child = self._child(arguments)
        assert child.stdin and child.stdout
        answer = Answer(child.stdout, lambda: self._ended(child, arguments[0]))
        try:
            child.stdin.write(words)
            child.stdin.flush()
        except BrokenPipeError:
            answer.ended()
        return answer

    def close(self) -> None:
        """Ends the processes; the next telling starts one afresh."""
        for child in self.open.values():
            for pipe in (child.stdin, child.stdout, child.stderr):
                assert pipe is not None
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        for child in self.open.values():
            child.wait()
        self.open.clear()

    def _child(self, arguments: tuple[str, ...]) -> subprocess.Popen[bytes]:
        child = self.open.get(arguments)
        if child is None:
            child = process.converse(["git", *HARDENED, *arguments], environment(**self._variables), self._git_dir)
            self.open[arguments] = child
        return child

    def _ended(self, child: subprocess.Popen[bytes], what: str) -> NoReturn:
        assert child.stderr
        said = child.stderr.read().decode("utf-8", "replace").strip()
        self.close()
        raise missing_in(said) or ObjectsFailed(f"git {what} ended: {said}")
