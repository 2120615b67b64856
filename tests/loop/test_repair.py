"""A candidate that crashed, or edited what is not its to edit, goes back to its author once; both tries are recorded."""

import shutil
from typing import Any

import pytest
from project import Project, Projects, home

pytestmark = pytest.mark.slow

TRAIN = """\
echo "trained with seed $GOALSEEK_SEED" >> "$HOME/seeds"
if grep -q crash answer.json; then echo "loading"; echo "KeyError: 'rate'" >&2; exit 1; fi
"""
JUDGE = 'cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"\n'
FILES = {"answer.json": '{"score": 1}\n', "other.txt": "x\n", "train.sh": TRAIN, "hidden/judge.sh": JUDGE}
VERIFY = [
    {"name": "train", "run": "sh train.sh", "sees": "candidate"},
    {"name": "judge", "run": "sh hidden/judge.sh", "sees": "both"},
]
AGENT = """\
echo "$GOALSEEK_ITERATION $GOALSEEK_PHASE" >> "$HOME/called"
cp "$GOALSEEK_PROMPT" "$HOME/prompt-$GOALSEEK_ITERATION-$GOALSEEK_PHASE"
cp answer.json "$HOME/found-$GOALSEEK_ITERATION-$GOALSEEK_PHASE"
echo "the idea of $GOALSEEK_ITERATION"
"""
CRASHES = """echo '{"score": 2, "crash": 1}' > answer.json\n"""
MENDS = """echo '{"score": 2}' > answer.json\n"""
STRAYS = "echo mine > other.txt\n"


def at_home(name: str) -> str:
    return home(name).read_text()


def called() -> list[str]:
    return at_home("called").splitlines()


@pytest.fixture
def agent(make_project: Projects) -> Projects:
    """A project whose agent does ``first`` when it applies and ``then`` when it repairs."""

    def make(first: str, then: str, repair: int | None = None, **manifest: Any) -> Project:
        project = make_project(files=FILES)
        script = f"{AGENT}if [ $GOALSEEK_PHASE = repair ]; then\n:\n{then}else\n{first}fi\n"
        more = {} if repair is None else {"repair": repair}
        more |= manifest.pop("provider", {})
        project.set_agent(script, {"verify": VERIFY, **manifest}, **more)
        project.commit()
        return project

    return make


def branch(project: Project) -> list[str]:
    return project.git("log", "--reverse", "--first-parent", "--format=%s", "goalseek/demo").splitlines()[2:]


def assert_sound(project: Project) -> None:
    project.check("audit")
    assert "missing" not in project.git("fsck", "--strict", "--no-dangling")


def test_a_crashed_candidate_goes_back_with_its_last_lines_and_its_repair_is_kept(agent: Projects) -> None:
    project = agent(CRASHES, MENDS)
    parent = project.git("rev-parse", "HEAD")
    record = project.climb()[-1]
    assert (record["outcome"], record["metric"]["value"], called()) == ("kept", 2, ["1 apply", "1 repair"])
    assert record["parent_commit_hash"] == parent and record["hypothesis_summary"] == "the idea of 1"
    (attempt,) = record["attempts"]
    assert (attempt["reason"], sorted(attempt)) == ("verify_failed", ["commit_hash", "reason", "usage"])
    assert project.git("rev-parse", f"{record['commit_hash']}^") == attempt["commit_hash"]
    assert project.git("rev-parse", f"{attempt['commit_hash']}^") == parent
    assert branch(project) == ["the idea of 1", "the idea of 1 (try 2)"]
    told = at_home("prompt-1-repair")
    assert "KeyError: 'rate'" in told and "loading" in told and "train ended with 1" in told
    assert "crash" in at_home("found-1-repair"), "it goes on from what it had"
    assert len(set(at_home("seeds").splitlines())) == 3, "each measurement has a seed of its own"
    diff = project.run("show", "1", "--diff").stdout
    assert '+{"score": 2}' in diff and '-{"score": 1}' in diff and "crash" not in diff
    folder = project.run_folder(1)
    assert "crash" in (folder / "attempts" / "1" / "changes.diff").read_text()
    assert "KeyError" in (folder / "attempts" / "1" / "verifier.log").read_text()
    assert "KeyError" not in (folder / "verifier.log").read_text()
    shown = project.run("show", "1")
    assert f"attempt    {attempt['commit_hash']}: verify_failed" in shown.stdout
    assert_sound(project)
    project.git("checkout", "--quiet", "-b", "taken")
    project.check("promote", "--branch", "mine")
    assert project.git("show", "mine:answer.json") == '{"score": 2}'
    project.check("promote", "--branch", "better")
    assert project.git("log", "--format=%s", "main..better") == "the idea of 1"
    assert project.git("rev-parse", "better^{tree}") == record["tree_hash"]


def test_no_repair_is_asked_for_which_the_tokens_do_not_suffice(agent: Projects) -> None:
    report = """echo '{"input_tokens": 90, "output_tokens": 10}' > "$GOALSEEK_USAGE"\n"""
    project = agent(report + CRASHES, report + MENDS, limits={"tokens": 150})
    record = project.climb("iterate", "--forever")[-1]
    assert (record["iteration"], record["reason"], record["attempts"]) == (1, "verify_failed", [])
    assert called() == ["1 apply"]


def test_a_rejected_repair_takes_every_try_back_newest_first(agent: Projects) -> None:
    project = agent(CRASHES, "echo '{\"score\": 0, \"n\": '$GOALSEEK_ITERATION'}' > answer.json\n", repair=3)
    records = project.climb("iterate", "-n", "2")
    assert [record["reason"] for record in records[1:]] == ["worse", "worse"]
    titles = ["the idea of 1", "the idea of 1 (try 2)"]
    reverts = [f'Revert "{title}"' for title in reversed(titles)]
    assert branch(project)[:4] == [*titles, *reverts]
    rollback, tip = records[1]["rollback_commit_hash"], records[2]["parent_commit_hash"]
    assert rollback == tip and project.git("diff", "--name-only", rollback, records[1]["parent_commit_hash"]) == ""
    assert f"This reverts commit {records[1]['attempts'][0]['commit_hash']}." in project.git("log", "-1", rollback)
    assert_sound(project)


def test_it_goes_back_as_often_as_the_manifest_says_and_never_where_it_says_nought(agent: Projects) -> None:
    again = """echo '{"score": 2, "crash": '$(cat "$HOME/called" | wc -l)'}' > answer.json\n"""
    project = agent(again, again, repair=2)
    record = project.climb()[-1]
    assert (record["reason"], called()) == ("verify_failed", ["1 apply", "1 repair", "1 repair"])
    assert [attempt["reason"] for attempt in record["attempts"]] == ["verify_failed"] * 2
    assert len(branch(project)) == 6
    folder = project.run_folder(1)
    assert sorted(path.name for path in (folder / "attempts").iterdir()) == ["1", "2", "3"]
    for number in (1, 2):
        assert f'"crash": {number}' in (folder / "attempts" / str(number) / "changes.diff").read_text()
        assert "KeyError" in (folder / "attempts" / str(number) / "verifier.log").read_text()
    assert '"crash": 3' in (folder / "changes.diff").read_text()
    assert_sound(project)
    project.set_manifest(project.manifest.read_text().replace("repair = 2", "repair = 0"))
    record = project.climb()[-1]
    assert (record["reason"], record["attempts"], called()[3:]) == ("verify_failed", [], ["2 apply"])
    assert_sound(project)


def test_a_change_outside_its_scope_goes_back_with_the_rule_and_keeps_what_was_within(agent: Projects) -> None:
    project = agent(MENDS + STRAYS, "grep -q x other.txt && echo mended\n")
    record = project.climb()[-1]
    assert (record["outcome"], record["changed_files"], called()) == ("kept", ["answer.json"], ["1 apply", "1 repair"])
    assert [(attempt["commit_hash"], attempt["reason"]) for attempt in record["attempts"]] == [(None, "out_of_scope")]
    told = at_home("prompt-1-repair")
    assert "other.txt is outside scope.writable" in told and "# Files that you may change" in told
    assert '"score": 2' in at_home("found-1-repair")
    assert branch(project) == ["the idea of 1"] and project.git("show", "goalseek/demo:other.txt") == "x"
    assert "other.txt" in (project.run_folder(1) / "attempts" / "1" / "changes.diff").read_text()
    assert "other.txt" not in project.run("show", "--diff").stdout
    assert_sound(project)


@pytest.mark.parametrize(
    ("first", "then", "reason", "attempts"),
    [
        (STRAYS, STRAYS, "out_of_scope", ["out_of_scope"]),
        (STRAYS, "exit 7\n", "provider_failed", ["out_of_scope"]),
        (STRAYS, ":\n", "no_change", ["out_of_scope"]),
        (CRASHES, ":\n", "verify_failed", ["no_change"]),
        (CRASHES, "exit 7\n", "verify_failed", ["provider_failed"]),
        (CRASHES, """echo '{"score": 1}' > answer.json\n""", "verify_failed", ["no_change"]),
        (CRASHES, STRAYS, "verify_failed", ["out_of_scope"]),
    ],
)
def test_a_repair_in_vain_is_recorded(agent: Projects, first: str, then: str, reason: str, attempts: list[str]) -> None:
    project = agent(first, then)
    record = project.climb()[-1]
    assert (record["reason"], [attempt["reason"] for attempt in record["attempts"]]) == (reason, attempts)
    assert [attempt["commit_hash"] for attempt in record["attempts"]] == [None]
    ends = [note for note in record["notes"] if "of its author failed" in note]
    assert bool(record["commit_hash"]) == (first == CRASHES) == bool(ends)
    assert len(branch(project)) == (2 if first == CRASHES else 0)
    if first == CRASHES:
        assert "crash" in project.run("show", "--diff").stdout
    assert project.git("status", "--porcelain", folder=project.trees() / "workspace") == ""
    assert_sound(project)


def test_a_repair_that_was_measured_before_is_no_new_candidate(agent: Projects) -> None:
    first = f"if [ $GOALSEEK_ITERATION = 1 ]; then echo '{{\"score\": 0}}' > answer.json; else {CRASHES.strip()}; fi\n"
    project = agent(first, """echo '{"score": 0}' > answer.json\n""")
    record = project.climb("iterate", "-n", "2")[-1]
    assert (record["reason"], record["attempts"][0]["reason"]) == ("verify_failed", "duplicate")
    assert "the same tree was measured in iteration 1" in record["notes"][0]
    assert_sound(project)


def test_what_a_command_with_hidden_files_said_never_goes_back(agent: Projects) -> None:
    passing = [{"name": "judge", "run": "! grep -q crash answer.json && sh hidden/judge.sh", "sees": "both"}]
    project = agent(CRASHES, MENDS, verify=passing)
    record = project.climb()[-1]
    assert (record["reason"], record["attempts"], called()) == ("verify_failed", [], ["1 apply"])


def test_a_script_is_not_asked_to_repair(make_project: Projects) -> None:
    project = make_project(files=FILES)
    project.set_manifest({"verify": VERIFY})
    project.set_moves('{"score": 2, "crash": 1}\n', {"files": {"other.txt": "mine\n"}}, '{"score": 3}\n')
    records = project.climb("iterate", "-n", "3")
    assert [record["reason"] for record in records[1:]] == ["verify_failed", "out_of_scope", "better"]
    assert not any(record["attempts"] for record in records)


def test_a_person_is_asked_about_the_repaired_change(agent: Projects) -> None:
    project = agent(CRASHES, MENDS, approve={"before": "kept"})
    assert project.run("iterate").exit_code == 5
    project.check("decline", "1")
    record = project.climb()[-1]
    assert (record["outcome"], record["reason"]) == ("reverted", "declined") and len(branch(project)) == 4
    assert called() == ["1 apply", "1 repair"]
    assert_sound(project)


@pytest.mark.parametrize(
    ("first", "commits", "run"), [(CRASHES, 4, ()), (STRAYS + MENDS, 2, ()), (CRASHES, 4, ("--new",))]
)
def test_a_repair_that_was_lost_is_interrupted(agent: Projects, first: str, commits: int, run: tuple[str, ...]) -> None:
    project = agent(first, """echo '{"score": 0}' > answer.json\n""")
    project.step_until((project.run_folder(1) / "candidate-2.json").exists)
    project.check("audit")
    if not run:
        shutil.rmtree(project.run_folder(1))
    record = project.climb("iterate", "-n", "1", *run)[1]
    assert (record["outcome"], record["reason"], len(branch(project))) == ("skipped", "interrupted", commits)
    assert [attempt["reason"] for attempt in record["attempts"]] == ["interrupted"] * (commits // 2 - 1)
    assert_sound(project)


def test_a_credential_in_a_crash_does_not_go_back_with_it(agent: Projects, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "hf-planted-token-0123456789"
    monkeypatch.setenv("HUB_TOKEN", key)
    project = agent(CRASHES, MENDS, env={"verify": {"pass": ["HUB_TOKEN"]}}, provider={"record": "recordings"})
    project.write({"train.sh": TRAIN.replace('echo "loading"', 'echo "token $HUB_TOKEN"')})
    project.commit()
    assert project.climb()[-1]["outcome"] == "kept"
    assert "token [credential]" in at_home("prompt-1-repair")
    seen = list((project.folder / "recordings").iterdir())
    seen += project.run_folder(1).rglob("*.md")
    assert len(seen) > 5 and not [path for path in seen if key in path.read_text()]
