"""The contract of providers. One sees neither repository nor ledger nor decision, only its call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from goalseek.errors import Rejected
from goalseek.phase_values import Context, PastIteration, Plan, Played, Session
from goalseek.providers.credentials import Login
from goalseek.providers.preset import Printed
from goalseek.sandbox.environment import Redactor
from goalseek.sandbox.supervisor import KEPT_BYTES, ProgramResult
from goalseek.values import Usage


class LaunchSpec(Struct, frozen=True):
    arguments: tuple[str, ...]
    variables: Mapping[str, str] = {}
    named: tuple[str, ...] = ()  # the arguments whose programs it may see; () for all
    login: Login = Login()
    timeout: float | None = None  # seconds
    home: str = ""  # the name of a throw-away HOME that lasts for the iteration; "" for one of this call only
    home_files: Mapping[str, str] = {}
    has_input: bool = True  # the prompt is on its standard input
    kept_bytes: int = KEPT_BYTES  # of its output, head and tail
    provider: str = ""  # its ``partial_reply`` reads the usage
    model: str = ""
    waits: str = ""  # it is ended two minutes after it printed this pattern, if no row of JSON followed


class CallHost:
    """Services for a call. The defaults are for a call that belongs to no iteration."""

    def start(self, call: Call, spec: LaunchSpec) -> ProgramResult:
        """Run a program in the call's folder, with its prompt on standard input."""
        raise TypeError(f"a call without a workspace starts no program: {spec.arguments[0]}")

    def wait(self, seconds: float, why: str) -> bool:
        """False at once if the run ends before."""
        return False

    def prepare(self, name: str, model: str) -> None:
        """Called before a provider is asked, which never sees another's edits."""

    def on_retry(self, why: str, usage: Usage, is_told: bool = False) -> None:
        """Called before the same question is asked again, with the cost of the failed try.

        Undoes that try's edits, unless its session can go on. ``is_told``: the wait that follows says why.
        """

    def session(self, name: str, model: str) -> Session | None:
        """The last session of this iteration with that program and model; None if it cannot be resumed."""
        return None

    def save_session(self, session: Session) -> None: ...

    def resume_prompt(self) -> str:
        """The prompt for the session of a call that was cut off; "" if none was."""
        return ""

    def read_home(self, name: str, pattern: str) -> str:
        """The text of the newest matching file in that HOME; "" if there is none."""
        return ""

    def baseline_file(self, path: str) -> bytes | None:
        """The bytes at the baseline of a file in ``Call.writable``; None if it did not exist."""
        return None

    def dollars_left(self) -> float | None:
        """None without such a limit."""
        return None

    def record(self, reply: Reply, rejected: Rejected | None, patch: bytes) -> None:
        """Called with the reply, or the rejection, and the call's patch."""


class Prompts(Struct, frozen=True):
    fresh: str
    resumed: Callable[[], str] = str  # in the session of its last answer; "" if a session changes nothing
    file_list: str = ""  # the part that lists files


class Call(Struct, frozen=True):
    phase: str
    context: Context
    history: tuple[PastIteration, ...]  # the tries under this ruler, newest first
    folder: Path  # the manifest's in the workspace, the current folder of whatever is started
    writable: tuple[str, ...]  # the existing files that it may edit, relative to ``folder``
    prompts: Callable[[], Prompts]  # made when they are first read
    brief: dict[str, Any]
    nonce: str
    metric: str
    direction: str
    host: CallHost
    usage_file: Path  # in which a program may report its usage
    prompt_file: Path = Path("prompt.md")
    home_at: Path = Path("/home/goalseek")  # where a program finds its HOME
    confined: bool = False  # a sandbox is in force
    secrets: Redactor = field(default_factory=Redactor)
    name: str = ""  # unique within the iteration: the phase, numbered from its second call on
    answered: frozenset[tuple[str, str]] = frozenset()  # names and models of those with recorded answers in this run
    search: bool = False  # the agent may search the web

    @property
    def prompt(self) -> str:
        return self.prompts().fresh


class Reply(Struct, frozen=True):
    """A provider's answer. A review's title is the verdict, "" if unreadable; its text has a line for each reason."""

    title: str  # "" of a plan that comes with the change
    text: str = ""
    files: tuple[str, ...] = ()  # to be changed, or changed
    output: str = ""  # all that it printed
    usage: Usage = Usage()
    provider: str = ""  # the names in the manifest
    model: str = ""
    answered_by: str = ""  # the model's name as the agent reports it
    later: tuple[str, ...] = ()  # its ideas for later rounds
    script: str = ""  # the digest of a script's moves up to this one
    tried: str = ""  # its account of tries and results


class WritableFile(Struct, frozen=True):
    path: str
    read: Callable[[], bytes]


class Provider(ABC):
    """One way to get a proposal. The defaults are for a provider that starts no program."""

    name: str
    model: str = ""
    needs_consent: bool = False  # it runs a program that may run without a sandbox, which the user must allow
    needs_sandbox: bool = False  # it runs commands without asking
    reports_usage: bool = False  # a call that reports no tokens has reached no model
    repairs: bool = True  # it can mend a change when it is told the problem
    timeout: float | None = None  # seconds after which its program is ended
    words: tuple[str, ...] = ()  # the program and its first arguments

    @property
    def has_login(self) -> bool:
        """Whether the credentials that it needs are there."""
        return True

    def is_subscription(self) -> bool:
        """Whether a subscription pays, so that the reported cost is not charged."""
        return False

    def check(self) -> None:  # noqa: B027 - most can always start
        """Raises GoalseekError with the remedy if this provider cannot start."""

    def look_over(self, files: Iterable[WritableFile]) -> str:
        """Its use of the editable files, in words. Raises GoalseekError if it has none."""
        return ""

    def played_out(self, attempt: int, played: Played | None = None) -> str:
        """The reason why it has no proposal after ``attempt`` others; "" if it has one."""
        return ""

    def partial_reply(self, printed: Printed, reported: Usage, session: Session | None) -> Reply:
        """Usage and model of a killed or running call, by its program's output and HOME.

        ``reported`` is the usage in ``Call.usage_file``, ``session`` the last one in that HOME before the call.
        """
        return Reply("", usage=reported)

    def render(self, plan: Plan, files: Iterable[WritableFile]) -> dict[str, bytes] | None:
        """Contents that the plan gives some of these files; None if only an edited tree has its change."""
        return None

    @abstractmethod
    def plan(self, call: Call) -> Reply:
        """The planned change. Raises Rejected("skipped", ...)."""

    @abstractmethod
    def apply(self, call: Call, plan: Plan) -> Reply:
        """Make the change in ``call.folder``. Raises Rejected("skipped", ...)."""


class Reviewer(Provider):
    @abstractmethod
    def review(self, call: Call) -> Reply:
        """Judge the change in ``call.folder``. Raises Rejected("skipped", ...)."""
