"""What is wrong between keys of a manifest that are right by themselves."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from goalseek.globs import compiled, matcher
from goalseek.manifest import Holdout, Manifest, Reading, ScopeTable, VerifyCommand
from goalseek.provider_keys import wrong_provider, wrong_review
from goalseek.query_fault import query_fault

_BYTECODE = ("a.pyc", "a.cpython-311.pyc")
Wrong = tuple[tuple[str | int, ...], str]


def wrong_together(manifest: Manifest) -> list[Wrong]:
    """What is wrong between keys that are right by themselves."""
    wrong: list[Wrong] = []
    if not manifest.verify:
        wrong.append((("verify",), 'needs at least one command: [[verify]] with run = "..."'))
    wrong += _same_pattern_twice(manifest.scope)
    wrong += _wrong_commands(manifest)
    wrong += _wrong_reading(("metric",), manifest.metric, manifest)
    for place, guard in enumerate(manifest.guard):
        wrong += _wrong_reading(("guard", place), guard, manifest)
        if (guard.min, guard.max, guard.max_increase, guard.max_decrease) == (None,) * 4:
            wrong.append((("guard", place), "has no bound: min, max, max_increase or max_decrease"))
    names = [manifest.metric.name, *(guard.name for guard in manifest.guard)]
    for place, name in enumerate(names[1:]):
        if name in names[: place + 1]:
            wrong.append((("guard", place, "name"), f"{name!r} is taken; give it another name"))
    if manifest.provider:
        wrong += wrong_provider(("provider",), manifest.provider)
    if manifest.review:
        wrong += wrong_review(manifest.review, manifest.provider)
    models = [price.model for price in manifest.price]
    for place, model in enumerate(models):
        if model in models[:place]:
            wrong.append((("price", place, "model"), f"{model!r} has a price already"))
    wrong += _wrong_once(manifest)
    wrong += _wrong_holdout(manifest)
    wrong += _wrong_cheats(manifest)
    home = Path(manifest.log.home)
    if home.is_absolute() or ".." in home.parts:
        wrong.append((("log", "home"), "is a folder in the manifest's folder"))
    return wrong


def _same_pattern_twice(table: ScopeTable) -> list[Wrong]:
    seen: dict[str, str] = {}
    wrong: list[Wrong] = []
    for name in ("writable", "generated", "read_only", "hidden"):
        for pattern in getattr(table, name):
            if pattern in seen and seen[pattern] != name:
                wrong.append((("scope", name), f"{pattern!r} is in scope.{seen[pattern]} too; it can be in one"))
            seen.setdefault(pattern, name)
            try:
                compiled(pattern)
            except re.error as error:
                wrong.append((("scope", name), f"{pattern!r} is not a glob: {error}"))
    return wrong


def _wrong_commands(manifest: Manifest) -> list[Wrong]:
    wrong: list[Wrong] = []
    names: list[str] = []
    for place, command in enumerate(manifest.verify):
        wrong += _wrong_command(("verify", place), command)
        if command.name in names:
            wrong.append((("verify", place, "name"), f"{command.name!r} is taken; give it a name of its own"))
        names.append(command.name)
    return wrong


def _wrong_command(place: tuple[str | int, ...], command: VerifyCommand) -> list[Wrong]:
    wrong: list[Wrong] = []
    if not command.run or not words_of(command):
        wrong.append(((*place, "run"), "is empty"))
    if Path(command.cwd).is_absolute() or ".." in Path(command.cwd).parts:
        wrong.append(((*place, "cwd"), "is a folder in the manifest's folder"))
    if any(matcher((pattern,))(f"a/__pycache__/{name}") for pattern in command.keep for name in _BYTECODE):
        wrong.append(((*place, "keep"), "keeps Python's bytecode, and would measure the candidate before this one"))
    return wrong


def _wrong_once(manifest: Manifest) -> list[Wrong]:
    """A number that is of a command which runs once could never be measured again."""
    once = [place for place, command in enumerate(manifest.verify) if command.once]
    if once and len(once) == len(manifest.verify):
        return [(("verify", once[-1], "once"), "nothing would be left to repeat: the last command makes the number")]
    for place in once:
        if manifest.metric.source != "json" and manifest.metric.command == manifest.verify[place].name:
            return [(("verify", place, "once"), "the metric is this command's: it runs with every measurement")]
    return []


def _wrong_holdout(manifest: Manifest) -> list[Wrong]:
    holdout = manifest.holdout
    if holdout is None:
        return []
    wrong = _wrong_command(("holdout",), holdout)
    if any(command.name == "holdout" for command in manifest.verify):
        wrong.append((("holdout",), "a verify command is named holdout: give that one another name"))
    if holdout.once:
        wrong.append((("holdout", "once"), "has no use: the holdout is not repeated"))
    return wrong + _wrong_source(("holdout",), holdout)


def _wrong_cheats(manifest: Manifest) -> list[Wrong]:
    wrong: list[Wrong] = []
    named: list[Path] = []
    for place, cheat in enumerate(manifest.cheat):
        path = Path(cheat.patch)
        if not path.name or path.is_absolute() or ".." in path.parts:
            wrong.append((("cheat", place, "patch"), "is a file in the manifest's folder: what is hidden has its path"))
        if path in named:
            wrong.append((("cheat", place, "patch"), f"{cheat.patch!r} is listed already"))
        named.append(path)
    return wrong


def _wrong_reading(place: tuple[str | int, ...], reading: Reading, manifest: Manifest) -> list[Wrong]:
    wrong = _wrong_source(place, reading)
    if reading.command not in [command.name for command in manifest.verify]:
        wrong.append(((*place, "command"), f"there is no verify command named {reading.command!r}"))
    return wrong


def _wrong_source(place: tuple[str | int, ...], reading: Reading | Holdout) -> list[Wrong]:
    wrong: list[Wrong] = []
    wants = {"json": "query", "stdout": "regex", "stderr": "regex", "wall": None, None: None}[reading.source]
    if reading.source is None:
        wrong.append((place, "say how to read it: query (JSON), regex (text), or source"))
    for key in ("query", "regex"):
        given = getattr(reading, key) is not None
        if given != (key == wants) and reading.source is not None:
            state = "has no use" if given else "is required"
            wrong.append(((*place, key), f'{state} where source = "{reading.source}"'))
    return wrong + not_compiling(place, reading)


def not_compiling(place: tuple[str | int, ...], reading: Reading | Holdout) -> list[Wrong]:
    """A query that is no JMESPath, a regular expression that is none, or has not one group."""
    if reading.query is not None:
        import jmespath

        try:
            jmespath.compile(reading.query)
        except jmespath.exceptions.JMESPathError as error:
            return [((*place, "query"), query_fault(reading.query, error))]
    if reading.regex is not None:
        try:
            groups = re.compile(reading.regex).groups
        except re.error as error:
            return [((*place, "regex"), f"{reading.regex!r} does not compile: {error}")]
        if groups != 1:
            return [((*place, "regex"), f"{reading.regex!r} has {groups} groups; it needs one, around the number")]
    return []


def words_of(command: VerifyCommand) -> list[str]:
    """The words of a command line, as a shell would split them."""
    if not isinstance(command.run, str):
        return list(command.run)
    try:
        return shlex.split(command.run)
    except ValueError:
        return command.run.split()
