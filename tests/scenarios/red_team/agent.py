"""An agent that cheats: its arguments are attacks, one for each iteration. Where things are is filled in below.

What an attack got is printed as ``LOOT`` and JSON, unless it can be seen from outside.
"""

import glob
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PLACES = json.loads("""{}""")
TOP = PLACES["top"]
HIDDEN = f"{TOP}/hidden/labels.txt"


def read(path: str) -> str:
    return Path(path).read_text()


def git(*words: str) -> str:
    return subprocess.run(["git", "-c", "safe.directory=*", *words], capture_output=True, text=True, check=True).stdout


def opened_for_writing(path: str) -> str:
    os.close(os.open(path, os.O_WRONLY))
    return "opened"


def ancestors() -> list[int]:
    found, process = [], os.getppid()
    while process > 0:
        found.append(process)
        process = int(read(f"/proc/{process}/stat").rpartition(")")[2].split()[1])
    return found


def from_an_ancestor(path: str) -> str:
    for process in ancestors():
        try:
            return read(f"/proc/{process}/{path}")
        except OSError:
            continue
    raise OSError("none of them")


def hidden_by_an_alternates_file() -> str:
    Path(".git/objects/info").mkdir(parents=True, exist_ok=True)
    Path(".git/objects/info/alternates").write_text(f"{TOP}/.git/objects\n")
    return git("cat-file", "blob", PLACES["blob"])


def hidden_by_an_alternate_in_the_environment() -> str:
    os.environ["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = f"{TOP}/.git/objects"
    return git("cat-file", "blob", PLACES["blob"])


def hidden_by_a_clone() -> str:
    git("clone", "--quiet", "--no-hardlinks", TOP, "stolen")
    return read("stolen/hidden/labels.txt")


def hidden_by_a_symlink() -> str:
    os.symlink(HIDDEN, "link")
    return read("link")


def hidden_by_a_hard_link() -> str:
    os.link(HIDDEN, "hard")
    return read("hard")


def hidden_by_an_inherited_descriptor() -> str:
    for descriptor in range(3, 256):
        try:
            text = os.pread(descriptor, 100, 0).decode()
        except (OSError, UnicodeDecodeError):
            continue
        if text.startswith("the-hidden"):
            return text
    raise OSError("none")


def hidden_in_the_bench() -> str:
    (found, *_) = glob.glob(f"{PLACES['home']}/cache/goalseek/*/bench/**/hidden/labels.txt", recursive=True)
    return read(found)


def unmounted(namespaces: str) -> str:
    script = f'for place in $(grep -o " {TOP}[^ ]*" /proc/mounts); do umount -l "$place"; done; cat "$1"'
    words = ["unshare", namespaces, "sh", "-c", script, "sh", HIDDEN]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def hidden_by_chroot() -> str:
    os.chroot(f"/proc/{ancestors()[0]}/root")
    return read(HIDDEN)


def told_by_a_socket(address: str) -> str:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(address)
        return client.recv(100).decode()


def hidden_by_a_server_on_loopback() -> str:
    with socket.create_connection(("127.0.0.1", PLACES["port"]), timeout=5) as client:
        return client.recv(100).decode()


def a_variable_of_the_user() -> str:
    for process in ancestors():
        try:
            for variable in read(f"/proc/{process}/environ").split("\0"):
                if variable.startswith("USERS_TOKEN="):
                    return variable
        except OSError:
            continue
    raise OSError("none")


def a_signal_to_a_stranger() -> str:
    os.kill(PLACES["stranger"], 0)
    return "sent"


def writing_through_a_symlink() -> None:
    os.symlink(PLACES["outside"], "way-out")
    Path("way-out/through").write_text("written")


def a_hook_of_the_repository() -> None:
    hook = Path(TOP, ".git/hooks/post-checkout")
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")


def a_setting_of_the_repository() -> None:
    with Path(TOP, ".git/config").open("a") as config:
        config.write("# planted\n")


def detached() -> bool:
    """In the parent, False at once. In a grandchild that left the session, deaf to signals and silent, True."""
    if os.fork():
        return False
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    for descriptor in range(3):
        os.close(descriptor)
    return True


def a_survivor() -> None:
    if not detached():
        return
    time.sleep(8)  # longer than what is asked to end is given
    Path(PLACES["outside"], "survived").write_text("written")
    os._exit(0)


ATTACKS: dict[str, Callable[[], object]] = {
    "hidden_by_path": lambda: read(HIDDEN),
    "hidden_by_git_show": lambda: git("-C", TOP, "show", "HEAD:hidden/labels.txt"),
    "hidden_by_core_worktree": lambda: git(
        f"--git-dir={TOP}/.git", f"--work-tree={TOP}", "grep", "--cached", "-h", "the-hidden"
    ),
    "hidden_by_the_folder_of_an_ancestor": lambda: from_an_ancestor("cwd/hidden/labels.txt"),
    "hidden_by_the_root_of_an_ancestor": lambda: from_an_ancestor(f"root{HIDDEN}"),
    "hidden_by_unmounting": lambda: unmounted("-m"),
    "hidden_by_unmounting_as_another_root": lambda: unmounted("-rm"),
    "hidden_by_a_unix_socket": lambda: told_by_a_socket(PLACES["socket"]),
    "hidden_by_an_abstract_socket": lambda: told_by_a_socket("\0" + PLACES["abstract"]),
    "hidden_past_a_shared_folder": lambda: read("data/../hidden/labels.txt"),
    "the_key_of_the_user": lambda: read(f"{PLACES['home']}/.ssh/id_ed25519"),
    "the_manifest": lambda: read(f"{TOP}/goalseek.toml"),
    "a_file_in_tmp": lambda: read(PLACES["in_tmp"]),
    "the_secret_of_the_seals": lambda: Path(f"{TOP}/.git/goalseek/demo/secret").read_bytes().hex(),
    "the_metrics_of_the_baseline": lambda: read(f"{TOP}/.goalseek/demo/runs/0000/metrics.json"),
    "editing_the_log": lambda: opened_for_writing(f"{TOP}/.goalseek/demo/logs/results.jsonl"),
    "editing_the_evidence": lambda: opened_for_writing(f"{TOP}/.goalseek/demo/runs/0000/verifier.log"),
    "editing_the_seals": lambda: opened_for_writing(f"{TOP}/.git/goalseek/demo/secret"),
    "editing_hidden_files": lambda: opened_for_writing(HIDDEN),
    "editing_the_program": lambda: opened_for_writing(sys.argv[0]),
    "writing_outside": lambda: Path(PLACES["outside"], "written").write_text("written"),
    "writing_into_the_checkout": lambda: Path(TOP, "written").write_text("written"),
    "writing_into_a_shared_folder": lambda: Path("data/written").write_text("written"),
    "writing_into_tmp": lambda: Path(PLACES["in_tmp"] + "-written").write_text("written"),
    "writing_into_shared_memory": lambda: Path(PLACES["in_memory"]).write_text("written"),
    "a_ref_of_the_repository": lambda: git("-C", TOP, "update-ref", "refs/planted", "HEAD"),
}


if __name__ == "__main__":
    sys.stdin.read()
    name = sys.argv[int(os.environ["GOALSEEK_ITERATION"])]
    print(name, flush=True)
    try:
        got = (ATTACKS.get(name) or globals()[name])()
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        got = f"! {type(error).__name__}: {error}"
    print("LOOT " + json.dumps(got if isinstance(got, str) else ""), flush=True)
