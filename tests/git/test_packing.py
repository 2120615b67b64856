"""Loose objects of the climb become packs; nothing of the user's is touched, and a kill anywhere harms nothing."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from project import Project, Projects, answer, copy_folder

from goalseek.git import packing
from goalseek.git.location import locate
from goalseek.git.objects import Objects
from goalseek.git.packing import PackingState, pack_when_due
from goalseek.git.repository import Repository
from goalseek.values import from_line

pytestmark = pytest.mark.slow

TRACED = "rename,unlink,fsync,mkdir,link"


def make(top: Path, object_format: str) -> Project:
    """Keeps and reverts, in a repository that has loose, dangling, stashed, staged and packed objects of its own."""
    project = Project.make(top, object_format=object_format)
    project.git("repack", "-q", "-a", "-d")
    project.write({"other.txt": "packed no more\n"})
    project.commit("loose")
    project.set_moves(*(answer(score) for score in (2, 1.5, 3, 1.6, 4, 1.7, 1.8)), answer(5), answer(1.9))
    project.climb("iterate", "-n", "7")
    for number in (1, 2):
        project.write({"other.txt": f"stashed {number}\n"})
        project.git("stash", "--quiet")
    project.write({"other.txt": "never committed\n"})
    project.git("add", "other.txt")
    return project


@pytest.fixture
def climbed(request: pytest.FixtureRequest, made_once: Projects, tmp_path: Path) -> Project:
    return made_once(make, tmp_path / "repository", getattr(request, "param", "sha1"))


@pytest.fixture
def repository(climbed: Project) -> Iterator[Repository]:
    with Repository(locate(climbed.top), "demo") as opened:
        yield opened


def loose(project: Project) -> set[str]:
    return {path.parent.name + path.name for path in project.top.glob(".git/objects/??/*")}


def packs(project: Project) -> set[str]:
    return {path.name for path in project.top.glob(".git/objects/pack/*")}


def packed(project: Project, index: str) -> set[str]:
    lines = project.git("verify-pack", "-v", str(project.top / ".git/objects/pack" / index)).splitlines()
    return {name for name in (line.split(" ")[0] for line in lines) if len(name) >= 40 and name.isalnum()}


def reachable(project: Project, *revisions: str) -> set[str]:
    return set(project.git("rev-list", "--objects", "--no-object-names", *revisions).split())


def ours(project: Project) -> set[str]:
    """What our refs reach, and neither main nor the stash."""
    users = ["main", *project.git("stash", "list", "--format=%H").split()]
    return reachable(project, "refs/goalseek/demo/ledger", "refs/goalseek/demo/tip") - reachable(project, *users)


def pack(repository: Repository, every: int = 1) -> bool:
    told: list[str] = []
    seq = int(repository.git("rev-list", "--count", "--first-parent", repository.ledger_ref)) - 2
    done = pack_when_due(repository, seq, told.append, every)
    assert told == []
    return done


@pytest.mark.parametrize("climbed", ["sha1", "sha256"], indirect=True)
def test_all_of_ours_is_packed_and_nothing_of_the_users(climbed: Project, repository: Repository) -> None:
    dangling = climbed.git("hash-object", "-w", "--stdin", stdin=b"nobody reaches this\n")
    before, own, users, had = loose(climbed), ours(climbed), climbed.users(), packs(climbed)
    assert own <= before and len(own) > 25
    assert pack(repository)
    assert loose(climbed) == before - own
    assert dangling in loose(climbed)
    index, pack_file = sorted(packs(climbed) - had)
    assert index.endswith(".idx") and pack_file.endswith(".pack") and had <= packs(climbed)
    assert packed(climbed, index) == own
    assert climbed.users() == users
    assert "missing" not in climbed.git("fsck", "--full", "--strict")
    assert climbed.run("audit").exit_code == 0
    first = packs(climbed)
    climbed.climb("iterate", "-n", "2")
    before = loose(climbed)
    new = ours(climbed) & before
    assert pack(repository) and loose(climbed) == before - new
    index, _ = sorted(packs(climbed) - first)
    assert packed(climbed, index) == new and len(new) >= 8, "the next pack holds what is new only"


def test_what_the_user_took_over_or_has_in_an_older_commit_stays_loose(
    climbed: Project, repository: Repository
) -> None:
    climbed.git("branch", "mine", "goalseek/demo~2")
    climbed.git("tag", "-a", "-m", "best", "best", "goalseek/demo~1")
    climbed.git("stash", "--quiet")
    climbed.git("checkout", "--quiet", "-b", "like-it")
    climbed.write({"answer.json": answer(1.5)})
    climbed.commit("what was tried, by hand")
    content = climbed.git("rev-parse", "HEAD:answer.json")
    climbed.write({"answer.json": answer(9)})
    climbed.commit("and on")
    climbed.git("checkout", "--quiet", "main")
    theirs = reachable(climbed, "mine", "best", "like-it") & loose(climbed)
    assert content in theirs & reachable(climbed, "refs/goalseek/demo/ledger")
    assert theirs & reachable(climbed, "mine", "best") and pack(repository)
    assert theirs <= loose(climbed)


def test_it_is_done_when_enough_has_gathered_and_how_far_it_was_is_remembered(
    climbed: Project, repository: Repository
) -> None:
    had = packs(climbed)
    assert not pack(repository, every=100)
    assert packs(climbed) == had
    assert pack(repository, every=9), "a run, a baseline and seven more"
    refs, state = repository.refs(), from_line(PackingState, (repository.own / "packed.json").read_bytes())
    assert state == PackingState(8, refs.ledger or "", refs.tip or "")
    assert not pack(repository, every=1)
    assert pack(repository, every=0) and len(packs(climbed)) == len(had) + 2, "there is nothing new"


def test_git_processes_that_were_open_go_on(climbed: Project, repository: Repository) -> None:
    git_dir = repository.own / "objects.git"
    others = Objects(git_dir, repository.objects.store, repository.location.object_format)
    commits = climbed.git("rev-list", "refs/goalseek/demo/ledger").split()
    try:
        trees = [others.read(commit).split(b"\n")[0][5:].decode() for commit in commits[:2]]
        assert others.write_tree(others.tree(trees[0])) == trees[0]
        others.differences(trees[0], trees[1])
        blob = others.write_bytes(b"known before\n")
        assert pack(repository)
        assert not set(commits) & loose(climbed) - reachable(climbed, "main")
        for commit in commits:
            assert others.read(commit)
        tried = [line.split()[0] for line in climbed.git("log", "--format=%T", "goalseek/demo").splitlines()]
        assert others.differences(tried[0], tried[1])
        assert others.splice(tried[0], {}) and others.write_bytes(b"known before\n") == blob
        assert repository.resolve("goalseek/demo") and repository.objects.read(commits[0])
    finally:
        others.close()


@pytest.mark.parametrize("remembered", ["", "no json", '{"seq": 10000}', '{"seq": 3, "unfinished": "pack-gone"}'])
def test_what_is_remembered_is_a_cache(climbed: Project, repository: Repository, remembered: str) -> None:
    (repository.own / "packed.json").write_text(remembered)
    own, before = ours(climbed), loose(climbed)
    assert pack(repository) and loose(climbed) == before - own


def test_what_fails_is_told_and_loses_nothing(
    climbed: Project, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before, told = loose(climbed), list[str]()
    monkeypatch.setattr(packing, "sync", full)
    assert not pack_when_due(repository, 8, told.append, 2)
    assert "No space left" in told[0] and loose(climbed) == before
    monkeypatch.undo()
    assert not pack_when_due(repository, 9, told.append, 2) and len(told) == 1, "not again at once"
    assert pack_when_due(repository, 10, told.append, 2) and loose(climbed) < before
    assert climbed.run("audit").exit_code == 0


@pytest.mark.needs("strace")
def test_killed_at_any_effect_it_is_harmless_and_done_again(project: Project, tmp_path: Path) -> None:
    """A tracer kills before every third rename, removal, fsync and folder; then it ends as if nothing had been."""
    project.set_moves(answer(2), answer(1.5), answer(3))
    project.climb("iterate", "-n", "3")
    dangling = project.git("hash-object", "-w", "--stdin", stdin=b"nobody reaches this\n")
    own, before = ours(project), loose(project)
    saved = tmp_path / "saved"
    project.top.rename(saved)
    code = (
        "import sys; from pathlib import Path; from goalseek.git.location import locate;"
        "from goalseek.git.repository import Repository;"
        "from goalseek.git.packing import pack_when_due; r = Repository(locate(Path(sys.argv[1])), 'demo');"
        "pack_when_due(r, 4, lambda told: sys.exit(told), 1); r.close()"
    )

    def run(*tracer: str) -> int:
        command = [*tracer, sys.executable, "-c", code, str(project.top)]
        return subprocess.run(command, capture_output=True, timeout=120).returncode

    def fresh() -> None:
        shutil.rmtree(project.top, ignore_errors=True)
        copy_folder(saved, project.top)

    fresh()
    trace = tmp_path / "trace"
    assert run("strace", "-q", "-o", str(trace), "-e", f"trace={TRACED}") == 0
    wanted = loose(project)
    assert wanted == before - own
    calls = [line.split("(")[0] for line in trace.read_text().splitlines() if "(" in line and line.endswith("= 0")]
    kills = 0
    places = [(call, calls[: place + 1].count(call)) for place, call in enumerate(calls)][::3]
    assert len(places) > 7
    for call, number in places:
        fresh()
        inject = f"inject={call}:signal=SIGKILL:when={number}"
        kills += run("strace", "-q", "-e", f"trace={call}", "-e", inject) != 0
        assert "missing" not in project.git("fsck", "--full"), (call, number)
        assert reachable(project, "refs/goalseek/demo/ledger") >= own, (call, number)
        assert run() == 0
        assert loose(project) == wanted and dangling in wanted, (call, number)
        assert not list(project.top.glob(".git/objects/pack/tmp_*"))
        assert not (project.top / ".git/goalseek/demo/packing").exists()
        assert len(packs(project)) == 2, (call, number)
    assert kills > len(places) / 2, "the tracer did not kill"
