"""Lanes, with the trees of one project under one configuration; and the history that an agent is shown."""

from __future__ import annotations

import contextlib
from datetime import datetime

from goalseek.git.objects import Objects
from goalseek.git.trees import TreeUpdateContext
from goalseek.humanize import format_number
from goalseek.ledger.results_file import History
from goalseek.ledger.standing import Standing
from goalseek.manifest.loading import ManifestFile
from goalseek.records import IterationRecord
from goalseek.sandbox.policy import SandboxPolicy
from goalseek.sandbox.supervisor import Supervisor
from goalseek.values import Outcome, to_line
from goalseek.workspace.bench import Bench
from goalseek.workspace.checkout import TreePlan
from goalseek.workspace.places import BenchName, CachePaths
from goalseek.workspace.workspace import AgentCommit, Workspace


class Lane:
    """Where one iteration at a time is worked on: trees, and a supervisor of the programs that run in them.

    Each tree is made when it is first asked for, inside ``announce(root)``, a context manager, and all of them again
    where the plan has changed. ``policy`` is its sandbox policy, with the manifest that it was made from; ``slot`` is
    the number of its bench.
    """

    def __init__(self, places: CachePaths, objects: Objects, programs: Supervisor, slot: int = 0) -> None:
        self.places = places
        self.programs = programs
        self.policy: tuple[ManifestFile, SandboxPolicy] | None = None
        self.slot = slot
        self.announce: TreeUpdateContext = contextlib.nullcontext
        self._objects = objects
        self._plan_key = ""
        self._workspace: Workspace | None = None
        self._benches: dict[BenchName, Bench] = {}

    def workspace(self, plan: TreePlan) -> Workspace:
        """The agent's tree."""
        self._apply_plan(plan)
        if self._workspace is None:
            folder = self.places.workspace
            self._workspace = Workspace(folder, self._objects, plan, lambda root: self.announce(root))
        return self._workspace

    def bench(self, plan: TreePlan, name: BenchName) -> Bench:
        """A bench of the verifier."""
        self._apply_plan(plan)
        if name not in self._benches:
            folder = self.places.bench(name)
            self._benches[name] = Bench(folder, self._objects, plan, lambda root: self.announce(root))
        return self._benches[name]

    def _apply_plan(self, plan: TreePlan) -> None:
        key = plan.scope_key + to_line([plan.keep, plan.proposer])
        if self._plan_key != key:
            self.close_trees()
            self.places.home.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._plan_key = key

    def close_trees(self) -> None:
        """Stores the trees' state for the next process."""
        for tree in (self._workspace, *self._benches.values()):
            if tree:
                tree.close()
        self._workspace, self._benches, self._plan_key = None, {}, ""

    def close(self) -> None:
        """Stores the state of the trees, and ends the programs."""
        with contextlib.ExitStack() as callbacks:
            callbacks.callback(self.places.clear_scratch)
            callbacks.callback(self.close_trees)
            callbacks.callback(self.programs.close)


def agent_history(history: History, standing: Standing, label: str) -> list[AgentCommit]:
    """What this standing has that was kept in its epoch after the record of the number ``label``, oldest first."""
    assert standing.incumbent
    if label == str(standing.incumbent.seq):
        return []
    records: list[IterationRecord] = []
    for record in history.newest():
        if record.seq > standing.seq or not isinstance(record, IterationRecord) or record.epoch != standing.epoch:
            continue
        if record.outcome in (Outcome.KEPT, Outcome.BASELINE):
            records.append(record)
        if record.outcome == Outcome.BASELINE or str(record.seq) == label:
            break
    commits = []
    previous = ""
    for record in reversed(records):
        metric = record.metric
        assert record.tree_hash and metric.value is not None
        value = format_number(metric.value, metric.unit)
        if str(record.seq) != label:
            title = record.hypothesis_summary or f"Baseline of {record.project}"
            message = f"{title}\n\n{metric.name}: {value}{previous}\n"
            moment = int(datetime.fromisoformat(record.timestamp).timestamp())
            commits.append(AgentCommit(str(record.seq), record.tree_hash, message, moment))
        # The recorded value, which the commit before shows: the median that decided is a second one for the same code.
        previous = f" (was {value})"
    return commits
