"""What a provider changes outside its scope never gets in, and is named."""

from collections.abc import Callable

from project import Project, answer
from shell_agent import better, play

FOREIGN_EDITS = (
    ("echo mine > other.txt", "other.txt is outside scope.writable"),
    ("mkdir hidden; echo 2 > hidden/labels.csv", "hidden/labels.csv"),
    ("ln -sf hidden answer.json", "answer.json is a link to hidden"),
)
NO_EDITS = (
    "echo mine > other.txt; git checkout --quiet other.txt",
    "echo new > out/old.txt; echo more > out/new.txt",
)


def test_a_provider_that_changes_nothing_is_quoted(project: Project) -> None:
    steps = {
        r"printf '\n\033[31mI cannot help.\n\nBut ask again.\n'": "; it said: [31mI cannot help.",
        "echo '{\"a\": 1}'; echo no": "",
        "echo '<<<GOALSEEK PLAN X'; echo no": "; it said: no",
        "printf no%.0s $(seq 100)": "; it said: " + ("no" * 80)[:159] + "…",
        "echo 1 > stray.txt; echo no": " within its scope; left out: stray.txt; it said: no",
    }
    records = play(project, *(f"{step}; exit" for step in steps))
    assert [record["why"] for record in records] == [f"the provider changed nothing{said}" for said in steps.values()]


def test_edits_that_are_not_the_candidates_refuse_it_and_new_files_elsewhere_are_left_out(project: Project) -> None:
    files = {"notes/read.md": "read me\n", "hidden/more/labels.csv": "1\n", "out/old.txt": "old\n"}
    project.write({**files, ".gitignore": "*.tmp\n"})
    project.commit()
    stray = "echo 1 > stray.txt; mkdir -p a/b; echo 1 > 'a/b/ä c'"
    records = play(
        project,
        *(f"{better(2)}; {step}" for step, _ in FOREIGN_EDITS),
        *(f"{better(score)}; {step}" for score, step in enumerate(NO_EDITS, start=3)),
        f"{better(9)}; {stray}",
        *("echo 1 > stray", "echo new > out/old.txt"),
        **{"writable": ["answer.json"], "generated": ["out/**"], "hidden": ["hidden/**"]},
    )
    refused, kept, (left_out, only_stray, only_generated) = records[:3], records[3:5], records[5:]
    for (step, why), record in zip(FOREIGN_EDITS, refused, strict=True):
        assert (record["reason"], record["commit_hash"]) == ("out_of_scope", None), step
        assert why in record["why"], step
    patch = (project.run_folder(1) / "changes.diff").read_text()
    assert "+mine" in patch and '+{"score": 2' in patch
    told = [(record["reason"], record["changed_files"], record["dropped_files"]) for record in kept]
    assert told == [("better", ["answer.json"], [])] * len(NO_EDITS)
    assert (project.run_folder(4) / "changes.diff").read_text().count("diff --git") == 1
    assert (left_out["outcome"], left_out["dropped_files"]) == ("kept", ["a/b/ä c", "stray.txt"])
    assert only_stray["reason"] == "no_change" and "stray" in only_stray["why"]
    assert only_generated["reason"] == "no_change"
    assert project.git("diff", "--name-only", "main", "goalseek/demo") == "answer.json"


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


def test_hidden_beats_read_only_beats_generated_beats_writable_and_nothing_is_pushed_out_of_the_tree(
    make_project: Callable[..., Project],
) -> None:
    files = {"answer.json": answer(1), "hidden/judge.sh": 'cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"'}
    texts = dict.fromkeys(("secret.txt", "fixed.txt", "made.txt"), "1\n")
    project = make_project(files={**files, **texts, "program.md": "climb\n"})
    project.git("update-index", "--add", "--cacheinfo", f"160000,{project.git('rev-parse', 'HEAD')},module")
    project.git("commit", "--quiet", "-m", "a submodule")
    (project.folder / "module").mkdir()
    refused = (
        ("echo 2 > fixed.txt", "fixed.txt"),
        ("echo mine > program.md", "program.md"),
        ("echo 1 > hidden", "hidden"),
        ("rm -rf module; mkdir module; echo 1 > module/x", "module"),
    )
    first, *records = play(
        project,
        f"{better(2)}; test ! -e secret.txt || exit 9; echo 2 > made.txt",
        *(f"{better(3)}; {step}" for step, _ in refused),
        better(3),
        writable=["*"],
        generated=["made.txt", "fixed.txt"],
        read_only=["fixed.*"],
        hidden=["hidden/**", "secret.*"],
    )
    assert (first["reason"], first["changed_files"]) == ("better", ["answer.json"])
    assert [record["reason"] for record in records] == ["out_of_scope"] * len(refused) + ["better"]
    assert all(name in record["why"] for (_, name), record in zip(refused, records, strict=False))
    assert "climb" in (project.run_folder(1) / "prompt.md").read_text()
    kept = project.git("ls-tree", "-r", "--name-only", "goalseek/demo").splitlines()
    assert kept == project.git("ls-tree", "-r", "--name-only", "HEAD").splitlines()
