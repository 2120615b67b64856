"""What a provider changes outside its scope never gets in, and is named."""

from collections.abc import Callable

from project import Project, answer


def play(project: Project, *steps: str, **scope: object) -> list[dict]:  # type: ignore[type-arg]
    """One iteration for each shell line, run in the workspace; gives the records after the baseline."""
    set_steps(project, *steps, **scope)
    return project.climb("iterate", "-n", str(len(steps)))[1:]


def set_steps(project: Project, *steps: str, **scope: object) -> None:
    """Makes the agent a shell that runs the n-th line in iteration n."""
    lines = "\n".join(f"{number}) {step};;" for number, step in enumerate(steps, start=1))
    agent = project.top.parent / "agent.sh"
    agent.write_text(f'case $GOALSEEK_ITERATION in\n{lines}\nesac\necho "step $GOALSEEK_ITERATION"\n')
    scopes = {"scope": scope} if scope else {}
    project.set_manifest({"provider": {"name": "command", "command": ["sh", str(agent)]}, **scopes})


def better(score: int) -> str:
    """A shell line that makes a better candidate."""
    return f"""printf '%s' '{answer(score)}' > answer.json"""


def test_edits_of_files_that_are_not_the_candidates_refuse_it_by_name(project: Project) -> None:
    project.write({"notes/read.md": "read me\n", "hidden/more/labels.csv": "1\n", ".gitignore": "*.tmp\n"})
    project.commit()
    records = play(
        project,
        f"{better(2)}; echo mine > other.txt",
        f"{better(3)}; rm notes/read.md",
        f"{better(4)}; mkdir hidden; echo 2 > hidden/labels.csv",
        f"{better(5)}; echo '*' >> .gitignore",
        f"{better(6)}; rm -r notes; ln -s /etc notes",
        f"{better(7)}; rm other.txt; mkdir other.txt; echo 1 > other.txt/x",
        f"{better(9)}; chmod +x other.txt",
        better(10),
    )
    refused = records[:-1]
    assert [record["reason"] for record in refused] == ["out_of_scope"] * len(refused)
    named = ("other.txt", "notes/read.md", "hidden/labels.csv", ".gitignore", "notes", "other.txt", "other.txt")
    whys = [record["why"] for record in refused]
    assert [name for name, why in zip(named, whys, strict=True) if name not in why] == [], whys
    assert all(record["commit_hash"] is None for record in refused)
    assert (records[-1]["outcome"], records[-1]["dropped_files"]) == ("kept", [])
    patch = (project.run_folder(1) / "changes.diff").read_text()
    assert "+mine" in patch and '+{"score": 2' in patch
    tree = project.git("ls-tree", "-r", "--name-only", "goalseek/demo").splitlines()
    assert sorted(tree) == sorted(project.git("ls-files").splitlines())


def test_a_file_that_comes_out_as_it_was_is_no_edit(project: Project) -> None:
    records = play(
        project,
        f"{better(2)}; touch other.txt",
        f"{better(3)}; echo mine > other.txt; git checkout --quiet other.txt",
        f"{better(4)}; cp other.txt copy.txt; mv copy.txt other.txt; chmod 600 other.txt",
    )
    assert [(record["reason"], record["changed_files"]) for record in records] == [("better", ["answer.json"])] * 3
    assert (project.run_folder(1) / "changes.diff").read_text().count("diff --git") == 1


def test_a_new_path_that_would_push_something_out_of_the_tree_is_out_of_scope(project: Project) -> None:
    project.git("update-index", "--add", "--cacheinfo", f"160000,{project.git('rev-parse', 'HEAD')},module")
    project.git("commit", "--quiet", "-m", "a submodule")
    (project.folder / "module").mkdir()
    records = play(
        project,
        f"{better(2)}; echo 1 > hidden",
        f"{better(3)}; rm -rf module; mkdir module; echo 1 > module/x",
        f"{better(4)}; rm -rf module; echo 1 > module",
        better(5),
        writable=["*"],
        hidden=["hidden/**"],
    )
    assert [record["reason"] for record in records] == ["out_of_scope"] * 3 + ["better"]
    assert "hidden" in records[0]["why"] and "module" in records[1]["why"] and "module" in records[2]["why"]
    kept = project.git("ls-tree", "-r", "--name-only", "goalseek/demo").splitlines()
    assert kept == project.git("ls-tree", "-r", "--name-only", "HEAD").splitlines()


def test_new_files_outside_the_scope_are_left_out_and_named(project: Project) -> None:
    dropped, only = play(
        project, f"{better(2)}; echo 1 > stray.txt; mkdir -p a/b; echo 1 > 'a/b/ä c'", "echo 1 > stray"
    )
    assert dropped["outcome"] == "kept"
    assert dropped["dropped_files"] == ["a/b/ä c", "stray.txt"]
    assert project.git("diff", "--name-only", "main", "goalseek/demo") == "answer.json"
    assert only["reason"] == "no_change" and "stray" in only["why"]


def test_strays_refuse_the_candidate_where_the_manifest_says_reject_but_no_droppings_of_tools(project: Project) -> None:
    project.write({".gitignore": "*.log\n/tmp/\n"})
    project.commit()
    caches = "mkdir -p __pycache__ .pytest_cache tmp; touch __pycache__/a.pyc .pytest_cache/x tmp/y run.log .DS_Store"
    strays, clean, droppings = play(
        project,
        *(f"{better(2)}; echo 1 > stray.txt", better(3), f"{better(4)}; {caches}"),
        writable=["answer.json"],
        hidden=["hidden/**"],
        strays="reject",
    )
    assert strays["reason"] == "out_of_scope" and "stray.txt" in strays["why"]
    assert clean["outcome"] == "kept"
    assert droppings["outcome"] == "kept" and droppings["dropped_files"] == []


def test_generated_files_may_change_and_are_never_committed(project: Project) -> None:
    project.write({"out/old.txt": "old\n"})
    project.commit()
    kept, nothing = play(
        project,
        f"{better(2)}; echo new > out/old.txt; echo more > out/new.txt",
        "echo new > out/old.txt",
        writable=["answer.json"],
        generated=["out/**"],
        hidden=["hidden/**"],
    )
    assert kept["outcome"] == "kept" and kept["changed_files"] == ["answer.json"] and kept["dropped_files"] == []
    assert nothing["reason"] == "no_change"


def test_hidden_beats_read_only_beats_generated_beats_writable(make_project: Callable[..., Project]) -> None:
    files = {"answer.json": answer(1), "hidden/judge.sh": 'cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"'}
    project = make_project(files={**files, "secret.txt": "1\n", "fixed.txt": "1\n", "made.txt": "1\n"})
    records = play(
        project,
        f"{better(2)}; test ! -e secret.txt || exit 9; echo 2 > made.txt",
        f"{better(3)}; echo 2 > fixed.txt",
        writable=["*", "!hidden"],
        generated=["made.txt", "fixed.txt"],
        read_only=["fixed.*"],
        hidden=["hidden/**", "secret.*"],
    )
    assert [record["reason"] for record in records] == ["better", "out_of_scope"]
    assert records[0]["changed_files"] == ["answer.json"]


def test_the_program_is_never_the_candidates_to_edit(project: Project) -> None:
    project.write({"program.md": "climb\n"})
    project.commit()
    (record,) = play(project, f"{better(2)}; echo mine > program.md", writable=["*"], hidden=["hidden/**"])
    assert record["reason"] == "out_of_scope" and "program.md" in record["why"]
    assert "climb" in (project.run_folder(1) / "prompt.md").read_text()


def test_a_shared_folder_is_there_in_both_trees_and_never_copied(project: Project) -> None:
    project.write({".gitignore": "data/\n", "data/big.txt": "data\n"})
    project.write(
        {"hidden/judge.sh": 'test "$(cat data/big.txt)" = data && cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"'}
    )
    project.commit()
    (record,) = play(
        project, f"test -e data/big.txt && {better(2)}", writable=["answer.json"], hidden=["hidden/**"], share=["data"]
    )
    assert record["outcome"] == "kept"
    assert (project.trees() / "workspace" / "data").is_symlink()
    assert (project.folder / "data" / "big.txt").read_text() == "data\n"
