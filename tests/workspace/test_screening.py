"""A change that is two trees is sorted as the same change of a folder is: whatever is refused there is refused here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from project import Project, answer
from test_odd_names import ODD_KINDS
from test_planted_names import EVERYTHING, LINKS, PLANTED, TOUCHED
from test_scope_enforcement import FOREIGN_EDITS, NO_EDITS

from goalseek.disk import add_own
from goalseek.git.location import locate
from goalseek.git.objects import Entry, Objects, TreeReader
from goalseek.git.paths import SYMLINK
from goalseek.git.repository import Repository
from goalseek.manifest.tables import ScopeTable
from goalseek.workspace import screening
from goalseek.workspace.checkout import Changes, Checkout
from goalseek.workspace.scope import Scope, build_scope
from goalseek.workspace.screening import FolderFiles, Screening, gitignore_matcher, linked_instructions, screen_trees

FILES = """other.txt notes/read.md hidden/more/labels.csv out/old.txt src/ordinary/__init__.py src/ordinary/code.py lines
    src/\u00e9 src/tool.py src/old.txt src/deep/x src/code.py data/open.txt data/labels.txt AGENTS.md CLAUDE.md
    .claude/settings.json docs/house.md docs/rules/a.md src/x""".split()
THEIR_LINKS = {
    "docs/way.md": "house.md",
    "GEMINI.override.md": "docs/way.md",
    ".opencode": "docs/rules",
    "src/theirs": "../data",
    "src/round": "around",
    "src/around": "round",
    "src/out": "../../x",
}
SCOPES = {
    "wide": {**EVERYTHING, "read_only": ["src/tool.py"]},
    "narrow": {
        "writable": ["answer.json", "src/**"],
        "generated": ["out/**"],
        "hidden": ["hidden/**", "data/labels.txt"],
    },
}
STEPS = [
    *PLANTED.values(),
    *(step for step, _ in TOUCHED.values()),
    *LINKS,
    *(step for step, _ in FOREIGN_EDITS),
    *NO_EDITS,
    *(step for step, _ in ODD_KINDS if not any(part in step for part in ("mkfifo", "{top}", ".git;", "git config"))),
    "rm src/code.py; mkdir src/code.py; echo 1 > src/code.py/x",
    "rm src/theirs; mkdir src/theirs; echo 1 > src/theirs/x",
    "mkdir src/__pycache__; echo 1 > src/__pycache__/x.pyc; echo 1 > src/x.tmp; echo 1 > stray",
    "head -c 300 /dev/zero > src/flood",
    "echo 1 > src/a; echo 1 > src/b; echo 1 > src/c; echo 1 > src/d; echo 1 > src/e; echo 1 > src/f; echo 1 > src/g",
    "mv src/deep src/deeper; chmod +x src/x; ln -s x src/to",
]


@pytest.fixture
def repository(project: Project) -> Iterator[Repository]:
    project.write({**dict.fromkeys(FILES, "1\n"), ".gitignore": "*.tmp\n", "answer.json": answer(1)})
    for path, target in THEIR_LINKS.items():
        (project.top / path).symlink_to(target)
    project.commit()
    opened = Repository(locate(project.top), "demo")
    yield opened
    opened.close()


def stored(objects: Objects, root: Path, paths: Iterator[str]) -> Iterator[tuple[str, Entry]]:
    """What is at these paths, folders with all that is in them, as a tree has it."""
    for path in paths:
        file = root / path
        if file.is_symlink():
            yield path, Entry(SYMLINK, objects.write_bytes(os.fsencode(os.readlink(file))))
        elif file.is_dir():
            yield from stored(objects, root, (f"{path}/{name}" for name in os.listdir(file)))
        else:
            yield path, Entry("100755" if os.access(file, os.X_OK) else "100644", objects.write_file(file))


def both(objects: Objects, scope: Scope, folder: Checkout, snapshot: Path) -> tuple[Screening, Screening]:
    """What a step left in the folder, sorted as it stands there, and as the difference of two trees."""
    before = folder.label
    found = folder.changes()
    changed, missing, added = (tuple(sorted(paths)) for paths in (found.changed, found.missing, found.added))
    by_folder = Screening(
        folder.entries,
        FolderFiles(folder.root, objects, snapshot),
        objects,
        TreeReader(objects, before),
        scope,
        gitignore_matcher(folder.entries, objects),
        linked_instructions(folder.entries, objects, scope),
    )
    by_folder.screen(Changes(changed, missing, added))
    gone = dict.fromkeys((*changed, *missing))
    after = objects.splice(before, {**gone, **dict(stored(objects, folder.root, iter((*changed, *added))))})
    return by_folder, screen_trees(objects, scope, before, after)


@pytest.mark.parametrize("name", SCOPES)
def test_two_trees_are_sorted_as_the_same_change_of_a_folder(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(screening, "MAX_FILES", 6)
    monkeypatch.setattr(screening, "MAX_BYTES", 200)
    objects, scope = repository.objects, build_scope("", ScopeTable(**SCOPES[name]))
    tree = repository.tree_of(repository.head())
    add_own(tmp_path)
    folder = Checkout(
        tmp_path / "folder",
        tmp_path / "state",
        lambda path, entry: objects.read(entry.blob),
        objects.fill,
        {".git"}.__contains__,
    )
    folder.build(objects.visible_files(tree, scope.seen_by("agent")), tree)
    subprocess.run("git init -q; git add -A", shell=True, check=True, cwd=folder.root, timeout=120)
    refused = 0
    for step in STEPS:
        subprocess.run(step, shell=True, cwd=folder.root, capture_output=True, timeout=120)
        one, other = both(objects, scope, folder, tmp_path / "snapshot")
        folder.clean()
        sides = [(side.edits, side.out_of_scope, sorted(side.strays)) for side in (one, other)]
        assert sides[0] == sides[1], step
        assert {*one.refused} <= {*other.refused} and bool(one.refused) == bool(other.refused), step
        refused += bool(other.refused)
    assert refused > len(STEPS) // 2


def test_what_no_workspace_shows_two_trees_may_not_change_either(repository: Repository) -> None:
    objects, scope = repository.objects, build_scope("", ScopeTable(**SCOPES["wide"]))
    tree = repository.tree_of(repository.head())
    blob = Entry("100644", objects.write_bytes(b"planted"))
    for path, entry in {
        "hidden/judge.sh": blob,
        "hidden/more/labels.csv": None,
        "hidden": blob,
        ".git/config": blob,
        ".GIT": blob,
        "src/module": Entry("160000", repository.head()),
    }.items():
        screened = screen_trees(objects, scope, tree, objects.splice(tree, {path: entry}))
        assert screened.refused and not screened.edits, path
