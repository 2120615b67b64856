"""``doctor`` on a verifier that fails in the sandbox and works outside: it names the likely cause, and what to write."""

import socket
from pathlib import Path
from typing import Any

import pytest
from doctor_cases import findings
from project import Project
from shown import Shown

READS = 'json.load(open("{folder}/weights.json"))'
WRITES = "open('data/log', 'a').close()"
CONNECTS = "socket.create_connection(('127.0.0.1', {port}), timeout=5).close()"


def judge(line: str) -> str:
    head = "import json, os, socket, sys\n"
    return f"{head}{line}\njson.dump({{'score': 1}}, open(os.environ['GOALSEEK_RUN_DIR'] + '/metrics.json', 'w'))\n"


def examined(project: Project, *options: str) -> dict[str, list[dict[str, Any]]]:
    return findings(project.run("--json", "doctor", *options))


def told(project: Project, line: str, *options: str, **tables: Any) -> dict[str, Any]:
    """The finding about the sandbox, where the judge does ``line`` before it answers."""
    project.write({"hidden/judge.py": judge(line)})
    verify = [{"name": "judge", "run": "python hidden/judge.py", "sees": "both"}]
    project.set_manifest({"verify": verify, "sandbox": {"mode": "auto"}, **tables})
    project.commit("a judge")
    found = examined(project, *options)
    assert [one["ok"] for one in found["verifier"]] == [False]
    (finding,) = found["outside"]
    return finding


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "weights"
    place.mkdir()
    (place / "weights.json").write_text("{}")
    return place


def test_without_consent_it_stays_inside_and_where_the_remedy_names_the_cause_none_is_asked_for(
    project: Project, folder: Path
) -> None:
    finding = told(project, f"open('{folder}/ran', 'w').close()")
    assert "was not tried outside" in finding["text"] and "doctor --outside" in finding["remedy"]
    assert not (folder / "ran").exists()
    verify = [{"name": "judge", "run": "sh hidden/judge.sh", "sees": "candidate"}]
    project.set_manifest({"verify": verify, "sandbox": {"mode": "auto"}})
    project.commit("a judge that does not see itself")
    found = examined(project)
    assert 'sees = "candidate" shows it no hidden file' in found["verifier"][0]["remedy"]
    assert "outside" not in found and "outside" in examined(project, "--outside"), "it is still done where asked for"


@pytest.mark.parametrize("typed", ["y\n", "n\n", "\x04"], ids=["yes", "no", "no answer"])
@pytest.mark.slow
def test_at_a_terminal_it_asks(project: Project, folder: Path, typed: str) -> None:
    told(project, f"open('{folder}/ran', 'w').close()")
    terminal = Shown(project.folder, "doctor")
    terminal.hear("the verifier failed in the sandbox. Run it once outside, as you, to find the cause? y/n [n]: ")
    assert not (folder / "ran").exists()
    terminal.type(typed)
    terminal.hear("it works outside the sandbox" if typed == "y\n" else "it was not tried outside")
    terminal.hear("\n")
    assert terminal.ended() == 1
    assert (folder / "ran").exists() == (typed == "y\n")


BWRAP = pytest.mark.needs("bwrap")
SHARING = {
    "scope": {"writable": ["answer.json"], "hidden": ["hidden/**"], "share": ["data"]},
    "sandbox": {"mode": "bubblewrap"},
}


@pytest.mark.parametrize(
    ("line", "tables", "text", "remedy"),
    [
        pytest.param(
            READS, {}, "a path is not shown", 'sandbox.read = ["{folder}/weights.json"]', marks=pytest.mark.slow
        ),
        (CONNECTS, {}, "the network", "network = true"),
        ("os.environ['MY_LICENCE']", {}, "a variable, MY_LICENCE", 'env.verify.pass = ["MY_LICENCE"]'),
        ("sys.exit('just wrong')", {}, "fails outside the sandbox too", ""),
        pytest.param(WRITES, SHARING, "Read-only file system", "write in the tree, GOALSEEK_RUN_DIR", marks=BWRAP),
    ],
    ids=["path", "network", "variable", "neither", "may only be read"],
)
def test_the_cause_is_named_with_what_to_write(
    project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch, line: str, tables: Any, text: str, remedy: str
) -> None:
    monkeypatch.setenv("MY_LICENCE", "mine")
    (project.top / "data").symlink_to(folder)
    project.write({".gitignore": "data\n"})
    with socket.create_server(("127.0.0.1", 0)) as server:
        finding = told(project, line.format(port=server.getsockname()[1], folder=folder), "--outside", **tables)
    assert text in finding["text"] and finding["remedy"].startswith(remedy.format(folder=folder))


def test_the_level_and_what_is_shown_are_listed(project: Project, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    project.set_manifest({"sandbox": {"mode": "landlock", "read": [str(tmp_path / "more")]}})
    found = examined(project, "--quick")
    levels = [one["text"] for one in found["sandbox"]]
    assert any(text.startswith("landlock encloses the agent, but:") for text in levels)
    assert any("unix sockets" in text for text in levels)
    (allowed,) = found["allowed"]
    assert f"{tmp_path / 'more'} (sandbox.read)" in allowed["text"] and "python" in allowed["text"]
