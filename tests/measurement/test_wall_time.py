"""A wall time is goalseek's own: what a candidate does to its clocks, and what it prints, changes nothing."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from project import Project

RACE = "import work\nimport time\nbegan = time.perf_counter()\nwork.run()\nprint(time.perf_counter() - began)\n"
HONEST = "import time\n\ndef run():\n    time.sleep(0.4)\n"
FORGED = """\
import sys, time
sleep = time.sleep
for name in ("time", "monotonic", "perf_counter", "process_time"):
    setattr(time, name, lambda: 0.0)
    setattr(time, name + "_ns", lambda: 0)

def run():
    sleep(1.2)
    print("0.0001")
"""


@pytest.mark.slow
def test_patched_clocks_do_not_make_a_candidate_faster(make_project: Callable[..., Project]) -> None:
    project = make_project(
        files={"work.py": HONEST, "race.py": RACE},
        manifest={
            "scope": {"writable": ["work.py"]},
            "metric": {"direction": "minimize", "source": "wall", "command": "race"},
            "verify": [
                {"name": "slow", "run": "sleep 0.2"},
                {"name": "race", "run": f"{shlex.quote(sys.executable)} race.py"},
            ],
        },
    )
    project.set_moves({"files": {"work.py": FORGED}}, {"files": {"work.py": HONEST.replace("0.4", "0.0")}})
    baseline, forged, faster = project.climb("iterate", "-n", "2")
    assert 0.4 < baseline["metric"]["value"] < 1.1
    assert (forged["outcome"], forged["reason"], forged["metric"]["value"] > 1.2) == ("reverted", "worse", True)
    assert faster["outcome"] == "kept"
    assert faster["metric"]["value"] < baseline["metric"]["value"]
    for run in faster["runs"]:
        assert run["seconds"] > run["value"] + 0.19, "of the named command alone"


def test_the_command_alone_is_timed_not_what_it_left_behind(
    make_project: Callable[..., Project], tmp_path: Path
) -> None:
    project = make_project(
        files={"answer.json": "{}\n"},
        manifest={
            "scope": {"writable": ["answer.json"]},
            "metric": {"direction": "minimize", "source": "wall"},
            "verify": [{"name": "race", "run": "(setsid sleep 30 >/dev/null 2>&1 &); exit 0"}],
        },
    )
    project.set_moves("{ }\n")
    baseline, *_ = project.climb()
    assert baseline["metric"]["value"] < 2
    assert baseline["verify"][0]["killed"] == 1
