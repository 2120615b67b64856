"""Clones that fetched ``refs/goalseek/*``: they look, audit, climb on, and what they climbed can be fetched back."""

import hashlib
import json
import re
import subprocess
from pathlib import Path

import pytest
from project import Project, Projects, answer, copy_folder

REFS = "refs/goalseek/*:refs/goalseek/*"
TIP = "refs/goalseek/demo/tip"


@pytest.fixture
def origin(played: Projects) -> Project:
    return played(answer(2), answer(0.5), more=(answer(3), answer(0.1), answer(4), answer(5)))


def clone_of(project: Project, top: Path) -> Project:
    project.git("clone", "--quiet", str(project.top), str(top))
    made = Project(top, top)
    made.git("fetch", "--quiet", "origin", REFS)
    return made


@pytest.fixture
def clone(origin: Project, tmp_path: Path) -> Project:
    return clone_of(origin, tmp_path / "clone")


def secret(project: Project) -> Path:
    return project.top / ".git" / "goalseek" / "demo" / "secret"


def key(project: Project) -> str:
    return str(project.records()[-1]["seal"]).split("-")[0]


def without_ages(text: str) -> str:
    """Without how long ago things were, which a moment later is more."""
    return re.sub(r"\d+ \w+ ago", "", text)


def test_a_clone_looks_and_audits_without_a_secret(origin: Project, clone: Project) -> None:
    for command in ("status", "log"):
        ended = clone.run(command)
        assert ended.exit_code == 0 and "audit --rebuild" in ended.stdout + ended.stderr, ended
    assert "audit --rebuild" in clone.run("show", "best").stderr
    assert "seals not checked: only the machine that ran the climb" in clone.check("audit")
    clone.check("audit", "--rebuild")
    assert clone.results.read_bytes() == origin.results.read_bytes()
    for command in (("log",), ("show", "best"), ("show", "2", "--diff")):
        here, there = clone.run(*command), origin.run(*command)
        told = here.stdout.partition("  artifacts  not here")[0]
        assert here.exit_code == 0 and without_ages(told) == without_ages(there.stdout) != ""
    status = clone.run("status")
    assert status.exit_code == 0 and "audit --rebuild" not in status.stdout
    assert not secret(clone).exists()


@pytest.mark.slow
def test_a_clone_climbs_on_and_what_it_climbed_is_fetched_back(origin: Project, clone: Project) -> None:
    theirs = key(origin)
    assert clone.git("branch", "--list", "goalseek/demo") == ""
    records = clone.climb("iterate", "-n", "2")
    assert [record["iteration"] for record in records] == [0, 1, 2, 3, 4]
    assert len({record["run_id"] for record in records}) == 1
    assert clone.git("rev-parse", "goalseek/demo") == clone.git("rev-parse", TIP)
    ours = key(clone)
    assert ours != theirs and secret(clone).stat().st_mode & 0o777 == 0o600
    assert f"with the key {theirs}, and not checkable here: records 0-3\n" in clone.check("audit")
    assert "6 records, 0 differences; seals checked of all but 4" in clone.check("audit")

    origin.git("fetch", "--quiet", str(clone.top), REFS)
    records = origin.climb("iterate", "--new")
    assert [record["iteration"] for record in records] == [0, 1, 2, 3, 4, 5]
    assert records[-1]["outcome"] == "kept" and key(origin) == theirs
    assert origin.git("rev-parse", "goalseek/demo") == origin.git("rev-parse", TIP)
    assert f"with the key {ours}, and not checkable here: records 4-5\n" in origin.check("audit")

    clone.git("fetch", "--quiet", "origin", REFS)
    records = clone.climb()
    assert len(records) == 7 and records[-1]["run_id"] == records[-2]["run_id"] != records[0]["run_id"]
    assert "records 0-3, 6-7" in clone.check("audit")


@pytest.mark.slow
def test_a_clone_that_has_only_the_branch_is_told_to_fetch_the_records_before_anything_is_measured(
    origin: Project, tmp_path: Path
) -> None:
    origin.git("clone", "--quiet", str(origin.top), str(tmp_path / "clone"))
    clone = Project(tmp_path / "clone", tmp_path / "clone")
    clone.git("branch", "goalseek/demo", "origin/goalseek/demo")
    for command in ("iterate", "baseline", "step"):
        ended = clone.run(command)
        assert ended.exit_code == 3 and f"git fetch origin '{REFS}'" in ended.stderr, ended
    assert f"git fetch origin '{REFS}'" in clone.run("doctor", "--quick").stdout
    assert clone.records() == [] and clone.git("for-each-ref", "refs/goalseek") == ""
    clone.git("fetch", "--quiet", "origin", REFS)
    assert [record["iteration"] for record in clone.climb()] == [0, 1, 2, 3]
    assert clone.git("rev-parse", "goalseek/demo") == clone.git("rev-parse", TIP)


@pytest.mark.slow
def test_what_was_sealed_with_another_key_is_never_believed(origin: Project, tmp_path: Path) -> None:
    """Stored answers and a snapshot of another place, and ones whose seals name our key."""
    for _ in range(5):
        origin.check("step")
    evidence = origin.run_folder(3) / "evidence.json"
    original = evidence.read_text()
    row = json.loads(original)
    ours = row["seal"].split("-")[0]
    snapshot = origin.results.with_name("standing.json")
    for seal in ("0" * 8 + row["seal"][8:], ours + "-" + "0" * 64, row["seal"][9:], ""):
        evidence.write_text(original.replace(row["seal"], seal).replace('"value":3', '"value":99'))
        line = origin.results.read_bytes().splitlines()[-1]
        head = {
            "offset": origin.results.stat().st_size - len(line) - 1,
            "line": hashlib.sha256(line).hexdigest(),
            "seal": seal,
        }
        snapshot.write_text(json.dumps(head) + '\n{"seq":99,"last_iteration":98}\n')
        copy = tmp_path / f"copy-{seal[:12]}"
        copy_folder(origin.top, copy)
        record = Project(copy, copy).climb()[-1]
        assert (record["iteration"], record["metric"]["value"]) == (3, 3)


def test_a_shallow_clone_climbs_and_takes_home(project: Project, tmp_path: Path) -> None:
    project.write({"other.txt": "a second commit, whose parent the clone has not"})
    project.commit()
    project.git("clone", "--quiet", "--depth=1", f"file://{project.top}", str(tmp_path / "shallow"))
    clone = Project(tmp_path / "shallow", tmp_path / "shallow")
    project.set_moves(answer(2), answer(0.5))
    assert [record["outcome"] for record in clone.climb("iterate", "-n", "2")] == ["baseline", "kept", "reverted"]
    clone.check("promote", "--branch", "home")
    clone.check("promote", "--branch", "merged", "--onto", "main")
    clone.check("audit")


def test_where_two_clones_went_on_one_push_is_refused_whole_and_goalseek_says_what_to_do(
    origin: Project, clone: Project
) -> None:
    """The first moved no tip, so that git would take the second's, and refuse its ledger alone."""
    for climb, third in ((origin, {"files": {"other.txt": "x\n"}}), (clone, answer(3))):
        origin.set_moves(answer(2), answer(0.5), third)
        climb.climb()
    before = origin.git("for-each-ref", "refs/goalseek")
    push = ["git", "push", "--atomic", "origin", REFS]
    assert subprocess.run(push, cwd=clone.top, capture_output=True, timeout=60).returncode == 1
    assert origin.git("for-each-ref", "refs/goalseek") == before
    clone.git("fetch", "--quiet", "origin", f"+{REFS}")
    ended = clone.run("iterate")
    assert ended.exit_code == 5 and "went on from the same record: goalseek help recipe-machines" in ended.stderr
