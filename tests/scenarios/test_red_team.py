"""Agents that cheat, through the real command line, at each level of the sandbox: what each attack gains, and where.

An attack counts as stopped only because the same script succeeds somewhere unprotected: at ``mode = "none"``, or,
where that stops it too, run by hand without goalseek. One climb a level plays all attacks, one an iteration.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from project import Projects, answer, living, until
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
NAMES = [attack.name for attack in ATTACKS]


@dataclass(frozen=True)
class Played:
    """What a climb at one level came to: by attack, what it printed and whether what it wrote is there."""

    loot: dict[str, str]
    wrote: dict[str, bool]
    records: list[dict[str, Any]]
    secret: str
    audit: int

    def succeeded(self, attack: Attack) -> bool:
        if attack.wrote:
            return self.wrote[attack.name]
        return attack.gain.replace("{secret}", self.secret) in self.loot[attack.name]


def play(mode: str, make_project: Projects, folder: Path, home: Path) -> Played:
    """Plays every attack in one climb, and once more by hand those that no level lets through."""
    project = make_project(files={"answer.json": answer(1), "hidden/labels.txt": SECRET, ".gitignore": "data\n"})
    agent = folder / "agent.py"
    with field(project, folder, home, mode) as (places, descriptor):
        agent.write_text(script("agent", places))
        words = [sys.executable, str(agent), *NAMES]
        project.set_manifest(
            {
                "scope": {"writable": ["answer.json"], "hidden": ["hidden/**"], "share": ["data"]},
                "verify": [{"name": "judge", "run": 'cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"', "sees": "both"}],
                **cheating(words, mode),
            }
        )
        project.commit("the manifest")
        climb(project, len(ATTACKS), descriptor)
        assert not living(home), "nothing waits for later"
        printed = (
            (project.run_folder(number) / "provider_output.md").read_text() for number in range(1, len(ATTACKS) + 1)
        )
        loot = dict(zip(NAMES, map(loot_in, printed), strict=True))
        found = {attack.name: is_there(attack.wrote.format(**places)) for attack in ATTACKS if attack.wrote}
        secret = (project.top / ".git/goalseek/demo/secret").read_bytes().hex()
        played = Played(loot, found, project.records(), secret, project.run("audit").exit_code)
        for number, attack in enumerate(ATTACKS, start=1):
            if not attack.open_at:
                by_hand(words, number, attack, places, descriptor)
        return played


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


@pytest.mark.parametrize("mode", levels(*LEVELS))
def test_an_agent_gets_what_the_level_lets_through_and_no_more(
    mode: str, make_project: Projects, tmp_path: Path, isolated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USERS_TOKEN", "mine")
    played = play(mode, make_project, tmp_path, isolated)
    iterations = [record for record in played.records if record["kind"] == "iteration"]
    assert len(iterations) == len(ATTACKS) + 1
    assert {record["isolation"]["sandbox"] for record in iterations} == {mode}
    wrong = {
        attack.name: played.loot[attack.name]
        for attack in ATTACKS
        if played.succeeded(attack) != (mode in attack.open_at)
    }
    assert not wrong
    assert played.audit == 0
