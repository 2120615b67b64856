"""``goalseek init``: from flags, by looking, and by asking at a terminal."""

import json
import os
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from doctor_cases import Case, make_case
from shown import Shown

from goalseek.doctor.first_manifest import (
    Answers,
    check_manifest,
    guess_answers,
    guess_cases,
    manifest_table,
    with_own_python,
)

FLAGS = (
    *("--writable", "answer.txt", "--hidden", "judge.sh", "--score", "sh judge.sh"),
    *("--metric", r"maximize /score: (\S+)/"),
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


def judge(case: Case, script: str) -> None:
    case.write(judge_sh=script)
    case.commit()


def edit(case: Case, old: str, new: str, name: str = "goalseek.toml") -> None:
    path = case.folder / name
    assert path.read_text().count(old) == 1
    path.write_text(path.read_text().replace(old, new))


def kinds(case: Case) -> list[str]:
    (path,) = case.folder.glob(".goalseek/*/logs/results.jsonl")
    return [json.loads(line)["kind"] for line in path.read_text().splitlines()]


def test_the_number_is_shown_and_the_manifest_passes_doctor(case: Case) -> None:
    shown = case.check("init", *FLAGS)
    assert "score = 5, in" in shown and "note: " not in shown
    assert "the number to maximize" in shown
    assert "next: git add goalseek.toml && git commit -m 'Something to climb', then goalseek doctor" in shown
    proposer = tomllib.loads(shown[shown.index("[provider]") :])["provider"]
    assert proposer["name"] == "command" and proposer["command"]
    assert kinds(case) == ["measurement"]
    plain = written(case)
    assert plain["metric"] == {"name": "score", "direction": "maximize", "regex": r"score: (\S+)"}
    assert plain["verify"] == [
        {"name": "run", "run": "true", "outputs": ["answer.txt"]},
        {"name": "score", "run": "sh judge.sh", "sees": "hidden"},
    ]
    assert "[[verify]]" in (case.folder / "goalseek.toml").read_text()
    examined = case.run("doctor")
    assert examined.exit_code == 0, examined.stdout
    assert kinds(case) == ["measurement"] * 2, "init's number is one of the two"
    case.check("baseline")
    assert kinds(case) == [*["measurement"] * 2, "run", "iteration"]
    assert case.count() == 0, "nothing is written outside of the sandbox"
    (case.folder / "answer.txt").write_text("6\n")
    case.commit()
    assert "score = 6, in" in case.check("-m", "fast", "init", *FLAGS), "HEAD's number, not that of the climb"


def test_uncommitted_changes_are_named_and_not_measured(case: Case) -> None:
    (case.folder / "answer.txt").write_text("7\n")
    case.write(judge_sh="exit 1\n")
    ended = case.run("init", *FLAGS)
    assert ended.exit_code == 0 and "score = 5, in" in ended.stdout, ended.stderr
    assert "judge.sh, answer.txt have uncommitted changes: the baseline is that of HEAD" in ended.stderr


def test_a_file_named_without_a_folder_is_that_one_alone_and_doctor_lists_the_few_that_match(case: Case) -> None:
    case.write(**{"unity/answer.txt": "9\n"})
    case.commit()
    case.check("init", *FLAGS)
    assert written(case)["scope"]["writable"] == ["/answer.txt"]
    assert "1 writable file (answer.txt), 1 hidden file (judge.sh)" in case.run("doctor", "--quick").stdout
    manifest = case.folder / "goalseek.toml"
    manifest.write_text(manifest.read_text().replace("/answer.txt", "answer.txt"))
    assert "2 writable files (answer.txt, unity/answer.txt)" in case.run("doctor", "--quick").stdout


def test_quick_doctor_and_a_climb_follow_at_once(case: Case) -> None:
    judge(case, 'read value rest < answer.txt; echo "score: $value"\n')
    (case.folder / "answer.txt").write_text("5  # goalseek: int 1..9\n")
    said = "next: git add goalseek.toml answer.txt && git commit -m 'Something to climb', then goalseek doctor"
    assert f"{said}, then goalseek iterate --provider tune" in case.check("init", *FLAGS)
    (case.folder / "goalseek.toml").unlink()
    case.commit()
    case.check("init", *FLAGS, "--provider", "tune")
    quick = case.run("doctor", "--quick")
    assert quick.exit_code == 0, quick.stdout
    assert "!" not in [line[0] for line in quick.stdout.splitlines() if " provider " in line]


def test_without_a_number_the_manifest_is_left_with_the_reason_and_init_goes_on_from_it(case: Case) -> None:
    judge(case, "echo there is cheese in the disk >&2; exit 3\n")
    before = case.git("status", "--porcelain", "--ignored")
    ended = case.run("init", *FLAGS)
    assert ended.exit_code == 1
    left = f"{case.folder / 'goalseek.toml'} is written; a comment in it says what is wrong"
    assert "there is cheese in the disk" in ended.stderr and left in ended.stderr
    assert case.git("status", "--porcelain", "--ignored") == f"{before}\n?? goalseek.toml".strip()
    assert case.traces() == []
    text = (case.folder / "goalseek.toml").read_text()
    assert "there is cheese in the disk" in text and "#   What to do: " in text
    assert written(case)["metric"]["regex"] == r"score: (\S+)"
    judge(case, "echo nothing to read here; printf '\\033[1m \\001\\r'\n")
    ended = case.run("init")
    assert ended.exit_code == 1 and "nothing to read here" in ended.stderr, "it measures by the answers that are there"
    judge(case, "cat answer.txt\n")
    case.check("init", "--metric", r"maximize score /(\d+)/")
    assert written(case)["metric"] == {"direction": "maximize", "regex": r"(\d+)", "name": "score"}
    assert "#   What to do: " not in (case.folder / "goalseek.toml").read_text()
    assert case.run("init").exit_code == 2, "it has its number, and is the user's from now on"


def test_what_a_user_added_to_a_manifest_without_a_number_stays(case: Case) -> None:
    judge(case, "exit 1\n")
    assert case.run("init", *FLAGS).exit_code == 1
    manifest = case.folder / "goalseek.toml"
    tables = '[log]\nbranch_prefix = "climbs"\n[provider]\nname = "command"\ncommand = ["true"]\n'
    manifest.write_text(manifest.read_text() + "timeout = 5\n" + tables)
    assert case.run("init").exit_code == 1, "it is measured again as it stands"
    judge(case, "echo score: 4; cat answer.txt\n")
    case.check("init", "--metric", r"maximize /^(\d+)/")
    plain = written(case)
    assert plain["metric"]["regex"] == r"^(\d+)"
    assert plain["log"] == {"branch_prefix": "climbs"}
    assert plain["provider"] == {"name": "command", "command": ["true"]}
    assert [command.get("timeout") for command in plain["verify"]] == [None, 5]


def test_an_answer_that_is_wrong_or_missing_is_refused_by_its_flag_and_nothing_is_asked(case: Case) -> None:
    for flags, told in (
        (("--writable", "nope.txt"), "nope.txt"),
        (("--metric", "maximize /score: (.*/"), "does not compile"),
        (("--metric", "maximize /score/"), "groups"),
        (("--provider", "command"), "provider.command"),
        (("--provider", "nobody"), "nobody"),
        (("--run", "sh judge.sh"), "--score"),
    ):
        given = dict(zip(FLAGS[::2], FLAGS[1::2], strict=True)) | {flags[0]: flags[1]}
        ended = case.run("init", *(word for pair in given.items() for word in pair))
        assert ended.exit_code == 2 and told in ended.stderr
        assert "goalseek.toml:" not in ended.stderr, "there is no such file whose line could be looked at"
    ended = case.run("init", "--writable", "answer.txt")
    assert ended.exit_code == 2 and "--writable" not in ended.stderr.splitlines()[0]
    assert not [flag for flag in ("--run", "--score", "--metric") if flag not in ended.stderr]
    assert case.traces() == []
    assert not (case.folder / "goalseek.toml").exists()


def test_a_manifest_that_is_there_stays_and_another_is_made_beside_it(case: Case) -> None:
    case.write(goalseek_toml="mine\n")
    assert "already" in case.fail(2, "init", *FLAGS)
    assert (case.folder / "goalseek.toml").read_text() == "mine\n"
    case.check("-m", "fast", "init", *FLAGS)
    assert (case.folder / "goalseek.fast.toml").exists()


def test_without_a_repository_or_a_commit(case: Case, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert case.run("init", *FLAGS, folder=tmp_path / "empty").exit_code == 3
    case.git("init", "--quiet", folder=tmp_path / "empty")
    assert case.run("init", *FLAGS, folder=tmp_path / "empty").exit_code == 3
    assert [path.name for path in (tmp_path / "empty").iterdir()] == [".git"]


def test_the_metric_as_a_sentence_and_a_query(case: Case) -> None:
    case.check("init", *FLAGS[:6], "--metric", r"minimise marks /score: (\S+)/")
    assert written(case)["metric"] == {"name": "marks", "direction": "minimize", "regex": r"score: (\S+)"}
    (case.folder / "goalseek.toml").unlink()
    judge(case, 'read value < answer.txt; echo "{\\"test\\": $value}" > $GOALSEEK_RUN_DIR/metrics.json\n')
    words = ("--writable", "answer.txt", "--run", "sh judge.sh", "--metric")
    shown = case.check("--json", "init", *words, "minimise test")
    assert json.loads(shown)["value"] == 5
    assert written(case)["metric"] == {"direction": "minimize", "query": "test"}
    (case.folder / "goalseek.toml").unlink()
    case.check("init", *words, "maximise points", "--query", "test")
    assert written(case)["metric"] == {"name": "points", "direction": "maximize", "query": "test"}


def test_a_score_that_the_candidate_prints_itself_is_said_and_named_by_its_word(case: Case) -> None:
    (case.folder / "train.sh").write_text("echo 'accuracy 0.9'\n")
    case.commit()
    words = ("--writable", "train.sh", "--run", "sh train.sh")
    shown = case.check("init", *words, "--metric", "maximize /accuracy ([0-9.]+)/")
    (note,) = [line for line in shown.splitlines() if line.startswith("note: ")]
    assert note.startswith("note: run prints its own score: self-reported; read the number from a command that sees")
    assert note.partition("; ")[0].removeprefix("note: ") in case.run("doctor", "--quick").stdout
    assert written(case)["metric"]["name"] == "accuracy" and "accuracy = 0.9, in" in shown


@pytest.mark.parametrize(
    ("regex", "name"),
    [
        (r"accuracy ([0-9.]+)", "accuracy"),
        (r"test accuracy:\s+(\S+)", "accuracy"),
        (r"loss = (\S+) after", "loss"),
        (r"epoch (?:\d+) loss\s*=\s*(\S+)", "loss"),
        (r"loss: .*?(\d+)", "loss"),
        (r"\bscore\s(\d+)", None),
        (r"(\d+)", None),
        (r"in 3 (\d+)", None),
    ],
)
def test_the_metric_has_the_name_of_the_word_before_the_group(regex: str, name: str | None) -> None:
    answers = Answers("demo", ("a.py",), run="python a.py", direction="maximize", regex=regex)
    assert manifest_table(answers)["metric"].get("name") == name


def test_a_script_that_scores_in_the_hidden_folder_is_the_default_and_hints_fit_the_question(case: Case) -> None:
    case.git("mv", "answer.txt", "solution.txt")
    case.git("rm", "--quiet", "judge.sh")
    case.write(**{"hidden/score.sh": "echo accuracy: $(cat solution.txt)\n"})
    case.commit()
    guess = guess_answers(case.folder, ["solution.txt", "hidden/score.sh", "hidden/labels.csv"])
    assert (guess.score, guess.hidden) == ("sh hidden/score.sh", ("hidden/**",))
    with Shown(case.folder, "init") as terminal:
        talk(
            terminal,
            """
            name of the project → demo
            files or globs that may change → ,
            name at least one; for example: experiment.py src/**
            files or globs that may change →
            globs hidden from the agent → ,
            name at least one; for example: score.py labels/**
            globs hidden from the agent →
            command that builds or runs the candidate → none
            [sh hidden/score.sh]:
            """,
        )


def test_yes_takes_what_is_found_by_looking(case: Case) -> None:
    case.git("mv", "answer.txt", "solution.txt")
    case.git("mv", "judge.sh", "judge_it.sh")
    script = 'echo "accuracy: {no format}" > /dev/null\necho accuracy: $(cat solution.txt)\n'
    (case.folder / "judge_it.sh").write_text(script)
    case.commit()
    case.check("init", "--yes")
    plain = written(case)
    assert plain["project"]["name"] == "repository"
    assert plain["scope"] == {"writable": ["/solution.txt"], "hidden": ["judge_it.sh"]}
    assert [command["run"] for command in plain["verify"]] == ["true", "sh judge_it.sh"]
    assert plain["metric"]["direction"] == "maximize"


def test_it_asks_at_a_terminal_and_again_only_for_an_answer_that_is_wrong(case: Case) -> None:
    (case.folder / "moves.toml").write_text('[[move]]\ntitle = "six"\nfiles = { "answer.txt" = "6\\n" }\n')
    (case.folder / "a note, too.txt").write_text("for a later try\n")
    judge(case, 'read value < guess.txt; echo "score: $value"\n')
    with Shown(case.folder, "init", "--provider", "scripted", columns=200) as terminal:
        talk(
            terminal,
            r"""
            name of the project → my-name
            files or globs that may change → nope.txt
            files or globs that may change → answer.txt "a note, too.txt"
            globs hidden from the agent →
            command that builds or runs the candidate → ./none.sh
            command that builds or runs the candidate → sh rout.sh
            rout.sh does not exist
            command that builds or runs the candidate → sh judge.sh
            Run it beside them? yes or no → no
            command that builds or runs the candidate → cp answer.txt guess.txt
            command that scores its output → forecast.csv
            forecast.csv is neither a program on PATH nor a file
            command that scores its output → sh gold/mark.sh >&2
            gold/mark.sh does not exist
            command that scores its output → sh judge.sh
            leaves for the next → maximize /x/
            'maximize /x/' names
            leaves for the next → guess.csv
            how to read the number → the number, please
            how to read the number → maximize /score: (\S+/
            how to read the number → maximize /points: (\S+)/
            left no output guess.csv
            leaves for the next → guess.txt
            score: 5
            how to read the number → maximise marks /score: (\S+)/
            program.md →
            marks = 5, in
            next:
            git add goalseek.toml program.md && git commit
            """,
        )
        terminal.hear("\n")
        assert terminal.ended() == 0
    plain = written(case)
    assert plain["metric"] == {"name": "marks", "direction": "maximize", "regex": r"score: (\S+)"}
    assert (plain["project"], plain["provider"]) == ({"name": "my-name"}, {"name": "scripted"})
    writable = ["/answer.txt", "/a note, too.txt"]
    assert plain["scope"] == {"writable": writable, "generated": ["guess.txt"], "hidden": ["judge.sh"]}
    assert plain["verify"] == [
        {"name": "run", "run": "cp answer.txt guess.txt", "outputs": ["guess.txt"]},
        {"name": "score", "run": "sh judge.sh", "sees": "hidden"},
    ]
    page = (case.folder / "program.md").read_text()
    assert page.startswith("# ") and len([line for line in page.splitlines() if line.startswith("# ")]) > 3


def talk(terminal: Shown, dialogue: str) -> None:
    """Waits for the text of each line; where it is ``question → answer``, then types the answer."""
    for line in textwrap.dedent(dialogue).strip().split("\n"):
        question, arrow, reply = line.partition(" →")
        terminal.hear(question)
        if arrow:
            terminal.hear(": ")
            terminal.type(f"{reply.strip()}\n")


def interview(case: Case, flags: Sequence[str], dialogue: str) -> None:
    """Runs ``init`` at a terminal to its end, takes the name that it proposes, and no ``program.md``."""
    with Shown(case.folder, "init", *flags, columns=200) as terminal:
        talk(terminal, f"name of the project →\n{textwrap.dedent(dialogue).strip()}\nprogram.md → no\nnext:")
        terminal.hear("\n")
        assert terminal.ended() == 0


def test_what_scores_is_asked_again_where_nothing_does_and_there_is_no_number(case: Case) -> None:
    interview(
        case,
        (*FLAGS[:4], *FLAGS[6:]),
        """
        command that builds or runs the candidate → cp answer.txt guess.txt
        command that scores its output → none
        Answer again
        command that scores its output →
        enter a command; for example: python score.py
        command that scores its output → cat guess.txt; echo score: 7
        leaves for → guess.txt
        how to read the number →
        """,
    )
    assert [command["name"] for command in written(case)["verify"]] == ["run", "score"]


def test_a_folder_that_git_ignores_is_offered_to_be_shared(case: Case) -> None:
    (case.folder / ".gitignore").write_text("data/\n")
    case.commit()
    case.write(**{"data/plus.txt": "2\n"})
    run = 'cat answer.txt data/plus.txt > guess.txt && read value < guess.txt && echo "score: $value"'
    flags = (*FLAGS[:2], *FLAGS[6:], "--run", run)
    ended = case.run("init", *flags)
    assert ended.exit_code == 1 and "`data/` is ignored by git and so not in the trees" in ended.stderr
    (case.folder / "data/labels.csv").touch()
    edit(case, "[metric]", 'share = ["data"]\n\n[metric]')
    ended = case.run("init")
    assert ended.exit_code == 0, ended.stderr
    assert "note: candidate code can read data/labels.csv, and the name says that answers are in it" in ended.stderr
    assert written(case)["scope"] == {"writable": ["/answer.txt"], "share": ["data"]}
    (case.folder / "goalseek.toml").unlink()
    interview(
        case, flags, "globs hidden from the agent → judge.sh\ncommand that scores its output → none\nand git ignores →"
    )
    assert written(case)["scope"]["share"] == ["data"]
    assert not (case.folder / "program.md").exists()


def test_a_scorer_that_nothing_hides_is_offered_to_be_hidden(case: Case) -> None:
    (case.folder / "eval").mkdir()
    case.git("mv", "judge.sh", "eval/judge.sh")
    case.commit()
    words = (*FLAGS[:2], *FLAGS[6:], "--score", "sh eval/judge.sh")
    ended = case.run("init", *words)
    assert ended.exit_code == 0, ended.stderr
    said = "score: the agent and its code can read eval/judge.sh, which scores"
    assert f"note: {said}; name it in scope.hidden" in ended.stderr
    assert said in case.run("status").stdout
    assert f"note: {said}" in case.run("iterate", "--provider", "tune").stderr
    assert [line[0] for line in case.run("doctor", "--quick").stdout.splitlines() if said in line] == ["!"]
    (case.folder / "goalseek.toml").unlink()
    case.write(key_txt="1\n")
    case.commit()
    interview(
        case,
        (*words, "--run", "none"),
        """
        globs hidden from the agent → key.txt
        eval/judge.sh scores, and is not hidden: hide eval/**?
        globs hidden from the agent →
        """,
    )
    assert written(case)["scope"]["hidden"] == ["key.txt", "eval/**"]
    assert said not in case.run("doctor", "--quick").stdout


def test_a_name_that_another_folder_has_is_said_at_the_first_question(case: Case) -> None:
    case.check("init", *FLAGS)
    service = case.folder / case.folder.name
    service.mkdir()
    (service / "rank.txt").write_text("1\n")
    case.commit()
    words = ("--writable", "rank.txt", *FLAGS[6:], "--run", "echo score: 3")
    ended = case.run("init", *words, folder=service)
    assert ended.exit_code == 2 and "give this manifest another project.name" in ended.stderr
    edit(case, 'name = "repository"', 'name = "rank"', "repository/goalseek.toml")
    assert case.run("init", folder=service).exit_code == 0, "it is named in what init left"
    (service / "goalseek.toml").unlink()
    with Shown(service, "init", columns=300) as terminal:
        taken = f"{case.folder}/goalseek.toml exists already, with the name 'repository'"
        talk(
            terminal,
            f"name of the project → repository\n{taken}\nname of the project → billing\nfiles or globs that may change",
        )
    (case.folder / "goalseek.toml").rename(service / "goalseek.toml")
    seen = case.run("status", folder=service).stdout
    assert "nothing is measured yet\nnext: goalseek doctor" in seen and "audit" not in seen
    (service / "goalseek.toml").unlink()
    ended = case.run("init", *words, folder=service)
    assert ended.exit_code == 0 and "missing or torn" not in ended.stderr, ended.stderr


def test_tests_that_run_the_candidate_are_not_hidden_from_it(case: Case) -> None:
    (case.folder / "tests").mkdir()
    (case.folder / "tests/test_a.py").write_text("import unittest\n")
    (case.folder / "tests/helper.txt").write_text("1\n")
    case.commit()
    words, run = (*FLAGS[:2], *FLAGS[6:]), "python3 -m unittest discover -s tests && echo score: 5"
    ended = case.run("init", *words, "--run", run, "--hidden", "tests/**")
    assert ended.exit_code == 1 and "tests/** is hidden from this command: take it out of scope.hidden" in ended.stderr
    (case.folder / "goalseek.toml").unlink()
    case.check("init", "--yes", *words, "--run", run)
    assert written(case)["scope"] == {"writable": ["/answer.txt"], "hidden": ["judge.sh"]}
    (case.folder / "goalseek.toml").unlink()
    interview(
        case,
        (*words, "--score", "none"),
        f"""
        or none [judge.sh tests/**] → tests/**
        command that builds or runs the candidate → {run}
        tests/** is hidden from this command
        or none [none] →
        """,
    )
    assert written(case)["scope"] == {"writable": ["/answer.txt"]}


def test_a_number_that_is_printed_is_asked_for_in_the_form_of_an_answer(case: Case) -> None:
    judge(case, "echo MRR 0.5; cat answer.txt\n")
    ended = case.run("init", *FLAGS[:6], "--metric", "maximize MRR")
    form = r"maximize MRR /MRR\W+([0-9.]+)/"
    assert ended.exit_code == 1 and f"by the answer to the last question, or --metric: {form}\n" in ended.stderr
    assert "MRR = 0.5" in case.check("init", "--metric", form)


def test_none_is_an_answer_of_flags_too(case: Case) -> None:
    words = ("--writable", "answer.txt", "--hidden", "none", "--run", "sh judge.sh", "--score", "none")
    ended = case.run("init", *words, "--metric", "minimize log loss")
    assert ended.exit_code == 2 and "a name has no blanks; did you mean log_loss?" in ended.stderr
    case.check("init", *words, *FLAGS[6:])
    assert written(case)["scope"] == {"writable": ["/answer.txt"]}
    assert written(case)["verify"] == [{"name": "run", "run": "sh judge.sh"}]


def test_a_branch_that_is_in_the_way_is_said_before_the_first_question(case: Case) -> None:
    case.git("branch", "goalseek")
    ended = case.run("init", *FLAGS)
    assert ended.exit_code == 3
    assert '\n    [log]\n    branch_prefix = "climbs"\n' in ended.stderr, "as it can stand at the manifest's end"
    comment = (case.folder / "goalseek.toml").read_text()
    assert '\n#       [log]\n#       branch_prefix = "climbs"\n' in comment, "the remedy has its lines here too"
    (case.folder / "goalseek.toml").write_text(comment + '\n[log]\nbranch_prefix = "tries"\n')
    case.check("init")
    assert written(case)["log"] == {"branch_prefix": "tries"}
    (case.folder / "goalseek.toml").unlink()
    ended = case.run("init", "--yes", *FLAGS)
    assert ended.exit_code == 0, ended.stderr
    assert "'goalseek' is in the way" in ended.stderr and "branch begins with climbs" in ended.stderr
    assert written(case)["log"] == {"branch_prefix": "climbs"}
    (case.folder / "goalseek.toml").unlink()
    with Shown(case.folder, "init", *FLAGS) as terminal:
        talk(
            terminal,
            """
            'goalseek' is in the way
            prefix of goalseek's branch → no name
            prefix of goalseek's branch → goalseek
            prefix of goalseek's branch →
            name of the project →
            command that builds or runs the candidate → none
            program.md → no
            next:
            """,
        )
        terminal.hear("\n")
        assert terminal.ended() == 0
    assert written(case)["log"] == {"branch_prefix": "climbs"}


def test_an_interruption_before_the_measurement_leaves_nothing_and_a_later_one_the_answers(case: Case) -> None:
    def interrupt(flags: Sequence[str], dialogue: str, told: str) -> None:
        with Shown(case.folder, "init", *flags, columns=200) as terminal:
            talk(terminal, dialogue)
            terminal.type("\x03")
            talk(terminal, told)
            assert terminal.ended() == 130

    interrupt((), "name of the project → demo\nfiles or globs that may change", "interrupted; nothing was written")
    assert not (case.folder / "goalseek.toml").exists()
    judge(case, "echo score: 5; sleep 30\n")
    on = "the same command goes on from here"
    interrupt((*FLAGS, "--run", "none"), "name of the project → demo\nmeasuring once\nsandbox:", on)
    assert written(case)["scope"]["hidden"] == ["judge.sh"]
    judge(case, "echo nothing\n")
    interrupt((), "how to read the number", on)
    assert "nothing" in (case.folder / "goalseek.toml").read_text()
    judge(case, "echo score: 5; cat answer.txt\n")
    interrupt((), "program.md", "goalseek.toml is written\nnext: goalseek doctor")
    assert written(case)["metric"]["name"] == "score"
    assert case.run("init").exit_code == 2, "it is whole"


def test_why_a_file_is_not_committed_is_said(case: Case) -> None:
    (case.folder / ".gitignore").write_text("data/\n")
    case.commit()
    case.write(**dict.fromkeys(("data/labels.csv", "judge/labels.csv"), "1\n"))
    with Shown(case.folder, "init", *FLAGS[:2], *FLAGS[4:], "--run", "", columns=200) as terminal:
        talk(
            terminal,
            """
            name of the project →
            globs hidden from the agent → data/labels.csv
            git ignores it; commit it, or keep it outside the repository (goalseek help recipe-hidden)
            globs hidden from the agent → judge/**
            judge is not committed: git add judge && git commit, then answer again
            """,
        )
        case.commit()
        talk(terminal, "globs hidden from the agent → judge/** judge.sh\ncommand that builds or runs the candidate")
    assert case.run("init", *FLAGS, "--hidden", "data/labels.csv").stderr.count("git ignores it") == 1
    case.write(**{"service/rank.txt": "1\n"})
    case.commit()
    stderr = case.run("init", *FLAGS, "--hidden", "../judge/**", folder=case.folder / "service").stderr
    assert "'answer.txt' matches no committed file" in stderr, "the first wrong one"
    flags = ("--writable", "rank.txt", *FLAGS[4:], "--hidden", "../judge/**")
    stderr = case.run("init", *flags, folder=case.folder / "service").stderr
    assert "'../judge/**': paths cannot leave the manifest's folder" in stderr and "in the top folder" in stderr
    assert "not committed" not in stderr
    ended = case.run("init", *FLAGS, "--writable", "rank.txt", "--hidden", "labels.csv")
    assert ended.exit_code == 0, "without a slash it matches everywhere"
    (case.folder / "goalseek.toml").unlink()
    case.write(**{"service/search/rank.txt": "1\n"})
    case.commit()
    stderr = case.run("init", *FLAGS, "--writable", "search/rank.txt").stderr
    assert "'search/rank.txt' matches no committed file\n  did you mean service/search/rank.txt?\n" in stderr


def test_the_time_of_a_program_that_was_built_and_is_checked(case: Case) -> None:
    case.write(build_sh="mkdir -p bin && cp answer.txt bin/app\n", judge_sh='test "$(cat left.txt)" = 5\n')
    case.commit()
    timed = "sleep 0.2; cat bin/app > left.txt"
    unchecked = "nothing checks the output of the timed program: an empty program would win"
    assert unchecked in case.fail(1, "init", *FLAGS[:4], "--run", "sh build.sh", "--score", f"time {timed}")
    edit(case, "once = true", 'once = true\noutputs = ["bin/app"]')
    check = '\noutputs = ["left.txt"]\n\n[[verify]]\nname = "score"\nrun = "sh judge.sh"\nsees = "hidden"'
    edit(case, f'run = "{timed}"', f'run = "{timed}"{check}')
    ended = case.run("--json", "init")
    assert ended.exit_code == 0, ended.stderr
    plain = written(case)
    assert plain["metric"] == {"name": "run_time", "direction": "minimize", "source": "wall", "command": "timing"}
    assert plain["verify"] == [
        {"name": "run", "run": "sh build.sh", "outputs": ["bin/app"], "once": True},
        {"name": "timing", "run": timed, "outputs": ["left.txt"]},
        {"name": "score", "run": "sh judge.sh", "sees": "hidden"},
    ]
    assert 0.2 < json.loads(ended.stdout)["value"] < 5
    assert unchecked not in ended.stderr


def test_a_program_is_timed_on_hidden_input(case: Case) -> None:
    case.write(build_sh="printf 'sleep 0.1; cat\n' > app; chmod +x app\n", **{"hidden/input.txt": "7\n"})
    case.commit()
    words = ("--writable", "build.sh", "--hidden", "hidden/**", "--run", "sh build.sh")
    ended = case.run("init", *words, "--score", "time sh app < hidden/input.txt")
    assert ended.exit_code == 2 and "no outputs are named, so sh app < hidden/input.txt gets no file" in ended.stderr
    edit(case, "once = true", 'once = true\noutputs = ["app"]')
    case.check("init")
    (case.folder / "goalseek.toml").unlink()
    case.check("init", *words, "--score", "time ./app < hidden/input.txt")
    assert written(case)["verify"] == [
        {"name": "run", "run": "sh build.sh", "outputs": ["app"], "once": True},
        {"name": "timing", "run": "./app < hidden/input.txt", "sees": "hidden"},
    ]


def test_a_time_that_is_asked_for_as_a_metric_is_offered_as_one(case: Case) -> None:
    case.write(build_sh="printf 'cat\n' > app; chmod +x app\n", **{"hidden/input.txt": "7\n"})
    case.commit()
    interview(
        case,
        ("--writable", "build.sh", "--hidden", "hidden/**"),
        """
        command that builds or runs the candidate → sh build.sh
        command that scores its output → ./app < hidden/input.txt > app.out
        globs of the files that the first command leaves for the next [app] →
        how to read the number → minimize time
        did you mean: time ./app < hidden/input.txt > app.out
        command that scores its output →
        command that checks the output of the timed one → cmp app.out hidden/input.txt
        globs of the files that the timed command leaves for the check [app.out] →
        """,
    )
    assert [command.get("outputs") for command in written(case)["verify"]] == [["app"], ["app.out"], None]
    assert written(case)["metric"]["source"] == "wall"


def test_what_a_run_may_read_beside_the_hidden_files_is_said_by_the_user(case: Case) -> None:
    interview(
        case,
        (*FLAGS[:4], *FLAGS[6:]),
        """
        command that builds or runs the candidate → sh judge.sh
        Run it beside them? yes or no → yes
        command that scores its output → none
        candidate code can read the hidden files
        """,
    )
    assert written(case)["verify"] == [{"name": "run", "run": "sh judge.sh", "sees": "both"}]


def test_the_project_s_interpreter_is_proposed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text('open("guesses.csv", "w")\n')
    (tmp_path / "score.py").write_text('open("guesses.csv")\n')
    paths = ["train.py", "score.py"]
    assert guess_answers(tmp_path, paths).run == "python3 train.py"
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.touch()
    guess = guess_answers(tmp_path, paths)
    assert (guess.run, guess.score) == (".venv/bin/python train.py", ".venv/bin/python score.py")
    assert guess.share == (".venv",)
    assert with_own_python("sh run.sh", tmp_path) == "sh run.sh"
    assert with_own_python("python3 train.py", tmp_path) == "python3 train.py", "there is one on PATH"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert with_own_python("python3 train.py", tmp_path) == ".venv/bin/python train.py"
    assert with_own_python("python3", tmp_path) == ".venv/bin/python"
    assert with_own_python("python train.py", tmp_path / "elsewhere") == "python train.py"


def test_scripts_that_nobody_may_read_count_as_empty(case: Case) -> None:
    case.write(judge_sh='read value rest < answer.txt; echo "loss: $value"\n', solution_sh="# loss: {\n")
    case.commit()
    as_anybody = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
    for name in ("judge.sh", "solution.sh", "answer.txt"):
        (case.folder / name).chmod(0)
    flags = ("--writable", "solution.sh", "--run", "sh judge.sh", "--metric", "minimize /loss: (.*)/")
    command = [*as_anybody, sys.executable, "-m", "goalseek", "init", "--yes", *flags, "--hidden", "none"]
    ended = subprocess.run(command, cwd=case.folder, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert "loss = 5, in" in ended.stdout


def test_what_looking_around_finds(tmp_path: Path) -> None:
    folder = tmp_path / "My Project!"
    folder.mkdir()
    (folder / "score.py").write_text('parser.add_argument("--output")\nmetrics = {"loss": 1}\nopen("out/guess.csv")')
    (folder / "train.py").write_text('open("data.csv")\nopen("out/guess.csv", "w")\n')
    paths = ["README.md", "data.csv", "score.py", "src/a.py", "tests/test_a.py", "train.py"]
    guess = guess_answers(folder, paths)
    assert guess.name == "my-project"
    assert guess.writable == ("train.py",)
    assert guess.hidden == ("score.py", "tests/**")
    assert guess.run.split()[1:] == ["train.py"] and guess.outputs == ("out/guess.csv",)
    assert guess.score.split(" ", 1)[1] == 'score.py --output "$GOALSEEK_RUN_DIR/metrics.json"'
    assert (guess.direction, guess.query) == ("minimize", "loss")
    (folder / "score.py").write_text("import train\nprint(f'accuracy: {train.accuracy()}')\n")
    guess = guess_answers(folder, paths)
    assert guess.run.split()[1:] == ["score.py"] and not guess.score, "it runs the candidate: where no hidden file is"
    assert guess.hidden == ("tests/**",)
    assert guess_answers(tmp_path / "...", []) == Answers("project")
    guess = guess_answers(folder, ["prompt.txt", "score.py"])
    assert (guess.writable, guess.outputs) == (("prompt.txt",), ()), "no command leaves what may change"


ROWS = [{"id": f"case-{number}", "score": number % 4 / 2, "seconds": 3} for number in range(12)]
TESTS = {f"case-{number}": number < 3 for number in range(9)}


def renamed(**names: str) -> list[dict[str, Any]]:
    return [{name: row[old] for name, old in names.items()} for row in ROWS]


@pytest.mark.parametrize(
    ("document", "number", "cases", "query"),
    [
        ({"results": ROWS}, None, "results[*].{id: id, score: score}", ""),
        ({"accuracy": 0.75, "results": ROWS}, 0.75, "results[*].{id: id, score: score}", "accuracy"),
        ({"points": 9, "results": ROWS}, 9, "results[*].{id: id, score: score}", ""),
        ({"seconds": 3, "results": ROWS}, 3, "results[*].{id: id, score: seconds}", "accuracy"),
        (ROWS, None, "[*].{id: id, score: score}", ""),
        (TESTS, None, "@", ""),
        ({"accuracy": 0.333, "by test": TESTS}, 0.333, '"by test"', ""),
        ({"tests": renamed(passed="score", name="id")}, None, "tests[*].{id: name, score: passed}", ""),
        ({"x": renamed(speed="score", question="id")}, 0.75, "x[*].{id: question, score: speed}", "accuracy"),
        (
            {"run": {"all": [{"id": 7 * i, "of": {"score": i}} for i in range(9)]}},
            None,
            "run.all[*].{id: id, score: of.score}",
            "",
        ),
        ({"results": [*ROWS, {"id": "late", "score": None}]}, None, "results[*].{id: id, score: score}", ""),
        ({"accuracy": 0.4, "results": ROWS}, 0.4, None, None),
        ({"x": renamed(speed="score", question="id")}, None, None, None),
        ({"results": ROWS[:7]}, None, None, None),
        ({"results": [*ROWS, ROWS[0]]}, None, None, None),
        ({"results": [*ROWS, {"id": "odd", "score": "high"}]}, None, None, None),
        ({"results": renamed(score="score")}, 0.75, None, None),
        ({f"metric-{number}": number for number in range(9)}, None, None, None),
        ([], None, None, None),
    ],
)
def test_cases_are_found_in_a_metrics_file(
    document: Any, number: float | None, cases: str | None, query: str | None, tmp_path: Path
) -> None:
    answers = Answers("demo", ("a.py",), run="python a.py", direction="maximize", query="accuracy")
    (tmp_path / "measurements/1").mkdir(parents=True)
    (tmp_path / "measurements/1/metrics.json").write_text(json.dumps(document))
    found = guess_cases(check_manifest(tmp_path / "goalseek.toml", answers).manifest, tmp_path, number)
    assert (found.get("cases"), found.get("query")) == (cases, query)


def scores(case: Case, printed: bool = False, **more: Any) -> None:
    """A judge that scores twelve cases: as many are right as answer.txt says."""
    target = "sys.stdout" if printed else 'open(os.environ["GOALSEEK_RUN_DIR"] + "/metrics.json", "w")'
    case.write(
        judge_py="import json, os, sys\nright = int(open('answer.txt').read())\n"
        "rows = [{'name': f'case-{number}', 'passed': number < right} for number in range(12)]\n"
        f"json.dump({{'results': rows, 'share': right / 12, **{more}}}, {target})\n"
    )
    case.commit()


WITH_CASES = ("--writable", "answer.txt", "--hidden", "judge.py", "--score", "python3 judge.py", "--metric")


def test_cases_are_taken_by_yes_and_by_a_query_and_told_otherwise(case: Case) -> None:
    scores(case, other=3)
    cases = "results[*].{id: name, score: passed}"
    taken: list[tuple[Sequence[str], dict[str, Any], bool]] = [
        (("maximize share", "--yes"), {"query": "share", "cases": cases}, True),
        (("maximize passed", "--yes"), {"name": "passed", "cases": cases}, True),
        (("maximize share",), {"query": "share"}, True),
        (("maximize other", "--yes"), {"query": "other"}, False),
        (("maximize passes", "--query", cases), {"name": "passes", "cases": cases}, False),
        ((f"maximize {cases}",), {"name": "score", "cases": cases}, False),
    ]
    for words, metric, is_told in taken:
        ended = case.run("init", *WITH_CASES, *words)
        assert ended.exit_code == 0, ended.stderr
        assert written(case)["metric"] == {"direction": "maximize", **metric}
        assert (f'scores by case: cases = "{cases}"' in ended.stderr) == is_told
        (case.folder / "goalseek.toml").unlink()
    assert f"the mean of {cases}" in case.check("init", *WITH_CASES, "maximize share", "--yes")
    case.check("baseline")


def test_cases_are_offered_at_a_terminal_as_soon_as_they_are_seen(case: Case) -> None:
    scores(case)
    words, cases = (*WITH_CASES[:-1], "--run", "none"), "results[*].{id: name, score: passed}"
    offer = 'scores by case: cases = "results[*].{id: name, score: passed}"\ncompare candidates case by case?'
    interview(case, words, f"how to read the number → maximize share\n{offer} → no")
    assert written(case)["metric"] == {"direction": "maximize", "query": "share"}
    (case.folder / "goalseek.toml").unlink()
    interview(case, words, f"how to read the number → maximize share\n{offer} →")
    assert written(case)["metric"] == {"direction": "maximize", "query": "share", "cases": cases}
    (case.folder / "goalseek.toml").unlink()
    again = f"{offer} → no\nhas no 'pass'\nhow to read the number → maximize passes\n{offer} →\nmeasuring once"
    interview(case, words, f"how to read the number → maximize pass\n{again}")
    assert written(case)["metric"] == {"direction": "maximize", "name": "passes", "cases": cases}


def test_a_command_that_prints_cases_gets_a_file_for_them(case: Case) -> None:
    scores(case, printed=True)
    case.check("init", *WITH_CASES, r'maximize /share": ([0-9.]+)/', "--yes")
    metric = {"direction": "maximize", "name": "score", "cases": "results[*].{id: name, score: passed}"}
    assert written(case)["metric"] == {**metric, "name": "passed"}
    assert written(case)["verify"][-1]["run"] == 'python3 judge.py > "$GOALSEEK_RUN_DIR/metrics.json"'
    (case.folder / "goalseek.toml").unlink()
    judged = [*WITH_CASES[:5], "python3 judge.py | cat", "--metric", r'maximize /share": ([0-9.]+)/', "--yes"]
    assert "scores by case" not in case.run("init", *judged).stderr, "a pipe is left as it is"
