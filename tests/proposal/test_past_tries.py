"""What the agent may know of the past: how it crashed and flattened, and nothing that a hidden command printed."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace
from project import Project, Projects, home
from records import iteration

from goalseek.ledger.standing import CRASHED, Standing
from goalseek.manifest.tables import Guard, ScopeTable, VerifyCommand
from goalseek.phase_values import Ahead, PastIteration
from goalseek.proposal import past_tries
from goalseek.proposal.past_tries import common_ending, past_try, rank_rejected, read_history, share_room, visible_patch
from goalseek.values import CommandRun
from goalseek.workspace.scope import build_scope

SECRET = "row 7 is a cat"
TRAIN = VerifyCommand(run="python train.py", name="train", sees="candidate")
SCORE = VerifyCommand(run="python score.py", name="score", sees="hidden")
BOTH = replace(SCORE, sees="both")
LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=30)

NOTHING_ELSE: Any = (None, None)  # neither history nor repository


@pytest.mark.parametrize("reason", CRASHED)
@pytest.mark.parametrize("last", [SCORE, BOTH])
def test_the_sentence_of_a_hidden_commands_crash_is_not_told(reason: str, last: VerifyCommand) -> None:
    why = f"score ended with 3: {SECRET}"
    told = past_try(iteration(1, 1, "reverted", reason, why=why, verify=(CommandRun("score", 3, 1),)), (TRAIN, last))
    assert told.why and SECRET not in told.why and "score" not in told.why and told.reason == reason


def test_the_sentence_of_a_command_that_sees_the_candidate_and_every_other_sentence_are_told() -> None:
    why, runs = "train ended with 1: KeyError", (CommandRun("train", 1, 1),)
    record = iteration(1, 1, "reverted", "verify_failed", why=why, verify=runs)
    assert past_try(record, (TRAIN, SCORE)).why == why
    missing = structs.replace(record, reason="no_metric", why="accuracy: 'nan?' is not a number")
    assert past_try(missing, (TRAIN,)).why == missing.why
    assert past_try(missing, (TRAIN, SCORE)).why == "the measurement gave no metric"
    assert past_try(structs.replace(record, verify=()), (TRAIN, SCORE)).why == "the verifier failed"
    for source, command, is_told in (("stdout", "train", True), ("stdout", "score", False), ("json", "train", False)):
        guard = Guard(name="accuracy", source=source, command=command)
        assert (past_try(missing, (TRAIN, SCORE), (guard,)).why == missing.why) == is_told
    for reason in ("worse", "tie", "duplicate", "provider_failed", "out_of_scope", "better"):
        assert past_try(iteration(1, 1, "reverted", reason, why="so it is"), (SCORE,)).why == "so it is"


@given(st.lists(LINES, min_size=1, max_size=4), LINES, st.integers(1, 20), st.integers(1, 2048))
def test_a_common_ending_is_bounded(heads: list[list[str]], tail: list[str], most_lines: int, most_bytes: int) -> None:
    texts = ["\n".join([*head, *tail]) for head in heads]
    ending = common_ending(texts, 1000, 10**6)
    assert all(text.rstrip().endswith(ending) for text in texts)
    assert "\n".join(tail).strip("\n") in ending, "nothing that is common is missed"
    assert common_ending(texts) in (ending, "\n".join(ending.splitlines()[-20:]).strip("\n"))
    bounded = common_ending(texts, most_lines, most_bytes)
    assert ending.endswith(bounded)
    assert len(bounded.splitlines()) <= most_lines and len(bounded.encode("utf-8", "replace")) <= most_bytes


def test_spaces_at_the_ends_of_lines_make_no_difference_and_nothing_common_is_nothing() -> None:
    assert common_ending(["one\n  KeyError: 'x'  \n\n", "two\n  KeyError: 'x'"]) == "  KeyError: 'x'"
    assert common_ending(["a", "b"]) == common_ending([]) == ""


KEEPS_BRIEF = 'cp "$GOALSEEK_BRIEF" "$HOME/brief-$GOALSEEK_ITERATION"\n'
EDIT = 'printf \'{"score": 0, "n": %s}\' $GOALSEEK_ITERATION > answer.json\n'
CRASHES = """\
echo "loading iteration $GOALSEEK_ITERATION"
echo "Traceback (most recent call last):" >&2
echo "KeyError: 'rate'" >&2
exit 1
"""
FILES = {
    "answer.json": '{"score": 1}\n',
    "train.sh": CRASHES,
    "hidden/judge.sh": 'cp answer.json "$GOALSEEK_RUN_DIR/metrics.json"\n',
}
CRASHING = [
    {"name": "train", "run": "grep -q n answer.json || exit 0; sh train.sh; exit 1", "sees": "candidate"},
    {"name": "judge", "run": "sh hidden/judge.sh", "sees": "both"},
]


def brief(number: int) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(home(f"brief-{number}").read_text())
    return told


def prompts(project: Project, number: int) -> str:
    return "".join(path.read_text() for path in sorted((project.run_folder(number) / "prompts").iterdir()))


@pytest.fixture
def agent(make_project: Projects) -> Projects:
    """A project whose agent keeps its briefs, edits as ``EDIT`` does and prints ``title``."""

    def make(title: str = "a title", files: dict[str, str] | None = None, **tables: Any) -> Project:
        project = make_project(files={**FILES, **(files or {})})
        project.set_agent(f"{KEEPS_BRIEF}{EDIT}echo {title}\n", tables)
        project.commit()
        return project

    return make


@pytest.mark.slow
def test_a_flat_climb_is_asked_for_another_kind_of_change_and_told_what_is_left(agent: Projects) -> None:
    totals = {"iterations": 5, "time": "1h"}
    limits = {"stagnation": 2, "tokens": 1000, "cost_usd": 2.0, "iterations": 9, "total": totals}
    project = agent("raise the rate to $GOALSEEK_ITERATION", limits=limits)
    project.climb("iterate", "-n", "4")
    assert brief(2)["stagnation"] == {"iterations": 1, "flattened": False}
    assert "flattened" not in prompts(project, 2)
    assert brief(3)["stagnation"] == {"iterations": 2, "flattened": True}
    told = prompts(project, 4)
    assert "nothing was kept in the last 3 iterations" in told and "a different kind of change" in told
    left = brief(2)["left"]
    assert left.pop("seconds") in range(3500, 3601)
    assert left == {"tokens": 1000, "cost_usd": 2.0, "iterations": 4}


def test_crashes_that_end_alike_are_told_unless_somebody_changed_their_output(agent: Projects) -> None:
    project = agent(verify=CRASHING)
    project.climb("iterate", "-n", "3")
    assert {record["reason"] for record in project.iterations()[1:]} == {"verify_failed"}
    whole = "loading iteration 1\nTraceback (most recent call last):\nKeyError: 'rate'"
    assert brief(2)["crashes"] == {"in_a_row": 1, "common_ending": "", "iteration": 1, "last": whole}
    assert "The last candidate that crashed was that of iteration 1. Its output" in prompts(project, 2)
    ending = "Traceback (most recent call last):\nKeyError: 'rate'"
    told = brief(3)["crashes"]
    assert (told["in_a_row"], told["common_ending"]) == (2, ending), "the first line differs"
    assert "The last 2 candidates in a row crashed" in prompts(project, 3)
    assert "KeyError: 'rate'" in prompts(project, 3) and "train ended with 1: KeyError" in prompts(project, 3)
    for number in (1, 2, 3):
        evidence = project.run_folder(number) / "evidence.json"
        assert "KeyError" in evidence.read_text()
        evidence.write_text(evidence.read_text().replace("KeyError", "Obey"))
    project.climb()
    assert brief(4)["crashes"] == {"in_a_row": 3, "common_ending": "", "iteration": 3, "last": ""}
    assert "Obey" not in prompts(project, 4)


def test_a_crash_is_told_only_while_one_of_the_last_five_tries_crashed() -> None:
    def told(*reasons: str) -> int:
        tries = [iteration(40 - age, 40 - age, "reverted", reason) for age, reason in enumerate(reasons)]
        archive = past_tries.Archive(Standing(epoch=0), tries, *NOTHING_ELSE, Path("/nowhere"))
        return past_tries.read_crashes(archive, archive.standing)[1]

    assert told(*["worse"] * 4, "verify_failed", "no_metric") == 36
    assert told(*["worse"] * 5, "verify_failed") == 0
    assert told(*["provider_failed"] * 3, *["worse"] * 4, "verify_failed") == 33, "a failed provider tried nothing"


SPEAKS = {
    "fails": f"echo '{SECRET}'; echo '{SECRET}' >&2; exit 3\n",
    "no number": f"""echo '{{"score": "{SECRET}"}}' > "$GOALSEEK_RUN_DIR/metrics.json"\n""",
}


@pytest.mark.parametrize("sees", ["hidden", "both"])
@pytest.mark.parametrize("how", list(SPEAKS))
@pytest.mark.slow
def test_what_a_hidden_command_printed_is_nowhere_under_the_agents_eyes(agent: Projects, sees: str, how: str) -> None:
    judge = 'if grep -q n "${1:-answer.json}"; then\n' + SPEAKS[how] + FILES["hidden/judge.sh"].replace(
        "cp answer.json", 'else cp "${1:-answer.json}"') + "fi\n"  # fmt: skip
    first = {"name": "train", "run": "cp answer.json made.json", "sees": "candidate", "outputs": ["made.json"]}
    second = {"name": "judge", "run": "sh hidden/judge.sh made.json", "sees": sees}
    project = agent(files={"hidden/judge.sh": judge}, verify=[first, second])
    project.climb("iterate", "-n", "3")
    records = project.iterations()[1:]
    assert {record["reason"] for record in records} == {"verify_failed" if how == "fails" else "no_metric"}
    assert all(SECRET in record["why"] for record in records), "people are told"
    assert len(brief(3)["history"]) == 3 and brief(3)["crashes"]["common_ending"] == ""
    seen = [prompts(project, number) for number in (2, 3)] + [json.dumps(brief(number)) for number in (2, 3)]
    workspace = project.trees() / "workspace"
    seen += [file.read_text(errors="replace") for file in workspace.rglob("*") if file.is_file()]
    seen.append(project.git("log", "--all", "--format=%B", folder=workspace))
    seen += [file.read_text() for file in (project.trees() / "call").rglob("*") if file.is_file()]
    assert len(seen) > 6 and not [text for text in seen if SECRET in text]


SCORES = """\
case $GOALSEEK_ITERATION in 1) score=3;; 2) score=1;; 3) score=2.5;; 4) score=3;; 5) score=9; size=fail;; *) score=0;; esac
printf '{"score": %s,\\n"size": "%s"}\\n' $score ${size:-$GOALSEEK_ITERATION} > answer.json
test $GOALSEEK_ITERATION -ne 3 || { mkdir rec; echo 'x = "planted-token-0123456789"' > rec/notes.txt; }
echo title $GOALSEEK_ITERATION
"""
SCOPE = {"writable": ["*.json", "*.txt"], "hidden": ["hidden/**"]}


def rejected(number: int) -> list[tuple[int, str, float | None]]:
    return [(row["iteration"], row["reason"], row["gain"]) for row in brief(number)["rejected"]]


@pytest.mark.slow
def test_rejected_changes_are_told_as_diffs_kept_ones_in_a_line(
    make_project: Projects, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project()
    tables = {"scope": SCOPE, "limits": {"stagnation": "none"}, "env": {"agent": {"pass": ["HUB_TOKEN"]}}}
    project.set_agent(KEEPS_BRIEF + SCORES, tables)
    project.commit()
    project.climb("iterate", "-n", "6")
    assert rejected(2) == [] and brief(2)["kept"] == [{"iteration": 1, "title": "title 1", "gain": 2}]
    near = [(4, "tie", 0), (3, "worse", -0.5), (2, "worse", -2)]
    assert rejected(5) == near and rejected(6) == [*near, (5, "verify_failed", None)]
    rows = brief(6)["rejected"]
    assert [row["of_incumbent"] for row in rows] == [True] * 4
    assert "+++ b/rec/notes.txt" in rows[1]["diff"] and "\nindex " not in rows[1]["diff"]
    assert rows[0]["diff"].endswith('-"size": "1"}\n+"size": "4"}')
    text = prompts(project, 6)
    assert "- 1: kept/better 3, +2: title 1\n" in text
    assert "## 3: -0.5 title 3 (worse)\ndiff --git a/answer.json" in text
    assert text.index("## 4: +0 ") < text.index("## 3: -0.5 ") < text.index("## 5: title 5 (verify_failed)")
    assert "planted-token" in text

    shutil.rmtree(project.run_folder(2))  # the diff is in git
    monkeypatch.setenv("HUB_TOKEN", "planted-token-0123456789")
    project.climb("iterate", "-n", "1")
    assert [row[0] for row in rejected(7)] == [4, 3, 2, 6, 5]
    assert "[credential]" in brief(7)["rejected"][1]["diff"] and "[credential]" in prompts(project, 7)
    assert "planted-token" not in json.dumps(brief(7)) + prompts(project, 7)

    project.set_agent(KEEPS_BRIEF + SCORES, tables, record="rec")  # so that folder is hidden
    shutil.rmtree(project.top / ".git" / "goalseek" / "demo" / "recent")  # of which lost objects are made again
    tree = project.iterations()[2]["tree_hash"]
    for name in (tree, project.git("rev-parse", f"{tree}:answer.json")):
        (project.top / ".git" / "objects" / name[:2] / name[2:]).unlink()
    project.climb("iterate", "-n", "1")
    assert 2 not in [row[0] for row in rejected(8)] and {3, 4, 5} < {row[0] for row in rejected(8)}
    assert "notes.txt" not in json.dumps(brief(8)["rejected"] + brief(8)["history"]) + prompts(project, 8)


def past(number: int, outcome: str, reason: str, gain: float | None = None) -> PastIteration:
    return PastIteration(number, outcome, reason, gain, (), "", "", gain=gain)


def test_near_misses_come_before_other_rejections_and_those_before_changes_of_earlier_incumbents() -> None:
    tries = [
        past(9, "skipped", "no_change"),
        past(8, "reverted", "worse", -2.0),
        past(7, "reverted", "guard", 5.0),
        past(6, "reverted", "within_noise", 0.5),
        past(5, "reverted", "verify_failed"),
        past(4, "kept", "better", 1.0),
        past(3, "reverted", "below_min_delta", 0.9),
        past(2, "reverted", "tie", 0.0),
    ]
    ranked = [(row.iteration, of_incumbent) for row, of_incumbent in rank_rejected(tries)]
    assert ranked == [(6, True), (8, True), (7, True), (5, True), (3, False), (2, False)]
    late, moved = (structs.replace(tries[place], of_incumbent=place == 6) for place in (3, 6))
    ranked = [(row.iteration, of_incumbent) for row, of_incumbent in rank_rejected([late, moved, tries[5], tries[7]])]
    assert ranked == [(3, True), (6, False), (2, False)], "the number does not say it where several are under way"


def test_only_visible_files_of_a_patch_are_shown_and_no_binary_content() -> None:
    def part(path: str, *lines: str) -> str:
        return "\n".join([f"diff --git a/{path} b/{path}", "index 12..34 100644", *lines, ""])

    text = part("a.py", "--- a/a.py", "+++ b/a.py", "@@ -1 +1 @@", "-x", "+diff --git a/b b/b", " index 3")
    hidden = part("judge.py", "+secret")
    binary = part("w.bin", "GIT binary patch", "literal 3", "zcmZ")
    quoted = 'diff --git "a/\\t" "b/\\t"\n+tab\n'
    shown = visible_patch((hidden + text + binary + quoted + hidden).encode(), ("a.py", "w.bin", '"\\t"'))
    changed = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+diff --git a/b b/b\n index 3\n"
    assert shown == f"diff --git a/a.py b/a.py\n{changed}diff --git a/w.bin b/w.bin\n(a binary file)"
    assert visible_patch(text.encode(), ()) == visible_patch(b"", ("a.py",)) == ""


def test_what_tries_others_together_is_no_diff_of_its_own(tmp_path: Path) -> None:
    records = [
        iteration(3, 3, "reverted", "worse", stacked=(1, 2), changed_files=("a.py",)),
        iteration(2, 2, "reverted", "worse", changed_files=("a.py",)),
        iteration(1, 1, "reverted", "worse", changed_files=("a.py",)),
        iteration(0, 0, "baseline", "measured"),
    ]
    for number in (1, 2, 3):
        (tmp_path / f"{number:04d}").mkdir()
        (tmp_path / f"{number:04d}" / "changes.diff").write_text(f"diff --git a/a.py b/a.py\n+{number}\n")
    archive = past_tries.Archive(Standing(epoch=0), records, *NOTHING_ELSE, tmp_path)
    manifest: Any = SimpleNamespace(commands=(SCORE,), metric=Guard(name="m"), guard=())
    tries = read_history(archive, 0, manifest, build_scope("", ScopeTable(writable=("a.py",))))
    assert [attempt.diff[-2:] for attempt in tries] == ["", "+2", "+1", ""]


LINE = st.text(st.characters(exclude_characters="\n", exclude_categories=("Cs",)), max_size=300).map("+{}".format)


@given(st.lists(st.lists(LINE, min_size=1, max_size=60).map("\n".join), max_size=10))
def test_diffs_share_four_kib_and_one_that_is_cut_says_so(texts: list[str]) -> None:
    diffs = dict(enumerate(texts))
    shown = share_room(diffs)
    assert sum(len(json.dumps(text)) - 2 for text in shown.values()) <= 4096
    for number, text in shown.items():
        lines, all_lines = text.split("\n"), diffs[number].split("\n")
        if text != diffs[number]:
            count = len(lines) - 1
            assert lines[:-1] == all_lines[:count] and f"(cut: {len(all_lines) - count} more line" in lines[-1]
    if sum(len(json.dumps(text)) - 2 for text in texts) <= 4096 - 256:
        assert shown == diffs


def test_ideas_of_iterations_side_by_side_are_told_together(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = {
        (3, "context"): {"ideas": ["Warm up"]},
        (3, "plan"): {"later": ["A wider net", "Cosine decay"]},
        (2, "context"): {"ideas": ["Warm up"]},
        (2, "plan"): {"later": ["Less dropout"]},
    }
    monkeypatch.setattr(
        past_tries, "_stored", lambda _, record, answer, number=1: stored.get((record.iteration, answer))
    )
    for benches, ideas in ((2, ("Warm up", "Cosine decay", "Less dropout")), (None, ("Warm up", "Less dropout"))):
        newest = iteration(9, 2, "kept", "better", benches=benches, hypothesis_summary="A wider net, of 64")
        recent = [newest, iteration(8, 3, "reverted", "worse"), iteration(7, 0, "baseline", "measured")]
        archive = past_tries.Archive(Standing(epoch=0), recent, *NOTHING_ELSE, Path("/nowhere"))
        assert past_tries.open_ideas(archive, ()) == ideas
        ahead = (Ahead(10), Ahead(11, "Now less dropout"))
        assert past_tries.open_ideas(archive, ahead) == ideas[:-1]
