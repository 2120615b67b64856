"""Runs attacks and prints, as JSON, what each got. Run inside of a room: ``python -c CODE PLACES NAMES``.

What an agent gets by its own command line is the red team's to try: these need a view of their own.
"""

import ctypes
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

places = json.loads(sys.argv[1])


def read(path):
    return Path(path).read_text()


def changing_modes_outside():
    os.chmod(places["outside"], 0o600)
    return "changed"


def a_unix_socket():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(places["socket"])
    return "connected"


def an_abstract_socket():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\0" + places["abstract"])
    return "connected"


def a_server_on_loopback():
    with socket.create_connection(("127.0.0.1", places["port"]), timeout=5):
        return "connected"


def a_datagram_to_loopback():
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe,
    ):
        client.sendto(b"leak", ("127.0.0.1", places["datagrams"]))
        probe.settimeout(5)
        probe.sendto(b"answer", ("127.0.0.1", places["datagrams"]))
        probe.recv(10)
    return "sent"


def system_call(number, *arguments):
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    longs = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = library.syscall(ctypes.c_long(number), *longs)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"system call {number}")
    return result


SHMAT, KEYCTL = {"x86_64": (30, 250), "aarch64": (196, 219)}[os.uname().machine]
SEARCH, READ, USER_KEYRING = 10, 11, -4


def memory_of_another_program():
    return ctypes.string_at(system_call(SHMAT, places["memory"], None, 0)).decode()


def a_key_of_the_user():
    key = system_call(KEYCTL, SEARCH, USER_KEYRING, b"user", places["key"].encode(), 0)
    content = ctypes.create_string_buffer(100)
    system_call(KEYCTL, READ, key, content, 100)
    return content.value.decode()


def unmounting():
    library = ctypes.CDLL(None, use_errno=True)
    if library.umount2(places["mask"].encode(), 2) != 0:
        raise OSError(ctypes.get_errno(), "umount")
    return read(places["masked"])


def unmounting_in_a_namespace_of_its_own():
    script = 'umount -l "$1"; cat "$2"'
    words = ["unshare", "-rm", "sh", "-c", script, "sh", places["mask"], places["masked"]]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def block_devices():
    name = next(name for name in os.listdir("/dev") if name.startswith(("sda", "vda", "nvme", "xvda")))
    return os.open("/dev/" + name, os.O_RDONLY) and "opened"


def kernel_settings_in_a_namespace_of_its_own():
    script = (
        "mount -o remount,rw /proc; mount -t proc proc /proc; echo core > /proc/sys/kernel/core_pattern && echo wrote"
    )
    words = ["unshare", "-rmpf", "sh", "-c", script]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def any_writable_file_of_the_kernel():
    found = []
    for folder, _, names in os.walk("/proc"):
        if not folder.split("/")[2:3] or not folder.split("/")[2].isdigit():
            for name in names:
                try:
                    os.close(os.open(os.path.join(folder, name), os.O_WRONLY | os.O_NONBLOCK))
                    found.append(name)
                except OSError:
                    continue
    if not found:
        raise OSError("none")
    return "opened"


ATTACKS = {
    "by_path": lambda: read(places["hidden"]),
    "masked_inside_of_what_is_shown": lambda: read(places["masked"]),
    "listing_the_repository": lambda: "hidden" in os.listdir(places["top"]) and "listed",
    "listing_the_users_home": lambda: ".secret" in os.listdir(places["home"]) and "listed",
    "seeing_that_a_file_is_there": lambda: os.stat(places["hidden"]).st_size and "seen",
    "kernel_settings": lambda: os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY) and "opened",
}


if __name__ == "__main__":
    got = {}
    wanted = sys.argv[2:]
    for name in wanted:
        child_reads, child_writes = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                said = str((ATTACKS.get(name) or globals()[name])())
            except BaseException as error:
                said = f"! {type(error).__name__}: {error}"
            os.write(child_writes, said.encode()[:4000])
            os._exit(0)
        os.close(child_writes)
        os.waitpid(child, 0)
        got[name] = os.read(child_reads, 4000).decode()
        os.close(child_reads)
    print(json.dumps(got))
