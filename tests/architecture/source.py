"""The sources of a checkout as a graph: modules, what they import, and the circles in it. Nothing of them is run."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PRODUCT = "goalseek"


@dataclass(frozen=True)
class Import:
    """``target`` is a whole module name, of ours or of a library. ``kind``: statement, string, types or relative.

    A string is one that spells a module of ours, as ``importlib.import_module`` takes it; an f-string stands for every
    module that it can spell. ``types`` are imports for type checkers alone.
    """

    target: str
    line: int
    kind: str = "statement"


@dataclass(frozen=True)
class Module:
    """``name`` as it is imported: ``goalseek.views`` for ``goalseek/views/__init__.py``."""

    name: str
    path: Path
    text: str

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def is_docstring(self) -> bool:
        """Whether it is an ``__init__.py`` without code."""
        return self.is_package and all(is_text(statement) for statement in self.tree.body)

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def short_name(self) -> str:
        """Without ``goalseek.``; ``__init__`` for the whole."""
        return self.name.partition(".")[2] or "__init__"

    @property
    def package(self) -> str:
        """The folder of goalseek that it lies in, at any depth; "" on the ground."""
        first, _, rest = self.short_name.partition(".")
        return first if rest or (self.is_package and first != "__init__") else ""


class Source:
    """All modules below ``goalseek/`` of a checkout."""

    def __init__(self, checkout: Path) -> None:
        self.checkout = checkout
        self.folder = checkout / PRODUCT
        self.every = [self._read(path) for path in sorted(self.folder.rglob("*.py"))]
        self.by_name = {module.name: module for module in self.every}
        self._imports: dict[str, list[Import]] = {}

    @property
    def modules(self) -> list[Module]:
        """Without each ``__init__.py`` that is a docstring."""
        return [module for module in self.every if not module.is_docstring]

    def folders(self) -> dict[str, int]:
        """How many modules lie in each folder itself, by its path below ``goalseek/``: ``.`` for the ground."""
        counts: dict[str, int] = {}
        for module in self.modules:
            folder = module.path.parent.relative_to(self.folder).as_posix()
            counts[folder] = counts.get(folder, 0) + 1
        return counts

    def imports(self, module: Module) -> list[Import]:
        """What a module imports, also within functions. Modules of ours are named even where only a name is taken."""
        if module.name not in self._imports:
            self._imports[module.name] = list(self._imports_of(module))
        return self._imports[module.name]

    def edges(self, kinds: Iterable[str]) -> dict[str, set[str]]:
        """For each module the others of ours that it imports in one of these ways."""
        return {
            module.name: {
                one.target
                for one in self.imports(module)
                if one.kind in kinds and one.target in self.by_name and one.target != module.name
            }
            for module in self.modules
        }

    def _read(self, path: Path) -> Module:
        parts = (PRODUCT, *path.relative_to(self.folder).with_suffix("").parts)
        return Module(".".join(parts[:-1] if parts[-1] == "__init__" else parts), path, path.read_text("utf-8"))

    def _imports_of(self, module: Module) -> Iterator[Import]:
        for_types = {id(node) for node in nodes_for_types(module.tree)}
        for node in ast.walk(module.tree):
            kind = "types" if id(node) in for_types else "statement"
            if isinstance(node, ast.Import):
                yield from (Import(alias.name, node.lineno, kind) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = absolute("." * node.level + (node.module or ""), module)
                kind = "relative" if node.level else kind
                for alias in node.names:
                    inner = f"{base}.{alias.name}"
                    yield Import(inner if inner in self.by_name else base, node.lineno, kind)
            elif isinstance(node, (ast.Constant, ast.JoinedStr)):
                yield from (Import(name, node.lineno, "string") for name in self._spelled(node))
            elif isinstance(node, ast.Call) and node.args and called(node) == "import_module":
                name = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
                if isinstance(name, str) and name.startswith("."):
                    yield Import(absolute(name, module), node.lineno, "string")

    def _spelled(self, node: ast.Constant | ast.JoinedStr) -> list[str]:
        """The modules of ours that a string names, ``goalseek.x:function`` among them."""
        if isinstance(node, ast.Constant):
            name = node.value.partition(":")[0] if isinstance(node.value, str) else ""
            return [name] if "." in name and name in self.by_name else []
        parts = [part.value if isinstance(part, ast.Constant) else None for part in node.values]
        if not isinstance(parts[0], str) or not parts[0].startswith(PRODUCT + "."):
            return []
        pattern = re.compile("".join(r"\w+" if part is None else re.escape(str(part)) for part in parts))
        return [name for name in self.by_name if pattern.fullmatch(name)]


def build(checkout: Path, modules: dict[str, str]) -> Source:
    """A small house for tests: a text for each module, ``git.commits`` say, and an empty file for each folder."""
    for name, text in modules.items():
        path = checkout / PRODUCT / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        for folder in (path.parent, checkout / PRODUCT):
            (folder / "__init__.py").touch()
        path.write_text(text)
    return Source(checkout)


def absolute(name: str, module: Module) -> str:
    """What a name with leading dots is, where a module imports it; another name as it is."""
    dots = len(name) - len(name.lstrip("."))
    if not dots:
        return name
    parts = module.name.split(".")
    base = parts[: len(parts) - dots + module.is_package]
    return ".".join([*base, *filter(None, [name[dots:]])])


def called(call: ast.Call) -> str:
    """The last part of what is called: ``write`` for ``file.write(...)``."""
    return getattr(call.func, "attr", "") or getattr(call.func, "id", "")


def nodes_for_types(tree: ast.Module) -> Iterator[ast.AST]:
    """Everything below ``if TYPE_CHECKING:``, but not below its ``else:``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in (
            getattr(node.test, "id", ""),
            getattr(node.test, "attr", ""),
        ):
            for statement in node.body:
                yield from ast.walk(statement)


def is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module, largest first."""
    order: list[str] = []
    seen: set[str] = set()
    for name in edges:
        _visit(name, edges, seen, order)
    backwards: dict[str, set[str]] = {name: set() for name in edges}
    for name, targets in edges.items():
        for target in targets & edges.keys():
            backwards[target].add(name)
    seen, components = set(), []
    for name in reversed(order):
        component: list[str] = []
        _visit(name, backwards, seen, component)
        if len(component) > 1:
            components.append(sorted(component))
    return sorted(components, key=lambda component: (-len(component), component))


def _visit(name: str, edges: dict[str, set[str]], seen: set[str], order: list[str]) -> None:
    """Adds to ``order`` what can be reached from a module and was not seen, each after what it leads to."""
    if name in seen:
        return
    seen.add(name)
    stack = [(name, iter(sorted(edges[name] & edges.keys())))]
    while stack:
        current, targets = stack[-1]
        following = next((target for target in targets if target not in seen), None)
        if following is None:
            order.append(current)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(sorted(edges[following] & edges.keys()))))
