"""The guide's recipes for people and machines that take over from each other, run line by line as printed."""

from pathlib import Path

import pytest
from project import JUDGE, Project, answer, home, until
from recipes import WAITING, block, hold, install, let_go, lines, typed

AGENT = 'cat > "$HOME/prompt-$GOALSEEK_ITERATION"; printf \'{"score": %s}\' "$GOALSEEK_ITERATION" > answer.json'


@pytest.fixture
def repo(isolated: Path) -> Project:
    """The repository of the recipes, ``~/repo``, with an origin."""
    install()
    project = Project.make(isolated / "repo")
    project.set_moves(*(answer(score) for score in (2, 0, 3, 4, 5, 6, 7)))
    project.git("init", "--quiet", "--bare", "--initial-branch=main", str(isolated / "origin.git"))
    project.git("remote", "add", "origin", str(isolated / "origin.git"))
    project.git("push", "--quiet", "origin", "main")
    return project


def clone(name: str) -> Project:
    """Another machine's clone of the origin."""
    Project(home(), home()).git("clone", "--quiet", str(home("origin.git")), name, folder=home())
    return Project(home(name), home(name))


def told(project: Project) -> list[tuple[int, str, int]]:
    return [(record["iteration"], record["reason"], record["epoch"]) for record in project.iterations()]


@pytest.mark.slow
def test_steering_reaches_the_prompt_after_the_one_at_work(repo: Project) -> None:
    repo.write({"hidden/judge.sh": WAITING, "program.md": "Be brief.\n"})
    repo.set_manifest({"provider": {"name": "command", "command": ["sh", "-c", AGENT]}})
    repo.commit("steered")
    hold(1)
    climbing = repo.start("iterate", "-n", "3")
    until(home("waiting").exists)
    said = [typed(command, repo.folder).stdout for command in lines("Steering a running loop")]
    let_go()
    assert climbing.communicate(timeout=60) and climbing.returncode == 0
    assert "try a smaller batch" in said[1]
    prompts = [home(f"prompt-{number}").read_text() for number in (1, 2, 3)]
    for words in ("try a smaller batch", "Leave the tokenizer alone."):
        assert [words in prompt for prompt in prompts] == [False, True, True]
    for words in ("--from 12", "--to 20", "--drop 1"):  # what the comments name is there, too
        assert words in block("Steering a running loop", "console")
    typed('goalseek direct "later" --from 12 --to 20 && goalseek direct --drop 1', repo.folder)
    assert repo.run("direct", "--list").stdout.split() == ["2", "from", "12", "to", "20:", "later"]


@pytest.mark.slow
def test_on_monday_what_was_kept_lands_on_main_and_the_climb_goes_on_from_there(repo: Project) -> None:
    """The night ended at a limit, other commits are on main, and the verifier is another one."""
    repo.set_manifest({"limits": {"iterations": 3}, "scope": {"writable": ["*.json"], "hidden": ["hidden/**"]}})
    repo.write({"more.json": "1\n"})
    repo.commit("limited")
    assert repo.climb("iterate", "--forever")[-1]["iteration"] == 3
    repo.write({"hidden/judge.sh": JUDGE + 'echo "another judge"\n', "other.txt": "moved on\n", "more.json": "2\n"})
    monday = repo.commit("main has moved")
    promote, merge, baseline, iterate = lines("On Monday, from a main that has moved")
    assert "the result against the base: 200% better" in typed(promote, repo.folder).stdout
    typed(merge, repo.folder)
    assert repo.git("log", "--format=%s", f"{monday}..main").splitlines() == ["move 3", "move 1"]
    assert (repo.folder / "answer.json").read_text() == answer(3)
    assert (repo.folder / "other.txt").read_text() == "moved on\n"
    typed(baseline, repo.folder)
    typed(iterate, repo.folder)
    assert told(repo) == [
        (0, "measured", 0),
        (1, "better", 0),
        (2, "worse", 0),
        (3, "better", 0),
        (4, "measured", 1),
        (5, "better", 1),
        (6, "better", 1),
        (7, "better", 1),
    ]
    assert "another judge" in (repo.run_folder(5) / "verifier.log").read_text()
    found = [repo.git("show", f"goalseek/demo:{path}") for path in ("other.txt", "more.json")]
    assert found == ["moved on", "2"], "what is the verifier's, and what is the candidate's"
    repo.check("audit")


@pytest.mark.slow
def test_another_machine_has_all_of_it_and_gives_it_back(repo: Project) -> None:
    repo.climb("iterate", "-n", "3")
    push, fetch, *there = lines("On another machine")
    assert len(there) == 6
    typed(push, repo.folder)
    other = clone("other")
    typed(fetch, other.folder)
    said = [typed(command, other.folder).stdout for command in there]
    assert (other.results).read_bytes().startswith(repo.results.read_bytes())
    assert said[1].count("kept ") == 2 and '+{"score": 3,' in said[2]
    assert "move 3" in (other.folder / "night.html").read_text()
    assert other.git("log", "--format=%s", "origin/main..faster").splitlines() == ["move 3", "move 1"]
    assert told(other)[-1] == (4, "better", 0)
    typed(push, other.folder)
    typed(fetch, repo.folder)
    for project in (repo, other):
        typed("goalseek iterate", project.folder)
        assert told(project)[-1] == (5, "better", 0)
    typed(push, repo.folder)
    assert "fetch first" in typed(push, other.folder, exit_code=1).stderr
