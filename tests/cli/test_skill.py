"""``goalseek skill``: the texts are where agents look for them, true to this version, and nobody else's file is touched."""

import json
import re
from pathlib import Path

import pytest
from project import Project, answer, home, until

from goalseek._version import __version__
from goalseek.cli.registry import COMMANDS, topics
from goalseek.providers.skills import NAMES, skill_text

FOLDERS = (".claude/skills", ".agents/skills")
CHECKOUT = Path(__file__).parents[2]


def places(above: Path) -> list[Path]:
    return [above / folder / name / "SKILL.md" for folder in FOLDERS for name in NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_a_text_names_this_version_and_only_what_there_is(name: str) -> None:
    text = skill_text(name)
    assert text.startswith(f"---\nname: {name}\ndescription: ") and len(text.splitlines()) <= 60
    assert f'metadata:\n  version: "{__version__}"\n' in text
    commands = re.findall(r"`goalseek ([a-z]+)(?: ([a-z-]+))?", text)
    assert commands and {command for command, _ in commands} <= COMMANDS.keys()
    assert {page for command, page in commands if command == "help" and page} <= topics().keys()


def test_they_are_installed_replaced_with_a_backup_and_removed(project: Project) -> None:
    for option, above in ((), home()), (("--project",), project.top):
        project.check("skill", "install", *option)
        for path in places(above):
            assert path.read_text() == skill_text(path.parent.name)
        old = skill_text("goalseek").replace(f'"{__version__}"', '"0.0.9"')
        places(above)[0].write_text(old)
        told = f"{places(above)[0]} is of goalseek 0.0.9"
        until(lambda told=told: told in project.run("doctor").stdout)  # the last try may still be measured
        project.write({"answer.json": answer(2)})
        said = project.run("try", "--wait", "0.01s").stderr
        assert f"goalseek skill install{' --project' * bool(option)}" in said
        project.run("wait")
        ended = project.run("skill", "install", *option)
        assert f"{places(above)[0]}, the old one as SKILL.md.before" in ended.stderr and ended.exit_code == 0
        assert (places(above)[0].parent / "SKILL.md.before").read_text() == old
        assert "nothing has changed" in project.run("skill", "install", *option).stderr
        project.check("skill", "install", "--remove", *option)
        assert not any(path.exists() for path in places(above))
        assert project.check("skill", "install", "--remove", *option) == "no skill is there\n"


def test_a_file_that_goalseek_did_not_write_stays_and_then_none_is_written(project: Project) -> None:
    mine = places(home())[2]
    mine.parent.mkdir(parents=True)
    mine.write_text("mine\n")
    for arguments in (("skill", "install"), ("skill", "install", "--remove")):
        assert f"goalseek did not write {mine}: nothing is changed" in project.fail(2, *arguments)
    assert mine.read_text() == "mine\n" and not places(home())[0].exists()


def test_the_repository_is_a_marketplace_with_the_same_texts() -> None:
    for program in (".claude-plugin", ".codex-plugin"):
        plugin = json.loads((CHECKOUT / program / "plugin.json").read_text())
        assert (plugin["name"], plugin["version"]) == ("goalseek", __version__)
        folder = CHECKOUT / plugin["skills"]
        assert {path.parent.name: path.read_text("utf-8") for path in folder.glob("*/SKILL.md")} == {
            name: skill_text(name) for name in NAMES
        }
    (claude,) = json.loads((CHECKOUT / ".claude-plugin/marketplace.json").read_text())["plugins"]
    (codex,) = json.loads((CHECKOUT / ".agents/plugins/marketplace.json").read_text())["plugins"]
    assert (claude["name"], claude["source"]) == (codex["name"], codex["source"]["path"]) == ("goalseek", "./")
