"""What a program tries from inside the sandbox, each with a control: unprotected, the same thing succeeds."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from needs import why_missing
from rooms import SECRET, Room
from skips import levels

from goalseek.sandbox import landlock
from goalseek.sandbox.supervisor import Supervisor
from goalseek.sandbox.view import Mount

ATTACKS = Path(__file__).with_name("sandbox_attacks.py").read_text()
EVIDENCE = {
    "by_path": SECRET,
    "by_git_show": SECRET,
    "by_the_root_of_the_tool": SECRET,
    "by_the_folder_of_the_tool": SECRET,
    "environment_of_the_tool": "read",
    "by_symlink": SECRET,
    "by_hard_link": SECRET,
    "by_a_link_in_the_run_folder": SECRET,
    "masked_inside_of_what_is_shown": SECRET,
    "listing_the_repository": "listed",
    "listing_the_users_home": "listed",
    "seeing_that_a_file_is_there": "seen",
    "writing_outside": "written",
    "writing_into_what_is_shared": "written",
    "changing_modes_outside": "changed",
    "a_file_in_tmp": SECRET,
    "a_unix_socket": "connected",
    "an_abstract_socket": "connected",
    "a_server_on_loopback": "connected",
    "a_datagram_to_loopback": "sent",
    "a_signal_to_a_stranger": "sent",
}
GAPS = {
    "none": set(EVIDENCE),
    "bubblewrap": set(),
    "landlock": {
        "seeing_that_a_file_is_there",
        "changing_modes_outside",
        "a_unix_socket",
        "a_datagram_to_loopback",
    },
}
WITH_NETWORK = {
    "none": set(EVIDENCE),
    "bubblewrap": {"a_server_on_loopback", "a_datagram_to_loopback"},
    "landlock": GAPS["landlock"] | {"a_server_on_loopback"},
}
ONLY_AS_ROOT = {"chroot": SECRET, "kernel_settings": "opened", "any_writable_file_of_the_kernel": "opened"}
FROM_WITHIN = ("block_devices", "kernel_settings_in_a_namespace_of_its_own")


@pytest.fixture(scope="module")
def battlefield(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Room, dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("battlefield")
    room = Room.make(folder)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *identity, *words], cwd=room.top, check=True, timeout=120)
    (room.users_home / ".secret").write_text(SECRET)
    shared, shows = folder / "shared", folder / "shows"
    for place in (shared, shows / "verifier"):
        place.mkdir(parents=True)
    (shows / "verifier" / "labels.csv").write_text(SECRET)
    in_tmp = Path(f"/tmp/goalseek-attack-{os.getpid()}")
    in_tmp.write_text(SECRET)
    tool = subprocess.Popen(["sleep", "600"], cwd=room.top)
    with contextlib.ExitStack() as open_now:
        by_path = open_now.enter_context(socket.socket(socket.AF_UNIX))
        by_path.bind(f"/tmp/goalseek-attack-{os.getpid()}.socket")
        abstract = open_now.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0goalseek-attack-{os.getpid()}")
        server = open_now.enter_context(socket.create_server(("127.0.0.1", 0)))
        for listening in (by_path, abstract):
            listening.listen(100)
        datagrams = open_now.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        datagrams.bind(("127.0.0.1", 0))
        threading.Thread(target=answer, args=(datagrams,), daemon=True).start()
        places = {
            "top": str(room.top),
            "hidden": str(room.hidden),
            "tool": tool.pid,
            "stranger": tool.pid,
            "run": str(room.scratch / "run"),
            "home": str(room.users_home),
            "outside": str(folder / "outside"),
            "shared": str(shared),
            "in_tmp": str(in_tmp),
            "socket": by_path.getsockname(),
            "abstract": f"goalseek-attack-{os.getpid()}",
            "port": server.getsockname()[1],
            "datagrams": datagrams.getsockname()[1],
            "mask": str(shows / "verifier"),
            "masked": str(shows / "verifier" / "labels.csv"),
            "shows": str(shows),
        }
        (folder / "outside").write_text("untouched")
        try:
            yield room, places
        finally:
            datagrams.sendto(b"end", datagrams.getsockname())
            tool.kill()
            tool.wait(timeout=120)
            in_tmp.unlink()
            Path(by_path.getsockname()).unlink()


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
    added = (Mount.in_place(Path(places["shared"])), Mount.in_place(Path(places["shows"])))
    masked = (*room.view().masked, Path(places["mask"]))
    finished = room.python(level, ATTACKS, json.dumps(places), *names, added=added, masked=masked, **changes)
    assert finished.exit_code == 0, finished
    return json.loads(finished.stdout)


@pytest.fixture(scope="module")
def outcomes(battlefield: tuple[Room, dict[str, Any]]) -> dict[tuple[str, bool], dict[str, str]]:
    """What every attack got at every level, without a network and with it."""
    room, places = battlefield
    found = {}
    outside = Path(places["outside"])
    for level in GAPS:
        for network in (False, True) if level != "bubblewrap" or why_missing("bwrap") is None else ():
            outside.write_text("untouched")
            outside.chmod(0o640)
            got = attack(room, places, level, *EVIDENCE, network=network)
            if outside.read_text() == "untouched":
                got["writing_outside"] = f"! only in a throw-away folder: {got['writing_outside']}"
            if outside.stat().st_mode & 0o777 == 0o640:
                got["changing_modes_outside"] = f"! only in a throw-away folder: {got['changing_modes_outside']}"
            (Path(places["shared"]) / "planted").unlink(missing_ok=True)
            found[level, network] = got
    return found


@pytest.mark.parametrize("network", [False, True], ids=["alone", "network"])
@pytest.mark.parametrize("level", levels(*GAPS))
@pytest.mark.parametrize("name", EVIDENCE)
@pytest.mark.slow
def test_an_attack_gets_what_the_level_lets_through_and_no_more(
    outcomes: dict[tuple[str, bool], dict[str, str]], name: str, level: str, network: bool
) -> None:
    got = outcomes[level, network][name]
    if name in (WITH_NETWORK if network else GAPS)[level]:
        assert got == EVIDENCE[name]
        return
    assert got.startswith("! ") or got == "False", (name, got)
    assert SECRET not in got


def test_the_kernel_here_has_all_that_these_expect_of_landlock() -> None:
    assert landlock.abi() >= landlock.SCOPES


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
