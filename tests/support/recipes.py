"""The guide's recipes, taken from it as printed, and the home in which they run: goalseek is in its ``.local/bin``."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from pages import GUIDE, block_with
from project import home

import goalseek

WAITING = """\
echo "measured $GOALSEEK_ITERATION" >> "$HOME/journal"
held() { [ "$(cat "$HOME/wait" 2>/dev/null)" = "$GOALSEEK_ITERATION" ]; }
if held; then touch "$HOME/waiting"; fi
pauses=0
while held && [ $pauses -lt 2000 ]; do sleep 0.02; pauses=$((pauses + 1)); done
cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"
"""
"""A judge that waits as long as the file ``wait`` in this home names its iteration, and not for ever."""


def pages() -> dict[str, str]:
    """The text of every page that is a recipe, by its title."""
    texts = [path.read_text() for path in sorted(GUIDE.glob("recipe-*.md"))]
    return {text.partition("\n")[0].removeprefix("# "): text for text in texts}


def block(title: str, language: str) -> str:
    return block_with(pages()[title], language)


def lines(title: str) -> list[str]:
    """The commands that a recipe has a person type, in order, without what is said about them."""
    found = [line.removeprefix("$ ") for line in block(title, "console").splitlines()]
    return [re.sub(r"\s+# .*", "", line) for line in found]


def line(title: str, words: str) -> str:
    """The one command with these words."""
    (found,) = (each for each in lines(title) if words in each)
    return found


def put_on_path(name: str, script: str) -> Path:
    """A program in ``~/.local/bin``."""
    place = home(".local", "bin", name)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"#!/bin/sh\n{script}\n")
    place.chmod(0o755)
    return place


def install() -> None:
    """Has goalseek where the recipes say that it is."""
    sources = shlex.quote(str(Path(goalseek.__file__).parent.parent))
    put_on_path("goalseek", f'PYTHONPATH={sources} exec {shlex.quote(sys.executable)} -m goalseek "$@"')


def path_with_it() -> dict[str, str]:
    """This environment, with goalseek on PATH."""
    return {**os.environ, "PATH": f"{home('.local', 'bin')}{os.pathsep}{os.environ['PATH']}"}


def typed(
    command: str, folder: Path, environment: Mapping[str, str] | None = None, exit_code: int = 0
) -> subprocess.CompletedProcess[str]:
    """Runs a line in the shell, as a person or a machine has it, to its end."""
    words = ["bash", "-eo", "pipefail", "-c", command]
    done = subprocess.run(
        words, cwd=folder, env=environment or path_with_it(), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == exit_code, (command, done)
    return done


def hold(iteration: int) -> None:
    """Has the judge wait there."""
    home("waiting").unlink(missing_ok=True)
    home("wait").write_text(str(iteration))


def let_go() -> None:
    home("wait").unlink()
