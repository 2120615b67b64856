"""The trees of one project under one configuration, and the lanes in which there are such trees."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path

from goalseek.git.objects import Objects
from goalseek.git.trees import TreeUpdateContext
from goalseek.humanize import format_number
from goalseek.ledger.results_file import History
from goalseek.ledger.standing import Standing
from goalseek.manifest.loading import ManifestFile
from goalseek.project.config import Config
from goalseek.records import IterationRecord
from goalseek.sandbox.policy import SandboxPolicy
from goalseek.sandbox.supervisor import Supervisor
from goalseek.values import Outcome, to_line
from goalseek.workspace import hidden_files
from goalseek.workspace.bench import Bench
from goalseek.workspace.checkout import TreePlan
from goalseek.workspace.places import BenchName, CachePaths
from goalseek.workspace.workspace import AgentCommit, Workspace


class ProjectTrees:
    """Makes each tree when it is first asked for, and all of them again where the plan has changed.

    Each is made inside ``announce(root)``, a context manager.
    """

    def __init__(self, places: CachePaths, objects: Objects) -> None:
        self._places = places
        self._objects = objects
        self.announce: TreeUpdateContext = contextlib.nullcontext
        self._plan_key = ""
        self._workspace: Workspace | None = None
        self._benches: dict[BenchName, Bench] = {}
        self._acquired: set[BenchName] = set()

    def workspace(self, plan: TreePlan) -> Workspace:
        """The agent's tree."""
        self._apply_plan(plan)
        if self._workspace is None:
            self._workspace = Workspace(self._places.workspace, self._objects, plan, self._announce_tree)
        return self._workspace

    @contextlib.contextmanager
    def bench(self, plan: TreePlan, name: BenchName) -> Iterator[Bench]:
        """A bench that nobody else has until this block ends. Raises RuntimeError where somebody has it."""
        if name in self._acquired:
            raise RuntimeError(f"bench {name} is in use")
        self._apply_plan(plan)
        if name not in self._benches:
            self._benches[name] = Bench(self._places.bench(name), self._objects, plan, self._announce_tree)
        self._acquired.add(name)
        try:
            yield self._benches[name]
        finally:
            self._acquired.remove(name)

    def _announce_tree(self, root: Path) -> AbstractContextManager[object]:
        return self.announce(root)

    def close(self) -> None:
        """Stores the trees' state for the next process."""
        if self._workspace:
            self._workspace.close()
        for bench in self._benches.values():
            bench.close()
        self._workspace, self._benches, self._plan_key = None, {}, ""

    def _apply_plan(self, plan: TreePlan) -> None:
        key = plan.scope_key + to_line([plan.keep, plan.proposer])
        if self._plan_key == key:
            return
        self.close()
        self._places.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._plan_key = key


class Lane:
    """Where one iteration at a time is worked on: trees, and a supervisor of the programs that run in them.

    ``policy`` is its sandbox policy, with the manifest that it was made from; ``slot`` is the number of its bench.
    """

    def __init__(self, places: CachePaths, objects: Objects, programs: Supervisor, slot: int = 0) -> None:
        self.places = places
        self.programs = programs
        self.trees = ProjectTrees(places, objects)
        self.policy: tuple[ManifestFile, SandboxPolicy] | None = None
        self.slot = slot

    def close(self) -> None:
        """Stores the state of the trees, and ends the programs."""
        with contextlib.ExitStack() as callbacks:
            callbacks.callback(self.places.clear_scratch)
            callbacks.callback(self.trees.close)
            callbacks.callback(self.programs.close)


def plan_trees(config: Config, mounts: bool, folder: Path) -> TreePlan:
    """The plan of the trees under a configuration; ``folder`` is the manifest's."""
    return TreePlan(
        config.scope,
        config.scope_key,
        tuple(pattern for command in config.manifest.verify for pattern in command.keep),
        config.links,
        mounts,
        config.hidden_from,
        hidden_files.folder_of(folder, config.manifest),
        config.proposer,
    )


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
    oldest_first = records[::-1]
    commits = map(_agent_commit, oldest_first, [None, *oldest_first])
    return [commit for commit in commits if commit.label != label]


def _agent_commit(record: IterationRecord, before: IterationRecord | None) -> AgentCommit:
    metric = record.metric
    assert record.tree_hash and metric.value is not None
    title = record.hypothesis_summary or f"Baseline of {record.project}"
    # The recorded value, which the commit before shows: the median that decided is a second number for the same code.
    value_before = before.metric.value if before else None
    previous = "" if value_before is None else f" (was {format_number(value_before, metric.unit)})"
    moment = int(datetime.fromisoformat(record.timestamp).timestamp())
    return AgentCommit(
        str(record.seq),
        record.tree_hash,
        f"{title}\n\n{metric.name}: {format_number(metric.value, metric.unit)}{previous}\n",
        moment,
    )
