"""SIGKILLs at random instants, by the hundred: what the seeded sample among the slow tests does, with other seeds.

    python tests/benchmarks/kills.py [--kills 1000] [--jobs 1|4] [--seed 0]
    python tests/benchmarks/kills.py --before CHECKOUT
    python tests/benchmarks/kills.py --model 20

Climbs one after the other, each killed until it is done: the tool alone, its process group and everything in turn.
Each must end as the tests say: nothing lost, nothing counted or paid twice, the audit clean, no process left. With
``--before``, the program of another checkout, which has a ``.venv``, is killed in each phase of an iteration, before it
stores the phase's checkpoint and after that, and this program takes the climb to its end. With ``--model``, anything a
person, a machine or a kill may do is compared with a plain model, in random orders.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scenarios"))

import killing
import pytest
import test_kill_at_random as one_at_a_time
import test_kills_at_once as several
import test_state_machine as model
from conftest import IDENTITY
from many import AT_ONCE, assert_sound_at_end, many
from project import home, living

TARGETS = ("tool", "group", "everything")
MOVES = 6
ANSWERS = ("context", "plan", "change", "candidate", "evidence", "verdict", "record")
KILLED_AT_CHECKPOINT = """
import os, signal, sys
when, answer = sys.argv.pop(1), sys.argv.pop(1)
from goalseek.__main__ import main
from goalseek.ledger.checkpoints import Checkpoints
save = Checkpoints.save
def killed(self, name, *rest):
    if when == "before" and str(name) == answer:
        os.kill(os.getpid(), signal.SIGKILL)
    stored = save(self, name, *rest)
    if when == "after" and str(name) == answer:
        os.kill(os.getpid(), signal.SIGKILL)
    return stored
Checkpoints.save = killed
main()
"""
DATE = "2026-01-01T00:00:00Z"


@contextmanager
def own_home() -> Iterator[Path]:
    """A folder for one climb, with the environment that a test has; afterwards no process of it may live."""
    folder = Path(tempfile.mkdtemp(prefix="goalseek-kills-"))
    variables = {"HOME": "home", "XDG_CACHE_HOME": "home/cache", "XDG_CONFIG_HOME": "home/config"}
    for name in variables.values():
        (folder / name).mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GOALSEEK_", "GIT_", "XDG_"))}
    dates = {"GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE}
    own = {variable: str(folder / name) for variable, name in variables.items()}
    with patch.dict(os.environ, {**kept, **IDENTITY, **dates, **own}, clear=True):
        yield folder
        deadline = time.monotonic() + 30
        while left := living(home()):
            assert time.monotonic() < deadline, left
            time.sleep(0.1)
    shutil.rmtree(folder)  # what failed stays there, to be looked at


def climb_killed(jobs: int, target: str, seed: int) -> int:
    """A climb that is killed until it is done; how often it was."""
    kills = 0

    def counted(started: object, whom: str) -> bool:
        nonlocal kills
        was_at_work = killing.kill(started, whom)  # type: ignore[arg-type]
        kills += was_at_work
        return was_at_work

    module = one_at_a_time if jobs == 1 else several
    with own_home() as folder, patch.object(module, "kill", counted):
        if jobs == 1:
            one_at_a_time.test_it_ends_as_if_nothing_had_been(folder, (target,), seed)
        else:
            several.test_nothing_is_lost_nor_counted_or_paid_twice(folder, (target,), seed)
    return kills


def handed_over(before: Path, jobs: int, moment: str) -> str:
    """A climb that the program of another checkout began, which ends itself at a moment, and that this one ends.

    Gives what the other one had left, besides checkpoints.
    """
    options = AT_ONCE if jobs > 1 else ()
    with own_home() as folder:
        project = many(folder / "killed", MOVES) if jobs > 1 else killing.climbing(folder / "killed", MOVES)
        users = project.users()
        with patch.object(sys, "executable", str(before / ".venv" / "bin" / "python")):
            begun = killing.start(project, "iterate", "-n", "1", *options)
            assert begun.communicate(timeout=120) and begun.returncode == 0
            program = ("-c", KILLED_AT_CHECKPOINT, *moment.split())
            killed = project.start("iterate", "--forever", *options, process_group=0, program=program)
            said = killed.communicate(timeout=120)
            assert killed.returncode == -signal.SIGKILL, said
        last = project.iterations()[-1]
        tip = project.git("rev-parse", "refs/goalseek/demo/tip").strip()
        is_on_tip = tip not in (last["commit_hash"], last["parent_commit_hash"], last["rollback_commit_hash"])
        flights = len(project.git("for-each-ref", "refs/goalseek/demo/flight").splitlines())
        killing.forget_picture(project)
        project.climb("iterate", "--forever", *options)
        if jobs > 1:
            assert_sound_at_end(project, MOVES)
        else:
            calm = killing.climbing(folder / "calm", MOVES)
            calm.climb("iterate", "--forever")
            assert killing.told(project) == killing.told(calm)
            project.check("audit")
            assert "missing" not in project.git("fsck", "--strict", "--no-dangling")
        assert project.users() == users
    return f"{'its candidate on the tip, ' * is_on_tip}{flights} candidates in flight, and it ended as if undisturbed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--jobs", type=int, choices=(1, 4), help="only climbs with so many at once")
    parser.add_argument("--seed", type=int, default=0, help="of the first climb")
    parser.add_argument("--model", type=int, metavar="N", help="so many random examples of test_state_machine")
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="whose program is killed")
    options = parser.parse_args()
    began = time.monotonic()
    if options.model:
        with own_home() as folder, pytest.MonkeyPatch.context() as patches:
            model.test_whatever_happens_the_records_are_those_of_the_model(folder, patches, options.model, False)
        return
    if options.before:
        for moment in [f"{when} {answer}" for answer in ANSWERS for when in ("before", "after")]:
            for jobs in (1, 4):
                what = handed_over(options.before.resolve(), jobs, moment)
                print(f"{time.monotonic() - began:6.0f} s  {jobs} at a time, killed {moment}: {what}", flush=True)
        return
    counts: Counter[str] = Counter()
    seed = options.seed
    while counts.total() < options.kills:
        jobs, target = options.jobs or (1, 4)[seed % 2], TARGETS[seed // 2 % 3]
        name, kills = f"{jobs} at a time, {target}", climb_killed(jobs, target, seed)
        counts[name] += kills
        took = time.monotonic() - began
        print(f"{took:6.0f} s  seed {seed}: {name}: {kills} kills, {counts.total()} so far", flush=True)
        seed += 1
    print(*(f"{count:6} {name}" for name, count in sorted(counts.items())), sep="\n")


if __name__ == "__main__":
    main()
