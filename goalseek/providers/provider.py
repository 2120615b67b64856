"""What every provider is: something that plans a change, and makes it in the folder it is given.

A provider never sees the repository, the ledger or the decision: all that it may know is in its call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from goalseek.programs import Finished
from goalseek.values import Context, PastTry, Plan, Usage

Start = Callable[[Sequence[str], Mapping[str, str]], Finished]


@dataclass(frozen=True)
class Call:
    """One question to a provider. ``history`` is what was tried under this ruler, newest first.

    ``folder`` is the manifest's folder in the workspace, the current folder of whatever is started. ``writable``
    names the existing files that it may edit, relative to ``folder``. ``start`` runs a program there, with the prompt
    on its standard input, under the provider's time limit; the mapping adds to its environment. ``usage_file`` is
    where such a program may report its usage.
    """

    phase: str
    context: Context
    history: tuple[PastTry, ...]
    folder: Path
    writable: tuple[str, ...]
    prompt: str
    brief: dict[str, Any]
    nonce: str
    metric: str
    direction: str
    start: Start
    usage_file: Path


@dataclass(frozen=True)
class Reply:
    """What a provider answered: a title and a text for people, the files it means to change or changed, its usage.

    ``output`` is all that it printed, for ``provider_output.md``. An empty title says: I shall tell when I have edited.
    """

    title: str
    text: str = ""
    files: tuple[str, ...] = ()
    output: str = ""
    usage: Usage = Usage()


@dataclass(frozen=True)
class WritableFile:
    """A file that a provider may edit; ``read`` gives its bytes."""

    path: str
    read: Callable[[], bytes]


class Provider(Protocol):
    """One way to get a proposal."""

    @property
    def name(self) -> str:
        """The name in the manifest."""

    @property
    def model(self) -> str:
        """The model, "" where there is none."""

    @property
    def needs_consent(self) -> bool:
        """Whether it runs a program that nothing keeps in its place."""

    def check(self) -> None:
        """Raises GoalseekError with the remedy where this provider cannot start."""

    def look_over(self, files: Iterable[WritableFile]) -> str:
        """What it will do with the files that it may edit, in words. Raises GoalseekError where that is nothing."""

    def plan(self, call: Call) -> Reply:
        """Says what it means to change. Raises Rejected("skipped", ...) where it cannot."""

    def apply(self, call: Call, plan: Plan) -> Reply:
        """Makes the change in ``call.folder``. Raises Rejected("skipped", ...) where it cannot."""
