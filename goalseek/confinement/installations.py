"""Where a program is one file of an installation that it needs whole: an interpreter, an environment, a toolchain."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_OF_SHIMS = ("versions", "installs", "plugins", "libexec")
_MARKS = (
    ("pyvenv.cfg", "a virtual environment"),
    ("conda-meta", "a conda environment"),
    ("lib/python[23]*/os.py", "a Python"),
    ("lib64/python[23]*/os.py", "a Python"),
    ("include/node/node.h", "a Node.js"),
    ("lib/node_modules/npm", "a Node.js"),
    ("lib/rustlib", "a Rust toolchain"),
    ("lib/gcc", "a GCC"),
    ("lib/clang", "a Clang"),
    ("lib/ruby/[0-9]*", "a Ruby"),
    ("lib/modules", "a Java"),
    ("pkg/tool", "a Go"),
    ("share/julia", "a Julia"),
    ("share/cmake*/Modules", "a CMake"),
)


@dataclass(frozen=True)
class Installation:
    """A folder that is needed whole, what it is, and further folders that it names."""

    folder: Path
    kind: str
    also: tuple[Path, ...] = ()


def installation(program: Path) -> Installation | None:
    """The installation that a program's path lies in, known by what lies beside it; None for a program alone.

    A home folder is never taken for one: ~/bin and ~/.local/bin hold programs of many.
    """
    parts = program.parts
    if "node_modules" in parts:
        return Installation(Path(*parts[: parts.index("node_modules") + 1]), "packages of Node.js")
    if program.parent.name == "shims":
        root = program.parent.parent
        if not _holds_a_home(root) and any((root / name).is_dir() for name in _OF_SHIMS):
            return Installation(root, "a version manager")
    if program.parent.name not in ("bin", "sbin", "Scripts"):
        return None
    root = program.parent.parent
    if _holds_a_home(root):
        return None
    for mark, kind in _MARKS:
        if next(root.glob(mark), None) is not None:
            if mark == "pyvenv.cfg":
                return Installation(root, kind, _home_of(root / mark))
            return Installation(root, kind, _rustup(program) if kind == "a Rust toolchain" else ())
    if program.parent == root / "bin" and root.name == ".cargo":
        return None if not _rustup(program) else Installation(root / "bin", "proxies of rustup", _rustup(program))
    return None


def _holds_a_home(folder: Path) -> bool:
    home = Path.home()
    return home.is_relative_to(folder) or folder == home / ".local"


def _home_of(settings: Path) -> tuple[Path, ...]:
    """The folder of the interpreter that a virtual environment was made with."""
    for line in settings.read_text("utf-8", "replace").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "home" and value.strip().startswith("/"):
            return (Path(value.strip()),)
    return ()


def _rustup(program: Path) -> tuple[Path, ...]:
    """Where the toolchains behind rustup's proxies are."""
    place = program.parent.parent.parent / ".rustup"
    return (place,) if place.is_dir() else ()
