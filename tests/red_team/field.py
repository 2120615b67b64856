"""What both halves of the red team play on: servers that tell the secret, and ways to see what an attack got."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from red_team.attacks import SECRET


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


def wait_for(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    """Waits until something holds, which it must."""
    deadline = threading.Event()
    for _ in range(int(seconds * 20)):
        if holds():
            return
        deadline.wait(0.05)
    raise AssertionError("it never came")
