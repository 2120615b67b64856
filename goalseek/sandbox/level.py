"""The sandbox level that works on this machine: tried once by a program that must not read a canary file."""

import functools
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from goalseek import process
from goalseek.disk import add_own
from goalseek.errors import GoalseekError
from goalseek.sandbox import bubblewrap, landlock, landlock_exec
from goalseek.sandbox.executables import resolve_links
from goalseek.sandbox.supervisor import Supervisor
from goalseek.sandbox.view import Launch, Mount, View, read_setting
from goalseek.values import StopReason

Name = Literal["bubblewrap", "landlock", "none"]
Mode = Literal["auto", "bubblewrap", "landlock", "none"]
NOTHING_ENFORCED = (
    "it can read the repository, hidden files included, by its path",
    "it can write wherever you can",
    "it has the network",
    "it can reach your other programs: their sockets, their memory, their files",
)
_LAUNCHERS = {"bubblewrap": bubblewrap.launch_in_bubblewrap, "landlock": landlock.launch_under_landlock}
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


class SandboxLevel(Struct, frozen=True):
    """A level that works; ``reason`` has the failure of each better one."""

    name: Name
    reason: tuple[str, ...] = ()

    def not_enforced(self, network: bool = False) -> tuple[str, ...]:
        """What a program can still do, each a clause beginning with "it"."""
        if self.name == "none":
            return NOTHING_ENFORCED
        clauses: tuple[str, ...] = ()
        if self.name == "landlock":
            clauses = landlock.gaps(landlock.abi(), landlock_exec.can_refuse_sharing())
        if network:
            clauses += (
                "it can connect to servers on this machine's own addresses, as it has the network "
                "(agent_network = false takes it from an agent)",
            )
        if self.name == "bubblewrap" and network and not bubblewrap.scopes_abstract_sockets():
            clauses += ("it can connect to abstract unix sockets, as it has the network",)
        return clauses

    def launch(self, view: View, arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> Launch:
        """Not for "none". Raises OSError if the sandbox fails, GoalseekError if a shown path is missing or masked."""
        _refuse_masked(view)
        return _LAUNCHERS[self.name](view, arguments, environment, folder)


@functools.lru_cache(maxsize=64)
def _refuse_masked(view: View) -> None:
    masked = {resolve_links(path).real: path for path in view.masked}
    for shown in view.everything():
        if not shown.source.exists():
            message = f"sandbox: there is no {shown.source}"
            raise GoalseekError(message, "make it, or take it out", StopReason.SANDBOX)
        if hidden := masked.get(resolve_links(shown.source).real):
            message = f"sandbox: {shown.at} would show {hidden}, which programs must not see"
            raise GoalseekError(message, "take it out of sandbox.read and scope.share", StopReason.SANDBOX)


def probe(mode: Mode = "auto") -> SandboxLevel:
    """The best level that works, tried once in a process. Raises GoalseekError if the mode's own level does not."""
    if mode == "none":
        return SandboxLevel("none", ('sandbox.mode = "none"',))
    reasons: tuple[str, ...] = ('sandbox.mode = "landlock"',) if mode == "landlock" else ()
    for name in ("bubblewrap", "landlock"):
        if mode not in ("auto", name):
            continue
        failure = _failure(name)
        if failure is None:
            return SandboxLevel(name, reasons)
        if mode == name:
            message = f'sandbox.mode = "{name}" is not available here: {failure}'
            raise GoalseekError(message, installation_hint(name), StopReason.SANDBOX)
        reasons += (f"{name}: {failure}",)
    return SandboxLevel("none", reasons)


def installation_hint(name: str, settings: Path = Path("/proc/sys")) -> str:
    if name == "landlock":
        return "Landlock needs Linux 5.13 or newer, with landlock in the kernel's list of security modules (lsm=)"
    hints = [hint for path, value, hint in _HINTS if read_setting(settings / path) == value]
    if bubblewrap.find_bubblewrap() is None:
        hints.insert(0, _INSTALL)
    if any(Path(path).exists() for path in ("/.dockerenv", "/run/.containerenv")):
        hints.append(
            "in a container: start it with --security-opt seccomp=unconfined --security-opt systempaths=unconfined"
        )
    return "; ".join(hints) or "allow user namespaces to your account, or run goalseek in a virtual machine"


@functools.cache
def _failure(name: Literal["bubblewrap", "landlock"]) -> str | None:
    """Why a level does not work here; None if it does."""
    with tempfile.TemporaryDirectory(prefix="goalseek-") as temporary:
        folder = Path(temporary).resolve()
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
        command = ["sh", "-c", script, "sh", str(canary)]
        try:
            launch = _LAUNCHERS[name](view, command, {"PATH": os.defpath}, folder / "tree")
            if name == "bubblewrap":  # it ends its own programs; starting a reaper takes 0.1 s
                done = process.run(launch.arguments, launch.environment, folder=launch.folder)
                stdout, stderr, code = done.stdout, done.stderr, done.returncode
            else:
                with Supervisor(f"probe-{os.getpid()}") as programs:
                    result = programs.run(launch)
                stdout, stderr, code = result.stdout, result.stderr, result.exit_code or 0
        except FileNotFoundError as error:
            return f"there is no program {error.filename or error}"
        except OSError as error:
            return str(error)
        if canary.read_text() != "secret\n" or b"secret" in stdout:
            return _UNTRUE
        if stdout != b"open\n" or not (folder / "tree" / "written").exists():
            lines = stderr.decode("utf-8", "replace").strip().splitlines()
            return lines[0] if lines else f"the probe ended with {code}"
    return None
