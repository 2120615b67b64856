"""Where every candidate would import the user's checkout: the repository itself is installed editable in what is used.

A sandbox that mounts shows the candidate at the repository's own path, and so it means the candidate.
"""

from __future__ import annotations

import json
import os
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path

from goalseek.errors import UNFIT, GoalseekError
from goalseek.manifest.tables import Manifest
from goalseek.sandbox import environment
from goalseek.sandbox.executables import first_line, resolve_links, which, words_of
from goalseek.sandbox.policy import SandboxPolicy

Command = str | tuple[str, ...]
_SITES = ("lib*/python*/site-packages", "lib*/python*/dist-packages", "Lib/site-packages")
_PYTHONS = ("python3", "python")


def refuse_editable(manifest: Manifest, confines: SandboxPolicy) -> None:
    """Raises GoalseekError where a shared environment, or one whose program a verify command names, has it so."""
    if confines.mounts:
        return
    for name in manifest.scope.share:
        for path in _links(confines.folder / name, confines.top):
            raise _refusal(f"scope.share: {name}", path)
    for command, given, folder in _commands(manifest, confines):
        for word in _named(command, given, folder):
            for path in _used_by(word, given, folder, confines):
                raise _refusal(f"{word}, as the verifier finds it,", path)


def notes(manifest: Manifest, confines: SandboxPolicy) -> list[str]:
    """What to say of an interpreter on PATH that no command names, but that its scripts may call."""
    told: dict[str, None] = {}
    for _, given, folder in () if confines.mounts else _commands(manifest, confines):
        for word in _PYTHONS:
            for path in _used_by(word, given, folder, confines):
                message = f"{word} on PATH has this repository installed editable ({path.name}): what a verify command "
                told[f"{message}imports by it may be your checkout; {_remedy(path)}"] = None
    return list(told)[:1]


def _named(command: Command, given: Mapping[str, str], folder: Path) -> list[str]:
    words = words_of(command, lambda word: which(word, given["PATH"], folder) is not None)
    return sorted({word.text for word in words})


def _commands(manifest: Manifest, confines: SandboxPolicy) -> Iterator[tuple[Command, Mapping[str, str], Path]]:
    given = environment.program_environment(manifest.env.verify, {}, confines.scratch)
    for command in manifest.verify:
        yield command.run, given, confines.folder / command.cwd
    if manifest.setup:
        yield manifest.setup.run, given, confines.folder


def _used_by(word: str, given: Mapping[str, str], folder: Path, confines: SandboxPolicy) -> Iterator[Path]:
    """The editable installs of this repository that a program sees, where it is a Python or a script of one."""
    place = which(word, given["PATH"], folder)
    if place is None or not (place.name.startswith(("python", "pypy")) or b"python" in first_line(place)):
        return
    prefixes = [named.parent.parent for named in resolve_links(place).names if named.parent.name == "bin"]
    environment = next((prefix for prefix in prefixes if (prefix / "pyvenv.cfg").exists()), None)
    if environment:
        prefixes = [environment]
    else:
        prefixes += [Path("/usr/local")] if Path("/usr") in prefixes else []  # where Debian's Python installs to
        prefixes += [Path.home() / ".local"] if confines.level.name == "none" else []
    for prefix in dict.fromkeys(prefixes):
        yield from _links(prefix, confines.top)


def _links(environment: Path, top: Path) -> Iterator[Path]:
    for site in (environment, *(site for pattern in _SITES for site in environment.glob(pattern))):
        for path in (*site.glob("*.pth"), *site.glob("*.egg-link")):
            lines = path.read_text("utf-8", "replace").splitlines()
            if any(_is_inside(line.strip(), top) for line in lines if line.strip() and not line.startswith("import")):
                yield path
        for path in site.glob("*.dist-info/direct_url.json"):
            try:
                told = json.loads(path.read_text("utf-8"))
            except ValueError:
                continue
            url = urllib.parse.urlparse(told.get("url", ""))
            is_editable = told.get("dir_info", {}).get("editable") is True
            if is_editable and url.scheme == "file" and _is_inside(urllib.parse.unquote(url.path), top):
                yield path.parent


def _is_inside(place: str, top: Path) -> bool:
    return os.path.isabs(place) and Path(place).resolve().is_relative_to(top.resolve())


def _refusal(what: str, path: Path) -> GoalseekError:
    message = f"{what} has this repository installed editable ({path.name}): every candidate would "
    message += "measure your checkout"
    return GoalseekError(message, _remedy(path), UNFIT, "sandbox")


def _remedy(path: Path) -> str:
    return f"run it with bubblewrap, where it means the candidate; or pip uninstall, then rm {path}"
