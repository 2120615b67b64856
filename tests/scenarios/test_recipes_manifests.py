"""The guide's recipes that print a manifest, climbed as printed: a graphics card, a warm build, a hidden test set."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from inside import NAMED_LOCKS_FOLDER
from pages import block_with
from project import Project, home, until
from recipes import block, let_go, pages
from test_real_setups import C_FILES, CMAKE, DEVICE, with_device

pytestmark = pytest.mark.slow
SCRIPTED = '\n[provider]\nname = "scripted"\nscript = "{}"\n'
ASKED = '\n[provider]\nname = "command"\ncommand = ["sh", "-c", \'{}\']\n\n[sandbox]\nmode = "{}"\n'
TRAIN = f"""\
import os, pathlib, sys, time
began = time.monotonic()
assert sys.argv[1] == "--seed" and int(sys.argv[2]) and sys.prefix.endswith(".venv")
print(open("data/rows").read(), os.environ.get("CUDA_VISIBLE_DEVICES"), os.path.exists("{DEVICE}"))
home = pathlib.Path(os.environ["HOME"])
while (home / "wait").exists() and time.monotonic() < began + 60:
    (home / "waiting").touch()
    time.sleep(0.02)
print("loss: 2.5")
"""
AGENT = f"""sed -i s/2.5/1.5/ train.py; echo "# the agent: $CUDA_VISIBLE_DEVICES, $(ls {DEVICE})" >> train.py"""


def artifact(project: Project, number: int, name: str) -> str:
    return (project.run_folder(number) / name).read_text()


def training(name: str, manifest: str, mode: str) -> Project:
    """A project of the recipe for a graphics card: an environment of its own, and data, both ignored by git."""
    files = {".gitignore": ".venv\ndata\n", "train.py": TRAIN}
    project = Project.make(home(name), files, manifest + ASKED.format(AGENT, mode))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(project.top / ".venv")], check=True, timeout=120)
    project.write({"data/rows": "rows"})
    return project


@pytest.fixture
def card(tmp_path: Path) -> Iterator[str]:
    """The manifest for a graphics card, under a name that nobody else on this machine waits for."""
    text = block("A machine with one graphics card", "toml")
    assert text.count('exclusive = "gpu0"') == 1
    yield text.replace("gpu0", f"gpu of {tmp_path.name}")
    for path in NAMED_LOCKS_FOLDER.glob(f"goalseek-exclusive-gpu-of-{tmp_path.name}*"):
        path.unlink()


@pytest.mark.needs("bwrap")
def test_the_card_and_its_variable_are_the_verifiers(card: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    project = training("repo", card, "bubblewrap")
    with_device(project, "iterate")
    assert [(record["outcome"], record["metric"]["value"]) for record in project.iterations()] == [
        ("baseline", 2.5),
        ("kept", 1.5),
    ]
    assert "rows 3 True\n" in artifact(project, 1, "verifier.log")
    assert artifact(project, 1, "snapshot/train.py").endswith("# the agent: , \n")


def test_who_shares_the_card_waits_for_its_turn(card: str) -> None:
    one, other = (training(name, card, "none") for name in ("one", "other"))
    home("wait").touch()
    first = one.start("iterate")
    until(home("waiting").exists)
    second = other.start("iterate")
    until(lambda: "waits for gpu of" in other.run("status").stdout)
    assert second.poll() is None and not other.results.exists()
    let_go()
    for started in (first, second):
        assert started.communicate(timeout=60) and started.returncode == 0
    assert [len(project.iterations()) for project in (one, other)] == [2, 2]


@pytest.mark.needs("cc", "cmake", "ninja")
def test_a_warm_build_compiles_what_changed_and_once_a_candidate() -> None:
    """On a program whose time a candidate improves; one that is faster still has a wrong answer."""
    wait = "#include <unistd.h>\nint answer(void) {{ usleep({}); return 1; }}\n"
    files = {**C_FILES, "src/answer.c": wait.format(300_000), "CMakeLists.txt": CMAKE.replace("(work", "(app")}
    right = subprocess.run(["sha256sum"], input=b"score: 11\n", capture_output=True, timeout=60).stdout.decode()
    hidden = {"hidden/input.txt": "1\n", "hidden/answer.sha256": right.replace("-", "answer.txt")}
    project = Project.make(home("repo"), {**files, **hidden}, "")
    project.set_manifest(block("C++ with a warm build", "toml") + SCRIPTED.format(project.script))
    project.commit("recipe")
    project.set_moves({"files": {"src/answer.c": wait.format(1000)}}, {"files": {"src/answer.c": C_WRONG}})
    project.check("iterate", "-n", "2")
    record, wrong = project.iterations()[1:]
    assert wrong["reason"] == "verify_failed" and "check ended with 1" in wrong["why"]
    assert (record["outcome"], record["reason"]) == ("kept", "better"), record["why"]
    assert record["metric"]["value"] < 0.25
    names = [command["name"] for command in record["verify"]]
    assert names.count("build") == 1 and names.count("time") >= 2
    cold, warm = (
        [row[:5] for row in artifact(project, number, "verifier.log").splitlines() if "Building" in row]
        for number in (0, 1)
    )
    assert cold == ["[1/4]", "[2/4]", "[3/4]"], "the control: a folder without what an earlier build left"
    assert warm[0] == "[1/2]" and warm[1:] in ([], cold), "of the incumbent, if it is run beside, nothing is there yet"
    assert not (project.top / "build").exists()


LOOP = """\
#include <stdio.h>
int main(void) {{
    long n, sum = 0;
    {}
    if (scanf("%ld", &n) != 1) return 1;
    for (volatile long i = 0; i < n; i += {}) sum += 1;
    printf("%ld\\n", {});
    return 0;
}}
"""
FORGED = [  # a count of its own, of the program or of one that it becomes
    'fprintf(stderr, "I   refs:      1\\n");',
    'execl("/bin/sh", "sh", "-c", "echo I refs: 1 >&2; echo 100000", (char *)0);',
]


def counted(manifest: str, **more: str) -> Project:
    """A program that counts up to its hidden input, and the recipe's manifest for it."""
    right = subprocess.run(["sha256sum"], input=b"100000\n", capture_output=True, timeout=60).stdout.decode()
    files = {"hidden/input.txt": "100000\n", "hidden/answer.sha256": right.replace("-", "answer.txt"), **more}
    project = Project.make(home("repo"), {"src/app.c": LOOP.format("", 1, "sum"), **files}, "")
    project.set_manifest(manifest + SCRIPTED.format(project.script))
    project.commit("recipe")
    return project


@pytest.mark.needs("cc", "valgrind")
def test_a_count_of_instructions_is_read_and_one_that_the_program_prints_is_not() -> None:
    project = counted(block_with(pages()["A count of instructions"], "toml", "valgrind"))
    codes = [*("#include <unistd.h>\n" + LOOP.format(how, 2, "n") for how in FORGED), LOOP.format("", 2, "sum")]
    project.set_moves(*({"files": {"src/app.c": code}} for code in (*codes, LOOP.format("", 2, "n"))))
    ended = project.run("iterate", "-n", "4")
    assert ended.exit_code == 0, ended.stderr
    baseline, *others, faster = project.iterations()
    assert [record["reason"] for record in others] == ["no_metric", "no_metric", "verify_failed"], others
    assert baseline["metric"]["value"] > 300_000 and "2 matches" in others[0]["why"]
    assert faster["reason"] == "better", faster["why"]
    assert faster["metric"]["delta"] > 150_000


PERF = r"""shift 3
valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null "$@" 2> "$TMPDIR/told"
printf "\n Performance counter stats for '%s':\n\n %18s      instructions:u                  \n\n" "$1" \
    "$(sed -n 's/.*I *refs: *//p' "$TMPDIR/told")" >&2
"""  # few machines of tests have the counter: its output, with another one's number


@pytest.mark.needs("cc", "valgrind")
def test_a_count_by_perf_is_read_as_perf_prints_it() -> None:
    text = block_with(pages()["A count of instructions"], "toml", "perf stat")
    text = text.replace('"perf stat', '"sh perf stat').replace('"hidden/**"', '"hidden/**", "perf"')
    project = counted(text, perf=PERF)
    project.set_moves({"files": {"src/app.c": LOOP.format("", 2, "n")}})
    project.check("iterate")
    baseline, faster = project.iterations()
    assert baseline["metric"]["value"] > 300_000 and faster["metric"]["delta"] > 150_000


C_WRONG = "int answer(void) { return 0; }\n"
SOLVED = "import sys\nfor row in sys.stdin:\n    print(int(row) {})\n"
STOLEN = "print(open({!r}).read())\n"


@pytest.mark.needs("bwrap")
def test_a_hidden_test_set_outside_of_the_repository() -> None:
    title = "A hidden test set outside of the repository"
    project = Project.make(home("repo"), {"experiment.py": SOLVED.format("* 0"), "inputs.csv": "1\n2\n3\n4\n"}, "")
    beside = home("digits-verifier")
    beside.mkdir()
    (beside / "score.py").write_text(block(title, "python"))
    (beside / "labels.csv").write_text("1\n2\n0\n1\n")
    project.set_manifest(block(title, "toml") + SCRIPTED.format(project.script))
    project.commit("recipe")
    codes = [
        STOLEN.format(str(beside / "labels.csv")),
        STOLEN.format("labels.csv"),
        SOLVED.format("% 3"),
        SOLVED.format("% 2"),
    ]
    project.set_moves(*({"files": {"experiment.py": code}} for code in codes))
    ended = project.run("iterate", "-n", "3")
    assert ended.exit_code == 0, ended.stderr
    told = [(record["reason"], record["metric"]["value"]) for record in project.iterations()]
    assert told == [("measured", 0.25), ("verify_failed", None), ("verify_failed", None), ("better", 1.0)]
    assert project.iterations()[3]["isolation"] == {"sandbox": "bubblewrap", "verifier": "hidden"}
    assert not list(project.trees().glob("workspace*/**/labels.csv"))
    assert "labels.csv" not in project.git("log", "--all", "--format=", "--name-only")
    (beside / "labels.csv").write_text("1\n2\n0\n2\n")
    ended = project.run("iterate")
    assert ended.exit_code == 3 and "labels.csv" in ended.stderr
    project.check("baseline")
    assert [record["epoch"] for record in project.iterations()] == [0, 0, 0, 0, 1]
