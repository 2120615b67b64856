"""A tree's later looks see the names in use alone: they find what a walk of everything finds."""

import contextlib
import mmap
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from goalseek.git.objects import Entry
from goalseek.workspace.checkout import COPY, Changes, Checkout

FILES = ("a", "b", "one/c", "one/d", "one/two/e", "three/four/f")
FOLDERS = ("one", "one/two", "three", "three/four")
NEW = ("new", "one/new", "three/new/x", "three/new/y/z", "kept", "one/kept")


def make(place: Path, keep: str = "") -> Checkout:
    root = place / "tree"
    state, content = place / "state", lambda path, entry: path.encode()
    return Checkout(root, state, content, None, lambda path: path.endswith(keep or "/"))


def build(place: Path, keep: str = "") -> Checkout:
    tree = make(place, keep)
    tree.build({path: Entry(COPY, "0") for path in FILES}, "label")
    return tree


def write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("other")


def write_mapped(path: Path) -> None:
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[0] = 65


def swap(path: Path, other: Path) -> None:
    path.rename(other)
    write(path)


def act(root: Path, chance: random.Random) -> None:
    """One thing that a program does in a tree, if it can there."""
    old, folder, new = root / chance.choice(FILES), root / chance.choice(FOLDERS), root / chance.choice(NEW)
    acts: list[Callable[[], object]] = [
        lambda: old.write_text("other"),
        lambda: old.read_text(),
        lambda: write_mapped(old),
        lambda: os.truncate(old, 0),
        lambda: old.unlink(),
        lambda: old.chmod(0o755),
        lambda: old.rename(new),
        lambda: old.rename(root / "b"),
        lambda: (old.unlink(), old.mkdir()),
        lambda: (old.unlink(), old.symlink_to("nowhere")),
        lambda: write(new),
        lambda: (write(new), new.replace(old)),
        lambda: new.unlink(),
        lambda: new.symlink_to("a"),
        lambda: new.mkdir(parents=True),
        lambda: new.hardlink_to(old),
        lambda: folder.chmod(0o500),
        lambda: folder.rename(root / "moved"),
        lambda: (root / "moved").rename(folder),
        lambda: swap(folder, root / "moved"),
        lambda: list(os.walk(root)),
    ]
    with contextlib.suppress(OSError, ValueError):
        chance.choice(acts)()


def watches() -> int:
    return sum("inotify" in os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink())


def as_sets(changes: Changes) -> list[set[str]]:
    return [set(changes.changed), set(changes.missing), set(changes.added), set(changes.folders)]


@pytest.mark.parametrize("restores", [True, False])
@pytest.mark.parametrize("keep", ["", "kept"])
def test_later_looks_find_what_a_walk_finds(own: Path, restores: bool, keep: str) -> None:
    chance, tree = random.Random(f"{restores} {keep}"), build(own, keep)
    for _ in range(150):
        for _ in range(chance.randrange(4)):
            act(own / "tree", chance)
        tree.save()
        walked, found = make(own, keep=keep), Changes()
        assert walked.load()
        expected = as_sets(walked.changes())
        walked.close()
        for _ in range(2):
            found = tree.changes()
            assert as_sets(found) == expected
        if restores or chance.random() < 0.5:
            tree.restore(found)
            assert tree.changes() == Changes()
        if chance.random() < 0.2:
            tree.update(
                {"one/new": chance.choice([None, Entry(COPY, "0")]), "a": Entry(COPY, f"{chance.random()}")}, "l"
            )
    tree.close()


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Grows by one for each folder whose names are read."""
    folders, scandir = list[object](), os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: (folders.append(folder), scandir(folder))[1])
    return folders


def test_a_look_reads_no_folder_that_no_program_used(own: Path, walked: list[object]) -> None:
    tree = build(own)
    tree.clean()
    assert len(walked) == len(FOLDERS) + 1
    tree.clean()  # the walk has read files that were new
    tree.update({**tree.entries, "one/c": Entry(COPY, "1"), "one/d": None}, "later")
    (own / "tree/one/two/e").write_text("other")
    walked.clear()
    assert as_sets(tree.changes()) == [{"one/two/e"}, set(), set(), set()]
    assert len(walked) == 2


def test_a_name_that_came_or_went_costs_a_walk(own: Path, walked: list[object]) -> None:
    tree = build(own)
    tree.clean()
    other = own / "tree/one/kept"
    other.hardlink_to(own / "tree/a")
    other.write_text("other")
    other.unlink()
    walked.clear()
    assert as_sets(tree.changes()) == [{"a"}, set(), set(), set()]
    assert len(walked) == len(FOLDERS) + 1


@pytest.mark.parametrize(
    ("broken", "answer"),
    [
        ("goalseek.workspace.watch.Watch.read", {}),
        ("goalseek.workspace.watch.Watch.add", False),
        ("goalseek.workspace.watch.Watch.add", True),
        ("ctypes.CDLL", None),
    ],
)
def test_without_a_report_of_our_own_writes_each_look_is_a_walk(
    own: Path, walked: list[object], monkeypatch: pytest.MonkeyPatch, broken: str, answer: object
) -> None:
    monkeypatch.setattr(broken, lambda *given: answer)
    tree = build(own)
    for blob in "123":
        tree.clean()
        tree.update({"one/c": Entry(COPY, blob)}, "later")
        (own / "tree/one/two/e").write_text("other")
        walked.clear()
        assert as_sets(tree.changes()) == [{"one/two/e"}, set(), set(), set()]
        assert len(walked) == len(FOLDERS) + 1


def test_a_closed_tree_gives_its_watch_back(own: Path) -> None:
    before, tree = watches(), build(own)
    tree.clean()
    assert watches() == before + 1
    tree.close()
    assert watches() == before
