"""How well this machine keeps a program in its place, found out by doing: a canary that it must not read."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from goalseek import process
from goalseek.errors import UNFIT, GoalseekError
from goalseek.own_folders import add_own
from goalseek.sandbox import bubblewrap, landlock
from goalseek.sandbox.view import Launch, Mount, View

Name = Literal["bubblewrap", "landlock", "none"]
Mode = Literal["auto", "bubblewrap", "landlock", "none"]
NOTHING_ENFORCED = (
    "it can read the repository, hidden files included, by its path",
    "it can write wherever you can",
    "it has the network",
    "it can reach your other programs: their sockets, their memory, their files",
)
_UNTRUE = "the probe could read or write what it must not"
_HINTS = (
    ("kernel/unprivileged_userns_clone", "0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for bwrap",
    ),
    ("user/max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces=10000"),
)
_INSTALL = "install bubblewrap: apt install bubblewrap, dnf install bubblewrap, pacman -S bubblewrap"


@dataclass(frozen=True)
class SandboxLevel:
    """What holds. ``reason`` says why it is not more, a line for each level that was not reached."""

    name: Name
    reason: tuple[str, ...] = ()

    def not_enforced(self, network: bool = False) -> tuple[str, ...]:
        """What a program can do in spite of it, each a clause beginning with "it". ``network`` is the view's."""
        if self.name == "none":
            return NOTHING_ENFORCED
        told = () if self.name == "bubblewrap" else landlock.gaps(landlock.abi())
        if network:
            told += ("it can connect to servers on this machine's own addresses, as it has the network",)
        if self.name == "bubblewrap" and network and not bubblewrap.scopes_abstract_sockets():
            told += ("it can connect to abstract unix sockets, as it has the network",)
        return told

    def launch(self, view: View, arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> Launch:
        """A program made ready at this level; ``folder`` is a place on disk. Without a sandbox, as it is.

        Raises FileNotFoundError, OSError or GoalseekError where its place cannot be made.
        """
        if self.name == "none":
            return Launch(tuple(arguments), dict(environment), folder)
        how = bubblewrap.launch if self.name == "bubblewrap" else landlock.launch
        return how(view, arguments, environment, folder)

    def seen_at(self, view: View, place: Path) -> Path:
        """The path by which a program finds a place on disk that its view shows."""
        return view.seen_at(place) if self.name == "bubblewrap" else place


def probe(mode: Mode = "auto") -> SandboxLevel:
    """The best level that works here, as far as the mode allows; looked for once in a process.

    Raises GoalseekError where the mode names a level that cannot be had, with how to get it.
    """
    if mode == "none":
        return SandboxLevel("none", ('sandbox.mode = "none"',))
    if mode == "bubblewrap":
        failed = _failure("bubblewrap")
        return SandboxLevel("bubblewrap") if failed is None else _refuse("bubblewrap", failed)
    if mode == "landlock":
        failed = _failure("landlock")
        return (
            SandboxLevel("landlock", ('sandbox.mode = "landlock"',)) if failed is None else _refuse("landlock", failed)
        )
    reasons: tuple[str, ...] = ()
    for name in ("bubblewrap", "landlock"):
        failed = _failure(name)
        if failed is None:
            return SandboxLevel(name, reasons)
        reasons += (f"{name}: {failed}",)
    return SandboxLevel("none", reasons)


def how_to_get(name: str, settings: Path = Path("/proc/sys")) -> str:
    """What would make a level work on this machine; ``settings`` is where the kernel shows its own."""
    if name == "landlock":
        return "Landlock needs Linux 5.13 or newer, with landlock in the kernel's list of security modules (lsm=)"
    found = [hint for place, value, hint in _HINTS if _setting(settings / place) == value]
    if bubblewrap.program() is None:
        found.insert(0, _INSTALL)
    if any(Path(place).exists() for place in ("/.dockerenv", "/run/.containerenv")):
        found.append(
            "in a container: start it with --security-opt seccomp=unconfined --security-opt systempaths=unconfined"
        )
    return "; ".join(found) or "allow user namespaces to your account, or run goalseek in a virtual machine"


@functools.cache
def _failure(name: Literal["bubblewrap", "landlock"]) -> str | None:
    """Why a level does not hold here; None where it does."""
    how: Callable[..., Launch] = bubblewrap.launch if name == "bubblewrap" else landlock.launch
    with tempfile.TemporaryDirectory(prefix="goalseek-") as made:
        folder = Path(made).resolve()
        add_own(folder)
        for inner in ("tree", "home", "tmp"):
            (folder / inner).mkdir()
        canary, allowed = folder / "canary", folder / "tree" / "allowed"
        canary.write_text("secret\n")
        allowed.write_text("open\n")
        view = View(
            Mount.in_place(folder / "tree", writable=True),
            Mount(folder / "home", Path("/home/goalseek"), writable=True),
            Mount(folder / "tmp", Path("/tmp"), writable=True),
        )
        script = 'cat allowed; cat "$1"; echo changed >> "$1"; echo written > written'
        words = ["sh", "-c", script, "sh", str(canary)]
        try:
            ready = landlock.standalone_command(how(view, words, {"PATH": os.defpath}, folder / "tree"))
            answer = process.run(ready.arguments, ready.environment, folder=ready.folder)
        except FileNotFoundError as error:
            return f"there is no program {error.filename or error}"
        except OSError as error:
            return str(error)
        if canary.read_text() != "secret\n" or b"secret" in answer.stdout:
            return _UNTRUE
        if answer.stdout != b"open\n" or not (folder / "tree" / "written").exists():
            said = answer.stderr.decode("utf-8", "replace").strip().splitlines()
            return said[0] if said else f"the probe ended with {answer.exit_code}"
    return None


def _refuse(name: Name, failed: str) -> SandboxLevel:
    raise GoalseekError(f'sandbox.mode = "{name}" cannot be had here: {failed}', how_to_get(name), UNFIT, "sandbox")


def _setting(place: Path) -> str:
    try:
        return place.read_text().strip()
    except OSError:
        return ""
