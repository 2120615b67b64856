"""Providers: what they get, give and raise. One sees neither repository nor ledger nor decision, only its call."""

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
    """A program to start, and what it gets beyond what every provider gets.

    ``variables`` add to its environment. ``named`` are the arguments whose programs it may see, where these are not
    all of ``arguments``. ``login`` is the credentials that it may have. ``home`` names a throw-away HOME that lasts for
    the iteration; "" for one of this call only. ``home_files`` are put there first. ``timeout`` is in seconds. Where
    it ``has_input``, the prompt is on its standard input. ``kept_bytes`` are read of what it prints, head and tail.
    ``provider`` and ``model`` are those whose ``partial_reply`` reads what it has used.
    It is ended two minutes after it printed the pattern ``waits``, if no row of JSON followed.
    """

    arguments: tuple[str, ...]
    variables: Mapping[str, str] = {}
    named: tuple[str, ...] = ()
    login: Login = Login()
    timeout: float | None = None
    home: str = ""
    home_files: Mapping[str, str] = {}
    has_input: bool = True
    kept_bytes: int = KEPT_BYTES
    provider: str = ""
    model: str = ""
    waits: str = ""


class CallHost:
    """What a provider can have done for its call. The defaults are those of a call that belongs to no iteration."""

    def start(self, call: Call, spec: LaunchSpec) -> ProgramResult:
        """Runs a program in the call's folder, with its prompt on standard input."""
        raise TypeError(f"a call without a workspace starts no program: {spec.arguments[0]}")

    def wait(self, seconds: float, why: str) -> bool:
        """Waits; gives False at once where the run ends before."""
        return False

    def prepare(self, name: str, model: str) -> None:
        """To be called before a provider is asked, which never sees the edits of another."""

    def on_retry(self, why: str, usage: Usage, is_told: bool = False) -> None:
        """To be called before the same question is asked again, with the cost of the failed try.

        Undoes the edits of that one, unless its session can go on. ``is_told``: the wait that follows says why.
        """

    def session(self, name: str, model: str) -> Session | None:
        """The last session of this iteration with that program and model; None where it cannot be resumed."""
        return None

    def save_session(self, session: Session) -> None: ...

    def resume_prompt(self) -> str:
        """What to ask in the session of a call that was cut off; "" where none was."""
        return ""

    def read_home(self, name: str, pattern: str) -> str:
        """The text of the newest file in the HOME of that name; "" where there is none."""
        return ""

    def baseline_file(self, path: str) -> bytes | None:
        """The bytes that a file of ``Call.writable`` had at the baseline; None where there was none."""
        return None

    def dollars_left(self) -> float | None:
        """What the run may still spend; None without such a limit."""
        return None

    def record(self, reply: Reply, rejected: Rejected | None, patch: bytes) -> None:
        """To be called with the reply, or the rejection, and the patch of the call."""


class Call(Struct, frozen=True):
    """One question to a provider. ``history`` is what was tried under this ruler, newest first.

    ``folder`` is the manifest's folder in the workspace, the current folder of whatever is started. ``writable``
    names the existing files that it may edit, relative to ``folder``. A program may report its usage in ``usage_file``;
    ``prompt_file`` and ``home_at`` are where it finds its prompt and its HOME. ``confined``: a sandbox is in force.
    ``secrets`` removes credentials from texts. ``name`` is unique within the iteration: the phase, numbered from its
    second call on. ``resumed_prompt`` asks the same of an agent that goes on in the session of its last answer, without
    what it was told there; "" where a session changes nothing. ``answered`` are name and model of each provider whose
    answers are recorded in this run. ``search``: the agent may search the web. ``file_list`` is the part of ``prompt``
    that lists files.
    """

    phase: str
    context: Context
    history: tuple[PastIteration, ...]
    folder: Path
    writable: tuple[str, ...]
    prompt: str
    brief: dict[str, Any]
    nonce: str
    metric: str
    direction: str
    host: CallHost
    usage_file: Path
    prompt_file: Path = Path("prompt.md")
    home_at: Path = Path("/home/goalseek")
    confined: bool = False
    secrets: Redactor = field(default_factory=Redactor)
    name: str = ""
    resumed_prompt: str = ""
    answered: frozenset[tuple[str, str]] = frozenset()
    search: bool = False
    file_list: str = ""


class Reply(Struct, frozen=True):
    """What a provider answered: a title and a text for people, the files it means to change or changed, its usage.

    ``output`` is all that it printed, for ``provider_output.md``. A plan with an empty title comes with the change.
    ``later`` are its ideas for later rounds, ``script`` the digest of a script's moves up to this one. ``tried`` is
    what it says to have tried and seen.
    A review's title is the verdict, "" where none can be read, and its text has a line of reason for each criterion.
    ``provider`` and ``model`` are the names in the manifest, ``answered_by`` the model's name as the agent reports it.
    """

    title: str
    text: str = ""
    files: tuple[str, ...] = ()
    output: str = ""
    usage: Usage = Usage()
    provider: str = ""
    model: str = ""
    answered_by: str = ""
    later: tuple[str, ...] = ()
    script: str = ""
    tried: str = ""


class WritableFile(Struct, frozen=True):
    """A file that a provider may edit; ``read`` gives its bytes."""

    path: str
    read: Callable[[], bytes]


class Provider(ABC):
    """One way to get a proposal. What has a default here is that of a provider which starts no program.

    ``needs_consent``: it runs a program that may run without a sandbox, which the user must allow. ``needs_sandbox``:
    it runs commands without asking, and so needs a sandbox. ``reports_usage``: each call that reached a model reports
    tokens, so that one without any has reached none. ``repairs``: it can mend a change when it is told the problem.
    ``timeout`` is the seconds after which its program is ended, ``words`` the program and its first arguments.
    """

    name: str
    model: str = ""
    needs_consent: bool = False
    needs_sandbox: bool = False
    reports_usage: bool = False
    repairs: bool = True
    timeout: float | None = None
    words: tuple[str, ...] = ()

    @property
    def has_login(self) -> bool:
        """Whether the credentials that it needs are there."""
        return True

    def is_subscription(self) -> bool:
        """Whether a subscription pays, so that the cost that a call reports is not charged."""
        return False

    def check(self) -> None:  # noqa: B027 - most can always start
        """Raises GoalseekError with the remedy where this provider cannot start."""

    def look_over(self, files: Iterable[WritableFile]) -> str:
        """What it will do with the files that it may edit, in words. Raises GoalseekError where that is nothing."""
        return ""

    def played_out(self, attempt: int, played: Played | None = None) -> str:
        """Why it has nothing prepared for the proposal after ``attempt`` others; "" where it can make one."""
        return ""

    def partial_reply(self, printed: Printed, reported: Usage, session: Session | None) -> Reply:
        """Usage and model of a call that was killed or still runs, by what its program printed and left in its HOME.

        ``reported`` is the usage in ``Call.usage_file``, ``session`` the last one in that HOME before the call.
        """
        return Reply("", usage=reported)

    def render(self, plan: Plan, files: Iterable[WritableFile]) -> dict[str, bytes] | None:
        """The contents that the plan gives some of these files; None where only an edited tree has its change."""
        return None

    @abstractmethod
    def plan(self, call: Call) -> Reply:
        """The change that it means to make. Raises Rejected("skipped", ...) where it cannot."""

    @abstractmethod
    def apply(self, call: Call, plan: Plan) -> Reply:
        """Makes the change in ``call.folder``. Raises Rejected("skipped", ...) where it cannot."""


class Reviewer(Provider):
    """A provider that can also judge what another one changed."""

    @abstractmethod
    def review(self, call: Call) -> Reply:
        """Judges the change in ``call.folder``. Raises Rejected("skipped", ...) where it cannot."""
