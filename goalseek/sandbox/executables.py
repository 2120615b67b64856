"""The files that a command line's programs need beside the system's: links, interpreters and their installations."""

import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from goalseek.manifest.command_words import Word, parse_command
from goalseek.sandbox.view import is_system_path

COMMON_PROGRAMS = ("sh", "bash", "env", "python3", "python", "node", "git")  # scripts in the tree call these
_SHEBANG_LIMIT = 512
_DEPTH_LIMIT = 8


def required_paths(
    commands: Iterable[str | Sequence[str]], environment: Mapping[str, str], folder: Path
) -> dict[Path, str]:
    """Maps paths outside the system's folders, to be shown read-only, to the reasons; starts nothing.

    A path counts if it is run, as a program or an interpreter's script; a program's bare name counts anywhere, and so
    do ``COMMON_PROGRAMS``. ``folder`` is in the user's checkout: no candidate's shebang may decide what is shown.
    """
    path = environment.get("PATH", os.defpath)
    required: dict[Path, str] = {}

    def find(word: str) -> Path | None:
        program = which(word, path, folder)
        if program is not None or "\0" in word:
            return program
        file = Path(os.path.normpath(folder / word))
        return file if os.path.isfile(file) else None

    def add_program(program: Path, name: str, depth: int = 0) -> None:
        """Adds each of its paths or their installations, and what its first line names."""
        if depth > _DEPTH_LIMIT:
            return
        chain = resolve_links(program)
        for program_path in chain.names:
            install = installation(program_path)
            if install is None:
                required.setdefault(program_path, f"{name}: the program")
                continue
            required.setdefault(install.folder, f"{name}: {install.kind}")
            for named_folder in install.also:
                if named_folder in required or not os.path.exists(named_folder):
                    continue
                required[named_folder] = f"{name}: {install.kind} names it"
                for interpreter in (named_folder / "python3", named_folder / "python"):
                    if os.path.exists(interpreter):
                        add_program(interpreter, name, depth + 1)
        for word in os.fsdecode(first_line(chain.real)).split():
            named = None if word.startswith("-") or "=" in word else which(word, path, folder)
            if named is not None and named not in required:
                add_program(named, f"{name}: {named.name}", depth + 1)

    words = [word for command in commands for word in parse_command(command).words(find)]
    for word in dict.fromkeys((*words, *map(Word, COMMON_PROGRAMS))):
        program = find(word.text) if word.is_run or "/" not in word.text else None
        if program is not None:
            add_program(program, word.text)
    for name in ("LD_LIBRARY_PATH", "PYTHONPATH"):
        for entry in filter(None, environment.get(name, "").split(os.pathsep)):
            if os.path.isabs(entry) and os.path.isdir(entry):
                required.setdefault(Path(entry), f"it is in {name}")
    unseen = {}
    for needed, why in required.items():
        chain = resolve_links(needed)
        if not all(map(is_system_path, (chain.real, *(link for link, _ in chain.links)))):
            unseen[needed] = why
    return {needed: unseen[needed] for needed in sorted(unseen) if unseen.keys().isdisjoint(needed.parents)}


def as_manifest_line(paths: Iterable[Path]) -> str:
    quoted = ", ".join('"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"' for path in paths)
    return f"sandbox.read = [{quoted}]"


def which(word: str, path: str, folder: Path) -> Path | None:
    """A word with a slash is relative to ``folder``, any other one is looked up on ``path``."""
    entries = os.pathsep.join(filter(os.path.isabs, path.split(os.pathsep)))
    found = None if "\0" in word else shutil.which(str(folder / word) if "/" in word else word, path=entries)
    return Path(os.path.abspath(found)) if found else None


def first_line(program: Path) -> bytes:
    """A script's interpreter line without "#!"; empty for any other program."""
    try:
        with program.open("rb") as file:
            first = file.read(_SHEBANG_LIMIT)
    except OSError:
        return b""
    return first[2:].split(b"\n")[0] if first.startswith(b"#!") else b""


def missing_script(
    commands: Iterable[str | Sequence[str]], folder: Path, cwd: str, is_there: Callable[[str], bool]
) -> str:
    """The first script that a command runs by a relative path in the checkout, and that is not there; or ""."""
    path = os.environ.get("PATH", os.defpath)

    def is_file(word: str) -> bool:
        return os.path.isfile(folder / cwd / word)

    for command in commands:
        for word in parse_command(command).words(lambda text: is_file(text) or which(text, path, folder / cwd)):
            script = os.path.normpath(os.path.join(cwd, word.text))
            is_program = not isinstance(command, str) and word.text == command[0]
            is_below = not is_program and not script.startswith(("/", ".."))
            if word.is_run and is_below and is_file(word.text) and not is_there(script):
                return script
    return ""


_SHIM_FOLDERS = ("versions", "installs", "plugins", "libexec")
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


class Installation(Struct, frozen=True):
    """``folder`` is needed as a whole; ``also`` are folders that it refers to."""

    folder: Path
    kind: str
    also: tuple[Path, ...] = ()


def installation(program: Path) -> Installation | None:
    """Known by the files beside the program; None for a program alone."""
    parts, root, home = program.parts, program.parent.parent, Path.home()
    if "node_modules" in parts:
        return Installation(Path(*parts[: parts.index("node_modules") + 1]), "packages of Node.js")
    if home.is_relative_to(root) or root == home / ".local":  # ~/bin and ~/.local/bin hold programs of many
        return None
    if program.parent.name == "shims" and any((root / name).is_dir() for name in _SHIM_FOLDERS):
        return Installation(root, "a version manager")
    if program.parent.name not in ("bin", "sbin", "Scripts"):
        return None
    rustup = root.parent / ".rustup"
    toolchains = (rustup,) if rustup.is_dir() else ()
    for mark, kind in _MARKS:
        if next(root.glob(mark), None) is None:
            continue
        also = toolchains if mark == "lib/rustlib" else ()
        if mark == "pyvenv.cfg" and (settings := root / mark).is_file():
            text = settings.read_text("utf-8", "replace")
            made_with = re.search(r"^[ \t]*home[ \t]*=[ \t]*(/.*?)[ \t]*$", text, re.MULTILINE)
            also = (Path(made_with[1]),) if made_with else ()  # the folder of the interpreter
        return Installation(root, kind, also)
    if program.parent.name == "bin" and root.name == ".cargo" and toolchains:
        return Installation(program.parent, "proxies of rustup", toolchains)
    return None


_LINK_LIMIT = 40


class LinkChain(Struct, frozen=True):
    """Links as (path, target); ``names`` are the whole path as it reads before and after each."""

    links: tuple[tuple[Path, str], ...]
    names: tuple[Path, ...]
    real: Path


def resolve_links(path: Path) -> LinkChain:
    """Follows an absolute path link by link; ``real`` need not exist. Raises OSError for a loop."""
    links: list[tuple[Path, str]] = []
    names = [path]
    at, parts = "", [part for part in str(path).split("/") if part not in ("", ".")]
    while parts:
        part = parts.pop(0)
        if part == "..":
            at = at.rpartition("/")[0]
            continue
        link = f"{at}/{part}"
        try:
            target = os.readlink(link)
        except OSError:
            at = link
            continue
        if len(links) == _LINK_LIMIT:
            raise OSError(f"too many links on the way to {path}")
        links.append((Path(link), target))
        if target.startswith("/"):
            at = ""
        parts = [name for name in target.split("/") if name not in ("", ".")] + parts
        names.append(Path(os.path.normpath("/".join((at, *parts)) or "/")))
    real = Path(at or "/")
    return LinkChain(tuple(dict.fromkeys(links)), tuple(dict.fromkeys((*names, real))), real)
