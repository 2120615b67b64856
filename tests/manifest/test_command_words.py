"""The words of a command: one reading for the lint, the sandbox, the ruler and the questions of ``init``."""

from pathlib import Path

import pytest

from goalseek.cli.interview import read_command
from goalseek.errors import GoalseekError
from goalseek.manifest.command_words import parse_command, words_in

RUNS = {  # what it runs as a program, and what by an interpreter
    "python score.py": ({"python"}, {"score.py"}),
    "env A=1 python3.11 -u a/b.py x.py": ({"env", "python3.11"}, {"a/b.py"}),
    "timeout 60 python3 x.py": ({"timeout", "60", "python3"}, {"x.py"}),
    "python -m pkg.mod arg": ({"python"}, {"pkg.mod", "pkg/mod.py"}),
    "python -c 'import x; print(1)' y.py": ({"python"}, set()),
    "bash -e run.sh": ({"bash"}, {"run.sh"}),
    "bash -ec 'python a.py; ./b'": ({"bash", "python", "./b"}, {"a.py"}),
    "perl -ne print a.txt": ({"perl"}, set()),
    "uv run score.py": ({"uv", "run"}, {"score.py"}),
    "hyperfine 'python x.py' './y 3'": ({"hyperfine"}, {"x.py"}),
    "perf stat -- python x.py": ({"perf"}, {"x.py"}),
    ". ./env.sh && X=1 ./score.sh": ({".", "./score.sh"}, {"./env.sh"}),
    "make -s && ./prog <(cat y) | python check.py >out.txt 2>&1": ({"make", "./prog", "cat", "python"}, {"check.py"}),
    "out=$(python inner.py) && test $out = 3": ({"python", "test"}, {"inner.py"}),
    "python hidden/score+more.py>x": ({"python"}, {"hidden/score+more.py"}),
    "`python x.py`": ({"python"}, {"x.py"}),
    "xargs -I{} sh -c './{}.sh' <names": ({"xargs", "sh", "./{}.sh"}, set()),
}


@pytest.mark.parametrize("command", RUNS)
def test_a_command_is_read_as_a_shell_runs_it(command: str) -> None:
    words = parse_command(command)
    assert ({word.text for word in words.words() if word.role == "program"}, words.scripts()) == RUNS[command]


def test_only_what_an_interpreter_reads_by_its_path_is_run_for_sure() -> None:
    """The sandbox shows no file that is only mentioned, and the lint speaks of one that may be run."""
    for command in ("hyperfine 'python /opt/x.py'", "grep python /opt/x.py", "source /opt/x.py"):
        (word,) = [word for word in parse_command(command).words() if word.text == "/opt/x.py"]
        assert word.role == "script" and not word.is_run
    assert parse_command("python x.py && sh -c 'y.py'").files("sub") == ["sub/x.py", "sub/y.py"]
    assert parse_command(("./run", "in.csv")).files(".") == ["run"]


def test_a_variable_and_a_colon_end_a_path() -> None:
    text = 'diff "$here/gold.csv" ${DATA}/a.csv PATH=x:hidden/y,z'
    assert words_in(text) == {"diff", "/gold.csv", "DATA", "/a.csv", "PATH", "x", "hidden/y", "z"}


def test_init_asks_for_the_script_that_a_first_command_runs(tmp_path: Path) -> None:
    """Whatever stands before the interpreter; what a later command runs, the first one may make."""
    for command in ("python gone.py", "time env A=1 python3 -u gone.py x", "sh -c 'python gone.py'"):
        with pytest.raises(GoalseekError, match=r"^gone\.py does not exist$"):
            read_command(command, tmp_path, is_first=True)
    for command in ("true && python gone.py", "python -m gone", "python -W ignore gone.py", "sh -c true"):
        assert read_command(command, tmp_path, is_first=True) == command
