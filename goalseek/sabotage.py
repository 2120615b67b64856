"""The sabotage probe: with every writable file broken, the verifier must fail or the number must move."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from goalseek.evaluation.measurements import Measurement, Subject, measure_subject, measurement_of, stand_back
from goalseek.git.objects import SUBMODULE, Entry
from goalseek.humanize import number
from goalseek.phase_values import Evidence
from goalseek.project.project import Run

GARBAGE = b"goalseek sabotage ((((\n"
BREAKAGES: tuple[tuple[str, bytes | None], ...] = (
    ("filled with garbage", GARBAGE),
    ("emptied", b""),
    ("deleted", None),
)
_NOISE = 10


def sabotage(run: Run, subject: Subject, folder: Path) -> tuple[bool, str]:
    """Whether breaking the candidate was noticed, and in words by what. The subject has its unbroken numbers.

    The breakages are tried in turn until one is noticed. Nothing of them is in a ref or a record, and the bench stands
    at the subject's own tree afterwards.
    """
    unnoticed = []
    try:
        for place, (how, content) in enumerate(BREAKAGES):
            tree = broken_tree(run, subject, content)
            if tree == subject.tree:
                continue
            evidence = measure_subject(run, subject, 1000 + place, folder, tree, _seed(subject.known))
            if told := noticed(evidence, subject.known):
                return True, f"every writable file {how}: {told}"
            made = measurement_of(evidence)
            unnoticed.append(f"{how}: {number(made.value) if made else 'no number'}")
    finally:
        stand_back(run, subject)
    return False, f"every writable file broken, and the number stays ({'; '.join(unnoticed)})"


def broken_tree(run: Run, subject: Subject, content: bytes | None) -> str:
    """The subject's tree with this content in every writable file, or without them."""
    objects, scope = run.repository.objects, subject.setting.scope
    entries = {
        path: entry
        for path, entry in objects.files(subject.tree).items()
        if entry.mode != SUBMODULE and scope.kind(path) == "writable"
    }
    blob = objects.write_bytes(content) if content is not None else ""
    return objects.splice(
        subject.tree,
        {
            path: Entry("100755" if entry.mode == "100755" else "100644", blob) if blob else None
            for path, entry in entries.items()
        },
    )


def noticed(evidence: Evidence, known: Sequence[Measurement]) -> str:
    """How the verifier noticed the breakage, in words; empty where it did not.

    Where equal trees gave different numbers, a move counts only where it is ten times as large as that difference.
    """
    if evidence.failure:
        return evidence.failure.why
    value = evidence.runs[0].value
    assert value is not None
    values = [made.value for made in known]
    nearest = min(values, key=lambda other: abs(other - value))
    if value in values or abs(value - nearest) <= _NOISE * (max(values) - min(values)):
        return ""
    return f"the number goes to {number(value)}"


def _seed(known: Sequence[Measurement]) -> int:
    """The seed of the last unbroken run, so that a number made from it alone is found out."""
    seed = known[-1].seed if known else None
    return -1 if seed is None else seed
