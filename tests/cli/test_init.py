"""``goalseek init``: from flags, by looking, and by asking at a terminal."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from doctor_cases import Case, make_case
from shown import Shown

from goalseek.doctor.first_manifest import guess_answers

FLAGS = (
    *("--writable", "answer.txt", "--hidden", "judge.sh", "--run", "sh judge.sh"),
    *("--direction", "maximize", "--regex", r"score: (\S+)", "--name", "demo"),
)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """A repository that has a judge, but no manifest yet."""
    case = make_case(tmp_path)
    (case.folder / "goalseek.toml").unlink()
    case.commit()
    return case


def written(case: Case) -> dict[str, Any]:
    return tomllib.loads((case.folder / "goalseek.toml").read_text())


def kinds(case: Case) -> list[str]:
    """Of the records, in order."""
    (path,) = case.folder.glob(".goalseek/*/logs/results.jsonl")
    return [json.loads(line)["kind"] for line in path.read_text().splitlines()]


def test_the_number_is_shown_and_the_manifest_passes_doctor(case: Case) -> None:
    ended = case.run("init", *FLAGS)
    assert ended.exit_code == 0, ended.stderr
    assert "score = 5, in" in ended.stdout
    assert "the number to maximize" in ended.stdout
    assert kinds(case) == ["measurement"]
    plain = written(case)
    assert plain["metric"] == {"name": "score", "direction": "maximize", "regex": r"score: (\S+)"}
    assert plain["verify"] == [{"run": "sh judge.sh", "sees": "both"}]
    assert "[[verify]]" in (case.folder / "goalseek.toml").read_text()
    crosses = [line for line in case.run("doctor").stdout.splitlines() if line.startswith("✗")]
    assert len(crosses) == 1 and "candidate code runs beside the hidden files" in crosses[0]
    assert kinds(case) == ["measurement"] * 2, "init's number is one of the two"
    assert case.run("baseline").exit_code == 0
    assert kinds(case) == [*["measurement"] * 2, "run", "iteration"]
    assert case.count() == 0, "nothing is written outside of the sandbox"
    (case.folder / "answer.txt").write_text("6\n")
    case.commit()
    assert "score = 6, in" in case.check("-m", "fast", "init", *FLAGS), "HEAD's number, not that of the climb"


def test_quick_doctor_and_a_climb_follow_at_once(case: Case) -> None:
    (case.folder / "answer.txt").write_text("5  # goalseek: int 1..9\n")
    case.write(judge_sh='read value rest < answer.txt; echo "score: $value"\n')
    case.commit()
    assert case.run("init", *FLAGS, "--provider", "tune").exit_code == 0
    quick = case.run("doctor", "--quick")
    assert "!" not in [line[0] for line in quick.stdout.splitlines() if " provider " in line]


@pytest.mark.parametrize(
    ("judge", "told"),
    [
        ("echo there is cheese in the disk >&2; exit 3", "there is cheese in the disk"),
        ("echo nothing to read here", "nothing to read here"),
    ],
)
def test_without_a_number_nothing_is_written(case: Case, judge: str, told: str) -> None:
    case.write(judge_sh=judge + "\n")
    case.commit()
    before = case.git("status", "--porcelain", "--ignored")
    ended = case.run("init", *FLAGS)
    assert ended.exit_code == 1
    assert told in ended.stderr
    assert case.git("status", "--porcelain", "--ignored") == before
    assert case.traces() == []


def test_an_answer_that_is_wrong_or_missing_is_refused_by_its_flag_and_nothing_is_asked(case: Case) -> None:
    for flags, told in (
        (("--writable", "nope.txt"), "nope.txt"),
        (("--regex", "score: (.*"), "does not compile"),
        (("--regex", "score"), "groups"),
        (("--provider", "command"), "provider.command"),
        (("--provider", "nobody"), "nobody"),
        (("--name", "No Name"), "name"),
    ):
        given = dict(zip(FLAGS[::2], FLAGS[1::2], strict=True)) | {flags[0]: flags[1]}
        ended = case.run("init", *(word for pair in given.items() for word in pair))
        assert ended.exit_code == 2 and told in ended.stderr
        assert "goalseek.toml:" not in ended.stderr, "there is no such file whose line could be looked at"
    ended = case.run("init", "--writable", "answer.txt")
    assert ended.exit_code == 2 and "--writable" not in ended.stderr.splitlines()[0]
    assert not [flag for flag in ("--run", "--direction", "--query", "--regex") if flag not in ended.stderr]
    assert case.traces() == []
    assert not (case.folder / "goalseek.toml").exists()


def test_a_manifest_that_is_there_stays_and_another_is_made_beside_it(case: Case) -> None:
    case.write(goalseek_toml="mine\n")
    ended = case.run("init", *FLAGS)
    assert ended.exit_code == 2
    assert "already" in ended.stderr
    assert (case.folder / "goalseek.toml").read_text() == "mine\n"
    ended = case.run("-m", "fast", "init", *FLAGS)
    assert ended.exit_code == 0, ended.stderr
    assert (case.folder / "goalseek.fast.toml").exists()


def test_without_a_repository_or_a_commit(case: Case, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert case.run("init", *FLAGS, folder=tmp_path / "empty").exit_code == 3
    case.git("init", "--quiet", folder=tmp_path / "empty")
    assert case.run("init", *FLAGS, folder=tmp_path / "empty").exit_code == 3
    assert [path.name for path in (tmp_path / "empty").iterdir()] == [".git"]


def test_the_metric_as_a_sentence_and_a_query(case: Case) -> None:
    case.write(judge_sh='read value < answer.txt; echo "{\\"test\\": $value}" > $GOALSEEK_RUN_DIR/metrics.json\n')
    case.commit()
    words = ("--writable", "answer.txt", "--run", "sh judge.sh", "--metric")
    ended = case.run("--json", "init", *words, "minimize test")
    assert ended.exit_code == 0, ended.stderr
    assert json.loads(ended.stdout)["value"] == 5
    assert written(case)["metric"] == {"direction": "minimize", "query": "test"}
    (case.folder / "goalseek.toml").unlink()
    assert case.run("init", *words, "points", "--direction", "maximize", "--query", "test").exit_code == 0
    assert written(case)["metric"] == {"name": "points", "direction": "maximize", "query": "test"}


def test_yes_takes_what_is_found_by_looking(case: Case) -> None:
    case.git("mv", "answer.txt", "solution.txt")
    case.git("mv", "judge.sh", "judge_it.sh")
    (case.folder / "judge_it.sh").write_text(
        'echo "accuracy: {no format}" > /dev/null\necho accuracy: $(cat solution.txt)\n'
    )
    case.commit()
    ended = case.run("init", "--yes")
    assert ended.exit_code == 0, ended.stderr
    plain = written(case)
    assert plain["project"]["name"] == "repository"
    assert plain["scope"] == {"writable": ["solution.txt"], "hidden": ["judge_it.sh"]}
    assert plain["verify"][0]["run"] == "sh judge_it.sh"
    assert plain["metric"]["direction"] == "maximize"


def test_it_asks_at_a_terminal(case: Case) -> None:
    (case.folder / "moves.toml").write_text('[[move]]\ntitle = "six"\nfiles = { "answer.txt" = "6\\n" }\n')
    (case.folder / "a note, too.txt").write_text("for a later try\n")
    case.commit()
    terminal = Shown(case.folder, "init", "--provider", "scripted")
    answers = (
        ("1/5", "my-name"),
        ("2/5", "nope.txt"),
        ("2/5", 'answer.txt "a note, too.txt"'),
        ("3/5", ""),
        ("4/5", "sh judge.sh"),
        ("5/5", "the number, please"),
        ("5/5", r"maximize /score: (\S+)/"),
    )
    for question, reply in answers:
        terminal.hear(question)
        terminal.hear(": ")
        terminal.type(f"{reply}\n")
    seen = terminal.hear("next:")
    terminal.hear("\n")
    assert terminal.ended() == 0
    assert "score = 5, in" in seen
    plain = written(case)
    assert plain["project"] == {"name": "my-name"}
    assert plain["scope"] == {"writable": ["answer.txt", "a note, too.txt"], "hidden": ["judge.sh"]}
    assert plain["provider"] == {"name": "scripted"}


def test_what_looking_around_finds() -> None:
    texts = {"score.py": 'parser.add_argument("--output")\nmetrics = {"loss": 1}\n'}
    paths = ["README.md", "score.py", "src/a.py", "tests/test_a.py", "train.py"]
    found = guess_answers("My Project!", paths, lambda path: texts.get(path, ""))
    assert found.name == "my-project"
    assert found.writable == ("train.py",)
    assert found.hidden == ("score.py", "tests/**")
    assert found.run == 'python score.py --output "$GOALSEEK_RUN_DIR/metrics.json"'
    assert found.reading == "minimize loss"
    found = guess_answers("...", [], lambda path: "")
    assert (found.name, found.writable, found.hidden, found.run, found.reading) == ("project", (), (), "", "")
