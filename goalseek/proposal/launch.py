"""Where an agent's program is started: in its tree, with its prompt, its HOME and its login, and nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from goalseek.disk import refuse_full
from goalseek.locks import exclusive_lock
from goalseek.manifest.tables import Manifest
from goalseek.own_folders import clear, make_anew
from goalseek.phase_values import Session
from goalseek.project.project import Project
from goalseek.proposal.brief import in_json
from goalseek.proposal.usage import UsageLog
from goalseek.providers.credentials import Login
from goalseek.providers.provider import LaunchSpec
from goalseek.sandbox.environment import credentials_of, passed_credentials, program_environment
from goalseek.sandbox.home import AgentHome
from goalseek.sandbox.pipes import HeadAndTail
from goalseek.sandbox.policy import ProgramAccess
from goalseek.sandbox.redaction import Redactor
from goalseek.sandbox.supervisor import ProgramResult
from goalseek.workspace.places import cache_folder


@dataclass(frozen=True)
class AgentLaunch:
    """One call's place. ``folder`` is the manifest's in ``tree``; ``label`` says for what a HOME lasts.
    A reviewer's is another than the author's.

    ``given`` are the variables of the contract that are known before. A program that it starts is among ``calls``
    before it starts, under the name of ``phase``.
    """

    run: Project
    manifest: Manifest
    tree: Path
    folder: Path
    label: str
    prompt: str
    brief: dict[str, Any]
    given: Mapping[str, str]
    phase: str
    calls: UsageLog | None = None
    secrets: Redactor = field(default_factory=Redactor)
    is_review: bool = False

    @property
    def files(self) -> Path:
        """The folder of prompt, brief and usage of this call."""
        return self.run.places.call

    @property
    def home(self) -> AgentHome:
        """The HOME that lasts for an iteration."""
        places = self.run.places
        return AgentHome(places.reviewer if self.is_review else places.agent)

    def session(self, name: str, model: str) -> Session | None:
        """The session of the last call under this name, where its HOME is still there and the model is the same."""
        found = self.calls.session(self._label(name)) if self.calls and self.home.is_of(self._label(name)) else None
        return found if found and found.model == model else None

    def read_home(self, name: str, path: str) -> str:
        """A file of that HOME, without credentials; "" where there is none."""
        with contextlib.suppress(OSError):
            if self.home.is_of(self._label(name)):
                return self.secrets.redact(self.home.read(path)).decode("utf-8", "replace")
        return ""

    def start(self, asked: LaunchSpec) -> ProgramResult:
        """Runs the program to its end. What it printed is given, and shown as it comes, without credentials."""
        run, confines = self.run, self.run.confines
        self._write_files()
        variables = credentials_of(asked.login.variables)
        given = {
            "GOALSEEK_PROJECT_ROOT": str(confines.seen_at(self.tree, self.folder)).rstrip("/"),
            "GOALSEEK_PROMPT": str(self.files / "prompt.md"),
            "GOALSEEK_BRIEF": str(self.files / "brief.json"),
            "GOALSEEK_USAGE": str(self.files / "usage.json"),
            **self.given,
        }
        temporary = run.places.scratch / "tmp"
        environment = program_environment(self.manifest.env.agent, {**variables, **asked.variables, **given}, temporary)
        self.secrets.add_variables({**variables, **passed_credentials(self.manifest.env.agent)})
        self.secrets.add_files(file.real for file in asked.login.files)
        with self._login(asked):
            job = self._job(asked)
            stands_in = self._placeholder_files(job)
            ready = confines.launch(job, asked.arguments, environment, self.folder)
            shown = self.secrets.stream(run.watch.on_output)
            if self.calls:
                self.calls.begin(self.phase, self._label(asked.home))
            try:
                finished = run.programs.run(
                    ready.arguments,
                    ready.folder,
                    ready.environment,
                    HeadAndTail(),
                    asked.timeout,
                    self.prompt.encode("utf-8", "replace") if asked.has_input else b"",
                    shown,
                    ready.is_cage,
                    ready.restriction,
                    asked.kept_bytes,
                )
                shown(b"")
            finally:
                for place in stands_in if confines.mounts else ():  # the empty file on which the program was mounted
                    clear(place)
        if self.calls:
            self.calls.ended(finished.killed, finished.timed_out)
        refuse_full(self.files)  # half an edit is no proposal
        hidden = self.secrets.redact
        return replace(finished, stdout=hidden(finished.stdout), stderr=hidden(finished.stderr))

    def _write_files(self) -> None:
        make_anew(self.files)
        (self.files / "usage.json").touch()
        (self.files / "prompt.md").write_text(self.prompt, encoding="utf-8", errors="replace")
        (self.files / "brief.json").write_text(self.secrets.hidden_text(in_json(self.brief)))

    def _label(self, name: str) -> str:
        return f"{self.label} {name}"

    def _job(self, asked: LaunchSpec) -> ProgramAccess:
        named = asked.named or asked.arguments
        return ProgramAccess(
            tree=self.tree,
            commands=[list(named)],
            readable=(self.files / "prompt.md", self.files / "brief.json", *self._in_checkout(asked)),
            writable=(self.files / "usage.json",),
            network=self.manifest.sandbox.agent_network,
            home=self.home.path if asked.home or asked.login.files else None,
            credentials=tuple(file.real for file in asked.login.files),
        )

    def _in_checkout(self, asked: LaunchSpec) -> tuple[Path, ...]:
        """The agent's own program where it is a file of the user's checkout: it is run, not the workspace's."""
        program = Path(asked.arguments[0])
        return (program,) if program.is_relative_to(self.run.confines.top) and program.is_file() else ()

    def _placeholder_files(self, job: ProgramAccess) -> list[Path]:
        top = self.run.confines.top
        own = [path.relative_to(top) for path in job.readable if path.is_relative_to(top)]
        return [place for path in own if not (place := self.tree / path).exists()]

    @contextlib.contextmanager
    def _login(self, asked: LaunchSpec) -> Iterator[None]:
        """The HOME, with the login in it, which nobody else uses while this block lasts."""
        if not asked.home and not asked.login.files:
            yield
            return
        run, home = self.run, self.home
        with contextlib.ExitStack() as locks:
            for name in sorted(str(file.real) for file in asked.login.files):
                folder = cache_folder() / "logins"
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                doing = "is at work with that login"
                locks.enter_context(exclusive_lock(name, run.waiting, run.picture.beat, folder, doing))
            home.make(self._label(asked.home), self._links(asked.login), asked.home_files)
            try:
                yield
            finally:
                self.secrets.add_files(home.path / file.below_home for file in asked.login.files if file.below_home)
                self.secrets.add_files(file.real for file in asked.login.files)
                home.collect_renewed_logins()

    def _links(self, login: Login) -> dict[str, tuple[Path, Path]]:
        seen = self.run.confines.credential_at
        return {file.below_home: (file.real, seen(file.real)) for file in login.files if file.below_home}
