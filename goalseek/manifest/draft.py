"""What a repository looks like to somebody who asks: which file may change, what judges, and how to run it. Pure.

Everything here is a guess from names and texts, shown to a person or asked for by ``--yes``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

_CODE = frozenset(".py .js .ts .c .cc .cpp .rs .go .java .rb .jl .r .sh .sql .txt .md".split())
_CHANGES = "experiment solution candidate train training model classifier solver main prompt".split()
_JUDGES = "validate verify score judge evaluate evaluation eval grade check verifier scorer benchmark bench".split()
_HIDDEN_FOLDERS = "hidden holdout private verifier".split()
_TEST_FOLDERS = ("tests", "test")
_SOURCE_FOLDERS = ("src", "lib")
_METRICS = {
    "accuracy": "maximize",
    "score": "maximize",
    "f1": "maximize",
    "auc": "maximize",
    "throughput": "maximize",
    "loss": "minimize",
    "error": "minimize",
    "rmse": "minimize",
    "seconds": "minimize",
    "bytes": "minimize",
}
_RUNNERS = {".py": "python", ".sh": "sh", ".js": "node", ".rb": "ruby", ".jl": "julia", ".r": "Rscript"}
_NUMBER = r"([-+.\deE]+)"


@dataclass(frozen=True)
class Guess:
    """Defaults for the five questions; empty where looking found nothing."""

    name: str
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    run: str = ""
    reading: str = ""


def survey(folder_name: str, paths: Sequence[str], read: Callable[[str], str]) -> Guess:
    """Guesses from the committed paths below the manifest's folder; ``read`` gives a file's text."""
    writable = _writable(paths)
    hidden = _hidden(paths)
    script = next((path for path in paths if path in hidden and PurePosixPath(path).suffix in _RUNNERS), "")
    text = read(script) if script else ""
    takes_output = "--output" in text
    run = f"{_RUNNERS[PurePosixPath(script).suffix]} {_quoted(script)}" if script else ""
    if takes_output:
        run += ' --output "$GOALSEEK_RUN_DIR/metrics.json"'
    writes_json = takes_output or "GOALSEEK_RUN_DIR" in text
    return Guess(project_name(folder_name), writable, hidden, run, _reading(text, writes_json))


def project_name(folder_name: str) -> str:
    """A folder's name as a project's: a-z, 0-9 and -."""
    return re.sub(r"[^a-z0-9]+", "-", folder_name.lower()).strip("-") or "project"


def _writable(paths: Sequence[str]) -> tuple[str, ...]:
    code = [path for path in paths if "/" not in path and PurePosixPath(path).suffix in _CODE]
    for stem in _CHANGES:
        found = next((path for path in code if PurePosixPath(path).stem.lower() == stem), None)
        if found:
            return (found,)
    for folder in _SOURCE_FOLDERS:
        if any(path.startswith(folder + "/") for path in paths):
            return (folder + "/**",)
    return ()


def _hidden(paths: Sequence[str]) -> tuple[str, ...]:
    found = [path for path in paths if "/" not in path and _judges(path)]
    for folder in (*_HIDDEN_FOLDERS, *_TEST_FOLDERS):
        if any(path.startswith(folder + "/") for path in paths):
            found.append(folder + "/**")
    return tuple(found)


def _judges(path: str) -> bool:
    place = PurePosixPath(path)
    return place.suffix in _RUNNERS and re.split(r"[_.-]", place.stem.lower())[0] in _JUDGES


def _reading(text: str, writes_json: bool) -> str:
    for name, direction in _METRICS.items():
        if writes_json and re.search(rf"""["']{name}["']""", text):
            return f"{direction} {name}"
        if not writes_json and re.search(rf"\b{name}: \{{", text):
            return f"{direction} /{name}: {_NUMBER}/"
    return ""


def _quoted(path: str) -> str:
    return path if re.fullmatch(r"[\w./-]+", path) else "'" + path.replace("'", "'\\''") + "'"
