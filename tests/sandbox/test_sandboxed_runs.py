"""Through the real command line: an agent and a candidate's code that try what they must not, at each level.

Each try has a control: the same at ``mode = "none"``, where it succeeds.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from project import Ended, Project
from rooms import write_program
from shown import Shown
from skips import levels

from goalseek.sandbox.level import SandboxLevel, installation_hint

pytestmark = pytest.mark.slow

LEVELS = pytest.mark.parametrize("mode", levels("none", "landlock", "bubblewrap"))


def counting(name: str) -> str:
    """A verify command whose number is how often it ran before, as the folder ``name`` remembers it."""
    return (
        f'mkdir -p "{name}"; echo ran >> "{name}/runs"; n=$(wc -l < "{name}/runs")\n'
        'echo "{\\"score\\": $n}" > "$GOALSEEK_RUN_DIR/metrics.json"\n'
    )


@pytest.mark.parametrize("mode", levels("landlock", "bubblewrap"))
def test_a_cache_outlives_a_measurement_and_is_not_the_users(project: Project, isolated: Path, mode: str) -> None:
    users = isolated / ".cache" / "tool"
    users.mkdir(parents=True)
    (users / "runs").write_text("the user's\n" * 10)
    verify = [{"name": "judge", "run": counting("$HOME/.cache/tool"), "sees": "both"}]
    for cache, values in (([], [1, 1, 1]), (["~/.cache/tool"], [1, 2, 3])):
        shutil.rmtree(project.folder / ".goalseek", ignore_errors=True)
        project.set_manifest(
            {"project": {"name": f"p{len(cache)}"}, "verify": verify, "sandbox": {"mode": mode, "cache": cache}}
        )
        project.commit(f"cache {cache}")
        project.set_moves('{"score": 1, "a": 1}\n', '{"score": 1, "b": 1}\n')
        ended = project.run("iterate", "-n", "2")
        assert ended.exit_code == 0, ended.stderr
        log = project.folder / ".goalseek" / f"p{len(cache)}" / "logs" / "results.jsonl"
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        assert [row["metric"]["value"] for row in rows if row["kind"] == "iteration"] == values
        assert ("sandbox.cache: a candidate finds the files of the one before in" in ended.stderr) == bool(cache)
    assert (users / "runs").read_text() == "the user's\n" * 10


@pytest.mark.parametrize("mode", levels("none", "landlock"))
@pytest.mark.parametrize("run", ["python hidden/judge.py", "sh hidden/judge.sh"])
def test_an_environment_on_path_with_the_repository_installed_editable(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, run: str
) -> None:
    """Where nothing can be mounted it is refused if a command names it; a script that calls it is only known to exist."""
    environment = tmp_path / "activated"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True, timeout=120)
    monkeypatch.setenv("PATH", f"{environment}/bin:{os.environ['PATH']}")
    (site,) = environment.glob("lib/python*/site-packages")
    link = site / "__editable__.demo.pth"
    link.write_text(f"{project.top}/src\n")
    judge = "import package; print('score:', package.SCORE)"
    files = {"src/package/__init__.py": "SCORE = 1\n", "hidden/judge.py": judge}
    project.write({**files, "hidden/judge.sh": "python hidden/judge.py\n"})
    project.set_manifest(
        {
            "scope": {"writable": ["src/**"], "hidden": ["hidden/**"]},
            "metric": {"direction": "maximize", "regex": "score: ([0-9]+)"},
            "verify": [{"name": "judge", "run": run, "sees": "both"}],
            "sandbox": {"mode": mode},
        }
    )
    project.commit("an environment")
    project.set_moves({"files": {"src/package/__init__.py": "SCORE = 2\n"}})
    ended = project.run("iterate")
    if run.startswith("python"):
        assert (
            ended.exit_code == 3
            and "python, as the verifier finds it, has this repository installed editable" in ended.stderr
            and f"rm {link}" in ended.stderr
        )
        assert project.iterations() == []
        link.unlink()
        assert "installed editable" not in project.run("iterate").stderr
    else:
        if mode == "none":
            assert ended.exit_code == 0
            assert [record["metric"]["value"] for record in project.iterations()] == [1, 1], "the checkout's"
        assert "note: python3 on PATH has this" in ended.stderr and f"rm {link}" in ended.stderr
        found = project.run("doctor", "--quick").stdout
        assert "python3 on PATH has this repository installed editable" in found


@LEVELS
def test_shared_folders_and_an_environment_on_path_are_seen_and_cannot_be_written(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "number").write_text("7")
    (project.top / "data").symlink_to(elsewhere)
    (project.top / "token").write_text("5")
    environment = project.top / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True, timeout=120)
    monkeypatch.setenv("PATH", f"{environment}/bin:{os.environ['PATH']}")
    judge = (
        "import json, os, sys\n"
        "assert sys.prefix.endswith('/env'), sys.prefix\n"
        "try: open('data/new', 'w').close(); wrote = 1\n"
        "except OSError: wrote = 0\n"
        "score = int(open('data/number').read()) + int(open('token').read()) + 100 * wrote\n"
        "json.dump({'score': score, 'wrote': wrote}, open(os.environ['GOALSEEK_RUN_DIR'] + '/metrics.json', 'w'))\n"
    )
    project.write({".gitignore": "data\ntoken\nenv\n", "hidden/judge.py": judge})
    project.set_manifest(
        {
            "scope": {"writable": ["answer.json"], "hidden": ["hidden/**"], "share": ["data", "token"]},
            "verify": [{"name": "judge", "run": "python hidden/judge.py", "sees": "both"}],
            "sandbox": {"mode": mode},
        }
    )
    project.commit("shared")
    project.set_moves('{"score": 1, "a": 1}\n', '{"score": 1, "b": 1}\n')
    records = project.climb("iterate", "-n", "2")
    assert {record["metric"]["value"] for record in records} == {112 if mode == "none" else 12}
    assert all(not record["dropped_files"] for record in records)
    assert records[2]["reason"] == "tie", "the number does not move"


@LEVELS
def test_the_agents_program_may_lie_in_the_checkout(project: Project, mode: str) -> None:
    """Untracked and hidden ones too; nothing of them is left in the workspace."""
    for number, name in enumerate(("agents/tracked.sh", "agents/untracked.sh", "hidden/agent.sh")):
        script = (
            f'#!/bin/sh\nprintf \'{{"score": {number + 2}}}\\n\' > answer.json; ls agents hidden; echo "by {name}"\n'
        )
        write_program(project.folder / name, script)
        if number == 0:
            project.write({".gitignore": "agents/un*\n"})
        provider = {"name": "command", "command": [name]}
        project.set_manifest({"provider": provider, "sandbox": {"mode": mode}})
        project.commit(name)
        assert number or project.run("baseline").exit_code == 0
        record = project.climb("iterate")[-1]
        assert (record["outcome"], record["metric"]["value"]) == ("kept", number + 2), record["why"]
        assert record["changed_files"] == ["answer.json"] and not record["dropped_files"]
    assert not (project.trees() / "workspace" / "hidden" / "agent.sh").exists()


UNFIT: tuple[tuple[dict[str, Any], int, str], ...] = (
    ({"read": ["/no/such/place"]}, 2, "sandbox.read: there is no /no/such/place"),
    ({"read": ["hidden"]}, 2, "which programs must not see"),
    ({"read": [".git/config"]}, 2, "which programs must not see"),
    ({"read": ["${NO_SUCH_VARIABLE}/x"]}, 2, "NO_SUCH_VARIABLE, which is not set"),
    ({"cache": ["."]}, 2, "which programs must not see"),
    ({"cache": ["."], "mode": "none"}, 2, "which programs must not see"),
    ({"cache": ["./../.."]}, 2, "holds the repository, which programs would not find any more"),
    ({"cache": ["${XDG_CACHE_HOME}/goalseek/mine"]}, 2, "where goalseek keeps its own trees"),
    ({"cache": ["/opt/cache"], "mode": "landlock"}, 3, "outside of HOME"),
    ({"devices": ["/dev/no-such-card"]}, 2, "sandbox.devices: there is no /dev/no-such-card"),
)


def test_a_path_that_cannot_be_shown_is_refused(project: Project) -> None:
    project.set_moves('{"score": 2}\n')
    for sandbox, code, said in UNFIT:
        project.set_manifest({"sandbox": {"mode": "auto", **sandbox}})
        ended = project.run("iterate")
        assert (ended.exit_code, said in ended.stderr) == (code, True), ended.stderr
    (project.top / "way-in").symlink_to("hidden")
    project.write({".gitignore": "way-in\n"})
    scope = {"writable": ["answer.json"], "hidden": ["hidden/**"], "share": ["way-in"]}
    project.set_manifest({"scope": scope, "sandbox": {}})
    ended = project.run("iterate")
    assert ended.exit_code == 2 and "scope.share: way-in holds the hidden file hidden/judge.sh" in ended.stderr
    assert project.iterations() == []


@LEVELS
@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_level_is_said_once_and_what_is_not_enforced_exactly(
    project: Project, mode: str, is_terminal: bool
) -> None:
    project.set_manifest({"sandbox": {"mode": mode}})
    project.set_moves('{"score": 2}\n', '{"score": 3}\n')
    if is_terminal:
        terminal = Shown(project.folder, "iterate", "-n", "2", columns=300)
        said = terminal.hear("stopped: ").replace("\r", "")
        terminal.hear("\n")
        assert terminal.ended() == 0
    else:
        said = project.run("iterate", "-n", "2").stderr
    gaps = SandboxLevel(mode).not_enforced(network=False)  # type: ignore[arg-type]
    red = "\x1b[31m{}\x1b[0m" if is_terminal else "{}"
    lines = said.splitlines()
    assert [lines.count(red.format(f"  {gap}")) for gap in gaps] == [1] * len(gaps)
    assert len([line for line in lines if "  it " in line or "  trees " in line]) == len(gaps)
    heads = [line for line in lines if "sandbox: " in line or "no sandbox" in line]
    assert len(heads) == 1 and (mode == "bubblewrap" or "Not enforced" in heads[0])
    assert bool(gaps) == (mode != "bubblewrap") and ("\x1b[31m" in said) == (is_terminal and bool(gaps))


def without_sandboxes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine where neither bubblewrap nor Landlock works: the one is forbidden, the other has no restriction."""
    write_program(folder / "bwrap", "#!/bin/sh\necho 'bwrap: No permissions' >&2; exit 1\n")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    (folder / "sitecustomize.py").write_text(
        "from unittest.mock import Mock\n"
        "from goalseek.sandbox import level\n"
        "level._LAUNCHERS['landlock'] = Mock(side_effect=OSError(38, 'no Landlock'))\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{os.environ.get('PYTHONPATH', '')}")


def begun(project: Project) -> Ended:
    """An iteration by an interpreter of its own, which looks at this machine's variables as it starts."""
    started = project.start("iterate")
    stdout, stderr = started.communicate(timeout=120)
    return Ended(started.returncode, stdout, stderr)


def test_an_agent_is_not_started_where_nothing_keeps_it(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_sandboxes(tmp_path / "machine", monkeypatch)
    agent = {"name": "command", "command": ["sh", "-c", "touch started"]}
    project.set_manifest({"provider": agent, "sandbox": {}})
    ended = begun(project)
    assert ended.exit_code == 3, ended.stderr
    for word in ("no sandbox", "No permissions", "no Landlock", 'sandbox.mode = "none"'):
        assert word in ended.stderr
    assert installation_hint("bubblewrap") in ended.stderr and project.records() == []
    project.set_manifest({"sandbox": {}})
    project.set_moves('{"score": 2}\n')
    ended = begun(project)
    assert ended.exit_code == 0 and "it can write wherever you can" in ended.stderr
    assert {record["isolation"]["sandbox"] for record in project.iterations()} == {"none"}


@pytest.mark.slow
@LEVELS
def test_at_a_limit_a_program_may_finish_and_what_hides_is_ended(project: Project, mode: str) -> None:
    script = (
        "trap 'echo finished > \"$GOALSEEK_RUN_DIR/finished\"; exit 0' TERM\n"
        "setsid sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' & while :; do sleep 0.05; done"
    )
    tables = {"name": "judge", "run": f"if grep -q hang answer.json; then {script}\nfi; sh hidden/judge.sh"}
    project.set_manifest({"verify": [{**tables, "sees": "both", "timeout": "1s"}], "sandbox": {"mode": mode}})
    project.commit("a verifier that hangs")
    project.set_moves('{"score": 2, "hang": 1}\n')
    record = project.climb()[-1]
    assert record["reason"] == "verify_timeout" and project.records()[0]["sandbox"] == mode
    assert (project.run_folder(1) / "measurements" / "1" / "finished").read_text() == "finished\n"
    (run,) = record["verify"]
    assert run["exit_code"] is None and (run["killed"] >= 3 if mode != "landlock" else True)


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("who", ["agent", "verify"])
def test_exec_is_exactly_there(project: Project, who: str) -> None:
    project.set_manifest({"sandbox": {"mode": "bubblewrap"}})
    project.commit("sandboxed")
    assert project.run("baseline").exit_code == 0
    script = f"pwd; cat {project.top}/.git/HEAD; cat answer.json; ls hidden && echo hidden is seen; exit 7"
    ended = project.run("exec", "--as", who, "--", "sh", "-c", script)
    assert ended.exit_code == 7 and ended.stdout.splitlines()[0] == str(project.top)
    assert "ref: refs/heads/main" not in ended.stdout and '"score": 1' in ended.stdout
    assert ("hidden is seen" in ended.stdout) == (who == "verify")


def test_what_only_looks_does_not_look_for_the_level(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.set_manifest({"sandbox": {}})
    project.set_moves('{"score": 2}\n')
    project.climb()
    write_program(tmp_path / "bin" / "bwrap", f"#!/bin/sh\ntouch {tmp_path}/asked\nexit 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    for command in ("--help", "status", "log", "show best", "manifest show"):
        assert project.run(*command.split()).exit_code == 0
    assert not (tmp_path / "asked").exists()
    project.run("iterate")
    assert (tmp_path / "asked").exists(), "the control: a run asks"
