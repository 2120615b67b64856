"""The rules between keys of a manifest that are valid by themselves."""

import re
from collections.abc import Iterator, Sequence

from goalseek.git.ignore import compile_pattern, matcher
from goalseek.git.paths import first_overlap
from goalseek.manifest.command_words import parse_command
from goalseek.manifest.tables import FRESH, TIME_SOURCES, Holdout, Manifest, ProviderTable, Reading, ReviewTable

_BYTECODE = ("a.pyc", "a.cpython-311.pyc")
Location = tuple[str | int, ...]
Fault = tuple[Location, str]


def check_rules(manifest: Manifest) -> Iterator[Fault]:
    if not manifest.commands:
        others = " beside the holdout's" if manifest.verify else ""
        yield ("verify",), f'needs at least one command{others}: [[verify]] with run = "..."'
    seen: dict[str, str] = {}
    for name in ("writable", "generated", "read_only", "hidden"):
        for pattern in getattr(manifest.scope, name):
            if seen.setdefault(pattern, name) != name:
                yield ("scope", name), f"{pattern!r} is in scope.{seen[pattern]} too; it can be in one"
            try:
                compile_pattern(pattern)
            except re.error as error:
                yield ("scope", name), f"{pattern!r} is not a glob: {error}"
    for index, command in enumerate(manifest.verify):
        if not command.run or not parse_command(command.run).plain:
            yield ("verify", index, "run"), "is empty"
        if any(matcher((pattern,))(f"a/__pycache__/{name}") for pattern in command.keep for name in _BYTECODE):
            yield ("verify", index, "keep"), "keeps Python's bytecode, and would measure the candidate before this one"
    names = [command.name for command in manifest.verify]
    yield from _check_repeats("verify", "name", names, "is taken; give it a name of its own")
    yield from _check_reading(("metric",), manifest.metric, manifest)
    if isinstance(manifest.metric.missing, float) and abs(manifest.metric.missing) > 1e38:
        yield ("metric", "missing"), "is no score: those lie between -1e38 and 1e38"
    for key in ("race", "missing"):
        if manifest.metric.cases is None and getattr(manifest.metric, key) not in ("auto", "worst"):
            yield ("metric", key), "has no use without cases"
    for index, guard in enumerate(manifest.guard):
        yield from _check_reading(("guard", index), guard, manifest)
        if (guard.min, guard.max, guard.max_increase, guard.max_decrease) == (None,) * 4:
            yield ("guard", index), "has no bound: min, max, max_increase or max_decrease"
        if guard.min is not None and guard.max is not None and guard.min > guard.max:
            why = f"{guard.min:g} is more than max = {guard.max:g}: no value is within; the smaller number is min"
            yield ("guard", index, "min"), why
    guard_names = [guard.name for guard in manifest.guard]
    yield from _check_repeats("guard", "name", guard_names, "is taken; give it another name", manifest.metric.name)
    if manifest.provider:
        yield from check_provider_table(("provider",), manifest.provider)
    if manifest.review:
        yield from _check_review(manifest.review, authors_of(manifest.provider, manifest.search.rotate))
    yield from _check_rotation(manifest)
    yield from _check_repeats("price", "model", [price.model for price in manifest.price], "has a price already")
    yield from _check_once(manifest)
    if holdout := manifest.holdout:
        indices = [index for index, command in enumerate(manifest.verify) if command.name == holdout.command]
        if not indices:
            yield ("holdout", "command"), f"there is no verify command named {holdout.command!r}"
        elif manifest.verify[indices[0]].once:
            yield ("verify", indices[0], "once"), "has no use: the holdout is not repeated"
        if holdout.query is not None and holdout.regex is not None:
            yield ("holdout", "regex"), "has no use beside query: a number is read from JSON or from text"
        yield from check_expressions(("holdout",), holdout)
    yield from _check_repeats("cheat", "patch", [cheat.patch for cheat in manifest.cheat], "is listed already")
    yield from _check_overlaps(manifest)
    parallel = manifest.parallel
    if parallel.cluster != "none" and parallel.benches > 1:
        yield ("parallel", "benches"), "has no use beside cluster: its workers are the benches"
    if parallel.python != "python3" and not parallel.cluster.startswith("ssh:"):
        yield ("parallel", "python"), "has no use without ssh: hosts"
    is_joined = parallel.cluster.startswith(("tls://", "file:"))
    if is_joined and not parallel.tls:
        yield ("parallel", "cluster"), f'"{parallel.cluster}" needs [parallel.tls] with ca, cert and key'
    elif parallel.tls and not is_joined:
        yield ("parallel", "cluster"), f'"{parallel.cluster}" makes certificates of its own: remove [parallel.tls]'


def _check_repeats(table: str, key: str, values: list[str], why: str, taken: str | None = None) -> Iterator[Fault]:
    for index, value in enumerate(values):
        if value == taken or value in values[:index]:
            yield (table, index, key), f"{value!r} {why}"


def _check_overlaps(manifest: Manifest) -> Iterator[Fault]:
    share, gives = manifest.scope.share, manifest.setup.gives if manifest.setup else ()
    home = ("logs", "runs") if manifest.log.home == "." else (manifest.log.home,)
    once = "list it once, or name folders side by side"
    given = "{} is in setup.gives, and each measurement writes in its copy: share another folder"
    written = "goalseek writes its records in {}: name another log.home, or share another folder"
    checks = [("scope", "share", path, share[:index], once) for index, path in enumerate(share)]
    checks += [("setup", "gives", path, gives[:index], once) for index, path in enumerate(gives)]
    checks += [("scope", "share", path, *other) for path in share for other in ((gives, given), (home, written))]
    for table, key, path, others, remedy in checks:
        if other := first_overlap(path, others):
            how = "is there already" if path == other else f"and {other!r} lie one in the other"
            yield (table, key), f"{path!r} {how}; {remedy.format(other)}"
    for index, command in enumerate(manifest.verify):
        for key, patterns in (("outputs", command.outputs), ("keep", command.keep)):
            # What a glob names is seen only when it is written.
            for pattern in (pattern for pattern in patterns if not re.search(r"[*?\[\\]", pattern)):
                if any(f"{pattern.strip('/')}/".startswith(f"{path}/") for path in share):
                    why = f"{pattern!r} lies in a folder of scope.share, which is read-only: write it elsewhere"
                    yield ("verify", index, key), why


def _check_once(manifest: Manifest) -> Iterator[Fault]:
    """The number must not come from a command that runs once, as it could not be measured again."""
    indices = [index for index, command in enumerate(manifest.verify) if command.once]
    if indices and len(indices) == len(manifest.commands):
        yield ("verify", indices[-1], "once"), "nothing would be left to repeat: the last command makes the number"
        return
    for index in indices:
        if manifest.metric.source != "json" and manifest.metric.command == manifest.verify[index].name:
            what = "run time" if manifest.metric.source in TIME_SOURCES else "output"
            why = f"once = true is not possible if the metric is this command's {what}"
            yield ("verify", index, "once"), f"{why}: that command runs with every measurement"


def _check_reading(location: Location, reading: Reading, manifest: Manifest) -> Iterator[Fault]:
    if manifest.holdout and reading.command == manifest.holdout.command:
        yield (*location, "command"), f"{reading.command!r} runs for the holdout alone: name another verify command"
    elif reading.command not in [command.name for command in manifest.verify]:
        yield (*location, "command"), f"there is no verify command named {reading.command!r}"
    required = {"json": "query", "stdout": "regex", "stderr": "regex"}.get(reading.source or "")
    if reading.source is None:
        yield location, "say how to read it: query (JSON), regex (text), or source"
    has_cases = getattr(reading, "cases", None) is not None
    if has_cases and reading.source != "json":
        yield (*location, "cases"), "are read from JSON: leave source and regex out"
    for key in ("query", "regex"):
        is_set = getattr(reading, key) is not None
        is_optional = has_cases and key == "query"
        if is_set != (key == required) and reading.source is not None and not is_optional:
            fault = "has no use" if is_set else "is required"
            where = "beside cases" if has_cases else f'if source = "{reading.source}"'
            yield (*location, key), f"{fault} {where}"
    yield from check_expressions(location, reading)


def check_expressions(location: Location, reading: Reading | Holdout) -> Iterator[Fault]:
    for key, query in (("query", reading.query), ("cases", getattr(reading, "cases", None))):
        if query is None:
            continue
        import jmespath

        try:
            jmespath.compile(query)
        except jmespath.exceptions.JMESPathError as error:
            yield (*location, key), query_fault(query, error)
            return
    if reading.regex is not None:
        try:
            groups = re.compile(reading.regex).groups
        except re.error as error:
            yield (*location, "regex"), f"{reading.regex!r} does not compile: {error}"
            return
        if groups != 1:
            yield (*location, "regex"), f"{reading.regex!r} has {groups} groups; it needs one, around the number"


_ONLY_OUTER = ("fallback", "plan", "repair", "prompts", "record")  # keys of [provider] itself
_NOT_FOR_REVIEW = ("fallback", "plan", "ask_plan", "repair", "prompts", "record")  # named in this order
_ONLY_PROGRAMS = ("model", "command", "endpoint", "credentials", "billing", "ask_plan")
_NO_USE = {
    "scripted": _ONLY_PROGRAMS,
    "tune": _ONLY_PROGRAMS,
    "replay": (*_ONLY_PROGRAMS, "timeout"),
    "command": ("endpoint",),
}


def check_provider_table(location: Location, table: ProviderTable, outer: tuple[str, ...] = ()) -> Iterator[Fault]:
    """Includes inner tables; none of them may set the keys ``outer``."""
    if table.name == "command" and not table.command:
        yield (*location, "command"), 'is required by the provider "command": ["my-agent", "--edit"]'
    elif table.command is not None and not table.command:
        yield (*location, "command"), 'is empty: ["/opt/agent/bin/agent"]'
    if table.name == "replay" and not table.record:
        yield (*location, "record"), 'is required by the provider "replay": the folder in which calls were stored'
    defaults = ProviderTable(name=table.name)
    for key in _NO_USE.get(table.name, ("ask_plan",)):
        if getattr(table, key) != getattr(defaults, key):
            yield (*location, key), f"has no use with the provider {table.name!r}"
    for name in table.credentials or ():
        if not re.fullmatch(r"[A-Za-z_]\w*", name) and not name.startswith(("/", "~/")):
            yield (*location, "credentials"), f"{name!r} is neither a variable nor a path beginning with / or ~/"
    for key in outer:
        is_played = key == "record" and table.name == "replay"
        if getattr(table, key) != getattr(defaults, key) and not is_played:
            yield (*location, key), "belongs in [provider] itself"
            return
    if table.plan:  # a planner has its own fallback
        keys = tuple(key for key in _ONLY_OUTER if key != "fallback")
        yield from check_provider_table((*location, "plan"), table.plan, keys)
    for index, other in enumerate(table.fallback):
        inner_location, other_table = (*location, "fallback", index), table_of(other)
        yield from _check_inner_provider(inner_location, other)
        if other_table == table or other in table.fallback[:index]:
            yield inner_location, f"{other_table.name!r} is asked already"


def _check_inner_provider(
    location: Location, provider: str | ProviderTable, outer: tuple[str, ...] = _ONLY_OUTER
) -> Iterator[Fault]:
    if provider == "command":
        yield location, 'is a table for the provider "command": { name = "command", command = ["my-agent"] }'
    else:
        yield from check_provider_table(location, table_of(provider), outer)


def tables_of(table: ProviderTable) -> tuple[ProviderTable, ...]:
    return (table, *map(table_of, table.fallback))


def table_of(provider: str | ProviderTable) -> ProviderTable:
    return ProviderTable(name=provider) if isinstance(provider, str) else provider


def authors_of(provider: ProviderTable | None, rotate: Sequence[str | ProviderTable]) -> tuple[ProviderTable, ...]:
    """All that plan or edit: the provider, if known, its fallback and planners, and those in turns."""
    own = tables_of(provider) + (tables_of(provider.plan) if provider.plan else ()) if provider else ()
    return (*own, *(table_of(other) for other in rotate if other != FRESH))


def _check_rotation(manifest: Manifest) -> Iterator[Fault]:
    """Records must tell the providers of ``search.rotate`` apart, and from ``provider``."""
    provider, rotate = manifest.provider, manifest.search.rotate
    labels = [table_of(entry).label for entry in rotate]
    for index, entry in enumerate(rotate):
        location, label = ("search", "rotate", index), labels[index]
        if isinstance(entry, ProviderTable) and entry.name == FRESH:
            yield location, 'is a name without a table: "fresh"'
        elif entry != FRESH:
            yield from _check_inner_provider(location, entry)
        if label in labels[:index]:
            yield location, f"{label!r} takes turns already; records tell two apart by their model"
        elif provider and label == provider.label:
            yield location, f'{label!r} is the provider itself, and has its turn; without its session it is "fresh"'


def _check_review(review: ReviewTable, authors: Sequence[ProviderTable]) -> Iterator[Fault]:
    location = ("review", "provider")
    table = table_of(review.provider)
    if table.name in ("scripted", "tune"):
        yield location, f"the provider {table.name!r} proposes edits and cannot judge any"
    else:
        yield from _check_inner_provider(location, review.provider, _NOT_FOR_REVIEW)
    if why := own_work_fault(table, authors):
        yield location, why
    if not review.criteria:
        yield ("review", "criteria"), 'name at least one: ["No test is weakened."]'
    for index, criterion in enumerate(review.criteria):
        if not criterion.strip() or len(criterion.splitlines()) > 1:
            yield ("review", "criteria", index), "is one line of text"


def own_work_fault(reviewer: ProviderTable, authors: Sequence[ProviderTable]) -> str:
    """The fault of a reviewer that also plans or edits; "" for any other.

    "command" is the same provider with the same command line; "replay" never is, as its records are another's.
    """
    same = [table for table in authors if table.name == reviewer.name != "replay"]
    if not any(table.name != "command" or table.command == reviewer.command for table in same):
        return ""
    return f"{reviewer.name!r} proposes the changes itself, and cannot review them: name another provider"


_CHATTER = re.compile(r"^(Invalid|Bad) jmespath expression: |: Parse error at column .*$|, for expression:?$|:$", re.I)


def query_fault(query: str, error: Exception) -> str:
    """``'a b' is not JMESPath: Unexpected token: b, at character 3, 'b'``."""
    message = _CHATTER.sub("", str(error).split("\n")[0])
    position = getattr(error, "lex_position", None)
    if position is None:  # a valid query that fails on its input
        return f"{query!r}: {message}"
    rest = query[position : position + 20]
    where = f"at character {position + 1}, {rest!r}" if rest else "at its end"
    return f"{query!r} is not JMESPath: {message}, {where}"
