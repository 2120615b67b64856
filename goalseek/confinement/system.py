"""What every program may read of the system it runs on: programs, libraries, and settings that hold no secret."""

from __future__ import annotations

import functools
import glob
from pathlib import Path

ROOTS = tuple(
    map(Path, "/usr /bin /sbin /lib /lib32 /lib64 /libx32 /opt /nix/store /gnu/store /run/current-system".split())
)
_SETTINGS = """
    passwd group alternatives
    ssl/certs ssl/cert.pem ssl/openssl.cnf pki/tls/certs pki/tls/cert.pem pki/tls/openssl.cnf pki/ca-trust
    crypto-policies static/ssl/certs
    ld.so.cache ld.so.conf ld.so.conf.d nsswitch.conf hosts protocols services
    localtime timezone locale.alias locale.conf os-release mime.types terminfo fonts
    python[23]* perl java* R julia texmf ImageMagick-* OpenCL vulkan glvnd
""".split()
_NETWORK = ("resolv.conf", "gai.conf", "host.conf")
_HARDWARE = ("/sys/devices/system",)
_GRAPHICS = ("nvidia*", "dri", "kfd", "dxg", "accel")


@functools.cache
def roots() -> tuple[Path, ...]:
    """The system's own folders that are there; links among them as they are."""
    return tuple(path for path in ROOTS if path.exists())


@functools.cache
def readable(network: bool) -> tuple[Path, ...]:
    """Files and folders that every program may read, as they are named; /proc and /dev are apart."""
    patterns = [*_SETTINGS, *(_NETWORK if network else ())]
    settings = [Path(name) for pattern in patterns for name in sorted(glob.glob(f"/etc/{pattern}"))]
    hardware = [Path(name) for name in _HARDWARE]
    return (*roots(), *(path for path in (*settings, *hardware, *_library_folders()) if path.exists()))


def is_systems(place: Path) -> bool:
    """Whether a path lies in what every program may read, the network's settings aside."""
    return any(place.is_relative_to(path) for path in _by_every_name())


@functools.cache
def _by_every_name() -> frozenset[Path]:
    return frozenset(name for path in readable(False) for name in (path, path.resolve()))


def graphics_devices() -> tuple[Path, ...]:
    """The graphics cards of this machine, as device files or folders of them."""
    return tuple(Path(name) for pattern in _GRAPHICS for name in sorted(glob.glob(f"/dev/{pattern}")))


def _library_folders() -> list[Path]:
    """Folders that the dynamic loader was told of and that lie elsewhere."""
    found = []
    for name in ("/etc/ld.so.conf", *sorted(glob.glob("/etc/ld.so.conf.d/*.conf"))):
        try:
            lines = Path(name).read_text("utf-8", "replace").splitlines()
        except OSError:
            continue
        folders = [Path(line.strip()) for line in lines if line.startswith("/")]
        found += [path for path in folders if not any(path.resolve().is_relative_to(r.resolve()) for r in roots())]
    return found
