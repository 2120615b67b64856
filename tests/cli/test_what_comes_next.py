"""``status`` says how the last command ended and what to do next, after what a morning may bring."""

from pathlib import Path

import pytest
from project import Project, Projects, answer

from goalseek.manifest.loading import with_manifest_option
from goalseek.views.report.pages import mark_commands

HOME = "goalseek promote applies the kept changes missing from HEAD"


def next_of(project: Project) -> str:
    return project.check("status").rpartition("next: ")[2].rstrip("\n")


def test_a_baseline_that_was_asked_for_is_no_interruption_and_one_that_fails_later_failed(played: Projects) -> None:
    project = played(answer(2))
    project.climb("baseline")
    assert project.check("status").startswith("demo: finished as asked")
    assert next_of(project) == f"goalseek iterate goes on; {HOME}"
    project.write({"hidden/judge.sh": "echo no luck; exit 3\n"})
    project.commit()
    ended = project.run("baseline")
    assert ended.exit_code == 1, ended
    assert project.check("status").startswith("demo: failed: the baseline has no number")
    assert next_of(project).startswith("correct the verifier or the code")


def test_nothing_is_to_be_taken_home_where_nothing_was_kept(project: Project) -> None:
    project.set_moves(answer(0), answer(3))
    project.climb()
    assert next_of(project) == "goalseek iterate goes on; nothing is kept yet"
    assert "promote" not in project.run("report", "-o", "-", "--format", "md").stdout
    ended = project.run("promote", "--branch", "better")
    assert "no change was kept" in ended.stderr and ended.stdout == ""
    assert project.run("promote", "--patch", "-").stdout == "", "a mailbox without a message"
    assert "better" not in project.git("for-each-ref")
    project.climb()
    assert next_of(project) == f"goalseek iterate goes on; {HOME}"


def test_records_that_only_git_has_are_told_of_wherever_they_are_missed(played: Projects) -> None:
    project = played(answer(2), more=(answer(3),))
    results = project.results
    before = results.read_bytes()
    project.climb()
    after = results.read_bytes()
    lines = after.splitlines(keepends=True)
    for content, words in (
        (before, "a newer record is in git, as refs/goalseek/demo/ledger: goalseek audit --rebuild writes it here"),
        (b"".join(lines[:2]), "2 newer records are in git, as refs/goalseek/demo/ledger"),
        (b"", "the records are in git, as refs/goalseek/demo/ledger: goalseek audit --rebuild writes them here"),
    ):
        results.write_bytes(content)
        assert next_of(project).startswith(words)
        ended = project.run("show", "2")
        assert ended.exit_code == 2 and words in ended.stderr, ended
    assert words in project.run("log").stderr
    assert words in project.run("promote").stderr
    project.check("audit", "--rebuild")
    assert results.read_bytes() == after
    assert "goalseek iterate goes on" in next_of(project)


def test_what_is_to_be_typed_names_the_manifest_where_it_has_to(project: Project) -> None:
    project.set_moves(answer(2), answer(0))
    second = Project(project.top, project.folder)  # another climb in the same repository
    second.script, second.manifest = project.script, project.folder / "goalseek.second.toml"
    second.set_manifest({"project": {"name": "second"}})
    second.commit()

    def told(*arguments: str) -> str:
        ended = second.run("-m", "second", *arguments)
        return f"{ended.stdout}{ended.stderr}"

    assert "next: goalseek -m second doctor, then goalseek -m second iterate" in told("status")
    assert "climb first: goalseek -m second iterate" in told("promote")
    assert "your checkout is untouched · goalseek -m second promote\n" in told("iterate")
    assert "goalseek -m second iterate goes on; goalseek -m second promote applies" in told("status")
    assert "`goalseek -m second promote` applies" in told("report", "-o", "-", "--format", "md")
    assert "to make the commits: goalseek -m second promote --branch NAME --squash" in told("promote", "--squash")
    second.write({"hidden/more.txt": "1\n"})
    second.commit()
    assert "file hidden/more.txt; goalseek -m second baseline adopts it" in told("status")
    assert "differs from the pinned verifier; goalseek -m second baseline adopts it" in told("iterate")
    assert "see: goalseek -m second log" in told("show", "99")
    first = second.run("status").stdout
    assert "goalseek doctor, then goalseek iterate" in first and " -m " not in first


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (None, "goalseek iterate goes on; goalseek promote"),
        (Path("/a/goalseek.toml"), "goalseek iterate goes on; goalseek promote"),
        (Path("/a/goalseek.b.toml"), "goalseek -m b iterate goes on; goalseek -m b promote"),
        (Path("/a b/c.toml"), "goalseek -m '/a b/c.toml' iterate goes on; goalseek -m '/a b/c.toml' promote"),
        ("../c.toml", "goalseek -m ../c.toml iterate goes on; goalseek -m ../c.toml promote"),
    ],
)
def test_a_manifest_is_named_as_the_option_takes_it_and_once(manifest: Path | str | None, words: str) -> None:
    once = with_manifest_option("goalseek iterate goes on; goalseek promote", manifest)
    assert once == words
    assert with_manifest_option(once, manifest) == words
    assert with_manifest_option("what goalseek finds", manifest) == "what goalseek finds"
    if manifest:
        assert mark_commands(words).count("`") == 4


def test_a_run_that_is_over_is_gone_on_with_or_taken_home(project: Project) -> None:
    project.set_manifest({"limits": {"iterations": 1}})
    project.commit()
    project.set_moves(answer(0), answer(2))
    project.climb("iterate", "--forever")
    over = "limits.iterations = 1 is reached, 1 spent; raise it in the manifest, or begin a new run with: "
    assert next_of(project) == f"{over}goalseek iterate --new"
    project.climb("iterate", "--new", "--forever")
    assert next_of(project) == f"{over}goalseek iterate --new; {HOME}"
    told = project.check("report", "-o", "-", "--format", "md")
    assert told.endswith(f"`goalseek iterate --new`; {HOME.replace('goalseek promote', '`goalseek promote`')}\n")


def test_a_number_that_no_candidate_moves_names_doctor_and_nothing_is_to_be_taken_home(project: Project) -> None:
    unmoved = "no candidate has moved the number: check with goalseek doctor that the verifier reads them"
    project.write({"hidden/judge.sh": 'echo \'{"score": 1}\' > "$GOALSEEK_RUN_DIR/metrics.json"\n'})
    project.commit()
    project.set_moves(*map(answer, range(2, 8)))
    assert unmoved not in project.run("iterate", "-n", "4").stderr
    assert unmoved not in project.check("status")
    ended = project.run("iterate", "-n", "1")
    assert f"note: {unmoved}\n" in ended.stderr and unmoved in project.check("status")
    project.set_manifest({"limits": {"stagnation_stop": 5}})
    stopped = project.run("iterate")
    assert "say what to try" in stopped.stderr and "promote" not in stopped.stderr + next_of(project)
    project.write({"hidden/judge.sh": 'cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"\n'})
    project.commit()
    project.check("baseline")
    assert unmoved not in project.check("status") and "promote" not in next_of(project)
