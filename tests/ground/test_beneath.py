"""Whatever stands in a path's place, nothing is removed or written outside of goalseek's own folders."""

import ast
import contextlib
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from goalseek import disk
from goalseek.disk import ForeignPath
from goalseek.errors import GoalseekError
from goalseek.git.objects import Entry, remove_scratch_files
from goalseek.ledger.artifacts import clear_attempts
from goalseek.locks import LOCK, project_lock
from goalseek.measurement.measure import move_outputs, open_once_files
from goalseek.measurement.metric import RunFolder
from goalseek.phase_values import Plan
from goalseek.project.approval import approval_file
from goalseek.project.stop import take_stop_request
from goalseek.providers.scripted import ScriptedProvider
from goalseek.sandbox.bubblewrap import _make_mount_point
from goalseek.sandbox.home import AgentHome
from goalseek.sandbox.landlock import _link_from_home
from goalseek.sandbox.view import Mount, View, build_view
from goalseek.workspace.checkout import LINK, Checkout

INSIDE = "tree/a/b/c"
PACKAGE = Path(disk.__file__).parent


REMOVES_BY_EXACT_NAMES = (
    "disk cli.commands.skill git.as_user git.packing git.repository project.opening sandbox.reaper".split()
)
ADDS_TO_THE_LIST = "disk project.opening git.repository git.objects project.config git.as_user sandbox.level cli.commands.show proposal.drive cluster.worker evaluation.verify".split()


def tree_of(folder: Path) -> Checkout:
    """A checkout at ``folder / "tree"`` that stands as its entry says."""
    tree = Checkout(folder / "tree", folder / "tree.state", lambda path, entry: b"ours")
    tree.build({"a/b/c/x": Entry("100644", "0")}, "label")
    return tree


def view_of(home: Path, shown: Path, at: Path) -> View:
    seen = Mount(home, Path("/home/agent"), writable=True)
    return View(tree=seen, home=seen, temporary=seen, shown=(Mount(shown, at),))


def source_in(folder: Path) -> Path:
    (folder / "source" / "x").mkdir(parents=True)
    (folder / "source" / "x" / "mine").write_text("ours")
    return folder / "source"


def put(folder: Path, name: str) -> None:
    with disk.own_folder(folder / "tree") as opened:
        for inside in ("a/b/c/empty", "a/b/c"):
            with contextlib.suppress(OSError):
                made = getattr(opened, name)(inside, *{"create": (0o600,), "link": ("/elsewhere",)}.get(name, ()))
                if made is not None:
                    made.close()


def play(folder: Path) -> None:
    (folder / "moves.toml").write_text(f"[[move]]\ntitle = 'a move'\nfiles = {{ '{INSIDE}/mine' = 'ours' }}\n")
    table: Any = SimpleNamespace(script="moves.toml", model="", name="scripted")
    call: Any = SimpleNamespace(folder=folder, context=SimpleNamespace(attempt=0, played=None))
    ScriptedProvider(table, folder).apply(call, Plan("a move", "", ()))


ACTS: dict[str, Callable[[Path], object]] = {
    "remove": lambda own: disk.remove(own / INSIDE),
    "clear": lambda own: disk.remove_if_exists(own / INSIDE),
    "clear a file": lambda own: disk.remove_if_exists(own / INSIDE / "mine"),
    "empty": lambda own: disk.empty(own / INSIDE),
    "make_anew": lambda own: disk.recreate_folder(own / INSIDE),
    "create": lambda own: disk.create(own / INSIDE, 0o600).close(),
    "create below": lambda own: disk.create(own / INSIDE / "mine", 0o600).close(),
    "open, remove": lambda own: put(own, "remove"),
    "open, remove_if_empty": lambda own: put(own, "remove_if_empty"),
    "open, create": lambda own: put(own, "create"),
    "open, link": lambda own: put(own, "link"),
    "copy_tree to": lambda own: disk.copy_tree(source_in(own), own / INSIDE),
    "copy_tree from": lambda own: disk.copy_tree(own / INSIDE, own / "copy"),
    "take": lambda own: disk.copy_regular_files(source_in(own), own / INSIDE),
    "run folder made": lambda own: RunFolder.make(own / INSIDE),
    "home made": lambda own: AgentHome(own / INSIDE).make("label", {"x/mine": (own, own)}, {"mine": "ours"}),
    "home of before": lambda own: AgentHome(own / "tree").make("label", {}, {"a/b/c/mine": "ours"}),
    "furnish": lambda own: build_view(own, own, own / INSIDE),
    "once": lambda own: open_once_files(SimpleNamespace(commands=[SimpleNamespace(once=True)]), own / INSIDE, "1"),  # type: ignore[arg-type]
    "attempts": lambda own: clear_attempts(own / INSIDE),
    "outputs": lambda own: move_outputs(own / "none", own / INSIDE),
    "scratch files": lambda own: remove_scratch_files([own / INSIDE]),
    "script": play,
    "word": lambda own: disk.remove_if_exists(approval_file(own / INSIDE, 1)),
    "stop": lambda own: take_stop_request(own / INSIDE),
    "mount point": lambda own: _make_mount_point(own / INSIDE / "new", is_folder=True),
    "cache": lambda own: _link_from_home(view_of(own / "tree", own / "other", Path("/home/agent/a/b/c/new"))),
}
ON_A_CHECKOUT: dict[str, Callable[[Checkout], object]] = {
    "build": lambda tree: tree.build({"a/b/c/mine": Entry("100644", "1")}, "other"),
    "bring, new": lambda tree: tree.update({"a/b/c/mine": Entry("100644", "1")}, "other"),
    "bring, gone": lambda tree: tree.update({"a/b/c/x": None}, "other"),
    "lay": lambda tree: tree.overlay({"a/b/c/mine": Entry("120000", "1"), "a/b/c/x": None}),
    "clean": lambda tree: tree.clean(),
}


def precious_in(folder: Path) -> Path:
    """A folder of the user's that has something wherever a path may lead that goes through a link to it."""
    precious = folder / "precious"
    for inside in (".", "c", "b/c", "a/b/c"):
        for name in ("empty", "attempts", "outputs", "home", "tmp", "scratch"):
            (precious / inside / name).mkdir(parents=True, exist_ok=True)
        for name in ("x", "mine", "home/mine", "scratch/99999999-0", "word-1.json", "stop.json", "attempts/mine"):
            (precious / inside / name).write_text("mine")
    for path in (precious, *precious.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    return precious


def facts(folder: Path) -> dict[str, tuple[object, ...]]:
    """All that there is to know of a folder: names, kinds, modes, contents."""
    found: dict[str, tuple[object, ...]] = {}
    for path in (folder, *folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(folder))] = (status.st_mode, status.st_ino, status.st_mtime_ns, content)
    return found


def put_link(own: Path, depth: int, precious: Path) -> Path:
    """A link to what is the user's, in the place of a part of the path."""
    place = own.joinpath(*Path(INSIDE).parts[: depth + 1])
    place.parent.mkdir(parents=True, exist_ok=True)
    disk.remove_if_exists(place)
    place.symlink_to(precious)
    return place


@pytest.mark.parametrize("act", [*ACTS, *ON_A_CHECKOUT])
def test_nothing_goes_through_a_link(act: str, tmp_path: Path) -> None:
    for depth in range(4):
        own, precious = tmp_path / f"own-{depth}", precious_in(tmp_path / f"users-{depth}")
        disk.add_own(own)
        do = partial(ON_A_CHECKOUT[act], tree_of(own)) if act in ON_A_CHECKOUT else partial(ACTS[act], own)
        place = put_link(own, depth, precious)
        before = facts(precious)
        with contextlib.suppress(OSError):
            do()
        assert facts(precious) == before, depth
        if act == "build" or (act == "clean" and depth):
            assert not place.is_symlink() and (own / "tree/a/b/c" / ("x" if act == "clean" else "mine")).is_file()


def test_an_entry_that_leads_out_of_its_tree_is_a_bug_that_costs_nothing(own: Path) -> None:
    precious = precious_in(own)
    before = facts(precious)
    for path in (str(precious), "../precious", "a/../../precious", "./a", "a//b", ""):
        for mode in (LINK, "100644"):
            tree = tree_of(own)
            entries = {path: Entry(mode, str(precious))}
            for act in (tree.build, tree.update, lambda wanted, label, tree=tree: tree.overlay(wanted)):
                with pytest.raises(ForeignPath):
                    act(entries, "label")
            with pytest.raises(ForeignPath):
                tree.overlay({path: None})
    assert facts(precious) == before


@pytest.mark.parametrize("order", [("data", "data/x"), ("data/x", "data")])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_file_below_a_link_is_a_bug_that_costs_nothing(order: tuple[str, str], is_new: bool, tmp_path: Path) -> None:
    own, precious = tmp_path / "own", precious_in(tmp_path)
    disk.add_own(own)
    entries = {"data": Entry(LINK, str(precious)), "data/x": Entry("100644", "1")}
    tree, before = tree_of(own), facts(precious)
    first, second = ({path: entries[path]} for path in order)
    with pytest.raises(ForeignPath):
        if is_new:
            tree.build({**first, **second}, "label")
        else:
            tree.update(first, "label")
            tree.update(second, "label")
    tree.clean()
    assert facts(precious) == before


def test_a_home_that_became_a_link_to_the_users_costs_no_login(own: Path) -> None:
    precious = precious_in(own)
    home = AgentHome(own / "agent")
    home.make("label", {"mine": (precious / "mine", precious / "mine")}, {})
    disk.remove(home.path)
    home.path.symlink_to(precious)
    before = facts(precious)
    assert home.collect_renewed_logins() == [] and not home.is_of("label")
    home.make("label", {"mine": (precious / "mine", precious / "mine")}, {"x": "ours"})
    assert facts(precious) == before and (home.path / "x").read_text() == "ours"


@pytest.mark.parametrize("path", ["elsewhere", "own", "own/../elsewhere", "own/a/..", "ownelse/x"])
def test_what_is_not_below_a_folder_of_the_list_is_not_removed(path: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "own" / "a").mkdir(parents=True)
    (tmp_path / "ownelse" / "x").mkdir(parents=True)
    disk.add_own(tmp_path / "own")
    before = facts(tmp_path)
    for act in (disk.remove, disk.remove_if_exists, disk.recreate_folder, lambda path: disk.create(path, 0o600)):
        with pytest.raises(ForeignPath):
            act(Path(f"{tmp_path}/{path}"))
    with pytest.raises(ForeignPath):
        disk.remove_own(tmp_path / "own" / "a")
    assert facts(tmp_path) == before
    disk.remove_own(tmp_path / "own")
    assert not (tmp_path / "own").exists()


def test_another_thread_may_add_a_folder_while_one_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ComparedSlowly(str):
        def __format__(self, spec: str) -> str:
            disk.add_own(tmp_path / "other")
            return str(self)

    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.setattr(disk, "_OWN", {ComparedSlowly(own): str(own)})
    with disk.own_folder(own) as folder:
        assert folder.descriptor


def test_the_folder_itself_may_be_reached_through_links_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "disk" / "cache").mkdir(parents=True)
    (tmp_path / ".cache").symlink_to(tmp_path / "disk" / "cache")
    disk.add_own(tmp_path / ".cache" / "project")
    disk.create(tmp_path / ".cache" / "project" / "a" / "b", 0o600).close()
    assert (tmp_path / "disk/cache/project/a/b").is_file()
    disk.remove(tmp_path / ".cache" / "project" / "a")
    assert list((tmp_path / "disk/cache/project").iterdir()) == []


def test_nobody_else_removes_or_adds_to_the_list_which_says_so() -> None:
    removers, adders = set(), set()
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        if not re.search(r"unlink|rmdir|rmtree|removedirs|os\.remove|os\.renames|add_own", text):
            continue
        nodes, name = list(ast.walk(ast.parse(text))), ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        removers |= {name for node in nodes if isinstance(node, ast.Attribute) and is_removal(node)}
        adders |= {name for node in nodes if isinstance(node, ast.Name) and node.id == "add_own"}
    assert removers == {*REMOVES_BY_EXACT_NAMES} and adders <= set(ADDS_TO_THE_LIST)
    listed = [*ADDS_TO_THE_LIST[1:], *REMOVES_BY_EXACT_NAMES[1:]]
    assert [name for name in listed if name not in (disk.__doc__ or "")] == []
    assert [name for name in listed if not (PACKAGE / f"{name.replace('.', '/')}.py").exists()] == []


def is_removal(node: ast.Attribute) -> bool:
    return node.attr in ("unlink", "rmdir", "rmtree", "removedirs") or ast.unparse(node) in ("os.remove", "os.renames")


def test_a_lock_that_was_removed_while_somebody_waited_for_it_is_taken_anew(own: Path) -> None:
    folder = own / "goalseek" / "demo"
    with project_lock(folder):
        stale = os.open(folder / LOCK, os.O_RDWR)
        disk.remove_if_exists(folder / LOCK)
        folder.rmdir()
    opened = [stale]

    def reopen(path: Any, *arguments: Any, **named: Any) -> int:
        return opened.pop() if opened else usual(path, *arguments, **named)

    usual = os.open
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", reopen)
        taking = project_lock(folder)
        taking.__enter__()
    try:
        assert (folder / LOCK).is_file(), "who opened the file before holds one that others can see"
        with pytest.raises(GoalseekError, match="another run is at work"), project_lock(folder):
            pass
    finally:
        taking.__exit__(None, None, None)
