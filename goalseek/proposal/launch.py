"""Launching an agent's program: in its tree, sandboxed, with its prompt, its HOME and its login, and nothing else.

Credentials are redacted from all that it prints before anybody sees it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, field, structs

from goalseek.disk import refuse_full
from goalseek.errors import GoalseekError, LimitReached
from goalseek.locks import exclusive_lock
from goalseek.manifest.tables import FRESH, Manifest
from goalseek.own_folders import recreate_folder, remove_if_exists
from goalseek.phase_values import Context, Session
from goalseek.process import inherited_variables
from goalseek.project.project import Project
from goalseek.proposal.brief import as_json
from goalseek.proposal.usage import CallEntry, UsageLog
from goalseek.proposal.watch import CallWatch
from goalseek.providers.answer import read_usage
from goalseek.providers.preset import Printed
from goalseek.providers.provider import Call, CallHost, LaunchSpec
from goalseek.sandbox.environment import credentials_in_manifest, program_environment
from goalseek.sandbox.home import AgentHome
from goalseek.sandbox.policy import ProgramAccess
from goalseek.sandbox.redaction import Redactor
from goalseek.sandbox.supervisor import ProgramResult, was_killed
from goalseek.sandbox.view import Launch
from goalseek.values import Phase, Usage
from goalseek.workspace.places import CachePaths, cache_folder


def forget_calls(*lanes: CachePaths) -> None:
    """Removes what is left of calls that nobody resumes: agents write their credentials into HOME and other files."""
    for lane in lanes:
        with contextlib.suppress(OSError):  # a login that cannot be put back now stays there for the next invocation
            for folder in (lane.agent, lane.reviewer):
                AgentHome(folder).empty()
            remove_if_exists(lane.call)


class AgentLaunch(CallHost, Struct):
    """How the program of one call is started: tree, HOME, prompt file, environment.

    HOME is reused while ``label`` is equal; reviewer and author have different ones. ``phase`` is what is asked for. A
    program is written to ``usage_log`` before it starts, and may then be ended by a limit.
    """

    project: Project
    manifest: Manifest
    tree: Path
    label: str
    prompt: str
    brief: dict[str, Any]
    context: Context
    phase: str
    nonce: str
    usage_log: UsageLog | None = None
    secrets: Redactor = field(default_factory=Redactor)

    def call(self, **more: Any) -> Call:
        """The call for this program; ``more`` are its fields that have nothing to do with a program."""
        return Call(
            phase=self.phase,
            context=self.context,
            folder=self.folder,
            prompt=self.prompt,
            brief=self.brief,
            nonce=self.nonce,
            metric=self.manifest.metric.name,
            direction=self.manifest.metric.direction,
            host=self,
            usage_file=self.files / "usage.json",
            prompt_file=self.files / "prompt.md",
            home_at=self.project.confines.home_at(self.home.path),
            confined=self.project.confines.level.name != "none",
            search=self.manifest.sandbox.agent_search,
            secrets=self.secrets,
            **more,
        )

    @property
    def folder(self) -> Path:
        """The manifest's folder in the tree."""
        return self.tree / self.project.places.prefix

    @property
    def files(self) -> Path:
        """The folder of prompt, brief and usage of this call."""
        return self.project.places.call

    @property
    def home(self) -> AgentHome:
        """The agent's HOME, or the reviewer's."""
        return _home_of(self.project.places, is_reviewer=self.phase == "review")

    def session(self, name: str, model: str) -> Session | None:
        """The session of the last call under this name; None where its HOME is gone or the model was another one.

        In a turn of ``fresh``, only a reviewer has one, and a call that was cut off.
        """
        is_fresh = any(turn.endswith(f" {FRESH}") for turn in self.context.turn[:1])
        if is_fresh and self.phase != "review" and not (self.usage_log and self.usage_log.cut_off):
            return None
        label = self._home_label(name)
        session = self.usage_log.session(label) if self.usage_log and self.home.is_of(label) else None
        return session if session and session.model == model else None

    def read_home(self, name: str, pattern: str) -> str:
        """The newest file of that HOME that matches, without credentials; "" where there is none."""
        return _read_home(self.home, self._home_label(name), pattern, self.secrets)

    def note_prompt(self, prompt: str) -> None:
        """Notes what a program is asked, before it starts."""

    def start(self, spec: LaunchSpec) -> ProgramResult:
        """Runs the program to its end. Its output is in the result, and shown as it comes, both without credentials.

        Raises LimitReached where a limit or a person ended it: nobody else is asked, and it is charged.
        """
        project, confines = self.project, self.project.confines
        prompt = spec.prompt or self.prompt
        self.note_prompt(prompt)
        recreate_folder(self.files)
        (self.files / "usage.json").touch()
        (self.files / "prompt.md").write_text(prompt, encoding="utf-8", errors="replace")
        (self.files / "brief.json").write_text(self.secrets.redact_text(as_json(self.brief)))
        credentials = inherited_variables(spec.login.variables)
        contract = {
            "GOALSEEK_ITERATION": str(self.context.iteration),
            "GOALSEEK_PHASE": self.phase,
            "GOALSEEK_NONCE": self.nonce,
            "GOALSEEK_METRIC": self.manifest.metric.name,
            "GOALSEEK_DIRECTION": self.manifest.metric.direction,
            "GOALSEEK_INCUMBENT": repr(self.context.incumbent_value),
            "GOALSEEK_PROJECT_ROOT": str(confines.seen_at(self.tree, self.folder)).rstrip("/"),
            "GOALSEEK_PROMPT": str(self.files / "prompt.md"),
            "GOALSEEK_BRIEF": str(self.files / "brief.json"),
            "GOALSEEK_USAGE": str(self.files / "usage.json"),
        }
        variables = {**credentials, **spec.variables, **contract}
        environment = program_environment(self.manifest.env.agent, variables, project.places.scratch / "tmp")
        self.secrets.add_variables({**credentials, **credentials_in_manifest(self.manifest.env.agent)})
        self.secrets.add_files(file.real for file in spec.login.files)
        with self._hold_login(spec):
            access = self._program_access(spec)
            shown = [path.relative_to(confines.top) for path in access.readable if path.is_relative_to(confines.top)]
            placeholders = [file for path in shown if not (file := self.tree / path).exists()]
            launch = confines.launch(access, spec.arguments, environment, self.folder)
            on_output = self.secrets.stream(project.watch.on_output)
            try:
                result = self._run_watched(spec, launch, prompt, on_output)
                on_output(b"")
            finally:
                for path in placeholders if confines.mounts else ():  # the empty file on which the program was mounted
                    remove_if_exists(path)
        refuse_full(self.files)  # half an edit is no proposal
        redact = self.secrets.redact
        return structs.replace(result, stdout=redact(result.stdout), stderr=redact(result.stderr))

    def _run_watched(
        self, spec: LaunchSpec, launch: Launch, prompt: str, on_output: Callable[[bytes], object]
    ) -> ProgramResult:
        """Runs the program, in the usage log and under the limits of the run where it counts."""
        project, usage_log, label = self.project, self.usage_log, self._home_label(spec.home)
        stdin = prompt.encode("utf-8", "replace") if spec.has_input else b""
        if usage_log is None:
            return project.programs.run(launch, on_output, spec.timeout, stdin, spec.kept_bytes)
        session, asked = usage_log.last_session(label), (spec.provider, spec.model)

        def read_usage_so_far(stdout: bytes) -> Usage:
            printed = Printed(0, stdout.decode("utf-8", "replace"), "", lambda path: self.read_home(spec.home, path))
            reported = read_usage(self.files / "usage.json")
            return project.provider().partial_usage(asked, printed, reported, session)

        watch = CallWatch(project, self.manifest.limits, usage_log, read_usage_so_far, spec.waits)

        def note_output(chunk: bytes) -> None:
            watch.note_output(chunk)
            on_output(chunk)

        usage_log.begin(project.activity.last_phase, label, asked)
        with contextlib.closing(watch):
            result = project.programs.run(
                launch, note_output, spec.timeout, stdin, spec.kept_bytes, must_end=watch.must_end
            )
        is_ended = watch.stop is not None or watch.is_waiting
        is_cut_short = result.timed_out or watch.stop is not None or was_killed(result)
        usage_log.note_end(0 if is_ended else result.killed, is_cut_short and not watch.is_waiting)
        if watch.stop:
            name = spec.provider or "the provider"
            why = f"{name} was ended: {watch.stop.why}"
            project.watch.on_note(why)
            usage_log.note_failure(project.activity.last_phase, why, read_usage_so_far(result.stdout))
            raise LimitReached(watch.stop)
        return result

    def _home_label(self, name: str) -> str:
        return f"{self.label} {name}"

    def _program_access(self, spec: LaunchSpec) -> ProgramAccess:
        # The agent's own program, where it is a file of the user's checkout: that is run, not the workspace's.
        program = Path(spec.arguments[0])
        own = [program] if program.is_relative_to(self.project.confines.top) and program.is_file() else []
        return ProgramAccess(
            tree=self.tree,
            commands=[list(spec.named or spec.arguments)],
            readable=(self.files / "prompt.md", self.files / "brief.json", *own),
            writable=(self.files / "usage.json",),
            network=self.manifest.sandbox.agent_network,
            home=self.home.path if spec.home or spec.login.files else None,
            credentials=tuple(file.real for file in spec.login.files),
        )

    @contextlib.contextmanager
    def _hold_login(self, spec: LaunchSpec) -> Iterator[None]:
        """Makes the HOME with the login in it, and locks the login against other climbs while this block lasts."""
        if not spec.home and not spec.login.files:
            yield
            return
        project, home = self.project, self.home
        with contextlib.ExitStack() as locks:
            waiting, folder = project.activity.waiting, cache_folder() / "logins"
            for name in sorted(str(file.real) for file in spec.login.files):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                doing, holders = "is at work with that login", project.login_holders[name]
                locks.enter_context(exclusive_lock(name, waiting, project.pause, folder, doing, holders))
            path_of = project.confines.credential_at
            links = {file.below_home: (file.real, path_of(file.real)) for file in spec.login.files if file.below_home}
            home.make(self._home_label(spec.home), links, spec.home_files)
            try:
                yield
            finally:
                self.secrets.add_files(home.path / file.below_home for file in spec.login.files if file.below_home)
                self.secrets.add_files(file.real for file in spec.login.files)
                home.collect_renewed_logins(is_shared=any(len(using) > 1 for using in project.login_holders.values()))
                home.redact(self.secrets)  # the session is resumed by a later process, if this one ends before a record


def usage_left(project: Project, places: CachePaths, call: CallEntry, session: Session | None) -> Usage:
    """What a call had used that was killed together with goalseek, by the files that it left in these places."""
    reported = read_usage(places.call / "usage.json")
    home = _home_of(places, is_reviewer=call.phase == Phase.REVIEW)
    printed = Printed(0, "", "", lambda pattern: _read_home(home, call.home, pattern, Redactor()))
    try:
        return project.provider().partial_usage((call.provider, call.model), printed, reported, session)
    except GoalseekError:  # a baseline is measured without a provider
        return reported


def _home_of(places: CachePaths, is_reviewer: bool) -> AgentHome:
    return AgentHome(places.reviewer if is_reviewer else places.agent)


def _read_home(home: AgentHome, label: str, pattern: str, secrets: Redactor) -> str:
    with contextlib.suppress(OSError):
        if home.is_of(label):
            return secrets.redact(home.read(pattern)).decode("utf-8", "replace")
    return ""
