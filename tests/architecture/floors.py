"""The floors of goalseek: their order, the walls that order alone would not make, and what pure code may not import.

A package imports only packages that ``FLOORS`` names before it, and itself; a module of the ground only others of the
ground. ``goalseek/__init__.py``, ``climb.py`` and ``__main__.py`` may import anything, and nothing imports them. An
import for types alone counts: who needs another's types knows it.
"""

import ast

from source import PRODUCT, Module, Source

GROUND = tuple("case_scores errors values records phase_values humanize disk locks process _version".split())
FLOORS = (
    "git",
    "manifest",
    "workspace",
    "sandbox",
    "statistics",
    "measurement",
    "cluster",
    "ledger",
    "providers",
    "project",
    "proposal",
    "evaluation",
    "doctor",
    "loop",
    "views",
    "cli",
)
ABOVE_ALL = ("__init__", "climb", "__main__")
FORBIDDEN = {  # modules, or packages with all below them, and what of ours they may not import
    "statistics": ("git", "workspace", "sandbox", "disk", "locks", "process"),
    "providers": ("git.repository", "workspace", "statistics", "measurement", "ledger", "records", "project"),
    "views": ("evaluation", "loop", "driver"),
}
ONLY_BY = {"loop": ("loop", "driver", "cli")}  # what of ours only these packages may import
LIBRARIES_ONLY_BY = {"git": ("project",), "rich": ("views", "cli"), "jinja2": ("views", "proposal")}
PURE = ("statistics", "errors", "values", "records", "ledger.standing")
IMPURE = """ctypes git glob multiprocessing os random rich secrets select shutil signal socket subprocess tempfile threading
    time uuid""".split()
CLOCKS = ("now", "utcnow", "today")


def floor_of(module: Module) -> int | None:
    """Its place in the order, 0 for the ground; None where nothing gives it one."""
    if module.short_name in ABOVE_ALL:
        return len(FLOORS) + 1
    if not module.package:
        return 0 if module.short_name in GROUND else None
    return FLOORS.index(module.package) + 1 if module.package in FLOORS else None


def without_floor(source: Source) -> list[str]:
    return [module.short_name for module in source.every if floor_of(module) is None]


def edges_upward(source: Source) -> list[str]:
    """Imports of a floor above the importer's own. What has no floor is not looked at: see ``without_floor``."""
    edges = []
    for module in source.every:
        own = floor_of(module)
        for one in source.imports(module):
            target = source.by_name.get(one.target)
            other = floor_of(target) if target else None
            if target and own is not None and other is not None and other > own:
                edges.append(f"{module.short_name}:{one.line} imports {target.short_name}")
    return edges


def edges_through_walls(source: Source) -> list[str]:
    """Imports that ``FORBIDDEN``, ``ONLY_BY`` and ``LIBRARIES_ONLY_BY`` do not allow."""
    breaches = []
    for module in source.every:
        if module.short_name in ABOVE_ALL:
            continue
        walls = [wall for who, names in FORBIDDEN.items() if _lies_in(module.short_name, who) for wall in names]
        walls += [what for what, who in ONLY_BY.items() if module.package not in who]
        walls = [f"{PRODUCT}.{wall}" for wall in walls]
        walls += [library for library, who in LIBRARIES_ONLY_BY.items() if module.package not in who]
        for one in source.imports(module):
            if any(_lies_in(one.target, wall) for wall in walls):
                breaches.append(f"{module.short_name}:{one.line} imports {one.target}")
    return breaches


def impurities(source: Source) -> list[str]:
    """What modules of ``PURE`` import that is not pure, and where they read the clock."""
    breaches = []
    for module in source.every:
        if not any(_lies_in(module.short_name, name) for name in PURE):
            continue
        for one in source.imports(module):
            if one.target.partition(".")[0] in IMPURE:
                breaches.append(f"{module.short_name}:{one.line} imports {one.target}")
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute) and node.attr in CLOCKS:
                breaches.append(f"{module.short_name}:{node.lineno} reads the clock: {ast.unparse(node)}")
    return breaches


def relative_imports(source: Source) -> list[str]:
    return [
        f"{module.short_name}:{one.line}"
        for module in source.every
        for one in source.imports(module)
        if one.kind == "relative"
    ]


def _lies_in(name: str, whole: str) -> bool:
    return name == whole or name.startswith(whole + ".")
