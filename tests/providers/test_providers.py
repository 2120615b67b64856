"""One list of promises, kept by every provider: command, scripted, tune, and an agent."""

import json
from pathlib import Path

import pytest
from fake_agents import Fakes
from project import Project, Projects, answer

pytestmark = pytest.mark.slow

KNOB = "RATE = {}  # goalseek: int 1..40\n".format
JUDGE = """sed -n 's/^RATE = \\([0-9]*\\).*/{"score": \\1}/p' knobs.txt > "$GOALSEEK_RUN_DIR/metrics.json"\n"""
MOVE = "[[move]]\ntitle = '{}'\nfiles = {{ 'knobs.txt' = '''{}''' }}\n".format


@pytest.mark.parametrize("name", ["command", "scripted", "tune", "claude"])
def test_its_proposals_become_candidates_under_its_name_and_none_is_repeated(
    name: str, fake: Fakes, make_project: Projects, tmp_path: Path
) -> None:
    fake("claude")
    agent, script = tmp_path / "agent.sh", tmp_path / "moves.toml"
    line = "RATE = $((GOALSEEK_ITERATION + 1))  # goalseek: int 1..40"
    agent.write_text(f'echo "{line}" > knobs.txt\necho "a higher rate"\necho why not\n')
    script.write_text("".join(MOVE(f"move {n}", KNOB(n + 1)) for n in range(1, 9)))
    tables = {"command": {"command": ["sh", str(agent)]}, "scripted": {"script": str(script)}, "tune": {"seed": 1}}
    scope = {"writable": ["knobs.txt"], "hidden": ["hidden/**"]}
    climbing = make_project(
        files={"knobs.txt": KNOB(1), "hidden/judge.sh": JUDGE},
        manifest={"scope": scope, "provider": {"name": name, **tables.get(name, {})}},
    )
    before = climbing.users()
    _, *records = climbing.climb("iterate", "-n", "3")
    assert records[0]["outcome"] == "kept", records[0]["why"]
    for record in records:
        assert record["provider"] == name and record["changed_files"] == ["knobs.txt"]
        title = record["hypothesis_summary"]
        message = climbing.git(
            "log", "-1", "--format=%s%n%(trailers:key=Goalseek-Provider,valueonly)", record["commit_hash"]
        )
        assert message.split("\n")[:2] == [title, name]
        folder = climbing.run_folder(record["iteration"])
        assert title in (folder / "plan.md").read_text()
        assert "knobs.txt" in (folder / "prompt.md").read_text() and (folder / "provider_output.md").exists()
        assert json.loads((folder / "plan.json").read_text())["name"] == "plan"
    assert records[0]["seconds"].keys() >= {"PLAN", "APPLY_CHANGE"}
    assert climbing.users() == before
    for _ in range(2):
        climbing.climb()
    values = [record["metric"]["value"] for record in climbing.iterations()]
    assert len(set(values)) == 6, "a later process repeats nothing"


def test_what_a_command_that_failed_had_edited_is_stored_and_put_back(project: Project) -> None:
    record = project.set_agent("echo half > answer.json; echo first; echo oh no >&2; exit 3\n").climb()[1]
    assert (record["outcome"], record["reason"], record["commit_hash"]) == ("skipped", "provider_failed", None)
    assert record["why"] == "the provider ended with 3: oh no"
    assert project.git("status", "--porcelain", folder=project.trees() / "workspace") == ""
    assert "+half" in (project.run_folder(1) / "changes.diff").read_text(), "what it tried is kept"
    assert (project.run_folder(1) / "provider_output.md").read_text() == "first\noh no\n", "and what it said"


def test_a_script_at_its_end_says_so(project: Project) -> None:
    project.set_moves(answer(2))
    _, _, record = project.climb("iterate", "-n", "2")
    assert record["reason"] == "provider_failed" and record["commit_hash"] is None
    assert record["why"].startswith(f"the script has no more moves: {project.script.name} has 1 move")


EDIT = """printf '{"score": %s1}' "$GOALSEEK_ITERATION" > answer.json\n"""


def test_a_command_that_runs_past_its_limit_is_a_provider_timeout(project: Project) -> None:
    record = project.set_agent(f"{EDIT}setsid sleep 60 & sleep 61", timeout=0.5).climb()[1]
    assert (record["outcome"], record["reason"]) == ("skipped", "provider_timeout")
    assert '+{"score": 11}' in (project.run_folder(1) / "changes.diff").read_text()


def test_failures_count_until_a_candidate_is_measured_whose_title_is_the_first_line(project: Project) -> None:
    says = f"printf '\\n  tab\\there \\033[1mbold {'x' * 500}\\nmore\\n'"
    project.set_agent(f"[ $GOALSEEK_ITERATION = 2 ] || exit 1\n{EDIT}{says}").climb("iterate", "-n", "3")
    records = project.iterations()
    reasons = [record["reason"] for record in records]
    assert reasons == ["measured", "provider_failed", "better", "provider_failed"]
    title = records[2]["hypothesis_summary"]
    assert title.startswith("tab here [1mbold xxx") and len(title) <= 200 and title.isprintable()


def test_a_script_counts_its_own_moves_and_another_one_begins_at_its_first(project: Project) -> None:
    def titles() -> list[str]:
        return [record["hypothesis_summary"] for record in project.iterations()[1:]]

    project.set_moves(answer(2), answer(3), answer(3.5))
    project.set_agent("sed -i 's/: 1,/: 1.5,/' answer.json; echo another")
    project.climb("iterate", "-n", "1")
    project.set_manifest({})
    project.climb("iterate", "-n", "2")
    assert titles() == ["another", "move 1", "move 2"]
    project.write({"hidden/more.txt": "more\n"})
    project.commit("another ruler")
    project.check("baseline")
    project.climb("iterate", "-n", "1")
    assert titles()[3:] == ["", "move 3"], "the same script goes on under another ruler"
    fresh = [{"title": "a fresh one", "files": {"answer.json": answer(score)}} for score in (5, 6)]
    project.set_moves(*fresh)
    project.climb("iterate", "-n", "1")
    project.set_moves(*fresh, answer(7))
    project.climb("iterate", "-n", "2")
    assert [row["metric"]["value"] for row in project.iterations()[-3:]] == [5, 6, 7]
    assert "has 3 moves" in project.run("iterate", "--forever").stderr
