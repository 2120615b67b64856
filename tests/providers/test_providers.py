"""One list of promises, kept by every provider: command, scripted, tune, and each preset of an agent."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_agents import PROGRAMS, Fake
from project import Project

pytestmark = pytest.mark.slow

KNOB = "RATE = {}  # goalseek: int 1..40\n".format
JUDGE = """sed -n 's/^RATE = \\([0-9]*\\).*/{"score": \\1}/p' knobs.txt > "$GOALSEEK_RUN_DIR/metrics.json"\n"""
NAMES = ["command", "scripted", "tune", *PROGRAMS]


def table(name: str, folder: Path) -> dict[str, object]:
    """The manifest's provider table, with the files that it needs beside the repository."""
    if name == "command":
        agent = folder / "agent.sh"
        line = "RATE = $((GOALSEEK_ITERATION + 1))  # goalseek: int 1..40"
        agent.write_text(
            f'echo call >> "$HOME/calls"\necho "{line}" > knobs.txt\necho "a higher rate"\necho "why not"\n'
        )
        return {"name": name, "command": ["sh", str(agent)]}
    if name == "scripted":
        script = folder / "moves.toml"
        moves = [
            f"[[move]]\ntitle = 'move {n}'\nfiles = {{ 'knobs.txt' = '''{KNOB(n + 1)}''' }}\n" for n in range(1, 9)
        ]
        script.write_text("\n".join(moves))
        return {"name": name, "script": str(script)}
    if name in PROGRAMS:
        Fake(name, folder / "bin")
        return {"name": name}
    return {"name": name, "seed": 1}


@pytest.fixture(params=NAMES)
def climbing(
    request: pytest.FixtureRequest,
    make_project: Callable[..., Project],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Project:
    """A project that this provider can climb; one of the presets without a sandbox where it can do so."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    project = make_project(
        files={"knobs.txt": KNOB(1), "hidden/judge.sh": JUDGE},
        manifest={
            "scope": {"writable": ["knobs.txt"], "hidden": ["hidden/**"]},
            "provider": table(request.param, tmp_path),
            "sandbox": {"mode": "auto" if request.param == "mini-swe-agent" else "none"},
        },
    )
    project.name = request.param  # type: ignore[attr-defined]
    return project


def test_its_proposals_become_candidates_under_its_name(climbing: Project) -> None:
    name = climbing.name  # type: ignore[attr-defined]
    before = climbing.users()
    _, *records = climbing.climb("iterate", "-n", "3")
    assert records[0]["outcome"] == "kept", records[0]["why"]
    for record in records:
        assert record["provider"] == name and record["changed_files"] == ["knobs.txt"]
        assert record["hypothesis_summary"] == climbing.git("log", "-1", "--format=%s", record["commit_hash"])
        trailer = climbing.git(
            "log", "-1", "--format=%(trailers:key=Goalseek-Provider,valueonly)", record["commit_hash"]
        )
        assert trailer.strip() == name
        folder = climbing.run_folder(record["iteration"])
        assert record["hypothesis_summary"] in (folder / "plan.md").read_text()
        assert "knobs.txt" in (folder / "prompt.md").read_text() and (folder / "provider_output.md").exists()
        assert json.loads((folder / "plan.json").read_text())["name"] == "plan"
    assert records[0]["seconds"].keys() >= {"PLAN", "APPLY_CHANGE"}
    assert climbing.users() == before


@pytest.mark.slow
def test_a_resumed_climb_knows_what_was_tried(climbing: Project) -> None:
    for _ in range(4):
        climbing.climb()
    values = [record["metric"]["value"] for record in climbing.iterations()]
    assert len(set(values)) == 5, "a later process repeats nothing"


def test_it_is_stopped_by_a_run_that_goes_phase_by_phase_and_called_once(climbing: Project) -> None:
    climbing.climb("iterate", "-n", "1")
    for _ in range(3):
        assert climbing.run("step").exit_code == 0
    assert climbing.climb()[-1]["iteration"] == 2
    if climbing.name == "command":  # type: ignore[attr-defined]
        assert (Path(os.environ["HOME"]) / "calls").read_text() == "call\n" * 2


def test_another_one_may_be_named_on_the_command_line(climbing: Project, tmp_path: Path) -> None:
    other = "tune" if climbing.name != "tune" else "scripted"  # type: ignore[attr-defined]
    if other == "scripted":
        (climbing.folder / "moves.toml").write_text(
            f"[[move]]\ntitle = 'mine'\nfiles = {{ 'knobs.txt' = '''{KNOB(9)}''' }}\n"
        )
        climbing.commit()
    assert climbing.climb("iterate", "--provider", other)[-1]["provider"] == other


def test_what_it_cannot_do_is_a_skipped_iteration_and_the_workspace_is_put_back(climbing: Project) -> None:
    name = climbing.name  # type: ignore[attr-defined]
    climbing.climb()
    if name == "command":
        (climbing.top.parent / "agent.sh").write_text("echo half > knobs.txt; echo first; echo oh no >&2; exit 3\n")
    elif name in PROGRAMS:
        Fake(name, climbing.top.parent / "bin").acts(always="crash")
    elif name == "scripted":
        (climbing.top.parent / "moves.toml").write_text("[[move]]\ntitle = 'only'\nfiles = { 'knobs.txt' = 'x' }\n")
    else:
        climbing.write({"knobs.txt": "RATE = 1  # goalseek: int 1..2\n"})
        climbing.commit()
        assert climbing.run("baseline", "--from", "HEAD").exit_code == 0
    record = climbing.climb("iterate", "-n", "3")[-1]
    assert record["outcome"] == "skipped" and record["reason"] in ("provider_failed", "no_plan"), record
    assert record["commit_hash"] is None and record["why"]
    assert climbing.git("status", "--porcelain", folder=climbing.trees() / "workspace") == ""
    if name == "scripted":
        told = "the script is played to its end: moves.toml has 1 move, and this is proposal 4"
        assert record["why"].startswith(told)
    if name == "command":
        assert record["why"] == "the provider ended with 3: oh no"
        assert "+half" in (climbing.run_folder(2) / "changes.diff").read_text(), "what it tried is kept"
        assert (climbing.run_folder(2) / "provider_output.md").read_text() == "first\noh no\n", "and what it said"


def agent_project(make_project: Callable[..., Project], script: str, **more: object) -> Project:
    project = make_project()
    agent = project.top.parent / "agent.sh"
    agent.write_text(script)
    project.set_manifest({"provider": {"name": "command", "command": ["sh", str(agent)], **more}})
    return project


EDIT = """printf '{"score": %s1}' "$GOALSEEK_ITERATION" > answer.json\n"""
BLOCK = (
    """printf '<<<GOALSEEK PLAN %s\\nthe title\\nthe text\\nfiles:\\nanswer.json\\nGOALSEEK PLAN %s>>>\\n' $1 $1\n"""
)


def test_a_command_is_asked_for_a_plan_first_where_the_manifest_says_so(make_project: Callable[..., Project]) -> None:
    script = 'set -- "$GOALSEEK_NONCE"\necho "$GOALSEEK_PHASE" >> "$HOME/phases"\n'
    script += f"[ $GOALSEEK_PHASE = plan ] && {BLOCK}{EDIT}"
    script += 'echo \'{"input_tokens": 7, "cost_usd": 0.5}\' > "$GOALSEEK_USAGE"\n'
    record = agent_project(make_project, script, ask_plan=True).climb()[1]
    assert (Path(os.environ["HOME"]) / "phases").read_text().split() == ["plan", "apply"]
    assert record["hypothesis_summary"] == "the title" and record["planned_files"] == ["answer.json"]
    assert record["usage"]["input_tokens"] == 14 and record["usage"]["cost_usd"] == 1.0


def test_a_command_that_runs_past_its_limit_is_a_provider_timeout(make_project: Callable[..., Project]) -> None:
    project = agent_project(make_project, f"{EDIT}setsid sleep 60 & sleep 61", timeout=0.5)
    record = project.climb()[1]
    assert (record["outcome"], record["reason"]) == ("skipped", "provider_timeout")
    assert '+{"score": 11}' in (project.run_folder(1) / "changes.diff").read_text()


def test_a_failed_commands_streak_counts_and_a_measured_candidate_ends_it(make_project: Callable[..., Project]) -> None:
    project = agent_project(make_project, f"[ $GOALSEEK_ITERATION = 2 ] || exit 1\n{EDIT}")
    project.climb("iterate", "-n", "3")
    reasons = [record["reason"] for record in project.iterations()]
    assert reasons == ["measured", "provider_failed", "better", "provider_failed"]


def test_the_first_line_of_the_output_is_the_title_without_a_block(make_project: Callable[..., Project]) -> None:
    long = "x" * 500
    project = agent_project(make_project, f"{EDIT}printf '\\n  tab\\there \\033[1mbold {long}\\nmore\\n'")
    title = project.climb()[1]["hypothesis_summary"]
    assert title.startswith("tab here [1mbold xxx") and len(title) <= 200 and title.isprintable()
