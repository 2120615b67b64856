"""What stays of the artifacts: so many run folders, the outputs of whom the manifest says; records always."""

import json
import shutil
from pathlib import Path

import pytest
from msgspec import structs
from project import JUDGE, MANIFEST, Project, Projects, answer
from records import iteration

from goalseek.ledger.artifacts import old_run_folders, prune_artifacts, prune_outputs, run_folders
from goalseek.ledger.checkpoints import Begun, Flight, Seal
from goalseek.ledger.results_file import History
from goalseek.ledger.standing import MeasuredCommit, Standing
from goalseek.manifest.tables import LogTable
from goalseek.measurement.measure import move_outputs

MAKES = "mkdir -p out && cp answer.json out/model.bin && ln -s /etc/passwd out/link"
TRAIN = [{"name": "train", "run": MAKES, "outputs": ["out/**"]}, *MANIFEST["verify"]]
MARK = '{"run_id": "20260101T000000Z-abcd", "seal": "0"}'


def with_outputs(project: Project) -> dict[int, str]:
    """The iterations whose outputs are there, and the model among them."""
    found = {}
    for path in run_folders(project.run_folder(0).parent):
        if (path / "outputs").exists():
            assert sorted(inner.name for inner in (path / "outputs" / "out").iterdir()) == ["model.bin"]
            found[int(path.name)] = (path / "outputs" / "out" / "model.bin").read_text()
    return found


def make_folders(runs: Path, *numbers: int) -> None:
    """Folders of iterations, each with outputs."""
    for number in numbers:
        (runs / f"{number:04d}" / "outputs").mkdir(parents=True)
        (runs / f"{number:04d}" / "result.json").write_text(MARK)


def left(runs: Path, pattern: str) -> list[str]:
    return sorted(str(path.relative_to(runs)) for path in runs.glob(pattern))


def _standing(last: int) -> Standing:
    best = MeasuredCommit(99, 1, "commit", "tree", 1.0)
    return Standing(last_iteration=last, last=iteration(last, last, "reverted", "worse"), baseline=best, best=best)


@pytest.mark.parametrize(("newest", "old"), [(2, [1, 3, 4]), (1, [1, 3, 4, 5]), (0, [1, 3, 4, 5, 6]), (None, [])])
def test_the_newest_the_best_and_the_baseline_stay(own: Path, newest: int | None, old: list[int]) -> None:
    make_folders(own, *range(7))
    baseline, best = (MeasuredCommit(number, number, "commit", "tree", 1.0) for number in (0, 2))
    standing = structs.replace(_standing(6), baseline=baseline, best=best)
    assert [int(path.name) for path in old_run_folders(own, newest, standing)] == old


def test_only_numbered_folders_go_and_no_link_is_followed(own: Path) -> None:
    runs, other = own / "runs", own / "other"
    (other / "0001").mkdir(parents=True)
    (other / "0001" / "precious").write_text("x")
    for name in ("0002", "0010", "10000", "3", "notes", "0004.bak", "١٢٣٤"):
        (runs / name).mkdir(parents=True)
    (runs / "0001").symlink_to(other / "0001")
    (runs / "0002" / "link").symlink_to(other)
    (runs / "0003").write_text("a file")
    (runs / "0010" / "locked").mkdir(mode=0o500)
    for name in ("0002", "0010"):
        (runs / name / "result.json").write_text(MARK)
    assert [path.name for path in run_folders(runs)] == ["0002", "0010", "10000"]
    assert [path.name for path in old_run_folders(runs, 1, Standing(last_iteration=9))] == ["0002"]
    prune_artifacts(runs, LogTable(keep_runs=1), _standing(10000), History(runs / "none"))
    assert left(runs, "*") == sorted(["0001", "0003", "0004.bak", "10000", "3", "notes", "١٢٣٤"])
    assert (other / "0001" / "precious").exists()


def test_show_says_that_the_artifacts_are_gone(make_project: Projects, tmp_path: Path) -> None:
    project = make_project(manifest={"log": {"keep_runs": 1}})
    project.set_moves(answer(2), answer(1.5), answer(3))
    record = project.climb("iterate", "-n", "3")[2]
    shown = project.run("show", "2")
    assert shown.exit_code == 0 and "reverted, worse" in shown.stdout
    assert "artifacts  not here: " in shown.stdout
    assert "artifacts" not in project.run("show", "3").stdout
    assert '+{"score": 1.5,' in project.run("show", "2", "--diff").stdout
    for option in (["--files", str(tmp_path / "there")], ["--output"], ["--plan"]):
        ended = project.run("show", "2", *option)
        assert ended.exit_code == 2 and "artifacts of iteration 2 were removed" in ended.stderr
        assert record["commit_hash"] in ended.stderr
    assert not (tmp_path / "there").exists()
    assert project.run("audit").exit_code == 0
    project.run_folder(3).rename(tmp_path / "taken away")
    project.climb("iterate", "--until", "score>=1")
    assert not project.run_folder(3).exists(), "where the folder is gone, nothing is written again"


@pytest.mark.slow
def test_the_manifest_says_whose_outputs_stay(make_project: Projects, tmp_path: Path) -> None:
    """By default the best's, which is the baseline until there is a better; until the verdict the candidate's too."""
    project = make_project(manifest={"verify": TRAIN})
    project.set_moves(answer(0.5), answer(2), answer(1.1), answer('"fail"'), answer(3), answer(2.6), answer(4))
    project.climb("iterate", "-n", "1")
    assert with_outputs(project) == {0: answer(1)}
    project.climb("iterate", "-n", "1")
    assert with_outputs(project) == {2: answer(2)}
    project.check("show", "best", "--files", str(tmp_path / "best"))
    assert (tmp_path / "best" / "outputs" / "out" / "model.bin").read_text() == answer(2)
    project.check("show", "1", "--files", str(tmp_path / "other"))
    assert not (tmp_path / "other" / "outputs").exists()
    for following in ("PLAN", "APPLY_CHANGE", "COMMIT", "VERIFY", "DECIDE"):
        assert following in project.check("step")
    assert with_outputs(project) == {2: answer(2), 3: answer(1.1)}
    for _ in range(2):
        project.check("step")
    assert with_outputs(project) == {2: answer(2)}
    project.set_manifest({"verify": TRAIN, "log": {"keep_outputs": "kept"}})
    shutil.copytree(project.run_folder(2) / "outputs", project.run_folder(3) / "outputs")  # as a kill leaves it
    project.climb("iterate", "-n", "2")
    assert with_outputs(project) == {2: answer(2), 5: answer(3)}
    project.set_manifest({"verify": TRAIN})
    project.climb("iterate", "-n", "1")
    assert with_outputs(project) == {5: answer(3)}
    project.write({"hidden/judge.sh": JUDGE + "# another ruler\n"})
    project.commit()
    project.check("baseline")
    assert with_outputs(project) == {7: answer(3)}
    project.set_manifest({"verify": TRAIN, "log": {"keep_outputs": "none"}})
    assert project.climb("iterate", "-n", "1")[-1]["outcome"] == "kept"
    assert with_outputs(project) == {} and not (project.trees() / "scratch").exists()


def test_outputs_of_an_undecided_iteration_and_of_somebody_elses_are_left_alone(own: Path) -> None:
    make_folders(own, 0, 1, 2, 3)
    (own / "0001" / "result.json").write_text("{}")
    prune_outputs(run_folders(own), LogTable(), _standing(2), History(own / "none"))
    assert left(own, "*/outputs") == ["0001/outputs", "0003/outputs"]


@pytest.mark.parametrize("run_id", ["", "20260102T000000Z-abcd"], ids=["run", "run without a record"])
def test_what_is_under_way_beside_what_landed_before_it_is_left_alone(own: Path, run_id: str) -> None:
    make_folders(own, 0, 1, 2, 3)
    standing = structs.replace(_standing(3), last=iteration(3, 3, "kept", "better"))
    Flight(own, Seal(b"a secret"), run_id or standing.run_id).add(Begun(1, 0, ""))
    prune_artifacts(own, LogTable(keep_runs=1), standing, History(own / "none"))
    assert left(own, "0*") == ["0001", "0003"] and (own / "0001" / "outputs").is_dir()


def test_the_outputs_of_one_that_lost_go_with_its_record_though_it_is_under_way_until_its_end(own: Path) -> None:
    make_folders(own, 1, 2)
    for number in (1, 2):
        Flight(own, Seal(b"a secret"), "").add(Begun(number, 0, ""))
    prune_artifacts(own, LogTable(), _standing(2), History(own / "none"))
    assert left(own, "*/outputs") == ["0001/outputs"]


def test_outputs_are_moved_not_copied(own: Path) -> None:
    source, folder = own / "source", own / "0001"
    source.mkdir()
    folder.mkdir()
    move_outputs(source, folder)
    assert not (folder / "outputs").exists()
    (source / "model").write_text("x")
    inode = (source / "model").stat().st_ino
    move_outputs(source, folder)
    assert (folder / "outputs" / "model").stat().st_ino == inode and not source.exists()


def test_what_a_kill_after_the_record_left_undone_is_done(played: Projects) -> None:
    project = played(answer(2), more=(answer(3),))
    folder = project.run_folder(1)
    names = ("git_after.txt", "result.json", "results_discussion.md")
    whole = {name: (folder / name).read_text() for name in names}
    for torn in (None, "", '{"seq": 3'):
        for name in names:
            (folder / name).unlink()
        if torn is not None:
            (folder / "result.json").write_text(torn)
        project.check("iterate", "--until", "score>=1")
        assert {name: (folder / name).read_text() for name in names} == whole
    assert json.loads(whole["result.json"]) == project.iterations()[1]
    assert len(project.climb("iterate", "-n", "1")) == 3
    project.check("audit")
