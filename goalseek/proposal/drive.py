"""A drive: an agent, or a shell, that a person uses in the workspace and the sandbox, with goalseek at hand.

Its tree and HOME lie in a lane of their own, and no lock of the project is held: what is tried there waits under a ref
like any other try. In the sandbox ``goalseek`` asks through a socket, and is told what an agent may know.
"""

import contextlib
import hashlib
import inspect
import json
import os
import select
import shlex
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from goalseek import process
from goalseek.disk import add_own, create, remove_if_exists
from goalseek.errors import USAGE, GoalseekError
from goalseek.git.repository import Repository
from goalseek.ledger.results_file import History, load_standing
from goalseek.locks import open_lock, try_lock
from goalseek.manifest.loading import ManifestFile, base_of
from goalseek.manifest.tables import Manifest
from goalseek.project import opening, tries
from goalseek.project.project import agent_history
from goalseek.proposal.call import credentials_of
from goalseek.providers.coding_agent import AgentProvider
from goalseek.providers.credentials import Login
from goalseek.providers.registry import manifest_commands
from goalseek.providers.skills import skill_places, skill_text
from goalseek.sandbox import client
from goalseek.sandbox.environment import Redactor, program_environment, refuse_unconfined
from goalseek.sandbox.home import AgentHome
from goalseek.sandbox.policy import ProgramAccess, policy_for
from goalseek.sandbox.terminal import run_in_own_terminal
from goalseek.values import to_line
from goalseek.workspace.checkout import TreePlan
from goalseek.workspace.driven import Drive, DrivenTree
from goalseek.workspace.places import CachePaths, cache_paths
from goalseek.workspace.scope import Scope
from goalseek.workspace.workspace import Workspace

_ASKED_OUTSIDE = ("try", "wait", "brief", "direct")
_READ_FROM_BRIEF = ("status", "log", "show")
_OPTIONS = "--why --wait --from --to --restore --exit-code --json --query".split()
_REQUEST_BYTES = 64 * 1024
_REQUEST_SECONDS = 10.0


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
    """Run a command line, of ``agent`` if that is one, until it ends; its exit code, and the files not tried yet.

    Raises GoalseekError without a baseline or a sandbox.
    """
    name = agent.name if agent else Path(words[0]).name
    manifest, scope, listing = opening.pinned_view(loaded, repository)
    refuse_unconfined(manifest, name, runs_unasked=True)
    login, folder = agent.login() if agent else Login(), base_of(loaded, repository.top)
    with _free_lane(loaded, repository) as places:
        policy = policy_for(loaded, repository.location, folder, places)
        links = {places.prefix + path: str((folder / path).resolve()) for path in manifest.scope.share}
        key = hashlib.sha256(to_line((manifest.scope, links, policy.mounts, listing)).encode()).hexdigest()[:16]
        plan = TreePlan(scope, key, (), links, policy.mounts, listing, None)
        workspace = Workspace(places.workspace, repository.objects, plan, lambda root: contextlib.nullcontext())
        drive = structs.replace(
            Drive.load(places.folder),
            name=f"drive {name}",
            level=policy.level.name,
            logins=tuple(str(file.real) for file in login.files),
            variables=login.variables,
        )
        if drive.commit and _untried(repository, manifest, scope, drive):
            drive.save()  # an earlier drive left edits: they go on
        else:
            standing = load_standing(loaded)
            if standing.incumbent is None:
                raise GoalseekError("nothing is measured yet", "goalseek baseline, then again")
            workspace.sync_to(lambda label: agent_history(History(loaded.results), standing, label))
            workspace.tree.save()
            drive = structs.replace(drive, commit=standing.incumbent.commit)
            tries.begin_drive(repository, drive)
        home = AgentHome(places.agent)
        files = {file.below_home: (file.real, policy.credential_at(file.real)) for file in login.files}
        files.pop("", None)
        seen_folder = policy.seen_at(workspace.root, workspace.root / places.prefix)
        texts = {str(path): skill_text(skill) for skill, path in skill_places(Path()) if skill == "goalseek"}
        if agent:
            top = str(policy.seen_at(workspace.root, workspace.root))
            texts |= agent.preset.first_start(top, login.billing == "api")
        home.make(name, files, texts)
        with create(places.folder / "bin" / "goalseek", 0o755) as file:
            file.write(f"#!{sys.executable} -IS\n{inspect.getsource(client)}".encode())
        with _Door(loaded, manifest, drive) as door, contextlib.ExitStack() as stack:
            stack.callback(places.clear_scratch)
            variables = {
                **process.inherited_variables((*login.variables, "COLORTERM")),
                **(agent.variables_in_sandbox() if agent else {}),
                "GOALSEEK_PROJECT_ROOT": str(seen_folder),
                "GOALSEEK_SOCKET": str(policy.credential_at(door.path)),
            }
            environment = program_environment(manifest.env.agent, variables, places.scratch / "tmp")
            environment["PATH"] = os.pathsep.join([str(places.folder / "bin"), environment["PATH"]])
            access = ProgramAccess(
                workspace.root,
                [list(words), [sys.executable], *manifest_commands(loaded)],
                readable=(places.folder / "bin",),
                network=manifest.sandbox.agent_network,
                terminal="own",
                home=home.path,
                credentials=(*(file.real for file in login.files), door.path),
            )
            launch = policy.launch(access, words, environment, workspace.root / places.prefix)

            def look() -> None:
                if not all((home.path / path).is_symlink() for path in files):
                    # A login was renewed: it is the user's now, in the file that the sandbox shows, and linked again.
                    home.collect_renewed_logins(is_shared=True)
                    home.make(name, files, {})

            code = run_in_own_terminal(launch, look)
        home.collect_renewed_logins(is_shared=True)
        home.redact(_secrets_of(manifest, drive))
        return code, _untried(repository, manifest, scope, drive)


def _untried(repository: Repository, manifest: Manifest, scope: Scope, drive: Drive) -> list[str]:
    """Edited files since the tree was last in step, in the scope or not."""
    try:
        return tries.untried(repository, scope, tries.driver_of(drive), driven_tree(repository, manifest, scope, drive))
    except GoalseekError as error:  # it holds a credential, or the tree is gone
        return [error.message] if (drive.folder / "workspace").is_dir() else []


@contextlib.contextmanager
def _free_lane(loaded: ManifestFile, repository: Repository) -> Iterator[CachePaths]:
    """The first lane that no other drive has, for this block."""
    places = cache_paths(repository.location, base_of(loaded, repository.top), repository.name)
    add_own(places.home)
    number = 1
    while not try_lock(lock := open_lock(repository.own / f"drive-{number}.lock")):
        os.close(lock)
        number += 1
    try:
        (lane := places.beside(f"drive-{number}")).folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        yield lane
    finally:
        os.close(lock)


class _Door(contextlib.AbstractContextManager["_Door"]):
    """Answers the ``goalseek`` of the sandbox, one request after the other, in a thread of its own.

    A request is a command line as JSON, at most 64 KiB; nothing in it names a path outside.
    """

    def __init__(self, loaded: ManifestFile, manifest: Manifest, drive: Drive) -> None:
        self._manifest = manifest
        self.path = drive.folder / "socket"
        self._loaded = loaded
        self._drive = drive
        self._listener = socket.socket(socket.AF_UNIX)
        remove_if_exists(self.path)
        folder = os.open(drive.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._listener.bind(f"/proc/self/fd/{folder}/socket")  # the name of a socket may have 107 bytes
        finally:
            os.close(folder)
        self._listener.listen()
        self._is_over = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._listener.shutdown(socket.SHUT_RDWR)  # who accepts from it is woken
        self._thread.join()
        self._listener.close()
        remove_if_exists(self.path)

    def _serve(self) -> None:
        while True:
            try:
                channel, _ = self._listener.accept()
            except OSError:  # over
                return
            with channel, contextlib.suppress(OSError):  # who asked has gone
                channel.settimeout(_REQUEST_SECONDS)
                request = b""
                while len(request) <= _REQUEST_BYTES and (part := channel.recv(65536)):
                    request += part
                channel.settimeout(None)
                channel.sendall(json.dumps(self._answer(request, channel)).encode())

    def _answer(self, request: bytes, channel: socket.socket) -> tuple[int, str, str]:
        """Exit code, standard output and error."""
        try:
            words = json.loads(request) if len(request) <= _REQUEST_BYTES else None
        except (ValueError, RecursionError):
            words = None
        if not isinstance(words, list) or not all(isinstance(word, str) and "\0" not in word for word in words):
            return USAGE, "", "goalseek: a request is a list of at most 64 KiB of words\n"
        secrets = _secrets_of(self._manifest, self._drive)
        words = [secrets.redact_text(word) for word in words]
        name, *rest = words or [""]
        commands = (*_ASKED_OUTSIDE, *_READ_FROM_BRIEF)
        if name not in commands or any(word.startswith("-") and word.split("=")[0] not in _OPTIONS for word in rest):
            return USAGE, "", f"goalseek: here are {', '.join(commands)}, with {', '.join(_OPTIONS)}\n"
        if name in _ASKED_OUTSIDE:
            return self._run(words, channel)
        code, printed, said = self._run(["--json", "brief"], channel)
        if code:
            return code, printed, said
        return _tell_from_brief(json.loads(printed), name, rest)

    def _run(self, words: list[str], channel: socket.socket) -> tuple[int, str, str]:
        """A command of goalseek's own, outside; it is ended if who asked has gone, and a try goes on."""
        arguments = [sys.executable, "-m", "goalseek", "-m", str(self._loaded.path), *words]
        variables = {**process.environment_without("GOALSEEK_"), tries.DRIVE_VARIABLE: str(self._drive.folder)}
        gone = select.poll()
        gone.register(channel, 0)
        done = process.run_while(lambda: not (self._is_over or gone.poll(0)), arguments, variables, self._loaded.folder)
        given = f" -m {shlex.quote(str(self._loaded.path))}"  # commands that are named lack it inside, as all do there
        printed, said = (text.decode("utf-8", "replace").replace(given, "") for text in (done.stdout, done.stderr))
        return done.returncode, printed, said


def _tell_from_brief(brief: dict[str, Any], name: str, rest: Sequence[str]) -> tuple[int, str, str]:
    """What ``status``, ``log`` and ``show N`` tell an author: the brief's part of it, no output of a hidden command."""
    rows = {str(row["iteration"]): row for row in reversed(brief["history"])}
    metric, left = brief["metric"]["name"], ", ".join(f"{amount} {what}" for what, amount in brief["left"].items())
    answer: Any = {key: brief[key] for key in ("metric", "incumbent", "baseline", "best", "left", "under_way")}
    text = f"{metric} {brief['incumbent']} is to beat; {brief['baseline']} at the baseline; best {brief['best']}\n"
    text += f"left of the budget: {left}\n" if left else ""
    if name == "log":
        answer = list(rows.values())
        text = "".join(f"{row['iteration']:>5} {row['outcome']:<9} {row['value']} {row['title']}\n" for row in answer)
    elif name == "show":
        number = next((word for word in rest if not word.startswith("-")), next(reversed(rows), ""))
        if number not in rows:
            return USAGE, "", f"goalseek: there is no try {number}\n"
        answer = rows[number]
        text = "".join(f"{key}: {value}\n" for key, value in answer.items() if value not in (None, "", []))
    return 0, json.dumps(answer) + "\n" if "--json" in rest else text, ""
