"""How each verify command is kept apart, in words: what is believed on the candidate's word is named."""

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


OF_TRAIN = {"source": "cpu", "command": "train"}
TOOK = Guard(name="took", source="wall", command="train", max=9.0)
SHORT = "train: very short processes that nobody waits for are not in its processor time"
SELF = "train {} its own score: self-reported"
BLIND = "score: sees nothing of the candidate, not even outputs: it cannot judge it"
KEEPS = "train: a candidate is measured with the files of the one before in build/"
FETCHES = "train: has the network: it can fetch an answer, and send files out"
CHECKED = "train's run time is its score, and the command score checks what it left"
NEAR = "score: sees only outputs (out/guesses.csv, near.out) and hidden files: none of the candidate's code"
EXITS = "tests: its success is an exit code, and candidate code can end the process with any"
TIMED = "time: runs the candidate's program beside the hidden files, which it can read; its time is the score"
AFTER = ", and the command score checks its output"
BUILD = replace(TRAIN, name="build", outputs=("build/hits",))
TIME = VerifyCommand(run="./build/hits < hidden/in > out.txt", name="time", sees="hidden", outputs=("out.txt",))
BY_HIDDEN = replace(SCORE, name="time", outputs=("near.out",))


@pytest.mark.parametrize(
    ("of", "told", "remedy"),
    [
        (manifest(TRAIN, SCORE, guards=(GUARD,)), "train prints its own guard size: self-reported", READ_HIDDEN),
        (manifest(replace(TRAIN, keep=("build/",)), SCORE), KEEPS, "take out keep; setup.gives gives each measurement"),
        (manifest(replace(TRAIN, network=True), SCORE), FETCHES, "take out network; let setup fetch what is needed"),
        (manifest(TRAIN, SCORE, source="wall", command="train"), CHECKED, ""),
        (manifest(TRAIN, SCORE, **OF_TRAIN), SHORT, 'add a [[guard]] with source = "wall" and command = "train": it'),
        (manifest(TRAIN, SCORE, guards=(TOOK,), **OF_TRAIN), SHORT, None),
        (manifest(TRAIN, source="stdout"), SELF.format("prints"), READ_HIDDEN),
        (manifest(TRAIN), SELF.format("writes"), READ_HIDDEN),
        (manifest(replace(TRAIN, outputs=("out/**",)), SCORE, path="out/m.json"), SELF.format("writes"), READ_HIDDEN),
        (manifest(TRAIN, BY_HIDDEN, SCORE), NEAR, ""),
        (manifest(BY_HIDDEN, SCORE), BLIND, "name its input in the outputs of an earlier command"),
        (manifest(replace(TRAIN, outputs=()), SCORE), BLIND, "name its input in the outputs of an earlier command"),
        (manifest(TESTS, TRAIN, SCORE), EXITS, "let it leave a report in `outputs`, and a command that sees"),
        (manifest(replace(TESTS, sees="both"), TRAIN, SCORE), EXITS, "let it leave a report in `outputs`"),
        (manifest(replace(TESTS, outputs=("report.xml",)), TRAIN, SCORE), EXITS, None),
        (manifest(BUILD, TIME, source="wall", command="time"), TIMED, ""),
        (manifest(BUILD, TIME, source="cpu", command="time"), TIMED, ""),
        (manifest(BUILD, TIME, SCORE, source="wall", command="time"), f"{TIMED}{AFTER}", ""),
    ],
)
def test_what_weakens_that_is_named(of: Manifest, told: str, remedy: str | None) -> None:
    found = notes(of).get(told)
    assert found is None if remedy is None else found is not None and found.startswith(remedy) and (remedy or not found)


def test_a_time_that_nothing_checks_says_how_to_check_it() -> None:
    said = f"train's run time is its score: {UNCHECKED}"
    remedy = 'let a command with sees = "hidden" check its `outputs`: was all the work done?'
    for commands in ((TRAIN,), (replace(TRAIN, outputs=()), SCORE), (SCORE, TRAIN)):
        found = unchecked_time(manifest(*commands, source="wall", command="train"))
        assert found and (found.text, found.remedy) == (said, remedy)
    checked = (replace(TRAIN, outputs=("out/**",)), SCORE)
    assert unchecked_time(manifest(*checked, source="wall", command="train")) is None
    assert unchecked_time(manifest(TRAIN)) is None
    told = unchecked_time(manifest(BUILD, TIME, source="wall", command="time"))
    assert told and told.remedy == CHECK_OUTPUT


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
    of = manifest(BUILD, TIME, later, source="wall", command="time")
    found = [(one.text, one.remedy) for one in [readable_answers(of, hidden)] if one]
    assert found == [(f"time: the timed program can read {path}", HASH_INSTEAD) for path in read]
    assert readable_answers(manifest(BUILD, TIME, later), hidden) is None, "no time is the score"


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
    of = manifest(BUILD, TIME, VerifyCommand(run=run, name="check", sees="hidden"), source="wall", command=timed)
    found = {one.text: one.remedy for one in describe_separation(of, {"hidden/check.sh": tmp_path / "check.sh"})}
    said = "check: its own time is the score, and it does not run build/hits"
    assert found.get(said) == ('time the program itself: metric.command = "time"' if is_own else None)


def test_what_to_change_after_a_cheat_won_fits_the_metrics_source() -> None:
    assert SPLIT in cheat_remedy(manifest(BOTH))
    assert READ_HIDDEN in cheat_remedy(manifest(TRAIN, source="stdout"))
    hidden = cheat_remedy(manifest(TRAIN, SCORE))
    assert "score trusts its `outputs`" in hidden and "give metric.valid" in hidden
    remedy = "keep a checksum of the answer, not the answer, beside the timed program; and hide its input"
    assert cheat_remedy(manifest(TRAIN, SCORE, source="wall", command="train")) == remedy
    assert cheat_remedy(manifest(TRAIN, SCORE, source="cpu", command="score")) == remedy
    assert cheat_remedy(manifest(TRAIN, source="wall")) == f"{CHECK_OUTPUT}; {remedy}"
    assert "narrow metric.valid" in cheat_remedy(manifest(TRAIN, SCORE, valid=(0.0, 1.0)))
