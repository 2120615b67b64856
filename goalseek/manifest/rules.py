"""The rules between keys of a manifest that are right by themselves: each fault with its key and a reason."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from goalseek.git.ignore import compile_pattern, matcher
from goalseek.git.paths import first_overlap
from goalseek.manifest.tables import Holdout, Manifest, ProviderTable, Reading, ReviewTable, ScopeTable, VerifyCommand

_BYTECODE = ("a.pyc", "a.cpython-311.pyc")
Fault = tuple[tuple[str | int, ...], str]


def check_rules(manifest: Manifest) -> list[Fault]:
    """All faults between keys that are right by themselves, each as (location of the key, reason)."""
    faults: list[Fault] = []
    if not manifest.verify:
        faults.append((("verify",), 'needs at least one command: [[verify]] with run = "..."'))
    faults += _check_patterns(manifest.scope)
    faults += _check_commands(manifest)
    faults += _check_reading(("metric",), manifest.metric, manifest)
    for index, guard in enumerate(manifest.guard):
        faults += _check_reading(("guard", index), guard, manifest)
        if (guard.min, guard.max, guard.max_increase, guard.max_decrease) == (None,) * 4:
            faults.append((("guard", index), "has no bound: min, max, max_increase or max_decrease"))
        if guard.min is not None and guard.max is not None and guard.min > guard.max:
            why = f"{guard.min:g} is more than max = {guard.max:g}: no value is within; the smaller number is min"
            faults.append((("guard", index, "min"), why))
    names = [manifest.metric.name, *(guard.name for guard in manifest.guard)]
    for index, name in enumerate(names[1:]):
        if name in names[: index + 1]:
            faults.append((("guard", index, "name"), f"{name!r} is taken; give it another name"))
    if manifest.provider:
        faults += check_provider(("provider",), manifest.provider)
    if manifest.review:
        faults += check_review(manifest.review, manifest.provider)
    models = [price.model for price in manifest.price]
    for index, model in enumerate(models):
        if model in models[:index]:
            faults.append((("price", index, "model"), f"{model!r} has a price already"))
    faults += _check_once(manifest)
    faults += _check_holdout(manifest)
    faults += _check_cheats(manifest)
    faults += _check_overlaps(manifest)
    return faults


def _check_overlaps(manifest: Manifest) -> list[Fault]:
    """Shared paths, folders that setup gives, goalseek's own and what commands write must not overlap."""
    faults: list[Fault] = []
    share, gives = manifest.scope.share, manifest.setup.gives if manifest.setup else ()
    for table, key, paths in (("scope", "share", share), ("setup", "gives", gives)):
        for index, path in enumerate(paths):
            if other := first_overlap(path, paths[:index]):
                faults.append(((table, key), _overlap_text(path, other, "list it once, or name folders side by side")))
    home = manifest.log.home
    for path in share:
        if other := first_overlap(path, gives):
            hint = f"{other} is in setup.gives, and each measurement writes in its copy: share another folder"
            faults.append((("scope", "share"), _overlap_text(path, other, hint)))
        if other := first_overlap(path, ("logs", "runs") if home == "." else (home,)):
            hint = f"goalseek writes its records in {other}: name another log.home, or share another folder"
            faults.append((("scope", "share"), _overlap_text(path, other, hint)))
    for index, command in enumerate(manifest.verify):
        faults += _check_paths_in_shares(("verify", index), command, share)
    if manifest.holdout:
        faults += _check_paths_in_shares(("holdout",), manifest.holdout, share)
    return faults


def _check_paths_in_shares(table: tuple[str | int, ...], command: VerifyCommand, share: tuple[str, ...]) -> list[Fault]:
    """Faults for outputs and caches in a shared folder. Those that a glob names are seen only when they are written."""
    faults: list[Fault] = []
    for key, patterns in (("outputs", command.outputs), ("keep", command.keep)):
        for pattern in patterns:
            is_glob = re.search(r"[*?\[\\]", pattern)
            if not is_glob and any(f"{pattern.strip('/')}/".startswith(f"{path}/") for path in share):
                why = f"{pattern!r} lies in what scope.share names, which is read-only: write it elsewhere"
                faults.append(((*table, key), why))
    return faults


def _overlap_text(path: str, other: str, remedy: str) -> str:
    how = "is there already" if path == other else f"and {other!r} lie one in the other"
    return f"{path!r} {how}; {remedy}"


def _check_patterns(table: ScopeTable) -> list[Fault]:
    seen: dict[str, str] = {}
    faults: list[Fault] = []
    for name in ("writable", "generated", "read_only", "hidden"):
        for pattern in getattr(table, name):
            if pattern in seen and seen[pattern] != name:
                faults.append((("scope", name), f"{pattern!r} is in scope.{seen[pattern]} too; it can be in one"))
            seen.setdefault(pattern, name)
            try:
                compile_pattern(pattern)
            except re.error as error:
                faults.append((("scope", name), f"{pattern!r} is not a glob: {error}"))
    return faults


def _check_commands(manifest: Manifest) -> list[Fault]:
    faults: list[Fault] = []
    names: list[str] = []
    for index, command in enumerate(manifest.verify):
        faults += _check_command(("verify", index), command)
        if command.name in names:
            faults.append((("verify", index, "name"), f"{command.name!r} is taken; give it a name of its own"))
        names.append(command.name)
    return faults


def _check_command(location: tuple[str | int, ...], command: VerifyCommand) -> list[Fault]:
    faults: list[Fault] = []
    if not command.run or not words_of(command):
        faults.append(((*location, "run"), "is empty"))
    if any(matcher((pattern,))(f"a/__pycache__/{name}") for pattern in command.keep for name in _BYTECODE):
        faults.append(((*location, "keep"), "keeps Python's bytecode, and would measure the candidate before this one"))
    return faults


def _check_once(manifest: Manifest) -> list[Fault]:
    """A fault where a number comes from a command that runs once: it could never be measured again."""
    indices = [index for index, command in enumerate(manifest.verify) if command.once]
    if indices and len(indices) == len(manifest.verify):
        return [(("verify", indices[-1], "once"), "nothing would be left to repeat: the last command makes the number")]
    for index in indices:
        if manifest.metric.source != "json" and manifest.metric.command == manifest.verify[index].name:
            return [(("verify", index, "once"), "the metric is this command's: it runs with every measurement")]
    return []


def _check_holdout(manifest: Manifest) -> list[Fault]:
    holdout = manifest.holdout
    if holdout is None:
        return []
    faults = _check_command(("holdout",), holdout)
    if any(command.name == "holdout" for command in manifest.verify):
        faults.append((("holdout",), "a verify command is named holdout: give that one another name"))
    if holdout.once:
        faults.append((("holdout", "once"), "has no use: the holdout is not repeated"))
    return faults + _check_source(("holdout",), holdout)


def _check_cheats(manifest: Manifest) -> list[Fault]:
    faults: list[Fault] = []
    patches = [cheat.patch for cheat in manifest.cheat]
    for index, patch in enumerate(patches):
        if patch in patches[:index]:
            faults.append((("cheat", index, "patch"), f"{patch!r} is listed already"))
    return faults


def _check_reading(location: tuple[str | int, ...], reading: Reading, manifest: Manifest) -> list[Fault]:
    faults = _check_source(location, reading)
    if reading.command not in [command.name for command in manifest.verify]:
        faults.append(((*location, "command"), f"there is no verify command named {reading.command!r}"))
    return faults


def _check_source(location: tuple[str | int, ...], reading: Reading | Holdout) -> list[Fault]:
    faults: list[Fault] = []
    required = {"json": "query", "stdout": "regex", "stderr": "regex", "wall": None, None: None}[reading.source]
    if reading.source is None:
        faults.append((location, "say how to read it: query (JSON), regex (text), or source"))
    for key in ("query", "regex"):
        is_set = getattr(reading, key) is not None
        if is_set != (key == required) and reading.source is not None:
            fault = "has no use" if is_set else "is required"
            faults.append(((*location, key), f'{fault} where source = "{reading.source}"'))
    return faults + check_expressions(location, reading)


def check_expressions(location: tuple[str | int, ...], reading: Reading | Holdout) -> list[Fault]:
    """Faults for a query that is no JMESPath, and a regular expression that does not compile or has not one group."""
    if reading.query is not None:
        import jmespath

        try:
            jmespath.compile(reading.query)
        except jmespath.exceptions.JMESPathError as error:
            return [((*location, "query"), query_fault(reading.query, error))]
    if reading.regex is not None:
        try:
            groups = re.compile(reading.regex).groups
        except re.error as error:
            return [((*location, "regex"), f"{reading.regex!r} does not compile: {error}")]
        if groups != 1:
            return [((*location, "regex"), f"{reading.regex!r} has {groups} groups; it needs one, around the number")]
    return []


def words_of(command: VerifyCommand) -> list[str]:
    """The words of a command line, as a shell would split them."""
    if not isinstance(command.run, str):
        return list(command.run)
    try:
        return shlex.split(command.run)
    except ValueError:
        return command.run.split()


_ONLY_COMMAND = ("ask_plan",)
_ONLY_OUTER = ("repair", "prompts", "record")
_NO_USE = {
    "scripted": ("model", "command", "endpoint", "credentials", "billing", "ask_plan"),
    "tune": ("model", "command", "endpoint", "credentials", "billing", "ask_plan"),
    "replay": ("model", "command", "endpoint", "credentials", "billing", "ask_plan", "timeout", "record"),
    "command": ("endpoint",),
}
_PLAY_EDITS = ("scripted", "tune")
Location = tuple[str | int, ...]


def check_provider(
    location: Location, table: ProviderTable, inner: tuple[str, ...] = ()
) -> Iterator[tuple[Location, str]]:
    """The faults of a provider's table and of those in it. ``inner`` are keys that an inner table must not set."""
    if table.name == "command" and not table.command:
        yield (*location, "command"), 'is required by the provider "command": ["my-agent", "--edit"]'
    elif table.command is not None and not table.command:
        yield (*location, "command"), 'is empty: ["/opt/agent/bin/agent"]'
    if table.name == "replay" and not table.recordings:
        yield (*location, "recordings"), 'is required by the provider "replay": the folder that provider.record named'
    elif table.name != "replay" and table.recordings:
        yield (
            (*location, "recordings"),
            f"has no use with the provider {table.name!r}: provider.record stores its calls",
        )
    defaults = ProviderTable(name=table.name)
    for key in _NO_USE.get(table.name, _ONLY_COMMAND):
        if getattr(table, key) != getattr(defaults, key):
            yield (*location, key), f"has no use with the provider {table.name!r}"
    for name in table.credentials or ():
        if not re.fullmatch(r"[A-Za-z_]\w*", name) and not name.startswith(("/", "~/")):
            yield (*location, "credentials"), f"{name!r} is neither a variable nor a path beginning with / or ~/"
    for key in inner:
        if getattr(table, key) != getattr(defaults, key):
            yield (*location, key), "belongs in [provider] itself"
            return
    if table.plan:
        yield from check_provider((*location, "plan"), table.plan, ("plan", *_ONLY_OUTER))
    for index, other in enumerate(table.fallback):
        other_table = ProviderTable(name=other) if isinstance(other, str) else other
        inner_location = (*location, "fallback", index)
        if isinstance(other, str) and other == "command":
            yield inner_location, 'is a table for the provider "command": { name = "command", command = ["my-agent"] }'
        else:
            yield from check_provider(inner_location, other_table, ("fallback", "plan", *_ONLY_OUTER))
        if other_table == table or other in table.fallback[:index]:
            yield inner_location, f"{other_table.name!r} is asked already"


def tables_of(table: ProviderTable) -> tuple[ProviderTable, ...]:
    """A provider's table and those of its fallback, in the order in which they are asked."""
    return (table, *map(table_of, table.fallback))


def table_of(provider: str | ProviderTable) -> ProviderTable:
    """The table of a provider that is given as a name or as a table."""
    return ProviderTable(name=provider) if isinstance(provider, str) else provider


def check_review(review: ReviewTable, author: ProviderTable | None) -> Iterator[tuple[Location, str]]:
    """The faults of ``[review]``. ``author`` is who proposes, None where that is not known yet."""
    location = ("review", "provider")
    table = table_of(review.provider)
    if review.provider == "command":
        yield location, 'is a table for the provider "command": { name = "command", command = ["my-agent"] }'
    elif table.name in _PLAY_EDITS:
        yield location, f"the provider {table.name!r} proposes edits and cannot judge any"
    else:
        yield from check_provider(location, table, ("fallback", "plan", "ask_plan", *_ONLY_OUTER))
    if author and (why := own_work_fault(table, author)):
        yield location, why
    if not review.criteria:
        yield ("review", "criteria"), 'name at least one: ["No test is weakened."]'
    for index, criterion in enumerate(review.criteria):
        if not criterion.strip() or len(criterion.splitlines()) > 1:
            yield ("review", "criteria", index), "is one line of text"


def own_work_fault(reviewer: ProviderTable, author: ProviderTable) -> str:
    """The fault of a reviewer that also plans or edits, and so would judge its own work; "" for any other."""
    authors = tables_of(author) + (tables_of(author.plan) if author.plan else ())
    if not any(_is_same(reviewer, table) for table in authors):
        return ""
    return f"{reviewer.name!r} proposes the changes itself, and nobody reviews his own: name another provider"


def _is_same(table: ProviderTable, other: ProviderTable) -> bool:
    """Whether both tables mean one agent; for the provider "command", whether both have the same command line.

    "replay" never counts as the same: its recordings are of another agent.
    """
    return table.name == other.name != "replay" and (table.name != "command" or table.command == other.command)


_CHATTER = re.compile(r"^(Invalid|Bad) jmespath expression: |: Parse error at column .*$|, for expression:?$|:$", re.I)


def query_fault(query: str, error: Exception) -> str:
    """``'a b' is not JMESPath: Unexpected token: b, at character 3, 'b'``.

    ``error`` is jmespath's. One without a position comes from a valid query that fails on its input.
    """
    message = _CHATTER.sub("", str(error).split("\n")[0])
    position = getattr(error, "lex_position", None)
    if position is None:
        return f"{query!r}: {message}"
    rest = query[position : position + 20]
    where = f"at character {position + 1}, {rest!r}" if rest else "at its end"
    return f"{query!r} is not JMESPath: {message}, {where}"
