"""Names of files that the next program would run or obey: a table, and its matching; pure.

Rules hold for new files (for agents' instructions also existing ones), unless scope.writable spells the name out.
"""

import re
import sys
from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct

from goalseek.git.paths import fold_name

Hazard = tuple[str, str]  # part of the path, reason
_MODULE = r"(?:\.py|\.pyw|\.py[co]|(?:\.[^/]*)?\.(?:so|pyd))"


class Rule(Struct, frozen=True):
    """``on`` "part" covers folders too. Ignored files join no candidate: ``even_ignored`` if the name shows a cheat."""

    names: str
    why: str
    on: Literal["name", "part"] = "name"
    even_ignored: bool = False


RULES = (
    Rule(
        r"\.git.*|gi(?:t[a-z]{0,3}|[0-9a-f]{4})~[0-9]+",
        "git obeys it: only the user decides what git ignores, filters and fetches",
        on="part",
        even_ignored=True,
    ),
    Rule(r".*\.py[co]", "bytecode outside __pycache__ would run instead of its source", even_ignored=True),
    Rule(r"conftest\.py", "pytest runs it before any test"),
    # setup.cfg, pyproject.toml and pytest's own newer files are read where tox.ini is, for the same keys.
    Rule(r"\.?pytest\.(?:ini|toml)|tox\.ini|setup\.cfg|pyproject\.toml", "pytest takes options and plugins from it"),
    Rule(r"\.coveragerc", "coverage loads the plugins that it names"),
    Rule(rf"(?:site|user)customize{_MODULE}?", "Python runs it whenever it starts", on="part"),
    Rule(r".*\.pth", "Python runs its lines when it starts (a checkpoint may have another ending)"),
    # A folder on sys.path is searched for these, and python -m pytest puts the current one there.
    Rule(r".*\.(?:dist|egg)-info", "pytest loads the plugins that it names", on="part"),
)
# Agents take instructions, settings, hooks and servers from these in any folder, and variables from .env, such as the
# one that names the file of gemini's whole system prompt.
_INSTRUCTION_NAMES = re.compile(
    r"(?:^|/)((?:agents|claude|gemini)[^/]*\.md|context\.md|opencode\.json[^/]*|\.mcp\.json|"
    r"\.env(?:\.(?:local|development|production|test))?(?:\.local)?|"
    r"\.(?:agents|aider|claude|codex|cursor|gemini|opencode)[^/]*|(?<=\.github/)copilot-[^/]*)(?=/|$)"
)
INSTRUCTIONS = "agents take instructions from it"
_EXPRESSIONS = tuple((re.compile(rule.names, re.IGNORECASE | re.DOTALL), rule) for rule in RULES)

# Those of Python 3.11 to 3.14: the running interpreter need not be the verifier's.
_SOME_VERSIONS = """aifc annotationlib asynchat asyncore audioop cgi cgitb chunk compression crypt distutils imghdr imp
    mailcap msilib nis nntplib ossaudiodev pipes smtpd sndhdr spwd sunau telnetlib uu xdrlib _colorize _interpreters
    _ios_support _opcode_metadata _py_warnings _pyrepl _zstd""".split()
# Nothing that judges imports these.
_HARMLESS = "antigravity idlelib lib2to3 test this turtledemo __hello__ __phello__".split()
STANDARD_LIBRARY = (frozenset(sys.stdlib_module_names) | frozenset(_SOME_VERSIONS)) - frozenset(_HARMLESS)
_SEPARATOR = re.compile(r"[/\\]")
_MODULE_FILE = re.compile(rf"([^./]+){_MODULE}")
_EXTENSION = re.compile(r"([^./]+)(?:\.[^/]*)?\.(?:so|pyd)")


def forbidden_names(path: str, is_ignored: bool = False) -> Iterator[Hazard]:
    """Why a new file at ``path`` is refused for its name alone."""
    parts = _SEPARATOR.split(path)
    if not is_ignored and (part := instruction_part(path)):
        yield part, INSTRUCTIONS
    for index, part in enumerate(parts):
        name, is_last = fold_name(part), index == len(parts) - 1
        for expression, rule in _EXPRESSIONS:
            holds = (rule.even_ignored or not is_ignored) and (rule.on == "part" or is_last)
            if holds and expression.fullmatch(name):
                yield part, rule.why


def instruction_part(path: str) -> str:
    """The part of the path that makes the file instructions for agents, or ""."""
    parts = _SEPARATOR.split(path)
    match = _INSTRUCTION_NAMES.search("/".join(map(fold_name, parts)))
    return parts[match.string.count("/", 0, match.start(1))] if match else ""


def needs_listing(pattern: str) -> bool:
    """Whether a candidate may add this file only because a writable glob names it."""
    path = pattern.strip("/")
    return any(forbidden_names(path)) or any(import_shadowing(path, True, TreePaths()))


class TreePaths(Struct, frozen=True):
    """``has`` is about the tree before the change; ``is_fixed`` files are not the candidate's."""

    has: Callable[[str], bool] = lambda path: False
    is_added: Callable[[str], bool] = lambda path: False
    is_fixed: Callable[[str], bool] = lambda path: False


def import_shadowing(path: str, is_link: bool, tree: TreePaths) -> Iterator[Hazard]:
    """Why a new module, or a link, would be imported in place of another one."""
    folder, _, name = path.rpartition("/")
    module, takes_precedence = name if is_link else "", True
    if name.startswith("__init__."):
        folder, _, name = folder.rpartition("/")
        module = name
    elif match := _MODULE_FILE.fullmatch(name):
        module, takes_precedence = match[1], _EXTENSION.fullmatch(name) is not None
    marker, source = (f"{folder}/{file}".lstrip("/") for file in ("__init__.py", f"{module}.py"))
    # The modules of a package hide no others. An existing folder is not made one by a new marker.
    is_package = tree.has(marker) or (folder and tree.is_added(marker) and not tree.has(folder))
    if module in STANDARD_LIBRARY and not is_package:
        yield name, f"it would be imported in place of the standard library's {module}"
    if module and takes_precedence and tree.is_fixed(source) and tree.has(source):
        yield name, f"it would be imported in place of {source}"


def output_hazards(path: str, tree: TreePaths) -> Iterator[Hazard]:
    """Why no later command may get this file. Only the tree's folders count: no program looks in a new one unasked."""
    parts = path.split("/")
    last = len(parts) - 1
    for index, part in enumerate(parts):
        if index and not tree.has("/".join(parts[:index])):
            return
        yield from forbidden_names(part if index == last else f"{part}/-")
        if index >= last - parts[-1].startswith("__init__."):
            yield from import_shadowing(path, False, tree)
