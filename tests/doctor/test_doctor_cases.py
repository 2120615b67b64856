"""What doctor says of a metric of cases: whether parts can be asked, whether the number is their mean, what they show."""

from pathlib import Path

import pytest
from case_projects import cases_project, right, spoil

MANY = tuple(f"q{number}" for number in range(120))
MEAN = 'document["mean"] = sum(row["score"] for row in rows) / len(rows)\n'
ALL = 'document = {"results": [{"id": id, "score": answers.get(id, 0)} for id in every]}\n'


def findings(project: object) -> list[str]:
    """The lines of the place ``cases``, each with its mark and its remedy."""
    lines = project.run("doctor").stdout.splitlines()  # type: ignore[attr-defined]
    rows = [index for index, line in enumerate(lines) if line[2:].startswith("cases ")]
    remedies = [lines[index + 1].strip() if "→" in lines[index + 1] else "" for index in rows]
    return [f"{lines[index]} {remedy}".strip() for index, remedy in zip(rows, remedies, strict=True)]


def test_it_asks_for_three_cases_and_says_what_so_many_show(tmp_path: Path) -> None:
    asked, shown = findings(cases_project(tmp_path / "repository", ids=MANY))
    assert asked.startswith("✓") and asked.endswith("asked for 3 cases of 120, the verifier answers these alone")
    assert shown.startswith("✓") and "120 cases: the least gain to show is 4.7 points" in shown


def test_it_finds_a_verifier_that_answers_all_and_one_that_fails(tmp_path: Path) -> None:
    spoil(ALL)
    asked, shown = findings(cases_project(tmp_path / "all"))
    assert asked.startswith("!") and "of 16, the verifier answers all: each candidate costs a full run" in asked
    assert shown.startswith("!") and "with fewer than 100, about half of the keeps are luck" in shown
    spoil("assert ids is None or len(ids) > 3\n")
    asked, _ = findings(cases_project(tmp_path / "few"))
    assert asked.startswith("✗") and "the verifier fails: " in asked and "$GOALSEEK_CASES" in asked


@pytest.mark.parametrize(
    ("query", "spoiled", "said"),
    [
        ("mean", MEAN, ""),
        ("mean", "", "has no 'mean'"),
        ("`7`", "", "the mean of the 16 cases is 0.25, and query gives 7"),
    ],
)
def test_a_query_beside_cases_must_be_their_mean(tmp_path: Path, query: str, spoiled: str, said: str) -> None:
    spoil(spoiled)
    project = cases_project(tmp_path / "repository", metric={"query": query})
    project.write({"answer.json": right(*range(4))})
    project.commit()
    wrong = [line for line in findings(project) if line.startswith("✗")]
    assert [said in line and "correct metric.cases, or take metric.query out" in line for line in wrong] == [
        True
    ] * bool(said)


def test_no_change_can_be_kept_on_two_cases(tmp_path: Path) -> None:
    *_, shown = findings(cases_project(tmp_path / "repository", ids=("q0", "q1")))
    assert shown.startswith("✗") and "no change can be kept on 2 cases" in shown


def test_a_baseline_without_a_race_is_told(tmp_path: Path) -> None:
    project = cases_project(tmp_path / "repository", metric={"race": "off"})
    project.check("baseline")
    project.manifest.write_text(project.manifest.read_text().replace('race = "off"', 'race = "auto"'))
    asked, _ = findings(project)
    assert asked.startswith("!") and "the baseline knew no race" in asked and "goalseek baseline" in asked
