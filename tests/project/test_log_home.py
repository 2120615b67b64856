"""``log.home = "."``: records and artifacts beside the manifest, where the user's own files are as well."""

import shutil

import pytest
from project import JUDGE, Project, Projects, answer, home

import goalseek
from goalseek.manifest.loading import ManifestFile
from goalseek.workspace.scope import Kind, manifest_scope

LOUD = 'echo judging; if [ ! -e "$HOME/go" ]; then sleep 60; fi\n' + JUDGE


@pytest.fixture
def beside(project: Project) -> Project:
    """A project that writes beside its manifest."""
    project.set_manifest({"log": {"home": "."}})
    project.set_moves(answer(2), answer(3))
    return project


def kind_of(project: Project, path: str) -> Kind:
    loaded: ManifestFile = goalseek.load(project.manifest)
    return manifest_scope(loaded, loaded.manifest, "").kind(path)


@pytest.mark.slow
def test_a_first_baseline_that_was_killed_is_gone_on_with(beside: Project) -> None:
    beside.write({"hidden/judge.sh": LOUD})
    beside.commit()
    beside.kill_when(beside.folder / "logs" / "output.log", "iterate")
    (beside.folder / "logs" / "state.new").touch()  # as a kill in the middle of writing leaves it
    home("go").touch()
    ended = beside.run("iterate")
    assert (ended.exit_code, (beside.folder / "runs" / "0001" / "result.json").exists()) == (0, True), ended.stderr
    assert beside.git("status", "--short") == ""


def test_all_that_goalseek_writes_there_is_its_own(beside: Project, make_project: Projects) -> None:
    beside.write({"hidden/judge.sh": "echo judging\n" + JUDGE})
    beside.commit()
    beside.check("direct", "be bold")
    assert "there are no records yet" in beside.run("report").stderr, "nothing of it is put beside them"
    beside.check("iterate")
    for kind in ("html", "md"):
        beside.check("report", "--format", kind)
    beside.set_manifest({"log": {"home": "."}, "notify": {"command": ["false"]}, "approve": {"before": "kept"}})
    assert beside.run("iterate", "--jobs", "2").exit_code == 5
    names = {path.name for path in (beside.folder / "logs").iterdir()}
    assert {"output.log", "last_end.json", "manifest.schema.json", "report.html", "state.json"} <= names
    assert {"questions.txt", "unsent.txt"} <= names
    other = make_project("other", manifest={"log": {"home": "."}})
    other.set_moves(answer(2))
    shutil.copytree(beside.folder / "logs", other.folder / "logs")
    shutil.copytree(beside.folder / "runs", other.folder / "runs")
    for name in ("results.jsonl", "standing.json", "report.html", "report.md"):
        (other.folder / "logs" / name).unlink(missing_ok=True)
    ended = other.run("doctor", "--quick")
    assert "is in the way" not in ended.stdout + ended.stderr


def test_a_file_or_run_folder_of_the_users_is_refused_by_name_and_left_as_it_is(beside: Project) -> None:
    notes = beside.folder / "logs" / "mine.txt"
    beside.write({"logs/mine.txt": "mine\n"})
    ended = beside.run("iterate")
    assert ended.exit_code == 2 and f"{notes} is in the way" in ended.stderr and notes.read_text() == "mine\n"
    notes.unlink()
    mine = {"runs/0001/verifier.log": "mine\n", "runs/0001/measurements/data": "mine\n"}
    beside.write(mine)
    for command in (["doctor", "--quick"], ["iterate", "-n", "1"]):
        ended = beside.run(*command)
        told = ended.stdout + ended.stderr
        assert ended.exit_code != 0 and f"{beside.folder / 'runs' / '0001'} is in the way" in told
    assert ended.exit_code == 2 and beside.iterations() == []
    shutil.move(beside.folder / "runs" / "0001", beside.folder / "runs" / "0002")
    (beside.folder / "runs" / "0000").mkdir()
    (beside.folder / "runs" / "0000" / "env.json").touch()  # as a kill in the first phase leaves it
    shutil.move(beside.folder / "runs" / "0002", beside.folder / "0002")
    beside.check("iterate", "-n", "1")
    shutil.move(beside.folder / "0002", beside.folder / "runs" / "0002")
    ended = beside.run("iterate", "-n", "1")
    assert ended.exit_code == 2 and "0002 is in the way" in ended.stderr
    left = {path.replace("0001", "0002"): text for path, text in mine.items()}
    assert {path: (beside.folder / path).read_text() for path in left} == left


def test_however_it_is_written_the_users_folder_is_not_ignored(project: Project) -> None:
    project.set_manifest({"log": {"home": "./"}})
    project.set_moves(answer(2))
    project.check("iterate")
    assert sorted(path.parent.name for path in project.folder.glob("*/.gitignore")) == ["logs", "runs"]
    assert not (project.folder / ".gitignore").exists()
    assert (kind_of(project, "runs/0001/x.txt"), kind_of(project, "logs/x.txt")) == ("hidden", "hidden")


def test_the_program_is_read_only_and_a_script_hidden_however_the_path_is_written(project: Project) -> None:
    scope = {"writable": ["**"], "hidden": ["hidden/**"]}
    for written in ("notes/program.md", "./notes/program.md", "notes//program.md"):
        project.set_manifest({"scope": scope, "project": {"name": "demo", "program": written}})
        assert kind_of(project, "notes/program.md") == "read_only"
        assert kind_of(project, "notes/other.md") == "writable"
    project.set_manifest({"provider": {"name": "scripted", "script": "./play[1].toml"}})
    assert (kind_of(project, "play[1].toml"), kind_of(project, "play1.toml")) == ("hidden", "other")
