"""The run folder of the last record is finished by whoever comes next, and is never found half written."""

import json

import pytest
from project import Project, answer


@pytest.mark.parametrize("left", [None, "", '{"seq": 3'])
@pytest.mark.slow
def test_what_a_kill_after_the_record_left_undone_is_done(project: Project, left: str | None) -> None:
    project.set_moves(answer(2), answer(3))
    project.climb("iterate", "-n", "1")
    folder = project.run_folder(1)
    names = ("git_after.txt", "result.json", "results_discussion.md")
    whole = {name: (folder / name).read_text() for name in names}
    for name in names:
        (folder / name).unlink()
    if left is not None:
        (folder / "result.json").write_text(left)
    assert len(project.climb("iterate", "-n", "1")) == 3
    assert {name: (folder / name).read_text() for name in names} == whole
    assert json.loads((folder / "result.json").read_text()) == project.iterations()[1]
    assert project.run("audit").exit_code == 0


def test_where_the_folder_is_gone_nothing_is_written_again(project: Project) -> None:
    project.set_moves(answer(2), answer(3))
    project.climb("iterate", "-n", "1")
    folder = project.run_folder(1)
    folder.rename(folder.with_name("elsewhere"))
    project.climb("iterate", "-n", "1")
    assert not folder.exists()
