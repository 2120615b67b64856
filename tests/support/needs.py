"""What tests need beyond Python and git, whether this machine has it, and the Debian package that brings it.

As a program it prints the packages that are missing here. It needs nothing beyond Python itself.
"""

import ctypes
import functools
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable

PACKAGES = {name: name for name in "ccache chromium cmake fish hyperfine openssl strace valgrind zsh".split()}
PACKAGES |= {"bwrap": "bubblewrap", "c++": "g++", "cc": "gcc", "ninja": "ninja-build", "sshd": "openssh-server"}
PACKAGES |= {"gpg": "gnupg", "ssh-keygen": "openssh-client"}
OTHER_NAMES = {"chromium": "google-chrome", "sshd": "/usr/sbin/sshd"}  # which the PATH of a user may lack
AS_ROOT = () if os.geteuid() == 0 else ("sudo", "-n")


def program(name: str) -> str | None:
    """Where a program is, under its other name too."""
    return shutil.which(name) or shutil.which(OTHER_NAMES.get(name, name))


@functools.cache
def why_missing(need: str) -> str | None:
    """Why this machine does not have what is needed, or None where it does."""
    if need in _PROBES:
        return _PROBES[need]()
    return None if program(need) else f"there is no {need}"


def install_line(needs: Iterable[str]) -> str:
    """The one line that installs what is needed, or nothing where no package brings it."""
    packages = sorted(PACKAGES[need] for need in needs if need in PACKAGES and not program(need))
    return f"apt-get install {' '.join(packages)}" if packages else ""


def _probe_bwrap() -> str | None:
    if not program("bwrap"):
        return "there is no bwrap"
    words = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    return f"bwrap does not work here: {done.stderr.strip()}" if done.returncode else None


def _probe_landlock() -> str | None:
    create_ruleset, ask_version = 444, 1
    version = ctypes.CDLL(None).syscall(create_ruleset, None, 0, ask_version)
    return None if version > 0 else "the kernel has no Landlock"


def _probe_dask_jobqueue() -> str | None:
    return None if importlib.util.find_spec("dask_jobqueue") else "dask_jobqueue is not installed: pip has it"


def _probe_root() -> str | None:
    return None if os.geteuid() == 0 else "only root can do this"


def _probe_mount() -> str | None:
    if os.geteuid() != 0 and "CI" not in os.environ:  # there nobody minds a sudo
        return "only root may mount"
    done = subprocess.run([*AS_ROOT, "unshare", "--mount", "true"], capture_output=True, text=True, timeout=60)
    return f"root may not mount here: {done.stderr.strip()}" if done.returncode else None


_PROBES: dict[str, Callable[[], str | None]] = {
    "bwrap": _probe_bwrap,
    "landlock": _probe_landlock,
    "dask_jobqueue": _probe_dask_jobqueue,
    "root": _probe_root,
    "mount": _probe_mount,
}

if __name__ == "__main__":
    print(*(package for need, package in PACKAGES.items() if not program(need)))
