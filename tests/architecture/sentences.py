"""Every sentence that goalseek can say, with its place, to be read in one go.

    python tests/architecture/sentences.py [FOLDER]

FOLDER is a checkout, this one by default. A string of the source counts if it has two words or more; README, guide,
prompts and templates are pages of their own and are only named.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from source import Module, Source, is_text

WORDS = re.compile(r"[A-Za-z]{2,}[,:;]? [a-zA-Z\"'`{]")
PAGES = (
    "README.md",
    "goalseek/guide/*.md",
    "goalseek/**/*.jinja",
    "goalseek/providers/prompts/*",
    "goalseek/**/*.html",
)


def sentences(module: Module) -> Iterator[tuple[int, str]]:
    """The line and text of each; what an f-string fills in is shown as the expression in braces."""
    docstrings = {id(node) for node in ast.walk(module.tree) if isinstance(node, ast.stmt) and is_text(node)}
    parts: set[int] = set()
    for node in ast.walk(module.tree):
        if id(node) in docstrings and isinstance(node, ast.Expr):
            parts.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            parts.update(id(inner) for inner in ast.walk(node) if inner is not node)
    for node in ast.walk(module.tree):
        if id(node) in parts:
            continue
        if isinstance(node, ast.JoinedStr):
            text = ast.unparse(node)[2:-1]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if WORDS.search(text):
            yield node.lineno, text


def main() -> None:
    checkout = Path(sys.argv[1]).resolve() if sys.argv[1:] else Path(__file__).resolve().parents[2]
    for module in Source(checkout).every:
        for line, text in sentences(module):
            print(f"{module.path.relative_to(checkout)}:{line}: {' '.join(text.split())}")
    for pattern in PAGES:
        for page in sorted(checkout.glob(pattern)):
            print(page.relative_to(checkout))


if __name__ == "__main__":
    main()
