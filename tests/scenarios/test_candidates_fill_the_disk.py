"""A candidate that fills the disk while it is measured loses its own measurement, and the run goes on.

goalseek's trees are on a small file system of their own, so that the disk is really full.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from project import Project
from red_team.attacks import LEVELS
from skips import levels
from test_full_tmpfs import AS_ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("mount"),
]
FILL = 'dd if=/dev/zero of="{place}" bs=1M count=100 || echo FILLED'
FILLED = {
    "the tree": FILL.format(place="filler"),
    "a new folder of the tree": "mkdir -p new/er; " + FILL.format(place="new/er/filler"),
    "the temporary folder": FILL.format(place="$TMPDIR/filler"),
    "the run folder": FILL.format(place="$GOALSEEK_RUN_DIR/filler"),
    "an output": FILL.format(place="out/filler.json"),
    "an output with nothing in it": "truncate -s 1G out/filler.json && echo FILLED",
}


@pytest.fixture
def disk() -> Iterator[Path]:
    """A file system of 64 MiB for goalseek's own trees."""
    place = Path(os.environ["XDG_CACHE_HOME"])
    options = f"size=64m,mode=0755,uid={os.geteuid()},gid={os.getegid()}"
    subprocess.run([*AS_ROOT, "mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True, timeout=120)
    try:
        yield place
    finally:
        subprocess.run([*AS_ROOT, "umount", "--lazy", str(place)], check=True, timeout=120)


def candidate(score: int, also: str) -> str:
    return f"mkdir -p out; echo '{{\"score\": {score}}}' > out/m.json; {also}\n"


@pytest.mark.parametrize("mode", levels(*LEVELS))
def test_the_run_goes_on_after_a_candidate_that_filled_the_disk(
    make_project: Callable[..., Project], disk: Path, mode: str
) -> None:
    judge = 'cp out/m.json "$GOALSEEK_RUN_DIR/metrics.json"\n'
    project = make_project(files={"answer.sh": candidate(1, "true"), "hidden/judge.sh": judge})
    tries = dict(FILLED)
    if mode != "none":  # where HOME is the user's, it is on another disk
        tries["HOME"] = FILL.format(place="$HOME/filler")
    project.set_manifest(
        {
            "scope": {"writable": ["answer.sh"], "hidden": ["hidden/**"]},
            "verify": [
                {"name": "run", "run": "sh answer.sh", "sees": "candidate", "outputs": ["out/*.json"]},
                {"name": "judge", "run": "sh hidden/judge.sh", "sees": "hidden"},
            ],
            "limits": {"stagnation": "none", "failures": "none"},
            "sandbox": {"mode": mode},
        }
    )
    project.commit("the manifest")
    texts = [*(candidate(0, fill) for fill in tries.values()), candidate(2, "true")]
    project.set_moves(*({"files": {"answer.sh": text}} for text in texts))
    records = project.climb("iterate", "-n", str(len(texts)))
    assert {record["isolation"]["sandbox"] for record in records} == {mode}
    assert records[-1]["outcome"] == "kept"
    for number, name in enumerate(tries, start=1):
        log = (project.run_folder(number) / "verifier.log").read_text()
        assert "FILLED\n" in log, f"the control: {name} was filled"
        assert records[number]["reason"] in ("worse", "verify_failed", "no_metric"), (name, records[number])
    assert project.run("audit").exit_code == 0
