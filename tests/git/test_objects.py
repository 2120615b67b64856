"""Git objects of a store, read, written and spliced as git itself does it, in both object formats."""

import contextlib
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from project import Project

from goalseek.git.location import checked_out_refs, locate
from goalseek.git.merge import Conflicts, merge_trees
from goalseek.git.objects import Entry, MissingObject, Objects, TreeReader, remove_scratch_files
from goalseek.git.repository import RefMove, RefMoved, Repository, walk_first_parents

both_formats = pytest.mark.parametrize("opened", ["sha1", "sha256"], indirect=True)


@pytest.fixture
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Project, Objects]]:
    object_format = getattr(request, "param", "sha1")
    project = Project.make(tmp_path / "repository", object_format=object_format)
    project.write({"a/b/c.txt": "deep\n", "a/b.txt": "near\n", "new\nline": "odd\n", "bad\udcff": "odd\n"})
    project.commit()
    objects = Objects(tmp_path / "tool.git", project.top / ".git" / "objects", object_format)
    yield project, objects
    objects.close()


@both_formats
def test_blobs_come_back_as_they_went_in_and_have_gits_names(opened: tuple[Project, Objects]) -> None:
    project, objects = opened
    for content in (b"", b"x", b"\0\xff\r\n", b"x" * 100_000):
        name = objects.write_bytes(content)
        assert objects.read(name) == content
        assert project.git("hash-object", "--stdin", "--no-filters", stdin=content) == name
    with pytest.raises(MissingObject):
        objects.read("f" * len(objects.zero))


@both_formats
def test_files_and_first_parents_are_those_that_git_lists(opened: tuple[Project, Objects]) -> None:
    project, objects = opened
    repository = Repository(locate(project.top), "demo")
    tree = project.git("rev-parse", "HEAD^{tree}")
    listed = project.git("ls-tree", "-r", "-z", "--name-only", "HEAD").split("\0")
    assert list(objects.files(tree)) == [name for name in listed if name]
    assert objects.tree(tree)["a"].mode == "40000"
    commits = project.git("rev-list", "--first-parent", "HEAD").splitlines()
    with contextlib.closing(repository):
        read = repository.read_commit
        assert [commit.name for commit in walk_first_parents(read, commits[0])] == commits
        assert [commit.name for commit in walk_first_parents(read, commits[0], commits[:1])] == commits[:1]


@both_formats
def test_a_splice_gives_the_tree_that_an_index_gives(opened: tuple[Project, Objects], tmp_path: Path) -> None:
    project, objects = opened
    tree = project.git("rev-parse", "HEAD^{tree}")
    blob = objects.write_bytes(b"new\n")
    edits: dict[str, Entry | None] = {
        "a/b/c.txt": None,
        "a/b/d/e.txt": Entry("100644", blob),
        "answer.json": None,
        "a.txt": Entry("100755", blob),
        "a-b": Entry("120000", blob),
        "new\nline": Entry("100644", blob),
        "z/ü/bad\udcfe": Entry("100644", blob),
    }
    spliced = objects.splice(tree, edits)
    files = {path: entry for path, entry in objects.files(tree).items() if edits.get(path, entry) is not None}
    files |= {path: entry for path, entry in edits.items() if entry is not None}
    assert objects.files(spliced) == dict(sorted(files.items(), key=lambda item: os.fsencode(item[0])))
    index = tmp_path / "index"
    objects.index(index, files)
    assert objects.git("write-tree", variables={"GIT_INDEX_FILE": str(index)}).decode().strip() == spliced
    assert project.git("fsck", "--strict", "--no-dangling") == ""
    assert objects.splice(tree, {}) == tree
    assert objects.splice(tree, {"not/there": None, "a/b.txt/below": None}) == tree
    assert objects.files(objects.splice(tree, dict.fromkeys(objects.files(tree)))) == {}


names = st.text(st.sampled_from("ab/.\udcff\nü"), min_size=1, max_size=6).filter(
    lambda name: all(part not in ("", ".", "..") for part in name.split("/"))
)


@both_formats
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=st.sets(names, max_size=6), second=st.sets(names, max_size=6))
def test_differences_of_two_trees_are_those_of_their_listings(
    opened: tuple[Project, Objects], first: set[str], second: set[str]
) -> None:
    _, objects = opened
    blobs = [objects.write_bytes(content) for content in (b"1\n", b"2\n")]
    trees = []
    for paths, blob in zip((first, second), blobs, strict=True):
        free = [path for path in paths if not any(other.startswith(path + "/") for other in paths)]
        trees.append(objects.splice(objects.write_tree({}), {path: Entry("100644", blob) for path in free}))
    before, after = (objects.files(tree) for tree in trees)
    found = {item.path: (item.before, item.after) for item in objects.differences(*trees)}
    assert found == {path: (before.get(path), after.get(path)) for path in {*before, *after}}
    assert objects.patch(*trees) == objects.git("diff-tree", "-p", "-r", "--no-renames", *trees)


def test_refs_move_all_or_none_and_only_from_where_they_should_be(project: Project) -> None:
    head = project.git("rev-parse", "HEAD")
    with Repository(locate(project.folder), "demo") as repository:
        repository.move([RefMove(repository.tip_ref, None, head), RefMove(repository.branch_ref, None, head)])
        next_one = repository.objects.write_commit(repository.tree_of(head), (head,), "next\n", 1)
        assert next_one == repository.objects.write_commit(repository.tree_of(head), (head,), "next\n", 1)
        with pytest.raises(RefMoved):
            repository.move([RefMove(repository.tip_ref, head, next_one), RefMove(repository.branch_ref, None, head)])
        assert (repository.refs().tip, repository.refs().branch) == (head, head)
        repository.move([RefMove(repository.tip_ref, head, next_one)])
        assert repository.refs().tip == next_one and not repository.refs().branch_is_checked_out


@pytest.mark.parametrize("has_reftables", [False, True])
def test_a_branch_of_another_worktree_is_checked_out(project: Project, tmp_path: Path, has_reftables: bool) -> None:
    head = project.git("rev-parse", "HEAD")
    with Repository(locate(project.folder), "demo") as repository:
        refs = (repository.tip_ref, repository.ledger_ref, repository.branch_ref)
        repository.move([RefMove(ref, None, head) for ref in refs])
        project.git("worktree", "add", "--quiet", str(tmp_path / "tree"), repository.branch)
        if has_reftables:  # HEAD tells older gits that this is none of theirs
            (repository.location.common_dir / "HEAD").write_text("ref: refs/heads/.invalid\n")
        assert (checked_out_refs(repository.location) is None) == has_reftables
        assert repository.refs().branch_is_checked_out


def test_scratch_files_of_dead_processes_go_and_those_of_living_ones_stay(opened: tuple[Project, Objects]) -> None:
    _, objects = opened
    dead = ["99999999-0", "index-99999999", "index-99999999.lock", "patched-99999999", "attributes-99999999-2.lock"]
    kept = ["mine", "mine-99999999-x", f"{os.getpid()}-7", f"index-{os.getpid()}"]
    for name in (*dead, *kept):
        (objects.scratch / name).touch()
    with objects.scratch_file("index") as own:
        own.touch()
        remove_scratch_files([objects.git_dir, objects.git_dir.with_name("gone.git")])
        assert sorted(path.name for path in objects.scratch.iterdir()) == sorted([own.name, *kept])
    assert not own.exists()


def test_scratch_files_of_a_killed_process_of_the_same_number_are_in_nobodys_way(
    opened: tuple[Project, Objects],
) -> None:
    """In a container each start has the same process ids."""
    _, objects = opened
    blob = objects.write_bytes(b"x")
    for number in range(1, 9):
        (objects.scratch / f"object-{os.getpid()}-{number}").touch()
        objects.index(objects.scratch / f"index-{os.getpid()}-{number}", {"foreign": Entry("100644", blob)})
    with contextlib.closing(Objects(objects.git_dir, objects.store, objects.object_format)) as later:
        later.write_bytes(b"later")
        with later.scratch_file("index") as index:
            later.index(index, {"own": Entry("100644", blob)})
            assert later.git("ls-files", variables={"GIT_INDEX_FILE": str(index)}) == b"own\n"


DRIVERS = {"union": ["a", "b", "c"], "run": None, "binary": None, "text": None, "unknown": None}
ODD = 'an odd [*] "name"\n\udcff/list.txt'


@pytest.mark.parametrize("path", ["list.txt", ODD])
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_merge_takes_gits_own_drivers_from_our_attributes_and_runs_no_program(
    opened: tuple[Project, Objects], tmp_path: Path, driver: str, path: str
) -> None:
    project, objects = opened
    ran = tmp_path / "ran"
    for name in ("run", "union"):
        project.git("config", f"merge.{name}.driver", f"touch {ran}; cat %B > %A")
        project.git("config", f"filter.{name}.smudge", f"touch {ran}")

    def tree(lines: str, attributes: str) -> str:
        place = f"{path.rpartition('/')[0]}/.gitattributes".removeprefix("/")
        contents = {path: lines, place: f"list.txt merge={driver} filter=run {attributes}"}
        entries = {name: Entry("100644", objects.write_bytes(text.encode())) for name, text in contents.items()}
        return objects.splice(objects.write_tree({}), entries)

    trees = tree("a\n", ""), tree("a\nb\n", "\n# ours"), tree("a\nc\n", "")
    if expected := DRIVERS[driver]:
        merged = TreeReader(objects, merge_trees(objects, *trees)).entry(path)
        assert merged and objects.read(merged.blob).decode().split() == expected
    else:
        with pytest.raises(Conflicts, match="list"):
            merge_trees(objects, *trees)
    assert not ran.exists()
    assert not list(objects.scratch.iterdir())


def test_a_large_patch_is_held_no_more_than_a_few_times(opened: tuple[Project, Objects]) -> None:
    _, objects = opened
    empty = objects.write_tree({})
    tree = objects.splice(empty, {"large": Entry("100644", objects.write_bytes(b"line\n" * 100_000))})
    tracemalloc.start()
    try:
        diff = objects.diff(empty, tree)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (diff.lines_added, len(diff.patch) > 600_000) == (100_000, True)
    assert peak < 4 * len(diff.patch)
