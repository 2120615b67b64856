"""Candidate code that cheats while it is measured. ``ATTACK`` is the one it plays: one of these, or of agent.py's.

What an attack got is printed as ``LOOT`` and JSON. What a later command finds or runs of it prints ``PLANTED`` itself.
"""

import atexit
import importlib.util
import json
import marshal
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import agent
from agent import PLACES, TOP, detached, git, opened_for_writing, read

ATTACK = "being_honest"
RUN_DIR = Path(os.environ["GOALSEEK_RUN_DIR"])
PREDICTIONS = Path("out/predictions.txt")
FORGED = '{"score": 99}'
RUNS = f'print("PLANTED {ATTACK}")\n'
ENVIRONMENT = Path(sys.prefix, "lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages")


def being_honest() -> None:
    """The control of the field itself."""


def being_silent() -> None:
    """The judge of this field exits 0 without a metric when it is asked to: a judge with a fault."""
    Path("out/silent.txt").write_text("silent")


def hidden_by_alternates() -> str:
    git("init", "--quiet", "new")
    Path("new/.git/objects/info/alternates").write_text(f"{TOP}/.git/objects\n")
    return git("-C", "new", "cat-file", "blob", PLACES["blob"])


def a_process_to_trace() -> str:
    read(f"/proc/{PLACES['stranger']}/maps")
    return "mapped"


def a_file_left_in_a_new_folder() -> None:
    Path("new/er").mkdir(parents=True)
    Path("new/er", f"left-{ATTACK}").write_text("left")


def a_read_only_file_as_a_link() -> None:
    Path("mine.txt").write_text(RUNS)
    Path("look.py").unlink()
    Path("look.py").symlink_to("mine.txt")


def the_tree_replaced_by_a_link() -> None:
    tree = Path.cwd()
    mine = tree.with_name("mine")
    tree.rename(mine)
    tree.symlink_to(mine)
    (mine / "look.py").write_text(RUNS)


def a_package_that_shadows() -> None:
    Path("colorsys").mkdir()
    Path("colorsys/__init__.py").write_text(RUNS)


def bytecode_of_a_read_only_module() -> None:
    place = Path(importlib.util.cache_from_source("aid.py"))
    place.parent.mkdir(exist_ok=True)
    unchecked = importlib.util.MAGIC_NUMBER + b"\1\0\0\0" + bytes(8)
    place.write_bytes(unchecked + marshal.dumps(compile(RUNS, "aid.py", "exec")))


def an_output_below_a_shared_folder() -> None:
    shared = Path("data")
    shared.unlink() if shared.is_symlink() else shared.rename("was-data")
    shared.mkdir()
    (shared / "planted.txt").write_text("written")


def replace_predictions(make: Callable[[str, Path], object], target: str) -> None:
    PREDICTIONS.unlink()
    make(target, PREDICTIONS)


def a_folder_of_outputs_that_is_a_link() -> None:
    shutil.rmtree("out")
    os.symlink("hidden", "out")


def an_output_that_is_a_pipe() -> None:
    PREDICTIONS.unlink()
    os.mkfifo(PREDICTIONS)
    if detached():
        pipe = os.open(PREDICTIONS, os.O_WRONLY)
        os.write(pipe, read(f"{TOP}/hidden/labels.txt").encode())
        os._exit(0)


def an_output_that_is_swapped_later() -> None:
    if detached():
        time.sleep(0.2)
        PREDICTIONS.unlink()
        PREDICTIONS.symlink_to("../hidden/labels.txt")
        time.sleep(60)


def an_output_past_the_cap() -> None:
    with PREDICTIONS.open("r+") as file:
        file.truncate(4 << 20)


def a_metric_planted_for_a_silent_judge() -> None:
    being_silent()
    forge()


def a_metric_planted_in_the_judges_folder() -> None:
    being_silent()
    a_metric_left_for_the_next_measurement()


def a_metric_left_for_the_next_measurement() -> None:
    for folder in RUN_DIR.parent.glob("run*"):
        (folder / "metrics.json").write_text(FORGED)


def a_metric_rewritten_by_a_survivor() -> None:
    if detached():
        deadline = time.monotonic() + 8
        while time.monotonic() < deadline:
            for folder in (RUN_DIR, RUN_DIR.with_name("run-hidden")):
                if folder.is_dir():
                    (folder / "metrics.json").write_text(FORGED)
            time.sleep(0.01)
        os._exit(0)


def two_hundred_processes() -> None:
    for _ in range(200):
        if os.fork() == 0:
            os.setsid()
            time.sleep(60)
            os._exit(0)


def processes_that_fork_on() -> None:
    """At most 200 processes, however long it lives: each starts the next and ends."""
    if detached():
        for _ in range(200):
            if os.fork():
                os._exit(0)
            os.setsid()
            time.sleep(0.01)
        time.sleep(60)


def folders_that_nobody_may_read() -> None:
    for folder in (Path("closed"), Path("out/closed"), RUN_DIR / "closed"):
        folder.mkdir()
        (folder / "inner").mkdir()
        (folder / "inner").chmod(0)
        folder.chmod(0)


def names_that_are_no_text() -> None:
    for folder in (b".", b"out", os.fsencode(RUN_DIR)):
        Path(os.fsdecode(folder + b"/\xff\n\x1b[31m.txt")).write_text("odd")


def by_leaving_early() -> None:
    forge()
    sys.stdout.flush()
    os._exit(0)


def by_a_background_process() -> None:
    if detached():
        time.sleep(0.5)
        forge()
        os._exit(0)


def by_a_patched_clock() -> None:
    time.perf_counter = time.monotonic = time.time = lambda: 1.0  # type: ignore[assignment]
    threading.Event().wait(0.3)


def by_a_patched_writer() -> None:
    written = Path.write_text
    Path.write_text = lambda self, text, *more: written(self, FORGED if "score" in text else text)  # type: ignore


def by_the_frames_of_the_judge() -> None:
    frame = sys._getframe()
    while frame and "labels" not in frame.f_locals:
        frame = frame.f_back  # type: ignore[assignment]
    PREDICTIONS.write_text(frame.f_locals["labels"] if frame else "nothing found")


def forge() -> None:
    (RUN_DIR / "metrics.json").write_text(FORGED)


def dig(top: str | Path) -> None:
    """Folders in one another, as a program makes them that goes down as it does."""
    os.chdir(top)
    for _ in range(3000):
        os.mkdir("d")
        os.chdir("d")
    Path("bottom.txt").write_text("bottom")


IN_ONE_LINE: dict[str, Callable[[], object]] = {
    "editing_the_verdict": lambda: opened_for_writing(f"{TOP}/.goalseek/demo/runs/0000/verdict.json"),
    "a_file_left_in_the_tree": lambda: Path(f"left-{ATTACK}").write_text("left"),
    "a_file_left_in_the_run_folder": lambda: (RUN_DIR / f"left-{ATTACK}").write_text("left"),
    "a_file_left_in_home": lambda: Path(os.environ["HOME"], f"left-{ATTACK}").write_text("left"),
    "a_file_left_in_the_temporary_folder": lambda: Path(os.environ["TMPDIR"], f"left-{ATTACK}").write_text("left"),
    "a_file_left_in_shared_memory": lambda: Path("/dev/shm", f"left-{ATTACK}").write_text("left"),
    "editing_a_read_only_file": lambda: Path("look.py").write_text(RUNS),
    "a_module_handed_on_as_an_output": lambda: Path("colorsys.py").write_text(RUNS),
    "a_pth_in_the_shared_environment": lambda: (ENVIRONMENT / "planted.pth").write_text(f"import sys; {RUNS}"),
    "sitecustomize_in_the_shared_environment": lambda: (ENVIRONMENT / "sitecustomize.py").write_text(RUNS),
    "a_printed_metric": lambda: print("said: 99"),
    "folders_deeper_than_a_path_in_the_tree": lambda: dig("."),
    "folders_deeper_than_a_path_in_the_run_folder": lambda: dig(RUN_DIR),
    "folders_deeper_than_a_path_in_outputs": lambda: dig("out"),
    "an_output_that_is_a_link": lambda: replace_predictions(os.symlink, "../hidden/labels.txt"),
    "an_output_that_is_an_absolute_link": lambda: replace_predictions(os.symlink, f"{TOP}/hidden/labels.txt"),
    "an_output_that_is_a_hard_link": lambda: replace_predictions(os.link, f"{TOP}/hidden/labels.txt"),
    "no_tree_left": lambda: shutil.rmtree(Path.cwd(), ignore_errors=True),
    "by_atexit": lambda: atexit.register(forge),
}


def play() -> None:
    """Does what every candidate does, and then attacks."""
    Path("out").mkdir(exist_ok=True)
    PREDICTIONS.write_text("a guess")
    try:
        got = (vars(agent) | globals() | agent.ATTACKS | IN_ONE_LINE)[ATTACK]()
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        got = f"! {type(error).__name__}: {error}"
    print("LOOT " + json.dumps(got if isinstance(got, str) else ""), flush=True)


if __name__ in ("__main__", "answer"):
    play()
