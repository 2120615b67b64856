"""A drive: an agent, or a shell, that a person uses in the workspace and the sandbox, with goalseek at hand.

Its tree and HOME lie in a lane of their own, and no lock of the project is held: what is tried there waits under a ref
like any other try.
"""

import contextlib
import functools
import inspect
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct, structs

from goalseek import process
from goalseek.disk import add_own, closing, create
from goalseek.errors import UNFIT, GoalseekError
from goalseek.git.repository import Repository
from goalseek.ledger.results_file import History, load_standing
from goalseek.locks import open_lock, try_lock
from goalseek.manifest.loading import ManifestFile, base_of
from goalseek.manifest.tables import Manifest
from goalseek.project import config, tries
from goalseek.project.project import agent_history
from goalseek.proposal.call import credentials_of
from goalseek.proposal.door import Door
from goalseek.providers.coding_agent import AgentProvider
from goalseek.providers.credentials import Login
from goalseek.providers.registry import manifest_commands
from goalseek.providers.skills import skill_places, skill_text
from goalseek.sandbox import client
from goalseek.sandbox.environment import Redactor, program_environment, refuse_unconfined
from goalseek.sandbox.home import AgentHome
from goalseek.sandbox.policy import ProgramAccess, SandboxPolicy, policy_for
from goalseek.sandbox.terminal import run_in_own_terminal
from goalseek.values import short_digest, to_line
from goalseek.workspace.checkout import TreePlan
from goalseek.workspace.driven import Drive, DrivenTree
from goalseek.workspace.places import CachePaths, cache_paths
from goalseek.workspace.scope import Scope
from goalseek.workspace.workspace import Workspace

_SETTLED_SECONDS = 1.0  # a renewed login is whole then
# A shell's script and Python's: an interpreter's path may have a space, which the first line cannot say.
_CLIENT = """#!/bin/sh
'''exec' '{}' -IS "$0" "$@"
'''
{}"""


class Driving(Struct, frozen=True):
    """What a drive works with; ``manifest`` has the ruler's keys."""

    loaded: ManifestFile
    manifest: Manifest
    scope: Scope
    repository: Repository
    places: CachePaths
    policy: SandboxPolicy
    workspace: Workspace
    scope_key: str
    agent: AgentProvider | None
    login: Login

    def left(self, drive: Drive) -> list[str]:
        """Files whose edits were not kept, and other new ones."""
        try:
            tree = driven_tree(self.repository, self.manifest, self.scope, drive)
            return tries.untried(self.repository, self.scope, tries.driver_of(drive), tree) + tree.strays
        except GoalseekError as error:  # it holds a credential, or the tree is gone
            return [error.message] if self.workspace.root.is_dir() else []


def driven_tree(repository: Repository, manifest: Manifest, scope: Scope, drive: Drive) -> DrivenTree:
    add_own(drive.folder)
    return DrivenTree(repository, scope, drive, _secrets_of(manifest, drive).contains)


def _secrets_of(manifest: Manifest, drive: Drive) -> Redactor:
    secrets = credentials_of(manifest)
    secrets.add(process.inherited_variables(drive.variables).values())
    secrets.add_files(map(Path, drive.logins))
    return secrets


def run_drive(
    loaded: ManifestFile, repository: Repository, words: Sequence[str], agent: AgentProvider | None
) -> tuple[int, list[str]]:
    """Run a command line, or that of ``agent``, until it ends; its exit code, and the edits that are not kept.

    Raises GoalseekError without a baseline or a sandbox.
    """
    name = agent.name if agent else Path(words[0]).name
    manifest, scope, listing = config.pinned_view(loaded, repository)
    refuse_unconfined(manifest, name, runs_unasked=True)
    folder = base_of(loaded, repository.top)
    with _free_lane(loaded, repository) as places:
        policy = policy_for(loaded, repository.location, folder, places)
        links = {places.prefix + path: str((folder / path).resolve()) for path in manifest.scope.share}
        key = short_digest(to_line((manifest.scope, links, policy.mounts, listing)))
        plan = TreePlan(scope, key, (), links, policy.mounts, listing, None)
        workspace = Workspace(places.workspace, repository.objects, plan, lambda root: contextlib.nullcontext())
        login = agent.login() if agent else Login()
        driving = Driving(loaded, manifest, scope, repository, places, policy, workspace, key, agent, login)
        drive = _begin(driving, name)
        code = _run(driving, drive, name, words)
        left = driving.left(drive)
        structs.replace(drive, has_edits=bool(left)).save()
        return code, left


def _begin(driving: Driving, name: str) -> Drive:
    """The drive, with its tree at the incumbent; edits that an earlier one left go on."""
    repository, places, workspace = driving.repository, driving.places, driving.workspace
    stored, login = Drive.load(places.folder), driving.login
    if stored.commit and stored.has_edits and not repository.objects.has(stored.commit):
        hint = f"move {workspace.root} away, then again"
        raise GoalseekError("the workspace holds edits of a climb that is gone", hint, UNFIT)
    is_going_on = bool(stored.commit and driving.left(stored))
    earlier = stored if is_going_on else Drive(str(places.folder))
    drive = structs.replace(
        earlier,
        name=f"{places.folder.name} {name}",
        level=driving.policy.level.name,
        # Edits that go on may hold the login of the agent that made them.
        logins=tuple({*earlier.logins, *(str(file.real) for file in login.files)}),
        variables=tuple({*earlier.variables, *login.variables}),
        has_edits=True,  # if it is killed
        scope_key=driving.scope_key,
    )
    if is_going_on and stored.scope_key == driving.scope_key:
        drive.save()
        return drive
    standing = load_standing(driving.loaded)
    if standing.incumbent is None:
        raise GoalseekError("nothing is measured yet", "goalseek baseline, then again")
    stored_tree = driven_tree(repository, driving.manifest, driving.scope, stored)
    edits = stored_tree.screen().edits if is_going_on else {}
    Drive(str(places.folder), has_edits=True).save()  # after a kill no tree is taken for that of another commit
    workspace.sync_to(lambda label: agent_history(History(driving.loaded.results), standing, label))
    workspace.tree.save()
    workspace.tree.overlay(edits)
    drive = structs.replace(drive, commit=standing.incumbent.commit)
    if not is_going_on:  # else it is in step with the same commit as before: git merges what was kept since
        tries.mark_in_step(repository, tries.driver_of(drive).checkout, drive.commit, drive.commit)
    drive.save()
    return drive


def _run(driving: Driving, drive: Drive, name: str, words: Sequence[str]) -> int:
    places, policy, login, agent = driving.places, driving.policy, driving.login, driving.agent
    root, programs = driving.workspace.root, places.folder / "bin"
    own_command, own_variables = agent.command_in_sandbox() if agent else ([], {})
    command = [*words] or own_command
    get_secrets = functools.partial(_secrets_of, driving.manifest, drive)
    home = AgentHome(places.agent)
    files = {file.below_home: (file.real, policy.credential_at(file.real)) for file in login.files if file.below_home}
    skill = skill_text("goalseek").partition("\n## More")[0]  # the rest names commands that are not there
    texts = {str(path): skill for each, path in skill_places(Path()) if each == "goalseek"}
    if agent and not home.is_of(name):  # what it was answered in there stays
        texts |= agent.preset.first_start(str(policy.seen_at(root, root)), login.billing == "api")
    home.make(name, files, texts)
    with create(programs / "goalseek", 0o755) as file:
        file.write(_CLIENT.format(sys.executable, inspect.getsource(client)).encode())

    def look(door: Door) -> None:
        door.open()
        with contextlib.suppress(OSError):  # it is being replaced, or there is none
            renewed = [home.path / path for path in files if not (home.path / path).is_symlink()]
            if renewed and all(time.time() - path.stat().st_mtime > _SETTLED_SECONDS for path in renewed):
                home.make(name, files, {})  # it is the user's now, in the file that the sandbox shows

    try:
        with Door(driving.loaded, drive, get_secrets) as door:
            variables = {
                **process.inherited_variables((*login.variables, "COLORTERM")),
                **own_variables,
                "GOALSEEK_PROJECT_ROOT": str(policy.seen_at(root, root / places.prefix)),
                "GOALSEEK_SOCKET": str(policy.credential_at(door.path)),
                "GOALSEEK_TOKEN": door.token,
            }
            environment = program_environment(driving.manifest.env.agent, variables, places.scratch / "tmp")
            environment["PATH"] = os.pathsep.join([str(programs), environment["PATH"]])
            access = ProgramAccess(
                root,
                [command, [sys.executable], *manifest_commands(driving.loaded)],
                readable=(programs,),
                network=driving.manifest.sandbox.agent_network,
                terminal="own",
                home=home.path,
                credentials=(*(file.real for file in login.files), door.path),
            )
            launch = policy.launch(access, command, environment, root / places.prefix)
            return run_in_own_terminal(launch, functools.partial(look, door))
    finally:
        places.clear_scratch()
        home.collect_renewed_logins()
        try:
            home.redact(get_secrets())
        except OSError:  # a path that is too long to look at may hide a credential
            home.empty()


@contextlib.contextmanager
def _free_lane(loaded: ManifestFile, repository: Repository) -> Iterator[CachePaths]:
    """A lane that no other drive has, for this block: one where edits were left, or else the first."""
    places = cache_paths(repository.location, base_of(loaded, repository.top), repository.name)
    add_own(places.home)
    lanes = [places.beside(f"drive-{number}") for number in range(1, len([*places.home.glob("drive-*")]) + 2)]
    for lane in sorted(lanes, key=lambda lane: not Drive.load(lane.folder).has_edits):
        with closing(open_lock(repository.own / f"{lane.folder.name}.lock")) as descriptor:
            if try_lock(descriptor):
                lane.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                yield lane
                return
    raise GoalseekError("other drives have begun meanwhile", "run the same command again", UNFIT)
