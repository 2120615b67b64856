"""The records: sealed commits of a chain, and ``results.jsonl``, which can be written again from it."""

import shutil

from project import Project, answer


def results(project: Project) -> str:
    return (project.folder / ".goalseek" / "demo" / "logs" / "results.jsonl").read_text()


def test_the_chain_holds_each_line_with_the_candidate_as_second_parent(project: Project) -> None:
    project.set_moves(answer(2), {"files": {"other.txt": "x\n"}}, answer(0.5))
    records = [None, *project.climb("iterate", "-n", "3")]
    commits = project.git("rev-list", "--reverse", "--first-parent", "refs/goalseek/demo/ledger").splitlines()
    messages = [project.git("log", "-1", "--format=%B", commit).strip() for commit in commits]
    assert messages[1:] == results(project).splitlines()
    for commit, record in zip(commits[1:], records, strict=True):
        parents = project.git("log", "-1", "--format=%P", commit).split(" ")
        assert parents[1:] == ([record["commit_hash"]] if record and record["commit_hash"] else [])
    assert [record["seq"] for record in project.records()] == list(range(5))
    assert all(line.isascii() for line in messages)


def test_results_come_back_from_git_alone_byte_for_byte(project: Project) -> None:
    project.set_moves(*(answer(score) for score in (2, 0.5, 3, 0, 4)))
    project.climb("iterate", "-n", "4")
    before = results(project)
    shutil.rmtree(project.folder / ".goalseek")
    project.climb()
    assert results(project).startswith(before)
    assert [record["iteration"] for record in project.iterations()] == list(range(6))


def test_a_torn_last_line_is_mended_and_said_so(project: Project) -> None:
    project.set_moves(answer(2), answer(3))
    project.climb()
    path = project.folder / ".goalseek" / "demo" / "logs" / "results.jsonl"
    whole = path.read_bytes()
    for torn in (whole + b'{"schema": 1, "se', whole[:-40]):
        path.write_bytes(torn)
        ended = project.run("-v", "iterate", "--until", "score>=1")
        assert ended.exit_code == 0 and "results.jsonl" in ended.stderr, ended
        assert path.read_bytes() == whole


def test_a_line_that_git_does_not_know_stops_the_climb(project: Project) -> None:
    project.set_moves(answer(2), answer(3))
    project.climb()
    path = project.folder / ".goalseek" / "demo" / "logs" / "results.jsonl"
    path.write_text(results(project).replace('"value":2', '"value":9'))
    ended = project.run("iterate")
    assert ended.exit_code == 3 and "does not end with a record" in ended.stderr


def test_git_keeps_it_all_through_gc(project: Project) -> None:
    project.set_moves(answer(2), answer(0.5), answer(3))
    records = project.climb("iterate", "-n", "2")
    project.git("reflog", "expire", "--expire=now", "--all")
    project.git("gc", "--quiet", "--prune=now")
    assert project.git("cat-file", "-t", records[2]["commit_hash"]) == "commit"
    assert project.climb()[-1]["metric"]["value"] == 3


def test_the_secret_is_the_owners_alone_and_in_no_tree(project: Project) -> None:
    project.set_moves(answer(2))
    project.climb()
    secret = project.top / ".git" / "goalseek" / "demo" / "secret"
    assert secret.stat().st_mode & 0o777 == 0o600
    raw = secret.read_bytes()
    trees = [path for path in project.trees().rglob("*") if path.is_file() and not path.is_symlink()]
    assert not [path for path in trees if raw in path.read_bytes()]


def test_the_log_folder_ignores_itself(project: Project) -> None:
    project.set_moves(answer(2))
    project.climb()
    assert project.git("status", "--porcelain") == ""
