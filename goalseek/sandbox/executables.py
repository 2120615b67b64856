"""What the programs of a command line need beside the system: each hop of a link, interpreters, their installations."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from goalseek.sandbox.view import is_systems

USUAL = ("sh", "bash", "env", "python3", "python", "node", "git")
_SHEBANG_MOST = 512
_DEPTH_MOST = 8


@dataclass(frozen=True)
class RequiredPath:
    """A path to show read-only, and why."""

    path: Path
    why: str


def required_paths(
    commands: Iterable[str | Sequence[str]], environment: Mapping[str, str], folder: Path, inside: Path
) -> tuple[RequiredPath, ...]:
    """What commands need to be shown beside the system's own folders and what is in ``inside`` anyway.

    A string is one for ``sh -c``. A path counts where it is run, as a program or as the script of an interpreter; the
    bare name of a program counts wherever it stands, and ``USUAL`` are looked for with them, as scripts in the tree
    call those. A file that is only mentioned is not shown: that, and what a program opens by itself, is for
    ``sandbox.read``. ``folder`` is where the commands would run in the user's own checkout, never in a candidate's
    tree: the first line of a script says what is shown. Nothing is started.
    """
    found: dict[Path, RequiredPath] = {}
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
                found.setdefault(Path(entry), RequiredPath(Path(entry), f"it is in {name}"))
    top = resolve_links(inside).real
    wanted = {place: need for place, need in found.items() if not _is_seen(place, top)}
    outermost = [place for place in wanted if not any(outer in wanted for outer in place.parents)]
    return tuple(wanted[place] for place in sorted(outermost))


def as_manifest_line(paths: Iterable[Path]) -> str:
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


def _follow(place: Path, name: str, path: str, folder: Path, found: dict[Path, RequiredPath], depth: int = 0) -> None:
    """Adds a program under every name it goes by, their installations, and what its first line names."""
    if depth > _DEPTH_MOST:
        return
    way = resolve_links(place)
    for named in way.names:
        whole = installation(named)
        if whole is None:
            found.setdefault(named, RequiredPath(named, f"{name}: the program"))
            continue
        found.setdefault(whole.folder, RequiredPath(whole.folder, f"{name}: {whole.kind}"))
        for more in whole.also:
            if more in found or not os.path.exists(more):
                continue
            found[more] = RequiredPath(more, f"{name}: {whole.kind} names it")
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
    way = resolve_links(place)
    is_inside = is_systems(way.real) or way.real.is_relative_to(top)
    return is_inside and all(is_systems(link) or link.is_relative_to(top) for link, _ in way.links)


_BEFORE_ANOTHER = frozenset(
    """! { if then elif else while until do exec command builtin env nice ionice nohup setsid timeout time stdbuf
    taskset chrt numactl xargs sudo unbuffer xvfb-run mpirun srun torchrun uv poetry pipenv conda run""".split()
)
_SHELL = re.compile(r"(ba|da|z|k|a|mk)?sh")
_INTERPRETER = re.compile(r"(python|pypy|node|nodejs|deno|bun|perl|ruby|Rscript|julia|lua|php|tclsh|bash|sh)[\d.]*")
_ASSIGNMENT = re.compile(r"\w+\+?=.*", re.DOTALL)
_CODE_FOLLOWS = re.compile(r"-\w*[cem]")
_INNER = re.compile(r"\$\(([^()]*)\)")
_OPERATORS = "();<>|&\n"
_NEXT = "\n"  # stands between two commands


@dataclass(frozen=True)
class Word:
    """``is_run``: it stands where a program stands, or the script of an interpreter. Others only may be a program's
    bare name, as in ``make CC=x`` or ``hyperfine 'one x'``.
    """

    text: str
    is_run: bool


def words_of(command: str | Sequence[str], is_there: Callable[[str], bool]) -> Iterator[Word]:
    """The words of a command; a string is one for ``sh -c``. ``is_there`` says whether a word is a program or file."""
    if isinstance(command, str):
        yield from _run(_split(command), is_there)
        for inner in _INNER.findall(command):
            yield from _run(_split(inner), is_there)
    else:
        yield from _run(command, is_there)


def _run(words: Iterable[str], is_there: Callable[[str], bool]) -> Iterator[Word]:
    expected, is_shell, is_before = "program", False, False
    for word in words:
        if word == _NEXT:
            expected, is_before = "program", False
        elif expected == "code":
            expected = ""
            yield from words_of(word, is_there) if is_shell else _said(word)
        elif expected == "program" and not _ASSIGNMENT.fullmatch(word) and not (is_before and word.startswith("-")):
            yield Word(word, True)
            name = PurePath(word).name
            is_before = is_before or name in _BEFORE_ANOTHER
            if name in _BEFORE_ANOTHER or (is_before and not is_there(word)):
                continue
            is_shell = _SHELL.fullmatch(name) is not None
            expected = "script" if is_shell or _INTERPRETER.fullmatch(name) else ""
        elif expected == "script" and _CODE_FOLLOWS.fullmatch(word):
            expected = "code"
        elif expected == "script" and not word.startswith("-") and is_there(word):
            expected = ""
            yield Word(word, True)
        else:
            yield from _said(word)


def _said(word: str) -> Iterator[Word]:
    """A word that is not run; of a text, each of its words."""
    yield Word(word, False)
    if any(space in word for space in " \n"):
        yield from (Word(inner, False) for inner in _split(word) if inner != _NEXT)


def _split(command: str) -> Iterator[str]:
    """The words as a shell splits them, without redirections; ``_NEXT`` wherever another command may begin."""
    lexer = shlex.shlex(command.replace("\\\n", " ").replace("`", "\n"), posix=True, punctuation_chars=_OPERATORS)
    lexer.commenters = ""
    lexer.whitespace = " \t\r"
    try:
        found = list(lexer)
    except ValueError:  # quotes that do not end, as in an apostrophe of a here-document
        text = command.replace('"', " ").replace("'", " ")
        found = [word for line in text.splitlines() for word in (*line.split(), _NEXT)]
    is_file = False
    for word in found:
        if word and all(letter in _OPERATORS for letter in word):
            is_file = word[-1] in "<>" or word.endswith((">&", "<&"))
            if not is_file:
                yield _NEXT
        elif is_file:
            is_file = False
        else:
            yield word


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


_MOST = 40


@dataclass(frozen=True)
class LinkChain:
    """The links met on the way to a path, as (place, target), and the real path at its end.

    ``names`` are the whole path as it reads after each link, itself first.
    """

    links: tuple[tuple[Path, str], ...]
    names: tuple[Path, ...]
    real: Path


def resolve_links(path: Path) -> LinkChain:
    """Follows an absolute path link by link; ``real`` need not exist. Raises OSError for a loop."""
    links: list[tuple[Path, str]] = []
    names = [path]
    at, left = "", [part for part in str(path).split("/") if part not in ("", ".")]
    while left:
        part = left.pop(0)
        if part == "..":
            at = at.rpartition("/")[0]
            continue
        place = f"{at}/{part}"
        try:
            target = os.readlink(place)
        except OSError:
            at = place
            continue
        if len(links) == _MOST:
            raise OSError(f"too many links on the way to {path}")
        links.append((Path(place), target))
        if target.startswith("/"):
            at = ""
        left = [name for name in target.split("/") if name not in ("", ".")] + left
        names.append(Path(os.path.normpath("/".join((at, *left)) or "/")))
    real = Path(at or "/")
    return LinkChain(tuple(dict.fromkeys(links)), tuple(dict.fromkeys((*names, real))), real)
