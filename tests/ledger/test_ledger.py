"""The records: sealed commits of a chain, and ``results.jsonl``, which can be written again from it."""

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


def test_the_secret_is_the_owners_alone_and_in_no_tree(project: Project) -> None:
    project.set_moves(answer(2))
    project.climb()
    secret = project.top / ".git" / "goalseek" / "demo" / "secret"
    assert secret.stat().st_mode & 0o777 == 0o600
    raw = secret.read_bytes()
    trees = [path for path in project.trees().rglob("*") if path.is_file() and not path.is_symlink()]
    assert not [path for path in trees if raw in path.read_bytes()]
