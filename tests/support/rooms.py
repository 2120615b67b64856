"""A repository, a tree of it without the hidden file, and a program started in it at a level of the sandbox."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import structs

from goalseek.disk import add_own
from goalseek.sandbox.executables import required_paths
from goalseek.sandbox.level import SandboxLevel
from goalseek.sandbox.supervisor import ProgramResult, Supervisor
from goalseek.sandbox.view import Launch, Mount, View, build_view

SECRET = "the-hidden-labels"
LEVELS = {name: SandboxLevel(name) for name in ("none", "landlock", "bubblewrap")}  # type: ignore[arg-type]


@dataclass(frozen=True)
class Room:
    """``top`` is the repository, ``tree`` what a program gets of it; ``users_home`` is the user's own."""

    top: Path
    tree: Path
    users_home: Path
    scratch: Path

    @classmethod
    def make(cls, folder: Path, top: Path | None = None) -> Room:
        room = cls(
            top or folder / "repository", folder / "cache" / "tree", folder / "home", folder / "cache" / "scratch"
        )
        add_own(folder / "cache")
        for place in (room.top / "hidden", room.tree, room.users_home):
            place.mkdir(parents=True, exist_ok=True)
        (room.top / "hidden" / "labels.csv").write_text(SECRET)
        for place in (room.top, room.tree):
            (place / "experiment.py").write_text("print('experiment')\n")
        return room

    @property
    def hidden(self) -> Path:
        return self.top / "hidden" / "labels.csv"

    def view(self, **changes: Any) -> View:
        """The view of a program in the tree, with fresh throw-away folders; it may use this interpreter."""
        run = self.scratch / "run"
        shutil.rmtree(run, ignore_errors=True)
        run.mkdir(parents=True)
        needs = required_paths([[sys.executable]], os.environ, self.top)
        shown = [*map(Mount.in_place, needs), Mount.in_place(run, writable=True)]
        usual = build_view(self.tree, self.top, self.scratch)
        usual = structs.replace(
            usual, shown=(*shown, *changes.pop("added", ())), masked=(self.scratch.parent, *usual.masked)
        )
        return structs.replace(usual, **changes)

    def ready(self, level: str, *words: str, environment: dict[str, str] | None = None, **changes: Any) -> Launch:
        given = {**os.environ, **(environment or {})}
        if level == "none":
            return Launch(words, given, self.tree)
        return LEVELS[level].launch(self.view(**changes), words, given, self.tree)

    def run(self, level: str, *words: str, timeout: float = 60.0, **how: Any) -> ProgramResult:
        """Starts it as the loop does; gives how it ended."""
        ready = self.ready(level, *words, **how)
        with Supervisor("room") as programs:
            try:
                return programs.run(ready, timeout=timeout)
            except OSError as error:  # told as a verify command's is
                return ProgramResult(126, 0.0, False, 0, b"", str(error).encode())

    def prints(self, level: str, *words: str, **how: Any) -> str:
        """What it prints; it must end well."""
        finished = self.run(level, *words, **how)
        assert finished.exit_code == 0, finished
        return finished.stdout.decode().strip()

    def python(self, level: str, code: str, *arguments: str, **how: Any) -> ProgramResult:
        return self.run(level, sys.executable, "-c", code, *arguments, **how)


def write_program(path: Path, text: str = "#!/bin/sh\n", mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def small_python(prefix: Path) -> Path:
    """An interpreter with its library at ``prefix``, as uv and pyenv install them; the library's parts are links."""
    base = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
    library = Path(os.__file__).parent
    (prefix / "bin").mkdir(parents=True)
    shutil.copy2(base, prefix / "bin" / base.name)
    shared = base.parent.parent / "lib"
    for name in shared.glob("libpython*.so*"):
        (prefix / "lib").mkdir(exist_ok=True)
        shutil.copy2(name, prefix / "lib" / name.name)
    inside = prefix / "lib" / library.name
    ignore = shutil.ignore_patterns("test", "tests", "site-packages", "idlelib", "__pycache__", "config-*", "lib2to3")
    shutil.copytree(library, inside, ignore=ignore, symlinks=True)
    return prefix / "bin" / base.name


@contextmanager
def listener() -> Iterator[int]:
    """A server of the user's on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    thread.join(timeout=5)
