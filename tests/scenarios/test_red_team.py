"""Agents that cheat, through the real command line, at each level of the sandbox: what each attack gains, and where.

An attack counts as stopped only because the same script succeeds somewhere unprotected: at ``mode = "none"``, or,
where that stops it too, run by hand without goalseek. One climb a level plays all attacks, one an iteration.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from project import Project, Projects, answer, living, until
from red_team.attacks import COMMON, LEVELS, NOWHERE, SECRET, Attack, playable
from red_team.field import cheating, climb, field, is_there, loot_in, script
from skips import levels

pytestmark = pytest.mark.slow
EVERY = (
    Attack(
        "a_survivor", "a process that outlives its call and writes later", wrote="{outside}/survived", open_at=NOWHERE
    ),
    *COMMON,
    Attack("hidden_by_an_alternates_file", "reading it past the workspace's `alternates`"),
    Attack("hidden_by_an_alternate_in_the_environment", "reading it past `GIT_ALTERNATE_OBJECT_DIRECTORIES`"),
    Attack("hidden_in_the_bench", "reading it in the bench"),
    Attack("editing_the_program", "editing its own program", gain="opened"),
)
ATTACKS = playable(EVERY)


def by_hand(words: list[str], number: int, attack: Attack, places: dict[str, Any], descriptor: int) -> None:
    """The control of an attack that every level stops: the same script without goalseek succeeds."""
    environment = {**os.environ, "GOALSEEK_ITERATION": str(number)}
    ended = subprocess.run(
        words, env=environment, input="", capture_output=True, text=True, pass_fds=[descriptor], check=True, timeout=120
    )
    if not attack.wrote:
        assert attack.gain in loot_in(ended.stdout), ended
        return
    until(lambda: is_there(attack.wrote.format(**places)))


def begun(make_project: Projects) -> Project:
    return make_project(files={"answer.json": answer(1), "hidden/labels.txt": SECRET, ".gitignore": "data\n"})


def set_up(project: Project, **tables: Any) -> None:
    """Commits a manifest with these tables, whose verifier runs beside the hidden file."""
    scope = {"writable": ["answer.json"], "hidden": ["hidden/**"], "share": ["data"]}
    judge = {"name": "judge", "run": 'cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"', "sees": "both"}
    project.set_manifest({"scope": scope, "verify": [judge], **tables})
    project.commit("the manifest")


def succeeded(attack: Attack, loot: str, project: Project, places: dict[str, Any]) -> bool:
    secret = (project.top / ".git/goalseek/demo/secret").read_bytes().hex()
    return is_there(attack.wrote.format(**places)) if attack.wrote else attack.gain.replace("{secret}", secret) in loot


@pytest.mark.parametrize("mode", levels(*LEVELS))
def test_an_agent_gets_what_the_level_lets_through_and_no_more(
    mode: str, make_project: Projects, tmp_path: Path, isolated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USERS_TOKEN", "mine")
    project, agent, wrong = begun(make_project), tmp_path / "agent.py", {}
    with field(project, tmp_path, isolated, mode) as (places, descriptor):
        agent.write_text(script("agent", places))
        words = [sys.executable, str(agent), *(attack.name for attack in ATTACKS)]
        set_up(project, **cheating(words, mode))
        climb(project, len(ATTACKS), descriptor)
        assert not living(isolated), "nothing waits for later"
        for number, attack in enumerate(ATTACKS, start=1):
            loot = loot_in((project.run_folder(number) / "provider_output.md").read_text())
            if succeeded(attack, loot, project, places) != (mode in attack.open_at):
                wrong[attack.name] = loot
        project.check("audit")
        for number, attack in enumerate(ATTACKS, start=1):
            if not attack.open_at:
                by_hand(words, number, attack, places, descriptor)
    assert not wrong
    assert [record["isolation"]["sandbox"] for record in project.iterations()] == [mode] * (len(ATTACKS) + 1)


@pytest.mark.parametrize("mode", levels("landlock", "bubblewrap"))
def test_whoever_drives_gets_no_more_than_an_agent(
    mode: str, make_project: Projects, tmp_path: Path, isolated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USERS_TOKEN", "mine")
    project, agent, wrong = begun(make_project), tmp_path / "agent.py", {}
    attacks = [attack for attack in ATTACKS if attack.gain != "opened" or attack in COMMON]
    with field(project, tmp_path, isolated, mode) as (places, descriptor):
        agent.write_text(script("agent", places))
        set_up(project, sandbox={"mode": mode, "agent_network": False})
        project.check("baseline")
        for attack in attacks:
            inside = ["env", "GOALSEEK_ITERATION=1", sys.executable, str(agent), attack.name]
            words = [sys.executable, "-m", "goalseek", "drive", "--", *inside]
            how = {"input": "", "capture_output": True, "text": True, "check": True, "timeout": 120}
            done = subprocess.run(words, cwd=project.top, pass_fds=[descriptor], **how)
            loot = loot_in(done.stdout)
            if succeeded(attack, loot, project, places) != (mode in attack.open_at):
                wrong[attack.name] = loot
        project.check("audit")
    assert not wrong and not living(isolated)
