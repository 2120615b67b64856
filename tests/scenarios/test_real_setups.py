"""Set-ups that people have, each climbed through the real command line; what they need is installed by name in CI."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from project import MANIFEST, Project
from rooms import listener, small_python
from skips import levels

pytestmark = pytest.mark.slow
BOTH = pytest.mark.parametrize("mode", levels("landlock", "bubblewrap"))
PRINTED = {"direction": "maximize", "regex": "score: ([0-9]+)", "noise": "none"}
UV = str(Path(sys.executable).with_name("uv"))


def set_up(project: Project, files: Mapping[str, str], /, *verify: Mapping[str, object], **tables: object) -> None:
    """Commits a project whose candidates change ``src``, and whose number is printed."""
    project.write(files)
    usual = {"scope": {"writable": ["src/**"]}, "metric": PRINTED, "verify": list(verify)}
    project.set_manifest({**usual, **tables})
    project.commit("set up")


def values(project: Project, *moves: Mapping[str, str]) -> list[float]:
    """The numbers of a climb whose candidates are these files."""
    project.set_moves(*({"files": files} for files in moves))
    return [record["metric"]["value"] for record in project.climb("iterate", "-n", str(len(moves)))]


def logged(project: Project, number: int) -> str:
    return (project.run_folder(number) / "verifier.log").read_text()


def uv(*words: object) -> None:
    subprocess.run([UV, *map(str, words)], check=True, capture_output=True, timeout=120)


@BOTH
def test_an_environment_made_by_uv_whose_interpreter_lives_in_home(project: Project, isolated: Path, mode: str) -> None:
    interpreter = small_python(isolated / ".local/share/uv/python/cpython-3.11-linux")
    (isolated / ".local/share/secret").write_text("private")
    uv("venv", "--offline", "--no-config", "--python", interpreter, project.top / ".venv")
    judge = (
        "import os, sys; sys.path.insert(0, 'src'); import work\n"
        "print(sys.prefix, sys.base_prefix, os.path.exists(os.path.expanduser('~/.local/share/secret')))\n"
        "print('score:', work.SCORE)\n"
    )
    files = {".gitignore": ".venv\n", "src/work.py": "SCORE = 1\n", "hidden/judge.py": judge}
    verify = {"name": "judge", "run": ".venv/bin/python hidden/judge.py", "sees": "both"}
    scope = {"writable": ["src/**"], "hidden": ["hidden/**"], "share": [".venv"]}
    set_up(project, files, verify, scope=scope, sandbox={"mode": mode})
    assert values(project, {"src/work.py": "SCORE = 2\n"}) == [1, 2]
    assert f" {interpreter.parent.parent} " in logged(project, 1)
    assert mode == "landlock" or " False\n" in logged(project, 1), "Landlock hides only what is in it"


BACKEND = """\
import pathlib, zipfile
FILES = {
    "task.pth": f"{pathlib.Path.cwd()}/src",
    "task-1.dist-info/METADATA": "Metadata-Version: 2.1\\nName: task\\nVersion: 1",
    "task-1.dist-info/WHEEL": "Wheel-Version: 1.0\\nGenerator: own\\nRoot-Is-Purelib: true\\nTag: py3-none-any",
    "task-1.dist-info/entry_points.txt": "[console_scripts]\\ntask = task:main",
}
def build_editable(folder, settings=None, metadata=None):
    name = "task-1-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as wheel:
        for path, text in FILES.items():
            wheel.writestr(path, text + "\\n")
        wheel.writestr("task-1.dist-info/RECORD", "".join(f"{path},,\\n" for path in FILES))
    return name
build_wheel = build_editable
"""
EDITABLE = {
    ".gitignore": ".venv\n*.egg-info\n",
    "pyproject.toml": '[project]\nname = "task"\nversion = "1"\n'
    '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
    "backend.py": BACKEND,
    "src/task/__init__.py": "SCORE = 1\n\ndef main():\n    print('score:', SCORE, __file__)\n",
}


@pytest.mark.needs("bwrap")
def test_the_repository_itself_installed_editable(project: Project) -> None:
    """The candidate is what is imported, and the checkout is not touched."""
    project.write(EDITABLE)
    uv("venv", "--offline", "--python", sys.executable, project.top / ".venv")
    uv("pip", "install", "--offline", "--python", project.top / ".venv", "--editable", project.top)
    verify = {"name": "task", "run": ".venv/bin/task", "sees": "candidate"}
    scope = {"writable": ["src/**"], "share": [".venv"]}
    set_up(project, {}, verify, scope=scope, sandbox={"mode": "bubblewrap"})
    before, path = project.users(), "src/task/__init__.py"
    assert values(project, {path: EDITABLE[path].replace("SCORE = 1", "SCORE = 2")}) == [1, 2]
    assert f"score: 2 {project.top}/{path}" in logged(project, 1)
    assert project.users() == before
    project.manifest.write_text(project.manifest.read_text().replace('"bubblewrap"', '"landlock"'))
    ended = project.run("iterate")
    assert ended.exit_code == 3 and "installed editable" in ended.stderr


CMAKE = """\
cmake_minimum_required(VERSION 3.16)
project(work C)
add_executable(work main.c src/answer.c src/other.c)
"""
C_FILES = {
    ".gitignore": "build\n",
    "CMakeLists.txt": CMAKE,
    "main.c": "#include <stdio.h>\nint answer(void);\nint other(void);\n"
    'int main(void) { printf("score: %d\\n", answer() + other()); return 0; }\n',
    "src/answer.c": "int answer(void) { return 1; }\n",
    "src/other.c": "int other(void) { return 10; }\n",
}
ANSWER_2 = {"src/answer.c": "int answer(void) { return 2; }\n"}


@BOTH
@pytest.mark.needs("cc", "cmake", "ninja")
def test_a_warm_build_folder_of_cmake_and_ninja(project: Project, mode: str) -> None:
    """Only what the candidate changed is built again, and what is built is what is measured."""
    build = {"name": "build", "run": "ninja -C build -v", "outputs": ["build/work"]}
    setup = {"run": "cmake -S . -B build -G Ninja && cmake --build build", "gives": ["build"]}
    run = {"name": "run", "run": "./build/work", "sees": "candidate"}
    set_up(project, C_FILES, build, run, setup=setup, sandbox={"mode": mode})
    assert values(project, ANSWER_2, {"src/other.c": "int other(void) { return 20; }\n"}) == [11, 12, 22]
    assert "ninja: no work to do." in logged(project, 0)
    for number, changed, other in ((1, "answer.c", "other.c"), (2, "other.c", "main.c")):
        built = [line for line in logged(project, number).splitlines() if " -c " in line]
        assert changed in "".join(built) and other not in "".join(built), built
        assert number == 2 or len(built) == 1, "the control: a cold folder would compile three"
    assert not (project.top / "build").exists()


@BOTH
@pytest.mark.needs("cc", "ccache")
def test_gcc_through_alternatives_and_ccache_that_hits(project: Project, isolated: Path, mode: str) -> None:
    """The second measurement finds what the first one compiled, in a cache that is not the user's."""
    assert Path("/usr/bin/cc").is_symlink() and "alternatives" in os.readlink("/usr/bin/cc")
    build = (
        "for name in main src/answer src/other; do ccache cc -c $name.c -o $(basename $name).o; done\n"
        "cc -o work main.o answer.o other.o\nccache --print-stats; ./work\n"
    )
    project.set_moves({"files": ANSWER_2})
    for cache, hits in (([], [0, 0]), (["~/.cache/ccache"], [0, 2])):
        name = f"p{len(cache)}"
        tables = {
            "project": {"name": name},
            "scope": {"writable": ["src/**"], "generated": ["work", "*.o"]},
            "sandbox": {"mode": mode, "cache": cache},
        }
        files = {**C_FILES, ".gitignore": "work\n*.o\n"}
        set_up(project, files, {"name": "build", "run": build, "sees": "candidate"}, **tables)
        ended = project.run("iterate")
        assert ended.exit_code == 0, ended.stderr
        found = []
        for number in (0, 1):
            log = (project.folder / ".goalseek" / name / "runs" / f"{number:04d}" / "verifier.log").read_text()
            counts = re.findall(r"^(?:direct|preprocessed)_cache_hit\s(\d+)$", log, re.M)
            found.append(sum(map(int, counts)))
            assert f"score: {11 + number}\n" in log and len(counts) == 2
        assert found == hits
    assert not (isolated / ".cache" / "ccache").exists()


DEVICE = Path("/dev/nvidia-test")  # named like a graphics card's


def with_device(project: Project, *arguments: str) -> None:
    """Runs goalseek where that device is, of which a file is played; the machine's own /dev stays as it is."""
    card = project.top.with_name("card")
    card.write_text("a card")
    machine = ["bwrap", "--bind", "/", "/", "--dev", "/dev", "--dev-bind", str(card), str(DEVICE), "--"]
    words = [*machine, sys.executable, "-m", "goalseek", *arguments]
    done = subprocess.run(words, cwd=project.folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@BOTH
@pytest.mark.parametrize(
    ("devices", "there"), [("auto", 1), ("none", 0), ([str(DEVICE)], 1), (["/dev/null"], 0)], ids=str
)
@pytest.mark.needs("bwrap")
def test_devices_are_there_as_the_manifest_says(project: Project, mode: str, devices: object, there: int) -> None:
    """For the verifier; the agent gets none."""
    seen = f"$(head -c 1 {DEVICE} >/dev/null 2>&1 && echo 1 || echo 0)"
    verify = {"name": "look", "run": f'echo "score: {seen}"; echo agent: $(cat answer.json)', "sees": "both"}
    tables = {
        "scope": MANIFEST["scope"],
        "provider": {"name": "command", "command": ["sh", "-c", f"echo {seen} > answer.json"]},
        "sandbox": {"mode": mode, "devices": devices},
    }
    set_up(project, {}, verify, **tables)
    with_device(project, "iterate")
    assert f"score: {there}\n" in logged(project, 1) and "agent: 0\n" in logged(project, 1)


NETWORK = """\
import json, socket, sys
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=5).close()
    print("score: 1")
except OSError:
    print("score: 0")
"""


@BOTH
@pytest.mark.parametrize("who", ["setup", "verify", "nobody"])
def test_the_network_is_for_those_commands_that_ask_for_it(project: Project, mode: str, who: str) -> None:
    with listener() as port:
        python = shlex.quote(sys.executable)
        ask, given = f"{python} hidden/ask.py {port}", f"mkdir given && {python} ask.py {port} > given/said"
        second = f"{ask}; echo setup $(cut -c 8 given/said)"
        set_up(
            project,
            {"ask.py": NETWORK, "hidden/ask.py": NETWORK},
            {"name": "first", "run": ask, "sees": "both"},
            {"name": "second", "run": second, "sees": "both", "network": who == "verify"},
            setup={"run": given, "gives": ["given"], "network": who == "setup"},
            scope=MANIFEST["scope"],
            sandbox={"mode": mode},
        )
        ended = project.run("baseline")
    assert ended.exit_code == 0, ended.stderr
    log = logged(project, 0).splitlines()
    assert f"setup {int(who == 'setup')}" in log
    assert [line for line in log if line.startswith("score")] == ["score: 0", f"score: {int(who == 'verify')}"]
    told = "goalseek doctor lists its gaps" if mode == "bubblewrap" else "as it has the network"
    assert (told in ended.stderr) == (who != "nobody")
