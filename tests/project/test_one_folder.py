"""Two folders of one repository whose manifests have one name: their climbs are never mixed."""

import shutil
from pathlib import Path

import pytest
from project import FILES, Project, Projects, answer

WORDS = "the climb 'demo' belongs to the manifest in {}/alpha, not to {}/beta/goalseek.toml"


@pytest.fixture
def folders(made_once: Projects, tmp_path: Path) -> tuple[Project, Project]:
    """Alpha, which has climbed, and its copy beta, of a repository."""
    alpha = made_once(climb, tmp_path / "repository")
    return alpha, Project(alpha.top, alpha.top / "beta")


def climb(top: Path) -> Project:
    alpha = Project.make(top, below="alpha")
    beta = Project(alpha.top, alpha.top / "beta")
    beta.write(FILES)
    beta.set_manifest({})
    alpha.commit()
    alpha.set_moves(answer(2), answer(3), answer(4))
    alpha.climb()
    return alpha


def test_what_would_mix_them_is_refused_and_another_name_is_the_way(folders: tuple[Project, Project]) -> None:
    alpha, beta = folders
    refs = alpha.git("for-each-ref")
    for command in ("iterate", "baseline", "promote", "audit --rebuild", "show 1", "stop"):
        ended = beta.run(*command.split())
        assert ended.exit_code == 2 and WORDS.format(alpha.top, alpha.top) in ended.stderr, ended
        assert alpha.git("for-each-ref") == refs
        assert not (beta.folder / ".goalseek").exists()
    assert WORDS.format(alpha.top, alpha.top) in beta.run("status").stdout
    assert WORDS.format(alpha.top, alpha.top) in beta.run("log").stderr
    assert [record["iteration"] for record in alpha.climb()] == [0, 1, 2]
    beta.set_manifest({"project": {"name": "beta"}})
    beta.commit()
    beta.check("iterate")


def test_a_folder_that_was_renamed_keeps_its_climb(folders: tuple[Project, Project]) -> None:
    alpha, beta = folders
    shutil.rmtree(beta.folder)
    alpha.folder.rename(beta.folder)
    alpha.commit("renamed")
    assert "audit --rebuild" not in beta.run("status").stdout
    assert "1 kept" in beta.run("status").stdout
    beta.check("baseline", "--from", "main")
    assert [record["iteration"] for record in beta.climb()][-1] == 3
