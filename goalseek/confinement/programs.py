"""What the programs of a command line need beside the system: each hop of a link, interpreters, their installations."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalseek.confinement.command_words import Word, words_of
from goalseek.confinement.installations import installation
from goalseek.confinement.links import way_to
from goalseek.confinement.system import is_systems

USUAL = ("sh", "bash", "env", "python3", "python", "node", "git")
_SHEBANG_MOST = 512
_DEPTH_MOST = 8


@dataclass(frozen=True)
class Need:
    """A path to show read-only, and why."""

    path: Path
    why: str


def needs(
    commands: Iterable[str | Sequence[str]], environment: Mapping[str, str], folder: Path, inside: Path
) -> tuple[Need, ...]:
    """What commands need to be shown beside the system's own folders and what is in ``inside`` anyway.

    A string is one for ``sh -c``. A path counts where it is run, as a program or as the script of an interpreter; the
    bare name of a program counts wherever it stands, and ``USUAL`` are looked for with them, as scripts in the tree
    call those. A file that is only mentioned is not shown: that, and what a program opens by itself, is for
    ``sandbox.read``. ``folder`` is where the commands would run in the user's own checkout, never in a candidate's
    tree: the first line of a script says what is shown. Nothing is started.
    """
    found: dict[Path, Need] = {}
    path = environment.get("PATH", os.defpath)

    def named(word: str) -> Path | None:
        return which(word, path, folder) or _script(word, folder)

    words = [word for command in commands for word in words_of(command, lambda text: named(text) is not None)]
    for word in dict.fromkeys((*words, *(Word(name, False) for name in USUAL))):
        place = named(word.text) if word.is_run or "/" not in word.text else None
        if place is not None:
            _follow(place, word.text, path, folder, found)
    for name in ("LD_LIBRARY_PATH", "PYTHONPATH"):
        for entry in filter(None, environment.get(name, "").split(os.pathsep)):
            if os.path.isabs(entry) and os.path.isdir(entry):
                found.setdefault(Path(entry), Need(Path(entry), f"it is in {name}"))
    top = way_to(inside).real
    wanted = {place: need for place, need in found.items() if not _is_seen(place, top)}
    outermost = [place for place in wanted if not any(outer in wanted for outer in place.parents)]
    return tuple(wanted[place] for place in sorted(outermost))


def to_paste(paths: Iterable[Path]) -> str:
    """Additions to the manifest as one line."""
    quoted = ", ".join('"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"' for path in paths)
    return f"sandbox.read = [{quoted}]"


def which(word: str, path: str, folder: Path) -> Path | None:
    """The program that a word names: by a path from ``folder``, or the first such on ``path``; None for no program."""
    if not word or "\0" in word:
        return None
    places = [folder / word] if "/" in word else [Path(entry, word) for entry in path.split(os.pathsep) if entry]
    for place in places:
        if os.path.isabs(place) and os.path.isfile(place) and os.access(place, os.X_OK):
            return Path(os.path.abspath(place))
    return None


def _script(word: str, folder: Path) -> Path | None:
    """A file that an interpreter is to read; in the tree itself, it need not be named."""
    if "\0" in word:
        return None
    place = Path(os.path.normpath(folder / word))
    return place if os.path.isfile(place) else None


def _follow(place: Path, name: str, path: str, folder: Path, found: dict[Path, Need], depth: int = 0) -> None:
    """Adds a program under every name it goes by, their installations, and what its first line names."""
    if depth > _DEPTH_MOST:
        return
    way = way_to(place)
    for named in way.names:
        whole = installation(named)
        if whole is None:
            found.setdefault(named, Need(named, f"{name}: the program"))
            continue
        found.setdefault(whole.folder, Need(whole.folder, f"{name}: {whole.kind}"))
        for more in whole.also:
            if more in found or not os.path.exists(more):
                continue
            found[more] = Need(more, f"{name}: {whole.kind} names it")
            for interpreter in (more / "python3", more / "python"):
                if os.path.exists(interpreter):
                    _follow(interpreter, name, path, folder, found, depth + 1)
    for word in _shebang(way.real):
        interpreter_place = which(word, path, folder)
        if interpreter_place is not None and interpreter_place not in found:
            _follow(interpreter_place, f"{name}: {interpreter_place.name}", path, folder, found, depth + 1)


def _shebang(program: Path) -> list[str]:
    """The programs that a script's first line names, or their arguments."""
    words = os.fsdecode(first_line(program)).split()
    return [word for word in words if not word.startswith("-") and "=" not in word]


def first_line(program: Path) -> bytes:
    """What a script's first line says is to read it; empty for any other program."""
    try:
        with program.open("rb") as file:
            first = file.read(_SHEBANG_MOST)
    except OSError:
        return b""
    return first[2:].split(b"\n")[0] if first.startswith(b"#!") else b""


def _is_seen(place: Path, top: Path) -> bool:
    way = way_to(place)
    is_inside = is_systems(way.real) or way.real.is_relative_to(top)
    return is_inside and all(is_systems(link) or link.is_relative_to(top) for link, _ in way.links)
