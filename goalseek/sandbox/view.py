"""The view of a program: the files, devices and network that it may use, independent of the sandbox level."""

from __future__ import annotations

import functools
import glob
import os
from pathlib import Path
from typing import Literal

from msgspec import Struct

from goalseek.disk import recreate_folder
from goalseek.git.paths import first_overlap

Terminal = Literal["", "person's", "own"]
SPARE_HOME = Path("/home/goalseek")


class Mount(Struct, frozen=True):
    """Absolute paths; ``at`` is where a level that can mount shows ``source``."""

    source: Path
    at: Path
    writable: bool = False

    @classmethod
    def in_place(cls, path: Path, writable: bool = False) -> Mount:
        return cls(path, path, writable)


class View(Struct, frozen=True, eq=False):
    """All that a program may see beside the system's own programs and libraries; never a unix socket.

    ``home`` and ``temporary`` (seen as /tmp) are throw-away folders; in ``copies``, if given, a level keeps copies of
    the system's settings. A ``masked`` path is not seen inside a shown one either, but for paths in it that ``shown``
    lists. ``terminal`` is for interactive use, in a person's terminal or in one of its own. What a launch takes from
    the view alone is worked out once for each.
    """

    tree: Mount
    home: Mount
    temporary: Mount
    shown: tuple[Mount, ...] = ()
    masked: tuple[Path, ...] = ()
    devices: tuple[Path, ...] = ()
    network: bool = False
    terminal: Terminal = ""
    copies: Path | None = None

    def everything(self) -> tuple[Mount, ...]:
        """Of two at the same path, the later one counts."""
        return (self.home, self.temporary, self.tree, *self.shown)


def throw_away_home(folder: Path, top: Path) -> Mount:
    """At HOME, where shown files keep their paths; at ``SPARE_HOME`` if HOME is /, the system's or in ``top``."""
    home = Path.home()
    is_own = len(home.parts) > 1 and not home.is_relative_to(top)
    is_systems = first_overlap(str(home), map(str, system_folders()))
    return Mount(folder, home if is_own and not is_systems else SPARE_HOME, writable=True)


_ROOTS = "/usr /bin /sbin /lib /lib32 /lib64 /libx32 /opt /nix/store /gnu/store /run/current-system".split()
_ETC_FILES = """
    passwd group alternatives
    ssl/certs ssl/cert.pem ssl/openssl.cnf pki/tls/certs pki/tls/cert.pem pki/tls/openssl.cnf pki/ca-trust
    crypto-policies static/ssl/certs
    ld.so.cache ld.so.conf ld.so.conf.d nsswitch.conf hosts protocols services
    localtime timezone locale.alias locale.conf os-release mime.types terminfo fonts
    python[23]* perl java* R julia texmf ImageMagick-* OpenCL vulkan glvnd
""".split()
_ETC_NETWORK_FILES = ("resolv.conf", "gai.conf", "host.conf")
_HARDWARE = Path("/sys/devices/system")


@functools.cache
def system_folders() -> tuple[Path, ...]:
    """Those that exist; links among them are not resolved."""
    return tuple(path for path in map(Path, _ROOTS) if path.exists())


@functools.cache
def system_paths(network: bool) -> tuple[Path, ...]:
    """Readable by every program; with the dynamic loader's folders, without /proc and /dev. Links are not resolved."""
    patterns = [*_ETC_FILES, *(_ETC_NETWORK_FILES if network else ())]
    paths = [Path(name) for pattern in patterns for name in sorted(glob.glob(f"/etc/{pattern}"))]
    paths.append(_HARDWARE)
    system = [folder.resolve() for folder in system_folders()]
    for name in ("/etc/ld.so.conf", *sorted(glob.glob("/etc/ld.so.conf.d/*.conf"))):
        lines = read_setting(Path(name)).splitlines()
        libraries = [Path(line.strip()) for line in lines if line.startswith("/")]
        paths += [path for path in libraries if not any(map(path.resolve().is_relative_to, system))]
    return (*system_folders(), *(path for path in paths if path.exists()))


def read_setting(path: Path) -> str:
    """Gives "" if the file cannot be read."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def is_system_path(path: Path) -> bool:
    """Whether every program may read the path, even without the network."""
    return any(path.is_relative_to(folder) for folder in _paths_and_targets())


@functools.cache
def _paths_and_targets() -> frozenset[Path]:
    return frozenset(name for path in system_paths(False) for name in (path, path.resolve()))


def build_view(tree: Path, top: Path, scratch: Path, home: Path | None = None) -> View:
    """The least view: ``tree``, on disk, is seen at ``top``; ``tmp`` and a ``home`` that is not given are made anew.

    The repository is masked, and so is the user's HOME if it lies in a system folder that everybody may read.
    """
    temporary = scratch / "tmp"
    recreate_folder(temporary)
    if home is None:
        home = scratch / "home"
        recreate_folder(home)
    home_mount, users_home = throw_away_home(home, top), Path.home()
    is_inside_system = home_mount.at != users_home and len(users_home.parts) > 1 and not top.is_relative_to(users_home)
    return View(
        tree=Mount(tree, top, writable=True),
        home=home_mount,
        temporary=Mount(temporary, Path("/tmp"), writable=True),
        masked=(top, users_home) if is_inside_system else (top,),
        copies=scratch,
    )


class Launch(Struct, frozen=True):
    """``is_cage``: the first process contains all others, and its end is theirs at once, so do not signal it first.

    ``restriction`` are options of ``landlock_exec``. ``watches_cpu`` samples the processor time of all descendants, so
    that one that nobody waits for is counted too.
    """

    arguments: tuple[str, ...]
    environment: dict[str, str]
    folder: Path
    is_cage: bool = False
    restriction: tuple[str, ...] = ()
    watches_cpu: bool = False


def needs_owner_capabilities(view: View) -> bool:
    """Whether root could not use a shown path of another user without its capabilities."""
    if os.geteuid() != 0:
        return False
    statuses = [(os.stat(shown.source), shown.writable) for shown in view.everything()]
    return any(status.st_uid != 0 and (is_used or status.st_mode & 0o005 != 0o005) for status, is_used in statuses)
