"""A person's words, by ``goalseek direct`` or in ``program.md``, reach the agent at its next iteration."""

import json
from pathlib import Path
from typing import Any

import pytest
from project import FILES, Project, Projects

from goalseek.project.directions import add_direction, read_directions

TEXT = "prefer fewer parameters"
AGENT = """\
cat > "$1/prompt-$GOALSEEK_ITERATION"
cp "$GOALSEEK_BRIEF" "$1/brief-$GOALSEEK_ITERATION"
echo "an idea"
"""


class Agent:
    """A program that keeps what it was told, each iteration, and changes nothing."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "agent.sh").write_text(AGENT)
        self.folder = folder
        self.table = {"name": "command", "command": ["sh", str(folder / "agent.sh"), str(folder)]}

    def prompt(self, iteration: int) -> str:
        """What was on its standard input."""
        return (self.folder / f"prompt-{iteration}").read_text()

    def directions(self, iteration: int) -> Any:
        """The directions of its brief, which the prompt must tell as well."""
        found = json.loads((self.folder / f"brief-{iteration}").read_text())["directions"]
        for text in found:
            assert f"- {text}\n" in self.prompt(iteration)
        return found


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path / "agent")


@pytest.fixture
def project(make_project: Projects, agent: Agent) -> Project:
    return make_project(files={**FILES, "program.md": "Be brief.\n"}, manifest={"provider": agent.table})


def iterate(project: Project, count: int = 1) -> list[dict[str, Any]]:
    return project.climb("iterate", "-n", str(count))


def test_directions_reach_prompt_brief_and_record_in_their_range(project: Project, agent: Agent) -> None:
    project.check("direct", "first", "--to", "1")
    assert project.git("status", "--porcelain") == ""
    iterate(project)
    assert project.check("direct", TEXT) == f"direction 2, from iteration 2: {TEXT}\n"
    project.run("direct", "early", "--to", "2")
    project.run("direct", "late", "--from", "3", "--to", "3")
    records = iterate(project, 3)
    told = [["first"], [TEXT, "early"], [TEXT, "late"], [TEXT]]
    assert [agent.directions(iteration) for iteration in (1, 2, 3, 4)] == told
    assert TEXT not in agent.prompt(1)
    assert [record["directions"] for record in records] == [[], *told]


def test_the_list_shows_what_holds_and_no_number_is_used_again(project: Project, agent: Agent) -> None:
    project.run("direct", TEXT)
    project.run("direct", "only now", "--from", "2", "--to", "4")
    shown = project.run("direct", "--list").stdout.splitlines()
    assert [line.split() for line in shown] == [
        ["1", "from", "1", "on:", *TEXT.split()],
        ["2", "from", "2", "to", "4:", "only", "now"],
    ]
    project.run("direct", "\x1b[2Jcleared")
    assert project.run("direct", "--list").stdout.splitlines()[2].endswith("\ufffd[2Jcleared")
    project.check("direct", "--drop", "3")
    listed = [json.loads(line) for line in project.run("direct", "--list", "--json").stdout.splitlines()]
    assert listed[1] == {"number": 2, "text": "only now", "first": 2, "last": 4}

    assert project.ask("direct", "--drop", "2") == {"dropped": 2}
    iterate(project)
    project.check("direct", "--drop", "1")
    assert project.run("direct", "--list").stdout == ""
    iterate(project)
    assert [agent.directions(iteration) for iteration in (1, 2)] == [[TEXT], []]
    assert project.ask("direct", "another")["number"] == 4
    assert "no direction 1" in project.fail(2, "direct", "--drop", "1")


def test_a_direction_that_is_dropped_while_they_are_read_is_none(tmp_path: Path) -> None:
    add_direction(tmp_path, "stays", 1, None)
    (tmp_path / "0002.json").symlink_to(tmp_path / "gone")
    assert [one.text for one in read_directions(tmp_path)] == ["stays"]


def test_what_cannot_be_meant_is_refused_and_leaves_nothing(project: Project) -> None:
    for arguments in (
        *([], ["  "], [TEXT, "--list"], ["--list", "--drop", "1"], [TEXT, "--from", "5", "--to", "4"], ["--drop", "7"]),
        *(["--list", "--from", "2"], ["--drop", "1", "--to", "2"]),
    ):
        ended = project.run("direct", *arguments)
        assert (ended.exit_code, ended.stdout) == (2, "") and ended.stderr, arguments
    assert project.traces() == []


def test_the_program_is_read_from_the_checkout_at_every_iteration(project: Project, agent: Agent) -> None:
    iterate(project)
    text = "Costs $5, $metric and ${nonce}, and $$ and 100%, in an uncommitted way."
    project.write({"program.md": text + "\n"})
    records = iterate(project)
    assert "Be brief." in agent.prompt(1)
    assert text in agent.prompt(2) and "Be brief." not in agent.prompt(2)
    assert [record["epoch"] for record in records] == [0, 0, 0]
    assert (project.folder / "program.md").read_text() == text + "\n"
