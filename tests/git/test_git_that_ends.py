"""A git process that ends under our hands: said as what it is, never taken for an answer or for somebody's doing."""

import os
import time
from collections.abc import Iterator

import pytest
from project import Project, until

from goalseek import process
from goalseek.errors import GoalseekError
from goalseek.git.location import locate
from goalseek.git.merge import Conflicts, merge_trees
from goalseek.git.objects import Entry, MissingObject, ObjectsFailed
from goalseek.git.repository import RefMove, RefMoved, Repository


@pytest.fixture
def repository(project: Project) -> Iterator[Repository]:
    with Repository(locate(project.top), "demo") as made:
        made.own.mkdir(parents=True)
        yield made


def test_before_it_was_asked_and_in_the_middle_of_a_blob(repository: Repository) -> None:
    objects = repository.objects
    content = b"first" * 2**14  # too large to be remembered
    blob = objects.write_bytes(content)
    assert objects.read(blob) == content
    for child in objects._processes.open.values():
        child.kill()
        child.wait(timeout=120)
    with pytest.raises(ObjectsFailed, match="cat-file ended"):
        objects.read(blob)
    assert objects.read(blob) == content
    answers = "read name; printf 'abc blob 100\\nonly a part'"
    pretended = process.start_batch(["sh", "-c", answers], dict(os.environ), objects.git_dir)
    objects.close()
    objects._processes.open["cat-file", "--batch"] = pretended
    with pytest.raises(ObjectsFailed, match="cat-file ended"):
        objects.read("abc")


def test_refs_that_are_where_they_were_are_nobodys_doing(repository: Repository) -> None:
    head = repository.head()
    move = RefMove(repository.tip_ref, None, head)
    repository.add_flight(1, 1, head)
    updater = repository._processes.open["update-ref", "--stdin"]
    updater.kill()
    updater.wait(timeout=120)
    with pytest.raises(GoalseekError, match="git cannot move"):
        repository.move([move])
    repository.move([move])
    other = repository.objects.write_commit(repository.tree_of(head), (head,), "another\n", 0)
    with pytest.raises(RefMoved):
        repository.move([RefMove(move.ref, None, other)])


def test_refs_that_it_moved_before_it_could_say_so_are_moved(repository: Repository, project: Project) -> None:
    head = repository.head()
    project.git("update-ref", repository.tip_ref, head)
    pretended = process.start_batch(["sh", "-c", "read line"], dict(os.environ), project.top)
    repository._processes.open["update-ref", "--stdin"] = pretended
    repository.move([RefMove(repository.tip_ref, None, head)])
    assert repository.refs().tip == head


def test_packed_refs_that_became_old_under_git_are_read_afresh(repository: Repository, project: Project) -> None:
    """Two changes of that file within a second look like one: what a ``git gc`` beside a climb may bring about."""
    head = repository.head()
    tree = repository.tree_of(head)
    second, third = (repository.objects.write_commit(tree, (head,), f"{name}\n", 0) for name in ("second", "third"))
    packed = project.top / ".git/packed-refs"
    project.git("update-ref", repository.tip_ref, head)
    project.git("pack-refs", "--all")
    until(lambda: time.time() % 1 < 0.3)
    packed.write_text(packed.read_text())
    repository.move([RefMove(repository.branch_ref, None, head)])
    with packed.open("r+") as file:  # in place
        content = file.read().replace(f"{head} {repository.tip_ref}", f"{second} {repository.tip_ref}")
        file.seek(0)
        file.write(content)
    repository.move([RefMove(repository.tip_ref, second, third)])
    assert repository.refs().tip == third


def test_what_was_written_a_short_while_ago_comes_back_and_what_is_old_is_forgotten(
    repository: Repository, project: Project
) -> None:
    objects, store = repository.objects, project.top / ".git/objects"
    blob = objects.write_bytes(b"in no commit")
    tree = objects.write_tree({"name": Entry("100644", blob)})
    kept = objects.write_bytes(b"to be packed")
    assert objects.write_bytes(b"to be packed") == kept
    project.git("gc", "--quiet", "--prune=now")
    assert not (store / blob[:2] / blob[2:]).exists()
    assert objects.read(blob) == b"in no commit" and objects.has(tree) and objects.has(kept)
    objects.bring_back()
    project.git("fsck", "--strict")
    recent = repository.own / "recent"
    assert {path.parent.name + path.name for path in recent.glob("*/*")} == {blob, tree, kept}
    project.git("pack-objects", "-q", str(store / "pack/pack"), stdin=kept.encode())
    (store / kept[:2] / kept[2:]).unlink()
    os.utime(store / blob[:2] / blob[2:], (1, 1))
    objects.bring_back()
    assert (recent / blob[:2] / blob[2:]).exists(), "an iteration may go on after years"
    objects.bring_back(is_forgetting=True)
    assert {path.parent.name + path.name for path in recent.glob("*/*")} == {tree, kept}
    assert (store / kept[:2] / kept[2:]).exists(), "a pack may go as well"


def test_an_old_object_of_another_account_is_written_anew(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would be forgotten before a ref names it."""
    objects = repository.objects
    blob = objects.write_bytes(b"of a shared repository")
    recent = repository.own / "recent" / blob[:2] / blob[2:]
    os.utime(recent, (1, 1))
    with monkeypatch.context() as other:
        other.setattr(os, "utime", lambda path: os.rmdir(path))  # an OSError
        objects.write_bytes(b"of a shared repository")
    assert time.time() - recent.stat().st_mtime < 60


def test_a_tree_that_was_spliced_is_written_again_once_it_is_forgotten(
    repository: Repository, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = repository.objects
    tree, edits = objects.write_tree({}), {"name": Entry("100644", objects.write_bytes(b"text"))}
    spliced = objects.splice(tree, edits)
    monkeypatch.setattr("goalseek.git.objects._RECENT_SECONDS", -1.0)
    objects.bring_back(is_forgetting=True)
    prune(project)
    assert not objects.has(spliced)
    assert objects.splice(tree, edits) == spliced and objects.has(spliced)


def prune(project: Project) -> None:
    """What a user's housekeeping does, with what nobody names gone from the packs too."""
    for command in ("gc --quiet --prune=now", "repack -a -d -q", "reflog expire --expire=now --all"):
        project.git(*command.split())


def test_what_is_pruned_before_or_after_a_merge_is_there_for_it_and_for_the_next_ref(
    repository: Repository, project: Project
) -> None:
    objects, head = repository.objects, repository.head()

    def tree(first: str, last: str) -> str:
        blob = objects.write_bytes("\n".join([first, *"bcdef", last, ""]).encode())
        return objects.write_tree({"name": Entry("100644", blob)})

    before, ours, theirs = tree("a", "g"), tree("A", "g"), tree("a", "G")
    prune(project)
    merged = merge_trees(objects, before, ours, theirs)
    prune(project)
    assert objects.read(objects.tree(merged)["name"].blob) == b"A\nb\nc\nd\ne\nf\nG\n"
    with pytest.raises(Conflicts, match=r"name \(contents\)"):
        merge_trees(objects, before, ours, tree("B", "g"))
    commit = repository.objects.write_commit(merged, (head,), "made of both\n", 0)
    prune(project)
    repository.move([RefMove(repository.tip_ref, None, commit)])
    objects.bring_back()
    assert project.git("log", "--format=%s", "-1", repository.tip_ref) == "made of both"
    project.git("fsck", "--strict")


def test_a_ref_moves_to_what_a_prune_takes_before_git_looks(
    repository: Repository, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goalseek.git.repository._LOCK_TRIES", 1)
    head = repository.head()
    commit = repository.objects.write_commit(repository.tree_of(head), (head,), "pruned\n", 0)
    (project.top / ".git/objects" / commit[:2] / commit[2:]).unlink()
    repository.move([RefMove(repository.tip_ref, None, commit)])
    repository.objects.bring_back()
    assert project.git("log", "--format=%s", "-1", repository.tip_ref) == "pruned"


def test_what_was_in_a_pack_already_survives_the_pack(repository: Repository, project: Project) -> None:
    objects, packs = repository.objects, project.top / ".git/objects/pack"
    blob = project.git("hash-object", "-w", "--stdin", stdin=b"the same")
    project.git("pack-objects", "-q", str(packs / "pack"), stdin=blob.encode())
    project.git("prune-packed")
    assert objects.read(blob) == b"the same"  # the process that answered keeps that pack open
    assert objects.write_bytes(b"the same") == blob
    prune(project)
    objects.bring_back()
    assert project.git("cat-file", "blob", blob) == "the same"


@pytest.mark.parametrize("gone", range(6))
def test_a_merge_without_one_of_its_objects_names_it(repository: Repository, project: Project, gone: int) -> None:
    objects = repository.objects
    blobs = [objects.write_bytes(f"{first}\nb\nc\n{last}\n".encode()) for first, last in ("ad", "Ad", "aD")]
    trees = [objects.write_tree({"name": Entry("100644", blob)}) for blob in blobs]
    name = [*trees, *blobs][gone]
    for store in (objects.store, repository.own / "recent"):
        (store / name[:2] / name[2:]).unlink()
    with pytest.raises(MissingObject, match=name):
        merge_trees(objects, *trees)


@pytest.mark.parametrize("refused", ["os.link", "shutil.copymode"])
def test_without_links_the_second_name_is_a_copy_and_without_the_right_a_folder_keeps_its_mode(
    repository: Repository, project: Project, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "not here")

    monkeypatch.setattr(refused, refuse)
    blob = repository.objects.write_bytes(b"in no commit")
    project.git("gc", "--quiet", "--prune=now")
    assert repository.objects.read(blob) == b"in no commit"
    assert not list(project.top.glob(".git/objects/??/*.new"))
