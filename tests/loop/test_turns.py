"""Who proposes after a plateau: in records, after kills, where one is closed, and in what is shown."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from fake_agents import SCORES, SCORING, Fakes
from project import Project, Projects

AGENT = """\
echo '{"score": %s, "size": 10, "try": '$GOALSEEK_ITERATION'}' > answer.json
echo '{"input_tokens": 10, "cost_usd": 0.5}' > "$GOALSEEK_USAGE"
"""
STUCK = AGENT % 0.5


def rotating(project: Project, own: str, plateau: int = 1, **agents: str) -> Project:
    """The provider is the agent ``own``; ``agents`` take turns with it, and their names are their models."""
    tables = []
    for name, script in agents.items():
        path = project.top.parent / f"{name}.sh"
        path.write_text(script)
        tables.append({"name": "command", "model": name, "command": ["sh", str(path)]})
    return project.set_agent(own, {"search": {"rotate": tables, "plateau": plateau}}, repair=0)


def turns(records: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Of each iteration, whose turn it was and who proposed."""
    short = [(record["turn_of"], f"{record['provider']} {record['model']}".rstrip()) for record in records[1:]]
    return [(turn.removeprefix("command "), author.removeprefix("command ")) for turn, author in short]


def notes_of_turns(records: list[dict[str, Any]]) -> dict[int, str]:
    notes = [(record["iteration"], note) for record in records for note in record["notes"]]
    return {number: note for number, note in notes if note.startswith("it is the turn of ")}


@pytest.mark.slow
def test_after_a_plateau_the_next_proposes_and_stays_once_it_keeps(project: Project, tmp_path: Path) -> None:
    made = rotating(project, STUCK, b=STUCK, c=AGENT % 3)
    ended = made.run("iterate", "-n", "5")
    assert ended.exit_code == 0, ended.stderr
    records = made.iterations()
    assert turns(records) == [(name, name) for name in ("command", "b", "c", "c", "command")]
    assert [record["outcome"] for record in records[1:]] == ["reverted", "reverted", "kept", "reverted", "reverted"]
    assert notes_of_turns(records) == {
        number: f"it is the turn of {name}: 1 iteration without a kept change"
        for number, name in ((2, "command b"), (3, "command c"), (5, "command"))
    }
    assert all(note in ended.stderr for note in notes_of_turns(records).values())

    status = json.loads(made.check("--json", "status"))
    assert status["turn"]["names"] == ["command b", "command c"] and status["turn"]["is_new"]
    columns = ("tried", "kept", "gain", "cost_usd")
    gains = {each["name"]: tuple(each[name] for name in columns) for each in status["proposers"]}
    three_times = pytest.approx(2.0)
    assert gains == {"command": (2, 0, 0.0, 1.0), "command b": (1, 0, 0.0, 0.5), "command c": (2, 1, three_times, 1.0)}
    shown = [line.strip() for line in made.check("status").splitlines()]
    assert "proposes   command b: 1 iteration without a kept change" in shown
    assert "command b: 0 kept of 1" in shown
    (line,) = [line for line in shown if line.startswith("command c: ")]
    assert line.startswith("command c: 1 kept of 2, +200% (+110%/$, +") and line.endswith("/h)")
    for ending in ("md", "html"):
        report = tmp_path / f"report.{ending}"
        made.check("report", "-o", str(report))
        text = report.read_text()
        assert "110%" in text and "command c" in text and "the turn of" in text, ending


def test_status_names_the_provider_of_the_command_line(project: Project) -> None:
    rotating(project, STUCK, b=STUCK).set_moves('{"score": 0.5}\n')
    tables = tomllib.loads(project.manifest.read_text())
    tables["search"]["plateau"] = 5
    project.manifest.write_text(tomli_w.dumps({**tables, "provider": {"name": "tune"}}))
    script = project.folder / "moves.toml"
    script.write_text(project.script.read_text())
    project.climb("iterate", "-n", "1", "--provider", "scripted")
    assert json.loads(project.check("--json", "status"))["turn"]["names"] == ["scripted"]


@pytest.mark.slow
def test_while_one_is_closed_the_next_proposes_in_its_turn_and_who_keeps_a_change_stays(project: Project) -> None:
    made = rotating(project, STUCK, 2, b="exit 75\n", c=AGENT % 3)
    records = made.climb("iterate", "-n", "4")
    assert turns(records) == [("command", "command")] * 2 + [("b", "c"), ("c", "c")]
    notes = records[3]["notes"]
    assert any("goalseek asks b" in note or "goalseek asks command" in note for note in notes), notes


@pytest.mark.slow
def test_who_has_the_turn_plans_and_edits_and_a_fresh_one_has_no_session(fake: Fakes, make_project: Projects) -> None:
    claude, codex = (fake(name, SCORING.replace("2 *", "-1 *")) for name in ("claude", "codex"))
    tables = {"search": {"rotate": ["fresh", "codex"], "plateau": 1}, "scope": {"writable": [next(iter(SCORES))]}}
    made = make_project(files=SCORES, manifest={"provider": {"name": "claude", "credentials": []}, **tables})
    records = made.climb("iterate", "-n", "3")
    resumed = [(call["phase"], "--resume" in call["argv"]) for call in claude.calls]
    assert resumed == [("plan", False), ("apply", True), ("plan", False), ("apply", False)]
    assert [(call["phase"], "resume" in call["argv"]) for call in codex.calls] == [("plan", False), ("apply", True)]
    assert turns(records) == [("claude", "claude"), ("claude fresh", "claude"), ("codex", "codex")]
    status = json.loads(made.check("--json", "status"))
    assert [each["name"] for each in status["proposers"]] == ["claude", "claude fresh", "codex"]


@pytest.mark.parametrize("option", [[], ["--provider", "tune"]])
def test_a_name_that_is_no_provider_is_refused_where_it_stands(project: Project, option: list[str]) -> None:
    project.set_manifest({"search": {"rotate": ["codx"]}})
    ended = project.run("iterate", *option)
    assert ended.exit_code == 2
    assert "search.rotate: there is no provider 'codx'" in ended.stderr
    assert "one of claude, codex, " in ended.stderr and '"fresh" is the provider itself' in ended.stderr
    assert not project.iterations()


def test_doctor_checks_whoever_takes_turns(fake: Fakes, project: Project) -> None:
    def found() -> list[str]:
        rows = map(json.loads, project.run("--json", "doctor", "--quick").stdout.splitlines())
        return [row["text"] for row in rows if row["name"] in ("provider", "login")]

    fake("codex")
    project.set_moves("no change")
    project.set_manifest({"search": {"rotate": ["codex"]}})
    version, login = [text for text in found() if text.startswith("codex: ")]
    assert version.startswith("codex: codex 9.8.7") and login == "codex: no login was found"
    project.set_manifest({"search": {"rotate": [{"name": "codex", "command": ["/no/such/codex"]}]}})
    assert any("there is no program '/no/such/codex'" in text for text in found())


def test_one_that_needs_a_sandbox_is_refused_before_the_night(fake: Fakes, project: Project) -> None:
    fake("mini-swe-agent")
    project.set_manifest({"search": {"rotate": ["mini-swe-agent"]}, "sandbox": {"mode": "none"}})
    ended = project.run("iterate")
    assert ended.exit_code == 3 and "needs a sandbox" in ended.stderr and not project.iterations()


def test_the_moves_of_one_that_takes_turns_are_hidden_from_the_others(project: Project) -> None:
    project.write({"later.toml": '[[move]]\ntitle = "t"\npatch = "a.patch"\n', "answer.json": '{"score": 1}\n'})
    rotate = [{"name": "scripted", "script": "later.toml"}]
    project.set_agent("ls; cat later.toml\n", {"search": {"rotate": rotate}})
    project.commit("moves")
    project.climb("iterate", "-n", "1")
    printed = (project.run_folder(1) / "provider_output.md").read_text()
    assert "answer.json" in printed and "later.toml\n" not in printed
