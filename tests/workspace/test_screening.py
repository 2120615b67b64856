"""The screening of a change: every refusal and its reason, alike for a folder and for the difference of two trees."""

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from project import Project, Projects, answer

from goalseek.disk import add_own
from goalseek.git.location import locate
from goalseek.git.objects import Entry, TreeReader
from goalseek.git.paths import SYMLINK
from goalseek.git.repository import Repository
from goalseek.manifest.tables import ScopeTable
from goalseek.workspace import screening
from goalseek.workspace.checkout import Changes, Checkout
from goalseek.workspace.scope import build_scope
from goalseek.workspace.screening import FolderFiles, Screening, gitignore_matcher, linked_instructions, screen_trees

FILES = """other.txt notes/read.md hidden/judge.sh hidden/more/labels.csv out/old.txt src/ordinary/__init__.py
    src/ordinary/code.py lines src/\u00e9 src/tool.py src/old.txt src/deep/x src/code.py data/open.txt data/labels.txt
    AGENTS.md CLAUDE.md .claude/settings.json docs/house.md docs/rules/a.md src/x""".split()
LINKS = {
    "docs/way.md": "house.md",
    "GEMINI.override.md": "docs/way.md",
    ".opencode": "docs/rules",
    "src/theirs": "../data",
    "src/round": "around",
    "src/around": "round",
    "src/out": "../../x",
}
SCOPES: dict[str, dict[str, Any]] = {
    "wide": {"writable": ["**", "!hidden"], "hidden": ["hidden/**"], "read_only": ["src/tool.py"]},
    "narrow": {
        "writable": ["answer.json", "src/**"],
        "generated": ["out/**"],
        "hidden": ["hidden/**", "data/labels.txt"],
    },
}
NEW_NAMES = "conftest.py sitecustomize.py x.pth x.pyc .gitattributes .gitmodules random.py src/\u0065\u0301".split()
NAMES = {  # steps, and the name that the refusal has
    **{f"touch {name}": name for name in NEW_NAMES},
    "mkdir tests; touch tests/pytest.ini": "tests/pytest.ini",
    "mkdir nested; cd nested; git init -q; touch x": "nested/.git/HEAD",
    "mkdir module; echo gitdir: ../.git > module/.git": "module/.git",
    "git mv src/ordinary src/json": "src/json/__init__.py",
    "mv src/ordinary/code.py src/ordinary/conftest.py": "src/ordinary/conftest.py",
    "mkdir src/tool; touch src/tool/__init__.py": "src/tool/__init__.py",
    "rm lines; mkdir lines; touch lines/conftest.py": "lines",
    "ln -s src/ordinary json": "json",
    "ln -s answer.json json.py": "json.py",
    "ln -s ../../x out2": "out2",
    "ln -s src src/up; ln -s src/../../x under": "under",
    "mkdir Hidden; touch Hidden/x": "Hidden",
    "cp answer.json ANSWER.json": "ANSWER.json",
    "cp answer.json 'answer.json. '": "answer.json. ",
    "mkdir hidden.; touch hidden./x": "hidden.",
    "touch twice Twice": "twice",
    "ln -s /etc/passwd src/away": "src/away",
    "mkdir -p src/.GIT; echo x > src/.GIT/config": "src/.GIT/config",
    "echo x > src/git~1": "src/git~1",
}
INSTRUCTIONS = {
    "echo 2 >> AGENTS.md": "AGENTS.md",
    "chmod +x AGENTS.md": "AGENTS.md",
    "rm CLAUDE.md": "CLAUDE.md",
    "rm -r .claude": ".claude",
    "rm -r .claude; touch .claude": ".claude",
    "rm -r .claude; ln -s src .claude": ".claude",
    "rm AGENTS.md; mkdir AGENTS.md; touch AGENTS.md/x": "AGENTS.md",
    "rm AGENTS.md; ln -s src/x AGENTS.md": "AGENTS.md",
    "mv AGENTS.md agents.md": "agents.md",
    "mv AGENTS.md src/": "src/AGENTS.md",
    "touch src/GEMINI.md": "GEMINI.md",
    "ln -s src/x GEMINI.md": "GEMINI.md",
    "touch .claude/settings.local.json": ".claude",
    "echo 2 >> docs/house.md": "GEMINI.override.md is a link to it",
    "touch docs/rules/new.md": ".opencode is a link to it",
    "ln -sf ../src/x docs/way.md": "GEMINI.override.md is a link to it",
}
TARGETS = "hidden hidden/judge.sh data data/open.txt nothing".split()
NOT_THE_CANDIDATES = {
    **{f"ln -s ../{target} src/l": f"src/l is a link to {target}" for target in TARGETS},
    "ln -s .. src/l": "src/l is a link to .,",
    "ln -s theirs src/l": "src/l is a link to data",
    "ln -s ../src/theirs/labels.txt src/l": "src/l is a link to data/labels.txt",
    "ln -s round src/l": "src/l is a link that leaves the tree, or leads in a circle",
    "ln -s out src/l": "src/l is a link that leaves the tree, or leads in a circle",
    "ln -sfn ../hidden src/theirs": "src/theirs is a link to hidden",
    "mkdir src/new; ln -s ../../hidden src/new/l": "src/new/l is a link to hidden",
    "rm notes/read.md": "notes/read.md",
    "mkdir hidden; echo 2 > hidden/labels.csv": "hidden/labels.csv",
    "echo '*' >> .gitignore": ".gitignore",
    "rm -r notes; ln -s /etc notes": "notes",
    "rm other.txt; mkdir other.txt; echo 1 > other.txt/x": "other.txt",
    "chmod +x other.txt": "other.txt is outside scope.writable",
    "head -c 300 /dev/zero > src/flood": "src/flood: with its 300 bytes the change is larger than 0 MiB",
    "for n in 1 2 3 4 5 6 7; do echo 1 > src/$n; done": "the change has more than 6 files",
}
OTHERS = (  # steps that some scope allows
    "touch other.txt",
    "cp other.txt copy.txt; mv copy.txt other.txt; chmod 600 other.txt",
    "echo new > out/old.txt; echo more > out/new.txt",
    "rm src/code.py; mkdir src/code.py; echo 1 > src/code.py/x",
    "rm src/theirs; mkdir src/theirs; echo 1 > src/theirs/x",
    "mkdir src/__pycache__; echo 1 > src/__pycache__/x.pyc; echo 1 > src/x.tmp; echo 1 > stray",
    "mv src/deep src/deeper; chmod +x src/x; ln -s x src/to",
    "mkdir src/inner; cd src/inner; git init -q; echo x > file",
    "mkdir src/deep; chmod 000 src/deep",
    "rm -r src; ln -s hidden src",
)
EXPECTED = {"wide": {**NAMES, **INSTRUCTIONS}, "narrow": NOT_THE_CANDIDATES}


class StepFolder:
    """A folder that shows a tree, in which shell steps are run and screened."""

    def __init__(self, project: Project, place: Path, **scope: Any) -> None:
        self.repository = Repository(locate(project.top), "demo")
        self.objects = objects = self.repository.objects
        self.scope = build_scope("", ScopeTable(**scope))
        self.tree, self.snapshot = self.repository.tree_of(self.repository.head()), place / "snapshot"
        add_own(place)
        self.checkout = Checkout(
            place / "folder",
            place / "state",
            lambda path, entry: objects.read(entry.blob),
            objects.fill,
            {".git"}.__contains__,
        )
        self.checkout.build(objects.visible_files(self.tree, self.scope.seen_by("agent")), self.tree)
        subprocess.run("git init -q; git add -A", shell=True, check=True, cwd=self.checkout.root, timeout=120)

    def screen(self, step: str) -> Screening:
        """What a step does to the folder, sorted as it stands there and as the difference of two trees."""
        subprocess.run(step, shell=True, cwd=self.checkout.root, capture_output=True, timeout=120)
        objects, scope, entries, found = self.objects, self.scope, self.checkout.entries, self.checkout.changes()
        changed, missing, added = (tuple(sorted(paths)) for paths in (found.changed, found.missing, found.added))
        screened = Screening(
            entries,
            FolderFiles(self.checkout.root, objects, self.snapshot),
            TreeReader(objects, self.tree),
            scope,
            gitignore_matcher(entries, objects),
            linked_instructions(entries, objects, scope),
        )
        screened.screen(Changes(changed, missing, added))
        edits = {**dict.fromkeys((*changed, *missing)), **dict(self._store((*changed, *added)))}
        other = screen_trees(objects, scope, self.tree, objects.splice(self.tree, edits))
        self.checkout.clean()
        sides = [(side.edits, side.out_of_scope, sorted(side.strays)) for side in (screened, other)]
        assert sides[0] == sides[1], step
        assert {*screened.refused} <= {*other.refused} and bool(screened.refused) == bool(other.refused), step
        return screened

    def _store(self, paths: tuple[str, ...]) -> Iterator[tuple[str, Entry]]:
        """What is at these paths, folders with all that is in them, as a tree has it."""
        for path in paths:
            file = self.checkout.root / path
            if file.is_symlink():
                yield path, Entry(SYMLINK, self.objects.write_bytes(os.fsencode(os.readlink(file))))
            elif file.is_dir():
                yield from self._store(tuple(f"{path}/{name}" for name in os.listdir(file)))
            else:
                mode = "100755" if os.access(file, os.X_OK) else "100644"
                yield path, Entry(mode, self.objects.write_bytes(file.read_bytes()))


@pytest.fixture
def make_folder(make_project: Projects, tmp_path: Path) -> Iterator[Callable[..., StepFolder]]:
    folders: list[StepFolder] = []

    def make(files: Mapping[str, str], links: Mapping[str, str], **scope: Any) -> StepFolder:
        project = make_project(files={"answer.json": answer(1), **files})
        for path, target in links.items():
            (project.top / path).symlink_to(target)
        project.commit()
        folders.append(StepFolder(project, tmp_path / "folder", **scope))
        return folders[-1]

    yield make
    for folder in folders:
        folder.repository.close()


@pytest.mark.parametrize("name", SCOPES)
def test_refusals_say_why_alike_for_a_folder_and_for_two_trees(
    make_folder: Callable[..., StepFolder], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(screening, "MAX_FILES", 6)
    monkeypatch.setattr(screening, "MAX_BYTES", 200)
    folder = make_folder({**dict.fromkeys(FILES, "1\n"), ".gitignore": "*.tmp\n"}, LINKS, **SCOPES[name])
    for step, why in EXPECTED[name].items():
        refused = "\n".join(folder.screen(step).refused)
        assert why in refused, step
        assert step not in INSTRUCTIONS or "in scope.writable if it is wanted" in refused, step
    for step in OTHERS:
        folder.screen(step)


ALLOWED = {
    "ordinary work": (
        ["**", "!hidden"],
        {
            "mkdir src/pkg tests; touch src/a.py src/pkg/__init__.py src/pkg/types.py tests/test_x.py": (
                "src/a.py src/pkg/__init__.py src/pkg/types.py tests/test_x.py"
            ),
            "mkdir -p src/x.egg-info src/__pycache__; touch src/x.egg-info/PKG-INFO src/__pycache__/conftest.pyc": "",
            "mv src/Foo.py src/foo.py; ln -s ../answer.json src/link": "src/Foo.py src/foo.py src/link",
            "echo 2 > conftest.py; echo 2 > random.py; chmod +x random.py": "conftest.py random.py",
            "touch AGENTS.md; cp CLAUDE.md x; cp x CLAUDE.md; rm x; touch .aider.chat.history.md": "",
        },
    ),
    "links to what is the candidate's": (
        ["answer.json", "src/**"],
        {
            "ln -s Foo.py src/a; ln -s deep src/b; ln -s ../src/later src/c; ln -s a src/d; touch src/out.py": (
                "src/a src/b src/c src/d src/out.py"
            ),
        },
    ),
    "names that the manifest lists": (
        """** AGENTS.md CLAUDE.md .claude/** docs/house.md CLAUDE.local.md GEMINI.local.md new/conftest.py *.ini
        !hidden""".split(),
        {
            "echo 2 >> AGENTS.md; rm CLAUDE.md; touch .claude/x new.py; echo 2 >> docs/house.md": (
                ".claude/x AGENTS.md CLAUDE.md docs/house.md new.py"
            ),
            "touch docs/three.md": "docs/three.md",
            "mkdir new; touch new/conftest.py": "new/conftest.py",
            "touch src/tox.ini": None,
            "rm GEMINI.md": None,
            "touch docs/two.md": None,  # of two links to it one is not listed
        },
    ),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_these_edits_and_no_others_are_taken(make_folder: Callable[..., StepFolder], name: str) -> None:
    writable, steps = ALLOWED[name]
    files = (
        "src/Foo.py conftest.py random.py src/deep/x AGENTS.md CLAUDE.md .claude/settings.json docs/house.md".split()
    )
    links = {"AGENTS.override.md": "two.md", "CLAUDE.local.md": "two.md", "GEMINI.local.md": "three.md"}
    links = {path: f"docs/{target}" for path, target in {**links, "GEMINI.md": "house.md"}.items()}
    texts = {**dict.fromkeys(files, "1\n"), ".gitignore": "*.egg-info/\n"}
    folder = make_folder(texts, links, writable=writable, hidden=["hidden/**"])
    for step, edits in steps.items():
        screened = folder.screen(step)
        assert (sorted(screened.edits), screened.refused) == ((edits or "").split(), []) or edits is None, step
        assert bool(screened.refused) == (edits is None), step


def test_two_trees_may_not_change_what_no_workspace_shows(make_folder: Callable[..., StepFolder]) -> None:
    folder = make_folder(
        {"hidden/judge.sh": "1\n", "hidden/labels.csv": "1\n"}, {"link": "answer.json"}, **SCOPES["wide"]
    )
    blob = Entry("100644", folder.objects.write_bytes(b"planted"))
    for path, entry in {
        "hidden/judge.sh": blob,
        "hidden/labels.csv": None,
        "hidden": blob,
        ".git/config": blob,
        ".GIT": blob,
        "src/module": Entry("160000", folder.repository.head()),
    }.items():
        screened = screen_trees(
            folder.objects, folder.scope, folder.tree, folder.objects.splice(folder.tree, {path: entry})
        )
        assert screened.refused and not screened.edits, path
