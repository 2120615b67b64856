"""What is wrong between keys of a manifest that are right by themselves."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from goalseek.git.ignore import compiled, matcher
from goalseek.git.paths import first_overlap
from goalseek.manifest.tables import Holdout, Manifest, ProviderTable, Reading, ReviewTable, ScopeTable, VerifyCommand

_BYTECODE = ("a.pyc", "a.cpython-311.pyc")
Wrong = tuple[tuple[str | int, ...], str]


def check_rules(manifest: Manifest) -> list[Wrong]:
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
        if guard.min is not None and guard.max is not None and guard.min > guard.max:
            why = f"{guard.min:g} is more than max = {guard.max:g}: no value is within; the smaller number is min"
            wrong.append((("guard", place, "min"), why))
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
    wrong += _overlapping_paths(manifest)
    return wrong


def _overlapping_paths(manifest: Manifest) -> list[Wrong]:
    """A shared path, a folder that setup gives, goalseek's own and what a command makes are places of their own."""
    wrong: list[Wrong] = []
    share, gives = manifest.scope.share, manifest.setup.gives if manifest.setup else ()
    for table, key, paths in (("scope", "share", share), ("setup", "gives", gives)):
        for number, path in enumerate(paths):
            if other := first_overlap(path, paths[:number]):
                wrong.append(
                    ((table, key), _overlap_in_words(path, other, "list it once, or name folders side by side"))
                )
    home = manifest.log.home
    for path in share:
        if other := first_overlap(path, gives):
            hint = f"{other} is in setup.gives, and each measurement writes in its copy: share another folder"
            wrong.append((("scope", "share"), _overlap_in_words(path, other, hint)))
        if other := first_overlap(path, ("logs", "runs") if home == "." else (home,)):
            hint = f"goalseek writes its records in {other}: name another log.home, or share another folder"
            wrong.append((("scope", "share"), _overlap_in_words(path, other, hint)))
    for number, command in enumerate(manifest.verify):
        wrong += _written_into_shares(("verify", number), command, share)
    if manifest.holdout:
        wrong += _written_into_shares(("holdout",), manifest.holdout, share)
    return wrong


def _written_into_shares(table: tuple[str | int, ...], command: VerifyCommand, share: tuple[str, ...]) -> list[Wrong]:
    """Outputs and caches that would lie in a shared folder; where a glob names them, it shows when they are made."""
    wrong: list[Wrong] = []
    for key, patterns in (("outputs", command.outputs), ("keep", command.keep)):
        for pattern in patterns:
            is_glob = re.search(r"[*?\[\\]", pattern)
            if not is_glob and any(f"{pattern.strip('/')}/".startswith(f"{path}/") for path in share):
                why = f"{pattern!r} lies in what scope.share names, which is read-only: write it elsewhere"
                wrong.append(((*table, key), why))
    return wrong


def _overlap_in_words(path: str, other: str, remedy: str) -> str:
    how = "is there already" if path == other else f"and {other!r} lie one in the other"
    return f"{path!r} {how}; {remedy}"


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
    patches = [cheat.patch for cheat in manifest.cheat]
    for place, patch in enumerate(patches):
        if patch in patches[:place]:
            wrong.append((("cheat", place, "patch"), f"{patch!r} is listed already"))
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
    return wrong + check_expressions(place, reading)


def check_expressions(place: tuple[str | int, ...], reading: Reading | Holdout) -> list[Wrong]:
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


_OF_COMMAND = ("ask_plan",)
_OF_ALL = ("repair", "prompts", "record")
_NO_USE = {
    "scripted": ("model", "command", "endpoint", "credentials", "billing", "ask_plan"),
    "tune": ("model", "command", "endpoint", "credentials", "billing", "ask_plan"),
    "replay": ("model", "command", "endpoint", "credentials", "billing", "ask_plan", "timeout", "record"),
    "command": ("endpoint",),
}
_PLAY_EDITS = ("scripted", "tune")
Place = tuple[str | int, ...]


def wrong_provider(place: Place, table: ProviderTable, inner: tuple[str, ...] = ()) -> Iterator[tuple[Place, str]]:
    """What is wrong in a table, and in those that it holds. One of those has no ``inner`` keys."""
    if table.name == "command" and not table.command:
        yield (*place, "command"), 'is required by the provider "command": ["my-agent", "--edit"]'
    elif table.command is not None and not table.command:
        yield (*place, "command"), 'is empty: ["/opt/agent/bin/agent"]'
    if table.name == "replay" and not table.recordings:
        yield (*place, "recordings"), 'is required by the provider "replay": the folder that provider.record named'
    elif table.name != "replay" and table.recordings:
        yield (*place, "recordings"), f"has no use with the provider {table.name!r}: provider.record stores its calls"
    usual = ProviderTable(name=table.name)
    for key in _NO_USE.get(table.name, _OF_COMMAND):
        if getattr(table, key) != getattr(usual, key):
            yield (*place, key), f"has no use with the provider {table.name!r}"
    for name in table.credentials or ():
        if not re.fullmatch(r"[A-Za-z_]\w*", name) and not name.startswith(("/", "~/")):
            yield (*place, "credentials"), f"{name!r} is neither a variable nor a path beginning with / or ~/"
    for key in inner:
        if getattr(table, key) != getattr(usual, key):
            yield (*place, key), "belongs in [provider] itself"
            return
    if table.plan:
        yield from wrong_provider((*place, "plan"), table.plan, ("plan", *_OF_ALL))
    for number, other in enumerate(table.fallback):
        asked = ProviderTable(name=other) if isinstance(other, str) else other
        at = (*place, "fallback", number)
        if isinstance(other, str) and other == "command":
            yield at, 'is a table for the provider "command": { name = "command", command = ["my-agent"] }'
        else:
            yield from wrong_provider(at, asked, ("fallback", "plan", *_OF_ALL))
        if asked == table or other in table.fallback[:number]:
            yield at, f"{asked.name!r} is asked already"


def tables_of(table: ProviderTable) -> tuple[ProviderTable, ...]:
    """A provider's table and those of its fallback, in the order in which they are asked."""
    return (table, *map(table_of, table.fallback))


def table_of(named: str | ProviderTable) -> ProviderTable:
    """The table of a provider that is named, or has one."""
    return ProviderTable(name=named) if isinstance(named, str) else named


def wrong_review(review: ReviewTable, author: ProviderTable | None) -> Iterator[tuple[Place, str]]:
    """What is wrong in ``[review]``. Without an ``author`` nobody knows yet who proposes."""
    place = ("review", "provider")
    table = table_of(review.provider)
    if review.provider == "command":
        yield place, 'is a table for the provider "command": { name = "command", command = ["my-agent"] }'
    elif table.name in _PLAY_EDITS:
        yield place, f"the provider {table.name!r} proposes edits and cannot judge any"
    else:
        yield from wrong_provider(place, table, ("fallback", "plan", "ask_plan", *_OF_ALL))
    if author and (why := why_own_work(table, author)):
        yield place, why
    if not review.criteria:
        yield ("review", "criteria"), 'name at least one: ["No test is weakened."]'
    for number, criterion in enumerate(review.criteria):
        if not criterion.strip() or len(criterion.splitlines()) > 1:
            yield ("review", "criteria", number), "is one line of text"


def why_own_work(reviewer: ProviderTable, author: ProviderTable) -> str:
    """Why this provider would judge its own work: it is among those who plan and edit; "" where it is not."""
    authors = tables_of(author) + (tables_of(author.plan) if author.plan else ())
    if not any(_is_same(reviewer, one) for one in authors):
        return ""
    return f"{reviewer.name!r} proposes the changes itself, and nobody reviews his own: name another provider"


def _is_same(one: ProviderTable, other: ProviderTable) -> bool:
    """Whether both are one agent; of programs without a name, whether both are started by the same words.

    What is played again was said by somebody else.
    """
    return one.name == other.name != "replay" and (one.name != "command" or one.command == other.command)


_CHATTER = re.compile(r"^(Invalid|Bad) jmespath expression: |: Parse error at column .*$|, for expression:?$|:$", re.I)


def query_fault(query: str, error: Exception) -> str:
    """``'a b' is not JMESPath: Unexpected token: b, at character 3, 'b'``.

    ``error`` is jmespath's; one that says no place is of a query that was understood, and fails in what it is given.
    """
    said = _CHATTER.sub("", str(error).split("\n")[0])
    at = getattr(error, "lex_position", None)
    if at is None:
        return f"{query!r}: {said}"
    rest = query[at : at + 20]
    where = f"at character {at + 1}, {rest!r}" if rest else "at its end"
    return f"{query!r} is not JMESPath: {said}, {where}"
