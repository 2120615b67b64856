"""A climb whose number is a sum over files of its own for each change, so that git can take any of them out again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from project import Project

SUM = """\
cat parts/*.txt > "$HOME/sum" || exit 4
score=$(awk '{ score += $1 } END { print score }' "$HOME/sum")
echo "$score" >> "$HOME/measured"
case $score in *13*) exit 5;; esac
echo "{\\"score\\": $score, \\"size\\": $(cat parts/*.txt | wc -l)}" > "$GOALSEEK_RUN_DIR/metrics.json"
"""
FILES = {
    "hidden/judge.sh": SUM,
    "parts/a.txt": "1\n",
    "parts/b.txt": "1\n",
    "parts/c.txt": "1\n",
    "other.txt": "fixed\n",
}
SCOPE = {"scope": {"writable": ["parts/**"], "hidden": ["hidden/**"]}}


def part(name: str, score: object, title: str = "") -> dict[str, Any]:
    """A move that writes one of the files."""
    return {"title": title or f"{name} is {score}", "files": {f"parts/{name}.txt": f"{score}\n"}}


MOVES = part("a", 2), part("b", 3), part("c", 0), part("c", 5)


def climb(top: Path, *moves: Mapping[str, Any], **tables: Any) -> Project:
    """A climb that has played these moves, each an iteration."""
    project = Project.make(top, FILES, {**SCOPE, **tables})
    project.set_moves(*moves)
    project.check("iterate", "-n", str(len(moves)))
    return project


def three(top: Path) -> Project:
    """Iterations 1, 2 and 4 are kept, each in a file of its own."""
    return climb(top, *MOVES)


def parts(project: Project, revision: str) -> list[str]:
    """The first lines of the files a, b and c at a revision."""
    return [project.git("show", f"{revision}:parts/{name}.txt").partition("\n")[0] for name in "abc"]
