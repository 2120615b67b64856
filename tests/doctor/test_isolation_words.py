"""How each verify command is kept apart, in words: what is believed on the candidate's word is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from goalseek.doctor.isolation import READ_HIDDEN, cheat_remedy, describe_separation
from goalseek.manifest.exposure import (
    CHECK_OUTPUT,
    HASH_INSTEAD,
    SPLIT,
    UNCHECKED,
    exposures,
    readable_answers,
    unchecked_time,
)
from goalseek.manifest.tables import Guard, Manifest, Metric, ProjectTable, ScopeTable, VerifyCommand

TRAIN = VerifyCommand(run="python train.py", name="train", sees="candidate", outputs=("out/guesses.csv",))
SCORE = VerifyCommand(run="python score.py", name="score", sees="hidden")
BOTH = VerifyCommand(run="python validate.py", name="score", sees="both")
TESTS = VerifyCommand(run="pytest", name="tests", sees="candidate")
GUARD = Guard(name="size", source="stdout", regex="(.*)", command="train", max=3.0)
APART = {
    "train: runs the candidate, without the hidden files": "",
    "score: sees only outputs (out/guesses.csv) and hidden files: none of the candidate's code": "",
}


def manifest(*verify: VerifyCommand, guards: tuple[Guard, ...] = (), **metric: Any) -> Manifest:
    read = {"source": "json", "query": "accuracy", "name": "accuracy", "command": verify[-1].name, **metric}
    return Manifest(
        version=1,
        project=ProjectTable(name="d"),
        scope=ScopeTable(writable=("train.py",)),
        metric=Metric(direction="maximize", **read),
        verify=verify,
        guard=guards,
    )


def notes(of: Manifest) -> dict[str, str]:
    """The notes, each with its remedy."""
    found = list(describe_separation(of, {}))
    assert all(one.ok and one.place == "" for one in found)
    return {one.text: one.remedy for one in found}


def test_two_commands_keep_code_and_answers_apart_and_one_is_to_be_split() -> None:
    assert notes(manifest(TRAIN, SCORE)) == APART
    exposing = replace(manifest(BOTH), scope=ScopeTable(writable=("train.py",), hidden=("labels.csv",)))
    (found,) = exposures(exposing)
    assert not found.ok and found.remedy == SPLIT
    assert found.text == "candidate code can read the hidden files: score sees both"
    assert SPLIT not in notes(manifest(BOTH)).values(), "nothing is hidden"


@pytest.mark.parametrize(
    ("of", "told", "remedy"),
    [
        (manifest(TRAIN, SCORE, guards=(GUARD,)), "train prints its own guard size: self-reported", READ_HIDDEN),
        (
            manifest(replace(TRAIN, keep=("build/",)), SCORE),
            "train: what one candidate leaves in build/, the next is measured with",
            "take out keep; setup.gives gives each measurement a copy of its own",
        ),
        (
            manifest(replace(TRAIN, network=True), SCORE),
            "train: has the network: it can fetch an answer, and tell what it saw",
            "take out network; let setup fetch what is needed",
        ),
        (
            manifest(TRAIN, SCORE, source="wall", command="train"),
            "train's run time is its score, and the command score checks what it left",
            "",
        ),
    ],
    ids=["guard", "keep", "network", "wall"],
)
def test_what_weakens_that_is_named(of: Manifest, told: str, remedy: str) -> None:
    assert notes(of) == {**APART, told: remedy}


def test_a_wall_time_beside_it_shows_what_a_processor_time_leaves_out() -> None:
    tables = {"source": "cpu", "command": "train"}
    guard = Guard(name="took", source="wall", command="train", max=9.0)
    told = ": very short processes that nobody waits for are not in its processor time"
    assert f"train{told}" in notes(manifest(TRAIN, SCORE, **tables))
    assert f"train{told}" not in notes(manifest(TRAIN, SCORE, guards=(guard,), **tables))


def test_a_number_that_the_candidate_prints_or_writes_is_self_reported() -> None:
    for source, verb in (("stdout", "prints"), ("stderr", "prints"), ("json", "writes")):
        assert notes(manifest(TRAIN, source=source))[f"train {verb} its own score: self-reported"] == READ_HIDDEN
    found = notes(manifest(replace(TRAIN, outputs=("out/**",)), SCORE, path="out/metrics.json"))
    assert "train writes its own score: self-reported" in found


def test_a_time_that_nothing_checks_says_how_to_check_it() -> None:
    said = f"train's run time is its score: {UNCHECKED}"
    remedy = 'let a command that sees = "hidden" check in its `outputs` that all of it was done'
    for commands in ((TRAIN,), (replace(TRAIN, outputs=()), SCORE), (SCORE, TRAIN)):
        found = unchecked_time(manifest(*commands, source="wall", command="train"))
        assert found and (found.text, found.remedy) == (said, remedy)
    checked = (replace(TRAIN, outputs=("out/**",)), SCORE)
    assert unchecked_time(manifest(*checked, source="wall", command="train")) is None
    assert unchecked_time(manifest(TRAIN)) is None


def test_a_timed_program_is_the_candidates_and_reads_what_is_hidden() -> None:
    build = replace(TRAIN, name="build", outputs=("build/hits",))
    timed = VerifyCommand(run="./build/hits hidden/in > out.txt", name="time", sees="hidden", outputs=("out.txt",))
    said = "time: runs the candidate's program beside the hidden files, which it can read; its time is the score"
    for source in ("wall", "cpu"):
        found = notes(manifest(build, timed, SCORE, source=source, command="time"))
        assert found[f"{said}, and the command score checks its output"] == ""
        assert said in notes(manifest(build, timed, source=source, command="time"))
        told = unchecked_time(manifest(build, timed, source=source, command="time"))
        assert told and told.remedy == CHECK_OUTPUT
    assert not any("none of the candidate's code" in text and text.startswith("time") for text in found)


@pytest.mark.parametrize(
    ("check", "read"),
    [
        ("cmp out.txt hidden/expected.txt", ["hidden/expected.txt"]),
        (("cmp", "out.txt", "./hidden/expected.txt"), ["hidden/expected.txt"]),
        ("sha256sum -c hidden/expected.txt", []),
        ("sha256sum -c hidden/sums && diff out.txt <(cat hidden/expected.txt)", ["hidden/expected.txt"]),
        ("python3 hidden/check.py hidden/in out.txt", ["hidden/gold.txt"]),
        ("sh hidden/check.sh", ["hidden/expected.txt"]),
        ("sh hidden/sums.sh", []),
    ],
    ids=["text", "words", "checksum", "both", "script and input", "shell script", "script of checksums"],
)
def test_an_answer_that_the_timed_program_can_read_is_named(check: Any, read: list[str], tmp_path: Path) -> None:
    build = replace(TRAIN, name="build", outputs=("build/hits",))
    timed = VerifyCommand(run="./build/hits < hidden/in > out.txt", name="time", sees="hidden", outputs=("out.txt",))
    texts = {
        "check.py": "for x in open('hidden/in'): assert (Path(__file__).parent / 'gold.txt').exists(), x",
        "check.sh": 'here=$(dirname "$0")\ndiff out.txt "$here/expected.txt"',
        "sums.sh": "sha256sum -c hidden/expected.txt\ncmp out.sum hidden/gold.sha256",
    }
    hidden = {
        f"hidden/{name}": tmp_path / name for name in (*texts, "expected.txt", "sums", "in", "gold.txt", "gold.sha256")
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    later = VerifyCommand(run=check, name="check", sees="hidden")
    of = manifest(build, timed, later, source="wall", command="time")
    found = [(one.text, one.remedy) for one in [readable_answers(of, hidden)] if one]
    assert found == [(f"time: the timed program can read {path}", HASH_INSTEAD) for path in read]
    assert readable_answers(manifest(build, timed, later), hidden) is None, "no time is the score"


@pytest.mark.parametrize(
    ("timed", "run", "is_own"),
    [
        ("check", "cmp out.txt hidden/expected", True),
        ("check", "timeout 9 build/hits < hidden/in", False),
        ("check", "sh hidden/check.sh", False),
        ("time", "cmp out.txt hidden/expected", False),
    ],
)
def test_a_time_of_the_check_itself_is_named(timed: str, run: str, is_own: bool, tmp_path: Path) -> None:
    (tmp_path / "check.sh").write_text("./build/hits < hidden/in\n")
    build = replace(TRAIN, name="build", outputs=("build/hits",))
    runs = VerifyCommand(run="./build/hits < hidden/in > out.txt", name="time", sees="hidden", outputs=("out.txt",))
    of = manifest(build, runs, VerifyCommand(run=run, name="check", sees="hidden"), source="wall", command=timed)
    found = {one.text: one.remedy for one in describe_separation(of, {"hidden/check.sh": tmp_path / "check.sh"})}
    said = "check: its own time is the score, and it does not run build/hits"
    assert found.get(said) == ('time the program itself: metric.command = "time"' if is_own else None)


def test_outputs_of_a_hidden_command_are_among_those_that_a_later_one_sees() -> None:
    middle = replace(SCORE, name="time", outputs=("near.out",))
    text = "score: sees only outputs (out/guesses.csv, near.out) and hidden files: none of the candidate's code"
    assert notes(manifest(TRAIN, middle, SCORE))[text] == ""
    assert "score: sees nothing of the candidate, not even outputs: it cannot judge it" in notes(
        manifest(middle, SCORE)
    )


def test_an_exit_code_and_a_command_that_sees_nothing_are_no_proof() -> None:
    told = "tests: its success is an exit code, and candidate code can end the process with any"
    assert "a report in `outputs`" in notes(manifest(TESTS, TRAIN, SCORE))[told]
    assert told in notes(manifest(replace(TESTS, sees="both"), TRAIN, SCORE))
    assert told not in notes(manifest(replace(TESTS, outputs=("report.xml",)), TRAIN, SCORE))
    told = "score: sees nothing of the candidate, not even outputs: it cannot judge it"
    assert notes(manifest(replace(TRAIN, outputs=()), SCORE))[told]


def test_what_to_change_after_a_cheat_won_fits_the_metrics_source() -> None:
    assert SPLIT in cheat_remedy(manifest(BOTH))
    assert READ_HIDDEN in cheat_remedy(manifest(TRAIN, source="stdout"))
    hidden = cheat_remedy(manifest(TRAIN, SCORE))
    assert "score believes what `outputs` say" in hidden and "give metric.valid" in hidden
    remedy = "keep a checksum of the answer, not the answer, beside the timed program; and hide its input"
    assert cheat_remedy(manifest(TRAIN, SCORE, source="wall", command="train")) == remedy
    assert cheat_remedy(manifest(TRAIN, SCORE, source="cpu", command="score")) == remedy
    assert cheat_remedy(manifest(TRAIN, source="wall")) == f"{CHECK_OUTPUT}; {remedy}"
    assert "narrow metric.valid" in cheat_remedy(manifest(TRAIN, SCORE, valid=(0.0, 1.0)))
