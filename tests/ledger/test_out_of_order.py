"""The records of several iterations under way at once: numbers do not rise, and a loser's base may be an older one."""

import contextlib
import json
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace
from project import Project, answer

from goalseek.git.location import locate
from goalseek.git.repository import RefMove, Repository, candidate_message
from goalseek.ledger.ledger import Ledger
from goalseek.ledger.standing import Standing
from goalseek.loop.phases.plan import _records_of_tip
from goalseek.records import IterationRecord
from goalseek.values import Attempt

LEDGER = "refs/goalseek/demo/ledger"


def climb(top: Path) -> Project:
    """A baseline and a kept change."""
    project = Project.make(top)
    project.set_moves(answer(2))
    project.climb("iterate", "-n", "1")
    return project


class Night:
    """Adds records to a ledger as four agents would leave them."""

    def __init__(self, project: Project, ledger: Ledger, repository: Repository) -> None:
        self.project, self.ledger, self.repository = project, ledger, repository
        last = ledger.standing.last
        assert last
        self.pattern = replace(last, benches=4, host="here", rollback_commit_hash=None, attempts=(), usage=last.usage)

    @property
    def tip(self) -> str:
        return self.ledger.standing.tip

    def commit(self, number: int, parent: str, score: float) -> str:
        blob = self.project.git("hash-object", "-w", "--stdin", stdin=answer(score).encode())
        rows = self.project.git("ls-tree", parent).splitlines()
        rows = [f"100644 blob {blob}\tanswer.json" if row.endswith("\tanswer.json") else row for row in rows]
        tree = self.project.git("mktree", stdin="".join(row + "\n" for row in rows).encode())
        message = candidate_message(f"move {number}", "demo", self.pattern.run_id, number, "scripted")
        return self.project.git("commit-tree", tree, "-p", parent, stdin=message.encode())

    def add(self, number: int, label: str, commit: str | None, base: str, **more: object) -> IterationRecord:
        """A record by its outcome and reason; of a kept one, the tip moves."""
        outcome, reason = label.split()
        tree = self.project.git("rev-parse", f"{commit}^{{tree}}") if commit else None
        parent = self.project.git("rev-parse", f"{commit}^") if commit else None
        record = replace(
            self.pattern, iteration=number, outcome=outcome, reason=reason, commit_hash=commit, tree_hash=tree,
            parent_commit_hash=parent, base_commit_hash=base, run_dir=f"runs/{number:04d}",
            changed_files=("answer.json",) if commit else (),
        )  # fmt: skip
        before = self.tip
        record = self.ledger.append(replace(record, **more))  # type: ignore[arg-type]
        refs = (self.repository.tip_ref, self.repository.branch_ref)
        self.repository.move([RefMove(ref, before, self.tip) for ref in refs if before != self.tip])
        return record


@contextlib.contextmanager
def writing(project: Project) -> Iterator[Night]:
    with Repository(locate(project.folder), "demo") as repository:
        ledger = Ledger(repository, project.results)
        yield Night(project, ledger, repository)


@pytest.fixture
def night(made_once: Callable[..., Project], tmp_path: Path) -> Project:
    """Number 4 lands before 2 and 3: 2 is rejected against the older tip, 3 is moved to the newer, 5 conflicts."""
    project = made_once(climb, tmp_path / "repository")
    with writing(project) as night:
        first = night.tip
        night.add(4, "kept better", night.commit(4, first, 3), first)
        night.add(2, "reverted worse", night.commit(2, first, 1), first)
        repaired = night.commit(3, night.commit(3, first, 2.4), 2.5)
        earlier = str(project.git("rev-parse", f"{repaired}^"))
        attempts = (Attempt(earlier, "verify_failed"), Attempt(repaired, "moved", base_commit_hash=first))
        second = night.tip
        again = night.commit(3, second, 3.25)
        attempts = (*attempts, Attempt(again, "verify_failed"))
        night.add(3, "kept better", night.commit(3, again, 3.5), second, attempts=attempts, parent_commit_hash=second)
        conflict = Attempt(night.commit(5, second, 7), "conflict", base_commit_hash=second)
        night.add(5, "skipped conflict", None, night.tip, attempts=(conflict,))
    return project


def test_every_version_of_a_candidate_is_reachable_by_the_chain(night: Project) -> None:
    rows = night.iterations()
    assert [row["iteration"] for row in rows] == [0, 1, 4, 2, 3, 5]
    parents = [
        night.git("log", "-1", "--format=%P", f"{LEDGER}~{place}").split()[1:] for place in reversed(range(len(rows)))
    ]
    moved, conflict = rows[4]["attempts"][1], rows[5]["attempts"][0]
    assert [row["commit_hash"] for row in rows[:4]] == [names[0] for names in parents[:4]]
    assert parents[4:] == [[rows[4]["commit_hash"], moved["commit_hash"]], [conflict["commit_hash"]]]
    assert "base_commit_hash" not in json.dumps(rows[4]["attempts"][0]) and rows[5]["commit_hash"] is None


def test_audit_finds_nothing_and_the_last_commits_come_back_with_all_their_parents(night: Project) -> None:
    assert night.check("audit").splitlines()[-1] == f"{len(night.records())} records, 0 differences; seals checked"
    names = night.git("rev-list", "--first-parent", "--max-count=2", LEDGER).splitlines()
    for name in names:
        (night.top / ".git/objects" / name[:2] / name[2:]).unlink()
    assert night.check("audit", "--rebuild").splitlines()[-1].startswith(f"{len(night.records())} records, 0 diff")
    assert {night.git("cat-file", "-t", name) for name in names} == {"commit"}


def test_audit_names_what_no_climb_side_by_side_leaves(night: Project) -> None:
    moved, off_tip = Attempt("1" * 40, "moved", base_commit_hash="2" * 40), "the candidate's parent is not the tip"
    alone, off_incumbent = {"benches": None, "host": None}, "the candidate's parent is not the incumbent"
    wrong: list[tuple[str, dict[str, object], set[str]]] = [
        ("reverted worse", {"iteration": 4}, {"the iteration was recorded before"}),
        ("reverted worse", {"base_commit_hash": "1" * 40}, {off_incumbent}),
        ("reverted worse", {"attempts": (moved,)}, {"a commit is missing"}),
        ("reverted worse", alone, {off_tip, off_incumbent}),
        ("kept better", {}, {off_tip, off_incumbent}),
    ]
    first = night.iterations()[1]["commit_hash"]
    with writing(night) as writer:
        commit = writer.commit(9, first, 1.5)
        places = [
            writer.add(9 + more, label, commit, first, **change).seq for more, (label, change, _) in enumerate(wrong)
        ]
        commits = night.git("rev-list", "--first-parent", LEDGER).splitlines()
    found = [json.loads(line) for line in night.run("audit", "--json").stdout.splitlines()]
    for place, (label, change, expected) in zip(places, wrong, strict=True):
        wheres = f"record {place}", commits[places[-1] - place]
        named = {row["what"] for row in found if any(where in row["where"] for where in wheres)}
        assert expected <= named, (label, change)


def test_audit_names_a_moved_version_of_another_iteration_or_on_another_tip(night: Project) -> None:
    first, _, second = (night.iterations()[place]["commit_hash"] for place in (1, 3, 2))
    with writing(night) as writer:
        other = Attempt(writer.commit(8, second, 1.5), "conflict", base_commit_hash=first)
        writer.add(9, "skipped conflict", None, writer.tip, attempts=(other,))
    found = [json.loads(line) for line in night.run("audit", "--json").stdout.splitlines()]
    where = f"earlier try {other.commit_hash}"
    assert [(row["where"], row["what"]) for row in found] == [
        (where, "another parent than recorded"),
        (where, "another trailer Goalseek-Iteration"),
    ]


def test_a_stack_takes_what_was_tried_on_the_present_tip_and_leaves_out_what_landed_between(night: Project) -> None:
    with writing(night) as writer:
        third, second = writer.tip, night.iterations()[2]["commit_hash"]
        for number, parent in ((7, third), (6, second), (8, third)):
            writer.add(number, "reverted worse", writer.commit(number, parent, number / 10), parent)
        ledger = writer.ledger
        standing, project = ledger.standing, SimpleNamespace(ledger=ledger)
        iteration = SimpleNamespace(standing=standing, incumbent=standing.incumbent, project=project)
        assert [record.iteration for record in _records_of_tip(iteration)] == [8, 7, 5]  # type: ignore[arg-type]


def test_the_standing_after_each_record_is_known_later_too(night: Project) -> None:
    with writing(night) as writer:
        writer.add(6, "skipped no_change", None, writer.tip)
        standings = [*accumulate(writer.ledger.history.records(), Standing.after, initial=Standing())]
        assert [writer.ledger.standing_at(standing.seq) for standing in standings] == standings
