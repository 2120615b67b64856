"""Several agents of one climb at once: a login that they share, kills, closed services, repairs and recordings."""

import json
from pathlib import Path
from typing import Any

import pytest
from fake_agents import Fakes
from project import Project, Projects, home
from test_agents_at_work import RENEW, SECRET, log_in

pytestmark = pytest.mark.slow

NAMES = "abcd"
JUDGE = """\
total=10
for name in a b c d; do total=$((total + $(cat $name.txt))); done
printf '{"score": %s}\\n' "$total" > "$GOALSEEK_RUN_DIR/metrics.json"
"""
EDIT = """open("abcd"[int(environment["GOALSEEK_ITERATION"]) - 1] + ".txt", "w").write("1\\n")"""
MEETING = """
pathlib = __import__("pathlib")
pathlib.Path({0!r}, environment["GOALSEEK_ITERATION"]).touch()
while len(list(pathlib.Path({0!r}).iterdir())) < 2: time.sleep(0.05)
"""


@pytest.fixture
def several(make_project: Projects) -> Projects:
    """Makes a project in which each iteration changes a file of its own."""

    def make(provider: dict[str, Any], name: str = "repository", **tables: Any) -> Project:
        scope = {"writable": ["*.txt"], "hidden": ["hidden/**"]}
        files = {**{f"{name}.txt": "0\n" for name in NAMES}, "hidden/judge.sh": JUDGE, "train.sh": "cat a.txt b.txt\n"}
        return make_project(name, files=files, manifest={"scope": scope, "provider": provider, **tables})

    return make


def told(records: list[dict[str, Any]]) -> list[tuple[int, str, str]]:
    """Number, outcome and provider of each try, in the order of their numbers."""
    return sorted((record["iteration"], record["outcome"], record["provider"]) for record in records[1:])


def test_agents_of_one_login_are_at_work_at_once_and_what_they_renew_is_kept(
    fake: Fakes, several: Projects, isolated: Path
) -> None:
    file, claude, place = log_in(isolated), fake("claude"), isolated / "meeting"
    place.mkdir()
    claude.acts(EDIT, plan=f"run {MEETING.format(str(place))}", apply=f"run {RENEW}")
    project = several({"name": "claude"})
    assert told(project.climb("iterate", "-n", "2", "--jobs", "2")) == [(1, "kept", "claude"), (2, "kept", "claude")]
    homes = {call["environment"]["GOALSEEK_ITERATION"]: call["environment"]["HOME"] for call in claude.calls}
    assert len(set(homes.values())) == 2
    assert json.loads(file.read_text())["claudeAiOauth"]["refreshToken"].startswith(SECRET + "+")
    assert not [home for home in homes.values() if Path(home).exists()], "of calls that nobody resumes nothing is left"


def test_calls_that_a_kill_broke_off_are_each_charged_once_by_what_they_had_used(several: Projects) -> None:
    project = several({"name": "command", "command": ["sh", str(home("agent.sh"))]})
    home("agent.sh").write_text(
        'printf \'{"input_tokens": %s}\' $((1000 * GOALSEEK_ITERATION + 1)) > "$GOALSEEK_USAGE"\n'
        'if [ ! -e "$HOME/again" ]; then touch "$HOME/begun-$GOALSEEK_ITERATION"\n'
        '  [ -e "$HOME/begun-1" ] && [ -e "$HOME/begun-2" ] && touch "$HOME/both"; sleep 60; fi\n'
        'printf \'{"input_tokens": 7}\' > "$GOALSEEK_USAGE"\n'
        "echo 1 > $(echo abcd | cut -c $GOALSEEK_ITERATION).txt\n"
    )
    project.kill_when(home("both"), "iterate", "-n", "2", "--jobs", "2")
    home("again").touch()
    records = project.climb("iterate", "-n", "2", "--jobs", "2")
    assert told(records) == [(1, "kept", "command"), (2, "kept", "command")]
    used = {record["iteration"]: record["usage"]["input_tokens"] for record in records[1:]}
    assert used == {1: 1001 + 7, 2: 2001 + 7}


def test_a_service_that_one_of_them_found_closed_is_closed_for_all(fake: Fakes, several: Projects) -> None:
    claude, codex = fake("claude", EDIT, always="rate 7200"), fake("codex", EDIT)
    project = several({"name": "claude", "fallback": [{"name": "codex"}]})
    records = project.climb("iterate", "-n", "3", "--jobs", "2")
    assert told(records) == [(number, "kept", "codex") for number in (1, 2, 3)]
    assert len(claude.calls) <= 2 and len(codex.calls) == 6


def test_while_one_waits_for_its_limit_the_others_go_on(fake: Fakes, several: Projects) -> None:
    fake("claude", EDIT, _0="rate 5")
    records = several({"name": "claude"}).climb("iterate", "-n", "3", "--jobs", "2")
    assert sorted(record["iteration"] for record in records[1:]) == [1, 2, 3]
    waited = [any(note.startswith("waited ") for note in record["notes"]) for record in records[1:]]
    assert waited == [False, False, True]


def test_a_crash_goes_back_to_its_author_while_others_land(several: Projects) -> None:
    verify = [
        {"name": "train", "run": "! grep -r crash *.txt", "sees": "candidate"},
        {"name": "judge", "run": "sh hidden/judge.sh", "sees": "both"},
    ]
    project = several({"name": "command", "command": ["sh", str(home("agent.sh"))]}, verify=verify)
    home("agent.sh").write_text(
        'case "$GOALSEEK_ITERATION $GOALSEEK_PHASE" in\n'
        '"1 apply") echo crash > a.txt;;\n'
        '"1 repair") while [ ! -e "$HOME/landed" ]; do sleep 0.1; done; cat a.txt > "$HOME/found"; echo 1 > a.txt;;\n'
        '"2 apply") echo 1 > b.txt;;\n"3 apply") touch "$HOME/landed"; echo 1 > c.txt;;\nesac\n'
    )
    records = project.climb("iterate", "-n", "3", "--jobs", "2")
    assert told(records) == [(number, "kept", "command") for number in (1, 2, 3)]
    first = next(record for record in records if record["iteration"] == 1)
    assert [attempt["reason"] for attempt in first["attempts"]][:2] == ["verify_failed", "moved"]
    assert home("found").read_text() == "crash\n" and records[1]["iteration"] != 1
    assert project.git("show", *(f"goalseek/demo:{name}.txt" for name in "abc")) == "1\n1\n1"


@pytest.mark.parametrize("jobs", [1, 3])
def test_what_was_recorded_of_several_is_played_again(fake: Fakes, several: Projects, jobs: int) -> None:
    fake("claude", EDIT)
    project = several({"name": "claude", "record": "recordings"})
    project.climb("iterate", "-n", "3", "--jobs", "2")
    names = sorted(path.name for path in (project.folder / "recordings").iterdir())
    assert names == [f"{number:04d}-{phase}.json" for number in (1, 2, 3) for phase in ("apply", "plan")]
    again = several({"name": "replay", "record": str(project.folder / "recordings")}, "again")
    played = again.climb("iterate", "-n", "3", "--jobs", str(jobs))
    assert told(played) == [(1, "kept", "replay"), (2, "kept", "replay"), (3, "kept", "replay")]
    assert played[-1]["metric"]["value"] == 13
