"""The trees of one project under one configuration: the workspace, the benches."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from goalseek.git.ignore import matcher
from goalseek.git.objects import Entry, Objects, TreeUpdateContext
from goalseek.humanize import format_number
from goalseek.ledger.records import IterationRecord
from goalseek.ledger.results_file import History
from goalseek.ledger.standing import Standing
from goalseek.project.config import Config
from goalseek.values import Outcome, to_line
from goalseek.workspace import hidden_files
from goalseek.workspace.bench import Bench
from goalseek.workspace.places import BenchName, CachePaths
from goalseek.workspace.scan import Listing
from goalseek.workspace.scope import Scope
from goalseek.workspace.workspace import AgentCommit, Workspace


@dataclass(frozen=True)
class TreePlan:
    """What the trees are made from. ``links`` are the shared folders: path in a tree to path on disk.

    Where ``mounts``, these are mounted on their paths, not linked. ``keep`` are the patterns of what outlives a
    command; ``hidden_folder`` is where the files of ``hidden_from`` are read.
    """

    scope: Scope
    scope_key: str
    keep: tuple[str, ...]
    links: dict[str, str]
    mounts: bool
    hidden_from: Listing
    hidden_folder: Path | None


def plan_trees(config: Config, mounts: bool, folder: Path) -> TreePlan:
    """What the trees of a configuration are made from. ``folder`` is the manifest's."""
    manifest = config.manifest
    return TreePlan(
        config.scope,
        config.scope_key,
        tuple(pattern for command in manifest.verify for pattern in command.keep),
        config.links,
        mounts,
        config.hidden_from,
        hidden_files.folder_of(folder, manifest),
    )


class ProjectTrees:
    """Makes each tree when it is first asked for, and all of them again where the plan has changed.

    Each is made inside ``announce(root)``, a context manager.
    """

    def __init__(
        self, places: CachePaths, objects: Objects, announce: TreeUpdateContext = contextlib.nullcontext
    ) -> None:
        self._places = places
        self._objects = objects
        self._announce = announce
        self._plan_key = ""
        self._workspace: Workspace | None = None
        self._benches: dict[BenchName, Bench] = {}
        self._acquired: set[BenchName] = set()

    def workspace(self, plan: TreePlan) -> Workspace:
        """The agent's tree."""
        self._apply_plan(plan)
        if self._workspace is None:
            links = {} if plan.mounts else plan.links
            is_seen, mounted_paths = plan.scope.seen_by("agent"), _mounted_paths(plan)
            folder = self._places.workspace
            self._workspace = Workspace(
                folder, self._objects, is_seen, plan.scope_key, links, mounted_paths, self._announce
            )
        return self._workspace

    @contextlib.contextmanager
    def bench(self, plan: TreePlan, name: BenchName) -> Iterator[Bench]:
        """A bench that nobody else has until this block ends. Raises RuntimeError where somebody has it."""
        if name in self._acquired:
            raise RuntimeError(f"bench {name} is in use")
        self._apply_plan(plan)
        if name not in self._benches:
            self._benches[name] = self._make_bench(plan, name)
        self._acquired.add(name)
        try:
            yield self._benches[name]
        finally:
            self._acquired.remove(name)

    def close(self) -> None:
        """Stores the trees' state for the next process."""
        if self._workspace:
            self._workspace.close()
        for bench in self._benches.values():
            bench.close()
        self._workspace, self._benches, self._plan_key = None, {}, ""

    def _apply_plan(self, plan: TreePlan) -> None:
        key = plan.scope_key + to_line(plan.keep)
        if self._plan_key == key:
            return
        self.close()
        self._places.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._plan_key = key

    def _make_bench(self, plan: TreePlan, name: BenchName) -> Bench:
        prefix, is_kept = self._places.prefix, matcher(plan.keep)
        return Bench(
            self._places.bench(name),
            self._objects,
            plan.scope,
            plan.scope_key,
            {} if plan.mounts else plan.links,
            (lambda path: path.startswith(prefix) and is_kept(path[len(prefix) :])) if plan.keep else None,
            _mounted_paths(plan),
            hidden_files.as_entries(plan.hidden_from, prefix),
            _hidden_file_reader(plan, prefix),
            self._announce,
        )


def _mounted_paths(plan: TreePlan) -> frozenset[str]:
    return frozenset(plan.links if plan.mounts else ())


def _hidden_file_reader(plan: TreePlan, prefix: str) -> Callable[[str, Entry], bytes]:
    def read(path: str, expected: Entry) -> bytes:
        assert plan.hidden_folder
        return hidden_files.content_of(plan.hidden_folder, path[len(prefix) :], expected)

    return read


def agent_history(history: History, standing: Standing, label: str) -> list[AgentCommit]:
    """What was kept in this epoch after the record with the sequence number ``label``, oldest first."""
    assert standing.incumbent
    if label == str(standing.incumbent.seq):
        return []
    commits: list[AgentCommit] = []
    for record in history.newest():
        if str(record.seq) == label:
            break
        if not isinstance(record, IterationRecord) or record.epoch != standing.epoch:
            continue
        if record.outcome in (Outcome.KEPT, Outcome.BASELINE):
            commits.append(_agent_commit(record))
        if record.outcome == Outcome.BASELINE:
            break
    return commits[::-1]


def _agent_commit(record: IterationRecord) -> AgentCommit:
    metric = record.metric
    assert record.tree_hash and metric.value is not None
    title = record.hypothesis_summary or f"Baseline of {record.project}"
    previous = f" (was {format_number(metric.incumbent)})" if metric.incumbent is not None else ""
    moment = int(datetime.fromisoformat(record.timestamp).timestamp())
    return AgentCommit(
        str(record.seq),
        record.tree_hash,
        f"{title}\n\n{metric.name}: {format_number(metric.value)}{previous}\n",
        moment,
    )
