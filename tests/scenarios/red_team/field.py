"""What both halves of the red team play on: a field with all they are after, and ways to see what an attack got."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from project import Project
from red_team.attacks import SECRET


@contextmanager
def field(project: Project, folder: Path, home: Path, name: str) -> Iterator[tuple[dict[str, Any], int]]:
    """Everything around a project that an attack is after: where it is, and a descriptor of a hidden file.

    ``name`` tells its files in folders that all share from those of others; they go in the end.
    """
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_ed25519").write_text("private")
    (folder / "outside").mkdir()
    (project.top / "data").mkdir()
    own = f"goalseek-red-{name}-{os.getpid()}"
    short = f"/tmp/{own}"
    places: dict[str, Any] = {
        "top": str(project.top),
        "home": str(home),
        "outside": str(folder / "outside"),
        "blob": project.git("rev-parse", "HEAD:hidden/labels.txt"),
        "socket": f"{short}.socket",
        "abstract": own,
        "in_tmp": short,
        "in_memory": f"/dev/shm/{own}",
        "stranger": os.getpid(),
    }
    Path(short).write_text(SECRET)
    try:
        with servers(places), (project.top / "hidden" / "labels.txt").open() as descriptor:
            yield places, descriptor.fileno()
    finally:
        for place in (short, f"{short}-written", f"{short}.socket", places["in_memory"]):
            Path(place).unlink(missing_ok=True)


def script(name: str, places: Mapping[str, Any]) -> str:
    """An attacking script of this folder, where things are filled in."""
    text = Path(__file__).with_name(f"{name}.py").read_text()
    return text.replace('"""{}"""', repr(json.dumps(places)))


def cheating(words: Sequence[str], mode: str) -> dict[str, Any]:
    """The tables of a climb whose agent is such a script, and which nothing but its last attack ends."""
    return {
        "provider": {"name": "command", "command": list(words), "repair": 0},
        "limits": {"stagnation": "none", "failures": "none"},
        "sandbox": {"mode": mode, "agent_network": False},
    }


def climb(project: Project, count: int, descriptor: int) -> None:
    """Plays so many moves through the real command line, which must come to its end."""
    words = [sys.executable, "-m", "goalseek", "iterate", "-n", str(count)]
    ended = subprocess.run(words, cwd=project.top, capture_output=True, text=True, pass_fds=[descriptor], timeout=550)
    assert ended.returncode == 0, ended.stderr


@contextmanager
def servers(places: dict[str, Any]) -> Iterator[None]:
    """Servers of the user's that tell the secret to whoever connects."""
    with ExitStack() as stack:
        for family, address in (
            (socket.AF_UNIX, places["socket"]),
            (socket.AF_UNIX, "\0" + places["abstract"]),
            (socket.AF_INET, ("127.0.0.1", 0)),
        ):
            server = stack.enter_context(socket.socket(family))
            server.bind(address)
            server.listen(20)
            thread = threading.Thread(target=tell, args=(server,), daemon=True)
            thread.start()
            stack.callback(thread.join, 5)
            stack.callback(server.shutdown, socket.SHUT_RDWR)
            if family == socket.AF_INET:
                places["port"] = server.getsockname()[1]
        yield


def tell(server: socket.socket) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        with client:
            client.sendall(SECRET.encode())


def is_there(place: str) -> bool:
    """Whether a file is there, or, after ``: ``, a text in it."""
    path, _, text = place.partition(": ")
    return text in Path(path).read_text() if text else os.path.lexists(path)


def loot_in(printed: str) -> str:
    """What an attack said that it got."""
    (line,) = (line for line in printed.splitlines() if line.startswith("LOOT "))
    return str(json.loads(line.removeprefix("LOOT ")))
