"""The manifest's file: finding and reading it, its folders, and ``-m`` in hints.

A checked manifest is cached beside the records by its digest, so commands that only look need not import pydantic.
"""

import contextlib
import functools
import hashlib
import math
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from goalseek._version import __version__
from goalseek.disk import read_object, write_atomic
from goalseek.errors import GoalseekError
from goalseek.humanize import abbreviate
from goalseek.manifest.keys import schema_text
from goalseek.manifest.tables import Manifest
from goalseek.values import from_plain, to_line, to_plain

FILE_NAME = "goalseek.toml"
RESULTS = "results.jsonl"
STATE = "state.json"
_CACHE = "manifest.json"
_CHECKED = "paths_normal"  # a cache with "text" is older, and was checked when paths had many spellings
_CLIMB_COMMANDS = (
    "iterate|step|baseline|status|direct|stop|approve|decline|exec|log|show|settle|report|compare|promote"
    "|audit|manifest|prune|doctor|noise"
)
_COMMAND = rf"\bgoalseek (?=(?:{_CLIMB_COMMANDS})\b)"
_OPEN_SIDES = (-math.inf, math.inf)
_NAMED_FILE = r"goalseek\.([^/]+)\.toml"


class ManifestFile(Struct, frozen=True, dict=True):
    path: Path
    manifest: Manifest
    text: str = ""

    @functools.cached_property
    def folder(self) -> Path:
        return self.path.parent

    @functools.cached_property
    def home(self) -> Path:
        return self.folder / self.manifest.log.home

    @functools.cached_property
    def _own_home(self) -> Path:
        """``.goalseek/<name>``; with ``log.home = "."`` the manifest's folder itself."""
        return self.folder if self.manifest.log.home == "." else self.home / self.manifest.project.name

    @functools.cached_property
    def logs(self) -> Path:
        return self._own_home / "logs"

    @functools.cached_property
    def results(self) -> Path:
        return self.logs / RESULTS

    @functools.cached_property
    def state(self) -> Path:
        return self.logs / STATE

    @functools.cached_property
    def directions(self) -> Path:
        return self.logs / "directions"

    @functools.cached_property
    def runs(self) -> Path:
        return self._own_home / "runs"


def base_of(loaded: ManifestFile, top: Path) -> Path:
    """The folder of paths and globs: the manifest's, or the top if it lies outside the repository."""
    inside = loaded.folder.resolve().is_relative_to(top.resolve())
    return loaded.folder.resolve() if inside else top.resolve()


def make_log_folders(loaded: ManifestFile) -> None:
    """They ignore themselves, and have the manifest's schema for editors."""
    for folder in (loaded.logs, loaded.runs):
        folder.mkdir(parents=True, exist_ok=True)
    own_folders = (loaded.logs, loaded.runs) if loaded.manifest.log.home == "." else (loaded.home,)
    for folder in own_folders:
        if not (folder / ".gitignore").exists():
            (folder / ".gitignore").write_text("*\n")
    path, text = own_folders[0] / "manifest.schema.json", schema_text("manifest")
    if not path.exists() or path.read_text("utf-8") != text:
        write_atomic(path, text)
    if not (loaded.logs / _CACHE).exists():
        _save_cached(loaded)


def find(start: Path, option: str | None = None) -> Path:
    """The manifest in the nearest folder, or of ``-m``, the ``option``. Raises GoalseekError without one."""
    if option and ("/" in option or option.endswith(".toml")):
        path = (start / option).resolve()
        if path.is_file():
            return path
        raise GoalseekError(f"there is no manifest {path}", "name an existing file with -m")
    name = f"goalseek.{option}.toml" if option else FILE_NAME
    start = start.resolve()
    for folder in (start, *start.parents):
        if (folder / name).is_file():
            return folder / name
    paths = [path for depth in ("*", "*/*") for path in sorted(start.glob(f"{depth}/{name}"))]
    below = [f"goalseek -C {shlex.quote(str(path.parent.relative_to(start)))}" for path in paths]
    number = "one is" if len(below) == 1 else f"{len(below)} are"
    hint = f"{number} below: {abbreviate(below)}; or " if below else ""
    raise GoalseekError(f"no {name} in {start} or any folder above it", f"{hint}make one with: goalseek init")


def load(path: Path, previous: ManifestFile | None = None) -> ManifestFile:
    """The checked manifest; ``previous`` if its text is the same. Raises GoalseekError naming each wrong line."""
    text = _read(path)
    if previous is not None and previous.text == text:
        return previous
    for digest, manifest in _checked_before(path, text):
        if digest == _digest(path, text):
            return ManifestFile(path, manifest, text)
    import tomllib

    from goalseek.manifest import validation

    try:
        plain = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise GoalseekError(f"{path}: {error}", "see https://toml.io for the format") from None
    except RecursionError:
        raise GoalseekError(f"{path}: lists or tables are nested too deeply", "goalseek help manifest") from None
    loaded = ManifestFile(path, validation.validate(path, text, plain), text)
    _save_cached(loaded)
    return loaded


def load_last_good(path: Path) -> ManifestFile | None:
    """The last right manifest, from the logs of the climb that its text names."""
    text = _read(path)
    known = (manifest for _, manifest in _checked_before(path, text) if manifest.project.name in text)
    return next((ManifestFile(path, manifest) for manifest in known), None)


def _checked_before(path: Path, text: str) -> Iterator[tuple[str, Manifest]]:
    """Digest and manifest of each cache beside the records of any name in the text."""
    homes = [".goalseek", *re.findall(r"""\bhome\s*=\s*["']([^"'\n]+)""", text)]
    names = dict.fromkeys(re.findall(r"""\bname\s*=\s*["']([a-z0-9-]+)["']""", text))
    for home in homes:
        for name in names if Path(home).parts else ("",):
            stored = read_object(path.parent / home / name / "logs" / _CACHE)
            with contextlib.suppress(ValueError):
                yield stored.get(_CHECKED, ""), from_plain(Manifest, stored.get("manifest"))


def to_toml(plain: dict[str, Any]) -> str:
    """With verify commands as tables of their own, as people write them."""
    import tomli_w

    parts = [tomli_w.dumps({key: value for key, value in plain.items() if key != "verify"})]
    parts += ["\n[[verify]]\n" + tomli_w.dumps(command) for command in plain.get("verify", [])]
    return "".join(parts)


def to_tables(value: Any) -> Any:
    """As TOML has it, which lacks None: a default of None is left out, another is "none", an open bound is infinite."""
    if isinstance(value, Struct):
        fields = {field.name: (getattr(value, field.name), field.default) for field in structs.fields(value)}
        return {
            name.removesuffix("_"): "none" if item is None else to_tables(item)
            for name, (item, default) in fields.items()
            if item is not None or default is not None
        }
    if isinstance(value, tuple):
        return [_OPEN_SIDES[index] if item is None else to_tables(item) for index, item in enumerate(value)]
    return to_plain(value)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise GoalseekError(f"{path} is not UTF-8: {error}", "save it as UTF-8") from None
    except OSError as error:
        raise GoalseekError(f"{path} cannot be read: {error.strerror}", "name a manifest with -m") from None


def _digest(path: Path, text: str) -> str:
    checked = f"{__version__}\0{schema_text('manifest')}\0{path}\0{text}"
    return hashlib.sha256(checked.encode("utf-8", "surrogateescape")).hexdigest()


def _save_cached(loaded: ManifestFile) -> None:
    if os.path.isdir(loaded.logs):
        with contextlib.suppress(OSError):
            checked = {_CHECKED: _digest(loaded.path, loaded.text), "manifest": loaded.manifest}
            write_atomic(loaded.logs / _CACHE, to_line(checked))


def with_manifest_option(text: str, manifest: Path | str | None) -> str:
    """Add ``-m`` to goalseek commands quoted in a hint. ``manifest`` is a path, the value of ``-m``, or None."""
    option = manifest or ""
    if isinstance(option, Path):
        named = re.fullmatch(_NAMED_FILE, option.name)
        option = named[1] if named else "" if option.name == FILE_NAME else str(option)
    return re.sub(_COMMAND, lambda match: f"{match[0]}-m {shlex.quote(option)} ", text) if option else text


def added_keys(left: dict[str, Any], plain: dict[str, Any]) -> dict[str, Any]:
    """Keys that only ``left`` has, also in inner tables; commands are matched by name."""
    left, plain = _by_name(left), _by_name(plain)
    tables = {
        key: added_keys(value, plain[key]) for key, value in left.items() if key in plain and isinstance(value, dict)
    }
    return {key: value for key, value in left.items() if key not in plain} | {key: t for key, t in tables.items() if t}


def with_added_keys(plain: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """The table with the keys of ``added_keys`` that it lacks."""
    table = _by_name(plain)
    for key, value in more.items():
        table[key] = with_added_keys(table[key], value) if isinstance(table.get(key), dict) else table.get(key, value)
    return table | ({"verify": list(table["verify"].values())} if "verify" in table else {})


def _by_name(table: dict[str, Any]) -> dict[str, Any]:
    commands = table.get("verify")
    return {**table, "verify": {each["name"]: each for each in commands}} if isinstance(commands, list) else dict(table)
