"""A run folder that candidate code removes or replaces is as an empty one, and no other command is the worse for it."""

import pytest
from project import Project, answer


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("act", ["", "; echo > $GOALSEEK_RUN_DIR", "; ln -s $HOME $GOALSEEK_RUN_DIR"])
def test_candidate_code_may_take_its_run_folder_away(project: Project, act: str, once: bool) -> None:
    build = {"name": "build", "run": f"rm -r $GOALSEEK_RUN_DIR{act}", "once": once}
    metric = {"regex": 'score": ([0-9.]+)', "direction": "maximize"}
    project.set_manifest({"verify": [build, {"name": "run", "run": "cat answer.json"}], "metric": metric})
    project.commit()
    project.set_moves(answer(2))
    assert [record["metric"]["value"] for record in project.climb("iterate", "-n", "1")] == [1, 2]
