"""The branch's history: candidate commits with trailers, and reverts as git words them, as the records say."""

from project import Project, answer


def climbed(project: Project) -> list[dict]:  # type: ignore[type-arg]
    project.set_moves(answer(2), answer(1.5), answer(3), answer(0), {"files": {"other.txt": "x\n"}}, answer(4))
    return project.climb("iterate", "-n", "6")


def test_the_branch_alternates_as_the_records_say(project: Project) -> None:
    records = climbed(project)
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


def test_a_candidate_carries_its_title_and_trailers_and_its_revert_is_the_one_that_git_makes(project: Project) -> None:
    records = climbed(project)
    commit = records[2]["commit_hash"]
    assert project.git("log", "-1", "--format=%s", commit) == "move 2"
    trailers = project.git("log", "-1", "--format=%(trailers:unfold)", commit).strip().splitlines()
    assert trailers == [
        "Goalseek-Project: demo",
        f"Goalseek-Run: {records[2]['run_id']}",
        "Goalseek-Iteration: 2",
        "Goalseek-Provider: scripted",
    ]
    assert project.git("log", "-1", "--format=%an <%ae>", commit) == "goalseek <goalseek@localhost>"
    made = records[2]["rollback_commit_hash"]
    project.git("switch", "--quiet", "--detach", records[2]["commit_hash"])
    project.git("revert", "--no-edit", "HEAD")
    for what in ("%T", "%P", "%B"):
        assert project.git("log", "-1", f"--format={what}", made) == project.git(
            "log", "-1", f"--format={what}", "HEAD"
        )


def test_a_revert_of_a_revert_is_worded_as_git_words_it(project: Project) -> None:
    project.set_moves({"title": 'Revert "x"', "files": {"answer.json": answer(0)}})
    made = project.climb()[1]
    project.git("switch", "--quiet", "--detach", made["commit_hash"])
    project.git("revert", "--no-edit", "HEAD")
    wanted = project.git("log", "-1", "--format=%B", "HEAD")
    assert project.git("log", "-1", "--format=%B", made["rollback_commit_hash"]) == wanted


def test_a_branch_that_somebody_deleted_is_made_again(project: Project) -> None:
    project.set_moves(answer(2), answer(3))
    project.climb()
    project.git("branch", "-D", "goalseek/demo")
    ended = project.run("iterate")
    assert ended.exit_code == 0 and "goalseek/demo was deleted; it shows the tip again" in ended.stdout + ended.stderr
    assert project.git("rev-parse", "goalseek/demo") == project.iterations()[-1]["commit_hash"]
