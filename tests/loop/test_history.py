"""The branch's history: candidate commits with trailers, and reverts as git words them, as the records say."""

from project import Project, answer


def test_the_branch_alternates_as_the_records_say_and_reverts_are_those_that_git_makes(project: Project) -> None:
    odd = {"title": 'Revert "x"', "files": {"answer.json": answer(1.2)}}
    project.set_moves(answer(2), answer(1.5), answer(3), answer(0), {"files": {"other.txt": "x\n"}}, answer(4), odd)
    records = project.climb("iterate", "-n", "7")
    wanted = [project.git("rev-parse", "main")]
    for record in records[1:]:
        wanted += [commit for commit in (record["commit_hash"], record["rollback_commit_hash"]) if commit]
    assert project.git("rev-list", "--reverse", "goalseek/demo").splitlines() == wanted
    assert project.git("rev-parse", "refs/goalseek/demo/tip") == wanted[-1]
    tree = {commit: project.git("rev-parse", commit + "^{tree}") for commit in wanted}
    for record in records[1:]:
        if record["commit_hash"]:
            assert tree[record["commit_hash"]] == record["tree_hash"]
            assert project.git("rev-parse", record["commit_hash"] + "^") == record["parent_commit_hash"]
        if record["rollback_commit_hash"]:
            assert tree[record["rollback_commit_hash"]] == tree[record["parent_commit_hash"]]
    assert project.git("show", "goalseek/demo:answer.json") + "\n" == answer(4)
    reachable = project.git("rev-list", "refs/goalseek/demo/ledger").splitlines()
    assert {record["commit_hash"] for record in records if record["commit_hash"]} <= set(reachable)

    commit = records[2]["commit_hash"]
    assert project.git("log", "-1", "--format=%s%n%an <%ae>", commit) == "move 2\ngoalseek <goalseek@localhost>"
    assert project.git("log", "-1", "--format=%(trailers:unfold)", commit).strip().splitlines() == [
        "Goalseek-Project: demo",
        f"Goalseek-Run: {records[2]['run_id']}",
        "Goalseek-Iteration: 2",
        "Goalseek-Provider: scripted",
    ]
    for record in (records[2], records[7]):  # the second is a revert of what is called a revert
        project.git("switch", "--quiet", "--detach", record["commit_hash"])
        project.git("revert", "--no-edit", "HEAD")
        whole = "--format=%T %P %B"
        assert project.git("log", "-1", whole, record["rollback_commit_hash"]) == project.git("log", "-1", whole)

    project.git("switch", "--quiet", "main")
    project.git("branch", "-D", "goalseek/demo")
    project.set_moves(*[answer(5)] * 8)
    ended = project.run("iterate")
    made_again = "the branch goalseek/demo was missing; goalseek made it at "
    assert ended.exit_code == 0 and made_again in ended.stdout + ended.stderr
    assert project.git("rev-parse", "goalseek/demo") == project.iterations()[-1]["commit_hash"]
