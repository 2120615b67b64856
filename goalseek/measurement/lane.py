"""A lane: the trees of one iteration at a time, and the supervisor of the programs that work in them."""

import contextlib

from goalseek.git.objects import Objects
from goalseek.manifest.loading import ManifestFile
from goalseek.sandbox.policy import SandboxPolicy
from goalseek.sandbox.supervisor import Supervisor
from goalseek.workspace.bench import Bench
from goalseek.workspace.checkout import TreePlan, TreeUpdateContext
from goalseek.workspace.places import BenchName, CachePaths
from goalseek.workspace.workspace import Workspace


class Lane:
    """The trees of one iteration at a time, made on first use or for a changed plan, and their programs' supervisor."""

    def __init__(self, places: CachePaths, objects: Objects, programs: Supervisor, slot: int = 0) -> None:
        self.places = places
        self.programs = programs
        self.policy: tuple[ManifestFile, SandboxPolicy] | None = None  # with the manifest that it was made from
        self.slot = slot  # the number of its bench
        self.is_held = False  # by an iteration of several
        self.announce: TreeUpdateContext = contextlib.nullcontext
        self._objects = objects
        self._plan_key: tuple[object, ...] = ()
        self._workspace: Workspace | None = None
        self._benches: dict[BenchName, Bench] = {}

    def workspace(self, plan: TreePlan) -> Workspace:
        self._apply_plan(plan)
        if self._workspace is None:
            folder = self.places.workspace
            self._workspace = Workspace(folder, self._objects, plan, lambda root: self.announce(root))
        return self._workspace

    def bench(self, plan: TreePlan, name: BenchName) -> Bench:
        self._apply_plan(plan)
        if name not in self._benches:
            folder = self.places.bench(name)
            home = self.places.home
            self._benches[name] = Bench(folder, self._objects, plan, lambda root: self.announce(root), home)
        return self._benches[name]

    def _apply_plan(self, plan: TreePlan) -> None:
        key = (plan.scope_key, plan.keep, plan.proposer)
        if self._plan_key != key:
            self.close_trees()
            self.places.home.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._plan_key = key

    def close_trees(self) -> None:
        for tree in (self._workspace, *self._benches.values()):
            if tree:
                tree.close()
        self._workspace, self._benches, self._plan_key = None, {}, ()

    def close(self) -> None:
        with contextlib.ExitStack() as callbacks:
            callbacks.callback(self.places.clear_scratch)
            callbacks.callback(self.close_trees)
            callbacks.callback(self.programs.close)
