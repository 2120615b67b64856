"""How each verify command is kept apart, in words: what is believed on the candidate's word is named."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from goalseek.doctor import isolation
from goalseek.doctor.isolation import READ_HIDDEN, SPLIT, cheat_remedy
from goalseek.manifest.tables import Guard, Manifest, Metric, Project, SandboxTable, ScopeTable, VerifyCommand
from goalseek.project.preflight import CheckResult

TRAIN = VerifyCommand(run="python train.py", name="train", sees="candidate", outputs=("out/guesses.csv",))
SCORE = VerifyCommand(run="python score.py", name="score", sees="hidden")
BOTH = VerifyCommand(run="python validate.py", name="score", sees="both")


def manifest(*verify: VerifyCommand, guards: tuple[Guard, ...] = (), **metric: Any) -> Manifest:
    last = verify[-1].name
    read = {"source": "json", "query": "accuracy", "name": "accuracy", "command": last, **metric}
    return Manifest(
        version=1,
        project=Project(name="d"),
        scope=ScopeTable(writable=("train.py",)),
        metric=Metric(direction="maximize", **read),
        verify=verify,
        guard=guards,
    )


def isolation_notes(of: Manifest) -> list[CheckResult]:
    return list(isolation.isolation_notes(of))


def texts(found: list[CheckResult]) -> list[str]:
    return [words.text for words in found]


def test_code_and_answers_in_two_commands_leave_nothing_to_change_and_one_process_is_to_be_split() -> None:
    found = isolation_notes(manifest(TRAIN, SCORE))
    assert texts(found) == [
        "train: runs the candidate, without the hidden files",
        "score: sees only outputs (out/guesses.csv) and hidden files: none of the candidate's code",
    ]
    assert not any(words.remedy for words in found)
    (found,) = isolation_notes(manifest(BOTH))
    told = "score: hidden files and candidate code in one process: anything the code can reach, it can read"
    assert (found.text, found.remedy) == (told, SPLIT)


def test_a_number_that_the_candidate_prints_or_writes_is_self_reported() -> None:
    for source, verb in (("stdout", "prints"), ("stderr", "prints"), ("json", "writes")):
        found = isolation_notes(manifest(TRAIN, source=source))
        assert found[1] == CheckResult("isolation", True, f"train {verb} its own score: self-reported", READ_HIDDEN)
    found = isolation_notes(manifest(replace(TRAIN, outputs=("out/**",)), SCORE, path="out/metrics.json"))
    assert "train writes its own score: self-reported" in texts(found)
    assert "self-reported" not in " ".join(texts(isolation_notes(manifest(TRAIN, SCORE))))
    guard = Guard(name="size", source="stdout", regex="(.*)", command="train", max=3.0)
    assert "train prints its own guard size: self-reported" in texts(
        isolation_notes(manifest(TRAIN, SCORE, guards=(guard,)))
    )


def test_a_run_time_an_exit_code_and_a_command_that_sees_nothing_are_no_proof() -> None:
    found = isolation_notes(manifest(TRAIN, SCORE, source="wall", command="train"))
    assert found[1].text.startswith("train's run time is its score: the code decides")
    assert "check in its `outputs`" in found[1].remedy
    tests = VerifyCommand(run="pytest", name="tests", sees="candidate")
    told = "tests: its success is an exit code, and candidate code can end the process with any"
    assert told in texts(isolation_notes(manifest(tests, TRAIN, SCORE)))
    assert told in texts(isolation_notes(manifest(replace(tests, sees="both"), TRAIN, SCORE)))
    assert told not in texts(isolation_notes(manifest(replace(tests, outputs=("report.xml",)), TRAIN, SCORE)))
    found = isolation_notes(manifest(replace(TRAIN, outputs=()), SCORE))
    assert found[-1].text.startswith("score: sees nothing of the candidate")
    assert found[-1].remedy


def test_what_outlives_a_command_weakens_it() -> None:
    found = isolation_notes(manifest(replace(TRAIN, keep=("build/",)), SCORE))
    assert found[1].text == "train: what one candidate leaves in build/, the next is measured with"
    assert found[1].remedy


@dataclass(frozen=True, kw_only=True)
class Networked(VerifyCommand):
    network: bool = False


@dataclass(frozen=True, kw_only=True)
class Cached(SandboxTable):
    cache: tuple[str, ...] = ()


def test_network_and_caches_of_a_sandbox_are_named_where_it_has_them() -> None:
    online = Networked(run="x", name="train", sees="candidate", outputs=("out",), network=True)
    told = replace(manifest(online, SCORE), sandbox=Cached(cache=("~/.ccache",)))
    found = texts(isolation_notes(told))
    assert "train: has the network: it can fetch an answer, and tell what it saw" in found
    assert "sandbox.cache: what one candidate writes into ~/.ccache, the next is measured with" in found
    assert len(isolation_notes(replace(told, sandbox=Cached(), verify=(replace(online, network=False), SCORE)))) == 2


def test_what_to_change_after_a_cheat_won_fits_the_metrics_source() -> None:
    assert SPLIT in cheat_remedy(manifest(BOTH))
    assert READ_HIDDEN in cheat_remedy(manifest(TRAIN, source="stdout"))
    hidden = cheat_remedy(manifest(TRAIN, SCORE))
    assert "score believes what `outputs` say" in hidden
    assert "give metric.valid" in hidden
    assert "narrow metric.valid" in cheat_remedy(manifest(TRAIN, SCORE, valid=(0.0, 1.0)))
