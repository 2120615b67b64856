"""Whatever a user does to the manifest between or within iterations: each command does what it says, and some command
goes on; no two of them send the user to each other.
"""

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from project import FILES, JUDGE, Ended, Project, Projects, answer, home

from goalseek.errors import GoalseekError
from goalseek.git.location import locate
from goalseek.git.repository import Repository
from goalseek.manifest.tables import ScopeTable
from goalseek.workspace.bench import Bench
from goalseek.workspace.checkout import TreePlan
from goalseek.workspace.scope import build_scope

WRITABLE = ["answer.json", "notes.txt", "old.txt"]
SCOPE: dict[str, Any] = {"writable": WRITABLE, "hidden": ["hidden/**"]}
START = {**FILES, "notes.txt": "notes\n", "old.txt": "old\n"}
JUDGED = [{"name": "judge", "run": "sh hidden/judge.sh", "sees": "both"}]
ALWAYS = {"direction": "maximize", "query": "score", "noise": "always"}
NAMED = re.compile(r"goalseek (?:iterate|baseline)(?! --provider NAME)(?: --from \w+| --new)?")
PHASES = ("READ_CONTEXT", "PLAN", "APPLY_CHANGE", "COMMIT", "VERIFY", "DECIDE")


def move(score: int, **more: str) -> dict[str, Any]:
    """A change of answer.json and notes.txt, and of ``more``."""
    return {"files": {"answer.json": answer(score), "notes.txt": f"notes {score}\n", **more}}


def without_old(project: Project) -> dict[str, Any]:
    """The first move, as a patch: it removes old.txt as well."""
    project.write({"answer.json": answer(2), "notes.txt": "notes 2\n"})
    (project.folder / "old.txt").unlink()
    patch = project.script.with_name("first.patch")
    patch.write_text(project.git("diff") + "\n")
    project.git("checkout", "--quiet", ".")
    return {"patch": str(patch)}


def climb(top: Path, steps: int) -> Project:
    """A climb with one keep, in which so many phases of the next iteration are done."""
    project = Project.make(top, files=START, manifest={"scope": SCOPE})
    project.set_moves(without_old(project), *(move(score) for score in range(3, 10)))
    assert [record["outcome"] for record in project.climb("iterate", "-n", "1")] == ["baseline", "kept"]
    assert "old.txt" not in project.git("ls-tree", "-r", "--name-only", "goalseek/demo").split()
    for phase in PHASES[:steps]:
        assert project.run("step").stdout.startswith(f"done: {phase};")
    return project


@pytest.fixture
def climb_at(made_once: Projects, tmp_path: Path) -> Callable[[int], Project]:
    return lambda steps: made_once(climb, tmp_path / "repository", steps)


def copy_of(project: Project, place: Path) -> Project:
    place.mkdir()
    return project.copy(place / project.top.name)


@dataclass(frozen=True)
class Row:
    """An edit, and what follows: how ``iterate`` ends and what it says or records, and the same of ``baseline``.

    ``shown`` is what ``status`` or ``doctor --quick`` say.
    """

    name: str
    edit: Callable[[Project], None]
    iterate: tuple[int, str] = (0, "kept better")
    baseline: tuple[int, str] = (0, "baseline measured")
    shown: str = ""


def scope(**more: object) -> Callable[[Project], None]:
    return lambda project: project.set_manifest({"scope": {**SCOPE, **more}})


def tables(**more: object) -> Callable[[Project], None]:
    return lambda project: project.set_manifest({"scope": SCOPE, **more})


def without_provider(project: Project) -> None:
    project.set_manifest({"scope": SCOPE})
    project.manifest.write_text(project.manifest.read_text().partition("[provider]")[0])


def only_answers(**more: object) -> Callable[[Project], None]:
    """No later move changes notes.txt, which is writable no more."""

    def edit(project: Project) -> None:
        project.set_moves(*({"files": {"answer.json": answer(score)}} for score in range(3, 10)))
        scope(writable=["answer.json"], **more)(project)

    return edit


def another_judge(project: Project) -> None:
    project.write({"hidden2/judge.sh": JUDGE})
    verify = [{**JUDGED[0], "run": "sh hidden2/judge.sh"}]
    project.set_manifest({"scope": {**SCOPE, "hidden": ["hidden/**", "hidden2/**"]}, "verify": verify})
    project.commit()


def not_committed(project: Project) -> None:
    project.write({"new.txt": "new\n"})
    scope(writable=[*WRITABLE, "new.txt"])(project)


def new_file(project: Project) -> None:
    not_committed(project)
    project.commit()


def wider(project: Project) -> None:
    project.set_moves(*(move(score, **{"other.txt": "mine\n"}) for score in range(3, 10)))
    scope(writable=[*WRITABLE, "other.txt"])(project)


LEFT_OUT = "no longer writable, so taken from HEAD: notes.txt"
BETWEEN = [
    Row("as it was, where a keep removed a named file", lambda project: None, shown="writable files"),
    Row("a verifier in a new file", another_judge, (0, "key scope"), shown="goalseek baseline adopts it"),
    Row("narrower", only_answers(), baseline=(0, LEFT_OUT)),
    Row(
        "only what a keep removed",
        scope(writable=["old.txt"]),
        (3, "goalseek baseline --from HEAD"),
        (3, "goalseek baseline --from HEAD"),
        shown="goalseek baseline --from HEAD",
    ),
    Row(
        "a name of a new file",
        new_file,
        (0, "'new.txt' matches files of HEAD, but none"),
        (0, "goalseek baseline --from HEAD"),
    ),
]
BETWEEN_TOO = [
    Row("wider", wider),
    Row(
        "a name that nothing has", scope(writable=[*WRITABLE, "typo"]), (0, "'typo' matches no"), (2, "'typo' matches")
    ),
    Row("a name not committed", not_committed, (0, "but not committed"), (2, "but not committed")),
    Row("nothing writable", scope(writable=["typo"]), (3, "git ls-tree"), (2, "'typo' matches"), "git ls-tree"),
    Row("hidden and read-only", scope(hidden=[], read_only=["hidden/**"]), (0, "key scope differs")),
    Row("a hidden name that nothing has", scope(hidden=["hidden/**", "typo"]), baseline=(2, "'typo' matches no")),
    Row("moved to read-only", only_answers(read_only=["notes.txt"]), baseline=(0, LEFT_OUT)),
    Row("moved to hidden", only_answers(hidden=["hidden/**", "notes.txt"]), baseline=(0, LEFT_OUT)),
    Row("moved to generated", only_answers(generated=["notes.txt"])),
    Row("another metric", tables(metric={"direction": "minimize", "query": "size"}), (0, "key metric differs")),
    Row("no provider", without_provider, (2, "no provider is named")),
    Row("wrong", lambda project: project.set_manifest("version = 2\n"), (2, "version"), (2, "version")),
    Row("past a limit", tables(limits={"iterations": 1}), (0, "limits.iterations = 1 is reached")),
    Row("other logs", tables(log={"home": "elsewhere"})),
    Row("another name", tables(project={"name": "demo2"})),
    Row("a share that is not there", scope(share=["data"]), (2, "scope.share"), (2, "scope.share")),
]
FINISH = (2, "goalseek iterate finishes it")
NEVER = (0, "it could not be finished")
CHANGED = "the manifest's scope has changed since the iteration began"
WITHIN = [  # what baseline says is that after COMMIT
    Row("narrower", scope(writable=["answer.json"]), (0, CHANGED), FINISH),
    Row("no provider", without_provider, (2, "no provider is named"), NEVER),
    Row("wider", scope(writable=[*WRITABLE, "other.txt"]), (0, CHANGED), FINISH),
    Row("moved to generated", only_answers(generated=["notes.txt"]), (0, CHANGED), FINISH),
    Row("moved to read-only", only_answers(read_only=["notes.txt"]), (0, CHANGED), FINISH),
    Row("moved to hidden", only_answers(hidden=["hidden/**", "notes.txt"]), (0, CHANGED), FINISH),
    Row("another metric", tables(metric={"direction": "minimize", "query": "size"}), baseline=FINISH),
    Row("another command", tables(verify=[{**JUDGED[0], "run": "sh hidden/judge.sh && true"}]), baseline=FINISH),
    Row("nothing writable", scope(writable=["typo"]), (3, "git ls-tree"), (2, "'typo' matches")),
    Row("past a limit", tables(limits={"iterations": 1}), (0, "limits.iterations = 1 is reached"), NEVER),
    Row("other logs", tables(log={"home": "elsewhere"}), (0, ""), FINISH),
    Row("wrong", lambda project: project.set_manifest("version = 2\n"), (2, "version"), (2, "version")),
]
ONCE = ("wider", "moved to read-only", "nothing writable", "other logs", "wrong")  # the others show the later moment
MOMENTS = {"narrower": (1, 2, 3, 5), "no provider": (1, 2, 4, 6), "past a limit": (3, 5), "another metric": (3, 6)}
MOMENTS |= dict.fromkeys(ONCE, (3,))


def told_by(project: Project, *command: str) -> tuple[Ended, str]:
    ended = project.run(*command)
    return ended, re.sub(r" +", " ", ended.stdout + ended.stderr)


def hold(project: Project, row: Row, tmp_path: Path) -> None:
    """What the row says holds, and each command that a refusal names works, in a copy of what was there then."""
    row.edit(project)
    if row.shown:
        assert row.shown in told_by(project, "status")[1] + told_by(project, "doctor", "--quick")[1]
    for first, (code, text) in (("iterate", row.iterate), ("baseline", row.baseline)):
        copy = copy_of(project, tmp_path / first)
        ended, told = told_by(copy, first)
        assert ended.exit_code == code and text in told, (first, ended)
        if code:
            other = copy_of(copy, tmp_path / f"{first}-told")
            for command in NAMED.findall(ended.stderr.rpartition("goalseek: ")[2]):
                assert other.run(*command.split()[1:]).exit_code == 0, (first, command)
        elif row.iterate[0] == 0:
            copy.check("iterate")
            assert "0 differences" in copy.run("audit").stdout


@pytest.mark.slow
@pytest.mark.parametrize("row", [*BETWEEN, *BETWEEN_TOO], ids=lambda row: row.name)
def test_between_iterations_no_two_commands_send_to_each_other(
    row: Row, climb_at: Callable[[int], Project], tmp_path: Path
) -> None:
    hold(climb_at(0), row, tmp_path)


@pytest.mark.slow
def test_an_iteration_that_has_begun_ends_under_the_scope_it_began_with(climb_at: Callable[[int], Project]) -> None:
    project = climb_at(3)
    only_answers()(project)
    project.set_moves({"files": {"answer.json": answer(4)}})
    record, following = project.climb("iterate", "-n", "2")[2:]
    assert record["changed_files"] == ["answer.json", "notes.txt"] and record["outcome"] == "kept"
    assert any(CHANGED in note for note in record["notes"])
    assert following["changed_files"] == ["answer.json"] and following["notes"] == []


def test_a_change_that_an_edit_of_the_manifest_takes_a_file_from_is_out_of_scope(
    climb_at: Callable[[int], Project],
) -> None:
    project = climb_at(3)
    tables(project={"name": "demo", "program": "notes.txt"})(project)
    record = project.climb()[-1]
    assert (record["outcome"], record["reason"]) == ("skipped", "out_of_scope")
    assert "notes.txt is no longer writable" in record["why"]


@pytest.mark.slow
def test_a_baseline_makes_way_where_iterate_cannot_finish(climb_at: Callable[[int], Project]) -> None:
    project = climb_at(4)
    assert "goalseek iterate finishes it" in project.run("baseline").stderr
    without_provider(project)
    assert project.run("iterate").exit_code == 2
    left, fresh = project.climb("baseline")[2:]
    assert (left["outcome"], left["reason"], left["provider"]) == ("skipped", "interrupted", "scripted")
    assert "moves.toml cannot be read" in left["why"] and fresh["outcome"] == "baseline"
    project.check("audit")


@pytest.mark.slow
def test_a_baseline_makes_way_where_only_the_last_call_knows_that_nothing_goes_on(project: Project) -> None:
    """The incumbent has no number any more under the pinned verifier, which only a baseline can mend."""
    breaks = 'if [ -e "$HOME/broken" ] && grep -q "score.: 2" answer.json; then exit 9; fi\n'
    project.write({"hidden/judge.sh": breaks + JUDGE})
    tables(scope={"writable": ["answer.json"], "hidden": ["hidden/**"]}, metric=ALWAYS)(project)
    project.commit()
    project.set_moves(answer(2), answer(3), answer(4))
    project.climb()
    home("broken").touch()
    ended = project.run("iterate")
    assert ended.exit_code == 1 and "gives no number any more" in ended.stderr
    assert project.run("iterate").exit_code == 1
    project.write({"hidden/judge.sh": JUDGE})
    project.commit()
    left, fresh = project.climb("baseline")[2:]
    assert left["reason"] == "interrupted" and "gives no number any more" in left["why"]
    assert (fresh["outcome"], fresh["metric"]["value"]) == ("baseline", 2)
    assert project.climb()[-1]["outcome"] == "kept"


@pytest.mark.slow
def test_a_baseline_says_that_a_kept_change_may_be_why_a_new_verifier_refuses_the_incumbent(
    climb_at: Callable[[int], Project],
) -> None:
    project = climb_at(0)
    text = project.manifest.read_text()
    project.manifest.write_text(text.replace('query = "score"', 'query = "scoer"'))
    stderr = project.run("baseline").stderr
    assert "metrics.json has no 'scoer'; it has: score, size" in stderr
    assert "correct query or regex" in stderr and "revert" not in stderr, "no kept change is why"
    project.manifest.write_text(text)
    project.write({"hidden/judge.sh": 'if grep -q "score.: 2" answer.json; then exit 9; fi\n' + JUDGE})
    project.commit()
    stderr = project.run("baseline").stderr
    assert "the incumbent is of iteration 1" in stderr and "goalseek baseline --from HEAD" in stderr
    project.check("revert", "1")
    assert project.climb("baseline")[-1]["outcome"] == "baseline"
    project.write({"hidden/judge.sh": "exit 9\n"})
    project.commit()
    assert "kept change" not in project.run("baseline").stderr


def test_a_new_run_says_that_it_leaves_a_candidate_behind(climb_at: Callable[[int], Project]) -> None:
    project = climb_at(4)
    record = project.climb("iterate", "-n", "1", "--new")[-1]
    assert record["reason"] == "interrupted" and record["why"] == "a new run began before its verdict"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "steps"),
    [(row, steps) for row in WITHIN for steps in MOMENTS.get(row.name, (6,))],
    ids=lambda value: getattr(value, "name", None),
)
def test_within_an_iteration_no_two_commands_send_to_each_other(
    row: Row, steps: int, climb_at: Callable[[int], Project], tmp_path: Path
) -> None:
    is_free = steps < PHASES.index("COMMIT") + 1 and row.baseline in (FINISH, NEVER)
    hold(climb_at(steps), replace(row, baseline=(0, "baseline measured")) if is_free else row, tmp_path)


@pytest.mark.slow
def test_a_manifest_that_is_gone_for_a_while_is_gone_on_with(climb_at: Callable[[int], Project]) -> None:
    project = climb_at(4)
    text = project.manifest.read_text()
    project.manifest.unlink()
    for command in ("iterate", "baseline", "status"):
        assert project.run(command).exit_code == 2
    tables(project={"name": "another"})(project)
    project.check("iterate")
    project.manifest.write_text(text)
    assert [record["iteration"] for record in project.climb()] == [0, 1, 2]


def test_what_candidates_have_changed_is_no_rulers_and_all_else_is_held_against_the_baseline(project: Project) -> None:
    whose = build_scope("", ScopeTable(writable=("answer.json",), hidden=("hidden/**",)))
    whose = structs.replace(whose, changed=frozenset({"notes.txt", "hidden/judge.sh"}))
    plan = TreePlan(whose, "", (), {}, False, (), None)
    found = {"hidden/judge.sh": True, "other.txt": True, "notes.txt": False, "answer.json": False}
    project.write({"notes.txt": "notes\n"})
    project.commit()
    with Repository(locate(project.top), "demo") as repository:
        bench = Bench(
            project.top.parent / "bench", repository.objects, plan, contextlib.nullcontext, project.top.parent
        )
        for path, is_found in found.items():
            before = project.git("rev-parse", "HEAD^{tree}")
            project.write({path: "another\n"})
            project.commit()
            with pytest.raises(GoalseekError, match=path) if is_found else contextlib.nullcontext():
                bench.refuse_other_ruler(before, project.git("rev-parse", "HEAD^{tree}"))
            assert whose.seen_by("hidden")(path) == is_found
