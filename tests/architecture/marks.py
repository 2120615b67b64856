"""What functions of a program look like from outside: static marks of habits that the house wants to be rid of.

A mark is a sign and no proof: each answer names its places, so that a person can look.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from source import Module, Source, called, is_text

Function = ast.FunctionDef | ast.AsyncFunctionDef
VOCABULARY = ("Outcome", "Reason", "StopReason", "Phase")
KINDS = ("run", "iteration", "measurement", "settle", "holdout")
WRITERS = ("write", "write_text", "write_bytes", "writelines", "dump", "copyfile", "copyfileobj", "copy2")
NAMED_FIRST = ("get", "pop", "add_parser", "add_argument", "CheckResult", "config_reader")
NAMED_AFTER = (
    "getattr",
    "setattr",
    "hasattr",
    "at",
    "text_at",
    "number_at",
    "rows_at",
    "inner",
    "counted",
    "pluralize",
)
NAMED_BY_KEYWORD = ("dest", "class_", "id")
OTHER_SENSES = {  # modules where a word is one of the manifest, of a command or of git, a heading, a class of CSS, ...
    "cli.commands.baseline": ("baseline",),
    "cli.commands.init": ("provider",),  # a key of the manifest
    "cli.commands.show": ("baseline",),
    "doctor.cheats": ("kept",),  # a kind of file
    "doctor.doctor": ("provider", "repository", "sandbox"),  # names of checks
    "evaluation.holdout": ("baseline", "kept"),
    "humanize": ("better", "worse"),
    "ledger.artifacts": ("kept",),  # log.keep_outputs
    "locks": ("baseline",),
    "loop.ending": ("interrupted",),  # a status
    "loop.notify": ("kept", "needs_human"),  # notify.on
    "manifest.rules": ("guard", "provider"),
    "manifest.tables": ("kept", "needs_human"),
    "manifest.validation": ("guard",),
    "project.approval": ("kept",),  # approve.before
    "project.status": ("interrupted",),
    "proposal.brief": ("iterations", "tokens"),
    "proposal.prompt": ("iterations", "tokens", "deadline"),
    "providers.fallback": ("auth",),  # a kind of failure, here and below
    "providers.outcome": ("auth",),
    "providers.preset": ("auth",),
    "providers.presets.claude": ("auth",),
    "providers.presets.codex": ("auth",),
    "providers.presets.gemini": ("auth",),
    "providers.presets.mini_swe_agent": ("auth",),
    "providers.presets.opencode": ("auth",),
    "views.events": ("sandbox",),
    "views.log_table": ("provider",),
    "views.report.evidence": ("baseline", "kept", "time"),
    "views.report.markdown": ("baseline",),
    "views.report.rows": ("baseline",),  # a target of the holdout
    "views.report.sections": ("baseline", "count"),
    "views.report.source": ("interrupted",),  # a status
    "workspace.scope": ("kept",),  # a kind of file
}
PROJECTS, CONFIGS = ("Project", "Run"), ("Config", "Setting")


def functions(module: Module) -> Iterator[tuple[str, Function]]:
    """Every function with a name, methods and inner ones too, with the class or function it stands in."""
    yield from _functions_in(module.tree, f"{module.short_name}:")


def _functions_in(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield prefix + child.name, child
        inner = f"{prefix}{child.name}." if isinstance(child, (ast.FunctionDef, ast.ClassDef)) else prefix
        yield from _functions_in(child, inner)


def parameters(function: Function) -> list[ast.arg]:
    """All that a caller can give, ``*`` and ``**`` as one each; not ``self`` and ``cls``."""
    given = function.args
    every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    return [one for one in every if one is not None and one.arg not in ("self", "cls")]


def functions_of_many_parameters(source: Source, least: int) -> list[str]:
    return [
        f"{name} ({len(parameters(function))})"
        for module in source.modules
        for name, function in functions(module)
        if len(parameters(function)) >= least
    ]


def takers_of_project_and_config(source: Source) -> list[str]:
    """Functions that take both, as their annotations have it, or their parameters' names where they have none."""
    return [
        name
        for module in source.modules
        for name, function in functions(module)
        if all(any(_is_a(one, kinds) for one in parameters(function)) for kinds in (PROJECTS, CONFIGS))
    ]


def _is_a(parameter: ast.arg, kinds: tuple[str, ...]) -> bool:
    if parameter.annotation is None:
        return parameter.arg in [kind.lower() for kind in kinds]
    return not _words(parameter.annotation).isdisjoint(kinds)


def _words(node: ast.AST) -> set[str]:
    """The names in an expression, and the last parts of dotted ones."""
    names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    return names | {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}


def vocabulary(source: Source) -> dict[str, set[str]]:
    """The words of the enums in ``values.py``, by enum; none where there are no enums."""
    values = source.by_name.get("goalseek.values")
    words: dict[str, set[str]] = {}
    for node in values.tree.body if values else ():
        if isinstance(node, ast.ClassDef) and node.name in VOCABULARY:
            assigned = [inner for inner in node.body if isinstance(inner, ast.Assign)]
            words[node.name] = {
                inner.value.value
                for inner in assigned
                if isinstance(inner.value, ast.Constant) and isinstance(inner.value.value, str)
            }
    return words


def literals(source: Source) -> tuple[list[str], list[str]]:
    """Strings outside ``values.py`` that are words of the vocabulary: those that are values, and those that are names.

    A name is a key of a dict, an index, an entry of ``__all__``, what the functions of ``NAMED_FIRST`` are given first
    and those of ``NAMED_AFTER`` later, or a word of ``OTHER_SENSES``: there ``"baseline"`` is a key of JSON or a
    command. Docstrings and parts of f-strings are neither.
    """
    words = set().union(*vocabulary(source).values())
    values: list[str] = []
    names: list[str] = []
    for module in source.modules:
        if module.short_name == "values":
            continue
        of_names = {id(node) for node in _names(module.tree)}
        passed_over = {id(node) for node in _texts(module.tree)}
        other_senses = OTHER_SENSES.get(module.short_name, ())
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Constant) and node.value in words and id(node) not in passed_over:
                where = names if id(node) in of_names or node.value in other_senses else values
                where.append(f"{module.short_name}:{node.lineno} {node.value!r}")
    return values, names


def _names(tree: ast.AST) -> Iterator[ast.AST]:
    """Where a string says which, and not what."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            yield from (key for key in node.keys if key is not None)
        elif isinstance(node, ast.Subscript):
            yield from () if _words(node.value) & {"Literal"} else (node.slice,)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            yield from ast.walk(node.value)
        elif isinstance(node, ast.Call):
            name = called(node)
            yield from node.args[:1] if name in NAMED_FIRST else node.args[1:] if name in NAMED_AFTER else ()
            yield from (given.value for given in node.keywords if given.arg in NAMED_BY_KEYWORD)


def _texts(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and is_text(node):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield from node.values


def atomic_replaces(source: Source) -> tuple[list[str], list[str]]:
    """Functions that write a file and rename it into its place, and those that only rename: folders, for the most part.

    ``os.replace``, ``os.rename``, ``.rename(...)`` and ``.replace(...)`` with one argument, as only ``Path`` has it.
    """
    written: list[str] = []
    only_renamed: list[str] = []
    for module in source.modules:
        for name, function in functions(module):
            if not any(_is_rename(call) for call in _calls(function)):
                continue
            names = {called(call) for call in _calls(function)}
            (written if names & {*WRITERS, "open", "fdopen", "create"} else only_renamed).append(name)
    return written, only_renamed


def _is_rename(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("replace", "rename", "renames"):
        return False
    is_of_os = isinstance(call.func.value, ast.Name) and call.func.value.id == "os"
    return is_of_os or (len(call.args) == 1 and not call.keywords)


def _calls(function: ast.AST) -> list[ast.Call]:
    return [node for node in ast.walk(function) if isinstance(node, ast.Call)]


def parsers_of_commits(source: Source) -> list[str]:
    """Modules that take a raw commit apart: at the empty line after its head, or by the heads of its lines.

    What splits the output of ``git diff-tree`` at an empty line parses no commit.
    """
    return [module.short_name for module in source.modules if any(_parses(one) for _, one in functions(module))]


def _parses(function: Function) -> bool:
    in_texts = {id(node) for node in _texts(function)}
    constants = [node for node in ast.walk(function) if isinstance(node, ast.Constant) and id(node) not in in_texts]
    if any(node.value in ("tree ", "parent ", b"tree ", b"parent ") for node in constants):
        return True
    splits = ("split", "partition", "rpartition", "rsplit", "find", "index")
    return not any(node.value == "diff-tree" for node in constants) and any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr in splits
        and any(isinstance(given, ast.Constant) and given.value == b"\n\n" for given in call.args)
        for call in _calls(function)
    )


def folds(source: Source) -> list[str]:
    """Functions that tell kinds of records apart and carry a state over them.

    They name two kinds or more, by class or by the ``kind`` of a row, and give the state anew or change ``self``.
    """
    found = []
    for module in source.modules:
        methods = {
            id(node): owner.name
            for owner in ast.walk(module.tree)
            if isinstance(owner, ast.ClassDef)
            for node in owner.body
        }
        for name, function in functions(module):
            if len(_kinds(function)) >= 2 and _carries(function, methods.get(id(function), "")):
                found.append(name)
    return found


def _kinds(function: Function) -> set[str]:
    """The kinds of record that a function tells apart."""
    kinds: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and called(node) == "isinstance":
            kinds |= {word for word in _words(node.args[1]) if word.endswith("Record")}
        elif isinstance(node, ast.MatchClass):
            kinds |= {word for word in _words(node.cls) if word.endswith("Record")}
        elif isinstance(node, (ast.Compare, ast.MatchValue)):
            strings = {inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant)}
            kinds |= {kind for kind in KINDS if kind in strings}
    return kinds


def _carries(function: Function, owner: str) -> bool:
    """Whether it changes its object, or gives another of a kind that it has."""
    for node in ast.walk(function):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(one, ast.Attribute) and getattr(one.value, "id", "") == "self" for one in targets):
            return True
    if function.returns is None:
        return False
    given = set().union(*(_words(one.annotation) for one in parameters(function) if one.annotation), {owner, "Self"})
    return not _words(function.returns).isdisjoint(given - {"", "None", "str", "int", "float", "bool", "Path"})
