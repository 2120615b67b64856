"""The records: sealed commits of a chain, and ``results.jsonl``, which can be written again from it."""

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from project import Project, Projects, answer

from goalseek.ledger.checkpoints import CheckpointName, Checkpoints, Seal, key_of, read_sealed


def test_the_chain_holds_each_line_with_the_candidate_as_second_parent(project: Project) -> None:
    """And the secret that seals them is in no tree."""
    project.set_moves(answer(2), {"files": {"other.txt": "x\n"}}, answer(0.5))
    records = [None, *project.climb("iterate", "-n", "3")]
    commits = project.git("rev-list", "--reverse", "--first-parent", "refs/goalseek/demo/ledger").splitlines()
    messages = [project.git("log", "-1", "--format=%B", commit) for commit in commits[1:]]
    subjects = ("run begins", "0 baseline measured", "1 kept better", "2 skipped out_of_scope", "3 reverted worse")
    lines = project.results.read_text().splitlines()
    assert [message.splitlines() for message in messages] == [
        [f"goalseek {subject}", "", line] for subject, line in zip(subjects, lines, strict=True)
    ]
    for commit, record in zip(commits[1:], records, strict=True):
        parents = project.git("log", "-1", "--format=%P", commit).split(" ")
        assert parents[1:] == ([record["commit_hash"]] if record and record["commit_hash"] else [])
    assert [record["seq"] for record in project.records()] == list(range(5))
    assert all(line.isascii() for line in messages)
    secret = project.top / ".git" / "goalseek" / "demo" / "secret"
    trees = [path for path in project.trees().rglob("*") if path.is_file() and not path.is_symlink()]
    assert trees and not [path for path in trees if secret.read_bytes() in path.read_bytes()]


def test_a_seal_is_of_these_texts_in_this_order_under_this_secret() -> None:
    seal, other = Seal(b"one"), Seal(b"two")
    made = seal.of("ab", "c")
    assert seal.holds(made, "ab", "c")
    for texts in (("a", "bc"), ("c", "ab"), ("ab",), ("ab", "c", ""), ("abc",), ("ab", "d"), ("ab\0c",)):
        assert not seal.holds(made, *texts), texts
    assert not other.holds(made, "ab", "c")
    for wrong in ("", made[:-1], made + "0", made.upper(), other.of("ab", "c"), "\udcff", "größer"):
        assert not seal.holds(wrong, "ab", "c"), wrong


def test_a_seal_tells_whose_it_is_and_nothing_else_does() -> None:
    seal = Seal(b"one")
    assert key_of(seal.of("x")) == seal.key != Seal(b"two").key
    for text in ("", seal.key, seal.of("x")[:-1], seal.of("x") + "\n", seal.of("x").upper(), seal.digest("x")):
        assert key_of(text) is None, text


@pytest.mark.parametrize(
    "text", ["", "[5]", "null", '"ab"', "[" * 100_000, '{"seal": "0"}'], ids=lambda text: text[:12]
)
def test_a_checkpoint_that_somebody_damaged_is_none(own: Path, text: str) -> None:
    (own / "plan.json").write_text(text)
    assert read_sealed(own / "plan.json", Seal(b"one")) == {}
    assert Checkpoints(own, None, "run", "follows").stored() == {}


def test_a_checkpoint_is_the_same_in_every_locale(own: Path) -> None:
    name, plain = CheckpointName("word"), {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    source = f"import pathlib; from goalseek.ledger.checkpoints import *; Checkpoints(pathlib.Path({str(own)!r})"
    source += ", Seal(b'one'), 'run', 'follows').save(CheckpointName('word'), 'gr\\xf6\\u2192', 'input', 0.0)"
    subprocess.run([sys.executable, "-c", source], env={**os.environ, **plain}, check=True, timeout=120)
    stored = Checkpoints(own, Seal(b"one"), "run", "follows").load(name, str, "input")
    assert stored and stored.value == "gr\xf6\u2192"


def test_nothing_can_be_added_to_a_sealed_checkpoint(own: Path) -> None:
    seal, name = Seal(b"one"), CheckpointName("word")
    Checkpoints(own, seal, "run", "follows").save(name, "no \udcff ü", "input", 0.0)
    path = own / "word.json"
    text = path.read_text()
    assert read_sealed(path, seal)["value"] == "no \udcff ü"
    whole = text.rstrip("\n}")
    others = (whole + ',"value":"yes"}\n', whole + f',"value":"yes","seal":{whole.rpartition(":")[2]}}}\n', text + " ")
    for other in (*others, text.replace(" ", "  "), text.replace('"value"', '"value":"yes","value"')):
        path.write_text(other)
        assert read_sealed(path, seal) == {} and read_sealed(path, None), other


def test_each_measurement_has_a_seed_of_its_own_and_always_the_same() -> None:
    seal = Seal(b"one")
    places = list(product(("r", "s"), range(5), range(12)))
    seeds = [seal.seed(*place) for place in places]
    assert len(set(seeds)) == len(places) and all(0 <= seed < 2**31 for seed in seeds)
    assert max(seeds) > 2**30, "the whole range is used"
    assert seeds == [Seal(b"one").seed(*place) for place in places] != [Seal(b"two").seed(*place) for place in places]


def test_the_secret_is_made_once_for_its_owner_alone(own: Path) -> None:
    folder = own / "a" / "b"
    before = os.umask(0)
    try:
        made = Seal.open(folder)
    finally:
        os.umask(before)
    secret = folder / "secret"
    assert secret.stat().st_mode & 0o777 == 0o600 and len(secret.read_bytes()) == 32
    assert os.listdir(folder) == ["secret"]
    assert made.key == Seal.open(folder).key
    secret.rename(folder / "secret.new")  # as one that was killed left it
    assert Seal.open(folder).key != made.key
    assert os.listdir(folder) == ["secret"] and len(secret.read_bytes()) == 32


def test_what_a_later_version_recorded_is_refused_in_words_and_left_alone(played: Projects) -> None:
    project = played(answer(2))
    row = {**project.records()[-1], "schema": 3, "seq": 3, "moods": []}
    line = json.dumps(row, separators=(",", ":"))
    ledger = "refs/goalseek/demo/ledger"
    made = project.git("commit-tree", f"{ledger}^{{tree}}", "-p", ledger, stdin=f"goalseek 1\n\n{line}\n".encode())
    project.git("update-ref", ledger, made)
    project.results.write_text(project.results.read_text() + line + "\n")
    before = project.results.read_bytes()
    for command in ("iterate", "baseline", "status", "log", "promote"):
        ended = project.run(command)
        assert ended.exit_code == 3, ended
        assert "a newer goalseek wrote this record, of schema 3; this one reads 1 and 2" in ended.stderr
        assert "update goalseek" in ended.stderr and "--rebuild" not in ended.stderr
    assert project.git("rev-parse", ledger) == made and project.results.read_bytes() == before
