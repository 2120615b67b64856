"""What the README prints works as printed."""

import shlex
import subprocess
import sys
from pathlib import Path

import pages
from project import Project, Projects, answer
from red_team import table

README = pages.README.read_text()
VALIDATE = """\
import json, sys
scope = {}
exec(open("experiment.py").read(), scope)
json.dump({"accuracy": 1 - abs(scope["STEP"] - 0.1)}, open(sys.argv[sys.argv.index("--output") + 1], "w"))
"""


def blocks(language: str) -> list[str]:
    """The README's blocks in a language, without their indentation."""
    return pages.blocks_in(README, language)


def block_with(language: str, words: str) -> str:
    (found,) = (body for body in blocks(language) if words in body)
    return found


def test_the_nine_line_manifest_and_the_five_minutes_after_it(make_project: Projects) -> None:
    manifest = block_with("toml", "validate_results.py")
    assert len(manifest.splitlines()) == 9
    project = make_project(
        files={
            "experiment.py": "STEP = 0.5\n",
            "validate_results.py": VALIDATE,
            "hidden/labels": "1\n",
            "moves.toml": block_with("toml", "[[move]]"),
        },
        manifest=manifest + '\n[provider]\nname = "scripted"\n',
    )
    commands = [line for body in blocks("sh") for line in body.splitlines() if line.startswith("goalseek ")]
    assert len(commands) == 6
    for command in commands:
        ended = project.run(*shlex.split(command, comments=True)[1:])
        assert ended.exit_code == (command.startswith("goalseek doctor")), (command, ended.stderr)
    climbed = project.folder / ".goalseek" / "digits" / "logs" / "results.jsonl"
    assert '"value":1.0' in climbed.read_text()


def test_the_commands_of_the_morning_after_do_what_is_printed(project: Project) -> None:
    project.set_moves(answer(2), answer(1), answer(3))
    project.climb("iterate", "-n", "3")
    told = README.partition("## The morning after")[2].partition("\n## ")[0]
    every = [line.removeprefix("$ goalseek ") for line in told.splitlines() if line.startswith("$ goalseek ")]
    lines = [line for line in every if not line.startswith("serve")]  # which goes on until ^C
    assert len(lines) == len(every) - 1 == 8
    project.git("switch", "--quiet", "--create", "elsewhere")
    for number, line in enumerate(lines):
        words = shlex.split(
            line.replace("show 12", "show 2").replace("--branch faster", f"--branch f{number}"), comments=True
        )
        ended = project.run(*words)
        assert ended.exit_code == 0, (words, ended.stderr)
    assert (project.folder / "taken/snapshot/answer.json").read_text() == answer(3)
    assert "measured on this base: 1 → 3" in project.run("promote", "--onto", "main", "--measure").stdout


def test_the_marks_and_the_consent_are_read_as_printed(make_project: Projects) -> None:
    tuned = make_project(
        "tuned",
        files={"answer.json": block_with("python", "# goalseek: float"), "hidden/x": "1"},
        manifest={"provider": {"name": "tune"}},
    )
    assert "turns LEARNING_RATE, DEPTH, KERNEL" in tuned.run("doctor", "--quick").stdout
    manifest = block_with("toml", "validate_results.py") + "\n" + block_with("toml", 'name = "command"')
    asked = make_project(
        "asked", files={"experiment.py": "", "validate_results.py": "", "hidden/x": ""}, manifest=manifest
    )
    assert "my-agent" in asked.run("manifest", "show").stdout


def test_the_lines_of_python_run_as_printed(project: Project) -> None:
    project.set_moves('{"score": 3}\n')
    code = block_with("python", "import goalseek").replace("iterations=20", "iterations=1")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project.folder, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout.splitlines() == ["0 baseline 1.0", "1 kept 3.0"], done.stderr


def test_each_set_up_is_one_command_that_continuous_integration_takes_from_here() -> None:
    lines = [line for body in blocks("sh") for line in body.splitlines() if "pip install" in line]
    assert [line.endswith(("goalseek demo", "-m pytest -n 2")) for line in lines] == [True, True]
    ci = (Path(__file__).parents[2] / ".ci" / "run").read_text()
    assert "readme 'goalseek demo$'" in ci and "readme 'python -m pytest'" in ci


def test_the_table_of_attacks_is_what_the_red_team_asserts() -> None:
    assert table.PAGE.read_text() == table.page(), "write it again: python tests/scenarios/red_team/table.py"
    attacks = [attack for found in table.groups().values() for attack in found]
    assert len(attacks) >= 40 and all(attack.told for attack in attacks)
