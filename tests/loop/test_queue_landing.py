"""The landing of several iterations at once: a reviewer looks at what will land, and a person is asked about it."""

from pathlib import Path

import pytest
from project import Project, home
from reviewing import command
from shown import Shown
from test_queue import RESULTS, begin, move, tries_of

AUTHOR = """\
[ $GOALSEEK_PHASE = repair ] && cat > "$HOME/repair-$GOALSEEK_ITERATION" && echo 3 > a.txt && exit
[ $GOALSEEK_ITERATION = 1 ] && echo 1 > a.txt || { until [ -e "$HOME/repair-1" ]; do sleep 0.05; done; echo 1 > b.txt; }
echo "idea $GOALSEEK_ITERATION"
"""
REVIEWER = """\
cat > "$HOME/review-$(ls "$HOME" | grep -c review)-of-$GOALSEEK_ITERATION"
[ "$(cat a.txt)" = 1 ] && [ "$(cat b.txt)" = 0 ] && word="CHANGES_REQUESTED" || word=APPROVED
printf '<<<GOALSEEK REVIEW %s\\n%s\\n- more\\nGOALSEEK REVIEW %s>>>\\n' $GOALSEEK_NONCE $word $GOALSEEK_NONCE
"""


def test_a_change_that_a_reviewer_sends_back_leaves_the_landing_to_others(tmp_path: Path) -> None:
    (tmp_path / "reviewer.sh").write_text(REVIEWER)
    landed = f"""until grep -q '"outcome":"kept"' {RESULTS.format(tmp_path)}; do sleep 0.05; done"""
    author = AUTHOR.replace("echo 3 >", f"{landed} && echo 3 >")
    review = {"provider": command(tmp_path / "reviewer.sh"), "criteria": ["It is short."]}
    project = begin(tmp_path / "repository", agent=author, review=review)
    first, second = tries_of(project.climb("iterate", "-n", "2", "--jobs", "2"))
    assert (first["iteration"], first["outcome"], first["metric"]["value"]) == (2, "kept", 11)
    assert (second["iteration"], second["outcome"], second["metric"]["value"]) == (1, "kept", 14)
    assert [attempt["reason"] for attempt in second["attempts"]] == ["changes_requested", "moved"]
    assert second["parent_commit_hash"] == first["commit_hash"]
    assert sorted(path.name[9:] for path in home(".").glob("review-*")) == ["of-1", "of-1", "of-2"]
    project.check("audit")


def waiting(top: Path, count: int) -> Project:
    """A project of which so many gains wait for approval, while nothing else goes on."""
    project = begin(top, approve={"before": "kept"})
    project.set_moves(*(move(f"try {name}", **{name: 1}) for name in "abcd"))
    ended = project.run("iterate", "-n", str(count), "--jobs", "4")
    assert ended.exit_code == 5, ended
    assert "iteration 1 waits for your approval: kept, 11 beats 10 by 1" in ended.stderr
    return project


def test_where_nobody_can_be_asked_all_wait_and_answers_to_several_count(tmp_path: Path) -> None:
    project = waiting(tmp_path / "repository", 3)
    assert "iteration 2 will be kept" in project.check("approve", "2")
    assert "iteration 3 will be reverted" in project.check("decline", "3")
    assert "iteration 1 will be kept" in project.check("approve", "1")
    measured = [len(list(project.run_folder(number).glob("evidence*"))) for number in (1, 2, 3)]
    assert measured == [1, 1, 1]
    tries = tries_of(project.climb("iterate", "-n", "3", "--jobs", "4"))
    outcomes = {record["iteration"]: (record["outcome"], record["reason"]) for record in tries}
    assert outcomes == {1: ("kept", "better"), 2: ("kept", "better"), 3: ("reverted", "declined")}
    kept = [record for record in tries if record["outcome"] == "kept"]
    values = [record["metric"]["value"] for record in kept]
    assert values == [11, 12], "the second was measured again, and not asked about"
    assert kept[1]["parent_commit_hash"] == kept[0]["commit_hash"]
    assert not [*project.logs.glob("word*")]
    project.check("audit")


@pytest.mark.slow
def test_an_approved_patch_that_is_another_one_on_the_new_tip_is_asked_about_again(tmp_path: Path) -> None:
    def lines(*changed: int) -> dict[str, str]:
        return {"a.txt": "".join("x\n" if number in changed else f"{number}\n" for number in range(1, 21))}

    judge = """echo "{\\"score\\": $(tr -dc x < a.txt | wc -c)}" > "$GOALSEEK_RUN_DIR/metrics.json"\n"""
    project = begin(tmp_path / "repository", judge, approve={"before": "kept"})
    project.write(lines())
    project.commit()
    project.set_moves(*({"title": f"line {line}", "files": lines(line)} for line in (2, 15, 5)))
    assert project.run("iterate", "-n", "3", "--jobs", "3").exit_code == 5
    project.check("approve", "1")
    project.check("approve", "3")
    project.check("iterate", "-n", "1", "--jobs", "3")
    assert project.run("iterate", "-n", "2", "--jobs", "3").exit_code == 5
    project.check("approve", "2")
    project.check("iterate", "-n", "1", "--jobs", "3")
    ended = project.run("iterate", "-n", "1", "--jobs", "3")
    assert ended.exit_code == 5 and "iteration 3 waits for your approval" in ended.stderr
    project.check("approve", "3")
    tries = tries_of(project.climb("iterate", "-n", "1", "--jobs", "3"))
    assert [(record["iteration"], record["metric"]["value"]) for record in tries] == [(1, 1), (2, 2), (3, 3)]
    project.check("audit")


def test_an_answer_about_a_change_that_was_merged_onto_a_later_tip_is_none_about_it_as_it_was(tmp_path: Path) -> None:
    project = waiting(tmp_path / "repository", 2)
    project.check("approve", "1")
    ended = project.run("iterate", "-n", "2", "--jobs", "2")
    assert ended.exit_code == 5 and "iteration 2 waits for your approval: kept, 12 beats 11 by 1" in ended.stderr
    project.check("approve", "2")
    tries = tries_of(project.climb("iterate", "-n", "1", "--jobs", "2"))
    assert [(record["iteration"], record["metric"]["value"]) for record in tries] == [(1, 11), (2, 12)]


def test_one_that_waits_for_a_person_lets_others_land(tmp_path: Path) -> None:
    project = begin(tmp_path / "repository", approve={"before": "each"})
    project.set_moves(move("try a", a=-1), move("try b", b=1))
    ended = project.run("iterate", "-n", "2", "--jobs", "2")
    assert ended.exit_code == 5
    project.check("approve", "2")
    ended = project.run("iterate", "-n", "2", "--jobs", "2")
    assert ended.exit_code == 5 and "iteration 1 waits for your approval: reverted" in ended.stderr
    assert [record["iteration"] for record in tries_of(project.iterations())] == [2]
    project.check("approve", "1")
    second = tries_of(project.climb("iterate", "-n", "1", "--jobs", "1"))[-1]
    assert (second["iteration"], second["outcome"], second["reason"]) == (1, "reverted", "worse")
    assert second["benches"] == 2  # as it was measured
    project.check("audit")


def test_at_a_terminal_each_is_asked_about_once_and_in_turn(tmp_path: Path) -> None:
    project = begin(tmp_path / "repository", approve={"before": "kept"})
    project.set_moves(*(move(f"try {name}", **{name: 1}) for name in "abc"))
    with Shown(project.folder, "iterate", "-n", "3", "--jobs", "3") as terminal:
        first = asked_about(terminal)
        terminal.type("y\n")
        second = asked_about(terminal)
        project.check("approve", str(second))
        third = asked_about(terminal)
        terminal.type("n\n")
        assert terminal.ended() == 0
        assert terminal.raw.count(b": kept, better") == 3
    reasons = {record["iteration"]: record["reason"] for record in tries_of(project.iterations())}
    assert len(reasons) == 3 and reasons == {first: "better", second: "better", third: "declined"}
    project.check("audit")


def asked_about(terminal: Shown) -> int:
    """The iteration that the next question is about: the first to have its verdict need not be the oldest."""
    question = terminal.hear(": kept, better").removesuffix(": kept, better")
    return int(question.rsplit("iteration ", 1)[1])
