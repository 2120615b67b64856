"""``scope.hidden_from``: hidden files from a folder outside the repository, seen by who judges, pinned, never in git."""

import contextlib
import os
import shutil
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from project import Project, answer

from goalseek.errors import BAD_FINDING
from goalseek.workspace.hidden_files import changed_files
from goalseek.workspace.listing import ListedFile, changed_paths, list_folder

FILES = {"answer.json": answer(1), "other.txt": "not the candidate's\n"}
JUDGE = 'test -e verifier/labels.csv || exit 9; cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"\n'
LIST = 'find . -type f | sort > "$GOALSEEK_RUN_DIR/{}"'.format


def made(make_project: Callable[..., Project], **more: object) -> Project:
    """A project whose judge lies in a folder beside it."""
    verifier = make_project().top.parent / "demo-verifier"
    files = {"verifier/judge.sh": JUDGE, "verifier/labels.csv": "1\n"}
    not_listed = {".git/HEAD": "its own repository\n", "verifier/__pycache__/x.pyc": "x"}
    for path, text in {**files, **not_listed}.items():
        (verifier / path).parent.mkdir(parents=True, exist_ok=True)
        (verifier / path).write_text(text)
    manifest = {
        "scope": {"writable": ["answer.json"], "hidden_from": "../demo-verifier"},
        "verify": [{"name": "judge", "run": "sh verifier/judge.sh", "sees": "both"}],
        **more,
    }
    return make_project("hidden-from", files=FILES, manifest=manifest)


def verifier_of(project: Project) -> Path:
    return project.top.parent / "demo-verifier"


def test_the_judge_has_them_and_nobody_else_has_or_adds_what_is_in_the_way_of_one(
    make_project: Callable[..., Project],
) -> None:
    commands = [
        {"name": "make", "run": LIST("candidate")},
        {"name": "judge", "run": LIST("both") + "; sh verifier/judge.sh", "sees": "both"},
        {"name": "score", "run": LIST("hidden") + '; test -x "$0" || sh verifier/judge.sh || exit 0', "sees": "hidden"},
    ]
    metric = {"direction": "maximize", "query": "score", "command": "judge"}
    scope = {"writable": ["**"], "hidden_from": "../demo-verifier"}
    project = made(make_project, verify=commands, metric=metric, scope=scope)
    in_the_way = ("verifier/judge.sh", "verifier", "verifier/labels.csv/x")
    clashes = ({"files": {"answer.json": answer(9), path: "mine\n"}} for path in in_the_way)
    project.set_moves(answer(2), *clashes, answer(3))
    records = project.climb("iterate", "-n", "5")
    refused = ["out_of_scope"] * len(in_the_way)
    assert [record["reason"] for record in records] == ["measured", "better", *refused, "better"]

    def seen(command: str) -> set[str]:
        return set((project.run_folder(5) / "measurements" / "1" / command).read_text().split())

    theirs = {"./verifier/judge.sh", "./verifier/labels.csv"}
    assert seen("candidate") & theirs == set()
    assert seen("both") >= theirs and seen("hidden") >= theirs
    assert not [path for path in seen("both") if "__pycache__" in path or "/.git/" in path]
    assert not (project.trees() / "workspace" / "verifier").exists()
    assert "verifier/judge.sh" not in project.git("ls-tree", "-r", "--name-only", "goalseek/demo")
    digests = {record["digests"]["hidden_from"] for record in records if record["outcome"] != "skipped"}
    assert len(digests) == 1 and len(digests.pop()) == 64


CHANGES: tuple[tuple[Callable[[Path], object], str], ...] = (
    (lambda folder: (folder / "verifier/labels.csv").write_text("2\n"), "verifier/labels.csv"),
    (lambda folder: (folder / "verifier/labels.csv").unlink(), "verifier/labels.csv"),
    (lambda folder: (folder / "more").write_text("2\n"), "more"),
    (lambda folder: (folder / "verifier/judge.sh").chmod(0o755), "verifier/judge.sh"),
    (shutil.rmtree, "verifier/judge.sh"),
)


@pytest.mark.slow
def test_a_change_stops_the_run_as_tampered_put_back_it_goes_on_and_a_baseline_adopts_it(
    make_project: Callable[..., Project], tmp_path: Path
) -> None:
    called = tmp_path / "called"
    script = f"echo x >> {called}; wc -l < {called} | sed 's/.*/{{\"score\": 1&}}/' > answer.json; echo title"
    project = made(make_project, provider={"name": "command", "command": ["sh", "-c", script]})
    verifier, before = verifier_of(project), tmp_path / "before"
    first = project.climb()[-1]
    shutil.copytree(verifier, before)
    for change, named in CHANGES:
        change(verifier)
        ended = project.run("iterate")
        assert ended.exit_code == 3 and named in ended.stderr, ended
        state = project.state()
        assert state["stop_reason"] == "tampered" and named in project.run("status").stdout
        assert len(project.iterations()) == 2 and called.read_text() == "x\n", "found before anybody is asked"
        shutil.rmtree(verifier, ignore_errors=True)
        shutil.copytree(before, verifier)
    assert project.climb()[-1]["metric"]["value"] == 12
    (verifier / "verifier" / "labels.csv").write_text("more\n")
    ended = project.run("baseline")
    assert ended.exit_code == 0, ended.stderr
    after = project.climb()[-1]
    assert (after["metric"]["value"], after["epoch"]) == (13, first["epoch"] + 1)
    assert after["digests"]["hidden_from"] != first["digests"]["hidden_from"]
    assert project.run("audit").exit_code == 0


@pytest.mark.slow
def test_a_baseline_adopts_it_also_where_a_candidate_waits_that_can_be_measured_no_more(
    make_project: Callable[..., Project],
) -> None:
    project = made(make_project)
    project.set_moves(answer(2), answer(3), answer(4))
    project.climb()
    for phase in ("READ_CONTEXT", "PLAN", "APPLY_CHANGE", "COMMIT"):
        assert project.run("step").stdout.startswith(f"done: {phase};")
    (verifier_of(project) / "verifier" / "labels.csv").write_text("more\n")
    stopped = project.run("iterate")
    assert stopped.exit_code == 3 and "goalseek baseline adopts" in stopped.stderr
    assert project.git("log", "-1", "--format=%s", "refs/goalseek/demo/flight/2/1") == "move 2"
    ended = project.run("baseline")
    assert ended.exit_code == 0, ended.stderr
    records = project.climb()[2:]
    told = [(record["outcome"], record["reason"], record["epoch"]) for record in records]
    assert told == [("skipped", "interrupted", 0), ("baseline", "measured", 1), ("kept", "better", 1)]
    assert records[1]["metric"]["value"] == 2 and records[0]["rollback_commit_hash"]
    assert project.run("audit").exit_code == 0


def test_a_change_while_it_is_measured_is_found_after_it(make_project: Callable[..., Project]) -> None:
    project = made(make_project)
    labels = verifier_of(project) / "verifier" / "labels.csv"
    judge = f"if grep -q 7 answer.json; then echo more > {labels}; fi\n" + JUDGE
    (verifier_of(project) / "verifier" / "judge.sh").write_text(judge)
    project.set_moves(answer(7))
    ended = project.run("iterate")
    assert ended.exit_code == 3 and "verifier/labels.csv" in ended.stderr
    assert [record["outcome"] for record in project.iterations()] == ["baseline"]


def test_what_cannot_be_is_refused_before_anything_is_measured(make_project: Callable[..., Project]) -> None:
    project = made(make_project)
    outside = verifier_of(project)
    scopes = {"writable": ["answer.json"], "hidden_from": "../demo-verifier"}
    project.set_moves(answer(2))

    def refused(told: str) -> None:
        ended = project.run("iterate")
        assert ended.exit_code == 2 and told in ended.stderr, (told, ended)
        assert project.records() == []

    project.write({".gitignore": "verifier\n", "verifier/data.csv": "1\n"})
    project.commit()
    project.set_manifest({"scope": {**scopes, "share": ["verifier"]}})
    named = "its verifier/judge.sh has the path of verifier, which is shared"
    examined = project.run("doctor", "--quick")
    assert f"✗ environment  scope.hidden_from: {named}" in examined.stdout and examined.exit_code == BAD_FINDING
    refused(named)
    shutil.rmtree(project.folder / "verifier")
    project.set_manifest({"scope": scopes})
    for path, told in (("other.txt", "other.txt"), ("answer.json/x", "answer.json")):
        (outside / path).parent.mkdir(exist_ok=True)
        (outside / path).write_text("clash\n")
        refused(told)
        (outside / path).unlink()
    (outside / "link").symlink_to("/etc/passwd")
    refused("link")
    (outside / "link").unlink()
    for folder, told in (("inside", "one in the other"), ("..", "one in the other"), ("../nowhere", "cannot be read")):
        project.set_manifest({"scope": {**scopes, "hidden_from": folder}})
        (project.folder / "inside").mkdir(exist_ok=True)
        refused(told)


def test_they_land_below_the_manifests_folder(make_project: Callable[..., Project]) -> None:
    verifier = verifier_of(made(make_project))
    manifest = {
        "scope": {"writable": ["answer.json"], "hidden_from": str(verifier)},
        "verify": [{"name": "judge", "run": "sh verifier/judge.sh", "sees": "both"}],
    }
    project = make_project("mono", files=FILES, manifest=manifest, below="part/one")
    project.set_moves(answer(2))
    assert project.climb()[1]["outcome"] == "kept"


def test_a_listing_is_in_order_bounded_and_without_caches(tmp_path: Path) -> None:
    for path in ("b/x", "a/y", "c", "__pycache__/z", "a/.DS_Store"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(path)
    (tmp_path / "d").symlink_to("c")
    listing = list_folder(tmp_path)
    assert [item.path for item in listing] == ["c", "d", "a/y", "b/x"]
    assert [item.kind for item in listing] == ["file", "link", "file", "file"]
    assert list_folder(tmp_path, limit=3) == listing[:3]
    assert changed_paths(listing, (ListedFile("c", 1, 2), *listing[2:])) == ["c", "d"]


def test_a_cache_that_goes_while_a_folder_is_listed_is_no_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, scandir = tmp_path / "hidden" / "__pycache__", os.scandir
    cache.mkdir(parents=True)
    (tmp_path / "hidden" / "labels.csv").write_text("1\n")
    pinned = list_folder(cache.parent)

    def scan(folder: int) -> Generator[os.DirEntry[str], None, None]:
        with scandir(folder) as listing:
            entries = [*listing]
        cache.rmdir()
        yield from entries

    monkeypatch.setattr(os, "scandir", lambda folder: contextlib.closing(scan(folder)))
    assert changed_files(cache.parent, pinned) == []
