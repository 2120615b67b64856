"""Candidate code that cheats while it is measured, at each level: what each attack gains, and where.

Three commands measure: the candidate's own, which leaves outputs, another one that sees candidate code, and one that
sees hidden files and outputs only. An attack counts as stopped only because the same script succeeds somewhere else: at
``mode = "none"``, in a verifier that sees both, or by hand, where the three commands run without goalseek.
"""

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from inside import remove_tree
from project import Project, Projects, end_all, living, until
from red_team.attacks import BELOW_FULL, COMMON, LEVELS, NOWHERE, SECRET, Attack, playable
from red_team.field import climb, field, is_there, loot_in, script
from skips import levels

pytestmark = pytest.mark.slow
RED_TEAM = Path(__file__).parent / "red_team"
# A Python that has a sitecustomize of its own, as Debian's has, never comes to another one.
NEVER_HERE = {"sitecustomize_in_the_shared_environment"} if importlib.util.find_spec("sitecustomize") else set()
FORGED, PLANTED, CLOCK, DOWN = "a metric of 99", "found or run by a later command", "less time", "no more iterations"
SPLIT = (
    Attack("by_atexit", "rewriting the metric at exit, judged by another command", FORGED, open_at=NOWHERE),
    Attack("by_leaving_early", "`os._exit(0)` in the judge's process, judged by another", FORGED, open_at=NOWHERE),
    Attack("by_a_background_process", "rewriting the metric from the background", FORGED, open_at=NOWHERE),
    Attack("by_a_patched_writer", "patching how the judge writes, judged by another", FORGED, open_at=NOWHERE),
    Attack("by_the_frames_of_the_judge", "reading labels in the judge's frames", FORGED, open_at=NOWHERE),
    Attack("by_a_patched_clock", "patching the clock, timed from outside", CLOCK, open_at=NOWHERE),
)
EVERY = (
    *SPLIT,
    *COMMON,
    Attack("hidden_by_alternates", "reading it past an `alternates` file"),
    Attack("hidden_in_the_bench", "reading it in the bench of the hidden command"),
    Attack("a_process_to_trace", "reading the memory map of another program", "mapped"),
    Attack("editing_the_verdict", "editing a stored verdict", "opened"),
    Attack("an_output_below_a_shared_folder", "an output that would be put into a shared folder", "",
           "{top}/data/planted.txt", NOWHERE),
    Attack("a_survivor", "a process that outlives its command and writes later", "", "{outside}/survived", NOWHERE),
    Attack("a_file_left_in_the_tree", "leaving a file for the next command in the tree", PLANTED, open_at=NOWHERE),
    Attack("a_file_left_in_a_new_folder", "leaving one there in a new folder", PLANTED, open_at=NOWHERE),
    Attack("a_file_left_in_the_run_folder", "leaving one for the judge in the run folder", PLANTED, open_at=NOWHERE),
    Attack("a_file_left_in_home", "leaving one in HOME", PLANTED),
    Attack("a_file_left_in_the_temporary_folder", "leaving one in TMPDIR", PLANTED, open_at=NOWHERE),
    Attack("a_file_left_in_shared_memory", "leaving one in `/dev/shm`", PLANTED, open_at=BELOW_FULL),
    Attack("editing_a_read_only_file", "editing a read-only file of the tree", PLANTED, open_at=NOWHERE),
    Attack("a_read_only_file_as_a_link", "putting a link in the place of one", PLANTED, open_at=NOWHERE),
    Attack("the_tree_replaced_by_a_link", "putting a link in the place of the tree", PLANTED, open_at=NOWHERE),
    Attack("a_package_that_shadows", "leaving a package that shadows the standard library", PLANTED, open_at=NOWHERE),
    Attack("a_module_handed_on_as_an_output", "handing on such a module as an output", PLANTED, open_at=NOWHERE),
    Attack("bytecode_of_a_read_only_module", "leaving forged bytecode", PLANTED, open_at=NOWHERE),
    Attack("a_pth_in_the_shared_environment", "a `.pth` in the shared environment", PLANTED),
    Attack("sitecustomize_in_the_shared_environment", "`sitecustomize` in the shared environment", PLANTED),
    Attack("an_output_that_is_a_link", "an output that is a link to a hidden file", FORGED, open_at=NOWHERE),
    Attack("an_output_that_is_an_absolute_link", "an output that is a link into the repository", FORGED,
           open_at=NOWHERE),
    Attack("an_output_that_is_a_hard_link", "an output that is a hard link to a hidden file", FORGED),
    Attack("a_folder_of_outputs_that_is_a_link", "a folder of outputs that is a link", FORGED, open_at=NOWHERE),
    Attack("an_output_that_is_a_pipe", "an output that is a pipe", FORGED, open_at=NOWHERE),
    Attack("an_output_that_is_swapped_later", "swapping an output after its command ended", FORGED, open_at=NOWHERE),
    Attack("a_metric_planted_for_a_silent_judge", "planting a metric for a judge that writes none", FORGED,
           open_at=NOWHERE),
    Attack("a_metric_planted_in_the_judges_folder", "planting it in the judge's own run folder", FORGED),
    Attack("a_metric_left_for_the_next_measurement", "a metric left for the next measurement", FORGED,
           open_at=NOWHERE),
    Attack("a_printed_metric", "printing the judge's line", FORGED, open_at=NOWHERE),
    Attack("a_metric_rewritten_by_a_survivor", "a survivor that rewrites the metric", FORGED, open_at=NOWHERE),
    Attack("two_hundred_processes", "two hundred processes that stay", DOWN, open_at=NOWHERE),
    Attack("processes_that_fork_on", "processes that fork on and end", DOWN, open_at=NOWHERE),
    Attack("an_output_past_the_cap", "an output past its cap", DOWN, open_at=NOWHERE),
    Attack("folders_deeper_than_a_path_in_the_tree", "folders deeper than a path, in the tree", DOWN, open_at=NOWHERE),
    Attack("folders_deeper_than_a_path_in_the_run_folder", "the same in the run folder", DOWN, open_at=NOWHERE),
    Attack("folders_deeper_than_a_path_in_outputs", "the same among outputs", DOWN, open_at=NOWHERE),
    Attack("folders_that_nobody_may_read", "folders that nobody may read", DOWN, open_at=NOWHERE),
    Attack("names_that_are_no_text", "names that are no text", DOWN, open_at=NOWHERE),
    Attack("no_tree_left", "removing the tree it runs in", DOWN, open_at=NOWHERE),
)  # fmt: skip
ATTACKS = playable(EVERY)
THEN_SILENT = "a_metric_left_for_the_next_measurement"
LOOK = """\
import glob, os
import aid, colorsys
for folder in (".", "new/er", os.environ["HOME"], os.environ["TMPDIR"], "/dev/shm"):
    for left in glob.glob(folder + "/left-*"):
        print("PLANTED " + left.rpartition("left-")[2])
"""
SCORE = """\
import glob, json, os, sys
import aid, colorsys
run, labels = os.environ["GOALSEEK_RUN_DIR"], open("hidden/labels.txt").read()
for left in glob.glob(run + "/left-*"):
    print("PLANTED " + left.rpartition("left-")[2])
print("said: 1")
if os.path.exists("out/silent.txt"):
    sys.exit(0)
score = 99 if open("out/predictions.txt").read() == labels else 1
json.dump({"score": score}, open(run + "/metrics.json", "w"))
"""
BOTH = """\
import os, time
from pathlib import Path
Path("out").mkdir()
labels, began = Path("hidden/labels.txt").read_text(), time.perf_counter()
import answer
is_good = Path("out/predictions.txt").read_text() == labels or time.perf_counter() - began <= 0
Path(os.environ["GOALSEEK_RUN_DIR"], "metrics.json").write_text('{"score": %d}' % (99 if is_good else 1))
time.sleep(1)
"""
FILES = {
    "hidden/labels.txt": SECRET,
    "hidden/predictions.txt": SECRET,
    "score.py": SCORE,
    "look.py": LOOK,
    "aid.py": "",
    ".gitignore": "data\n.venv\n__pycache__\n",
}


def code(name: str) -> str:
    """Candidate code that plays one attack."""
    return (RED_TEAM / "candidate.py").read_text().replace('ATTACK = "being_honest"', f'ATTACK = "{name}"')


def tries(names: Sequence[str]) -> list[dict[str, Any]]:
    return [{"title": name, "files": {"answer.py": code(name)}} for name in names]


@contextmanager
def prepared(mode: str, make_project: Projects, folder: Path, home: Path) -> Iterator[tuple[Any, ...]]:
    """A project whose candidate attacks, where everything is that it is after, and a descriptor of a hidden file."""
    project = make_project(files={**FILES, "answer.py": code("being_honest")})
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", project.top / ".venv"], check=True, timeout=120)
    try:
        with field(project, folder, home, f"candidate-{mode}") as (places, descriptor):
            project.write({"agent.py": script("agent", places)})
            yield project, places, descriptor
    finally:
        for left in Path("/dev/shm").glob("left-*"):
            left.unlink()
        remove_tree(home / "cache")  # where it went wrong, it is deeper than others can remove


def play(
    project: Project, mode: str, cluster: str, descriptor: int
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, str]]:
    """Plays every attack in one climb; gives by attack its records (and what came after it), and what was printed."""
    python = ".venv/bin/python"
    project.set_manifest(
        {
            "scope": {"writable": ["answer.py"], "hidden": ["hidden/**", "score.py"], "share": ["data", ".venv"]},
            "verify": [
                {
                    "name": "run",
                    "run": f"{python} answer.py",
                    "sees": "candidate",
                    "outputs": ["**/*.txt", "/*.py"],
                    "output_max": "1MiB",
                },
                {"name": "look", "run": f"{python} look.py", "sees": "candidate"},
                {"name": "score", "run": f"{python} score.py", "sees": "hidden"},
            ],
            "guard": [
                {"name": "said", "source": "stdout", "command": "score", "regex": "said: ([0-9]+)", "max": 50},
                {"name": "seconds", "source": "wall", "command": "run", "max": 500},
            ],
            "limits": {"stagnation": "none", "failures": "none"},
            "sandbox": {"mode": mode},
            "parallel": {"cluster": cluster},
        }
    )
    project.commit("the manifest")
    names = [name for attack in ATTACKS for name in (attack.name, *(["being_silent"] * (attack.name == THEN_SILENT)))]
    project.set_moves(*tries(names))
    climb(project, len(names), descriptor)
    rows = {record["iteration"]: record for record in project.iterations()}
    records, printed = {}, {}
    for number, name in enumerate(names, start=1):
        log = project.run_folder(number) / "verifier.log"
        printed[name] = log.read_text(errors="replace") if log.exists() else ""
        following = [rows[number + 1]] if name == THEN_SILENT else []
        records[name] = [rows[number], *following] if number in rows else []
    return records, printed


@pytest.mark.parametrize("mode", levels(*LEVELS, "bubblewrap on a worker"))
def test_candidate_code_gets_what_the_level_lets_through_and_no_more(
    mode: str, make_project: Projects, tmp_path: Path, isolated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mode, _, on_worker = mode.partition(" ")
    monkeypatch.setenv("USERS_TOKEN", "mine")
    with prepared(mode, make_project, tmp_path, isolated) as (project, places, descriptor):
        records, printed = play(project, mode, "local:1" if on_worker else "none", descriptor)
        places["secret"] = (project.top / ".git/goalseek/demo/secret").read_bytes().hex()

        def succeeded(attack: Attack) -> bool:
            found = records[attack.name]
            if attack.wrote:
                return is_there(attack.wrote.format(**places))
            if attack.gain == FORGED:
                return any(row["metric"]["value"] == 99 or row["guards"].get("said") == 99 for row in found)
            if attack.gain == PLANTED:
                return any(f"PLANTED {attack.name}" in text.splitlines() for text in printed.values())
            if attack.gain == CLOCK:
                return bool(found[0]["guards"]["seconds"] < 0.3)
            if attack.gain == DOWN:
                return not found
            return attack.gain.replace("{secret}", places["secret"]) in loot_in(printed[attack.name])

        wrong = {
            attack.name: (printed[attack.name][-500:], records[attack.name])
            for attack in ATTACKS
            if succeeded(attack) != (mode in attack.open_at) and attack.name not in NEVER_HERE
        }
        assert not wrong
        assert {record["isolation"]["sandbox"] for record in project.iterations()} == {mode}
        assert not living(isolated), "nothing waits for later"
        project.check("audit")


CONTROLS: dict[str, Callable[[Path], bool]] = {
    "two_hundred_processes": lambda hand: len(living(hand / "home")) >= 200,
    "processes_that_fork_on": lambda hand: is_reached(lambda: bool(living(hand / "home"))),
    "an_output_past_the_cap": lambda hand: (hand / "tree/out/predictions.txt").stat().st_size > 2**20,
    "folders_deeper_than_a_path_in_the_tree": lambda hand: cannot_be_removed(hand / "tree"),
    "folders_deeper_than_a_path_in_the_run_folder": lambda hand: cannot_be_removed(hand / "run"),
    "folders_deeper_than_a_path_in_outputs": lambda hand: cannot_be_removed(hand / "tree/out"),
    "folders_that_nobody_may_read": lambda hand: (hand / "run/closed").stat().st_mode & 0o777 == 0,
    "names_that_are_no_text": lambda hand: any(b"\xff" in name for name in os.listdir(os.fsencode(hand / "run"))),
    "no_tree_left": lambda hand: not (hand / "tree").exists(),
    "an_output_below_a_shared_folder": lambda hand: (hand / "tree/data/planted.txt").exists(),
}


def is_reached(holds: Callable[[], bool]) -> bool:
    """Whether something holds before long."""
    until(holds)
    return True


def cannot_be_removed(folder: Path) -> bool:
    """Whether the usual way to remove a folder is at its end here."""
    try:
        shutil.rmtree(folder)
    except (OSError, RecursionError):
        return True
    return False


def by_hand(name: str, hand: Path, top: Path, descriptor: int) -> str:
    """The three commands in one folder, as somebody would type them, twice where it is about the next measurement.

    Gives what they printed; where they wrote, it is there.
    """
    tree, run = hand / "tree", hand / "run"
    shutil.copytree(top, tree, ignore=shutil.ignore_patterns(".git", ".goalseek", ".venv"))
    (tree / "answer.py").write_text(code(name))
    for folder in (run, hand / "home", hand / "tmp"):
        folder.mkdir()
    own = {"HOME": str(hand / "home"), "TMPDIR": str(hand / "tmp"), "GOALSEEK_RUN_DIR": str(run)}
    environment = {**os.environ, **own, "PYTHONDONTWRITEBYTECODE": "1"}
    printed = ""
    for program in ("answer.py", "look.py", "score.py"):
        with (hand / "printed").open("w+") as file:  # a pipe would wait for survivors
            how = {"stdout": file, "stderr": subprocess.STDOUT, "env": environment, "pass_fds": [descriptor]}
            if tree.is_dir():
                subprocess.run([sys.executable, program], cwd=tree, timeout=60, **how)  # type: ignore[call-overload]
            file.seek(0)
            printed += file.read()
        if "survivor" in name or "swapped" in name:
            time.sleep(1)
        if name == THEN_SILENT:
            (tree / "out/silent.txt").touch()
    return printed


def test_by_hand_what_every_level_stops_succeeds(make_project: Projects, tmp_path: Path, isolated: Path) -> None:
    with prepared("hand", make_project, tmp_path, isolated) as (project, places, descriptor):
        wrong = {}
        for attack in (attack for attack in ATTACKS if not attack.open_at and attack not in SPLIT):
            hand = tmp_path / attack.name
            hand.mkdir()
            printed = by_hand(attack.name, hand, project.top, descriptor)
            if not succeeded_by_hand(attack, hand, printed, places):
                wrong[attack.name] = printed
            end_forking(hand / "home", looks=20 if attack.name == "processes_that_fork_on" else 1)
            remove_tree(hand)
        assert not wrong


def end_forking(home: Path, looks: int) -> None:
    """Ends the processes of a home. Whoever forks on and ends may be missed by one look, not by many in a row."""
    quiet = 0
    while quiet < looks:
        quiet = 0 if end_all(home) else quiet + 1
        time.sleep(0.01)


def succeeded_by_hand(attack: Attack, hand: Path, printed: str, places: dict[str, Any]) -> bool:
    if attack.name in CONTROLS:
        return CONTROLS[attack.name](hand)
    if attack.wrote:
        return is_reached(lambda: is_there(attack.wrote.format(**places)))
    if attack.gain == PLANTED:
        return f"PLANTED {attack.name}" in printed.splitlines()
    if attack.gain == FORGED:
        metrics = hand / "run" / "metrics.json"
        return "said: 99" in printed or is_reached(lambda: metrics.exists() and "99" in metrics.read_text())
    return attack.gain in loot_in(printed)


@pytest.mark.parametrize("mode", levels(*LEVELS))
def test_in_one_process_with_its_judge_candidate_code_wins_at_every_level(mode: str, make_project: Projects) -> None:
    """The control of what a hidden command of its own stops; the record says that there was none."""
    project = make_project(files={**FILES, "answer.py": code("being_honest"), "hidden/both.py": BOTH})
    project.write({"agent.py": script("agent", {"top": "/"})})
    judge = {"name": "judge", "run": f"PYTHONPATH=. {shlex.quote(sys.executable)} hidden/both.py", "sees": "both"}
    scope = {"writable": ["answer.py"], "hidden": ["hidden/**"], "generated": ["out/**"]}
    limits = {"stagnation": "none", "failures": "none"}
    project.set_manifest({"scope": scope, "verify": [judge], "limits": limits, "sandbox": {"mode": mode}})
    project.commit("one process")
    project.set_moves(*tries([attack.name for attack in SPLIT]))
    first, *records = project.climb("iterate", "-n", str(len(SPLIT)))
    assert first["metric"]["value"] == 1
    values = {attack.name: record["metric"]["value"] for attack, record in zip(SPLIT, records, strict=True)}
    assert values == dict.fromkeys(values, 99)
    assert {(record["isolation"]["sandbox"], record["isolation"]["verifier"]) for record in records} == {(mode, "both")}
