"""``scope.share`` and ``setup.gives``: what they may name, at every level alike, and that nothing stands in for it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from project import Project, answer
from shell_agent import better, set_steps
from skips import levels

LEVELS = pytest.mark.parametrize("mode", levels("none", "landlock", "bubblewrap"))
JUDGE = """\
score=$(($(sed -n 's/.*"score": \\([0-9]*\\).*/\\1/p' answer.json) + $(cat data/number) + $(cat src/data/number)))
printf '{"score": %s}' "$score" > "$GOALSEEK_RUN_DIR/metrics.json"
"""
IGNORE = "data\nsrc/data\n"


@pytest.fixture
def shared(make_project: Callable[..., Project]) -> Project:
    """A project whose number depends on two shared folders, one of them in a folder of the candidate's."""
    project = make_project(
        files={"answer.json": answer(1), "src/code": "1\n", "hidden/judge.sh": JUDGE, ".gitignore": IGNORE}
    )
    project.write({"data/number": "10\n", "src/data/number": "20\n"})
    return project


@LEVELS
@pytest.mark.slow
def test_no_candidate_puts_anything_in_the_place_of_what_is_shared(shared: Project, mode: str, tmp_path: Path) -> None:
    """Not where a writable or a generated glob covers the place either. A mount keeps it, or the candidate is refused."""
    forge = "mkdir -p src/forged; echo 900 > src/forged/number"
    steps = (
        f"{better(2)}; {forge}; rm -rf src/data; ln -s forged src/data",
        f"{better(3)}; rm -rf src/data; mkdir src/data; echo 900 > src/data/number",
        f"{better(4)}; rm -rf data; echo 900 > data",
        f"{better(5)}; rm -rf data",
        f"{better(6)}; mv src old; mkdir -p src/data; echo 900 > src/data/number; cp old/code src",
        f"{better(7)}; mv src old; echo 900 > src",
        f"{better(8)}; mv src old; ln -s {tmp_path} src",
        better(9),
    )
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "number").write_text("900\n")
    scope = {"writable": ["answer.json", "src/**"], "generated": ["data/**", "data"], "hidden": ["hidden/**"]}
    set_steps(shared, *steps, tables={"sandbox": {"mode": mode}}, **scope, share=["./data/", "src//data"])
    shared.commit("share")
    before = shared.users()
    records = shared.climb("iterate", "-n", str(len(steps)))
    assert [record["metric"]["value"] for record in records if record["outcome"] in ("baseline", "kept")][-1] == 39
    refused = [record for record in records if record["reason"] == "out_of_scope"]
    numbers = [record["iteration"] for record in refused]
    assert numbers == ([5, 6, 7] if mode == "bubblewrap" else [1, 2, 3, 4, 5, 6, 7]), records
    assert all("shared, read-only" in record["why"] for record in refused), [record["why"] for record in refused]
    assert max(record["metric"]["value"] or 0 for record in records) == 39
    assert shared.users() == before and (tmp_path / "data" / "number").read_text() == "900\n"
    tree = shared.git("ls-tree", "-r", "--name-only", "refs/goalseek/demo/tip").splitlines()
    assert [path for path in tree if path.startswith(("data", "src/data"))] == []


@pytest.mark.parametrize("mode", levels("none", "bubblewrap"))
@pytest.mark.slow
def test_what_candidate_code_puts_in_the_place_of_what_is_shared_is_gone_before_the_next(
    shared: Project, mode: str
) -> None:
    """A mount can be moved away with the folder around it; what is left there would be in the way of the next one."""
    plant = "mv src old; mkdir src; echo 900 > src/data"
    shared.write({"code/run.sh": "true\n", "hidden/judge.sh": f"{JUDGE}sh code/run.sh\n"})
    scope = {"writable": ["answer.json", "code/**", "src/**"], "hidden": ["hidden/**"], "share": ["data", "src/data"]}
    shared.set_manifest({"scope": scope, "sandbox": {"mode": mode}})
    shared.commit("code that is measured")
    before = shared.users()
    shared.set_moves({"files": {"answer.json": answer(2), "code/run.sh": plant}}, answer(3))
    records = shared.climb("iterate", "-n", "2")
    assert [record["reason"] for record in records] == ["measured", "verify_failed", "better"], records[1]["why"]
    assert "src/data" in records[1]["why"] and records[2]["metric"]["value"] == 33
    assert shared.users() == before


@pytest.fixture
def bare(make_project: Callable[..., Project]) -> Project:
    """A project with what must not be shared, and links to it."""
    project = make_project()
    project.write({"kept/.gitkeep": "", "kept/big": "big\n", "file": "tracked\n", "src/lib/x": "x\n"})
    links = {"to-lib": "src/lib", "to-git": ".git", "to-all": ".", "to-cache": os.environ["XDG_CACHE_HOME"], "way": "."}
    for name, target in links.items():
        (project.top / name).symlink_to(target)
    project.write({".gitignore": "kept/big\n/to-*\n"})
    project.commit()
    return project


@pytest.mark.slow
def test_what_git_tracks_and_what_must_not_be_seen_is_refused_by_name(bare: Project) -> None:
    before = bare.users()
    for path, said, remedy in (
        ("kept", "scope.share: kept holds kept/.gitkeep, which git tracks", "git rm --cached kept/.gitkeep"),
        ("src", "scope.share: src holds src/lib/x, which git tracks", "share the folder below it that git ignores"),
        ("file", "scope.share: git tracks file", "git rm --cached file"),
        ("hidden", "scope.share: hidden holds the hidden file hidden/judge.sh", "in separate folders"),
        ("to-lib", "scope.share: to-lib holds src/lib/x, which git tracks", "a link to what git tracks"),
        ("to-git", "scope.share: to-git lies in", "without files of git or goalseek"),
        ("to-all", "scope.share: to-all holds", "without files of git or goalseek"),
        ("to-cache", "scope.share: to-cache holds", "without files of git or goalseek"),
        ("way/kept/big", "scope.share: way/kept/big lies below way, a file or a link that git tracks", "that link"),
    ):
        scope = {"writable": ["answer.json"], "hidden": ["hidden/**"], "share": [path]}
        bare.set_manifest({"scope": scope})
        ended = bare.run("iterate")
        assert ended.exit_code == 2 and said in ended.stderr and remedy in ended.stderr, ended.stderr
        ended = bare.run("doctor", "--quick")
        assert ended.exit_code == 1 and f"✗ environment  {said}" in ended.stdout, ended.stdout
    bare.git("checkout", "--", "goalseek.toml")
    assert bare.users().keys() == before.keys()
    assert bare.git("status", "--porcelain") == "" and bare.traces() == []


def test_what_comes_to_be_tracked_later_is_refused_by_the_next_baseline(shared: Project) -> None:
    scope = {"writable": ["answer.json"], "hidden": ["hidden/**"], "share": ["data", "src/data"]}
    shared.set_manifest({"scope": scope, "sandbox": {"mode": "none"}})
    shared.commit("share")
    shared.set_moves(answer(2))
    assert shared.climb()[-1]["outcome"] == "kept"
    assert (shared.trees() / "workspace" / "data").is_symlink()
    shared.git("add", "--force", "data/number")
    shared.git("commit", "--quiet", "-m", "the data too")
    ended = shared.run("baseline")
    assert ended.exit_code == 2 and "scope.share: data holds data/number, which git tracks" in ended.stderr
    assert shared.git("status", "--porcelain") == "" and (shared.top / "data" / "number").read_text() == "10\n"


@LEVELS
@pytest.mark.slow
def test_a_submodule_and_a_link_that_git_tracks_may_be_shared(make_project: Callable[..., Project], mode: str) -> None:
    lib = make_project("lib", files={"number": "10\n", "deep/number": "20\n"})
    project = make_project(files={"answer.json": answer(1), "hidden/judge.sh": JUDGE, ".gitignore": "store\n"})
    project.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(lib.top), "data")
    project.write({"store/number": "20\n", "src/code": "1\n"})
    (project.top / "src" / "data").symlink_to("../store")
    (project.top / "linked").symlink_to("store")
    scope = {"writable": ["answer.json", "src/**"], "hidden": ["hidden/**"]}
    project.set_manifest(
        {"scope": {**scope, "share": ["data", "src/data", "linked"]}, "sandbox": {"mode": mode}},
    )
    project.commit("a submodule and two links")
    before = project.users()
    project.set_moves({"files": {"answer.json": answer(2), "src/code": "2\n"}}, {"files": {"src/data": "forged\n"}})
    records = project.climb("iterate", "-n", "2")
    assert [record["reason"] for record in records] == ["measured", "better", "out_of_scope"]
    assert [record["metric"]["value"] for record in records[:2]] == [31, 32]
    assert project.users() == before


def test_what_setup_gives_takes_the_place_of_no_file_that_is_measured(project: Project) -> None:
    judge = 'cat build/tracked build/made && cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"'
    project.write({"build/tracked": "1\n", "build/made": "1\n", ".gitignore": "made\n", "hidden/judge.sh": judge})
    project.set_moves(answer(2))
    for kind, code in (("writable", 2), ("hidden", 2), ("read_only", 0)):
        scope = {"writable": ["answer.json"], "hidden": ["hidden/**"]}
        scope[kind] = [*scope.get(kind, ()), "build/tracked"]
        project.set_manifest({"scope": scope, "setup": {"run": "echo 2 > build/made", "gives": ["./build/"]}})
        project.commit()
        ended = project.run("iterate")
        refused = "setup.gives: build holds build/tracked, which its copy would repl" in ended.stderr
        assert (ended.exit_code, refused) == (code, code != 0), ended.stderr
    assert (project.run_folder(1) / "verifier.log").read_text().count("\n1\n2\n") == 1


def test_what_setup_gives_follows_no_link_out_of_the_tree(project: Project, tmp_path: Path) -> None:
    """Neither one that setup makes nor one that a candidate leaves in a kept cache."""
    (tmp_path / "users" / "build").mkdir(parents=True)
    (tmp_path / "users" / "build" / "file").write_text("mine\n")
    leave = f"rm -r out; ln -s {tmp_path}/users out"
    judge = f'cat out/build/made && cp answer.json "$GOALSEEK_RUN_DIR/metrics.json" && {leave}'
    project.write({"hidden/judge.sh": judge})
    tables = {"verify": [{"name": "judge", "run": "sh hidden/judge.sh", "sees": "both", "keep": ["out"]}]}
    setup = {"run": "mkdir -p out/build; echo made > out/build/made", "gives": ["out/build"]}
    project.set_manifest({**tables, "setup": setup})
    project.commit()
    project.set_moves(answer(2), answer(3))
    assert [record["reason"] for record in project.climb("iterate", "-n", "2")] == ["measured", "better", "better"]
    project.set_manifest({**tables, "setup": {**setup, "run": leave.removeprefix("rm -r out; ")}})
    project.commit()
    ended = project.run("baseline")
    assert ended.exit_code == 1 and "setup.gives: there is no folder out/build after setup" in ended.stderr
    assert (tmp_path / "users" / "build" / "file").read_text() == "mine\n"
