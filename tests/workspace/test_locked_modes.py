"""Permissions that lock even their owner out, as an agent or a candidate leaves them: taken away, and no crash.

They hold for everybody but root, so root gives up here what would let it pass.
"""

import os
import subprocess
import sys

import pytest
from project import JUDGE, Project
from shell_agent import better, set_steps

pytestmark = pytest.mark.slow
AS_ANYBODY = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
MODES = ("000", "300", "500", "600")


def climb_as_anybody(project: Project, iterations: int) -> list[dict]:  # type: ignore[type-arg]
    """The iterations' records without the baseline."""
    command = [*AS_ANYBODY, sys.executable, "-m", "goalseek", "iterate", "-n", str(iterations)]
    ended = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    return project.iterations()[1:]


@pytest.mark.parametrize(
    "what", ["src/old.txt", "src", "src/deep", "src/new", ".", "beside", "beside/file.txt", "$TMPDIR"]
)
def test_an_agent_that_locks_what_it_wrote(project: Project, what: str) -> None:
    project.write({"src/old.txt": "1\n", "src/deep/below.txt": "1\n", "beside/file.txt": "1\n"})
    project.commit()
    steps = []
    for number, mode in enumerate(MODES, 2):
        step = f"for file in src/old.txt src/deep/below.txt src/new/file.txt; do echo {number} > $file; done"
        steps.append(f"{better(number)}; mkdir -p src/new; {step}; chmod {mode} {what}")
    set_steps(project, *steps, writable=["answer.json", "src/**"], hidden=["hidden/**"])
    records = climb_as_anybody(project, len(steps))
    runs_now = {mode for mode in MODES if int(mode[0]) % 2} if what == "beside/file.txt" else ()  # git would tell that
    wanted = [("out_of_scope", 0) if mode in runs_now else ("better", 4) for mode in MODES]
    assert [(record["reason"], len(record["changed_files"])) for record in records] == wanted
    assert project.git("show", "goalseek/demo:src/new/file.txt") == str(len(MODES) + 1)


@pytest.mark.parametrize("what", ["answer.json", "src", "src/deep", "src/new", ".", "$TMPDIR", "$GOALSEEK_RUN_DIR"])
def test_a_candidate_that_locks_the_trees_that_it_is_measured_in(project: Project, what: str) -> None:
    code = {"src/old.txt": "1\n", "src/deep/below.txt": "1\n", "answer.sh": "true\n"}
    project.write({**code, "hidden/judge.sh": JUDGE + ". ./answer.sh"})
    project.commit()
    steps = []
    for number, mode in enumerate(MODES, 2):
        step = f"mkdir -p src/new; echo 2 > src/new/file.txt; chmod {mode} {what}"
        steps.append(f"{better(number)}; echo '{step}' > answer.sh")
    set_steps(project, *steps, writable=["answer.json", "answer.sh", "src/**"], hidden=["hidden/**"])
    records = climb_as_anybody(project, len(steps))
    assert [record["reason"] for record in records] == ["better"] * len(MODES)
