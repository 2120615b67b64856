"""What a program tries from inside the sandbox, each with a control: unprotected, the same thing succeeds."""

import contextlib
import ctypes
import json
import os
import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from rooms import SECRET, Room
from skips import levels

from goalseek.sandbox import landlock
from goalseek.sandbox.supervisor import Supervisor
from goalseek.sandbox.view import Mount

ATTACKS = Path(__file__).with_name("sandbox_attacks.py").read_text()
EVIDENCE = {
    "by_path": SECRET,
    "masked_inside_of_what_is_shown": SECRET,
    "listing_the_repository": "listed",
    "listing_the_users_home": "listed",
    "seeing_that_a_file_is_there": "seen",
    "changing_modes_outside": "changed",
    "a_unix_socket": "connected",
    "an_abstract_socket": "connected",
    "a_server_on_loopback": "connected",
    "a_datagram_to_loopback": "sent",
    "memory_of_another_program": SECRET,
    "a_key_of_the_user": SECRET,
}
LANDLOCK = {"seeing_that_a_file_is_there", "changing_modes_outside", "a_unix_socket", "a_datagram_to_loopback"}
GAPS = {
    ("none", False): set(EVIDENCE),
    ("none", True): set(EVIDENCE),
    ("landlock", False): LANDLOCK,
    ("landlock", True): LANDLOCK | {"a_server_on_loopback"},
    ("bubblewrap", False): set(),
    ("bubblewrap", True): {"a_server_on_loopback", "a_datagram_to_loopback"},
}
NUMBERS = {
    "x86_64": {"shmget": 29, "shmat": 30, "shmctl": 31, "add_key": 248, "keyctl": 250},
    "aarch64": {"shmget": 194, "shmat": 196, "shmctl": 195, "add_key": 217, "keyctl": 219},
}
USER_KEYRING, UNLINK = -4, 9
SYSTEM = ctypes.CDLL(None, use_errno=True)
SYSTEM.syscall.restype = ctypes.c_long
ONLY_AS_ROOT = {"kernel_settings": "opened", "any_writable_file_of_the_kernel": "opened"}
FROM_WITHIN = ("block_devices", "kernel_settings_in_a_namespace_of_its_own")


@pytest.fixture(scope="module")
def battlefield(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Room, dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("battlefield")
    room = Room.make(folder)
    (room.users_home / ".secret").write_text(SECRET)
    (folder / "outside").write_text("untouched")
    shows = folder / "shows"
    (shows / "verifier").mkdir(parents=True)
    (shows / "verifier" / "labels.csv").write_text(SECRET)
    own = f"goalseek-attack-{os.getpid()}"
    with contextlib.ExitStack() as open_now:
        by_path = open_now.enter_context(socket.socket(socket.AF_UNIX))
        by_path.bind(f"/tmp/{own}.socket")
        open_now.callback(Path(f"/tmp/{own}.socket").unlink)
        abstract = open_now.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0{own}")
        server = open_now.enter_context(socket.create_server(("127.0.0.1", 0)))
        for listening in (by_path, abstract):
            listening.listen(100)
        datagrams = open_now.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        datagrams.bind(("127.0.0.1", 0))
        threading.Thread(target=answer, args=(datagrams,), daemon=True).start()
        open_now.callback(datagrams.sendto, b"end", datagrams.getsockname())
        memory = call("shmget", 0, 4096, 0o1600)
        open_now.callback(call, "shmctl", memory, 0, None)
        ctypes.memmove(call("shmat", memory, None, 0), SECRET.encode(), len(SECRET))
        key = call("add_key", b"user", own.encode(), SECRET.encode(), len(SECRET), USER_KEYRING)
        open_now.callback(call, "keyctl", UNLINK, key, USER_KEYRING)
        yield (
            room,
            {
                "top": str(room.top),
                "hidden": str(room.hidden),
                "home": str(room.users_home),
                "outside": str(folder / "outside"),
                "socket": by_path.getsockname(),
                "abstract": own,
                "port": server.getsockname()[1],
                "datagrams": datagrams.getsockname()[1],
                "mask": str(shows / "verifier"),
                "memory": memory,
                "key": own,
                "masked": str(shows / "verifier" / "labels.csv"),
                "shows": str(shows),
            },
        )


def call(name: str, *arguments: int | bytes | None) -> int:
    """A system call, by the numbers of this machine."""
    number = ctypes.c_long(NUMBERS[os.uname().machine][name])
    longs = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result: int = SYSTEM.syscall(number, *longs)
    assert result != -1, (name, os.strerror(ctypes.get_errno()))
    return result


def answer(datagrams: socket.socket) -> None:
    while True:
        said, sender = datagrams.recvfrom(100)
        if said == b"end":
            return
        if said == b"answer":
            datagrams.sendto(b"yes", sender)


def attack(room: Room, places: dict[str, Any], level: str, *names: str, **changes: Any) -> dict[str, str]:
    shutil.rmtree(room.tree)
    room.tree.mkdir()
    added = (Mount.in_place(Path(places["shows"])),)
    masked = (*room.view().masked, Path(places["mask"]))
    finished = room.python(level, ATTACKS, json.dumps(places), *names, added=added, masked=masked, **changes)
    assert finished.exit_code == 0, finished
    return json.loads(finished.stdout)


@pytest.mark.parametrize("network", [False, True], ids=["alone", "network"])
@pytest.mark.parametrize("level", levels("none", "landlock", "bubblewrap"))
@pytest.mark.slow
def test_an_attack_gets_what_the_level_lets_through_and_no_more(
    battlefield: tuple[Room, dict[str, Any]], level: str, network: bool
) -> None:
    room, places = battlefield
    outside = Path(places["outside"])
    outside.chmod(0o640)
    got = attack(room, places, level, *EVIDENCE, network=network)
    if outside.stat().st_mode & 0o777 == 0o640:
        got["changing_modes_outside"] = f"! only in a throw-away folder: {got['changing_modes_outside']}"
    assert {name for name, said in got.items() if said == EVIDENCE[name]} == GAPS[level, network], got
    stopped = [said for said in got.values() if said not in EVIDENCE.values()]
    assert [said for said in stopped if not (said.startswith("! ") or said == "False") or SECRET in said] == []


def test_the_kernel_here_has_all_that_these_expect_of_landlock() -> None:
    assert landlock.abi() >= landlock.SCOPES


@pytest.mark.elsewhere
@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("name", ["unmounting", "unmounting_in_a_namespace_of_its_own"])
def test_a_mask_cannot_be_unmounted(battlefield: tuple[Room, dict[str, Any]], name: str) -> None:
    room, places = battlefield
    assert SECRET not in attack(room, places, "bubblewrap", name)[name]


@pytest.mark.needs("root", "bwrap")
def test_with_its_capabilities_root_would_unmount_the_mask(battlefield: tuple[Room, dict[str, Any]]) -> None:
    room, places = battlefield
    added = (Mount.in_place(Path(places["shows"])),)
    words = [sys.executable, "-c", ATTACKS, json.dumps(places), "unmounting"]
    ready = room.ready("bubblewrap", *words, added=added, masked=(Path(places["mask"]),))
    at = ready.arguments.index("--cap-drop")
    unlimited = structs.replace(ready, arguments=ready.arguments[:at] + ready.arguments[at + 2 :])
    with Supervisor("room") as programs:
        finished = programs.run(unlimited, timeout=60.0)
    assert json.loads(finished.stdout)["unmounting"] == SECRET


@pytest.mark.needs("root")
@pytest.mark.parametrize("level", levels("landlock", "bubblewrap"))
def test_root_keeps_no_rights_of_root(battlefield: tuple[Room, dict[str, Any]], level: str) -> None:
    room, places = battlefield
    assert attack(room, places, "none", *ONLY_AS_ROOT) == ONLY_AS_ROOT
    for name, got in attack(room, places, level, *ONLY_AS_ROOT).items():
        assert got.startswith("! "), (name, got)
    assert rights(room, level, "CapBnd").strip("0") == ""


@pytest.mark.parametrize("level", levels("landlock", "bubblewrap"))
def test_nobody_has_or_gets_rights_of_root(battlefield: tuple[Room, dict[str, Any]], level: str) -> None:
    room, places = battlefield
    for name, got in attack(room, places, level, *FROM_WITHIN).items():
        assert got.startswith("! "), (name, got)
    assert (rights(room, level, "CapEff") + rights(room, level, "CapPrm")).strip("0") == ""
    assert rights(room, level, "NoNewPrivs") == "1"


def rights(room: Room, level: str, name: str) -> str:
    """What a program at this level has, as the kernel says it."""
    return room.prints(level, "sh", "-c", f"grep ^{name}: /proc/self/status").split()[1]
