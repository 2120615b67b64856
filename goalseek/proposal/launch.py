"""Launching an agent's program: in its tree, sandboxed, with its prompt, HOME and login, and nothing else.

Credentials are redacted from its output before anybody sees it.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, field, structs

from goalseek.disk import recreate_folder, refuse_full, remove_if_exists
from goalseek.errors import GoalseekError
from goalseek.locks import exclusive_lock
from goalseek.manifest.tables import Manifest
from goalseek.phase_values import Session
from goalseek.process import inherited_variables
from goalseek.project.project import Project
from goalseek.proposal.brief import as_json
from goalseek.proposal.usage import CallEntry
from goalseek.providers.answer import read_usage
from goalseek.providers.preset import Printed
from goalseek.providers.provider import Call, CallHost, LaunchSpec
from goalseek.sandbox.environment import Redactor, credentials_in_manifest, program_environment
from goalseek.sandbox.home import AgentHome
from goalseek.sandbox.policy import ProgramAccess
from goalseek.sandbox.supervisor import ProgramResult
from goalseek.sandbox.view import Launch
from goalseek.values import Phase, Usage
from goalseek.workspace.places import CachePaths, cache_folder


def forget_calls(*lanes: CachePaths) -> None:
    """Remove traces of calls that nobody resumes: agents write their credentials into HOME and other files."""
    for lane in lanes:
        with contextlib.suppress(OSError):  # a login that cannot be put back now stays there for the next invocation
            for folder in (lane.agent, lane.reviewer):
                AgentHome(folder).empty()
            remove_if_exists(lane.call)


class AgentLaunch(CallHost, Struct):
    project: Project
    manifest: Manifest
    tree: Path
    label: str  # HOME is reused while it is equal
    is_reviewer: bool = False
    secrets: Redactor = field(default_factory=Redactor)

    def call(self, **more: Any) -> Call:
        project, files = self.project, self.project.places.call
        return Call(
            folder=self.tree / project.places.prefix,
            metric=self.manifest.metric.name,
            direction=self.manifest.metric.direction,
            host=self,
            usage_file=files / "usage.json",
            prompt_file=files / "prompt.md",
            home_at=project.confines.home_at(self.home.path),
            confined=project.confines.level.name != "none",
            search=self.manifest.sandbox.agent_search,
            secrets=self.secrets,
            **more,
        )

    @property
    def home(self) -> AgentHome:
        places = self.project.places
        return AgentHome(places.reviewer if self.is_reviewer else places.agent)

    def home_label(self, name: str) -> str:
        return f"{self.label} {name}"

    def read_home(self, name: str, pattern: str) -> str:
        return _read_home(self.home, self.home_label(name), pattern, self.secrets)

    def run(
        self, call: Call, spec: LaunchSpec, launch: Launch, stdin: bytes, on_output: Callable[[bytes], object]
    ) -> ProgramResult:
        return self.project.programs.run(launch, on_output, spec.timeout, stdin, spec.kept_bytes)

    def start(self, call: Call, spec: LaunchSpec) -> ProgramResult:
        """Run the program to its end; its output has no credentials. Raises LimitReached."""
        project, confines = self.project, self.project.confines
        brief_file = call.prompt_file.with_name("brief.json")
        recreate_folder(brief_file.parent)
        prompt, brief = call.prompt.encode("utf-8", "replace"), self.secrets.redact(as_json(call.brief).encode())
        for path, content in ((call.prompt_file, prompt), (brief_file, brief), (call.usage_file, b"")):
            path.write_bytes(content)
        credentials = inherited_variables(spec.login.variables)
        contract = {
            "GOALSEEK_ITERATION": str(call.context.iteration),
            "GOALSEEK_PHASE": call.phase,
            "GOALSEEK_NONCE": call.nonce,
            "GOALSEEK_METRIC": call.metric,
            "GOALSEEK_DIRECTION": call.direction,
            "GOALSEEK_INCUMBENT": repr(call.context.incumbent_value),
            "GOALSEEK_PROJECT_ROOT": str(confines.seen_at(self.tree, call.folder)).rstrip("/"),
            "GOALSEEK_PROMPT": str(call.prompt_file),
            "GOALSEEK_BRIEF": str(brief_file),
            "GOALSEEK_USAGE": str(call.usage_file),
        }
        variables = {**credentials, **spec.variables, **contract}
        environment = program_environment(self.manifest.env.agent, variables, project.places.scratch / "tmp")
        self.secrets.add([*credentials.values(), *credentials_in_manifest(self.manifest.env.agent).values()])
        self.secrets.add_files(file.real for file in spec.login.files)
        # An agent's program in the user's checkout is run from there, not from the workspace.
        program = Path(spec.arguments[0])
        own = [program] if program.is_relative_to(confines.top) and program.is_file() else []
        access = ProgramAccess(
            tree=self.tree,
            commands=[list(spec.named or spec.arguments)],
            readable=(call.prompt_file, brief_file, *own),
            writable=(call.usage_file,),
            network=self.manifest.sandbox.agent_network,
            home=self.home.path if spec.home or spec.login.files else None,
            credentials=tuple(file.real for file in spec.login.files),
        )
        with self._hold_login(spec):
            seen = access.readable if confines.mounts else ()
            shown = [path.relative_to(confines.top) for path in seen if path.is_relative_to(confines.top)]
            placeholders = [file for path in shown if not (file := self.tree / path).exists()]
            launch = confines.launch(access, spec.arguments, environment, call.folder)
            on_output = self.secrets.stream(project.watch.on_output)
            try:
                result = self.run(call, spec, launch, prompt if spec.has_input else b"", on_output)
                on_output(b"")
            finally:
                for path in placeholders:  # the empty file on which the program was mounted
                    remove_if_exists(path)
        refuse_full(brief_file.parent)  # half an edit is no proposal
        redact = self.secrets.redact
        return structs.replace(result, stdout=redact(result.stdout), stderr=redact(result.stderr))

    @contextlib.contextmanager
    def _hold_login(self, spec: LaunchSpec) -> Iterator[None]:
        """In this block the HOME has the login, locked against other climbs."""
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
            home.make(self.home_label(spec.home), links, spec.home_files)
            try:
                yield
            finally:
                self.secrets.add_files(home.path / file.below_home for file in spec.login.files if file.below_home)
                self.secrets.add_files(file.real for file in spec.login.files)
                home.collect_renewed_logins()
                home.redact(self.secrets)  # the session is resumed by a later process, if this one ends before a record


def usage_left(project: Project, places: CachePaths, call: CallEntry, session: Session | None) -> Usage:
    """Usage of a call that was killed together with goalseek, by the files that it left."""
    reported = read_usage(places.call / "usage.json")
    home = AgentHome(places.reviewer if call.phase == Phase.REVIEW else places.agent)
    printed = Printed(0, "", "", lambda pattern: _read_home(home, call.home, pattern, Redactor()))
    try:
        return project.provider().partial_usage((call.provider, call.model), printed, reported, session)
    except GoalseekError:  # a baseline is measured without a provider
        return reported


def _read_home(home: AgentHome, label: str, pattern: str, secrets: Redactor) -> str:
    """The newest matching file of that HOME, without credentials; "" if there is none."""
    with contextlib.suppress(OSError):
        if home.is_of(label):
            return secrets.redact(home.read(pattern)).decode("utf-8", "replace")
    return ""
